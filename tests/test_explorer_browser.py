import json
import re

import numpy as np
import pytest
from live_server import running

from rankencoder import RankEncoder
from rankencoder.blend import blend
from rankencoder.encoders import Encoder
from rankencoder.explorer.explorer_state import ExplorerState
from rankencoder.formatting import number
from rankencoder.search.near_duplicates import find_duplicates
from rankencoder.search.rank_index import RankIndex

pytest.importorskip("lancedb")
sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install playwright")
expect = sync_api.expect
expect.set_options(timeout=120_000)  # a busy machine is no failure

A, B, C = "The cat sees the dog", "A dog sees the cat", "The engine breaks the window"
HOSTILE = "<script>hacked()</script><img src=x onerror=hacked()> ${hacked()} {{hacked()}} & \"'"
TABS = ("Compare", "Maps", "Search")


@pytest.fixture(scope="module")
def model(tiny_folder, sentences):
    return RankEncoder(
        str(tiny_folder), [*sentences, HOSTILE], dim=64, rank_weight=0.3, device="cpu", progress=False
    )


@pytest.fixture(scope="module")
def index(model, sentences, tmp_path_factory):
    rows = [{"text": text, "year": 1900 + i} for i, text in enumerate(sentences[:300])]
    rows.append({"text": HOSTILE, "year": 3000})
    return RankIndex.build(model, rows, tmp_path_factory.mktemp("index") / "my-index")


@pytest.fixture(scope="module")
def state(model, index):
    return ExplorerState(model, index, "tiny")


@pytest.fixture(scope="module")
def url(browser, state):
    from rankencoder.explorer.explorer_app import create_app

    with running(create_app(state)) as address:
        yield address


@pytest.fixture
def open_page(browser, url):
    """Opens the page, and finds fault at the end with any message, error or request to elsewhere."""
    contexts, problems = [], []

    def open_(tab="Compare", **options):
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        contexts.append(context)
        context.add_init_script("window.hacked = () => console.error('hacked')")
        page = context.new_page()
        page.set_default_timeout(120_000)
        page.on("console", lambda message: problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("requestfailed", lambda request: problems.append(f"failed: {request.url}"))
        page.on("request", lambda r: None if r.url.startswith((url, "data:")) else problems.append(r.url))
        page.on("response", lambda r: problems.append(f"{r.status} {r.url}") if r.status >= 400 else None)
        page.goto(url)
        expect(page.locator(".re-pair").first).to_be_visible()
        if tab != "Compare":
            page.get_by_role("tab", name=tab).click()
        if tab == "Maps":
            expect(page.locator(".re-maps[data-ready]")).to_be_visible()
        if tab == "Search":
            expect(page.locator(".re-hits li").first).to_be_visible()
        return page

    yield open_
    for context in contexts:
        context.close()
    assert problems == []


def write(page, letter, text):
    page.get_by_label(f"Sentence {letter}").fill(text)


def value(page, pair, kind):
    return page.locator(f'[data-pair="{pair}"] [data-value="{kind}"]')


def test_typed_sentences_are_compared_as_explain_does(open_page, model):
    page = open_page()
    for letter, text in (("A", A), ("B", B), ("C", "")):
        write(page, letter, text)
    expected = model.explain(A, B, 20)
    expect(page.locator(".re-pair")).to_have_count(1)
    expect(value(page, "AB", "base")).to_have_text(number(expected.cosine, 3))
    expect(value(page, "AB", "ranks")).to_have_text(number(expected.rank_similarity, 3))
    expect(value(page, "AB", "blend")).to_have_text(number(expected.similarity, 3))
    expect(page.locator("[data-shared]")).to_have_text(str(len(expected.shared)))
    first, second = page.locator(".re-column").all()
    assert first.locator(".re-text").all_text_contents() == [n.sentence for n in expected.neighbors_a]
    assert second.locator(".re-text").all_text_contents() == [n.sentence for n in expected.neighbors_b]
    marked = first.locator(".re-shared")
    found = sorted(expected.shared, key=lambda s: s.rank_a)
    assert marked.locator(".re-text").all_text_contents() == [s.sentence for s in found]
    assert marked.locator(".re-also").all_text_contents() == [f"also B, rank {s.rank_b}" for s in found]


def test_slider_by_keyboard_blends_without_encoding(open_page, model, monkeypatch):
    page = open_page()
    write(page, "A", A)
    write(page, "B", C)
    expected = model.explain(A, C)
    expect(value(page, "AB", "blend")).to_have_text(number(expected.similarity, 3))
    monkeypatch.setattr(Encoder, "__call__", lambda *_, **__: pytest.fail("encoded again"))
    slider = page.get_by_label("range slider for Rank weight λ")
    assert slider.input_value() == "0.3"
    slider.focus()
    for _ in range(12):
        page.keyboard.press("ArrowRight")
    told = number(blend(expected.rank_similarity, expected.cosine, 0.42), 3)
    assert told != number(expected.similarity, 3)
    expect(value(page, "AB", "blend")).to_have_text(told)
    expect(page.locator('[data-pair="AB"]')).to_contain_text("blend, λ 0.42")
    for key, kind in (("End", "ranks"), ("Home", "base")):
        page.keyboard.press(key)
        expect(value(page, "AB", "blend")).to_have_text(value(page, "AB", kind).text_content())
    expect(value(page, "AB", "ranks")).to_have_text(number(expected.rank_similarity, 3))


def test_any_number_may_be_typed_as_the_rank_weight(open_page, model):
    page = open_page()
    write(page, "A", A)
    write(page, "B", B)
    write(page, "C", "")
    expected = model.explain(A, B)
    box = page.get_by_label("number input for Rank weight λ")
    told = number(blend(expected.rank_similarity, expected.cosine, 0.5), 3)
    for typed in ("2", "", "-1"):
        box.fill(typed)
        expect(page.locator("#comparison .re-wanted")).to_contain_text("must be between 0 and 1")
        box.fill("0.5")
        expect(value(page, "AB", "blend")).to_have_text(told)


def test_third_sentence_focus_neighbors_and_examples(open_page, model, state):
    page = open_page()
    write(page, "A", A)
    write(page, "B", B)
    page.get_by_label("Sentence C").fill("")
    page.get_by_label("Sentence C").focus()
    page.keyboard.type(C, delay=5)
    for pair, texts in (("AB", (A, B)), ("AC", (A, C)), ("BC", (B, C))):
        expected = model.explain(*texts)
        expect(value(page, pair, "base")).to_have_text(number(expected.cosine, 3))
        expect(value(page, pair, "ranks")).to_have_text(number(expected.rank_similarity, 3))
    expect(page.locator("#comparison .re-told")).to_contain_text(re.compile("most similar first", re.I))
    expect(page.get_by_label("Sentence C")).to_be_focused()
    assert page.get_by_label("Sentence C").input_value() == C
    page.locator("#neighbors").get_by_text("50", exact=True).click()
    expect(page.locator(".re-column").first.locator("li")).to_have_count(50)
    shared = len(model.explain(A, B, 50).shared)
    expect(page.locator('[data-pair="AB"] [data-shared]')).to_have_text(str(shared))
    for a, b, c in state.pairs.examples[:2]:
        page.get_by_role("button", name="Another example").click()
        expect(page.get_by_label("Sentence A")).to_have_value(a)
        expect(page.get_by_label("Sentence C")).to_have_value(c)
        expect(value(page, "AB", "base")).to_have_text(number(model.explain(a, b).cosine, 3))


def test_empty_and_long_sentences_get_a_kind_word(open_page):
    page = open_page()
    for letter in "ABC":
        write(page, letter, "")
    wanted = page.locator("#comparison .re-wanted")
    expect(wanted).to_have_text("Type two sentences to compare them.")
    write(page, "A", A)
    expect(wanted).to_have_text("Type a second sentence.")
    write(page, "B", "cat " * 3000)
    expect(wanted).to_contain_text("has 11,999 characters")
    write(page, "B", B)
    expect(wanted).to_have_count(0)


def places(canvas, number):
    """Where the dots are drawn."""
    script = "(canvas, number) => [...Array(number).keys()].map(i => canvas.placeOf(i))"
    return np.array(canvas.evaluate(script, number))


def opacity(canvas, number):
    """How opaque the middle of each dot is drawn, from 0 to 255."""
    return canvas.evaluate(
        """(canvas, number) => {
            const { data, width } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
            return [...Array(number).keys()].map(i => {
                const [x, y] = canvas.placeOf(i).map(v => Math.round(v * window.devicePixelRatio));
                return data[4 * (y * width + x) + 3];
            });
        }""",
        number,
    )


def test_maps_tell_a_sentence_and_list_a_region(open_page, state):
    page = open_page("Maps")
    drawn = state.maps()["sentences"]
    expect(page.locator("[data-about]")).to_have_text(state.maps()["about"])
    base, ranks = page.locator("canvas").all()
    points = places(base, len(drawn))
    apart = np.linalg.norm(points[:, None] - points[None], axis=2) + 1e3 * np.eye(len(points))
    lonely = int(apart.min(axis=1).argmax())
    base.hover(position={"x": points[lonely][0] + 2, "y": points[lonely][1]})
    expect(page.locator(".re-tip:visible")).to_have_text(drawn[lonely])
    page.mouse.move(1, 1)
    expect(page.locator(".re-tip:visible")).to_have_count(0)
    base.scroll_into_view_if_needed()
    box = base.bounding_box()
    corner = np.array([box["x"], box["y"]]) + base.evaluate("canvas => [canvas.clientLeft, canvas.clientTop]")
    # whole pixels: a mouse knows no others
    low, high = (np.floor(corner + np.quantile(points, q, axis=0)) - corner for q in (0.3, 0.6))
    page.mouse.move(*(corner + low))
    page.mouse.down()
    page.mouse.move(*(corner + high), steps=3)
    page.mouse.up()
    within = [i for i, p in enumerate(points) if (p >= low).all() and (p <= high).all()]
    assert 10 < len(within) < 200
    expect(page.locator(".re-list h3")).to_have_text(f"{len(within)} sentences in this region")
    assert page.locator(".re-list li").all_text_contents() == [drawn[i] for i in within]
    for canvas in (base, ranks):
        drawn_at = np.array(opacity(canvas, len(points)))
        assert set(drawn_at[within]) == {255}
        assert np.median(np.delete(drawn_at, within)) < 200
    page.get_by_role("button", name="Clear selection").click()
    expect(page.locator(".re-list li")).to_have_count(0)
    base.click(position={"x": points[lonely][0], "y": points[lonely][1]})
    expect(page.locator(".re-list li", has_text=drawn[lonely]).first).to_be_visible()


def test_maps_by_keyboard_and_by_a_word(open_page, state):
    page = open_page("Maps")
    base, ranks = page.locator("canvas").all()
    items = page.locator(".re-list li")
    base.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Shift+ArrowUp")
    page.keyboard.press("Shift+ArrowDown")
    page.keyboard.press("Enter")
    expect(items.first).to_be_visible()
    few = items.count()
    page.keyboard.press("Enter")
    expect(page.locator(".re-list h3")).not_to_have_text(f"{few} sentences near this place")
    assert items.count() > few
    expect(page.locator("[data-said]")).not_to_have_text("")
    page.keyboard.press("Escape")
    expect(items).to_have_count(0)
    page.keyboard.press("Tab")
    expect(ranks).to_be_focused()
    page.keyboard.press("Tab")
    word = page.get_by_label("Highlight sentences that contain")
    expect(word).to_be_focused()
    page.keyboard.type("PAINTS")
    expected = [text for text in state.maps()["sentences"] if "paints" in text]
    expect(page.locator(".re-list h3")).to_contain_text(f"{len(expected)} sentences with “PAINTS”")
    assert items.all_text_contents() == expected[:200]
    base.focus()
    page.keyboard.press("Enter")
    expect(word).to_have_value("")


def test_search_finds_what_the_index_does(open_page, index, sentences):
    page = open_page("Search")
    page.get_by_label("Search for").fill(sentences[7])
    hits = page.locator(".re-hits > li")
    expect(hits.first.locator(".re-text")).to_have_text(sentences[7])
    page.get_by_label("Search for").fill(A)
    page.get_by_label("Filter").fill('{"year": {"gte": 1950, "lt": 2000}}')
    expected = index.search(A, 10, where={"year": {"gte": 1950, "lt": 2000}})
    # waits for all of them: the answer without the filter may come first, and begin with the same sentence
    expect(hits.locator(".re-text")).to_have_text([hit.text for hit in expected])
    assert hits.locator("[data-score]").all_text_contents() == [number(hit.score, 3) for hit in expected]
    meanings = [index.calibration.describe(hit.score) for hit in expected]
    assert hits.locator(".re-meaning").all_text_contents() == meanings
    assert hits.locator("dd").all_text_contents() == [str(hit.columns["year"]) for hit in expected]
    page.locator("#results").get_by_text("5", exact=True).click()
    expect(hits).to_have_count(5)
    wanted = page.locator("#hits .re-wanted")
    for where, told in (
        ("yaer=3", "the index has no such column; did you mean 'year'?"),
        ('{"year": ', "Cannot filter by"),
        ("year=1", "No sentence matches the filter"),
    ):
        page.get_by_label("Filter").fill(where)
        expect(wanted).to_contain_text(told)
    page.get_by_label("Search for").fill("")
    expect(wanted).to_have_text("Type a query.")


def test_near_duplicates_are_those_of_the_index(open_page, index):
    page = open_page("Search")
    page.get_by_label("Threshold").fill("99.9%")
    page.get_by_role("button", name="Find near-duplicates").click()
    found = find_duplicates(index, threshold="99.9%")
    told = page.locator("#duplicates .re-told")
    expect(told).to_contain_text(f"{len(found.pairs):,} pairs of {len(found.sentences)} sentences")
    pairs = page.locator(".re-twins li")
    assert pairs.count() == min(50, len(found.pairs)) > 5
    first = [found.sentences[i] for i in (found.pairs[0].a, found.pairs[0].b)]
    assert pairs.first.locator(".re-text").all_text_contents() == first
    assert pairs.first.locator("[data-score]").text_content() == number(found.pairs[0].similarity, 3)
    for quick in ("0.99", "99%", "rather"):  # what was asked for last is answered
        page.get_by_label("Threshold").fill(quick)
        page.keyboard.press("Enter")
    expect(page.locator("#duplicates .re-wanted")).to_contain_text("neither a similarity (0.9) nor a share")


def test_nothing_typed_or_indexed_is_run(open_page):
    page = open_page()
    for letter in "ABC":
        write(page, letter, HOSTILE)
    expect(page.locator(".re-column .re-text").first).to_have_text(HOSTILE)
    page.get_by_role("tab", name="Maps").click()
    expect(page.locator(".re-maps[data-ready]")).to_be_visible()
    page.get_by_label("Highlight sentences that contain").fill("<SCRIPT>")
    expect(page.locator(".re-list li")).to_have_text([HOSTILE])
    page.locator(".re-list li").hover()
    page.get_by_role("tab", name="Search").click()
    page.get_by_label("Search for").fill(HOSTILE)
    expect(page.locator(".re-hits .re-text").first).to_have_text(HOSTILE)
    assert page.locator(".gradio-container img[src=x]").count() == 0
    page.get_by_label("Filter").fill(HOSTILE)
    expect(page.locator("#hits .re-wanted")).to_contain_text("Cannot filter by")


CONTRASTS = """() => {
    const numbers = text => text.match(/[\\d.]+/g).map(Number);
    const light = rgb => rgb.slice(0, 3).map(v => v / 255)
        .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
        .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
    const behind = element => {
        for (let e = element; e; e = e.parentElement) {
            const color = numbers(getComputedStyle(e).backgroundColor);
            if (color.length < 4 || color[3] > 0.99) return color;
        }
        return [255, 255, 255];
    };
    const found = [];
    for (const element of document.querySelectorAll(".gradio-container *")) {
        const own = [...element.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
        const typed = element.matches("textarea, [type=number], [type=search]");
        if (!(own || typed) || !element.checkVisibility() || element.closest(".re-hidden")) continue;
        const a = light(numbers(getComputedStyle(element).color)), b = light(behind(element));
        const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        if (!element.disabled) found.push([ratio, `${element.className}: ${element.textContent}`]);
    }
    return found;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_readable_on_a_phone(open_page, scheme, tmp_path):
    page = open_page(
        viewport={"width": 390, "height": 844}, color_scheme=scheme, has_touch=True, is_mobile=True
    )
    for tab in TABS:
        page.get_by_role("tab", name=tab).click()
        expect(page.get_by_role("tab", name=tab)).to_have_attribute("aria-selected", "true")
        if tab == "Maps":
            expect(page.locator(".re-maps[data-ready]")).to_be_visible()
            for canvas in (*page.locator("canvas").all(), page.locator("canvas").first):
                x, y = places(canvas, 1)[0]
                canvas.tap(position={"x": x, "y": y})
                tip = canvas.locator("xpath=../p")
                expect(tip).to_be_visible()
                expect(page.locator(".re-list li").first).to_have_text(tip.text_content())
        if tab == "Search":
            expect(page.locator(".re-hits li").first).to_be_visible()
            page.get_by_role("button", name="Find near-duplicates").click()
            expect(page.locator("#duplicates .re-told")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        contrasts = page.evaluate(CONTRASTS)
        assert len(contrasts) > 20
        assert [text for ratio, text in contrasts if ratio < 4.5] == []
        page.screenshot(path=tmp_path / f"{tab}-{scheme}.png", full_page=True)


def test_all_can_be_reached_by_keyboard_and_is_named(open_page):
    page = open_page()
    for letter in "ABC":  # while the first example is computed they cannot be reached
        expect(page.get_by_label(f"Sentence {letter}")).to_be_editable()
    expect(page.get_by_role("button", name="Another example")).to_be_enabled()
    stops = []
    for _ in range(40):
        page.keyboard.press("Tab")
        found = page.evaluate(
            """() => {
                const e = document.activeElement, style = getComputedStyle(e);
                const label = e.labels && e.labels[0] ? e.labels[0].textContent : "";
                const name = e.getAttribute("aria-label") || label || e.textContent;
                return e === document.body ? null : [e.tagName, name.trim(), parseFloat(style.outlineWidth)];
            }"""
        )
        if found is None:
            break
        stops.append(found)
    names = " / ".join(name for _, name, _ in stops)
    for wanted in (
        "Compare",
        "Maps",
        "Search",
        "Sentence A",
        "Sentence B",
        "Sentence C",
        "range slider",
        "20",
    ):
        assert wanted in names, names
    assert "Another example" in names
    assert "nearest reference sentences of A" in names
    assert all(name and outline >= 2 for _, name, outline in stops), stops
    assert found is None, "the end of the page is never reached"
    page.get_by_role("tab", name="Maps").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".re-maps[data-ready]")).to_be_visible()


def test_the_page_is_about_the_model(open_page, model):
    page = open_page()
    assert page.title() == "tiny: rankencoder explorer"
    head = page.locator(".re-head").inner_text()
    for fact in (
        "1,201 reference",
        "rank weight 0.3",
        "301 sentences indexed",
        "compact form, 96 dimensions",
    ):
        assert fact in head
    config = page.evaluate("window.gradio_config")
    assert not config["analytics_enabled"]
    assert re.search("gradio.live|googleapis|huggingface", json.dumps(config)) is None
