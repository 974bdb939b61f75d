// Two sentences and four answers. Sentences are only ever set as text, never as HTML.
const MORE = 120;
const root = element.querySelector(".re-label");
const find = selector => root.querySelector(selector);
let pair = null, goal = MORE, busy = false;

function tell(what, text) {
  const place = find(`[data-${what}]`);
  place.textContent = text;
  place.hidden = !text;
}

async function act(key) {
  if (busy) return; // a key that is pressed now is not meant for the next pair
  busy = true;
  try {
    const data = await server.take([key, pair, goal]);
    tell("message", data.message);
    if ("pair" in data) show(data);
  } catch {
    tell("message", "The server does not answer: is it still running?");
  }
  busy = false;
}

function show(data) {
  pair = data.pair;
  [root.dataset.number, find(".re-done").hidden, find(".re-asked").hidden] = [data.number, pair, !pair];
  ["a", "b"].forEach((letter, i) => tell(letter, pair ? pair[i] : ""));
  tell("progress", `${data.number + 1} of ${goal}`);
  tell("number", data.number);
  tell("next", data.next);
  tell("doubts", data.doubts.join(" "));
  root.querySelectorAll("[data-key]").forEach(button => { button.disabled = !pair && button.dataset.key !== "u"; });
  if (data.is_summed_up) server.summarize().then(text => tell("summary", text));
}

root.addEventListener("click", event => {
  const button = event.target.closest("button");
  if (!button) return;
  if (!button.dataset.key) goal = Number(root.dataset.number) + MORE;
  act(button.dataset.key ?? "");
});
document.addEventListener("keydown", event => {
  const typed = event.target.closest("input, textarea, select, [contenteditable]");
  if (typed || event.repeat || event.ctrlKey || event.metaKey || event.altKey || !root.checkVisibility()) return;
  const button = find(`[data-key="${CSS.escape(event.key.toLowerCase())}"]`);
  if (button && !button.disabled) act(button.dataset.key);
});
new IntersectionObserver(entries => { if (!pair && entries.some(entry => entry.isIntersecting)) act(""); }).observe(root);
