import os
from pathlib import Path

import pytest
from live_server import running

from rankencoder import RankEncoder, RankIndex
from rankencoder.explorer.explorer_state import ExplorerState
from rankencoder.io.pairs import read_scored_pairs
from rankencoder.labels.sitting import Sitting

pytest.importorskip("lancedb")
sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install playwright")
expect = sync_api.expect
expect.set_options(timeout=120_000)  # a busy machine is no failure

HOSTILE = "<script>hacked()</script><img src=x onerror=hacked()> ${hacked()} {{hacked()}} & \"'"
DESKTOP = {"viewport": {"width": 1280, "height": 900}}
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
SHOTS = os.environ.get("RANKENCODER_SHOTS")


@pytest.fixture(scope="module")
def state(tiny_saved, sentences, tmp_path_factory):
    corpus = [*sentences[:300], *(f"{HOSTILE} {number}" for number in range(3))]
    model = RankEncoder.load(tiny_saved, device="cpu")
    index = RankIndex.build(model, corpus, tmp_path_factory.mktemp("index") / "my-index")
    return ExplorerState(model, index, "tiny")


@pytest.fixture
def labels(tmp_path):
    return tmp_path / "labels.tsv"


@pytest.fixture
def open_page(browser, state, labels):
    """Opens the tab in a browser of its own, and finds fault at the end with any message or error."""
    from rankencoder.explorer.explorer_app import create_app
    from rankencoder.explorer.label_tab import LabelDesk

    state.desk = LabelDesk(labels, "tiny", state.index)
    contexts, problems = [], []
    with running(create_app(state)) as url:

        def open_(**options):
            context = browser.new_context(**{**DESKTOP, **options})
            contexts.append(context)
            context.add_init_script("window.hacked = () => console.error('hacked')")
            page = context.new_page()
            page.set_default_timeout(120_000)
            page.on("console", lambda message: problems.append(message.text))
            page.on("pageerror", lambda error: problems.append(str(error)))
            page.goto(url)
            look(page)
            return page

        yield open_
        for context in contexts:
            context.close()
    assert problems == []


def look(page):
    page.get_by_role("tab", name="Label").click()
    expect(page.locator("[data-progress]")).to_contain_text(" of 120")


def button(page, name):
    return page.locator(".re-answers").get_by_role("button", name=name)


def pair_of(page):
    return tuple(page.locator(f"[data-{letter}]").text_content() for letter in "ab")


def given(labels):
    """What a reader that is not the sitting's finds in the file: label and sentences of each answer."""
    if not labels.exists():
        return []
    return [(int(pair.score), pair.a, pair.b) for pair in read_scored_pairs(labels, check=False)]


def answer(page, act, number):
    """Answer a question, and wait for the next one."""
    act()
    expect(page.locator("[data-progress]")).to_have_text(f"{number + 1} of 120")


@pytest.mark.parametrize("options", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_ten_pairs_are_labeled_by_buttons_and_keys(open_page, labels, options, request):
    page = open_page(**options)
    told = []
    for number in range(1, 11):
        same = number % 3 == 0
        told.append((int(same), *pair_of(page)))
        if number % 2:
            pressed = button(page, "Same" if same else "Different")
            pressed.tap() if "has_touch" in options else pressed.click()
        else:
            page.keyboard.press("y" if same else "n")
        expect(page.locator("[data-progress]")).to_have_text(f"{number + 1} of 120")
        assert given(labels) == told  # written before the next question is shown
    expect(page.locator("[data-summary]")).to_contain_text("10 answers.")
    expect(page.locator("[data-summary]")).to_contain_text("About 30 more answers halve the interval")
    width = options["viewport"]["width"]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for name in ("Same", "Different", "Skip", "Undo"):
        box = button(page, name).bounding_box()
        assert box["height"] >= 48
        assert box["y"] + box["height"] <= options["viewport"]["height"]  # without scrolling
    assert float(page.locator("[data-a]").evaluate("e => parseFloat(getComputedStyle(e).fontSize)")) >= 18
    if SHOTS:
        page.screenshot(path=Path(SHOTS) / f"{request.node.callspec.id}.png")
    left = pair_of(page)
    page.reload()
    look(page)
    expect(page.locator("[data-progress]")).to_have_text("11 of 120")
    assert pair_of(page) == left
    answer(page, lambda: page.keyboard.press("u"), 9)
    assert pair_of(page) == told[9][1:]
    assert given(labels) == told[:9]
    answer(page, button(page, "Undo").click, 8)
    asked = pair_of(page)
    page.keyboard.press("s")
    expect(page.locator("[data-a], [data-b]")).not_to_have_text(list(asked))
    assert given(labels) == told[:8]
    assert Sitting.resume(labels).skipped[0].a == asked[0]


def test_keys_that_are_typed_elsewhere_or_held_down_are_no_answers(open_page, labels):
    page = open_page()
    page.get_by_role("tab", name="Search").click()
    page.get_by_label("Search for").fill("")
    page.keyboard.type("yes, any sunny day")
    expect(page.locator(".re-hits li").first).to_be_visible()
    page.get_by_role("tab", name="Search").focus()
    page.keyboard.press("y")  # the tab is not to be seen
    look(page)
    page.keyboard.press("Control+y")
    page.keyboard.press("x")
    page.keyboard.down("Shift")
    page.keyboard.up("Shift")
    held = "new KeyboardEvent('keydown', { key: 'y', repeat: true, bubbles: true })"
    page.evaluate(f"document.body.dispatchEvent({held})")
    answer(page, lambda: page.keyboard.press("N"), 1)
    assert len(given(labels)) == 1


def test_an_answer_counts_only_for_the_pair_that_was_seen(open_page, labels):
    first, second = open_page(), open_page(**PHONE)
    asked = pair_of(first)
    assert pair_of(second) == asked
    answer(first, lambda: first.keyboard.press("y"), 1)
    second.keyboard.press("n")
    expect(second.locator("[data-message]")).to_contain_text("answered elsewhere")
    expect(second.locator("[data-progress]")).to_have_text("2 of 120")
    assert given(labels) == [(1, *asked)]
    assert pair_of(second) == pair_of(first)
    answer(second, lambda: second.keyboard.press("n"), 2)
    first.keyboard.press("u")  # would take back what was answered in the other window
    expect(first.locator("[data-message]")).to_contain_text("Not counted")
    expect(first.locator("[data-progress]")).to_have_text("3 of 120")
    assert [same for same, *_ in given(labels)] == [1, 0]
    first.keyboard.press("u")
    expect(first.locator("[data-progress]")).to_have_text("2 of 120")
    expect(first.locator("[data-message]")).to_be_hidden()


def test_page_and_another_process_label_by_turns(open_page, labels):
    page = open_page()
    answer(page, lambda: page.keyboard.press("y"), 1)
    mine = pair_of(page)
    with Sitting.resume(labels) as terminal:
        page.keyboard.press("y")
        message = page.locator("[data-message]")
        expect(message).to_contain_text("labels.tsv is locked by another labeler: label into")
        assert pair_of(page) == mine
        assert len(given(labels)) == 1
        terminal.answer(False)
        left = terminal.question()
    page.keyboard.press("y")
    expect(message).to_contain_text("Not counted")
    expect(page.locator("[data-progress]")).to_have_text("3 of 120")
    assert [same for same, *_ in given(labels)] == [1, 0]
    assert pair_of(page) == (left.a, left.b)


def test_the_end_names_the_next_command_and_what_is_odd(open_page, labels, state):
    page = open_page()
    with Sitting.resume(labels) as sitting:  # nearly all, by a labeler who is not to be relied on
        while len(sitting.given) < 119:
            sitting.answer(True)
    page.keyboard.press("s")
    expect(page.locator("[data-progress]")).to_have_text("120 of 120")
    expect(page.locator("[data-doubts]")).to_contain_text("All 119 answers are yes.")
    expect(page.locator("[data-doubts]")).to_contain_text("check questions were answered wrongly")
    page.keyboard.press("n")
    expect(page.locator(".re-done")).to_contain_text("120 answers saved")
    expected = f"rankencoder threshold {state.index.folder.path} {labels}"
    expect(page.locator(".re-done code")).to_have_text(expected)
    expect(button(page, "Same")).to_be_disabled()
    expect(page.locator("[data-summary]")).to_contain_text("120 answers.")
    if SHOTS:
        page.screenshot(path=Path(SHOTS) / "end.png")
    page.keyboard.press("y")
    page.get_by_role("button", name="Label 120 more").click()
    expect(page.locator("[data-progress]")).to_have_text("121 of 240")
    assert len(given(labels)) == 120
    page.reload()
    page.get_by_role("tab", name="Label").click()
    expect(page.locator(".re-done")).to_be_visible()
    answer(page, button(page, "Undo").click, 119)
    assert len(given(labels)) == 119


def test_sentences_stay_text(open_page, state):
    page = open_page()
    sitting = state.desk.sitting
    hostile = next(one for row in sitting.pool.bins for one in row if HOSTILE in one.a + one.b)
    sitting.question = lambda: hostile
    page.reload()
    look(page)
    assert HOSTILE in "".join(pair_of(page))
    assert page.locator("#label img, #label script").count() == 0
