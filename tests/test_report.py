import copy
import json
import re
import sys
from html.parser import HTMLParser
from urllib.parse import unquote

import numpy as np
import pytest

from rankencoder.errors import InputError
from rankencoder.evaluation.evaluator import evaluate
from rankencoder.evaluation.results import rows
from rankencoder.report import paper_scores, report
from rankencoder.report.rendering import escape_markdown

HOSTILE = [
    "<script>alert('x')</script> </title> & \"quoted\"",
    "=cmd|'/C calc'!A0",
    "a | b `c` *d* @someone #1 $x$ ]]> --> {{ 7 * 7 }}",
    "-1+1 \\ \u0007 \u202e left",
]


class Page(HTMLParser):
    """What a browser would see: elements with their attributes, and the text of each section and cell."""

    VOID = ("meta", "link", "br", "use", "img")

    def __init__(self, text):
        super().__init__()
        self.stack, self.elements, self.texts, self.cells = [], [], {}, []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.elements.append((tag, attributes))
        if tag in self.VOID:
            return
        self.stack.append((tag, attributes.get("id")))
        if tag == "tr":
            self.cells.append([])
        if tag in ("td", "th"):
            self.cells[-1].append("")

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        opened, _ = self.stack.pop()
        assert opened == tag, f"<{opened}> ended by </{tag}>"

    def handle_data(self, data):
        for _, ident in self.stack:
            if ident:
                self.texts[ident] = self.texts.get(ident, "") + data
        if any(tag in ("td", "th") for tag, _ in self.stack):
            self.cells[-1][-1] += data

    def row(self, *starts):
        """The first row whose first cell is this, as text."""
        return [c.strip() for c in next(r for r in self.cells if r and r[0].strip() == starts[0])]

    def files(self):
        """The CSV files, by name."""
        links = [a for tag, a in self.elements if tag == "a" and "download" in a]
        prefix = "data:text/csv;charset=utf-8,"
        return {a["download"]: unquote(a["href"].removeprefix(prefix)) for a in links}


def score_pairs(sentences):
    rng = np.random.default_rng(0)
    pairs = []
    for i in range(0, 240, 2):
        a = sentences[rng.integers(len(sentences))]
        b = sentences[rng.integers(len(sentences))] if i % 3 else a.replace("The", "A")
        shared = len(set(a.lower().split()) & set(b.lower().split()))
        pairs.append((min(5.0, shared + round(float(rng.normal(0, 0.7)), 1) + 0.5 * (i % 3 == 0)), a, b))
    pairs += [(4.9, text, f"{text} again") for text in HOSTILE]
    return [(min(5.0, max(0.0, score)), a, b) for score, a, b in pairs]


@pytest.fixture(scope="module")
def pairs_file(tmp_path_factory, sentences):
    path = tmp_path_factory.mktemp("pairs") / "my pairs <b>.jsonl"
    keys = ("score", "sentence1", "sentence2")
    lines = [json.dumps(dict(zip(keys, pair, strict=True))) for pair in score_pairs(sentences)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def ranked(tiny_saved, pairs_file):
    """The result of a RankEncoder, with all sections but transfer."""
    return evaluate(tiny_saved, dev=pairs_file, cache=False, progress=False).results[0]


@pytest.fixture(scope="module")
def plain(pairs_file):
    """The result of an encoder without a reference corpus."""
    from conftest import letters

    return evaluate(letters, dev=pairs_file, tasks=["sts"], cache=False, progress=False).results[0]


def a_run(result, seed):
    """Make the result of a training run with E1 and E2 out of a RankEncoder's, a little different by seed."""
    run = copy.deepcopy(result)
    subject = run["model"]["subjects"][0]
    run["model"] |= {
        "label": f"my-run-{seed}",
        "kind": "run",
        "group": "g",
        "seed": seed,
        "fingerprint": f"f{seed}",
    }
    run["model"]["subjects"] = [{**subject, "role": role} for role in ("E1", "E2")]
    run["model"]["config"] = {"seed": seed, "method": "simcse"}
    rng = np.random.default_rng(seed)
    run["sts"] = {}
    for role in ("E1", "E2"):
        for name, system in result["sts"].items():
            new = copy.deepcopy(system) | {"encoder": role}
            for values in new["scores"].values():
                values["all"] += float(rng.normal(0, 0.5))
            run["sts"][f"{role} {name}"] = new
    for part in ("choice", "cost"):
        run[part] = {role: copy.deepcopy(result[part][""]) for role in ("E1", "E2")}
    return run


@pytest.fixture(scope="module")
def several(ranked, plain):
    return [ranked, plain, *(a_run(ranked, seed) for seed in (1, 2, 3))]


@pytest.fixture(scope="module")
def page_text(ranked):
    return report([ranked])


@pytest.fixture(scope="module")
def page(page_text):
    return Page(page_text)


@pytest.fixture(scope="module")
def several_text(several):
    return report(several)


def unplotted(results, **options):
    """A page without its plots, for tests of words and tables: drawing takes most of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rankencoder.report.rendering.to_svg", lambda figure: "")
        return Page(report(results, **options))


def printed(value, digits=2, sign=""):
    return f"{value:{sign}.{digits}f}".replace("-", "−")


def test_ids_are_unique_and_links_lead_somewhere(several_text):
    elements = Page(several_text).elements
    ids = [a["id"] for _, a in elements if "id" in a]
    assert len(ids) == len(set(ids))
    for _, attributes in elements:
        target = attributes.get("href", "")
        if target.startswith("#"):
            assert target[1:] in ids
    for target in re.findall(r"url\(#([^)]+)\)", several_text):
        assert target in ids


def test_three_seeds_are_one_row_with_mean_and_std(several, several_text):
    (name,) = several[0]["data"]
    page = Page(several_text)
    scores = [run["sts"]["E1 cosine"]["scores"][name]["all"] for run in several[2:]]
    expected = f"{printed(np.mean(scores))} ± {printed(np.std(scores, ddof=1))}"
    row = next(r for r in page.cells if r[0].strip() == "my-run (3 runs), E1" and r[1].strip() == "cosine")
    assert row[2].strip() == expected


def test_models_of_one_name_are_told_apart(ranked):
    other = copy.deepcopy(ranked)
    other["model"] |= {"group": "another", "fingerprint": "0123456789abcdef"}
    text = unplotted([ranked, other]).texts["answer"]
    for row in rows([ranked, other]):
        assert row.label in text  # named as in the table of the evaluation


def test_one_model_given_twice_is_no_second_run(ranked):
    parts = [
        {key: value for key, value in ranked.items() if key != without} for without in ("choice", "cost")
    ]
    assert report(parts, format="md") == report(ranked, format="md")


def test_another_power_is_not_called_ranks(ranked):
    result = copy.deepcopy(ranked)
    result["sts"] = {name.replace("ranks", "power -0.25"): system for name, system in result["sts"].items()}
    page = unplotted(result)
    assert "power −0.25" in page.texts["answer"]
    assert "ranks" not in page.texts["answer"]


def test_text_of_users_stays_text(page_text, ranked):
    assert page_text.count("<script") == 1
    assert "<b>" not in page_text
    hostile = copy.deepcopy(ranked)
    hostile["model"]["label"] = "</title><script>alert(1)</script>"
    hostile["model"]["path"] = '"><img src=x onerror=alert(1)>'
    hostile["choice"][""]["sentence"] = HOSTILE[0]
    text = report(hostile)
    assert text.count("<script") == 1
    assert "<img" not in text
    assert "&lt;script&gt;alert" in text


def test_tables_of_markdown_are_whole(several):
    text = report(several, format="md", papers=True)
    for table in re.findall(r"(?:^\|.*\|\n?)+", text, re.M):
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.strip().splitlines()}) == 1


def test_commands_and_circumstances(ranked):
    bare = {key: value for key, value in ranked.items() if key not in ("made", "command")}
    assert (
        "evaluate a -t sts" in unplotted({**bare, "command": "rankencoder evaluate a -t sts"}).texts["origin"]
    )
    about = {key: ranked[key] for key in ("created", "versions", "machine")}
    made = {"sts": {**about, "command": "evaluate <1>"}, "choice": {**about, "command": "evaluate <1>"}}
    page = unplotted({**bare, "made": made})
    assert page.texts["origin"].count("evaluate <1>") == 1
    made["cost"] = {**about, "command": "evaluate 2", "versions": {"torch": "0.0"}}
    page = unplotted([{**bare, "made": made}])
    label = ranked["model"]["label"]
    assert page.row(f"{label}: cost")[1] == "evaluate 2"
    assert page.row(f"{label}: sts, choice")[1] == "evaluate <1>"
    # of one model in two parts, the circumstances of both are kept
    parts = [{**bare, "made": {name: about_}} for name, about_ in made.items()]
    assert unplotted(parts).texts["origin"] == page.texts["origin"]


def test_nothing_is_loaded_from_elsewhere(several_text):
    assert "@import" not in several_text
    for _, attributes in Page(several_text).elements:
        for key in ("src", "href", "xlink:href"):
            assert attributes.get(key, "#").startswith(("#", "data:"))
    assert not re.search(r"url\((?!#)", several_text)


def test_markdown_escapes():
    assert escape_markdown(HOSTILE[2]).startswith(
        "a \\| b \\`c\\` \\*d\\* @\N{WORD JOINER}someone #\N{WORD JOINER}1"
    )
    assert "<" not in escape_markdown(HOSTILE[0])
    assert escape_markdown("# x") == "\\# x"
    assert escape_markdown("do `rankencoder tune MODEL`") == "do `rankencoder tune MODEL`"


@pytest.fixture
def run_report(capsys):
    """Run the command as the command line does."""
    import typer

    from rankencoder.cli.console import OneLineCommand
    from rankencoder.cli.evaluate import report as command

    app = typer.Typer()
    app.command(cls=OneLineCommand)(command)

    def run(*arguments):
        code = 0
        try:
            app([str(argument) for argument in arguments], standalone_mode=False)
        except SystemExit as stop:
            code = stop.code
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_command(run_report, ranked, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evaluation").mkdir()
    (tmp_path / "evaluation" / "a.json").write_text(json.dumps(ranked))
    assert run_report("evaluation", "-o", "report.md") == (0, "report.md\n", "")
    assert (tmp_path / "report.md").read_text(encoding="utf-8") == report([ranked], format="md")
    assert run_report("evaluation", "-o", "report.md")[0] == 0  # ours: may be replaced
    (tmp_path / "mine.md").write_text("my notes")
    code, _, err = run_report("evaluation", "-o", "mine.md")
    assert code == 2
    assert "mine.md already exists and is not a report" in err
    assert (tmp_path / "mine.md").read_text() == "my notes"
    assert run_report("evaluation", "-o", "mine.md", "--overwrite")[0] == 0
    assert run_report("evaluation", "-o", "evaluation")[0] == 2
    code, _, err = run_report("evaluation", "-o", "report.pdf")
    assert (code, "report.pdf must end in .html or .md" in err) == (2, True)
    assert "no such file" in run_report("nowhere")[2]


def test_the_same_results_make_the_same_page(run_report, ranked, page_text, tmp_path):
    (tmp_path / "a.json").write_text(json.dumps(ranked))
    target = tmp_path / "new" / "report.html"
    assert run_report(tmp_path, "-o", target)[0] == 0
    assert target.read_text(encoding="utf-8") == page_text
    assert len(page_text) < 2_500_000


@pytest.fixture
def open_page(browser, tmp_path):
    contexts = []

    def open_(text, **options):
        path = tmp_path / "report.html"
        path.write_text(text, encoding="utf-8")
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        contexts.append(context)
        tab = context.new_page()
        tab.problems = []
        tab.on("console", lambda message: tab.problems.append(message.text))
        tab.on("pageerror", lambda error: tab.problems.append(str(error)))
        tab.on("requestfailed", lambda request: tab.problems.append(request.url))
        tab.on("request", lambda r: tab.problems.append(r.url) if r.url.startswith("http") else None)
        tab.goto(path.as_uri())
        return tab

    yield open_
    for context in contexts:
        context.close()


def test_the_answer_is_open_and_the_rest_is_folded(page):
    assert [a["id"] for tag, a in page.elements if tag == "section"] == ["answer"]
    folded = [a for tag, a in page.elements if tag == "details"]
    assert [a["id"] for a in folded][-1] == "origin"
    assert not any("open" in a for a in folded)


def test_scores_and_differences_are_those_of_the_rows(page, ranked):
    (name,) = ranked["data"]
    found = {row.kind: row for row in rows([ranked])}
    rows_ = {r[1].strip(): [c.strip() for c in r] for r in page.cells[:4]}
    for kind, row in found.items():
        system = next(key for key in rows_ if key.startswith(kind))
        assert rows_[system][2] == printed(row.mean(name))
    gain = found["ranks"].gain_over(found["cosine"], [name])
    low, high = (printed(value, sign="+") for value in (gain.low, gain.high))
    assert rows_["ranks"][3] == f"{printed(gain.value, sign='+')} ({low} to {high})"


def with_similarities(result, values, label):
    """Another model, whose cosines are these."""
    other = copy.deepcopy(result)
    (name,) = result["data"]
    other["model"] |= {"label": label, "fingerprint": label, "group": label}
    other["sts"]["cosine"]["similarities"][name] = list(values)
    return other


def test_the_winner_is_named_and_whether_that_is_real(plain):
    gold = np.array(next(iter(plain["data"].values()))["gold"])
    noise = np.random.default_rng(0).normal(size=len(gold))
    good = with_similarities(plain, gold + 0.1 * noise, "good")
    bad = with_similarities(plain, noise, "bad")
    text = unplotted([bad, good]).texts["answer"]
    assert "good, plain cosine" in text
    assert text.index("goodcosine") < text.index("badcosine")  # the winner is the first row
    assert re.search(r"Better than bad by [\d.]+ points .*: a real difference", text)
    twin = with_similarities(plain, gold + 0.1 * noise[::-1], "twin")
    assert "No real difference from" in unplotted([good, twin]).texts["answer"]


def test_published_figures_only_when_asked_for(ranked):
    assert "RankEncoder (of SNCSE)" not in report(ranked, format="md")
    asked = report(ranked, format="md", papers=True)
    assert f"{paper_scores.STS['RankEncoder (of SNCSE)'][-1]:.2f}" in asked


def test_nothing_scored_says_what_to_run(ranked):
    head = {key: ranked[key] for key in ("format", "model", "created", "data", "versions", "machine")}
    assert "rankencoder evaluate MODEL --dev" in Page(report(head)).texts["answer"]


def test_browser_fits_sorts_and_unfolds(open_page, several_text):
    for width in (390, 1280):
        tab = open_page(several_text, viewport={"width": width, "height": 900})
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        assert tab.problems == []
    assert tab.evaluate("document.documentElement.scrollHeight") <= 3000
    tab.get_by_role("button", name="against the best").click()
    first = tab.locator(".sortable tbody tr").first.locator("td").nth(2).text_content()
    tab.get_by_role("button", name="against the best").click()
    assert tab.locator(".sortable tbody tr").last.locator("td").nth(2).text_content() == first
    tab.locator("#origin summary").click()
    assert tab.locator("#origin table").first.is_visible()


def test_a_rival_that_scores_higher_but_was_not_chosen_is_named(ranked):
    gold = np.array(next(iter(ranked["data"].values()))["gold"])
    noise = np.random.default_rng(0).normal(size=len(gold))
    changed = copy.deepcopy(ranked)
    (name,) = ranked["data"]
    for system, values in (("cosine", gold + 9 * noise), ("ranks", gold + 0.1 * noise)):
        changed["sts"][system]["similarities"][name] = list(values)
    text = unplotted([changed]).texts["answer"]
    found = re.search(r"scores higher by ([\d.]+) points \(95% interval ([\d.]+) to ([\d.]+)\)", text)
    value, low, high = map(float, found.groups())
    assert 0 < low <= value <= high


@pytest.mark.parametrize("package", ["matplotlib", "jinja2"])
def test_what_is_not_installed_is_named(package, ranked, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError, match=rf"needs {package}: run pip install .*\[report\]'"):
        report(ranked)
    if package == "matplotlib":
        assert "Use this" in report(ranked, format="md")


def test_wrong_settings_are_one_line(ranked):
    with pytest.raises(InputError, match="unknown format 'pdf'"):
        report(ranked, format="pdf")
    with pytest.raises(InputError, match="no results"):
        report([])


def test_published_averages_are_the_means_of_their_sets():
    for name, scores in paper_scores.STS.items():  # as published, rounded
        assert np.mean(scores[:-1]) == pytest.approx(scores[-1], abs=0.02), name


def test_browser_light_dark_and_without_scripts(open_page, several_text):
    colors = set()
    for scheme in ("light", "dark"):
        tab = open_page(several_text, color_scheme=scheme)
        colors.add(tab.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert len(colors) == 2
    plain = open_page(several_text, java_script_enabled=False)
    assert plain.locator("#answer").is_visible()
    plain.locator("#origin summary").focus()
    plain.keyboard.press("Enter")
    assert plain.locator("#origin table").first.is_visible()
