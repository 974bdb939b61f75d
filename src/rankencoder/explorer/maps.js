// Two canvases with the same sentences. Sentences are only ever set as text, never as HTML.
const MARGIN = 16, REACH = 14, NEAR = 26, SHOWN = 200, STEP = 0.03;
const root = element.querySelector(".re-maps");
const find = selector => root.querySelector(selector);
const about = find("[data-about]"), said = find("[data-said]"), heading = find(".re-list h3"), list = find(".re-list ol");
const filter = find("input"), clear = find("[data-clear]"), chips = find(".re-clusters");
const kinds = [...root.querySelectorAll("[data-kind]")];
let sentences = [], clusters = [], selected = new Set(), active = -1, teller = null;

class MapOfSentences {
  constructor(figure) {
    this.space = figure.dataset.space;
    this.canvas = figure.querySelector("canvas");
    this.tip = figure.querySelector(".re-tip");
    this.points = [];
    this.cursor = null; // of the keyboard: place and reach, in pixels
    this.box = null; // that is being dragged: from and to
    this.canvas.placeOf = i => this.place(i); // for tests
    const on = (name, act) => this.canvas.addEventListener(name, act);
    on("pointerdown", event => this.press(event));
    on("pointermove", event => this.move(event));
    on("pointerup", event => this.release(event));
    on("pointercancel", () => { this.box = null; drawAll(); });
    on("pointerleave", event => { if (!this.box && event.pointerType !== "touch") point(-1, this); }); // a finger always leaves
    on("keydown", event => this.key(event));
    on("blur", () => { this.cursor = null; if (!this.tip.hidden) point(-1, this); else this.draw(); }); // the other map may tell one by now
    new ResizeObserver(() => this.draw()).observe(this.canvas);
  }

  get size() { return this.canvas.clientWidth; }

  place(i) {
    const inner = this.size - 2 * MARGIN, [x, y] = this.points[i];
    return [MARGIN + (x + 1) / 2 * inner, MARGIN + (1 - y) / 2 * inner];
  }

  at(event) {
    const box = this.canvas.getBoundingClientRect(), { clientLeft, clientTop } = this.canvas;
    return [event.clientX - box.left - clientLeft, event.clientY - box.top - clientTop];
  }

  within(test) { return this.points.map((_, i) => i).filter(i => test(...this.place(i))); }

  around([x, y], reach) {
    const far = i => { const [a, b] = this.place(i); return Math.hypot(a - x, b - y); };
    return this.within((a, b) => Math.hypot(a - x, b - y) <= reach).sort((i, j) => far(i) - far(j));
  }

  nearest([x, y], reach) {
    let best = -1, least = reach;
    this.points.forEach((_, i) => {
      const [a, b] = this.place(i), distance = Math.hypot(a - x, b - y);
      if (distance <= least) [best, least] = [i, distance];
    });
    return best;
  }

  press(event) {
    if (event.button) return;
    const from = this.at(event);
    this.box = { from, to: from };
    this.cursor = null;
    this.canvas.setPointerCapture(event.pointerId);
  }

  move(event) {
    const to = this.at(event);
    if (!this.box) return point(this.nearest(to, REACH), this);
    this.box.to = to;
    drawAll();
  }

  release(event) {
    if (!this.box) return;
    const { from } = this.box, to = this.at(event);
    this.box = null;
    const [left, right] = [from[0], to[0]].sort((a, b) => a - b);
    const [top, bottom] = [from[1], to[1]].sort((a, b) => a - b);
    if (Math.max(right - left, bottom - top) > 6) {
      mark(this.within((x, y) => x >= left && x <= right && y >= top && y <= bottom), "in this region");
    } else {
      point(this.nearest(to, REACH), this);
      mark(this.around(to, NEAR), "near this place");
    }
  }

  key(event) {
    const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (way) {
      const step = this.size * STEP * (event.shiftKey ? 5 : 1);
      const { at } = this.cursor ?? { at: [this.size / 2, this.size / 2] };
      const kept = value => Math.min(this.size - MARGIN, Math.max(MARGIN, value));
      this.cursor = { at: [kept(at[0] + way[0] * step), kept(at[1] + way[1] * step)], reach: NEAR, grown: false };
      point(this.nearest(this.cursor.at, NEAR), this, true);
    } else if (event.key === "Enter" || event.key === " ") {
      this.cursor ??= { at: [this.size / 2, this.size / 2], reach: NEAR, grown: false };
      if (this.cursor.grown) this.cursor.reach *= 1.5;
      this.cursor.grown = true;
      mark(this.around(this.cursor.at, this.cursor.reach), "near this place");
    } else if (event.key === "Escape") {
      this.cursor = null;
      point(-1, this);
      mark([], "");
    } else return;
    event.preventDefault();
  }

  draw() {
    if (!this.size || !this.points.length) return;
    const style = getComputedStyle(root), color = name => style.getPropertyValue(`--re-${name}`).trim();
    const sharp = window.devicePixelRatio || 1, pen = this.canvas.getContext("2d");
    this.canvas.width = this.canvas.height = Math.round(this.size * sharp);
    pen.scale(sharp, sharp);
    const dot = (i, size) => { pen.beginPath(); pen.arc(...this.place(i), size, 0, 7); };
    const colors = [...Array(8).keys()].map(i => color(`cluster-${i}`)), plain = color(chips.childElementCount ? "muted" : this.space);
    const paint = i => { pen.fillStyle = clusters[i] >= 0 ? colors[clusters[i] % 8] : plain; };
    pen.globalAlpha = selected.size ? 0.16 : 0.5;
    this.points.forEach((_, i) => { if (!selected.has(i)) { paint(i); dot(i, 2.6); pen.fill(); } });
    pen.globalAlpha = 1;
    pen.strokeStyle = color("ink");
    pen.lineWidth = 1.2;
    selected.forEach(i => { paint(i); dot(i, 4.2); pen.fill(); pen.stroke(); });
    if (active >= 0) {
      pen.lineWidth = 2.5;
      paint(active); dot(active, 7.5); pen.fill(); pen.stroke();
    }
    pen.setLineDash([5, 4]);
    pen.lineWidth = 1.5;
    if (this.cursor) { pen.beginPath(); pen.arc(...this.cursor.at, this.cursor.reach, 0, 7); pen.stroke(); }
    if (this.box) {
      const { from, to } = this.box;
      pen.strokeRect(from[0], from[1], to[0] - from[0], to[1] - from[1]);
    }
    pen.setLineDash([]);
  }

  tell(i) {
    this.tip.hidden = i < 0;
    if (i < 0) return;
    this.tip.textContent = sentences[i];
    const [x, y] = this.place(i), width = this.tip.offsetWidth, height = this.tip.offsetHeight;
    this.tip.style.left = `${Math.min(this.size - width - 4, Math.max(4, x - width / 2))}px`;
    this.tip.style.top = `${y > height + 18 ? y - height - 14 : y + 14}px`;
  }
}

const maps = [...root.querySelectorAll("figure")].map(figure => new MapOfSentences(figure));
const drawAll = () => maps.forEach(map => map.draw());

function point(i, where, aloud = false) {
  if (i !== active || where !== teller) {
    [active, teller] = [i, where];
    maps.forEach(map => map.tell(map === where ? i : -1));
  }
  if (aloud) said.textContent = i < 0 ? "No sentence here" : sentences[i];
  drawAll();
}

function select(chosen, where) {
  selected = new Set(chosen);
  clear.disabled = !chosen.length && !filter.value;
  const count = chosen.length === 1 ? "1 sentence" : `${chosen.length.toLocaleString("en")} sentences`;
  const part = chosen.length > SHOWN ? `, the first ${SHOWN} listed` : "";
  heading.textContent = where ? `${count} ${where}${part}` : "Nothing selected";
  list.replaceChildren(...chosen.slice(0, SHOWN).map(i => {
    const item = document.createElement("li");
    item.textContent = sentences[i];
    item.addEventListener("pointerenter", () => point(i, null));
    item.addEventListener("pointerleave", () => point(-1, null));
    return item;
  }));
  list.hidden = !chosen.length;
  drawAll();
}

function mark(chosen, where) { // not by the word in the box, which then says nothing
  filter.value = "";
  select(chosen, where);
}

filter.addEventListener("input", () => {
  const wanted = filter.value.trim().toLowerCase();
  const chosen = sentences.map((text, i) => text.toLowerCase().includes(wanted) ? i : -1).filter(i => i >= 0);
  select(wanted ? chosen : [], wanted ? `with “${filter.value.trim()}”` : "");
});
clear.addEventListener("click", () => mark([], ""));
new MutationObserver(drawAll).observe(document.body, { attributes: true, attributeFilter: ["class"] });

function show(kind) {
  about.textContent = "Drawing the maps…";
  kinds.forEach(button => { button.setAttribute("aria-checked", button.dataset.kind === kind); button.disabled = true; });
  return server.map_data(kind).then(data => {
    [sentences, clusters] = [data.sentences, data.clusters];
    maps.forEach(map => { map.points = data.points[map.space]; });
    chips.replaceChildren(...data.names.map((name, i) => {
      const chip = document.createElement("button"), dot = document.createElement("i");
      dot.style.background = `var(--re-cluster-${i % 8})`;
      chip.type = "button";
      chip.append(dot, name);
      chip.addEventListener("click", () => mark(clusters.map((of, j) => of === i ? j : -1).filter(j => j >= 0), `about ${name}`));
      return chip;
    }));
    about.textContent = data.about;
    root.dataset.ready = kind;
    drawAll();
  }).catch(() => { about.textContent = "The maps could not be drawn: reload the page to try again."; })
    .finally(() => kinds.forEach(button => { button.disabled = false; }));
}
kinds.forEach(button => button.addEventListener("click", () => show(button.dataset.kind)));

const seen = new IntersectionObserver(entries => {
  if (!entries.some(entry => entry.isIntersecting)) return;
  seen.disconnect();
  show("PCA");
});
seen.observe(root);
