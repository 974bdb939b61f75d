import importlib.util
import json
import re
import signal
import socket
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import httpx
import numpy as np
import pytest
from live_server import Process
from sklearn.decomposition import PCA

from rankencoder import RankEncoder
from rankencoder.blend import blend
from rankencoder.encoders import Encoder
from rankencoder.errors import InputError
from rankencoder.explorer import search_results, space_maps
from rankencoder.explorer.comparison import compare
from rankencoder.explorer.explorer_state import ExplorerState
from rankencoder.explorer.layout import render
from rankencoder.explorer.random_pairs import Example
from rankencoder.search.near_duplicates import find_duplicates

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
    for column in seen.columns:
        near = {n.sentence: n.rank for n in model.neighbors(texts[column.letter], 20)}
        assert {n.neighbor.sentence: n.neighbor.rank for n in column.near} == near
        for n in column.near:
            others = {o: model.neighbors(texts[o], 20) for o in "ABC" if o != column.letter}
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


def test_examples_are_told_apart_by_cosine_and_ranks(state, model):
    examples = state.pairs.examples
    assert len(examples) > 5
    for a, b, c in examples:
        first, second = model.explain(a, b), model.explain(a, c)
        assert first.cosine > second.cosine
        assert first.rank_similarity < second.rank_similarity
    texts = [text for example in examples for text in example]
    assert len(set(texts)) == len(texts)
    assert ExplorerState(model).pairs.examples == examples


def test_an_encoder_whose_ranks_say_the_same_as_cosine_has_an_example_too(model):
    plain = model.with_form("linear", power=0)
    example = ExplorerState(plain).pairs.examples[0]
    assert isinstance(example, Example)
    similarities = model.form.reference @ model.form.reference.T
    similarities.fill_diagonal_(-1)
    assert plain.explain(example.a, example.b).cosine == pytest.approx(float(similarities.max()), abs=1e-4)
    seen = compare(ExplorerState(plain), (A, B), 0.5, 10)
    assert [line.name for line in seen.pairs[0].lines] == ["cosine", "power +0", "blend, λ 0.50"]
    assert "alike" in seen.finding


def test_the_order_is_told_truly(state, model):
    a, b, c = state.pairs.examples[0]
    for weight, follows in ((0.0, "cosine"), (1.0, "ranks")):
        told = compare(state, (a, b, c), weight, 5).finding
        assert told.startswith("They disagree.")
        assert told.endswith(f"goes with {follows}.")
    assert compare(state, (A, A, A), 0.2, 5).finding == "All pairs are equally similar."
    plain = ExplorerState(model.with_form("linear", power=0))
    assert compare(plain, (A, B, C), 0.2, 5).finding.startswith("Cosine and power +0 agree on the order")


def test_a_pair_is_told_of_truly(state, model):
    assert compare(state, (A, A), 0.2, 5).finding == "Cosine and ranks see this pair alike."
    above = np.triu_indices(len(model.reference), 1)
    for pair in ((A, B), (A, C), (B, C), *(example[:2] for example in state.pairs.examples)):
        explanation = model.explain(*pair)
        by_cosine, by_ranks = (
            max(((rows @ rows.T).numpy()[above] >= value).mean(), 1 / len(above[0]))
            for rows, value in (
                (model.form.reference, explanation.cosine),
                (model.form(model.form.reference), explanation.rank_similarity),
            )
        )
        told = compare(state, pair, 0.2, 5).finding
        if max(by_cosine, by_ranks) < 1.9 * min(by_cosine, by_ranks):
            assert told == "Cosine and ranks see this pair alike."
        elif max(by_cosine, by_ranks) > 2.1 * min(by_cosine, by_ranks):
            assert told.endswith(f"more similar by {'ranks' if by_ranks < by_cosine else 'cosine'}.")


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
    assert [column.letter for column in one.columns] == ["A"]
    long = compare(state, (A, "cat " * 4000, C), 0.1, 10)
    assert "Sentence B cannot be encoded: " in long.hints[0]
    assert "15,999 characters" in long.hints[0]
    assert [(pair.a, pair.b) for pair in long.pairs] == [("A", "C")]
    assert compare(state, (A, "half \ud800", ""), 0.1, 10).hints[0].startswith("Sentence B cannot be")
    cut = compare(state, (A, "cat " * 100, ""), 0.1, 10)
    assert cut.hints == ["The encoder reads the first 64 of the 102 tokens of sentence B."]
    assert len(cut.pairs) == 1
    for weight, k in ((2, 10), (-0.1, 10), (None, 10), (0.5, 0), (0.5, 101), (0.5, None)):
        assert "from 0 to 1" in compare(state, (A, B, ""), weight, k).hints[0]


def test_maps_are_principal_components_of_both_spaces(model):
    drawn = space_maps.draw(model, most=300)
    assert drawn.sentences == model.reference.sentences[:300]
    vectors = {"base": model.form.reference[:300], "ranks": model.form(model.form.reference[:300])}
    for space in drawn.spaces:
        fitted = PCA(2).fit(vectors[space.name].double().numpy())
        assert space.share == pytest.approx(fitted.explained_variance_ratio_.sum(), abs=1e-6)
        flat = fitted.transform(vectors[space.name].double().numpy())
        theirs, ours = (np.linalg.norm(p[:, None] - p[None], axis=2) for p in (flat, np.array(space.points)))
        np.testing.assert_allclose(ours / ours.max(), theirs / theirs.max(), atol=1e-3)
        assert np.abs(space.points).max() == 1
    near = []
    for rows in vectors.values():
        similarities = (rows @ rows.T).numpy()
        np.fill_diagonal(similarities, -2)
        near.append(np.argsort(-similarities, axis=1)[:, :10])
    kept = np.mean([len(np.intersect1d(a, b)) for a, b in zip(*near, strict=True)])
    assert drawn.kept == pytest.approx(kept, abs=0.02)
    assert f"{drawn.kept:.1f} of a sentence’s 10 nearest" in drawn.about
    assert f"hold {100 * drawn.spaces[0].share:.0f}% of the variance" in drawn.about


def test_search_in_the_reference_corpus(state, model):
    found = state.search.search(A, 7)
    similarities = model.similarity(A, model.reference.sentences)[0]
    best = np.argsort(-similarities)[:7]
    np.testing.assert_allclose([hit.score for hit in found], similarities[best], atol=1e-5)
    assert found[0].text == model.reference.sentences[best[0]]
    assert "1,200 sentences of the model's reference corpus" in state.search.what
    with pytest.raises(InputError, match="no columns to filter by"):
        state.search.search(A, 7, "text=a")
    for query, k in ((" ", 5), ("cat " * 4000, 5), (A, 0), (A, 101)):
        with pytest.raises(InputError):
            state.search.search(query, k)


def test_duplicates_of_the_reference_corpus(state, model, monkeypatch):
    ours = state.search.near_duplicates("99.9%")
    theirs = find_duplicates(model.reference.sentences, model, threshold="99.9%")
    assert ours.threshold == pytest.approx(theirs.threshold, abs=1e-5)
    clear = ours.threshold + 1e-5  # vectors of another batch differ in the last digits
    assert {(p.a, p.b) for p in ours.pairs if p.similarity > clear} <= {(p.a, p.b) for p in theirs.pairs}
    assert {(p.a, p.b) for p in theirs.pairs if p.similarity > clear} <= {(p.a, p.b) for p in ours.pairs}
    assert len(ours.pairs) > 100
    assert [p.similarity for p in ours.pairs] == sorted((p.similarity for p in ours.pairs), reverse=True)
    with pytest.raises(InputError, match="threshold 'much' is neither"):
        state.search.near_duplicates("much")
    with pytest.raises(InputError, match="more than 20,000 pairs are that similar: choose a higher"):
        state.search.near_duplicates("-1")
    assert state.search.usual == "99.9998%"  # of 719,400 pairs


def test_duplicates_of_an_index_are_limited(state, model, tmp_path, monkeypatch):
    pytest.importorskip("lancedb")
    from rankencoder.search import RankIndex

    index = RankIndex.build(model, model.reference.sentences[:300], tmp_path / "index")
    search = ExplorerState(model, index).search
    with pytest.raises(InputError, match="more than 20,000 pairs are that similar"):
        search.near_duplicates("-1")
    monkeypatch.setattr(search_results, "EXACT", 299)
    with pytest.raises(InputError, match="300 sentences are too many to compare on a page"):
        search.near_duplicates("0.99")


def test_a_plain_encoder_takes_its_reference_corpus_from_the_index(tiny_folder, sentences, tmp_path):
    pytest.importorskip("lancedb")
    from rankencoder.explorer.launch import open_explored
    from rankencoder.search import RankIndex

    index = RankIndex.build(str(tiny_folder), sentences, tmp_path / "index")
    state = ExplorerState(*open_explored(tiny_folder, tmp_path / "index", device="cpu"))
    assert set(state.model.reference.sentences) == set(sentences)
    assert [hit.id for hit in state.search.search(A, 5)] == [hit.id for hit in index.search(A, 5)]


def test_a_large_exact_form_is_searched_in_part(tiny_model, monkeypatch):
    monkeypatch.setattr(search_results, "_HELD", 100 * tiny_model.dimension)
    search = ExplorerState(tiny_model).search
    assert search.what.startswith("100 of the 1,200 sentences")
    assert {hit.text for hit in search.search(A, 100)} == set(tiny_model.reference.sentences[:100])


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


def test_sentences_stay_text(tiny_folder, sentences):
    from rankencoder.explorer.search_tab import show_duplicates, show_hits

    corpus = [*sentences, HOSTILE, f"{HOSTILE} again"]
    hostile = ExplorerState(RankEncoder(str(tiny_folder), corpus, dim=64, progress=False), name=HOSTILE)
    seen = compare(hostile, (HOSTILE, A, f"{HOSTILE} twice"), 0.5, 10)
    pages = [
        render("compare", seen=seen, note=HOSTILE),
        show_hits(hostile, HOSTILE, 5, ""),
        show_hits(hostile, HOSTILE, 5, f"{HOSTILE} = 1"),
        show_duplicates(hostile, "99.9%"),
        show_duplicates(hostile, HOSTILE),
        render("lead", text=HOSTILE),
        render("head", name=HOSTILE, size="1", encoder=HOSTILE, form="f", weight="1", index=HOSTILE),
    ]
    for page in pages:
        tags = Tags(page)
        assert not tags.tags & {"script", "img"}
        assert tags.tags
    assert all(HOSTILE in Tags(pages[i]).text for i in (0, 1, 5, 6))


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
        "error: explore needs gradio: pip install 'rankencoder[explore]'\n",
    )


def test_command_refuses_an_index_of_another_model(run_cli, tiny_saved, tiny_model, tmp_path):
    pytest.importorskip("lancedb")
    from rankencoder.search import RankIndex

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
        assert [line.split(" ", 3)[3].partition(" http")[0] for line in lines] == ["ready at", "ended"]


def test_the_space_shows_a_model(tiny_saved, tmp_path):
    space = ROOT / "examples/space"
    wanted = {
        "RANKENCODER_MODEL": str(tiny_saved),
        "RANKENCODER_INDEX": "",  # as a variable that was left empty
        "GRADIO_SERVER_PORT": "0",
        "GRADIO_SERVER_NAME": "127.0.0.1",
    }
    with Process(space / "app.py", log=tmp_path / "log", **wanted) as running:
        assert "Compare" in json.dumps(page_of(running.url))
        running.terminate()
        assert running.wait() == 0
    head = (space / "README.md").read_text(encoding="utf-8").split("---")[1]
    fields = dict(line.split(": ", 1) for line in head.strip().splitlines())
    assert (fields["sdk"], fields["app_file"]) == ("gradio", "app.py")
    assert len(fields["short_description"]) <= 60  # the hub's limit
    assert "rankencoder[explore" in (space / "requirements.txt").read_text()


def test_pictures_of_each_tab_are_in_the_docs():
    text = (ROOT / "docs/explorer.md").read_text(encoding="utf-8")
    for name in ("compare", "maps", "search", "phone"):
        picture = ROOT / "docs" / f"images/explorer-{name}.png"
        assert f"images/{picture.name}" in text
        assert 10_000 < picture.stat().st_size < 250_000
