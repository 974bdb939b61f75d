import importlib.util
import inspect
import json
import re
import runpy
import signal
import socket
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from unittest.mock import Mock

import httpx
import numpy as np
import pytest
from live_server import Process
from sklearn.decomposition import PCA

from rankencoder import RankEncoder
from rankencoder.blend import blend
from rankencoder.encoders import Encoder
from rankencoder.explorer import explore, space_maps
from rankencoder.explorer.comparison import compare
from rankencoder.explorer.explorer_state import ExplorerState
from rankencoder.explorer.layout import render

ROOT = Path(__file__).parents[1]
A, B, C = "The cat sees the dog", "A dog sees the cat", "The engine breaks"
HOSTILE = "<script>hacked()</script><img src=x onerror=hacked()> ${hacked()} {{hacked()}} & \"'"


@pytest.fixture(scope="module")
def model(tiny_saved):
    return RankEncoder.load(tiny_saved, device="cpu")


@pytest.fixture(scope="module")
def state(model):
    return ExplorerState(model, name="tiny")


@pytest.fixture
def encoded(monkeypatch):
    """The sentences that were encoded since."""
    seen = []
    call = Encoder.__call__

    def counting(self, sentences, **options):
        seen.extend(sentences)
        return call(self, sentences, **options)

    monkeypatch.setattr(Encoder, "__call__", counting)
    return seen


@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
def test_pairs_are_those_of_explain(state, model, weight):
    seen = compare(state, (A, B, C), weight, 20)
    assert [(pair.a, pair.b) for pair in seen.pairs] == [("A", "B"), ("A", "C"), ("B", "C")]
    texts = {"A": A, "B": B, "C": C}
    for pair in seen.pairs:
        expected = model.explain(texts[pair.a], texts[pair.b], 20)
        assert pair.explanation.shared == expected.shared
        assert pair.explanation.neighbors_a == expected.neighbors_a
        values = {line.kind: line.value for line in pair.lines}
        assert values["base"] == pytest.approx(expected.cosine, abs=1e-6)
        assert values["ranks"] == pytest.approx(expected.rank_similarity, abs=1e-6)
        assert values["blend"] == pytest.approx(blend(values["ranks"], values["base"], weight), abs=1e-6)
    neighbors = {letter: model.neighbors(text, 20) for letter, text in texts.items()}
    for letter, column in seen.columns.items():
        assert [n.neighbor.sentence for n in column] == [n.sentence for n in neighbors[letter]]
        others = {other: found for other, found in neighbors.items() if other != letter}
        for n in column:
            assert n.also == [
                (o, m.rank) for o, found in others.items() for m in found if m.sentence == n.neighbor.sentence
            ]


def test_meanings_are_shares_of_the_pairs_of_reference_sentences(state, model):
    reference = model.encoder(model.reference.sentences)
    ranks = model.form(reference)
    above = np.triu_indices(len(reference), 1)
    matrix = blend((ranks @ ranks.T).numpy(), (reference @ reference.T).numpy(), 0.4)[above]
    assert state.pairs.number == len(matrix)
    for similarity in np.quantile(matrix, [0.1, 0.5, 0.97, 0.9999]):
        found = state.pairs.calibration(0.4).percentile(similarity)
        assert found == pytest.approx(100 * (matrix < similarity).mean(), rel=0.01)


def test_examples_are_near_but_not_equal(state, model):
    examples = state.pairs.examples
    assert len(examples) > 5
    for a, b, c in examples:
        assert a in model.reference.sentences  # the user's own
        near = [found.sentence for found in model.neighbors(a, 2)]
        assert near == [a, b]
        assert c not in ("", a, b)

    def shared(a, b, _):
        left, right = (set(re.findall(r"\w+", text.lower())) for text in (a, b))
        return len(left & right) / len(left | right)

    assert shared(*examples[0]) <= 0.6
    assert len({text for a, b, _ in examples for text in (a, b)}) == 2 * len(examples)


@pytest.fixture(scope="module")
def plain(model):
    """Of a model whose ranks say the same as cosine."""
    return ExplorerState(model.with_form("linear", power=0))


def test_an_encoder_whose_ranks_say_the_same_as_cosine_has_an_example_too(plain):
    a, b, c = plain.pairs.examples[0]
    assert [found.sentence for found in plain.model.neighbors(a, 3)] == [a, b, c]
    seen = compare(plain, (A, B), 0.5, 10)
    assert [line.name for line in seen.pairs[0].lines] == ["cosine", "power +0", "blend, λ 0.50"]


def test_the_order_is_told_truly(state, plain, model):
    def is_disputed(a, b, c):
        return model.explain(a, c).rank_similarity > model.explain(a, b).rank_similarity

    a, b, c = next(example for example in state.pairs.examples if is_disputed(*example))
    for weight, follows in ((0.0, "cosine"), (1.0, "rank similarity")):
        told = compare(state, (a, b, c), weight, 5).finding
        assert told.startswith("They disagree. Most similar first, by cosine: ")
        orders = dict(re.findall(r"by ([^:]+): ([^;.]+)", told))
        assert orders[f"blend, λ {weight:.2f}"] == orders[follows]
        assert orders["cosine"].index("A–B") < orders["cosine"].index("A–C")
        assert orders["rank similarity"].index("A–B") > orders["rank similarity"].index("A–C")
    assert compare(state, (a, b), 0.2, 5).finding == ""
    assert compare(plain, (A, B, C), 0.2, 5).finding.startswith("All agree on the order of the pairs")


def test_nothing_is_encoded_twice(state, encoded):
    compare(state, (A, B, "a new sentence"), 0.1, 10)
    encoded.clear()
    compare(state, (A, B, "a new sentence"), 0.8, 50)
    assert encoded == []
    compare(state, (A, B, "a newer sentence"), 0.8, 50)
    assert encoded == ["a newer sentence"]


def test_what_cannot_be_compared_is_told_kindly(state):
    assert compare(state, ("", " ", None), 0.1, 10).hints == ["Type two sentences to compare them."]
    one = compare(state, (A, "", ""), 0.1, 10)
    assert one.hints == ["Type a second sentence."]
    assert list(one.columns) == ["A"]
    long = compare(state, (A, "cat " * 4000, C), 0.1, 10)
    assert "Sentence B cannot be encoded: " in long.hints[0]
    assert "15,999 characters" in long.hints[0]
    assert [(pair.a, pair.b) for pair in long.pairs] == [("A", "C")]
    assert compare(state, (A, "half \ud800", ""), 0.1, 10).hints[0].startswith("Sentence B cannot be")
    for weight in (2, -0.1, None):
        assert "between 0 and 1" in compare(state, (A, B, ""), weight, 10).hints[0]


def test_maps_are_principal_components_of_both_spaces(model):
    drawn = space_maps.draw(model, most=300)
    assert drawn["sentences"] == model.reference.sentences[:300]
    vectors = {"base": model.form.reference[:300], "ranks": model.form(model.form.reference[:300])}
    near = []
    for name, rows in vectors.items():
        fitted = PCA(2).fit(rows.double().numpy())
        assert f"{100 * fitted.explained_variance_ratio_.sum():.0f}% of" in drawn["about"]
        flat, points = fitted.transform(rows.double().numpy()), np.array(drawn["points"][name])
        theirs, ours = (np.linalg.norm(p[:, None] - p[None], axis=2) for p in (flat, points))
        np.testing.assert_allclose(ours / ours.max(), theirs / theirs.max(), atol=1e-3)
        assert np.abs(points).max() == 1
        similarities = (rows @ rows.T).numpy()
        np.fill_diagonal(similarities, -2)
        near.append(np.argsort(-similarities, axis=1)[:, :10])
    kept = np.mean([len(np.intersect1d(a, b)) for a, b in zip(*near, strict=True)])
    told = re.search(r"([\d.]+) of a sentence’s 10 nearest", drawn["about"])[1]
    assert float(told) == pytest.approx(kept, abs=0.07)


@pytest.mark.filterwarnings("ignore::rankencoder.errors.ReferenceWarning")
@pytest.mark.parametrize("is_installed", [True, False])
def test_maps_of_neighborhoods_find_the_clusters_that_are_there(is_installed, monkeypatch):
    """Four topics, each with words of its own, by UMAP or by what scikit-learn has."""
    if is_installed:
        pytest.importorskip("umap")
    find = importlib.util.find_spec
    monkeypatch.setattr(
        space_maps.importlib.util, "find_spec", lambda n: find(n) if is_installed or n != "umap" else None
    )
    topics = {"apples": 0, "rivers": 1, "violins": 2, "bridges": 3}
    texts = [f"{topic} number {i}" for i in range(60) for topic in topics]

    def encode(sentences):
        rows = np.random.default_rng(0).normal(scale=0.05, size=(len(sentences), 8))
        for row, text in zip(rows, sentences, strict=True):
            row[topics.get(text.split()[0], 7)] += 1
        return rows.astype(np.float32)

    drawn = space_maps.draw(RankEncoder(encode, texts, progress=False), space_maps.neighbor_map())
    assert drawn["about"].startswith("UMAP" if is_installed else "t-SNE")
    assert np.abs(np.array(drawn["points"]["base"])).max() == 1
    found = {}
    for text, cluster in zip(drawn["sentences"], drawn["clusters"], strict=True):
        found.setdefault(cluster, set()).add(text.split()[0])
    found.pop(-1, None)  # in no cluster
    assert all(len(of) == 1 for of in found.values())
    assert set.union(*found.values()) == set(topics)
    for cluster, (topic,) in found.items():
        assert topic in drawn["names"][cluster]


def test_duplicates_of_an_index_are_limited(model, tmp_path, monkeypatch):
    pytest.importorskip("lancedb")
    from rankencoder.explorer import search_tab
    from rankencoder.search.rank_index import RankIndex

    index = RankIndex.build(model, model.reference.sentences[:300], tmp_path / "index")
    state = ExplorerState(model, index)
    assert "More than 20,000 pairs: choose a higher threshold" in search_tab.show_duplicates(state, "-1")
    monkeypatch.setattr(search_tab, "MAX_COMPARED", 299)
    assert "Cannot compare 300 sentences here" in search_tab.show_duplicates(state, "0.99")


def test_a_plain_encoder_takes_its_reference_corpus_from_the_index(tiny_folder, sentences, tmp_path):
    pytest.importorskip("lancedb")
    from rankencoder.explorer import open_explored
    from rankencoder.explorer.search_tab import show_hits
    from rankencoder.search.rank_index import RankIndex

    index = RankIndex.build(str(tiny_folder), sentences, tmp_path / "index")
    state = ExplorerState(*open_explored(tiny_folder, tmp_path / "index", device="cpu"))
    assert set(state.model.reference.sentences) == set(sentences)
    page = show_hits(state, A, 5, "")
    assert all(hit.text in page for hit in index.search(A, 5))


def test_p_same_is_shown_where_a_curve_is_stored(model, tmp_path):
    pytest.importorskip("lancedb")
    from rankencoder import RankIndex
    from rankencoder.explorer.search_tab import show_hits
    from rankencoder.labels.same_posterior import Answers
    from rankencoder.labels.threshold_curve import make_curve

    index = RankIndex.build(model, model.reference.sentences[:300], tmp_path / "index")
    plain = ExplorerState(model, index)
    assert "P(same)" not in render("compare", seen=compare(plain, (A, B), 0.3, 5), note="")
    assert "P(same)" not in show_hits(plain, A, 5, "")
    edges, asked = np.linspace(-0.2, 1.001, 21), np.full(20, 6.0)
    answers = Answers(edges, np.full(20, 100.0), asked, np.linspace(0, 6, 20))
    make_curve(answers, model.fingerprint(), "tiny").save(tmp_path / "index")
    stored = json.loads((tmp_path / "index" / "same.json").read_text())
    middle = np.array(stored["thresholds"]) + (edges[1] - edges[0]) / 2

    def p_same(similarity):
        return f"P(same) {np.interp(similarity, middle, stored['probability']['value']):.2f}"

    index = RankIndex.load(tmp_path / "index", model)
    state = ExplorerState(model, index)
    hits = index.search(A, 5)
    assert len({hit.score for hit in hits}) > 1
    shown = re.findall(r"P\(same\) \d\.\d\d", show_hits(state, A, 5, ""))
    assert shown == [p_same(hit.score) for hit in hits]
    lines = compare(state, (A, B), 0.3, 5).pairs[0].lines
    assert [line.same for line in lines] == ["", "", p_same(model.similarity(A, B).item())]
    assert lines[-1].same in render("compare", seen=compare(state, (A, B), 0.3, 5), note="")
    assert compare(state, (A, B), 0.31, 5).pairs[0].lines[-1].same == "P(same) is known at λ 0.3 only"


class Tags(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.text = set(), ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        assert not [name for name, _ in attributes if name.startswith("on")]

    def handle_data(self, data):
        self.text += data


def test_sentences_stay_text(tiny_folder, sentences, tmp_path):
    pytest.importorskip("lancedb")
    from rankencoder.explorer.search_tab import show_duplicates, show_hits
    from rankencoder.search.rank_index import RankIndex

    corpus = [*sentences, HOSTILE, f"{HOSTILE} again"]
    model = RankEncoder(str(tiny_folder), corpus, dim=64, progress=False)
    hostile = ExplorerState(model, RankIndex.build(model, corpus[-300:], tmp_path / "index"), HOSTILE)
    seen = compare(hostile, (HOSTILE, A, f"{HOSTILE} twice"), 0.5, 10)
    pages = [
        render("compare", seen=seen, note=HOSTILE),
        show_hits(hostile, HOSTILE, 5, ""),
        render("lead", text=HOSTILE),
        render("head", name=HOSTILE, size="1", encoder=HOSTILE, form="f", weight="1", index=HOSTILE),
        show_hits(hostile, HOSTILE, 5, f"{HOSTILE} = 1"),
        show_duplicates(hostile, "99.9%"),
        show_duplicates(hostile, HOSTILE),
    ]
    for page in pages:
        tags = Tags(page)
        assert not tags.tags & {"script", "img"}
        assert tags.tags
    assert all(HOSTILE in Tags(page).text for page in pages[:4])


def test_importing_the_explorer_is_light():
    code = "import sys, rankencoder.explorer; sys.exit(bool({'gradio', 'torch'} & set(sys.modules)))"
    environment = {"PYTHONPATH": str(ROOT / "src")}
    assert subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == 0


def test_command_tells_in_one_line_what_is_missing(
    run_cli, tiny_saved, tiny_folder, tiny_model, tmp_path, monkeypatch
):
    code, _, said = run_cli("explore", tiny_folder, "--port", 0)
    assert (code, said.count("\n")) == (2, 1)
    assert "is a plain encoder: build a RankEncoder from it first" in said
    assert "no such folder" in run_cli("explore", tmp_path / "none", "--port", 0)[2]
    assert str(tmp_path) in run_cli("explore", tiny_saved, "--index", tmp_path, "--port", 0)[2]
    code, _, said = run_cli("explore", tiny_saved, "--labels", tmp_path / "labels.tsv", "--port", 0)
    assert (code, said) == (2, "error: labeling needs an index to draw pairs from: set --index\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, _, said = run_cli("explore", tiny_saved, "--port", port)
        assert (code, said.count("\n")) == (2, 1)
        assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in said
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "gradio" else find(name))
    assert run_cli("explore", tiny_saved) == (
        2,
        "",
        "error: explore needs gradio: run pip install -c constraints.txt '.[explore]' "
        "in a clone of rankencoder\n",
    )


def test_command_refuses_an_index_of_another_model(run_cli, tiny_saved, tiny_model, tmp_path):
    pytest.importorskip("lancedb")
    from rankencoder.search.rank_index import RankIndex

    RankIndex.build(tiny_model, [A, B, C], tmp_path / "index")
    code, _, said = run_cli("explore", tiny_saved, "--index", tmp_path / "index", "--port", 0)
    assert (code, said.count("\n")) == (2, 1)
    assert "make another index" in said


def page_of(url):
    with httpx.Client(base_url=url) as client:
        page = client.get("/")
        assert page.status_code == 200
        config = json.loads(re.search(r"window\.gradio_config = (\{.*?\});?</script>", page.text)[1])
        for file in (b"", b"a file that nobody asked for"):
            assert client.post("/gradio_api/upload", files={"files": file}).status_code == 404
        for path in ("/docs", "/openapi.json", "/gradio_api/openapi.json"):
            assert client.get(path).status_code == 404
    return config


def test_command_shows_the_page_and_ends_at_ctrl_c(tiny_saved, tmp_path):
    with (
        Process("-m", "rankencoder", "explore", tiny_saved, "--port", 0, log=tmp_path / "log") as explorer,
        httpx.stream("GET", f"{explorer.url}/gradio_api/heartbeat/x", timeout=300),
    ):  # an open page
        config = page_of(explorer.url)
        assert config["title"] == "model: rankencoder explorer"
        assert not config["analytics_enabled"]
        explorer.process.send_signal(signal.SIGINT)
        assert explorer.wait() == 0
        lines = explorer.text().splitlines()
        assert [line.split(" ", 3)[3].partition(" http")[0] for line in lines] == ["ready at", "stopped"]


def test_the_space_shows_a_model(tiny_saved, monkeypatch):
    space, shown = ROOT / "examples/space", Mock()
    wanted = {
        "RANKENCODER_MODEL": str(tiny_saved),
        "RANKENCODER_INDEX": "",  # as a variable that was left empty
        "GRADIO_SERVER_PORT": "0",
        "GRADIO_SERVER_NAME": "127.0.0.1",
    }
    for name, value in wanted.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("rankencoder.explorer.explore", shown)
    runpy.run_path(str(space / "app.py"), run_name="__main__")
    inspect.signature(explore).bind(*shown.call_args.args, **shown.call_args.kwargs)
    shown.assert_called_once_with(str(tiny_saved), None, host="127.0.0.1", port=0, name=tiny_saved.name)
    head = (space / "README.md").read_text(encoding="utf-8").split("---")[1]
    fields = dict(line.split(": ", 1) for line in head.strip().splitlines())
    assert (fields["sdk"], fields["app_file"]) == ("gradio", "app.py")
    assert len(fields["short_description"]) <= 60  # the hub's limit
    assert "rankencoder[explore" in (space / "requirements.txt").read_text()


def test_pictures_of_each_tab_are_in_the_docs():
    text = (ROOT / "docs/explorer.md").read_text(encoding="utf-8")
    for name in ("compare", "maps", "search", "label", "phone"):
        picture = ROOT / "docs" / f"images/explorer-{name}.png"
        assert f"images/{picture.name}" in text
        assert 10_000 < picture.stat().st_size < 250_000
