import copy
import csv
import io
import json
import re
import sys
from html.parser import HTMLParser
from urllib.parse import unquote

import numpy as np
import pytest
from scipy.stats import pearsonr

from rankencoder.errors import InputError
from rankencoder.evaluation.evaluator import evaluate
from rankencoder.evaluation.result_rows import rows
from rankencoder.evaluation.sts_data import SEVEN
from rankencoder.report import paper_scores, report
from rankencoder.report.document import to_csv
from rankencoder.report.encoder_views import views
from rankencoder.report.gains_section import all_gains
from rankencoder.report.rendering import escape_markdown
from rankencoder.report.svg_plots import COLOURS

SECTIONS = [
    "verdict",
    "sts",
    "gains",
    "similar",
    "space",
    "neighbours",
    "curves",
    "maps",
    "words",
    "transfer",
    "cost",
    "origin",
]
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

    return evaluate(letters, dev=pairs_file, tasks=["sts", "space"], cache=False, progress=False).results[0]


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
    for part in ("neighbours", "curves", "choice", "changed", "map", "cost"):
        run[part] = {role: copy.deepcopy(result[part][""]) for role in ("E1", "E2")}
    run["space"] = {n: {r: copy.deepcopy(s[""]) for r in ("E1", "E2")} for n, s in result["space"].items()}
    for groups in run["similar-pairs"].values():
        for group in groups.values():
            group["scores"] = {f"{r} {n}": s for r in ("E1", "E2") for n, s in group["scores"].items()}
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
        patch.setattr("rankencoder.report.rendering.to_svg", lambda panel, ident: "")
        return Page(report(results, **options))


def printed(value, digits=2, sign=""):
    return f"{value:{sign}.{digits}f}".replace("-", "−")


def test_every_section_is_there(page):
    found = [a["id"] for tag, a in page.elements if tag == "section"]
    assert found == SECTIONS
    assert "rankencoder evaluate MODEL --task transfer" in page.texts["transfer"]
    for ident in SECTIONS:
        assert page.texts[ident].strip()


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


def test_scores_are_those_of_the_results(page, ranked):
    (name,) = ranked["data"]
    for kind, system in ranked["sts"].items():
        assert page.row(kind)[1] == printed(system["scores"][name]["all"])


def test_space_and_similar_pairs(page, ranked):
    (name,) = ranked["data"]
    base, ranks = (ranked["space"][name][""][space] for space in ("base", "ranks"))
    assert page.row("vectors")[1:3] == [printed(base["uniformity"]), printed(base["alignment"], 3)]
    assert page.row("rank vectors")[1:3] == [printed(ranks["uniformity"]), printed(ranks["alignment"], 3)]
    groups = ranked["similar-pairs"][name]
    rows_ = [[c.strip() for c in row] for row in page.cells if row and row[0].strip() == "ranks"]
    assert ["ranks", *(printed(g["scores"]["ranks"]) for g in groups.values())] in rows_


def test_published_figures_are_marked_as_another_backbone(ranked):
    page = unplotted(with_sets(ranked))
    assert page.row("RankEncoder (of SNCSE)")[1:] == [
        f"{v:.2f}" for v in paper_scores.STS["RankEncoder (of SNCSE)"]
    ]
    assert page.row("PromptBERT + RankEncoder")[-1] == "79.4 ± 0.2"
    assert "another backbone" in page.texts["sts"]
    assert len(paper_scores.STS_SEEDS["SNCSE"]) == len(paper_scores.STS["SNCSE"]) == 8
    for values in paper_scores.STS.values():
        assert np.mean(values[:7]) == pytest.approx(values[7], abs=0.03)  # as published
    for values in paper_scores.TRANSFER.values():
        assert np.mean(values[:7]) == pytest.approx(values[7], abs=0.03)  # as published


def test_verdict_says_what_was_chosen_and_how_sure_that_is(page, ranked):
    verdict = page.texts["verdict"]
    assert ranked["choice"][""]["sentence"] in verdict
    found = {row.kind: row for row in rows([ranked])}
    (name,) = ranked["data"]
    for kind in ("ranks", "blend"):
        gain = found[kind].gain_over(found["cosine"], [name])
        assert (
            f"{printed(gain.value, sign='+')} points (95% interval {printed(gain.low, sign='+')}" in verdict
        )


def test_without_a_choice_it_is_said_what_is_missing(ranked, plain):
    verdict = unplotted({**ranked, "choice": {}}).texts["verdict"]
    assert "Nothing was chosen yet" in verdict
    assert "--task choice" in verdict
    verdict = unplotted(plain).texts["verdict"]
    assert "Rank vectors were not measured" in verdict
    assert "--corpus" in verdict


COSINE = {"name": "plain cosine", "form": None, "settings": {}, "rank_weight": 0.0}
BLEND = {"name": "ranks, weight 0.3", "form": "compact", "settings": {}, "rank_weight": 0.3}
RANKS = {"name": "ranks alone", "form": "compact", "settings": {}, "rank_weight": 1.0}
POWER = {
    "name": "power −0.25, centred",
    "form": "linear",
    "settings": {"power": -0.25, "center": True},
    "rank_weight": 1.0,
}


def with_gain(result, verdict):
    """Make ranks better than cosine, worse, or equal to it, on all sets."""
    changed = copy.deepcopy(result)
    for name, about in changed["data"].items():
        gold = np.array(about["gold"])
        worse = np.random.default_rng(0).permutation(gold)
        found = {"better": (worse, gold), "worse": (gold, worse), "within chance": (gold, gold)}[verdict]
        for kind, values in zip(("cosine", "ranks"), found, strict=True):
            changed["sts"][kind]["similarities"][name] = values.tolist()
    return changed


def with_choice(result, chosen, pairs=None):
    """Let something be chosen."""
    pairs = dict.fromkeys(result["data"], 124) if pairs is None else pairs
    return {**result, "choice": {"": {"chosen": chosen, "sentence": "Because.", "pairs": pairs}}}


@pytest.mark.parametrize(
    ("verdict", "chosen", "headline"),
    [
        ("worse", COSINE, "Rank vectors make it worse here: keep plain cosine."),
        ("worse", POWER, "Rank vectors make it worse here; power −0.25, centred does better on my pairs"),
        ("worse", BLEND, "Rank vectors alone make it worse here; the blend (ranks, weight 0.3) does better"),
        ("worse", RANKS, "Rank vectors make it worse here; ranks alone did best on my pairs"),
        ("within chance", COSINE, "Rank vectors are not shown to help here: keep plain cosine."),
        ("within chance", POWER, "Rank vectors are not shown to help here; power −0.25, centred does better"),
        ("better", RANKS, "Rank vectors help here: use ranks alone."),
        ("better", BLEND, "Rank vectors help here: use ranks, weight 0.3."),
        ("better", POWER, "Rank vectors help here; power −0.25, centred did best on my pairs"),
        ("better", COSINE, "Rank vectors help here, but not on the pairs for choosing: keep"),
    ],
)
def test_headlines(ranked, verdict, chosen, headline):
    verdict_text = unplotted(with_choice(with_gain(ranked, verdict), chosen)).texts["verdict"]
    assert headline in verdict_text
    advised = chosen is not COSINE and (verdict, chosen) != ("worse", RANKS)
    assert ("rankencoder tune" in verdict_text) == advised


def with_sets(result):
    """Pretend that the pairs are all of the field's sets."""
    changed = copy.deepcopy(result)
    (mine,) = result["data"]
    names = (*SEVEN, "STS-B dev")
    changed["data"] = dict.fromkeys(names, result["data"][mine])
    for system in changed["sts"].values():
        for part in ("scores", "similarities"):
            system[part] = {name: copy.deepcopy(system[part][mine]) for name in names}
        system["AVG"] = {how: system["scores"]["STS12"][how] for how in ("all", "mean", "wmean")}
    curves = changed["curves"][""]
    scores = [(curves["rank-weight"], "scores"), (curves["power"], "centred"), (curves["power"], "plain")]
    for of, key in scores:
        of[key] = dict.fromkeys((*names, "AVG"), of[key][mine])
    curves["reference-size"]["set"] = "STS-B dev"
    changed["similar-pairs"] = dict.fromkeys(names, result["similar-pairs"][mine])
    return changed


DEV_PAIRS = {"STS-B dev": 124}


def test_the_check_of_the_choice_on_test_sets(ranked):
    result = with_sets(ranked)
    powers, weights = (result["curves"][""][name] for name in ("power", "rank-weight"))
    cosine = weights["scores"]["AVG"][0]
    powers["centred"]["AVG"] = [cosine + 1 + i for i in range(len(powers["x"]))]
    text = unplotted(with_choice(result, POWER, pairs=DEV_PAIRS)).texts["verdict"]
    score = printed(powers["centred"]["AVG"][powers["x"].index(-0.25)])
    told = f"power −0.25, centred scores {score} against {printed(cosine)} of cosine."
    assert f"On the seven test sets, {told}" in text
    assert "power −0.25, centred does better." in text
    assert "STS-B dev was drawn from the same years as STS12–16 and shares pairs with them" in text
    assert "had no part in the choice, it" not in text
    assert "only check it" not in text
    powers["centred"]["AVG"] = [cosine - 1] * len(powers["x"])
    text = unplotted(with_choice(result, POWER, pairs=DEV_PAIRS)).texts["verdict"]
    assert "power −0.25, centred was chosen, but does not do better on the seven test sets." in text


def test_what_is_on_no_curve_is_not_checked(ranked):
    result = with_sets(ranked)
    blended = {**POWER, "name": "power −0.25, centred, weight 0.5", "rank_weight": 0.5}
    text = unplotted(with_choice(result, blended, pairs=DEV_PAIRS)).texts["verdict"]
    assert "centred, weight 0.5 does better on STS-B dev." in text
    assert "weight 0.5 scores" not in text
    # the curve of rank weights is of the encoder's own form, and of no other
    assert ranked["model"]["subjects"][0]["form"]["name"] == "compact"
    own = {**BLEND, "settings": ranked["model"]["subjects"][0]["form"]["settings"]}
    text = unplotted(with_choice(result, own, pairs=DEV_PAIRS)).texts["verdict"]
    weights = result["curves"][""]["rank-weight"]
    assert f"weight 0.3 scores {printed(weights['scores']['AVG'][weights['x'].index(0.3)])} ag" in text
    text = unplotted(with_choice(result, {**own, "settings": {"dim": 3}}, pairs=DEV_PAIRS)).texts["verdict"]
    assert "weight 0.3 scores" not in text


def test_the_pairs_of_the_choice_are_no_check(page):
    assert (
        "The choice was made on my pairs <b>: figures on these pairs do not check it."
        in page.texts["verdict"]
    )
    assert "STS-B dev was drawn" not in page.texts["verdict"]


def test_several_runs_are_averaged_and_compared_within_one(ranked):
    runs = []
    for seed in (1, 2):
        result = with_choice(with_sets(ranked), POWER, pairs=DEV_PAIRS)
        curves = result["curves"][""]
        curves["power"]["centred"]["AVG"] = [60.0 + 2 * seed] * len(curves["power"]["x"])
        for name in ("AVG", "STS-B dev"):
            curves["rank-weight"]["scores"][name] = [50.0 + seed, *curves["rank-weight"]["scores"][name][1:]]
        runs.append(a_run(result, seed))
    page = unplotted(runs)
    told = "power −0.25, centred scores 63.00 (mean of 2 runs) against 51.50 of cosine."
    assert told in page.texts["verdict"]
    assert "cosine has 51.00." in page.texts["curves"]  # of the first run, as the ranks are


def test_gains_equal_the_paired_bootstrap_of_the_rows(several):
    own, over_first = all_gains(views(several, "all"))
    assert len(own) == 6
    assert len(over_first) == 5  # the plain encoder's cosine, and cosine and blend of E1 and E2
    for gain in (*own, *over_first):
        row = gain.view.rows[gain.kind]
        base = gain.view.rows["cosine"] if gain in own else views(several, "all")[0].rows["cosine"]
        for name, interval in gain.sets.items():
            assert interval == pytest.approx(row.gain_over(base, [name]))


def test_three_seeds_are_one_row_with_mean_and_std(several, several_text):
    (name,) = several[0]["data"]
    page = Page(several_text)
    scores = [run["sts"]["E1 cosine"]["scores"][name]["all"] for run in several[2:]]
    expected = f"{printed(np.mean(scores))} ± {printed(np.std(scores, ddof=1))}"
    assert page.row("E1: the base encoder")[1] == expected
    assert "my-run (3 runs)" in page.texts["sts"]
    assert "E2 blend: retrained, weighted inference" in page.texts["similar"]


def test_models_of_one_name_are_told_apart(ranked):
    other = copy.deepcopy(ranked)
    other["model"] |= {"group": "another", "fingerprint": "0123456789abcdef"}
    text = unplotted([ranked, other]).texts["verdict"]
    for row in rows([ranked, other]):
        assert f"{row.label} · " in text  # named as in the table of the evaluation


def test_one_model_given_twice_is_no_second_run(ranked):
    parts = [{key: value for key, value in ranked.items() if key != without} for without in ("curves", "map")]
    assert report(parts, format="md") == report(ranked, format="md")


def test_another_power_is_not_called_ranks(ranked):
    result = copy.deepcopy(ranked)
    result["sts"] = {name.replace("ranks", "power -0.25"): system for name, system in result["sts"].items()}
    for groups in result["similar-pairs"].values():
        for group in groups.values():
            group["scores"]["power -0.25"] = group["scores"].pop("ranks")
    page = unplotted(result)
    assert "Power −0.25 vectors are not shown to help here: keep plain cosine" in page.texts["verdict"]
    assert "power −0.25 is within chance of cosine" in page.texts["verdict"]
    assert "By power −0.25, these pairs" in page.texts["words"]
    assert "power −0.25 vectors" in page.texts["space"]
    assert "at 1 (power −0.25 alone)" in page.texts["curves"]
    assert "Gains of power −0.25 over cosine" in page.texts["neighbours"]
    for ident in ("curves", "verdict"):
        assert "ranks alone)" not in page.texts[ident]
    assert "compact form" not in page.texts["sts"]


def test_ranks_that_are_not_the_papers_are_noted(ranked, page):
    size = ranked["model"]["subjects"][0]["form"]["settings"]["dim"]
    note = f"in the compact form, {size} dimensions: close to the exact ranks of the paper, not equal."
    assert f"Ranks here are {note}" in page.texts["sts"]
    other = copy.deepcopy(ranked)
    form = other["model"]["subjects"][0]["form"]
    form |= {"name": "linear", "settings": {"power": 0.5, "center": False}}
    assert "Pearson’s correlation in place of Spearman’s" in unplotted(other).texts["sts"]
    form |= {"name": "exact", "settings": {}}
    assert "Ranks here" not in unplotted(other).texts["sts"]


def test_neighbours_are_told_with_an_interval(ranked):
    result = copy.deepcopy(ranked)
    part = result["neighbours"][""]
    gains = [1.0, 2.5, 2.0, 3.0, 5.0, 4.0, 7.0, 6.0, 9.0]
    for one, gain in zip(part["bins"], [None, *gains], strict=True):
        one |= {"gain": gain, "overlap": one["from"]}
    found = pearsonr([one["overlap"] for one in part["bins"][1:]], gains)
    part["correlation"] = found.statistic
    low, high = map(printed, found.confidence_interval())
    text = unplotted(result).texts["neighbours"]
    interval = f"{printed(found.statistic)} (Pearson; 95% interval {low} to {high}): it is positive."
    assert (
        f"Over 9 bins of my pairs <b>, the gain and the number of shared neighbours correlate with {interval}"
        in text
    )


def test_commands_and_circumstances(ranked):
    bare = {key: value for key, value in ranked.items() if key not in ("made", "command")}
    assert (
        "evaluate a -t sts" in unplotted({**bare, "command": "rankencoder evaluate a -t sts"}).texts["origin"]
    )
    about = {key: ranked[key] for key in ("created", "versions", "machine")}
    made = {"sts": {**about, "command": "evaluate <1>"}, "space": {**about, "command": "evaluate <1>"}}
    page = unplotted({**bare, "made": made})
    assert page.texts["origin"].count("evaluate <1>") == 1
    made["cost"] = {**about, "command": "evaluate 2", "versions": {"torch": "0.0"}}
    page = unplotted([{**bare, "made": made}])
    label = ranked["model"]["label"]
    assert page.row(f"{label}: cost")[1] == "evaluate 2"
    assert page.row(f"{label}: sts, space")[1] == "evaluate <1>"
    # of one model in two parts, the circumstances of both are kept
    parts = [{**bare, "made": {name: about_}} for name, about_ in made.items()]
    assert unplotted(parts).texts["origin"] == page.texts["origin"]


def test_csv_files_hold_the_data(page, ranked):
    files = {name: list(csv.reader(io.StringIO(text))) for name, text in page.files().items()}
    (name,) = ranked["data"]
    sizes = ranked["curves"][""]["reference-size"]
    table = files["reference-size.csv"]
    assert [float(row[3]) for row in table[1:]] == sizes["mean"]
    weights = ranked["curves"][""]["rank-weight"]
    rows_ = [row for row in files["rank-weight.csv"][1:] if row[1] == name]
    assert [float(row[3]) for row in rows_] == weights["scores"][name]
    bins = ranked["neighbours"][""]["bins"]
    assert [row[7] for row in files["overlap.csv"][1:]] == [
        "" if b["gain"] is None else repr(b["gain"]) for b in bins
    ]
    sentences = [row[0].removeprefix("'") for row in files["map.csv"][1:]]
    assert HOSTILE[1] in sentences
    assert not any(row[0].startswith(("=", "+", "-", "@")) for row in files["map.csv"])
    gains = {(row[1], row[3]): row[4:7] for row in files["own-gains.csv"][1:]}
    found = {row.kind: row for row in rows([ranked])}
    expected = found["ranks"].gain_over(found["cosine"], [name])
    assert np.array(gains["ranks", name], dtype=float) == pytest.approx(expected)


def test_csv_formulas_are_text():
    text = to_csv(["=a", "b"], [["@x", -1.0], ["\t=y", None]])
    assert text == "'=a,b\r\n'@x,-1.0\r\n'=y,\r\n"


def test_every_plot_has_words_and_the_colours_of_the_page(page_text, page):
    plots = [a for tag, a in page.elements if tag == "svg" and "plot" in a.get("class", "")]
    assert len(plots) == 7
    assert all(a["role"] == "img" and len(a["aria-label"]) > 10 for a in plots)
    for name in COLOURS:
        assert page_text.count(f"--{name}:") == 3  # light, dark, print
        assert f"--{name}: {COLOURS[name]};" in page_text
    drawn = "".join(re.findall(r'<svg[^>]*class="plot".*?</svg>', page_text, re.S))
    assert not re.search(r"#[0-9a-f]{6}", drawn)
    assert "var(--ranks)" in drawn
    assert "font-family" not in drawn


def test_nothing_is_loaded_from_elsewhere(several_text):
    assert "@import" not in several_text
    for _, attributes in Page(several_text).elements:
        for key in ("src", "href", "xlink:href"):
            assert attributes.get(key, "#").startswith(("#", "data:"))
    assert not re.search(r"url\((?!#)", several_text)


def test_text_of_users_stays_text(page_text, page, ranked):
    assert page_text.count("<script") == 1
    assert "<b>" not in page_text
    assert page_text.lower().count("</title>") == page_text.lower().count("<title>")
    assert [a for _, a in page.elements if any(key.startswith("on") for key in a)] == []
    changed = ranked["changed"][""]["ranks"]
    shown = [pair["a"] for pair in (*changed["improved"], *changed["worsened"])]
    for text in shown:
        assert " ".join(text.split()).replace("\a", "") in page.texts["words"]
    hostile = copy.deepcopy(ranked)
    hostile["model"]["label"] = "</title><script>alert(1)</script>"
    hostile["model"]["path"] = '"><img src=x onerror=alert(1)>'
    hostile["changed"][""]["ranks"]["improved"][0]["a"] = HOSTILE[0]
    text = report(hostile)
    assert text.count("<script") == 1
    assert "<img" not in text
    assert "&lt;script&gt;alert" in text


def test_missing_sections_say_what_to_run(plain):
    page = unplotted(plain)
    for ident in ("gains", "similar", "neighbours", "curves", "maps", "words", "transfer", "cost"):
        assert "Not measured" in page.texts[ident], ident
        assert "rankencoder evaluate" in page.texts[ident]


def test_only_a_head(ranked):
    page = Page(
        report({key: ranked[key] for key in ("format", "model", "created", "data", "versions", "machine")})
    )
    assert "Nothing was measured" in page.texts["verdict"]


def test_transfer_next_to_the_papers(ranked):
    tasks = ("MR", "CR", "SUBJ", "MPQA", "SST-2", "TREC", "MRPC")
    accuracies = {task: {"accuracy": 80.0 + i} for i, task in enumerate(tasks)}
    systems = {
        "cosine <x>": {"tasks": accuracies, "AVG": 83.0},
        "part": {"tasks": {"CR": {"accuracy": 7.0}}, "AVG": None},
    }
    data = {"MR": {"fingerprint": "ab" * 32, "notes": ["MR has 5 sentences here"]}}
    page = unplotted({**ranked, "transfer": {"systems": systems, "data": data}})
    assert page.row("cosine <x>")[1:] == [f"{80 + i}.00" for i in range(7)] + ["83.00"]
    assert page.row("part")[1:] == ["–", "7.00", *["–"] * 6]
    assert "MR has 5 sentences here" in page.texts["origin"]
    assert "abababababab" in page.texts["origin"]
    assert page.row("SimCSE with MLM")[-1] == "86.64"


def test_markdown(ranked, several):
    text = report([ranked], format="md")
    (name,) = ranked["data"]
    assert ranked["choice"][""]["sentence"].split(":")[0] in text
    for kind, system in ranked["sts"].items():
        assert re.search(rf"^\| {kind} \| \**{printed(system['scores'][name]['all'])}\** \|$", text, re.M)
    assert "| encoder | set | reference sentences | mean | standard deviation |" in text
    assert "<svg" not in text
    assert "<script" not in text
    for line in text.splitlines():
        if line.startswith("|"):
            assert len(re.findall(r"(?<!\\)\|", line)) >= 3
    tables = re.findall(r"(?:^\|.*\|\n?)+", text + report(several, format="md"), re.M)
    for table in tables:
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.strip().splitlines()}) == 1


def test_markdown_escapes():
    assert escape_markdown(HOSTILE[2]).startswith(
        "a \\| b \\`c\\` \\*d\\* @\N{WORD JOINER}someone #\N{WORD JOINER}1"
    )
    assert "<" not in escape_markdown(HOSTILE[0])
    assert escape_markdown("# x") == "\\# x"
    assert escape_markdown("do `rankencoder tune MODEL`") == "do `rankencoder tune MODEL`"


def test_other_aggregations(ranked):
    (name,) = ranked["data"]
    changed = copy.deepcopy(ranked)
    changed["sts"]["cosine"]["scores"][name]["mean"] = 12.34
    page = unplotted(changed, aggregation="mean")
    assert page.row("cosine")[1] == "12.34"
    assert "over all pairs of a set" in page.texts["gains"]
    with pytest.raises(InputError, match="unknown aggregation 'median'"):
        report(changed, aggregation="median")
    with pytest.raises(InputError, match="unknown format 'pdf'"):
        report(changed, format="pdf")
    with pytest.raises(InputError, match="no results"):
        report([])


@pytest.mark.parametrize("package", ["matplotlib", "jinja2"])
def test_what_is_not_installed_is_named(package, ranked, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError, match=rf"needs {package}: pip install 'rankencoder\[report\]'"):
        report(ranked)
    if package == "matplotlib":
        assert "do rank vectors help" in report(ranked, format="md")


@pytest.fixture
def run_report(capsys):
    """Run the command as the command line does."""
    import typer

    from rankencoder.cli.console import OneLineCommand
    from rankencoder.cli.report import report as command

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
    assert "mine.md already exists and is no report" in err
    assert (tmp_path / "mine.md").read_text() == "my notes"
    assert run_report("evaluation", "-o", "mine.md", "--overwrite")[0] == 0
    assert run_report("evaluation", "-o", "evaluation")[0] == 2
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


def test_browser_shows_all_without_overflow(open_page, several_text, page_text):
    widest = "Math.max(...[...document.querySelectorAll('figure svg, .verdict, p')].map(e => "
    for text in (several_text, page_text):
        tab = open_page(text)
        for width in (390, 1280):
            tab.set_viewport_size({"width": width, "height": 900})
            for ident in SECTIONS:
                assert tab.locator(f"#{ident} h2").is_visible(), ident
            assert tab.evaluate("document.documentElement.scrollWidth") <= width
            assert tab.evaluate(f"{widest} e.getBoundingClientRect().right))") <= width
        assert tab.problems == []


def colours(tab):
    return tab.evaluate(
        """() => {
            const style = e => getComputedStyle(e);
            const line = document.querySelector('#own-gains svg path[style*="--ranks"]');
            const text = document.querySelector('#own-gains svg text');
            return [style(document.body).backgroundColor, style(line).stroke, style(text).fill];
        }"""
    )


def test_browser_light_dark_and_print(open_page, page_text, tmp_path):
    tab = open_page(page_text, color_scheme="light")
    light = colours(tab)
    tab.emulate_media(color_scheme="dark")
    dark = colours(tab)
    assert light[0] == "rgb(255, 255, 255)"
    assert all(a != b for a, b in zip(light, dark, strict=True))
    tab.emulate_media(color_scheme="dark", media="print")
    assert colours(tab)[:2] == light[:2]
    assert not tab.locator("nav").is_visible()
    assert tab.pdf(path=tmp_path / "report.pdf")[:4] == b"%PDF"


def test_browser_downloads_data_and_shows_a_sentence_of_the_map(open_page, page_text, page):
    tab = open_page(page_text)
    tab.locator("#reference-size summary").click()
    with tab.expect_download() as download:
        tab.get_by_text("Download reference-size.csv").click()
    assert download.value.suggested_filename == "reference-size.csv"
    assert download.value.path().read_bytes().decode() == page.files()["reference-size.csv"]
    dot = tab.locator("#map svg circle").first
    sentence = dot.locator("title").text_content()
    dot.dispatch_event("pointerover")
    assert tab.locator("#map .said").text_content() == sentence
    assert tab.locator("#map .same").count() == 2


def test_browser_without_scripts_and_by_keyboard(open_page, page_text):
    tab = open_page(page_text, java_script_enabled=False)
    assert tab.locator("#maps svg.map").count() == 2
    tab.keyboard.press("Tab")
    assert tab.locator(".skip").is_visible()
    for ident in SECTIONS:
        assert tab.locator(f"#{ident}").is_visible()
