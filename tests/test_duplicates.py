"""Near-duplicates; the oracle is all pairs by numpy."""

import json

import networkx as nx
import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics.pairwise import cosine_similarity

from conftest import letters
from rankencoder import RankIndex, find_duplicates
from rankencoder.errors import InputError
from rankencoder.search import similar_pairs as module
from rankencoder.search.calibration import Calibration, default_similarity
from rankencoder.search.near_duplicates import Duplicates

WORDS = [
    "anchor",
    "bridge",
    "candle",
    "desert",
    "engine",
    "forest",
    "garden",
    "harbour",
    "island",
    "jacket",
    "kettle",
    "ladder",
    "meadow",
    "needle",
    "orchard",
    "pepper",
    "quarry",
    "ribbon",
    "saddle",
    "temple",
    "umbrella",
    "valley",
    "window",
    "yellow",
    "zipper",
]


@pytest.fixture(scope="module")
def corpus():
    """400 sentences of five words, two of them with a near-duplicate, one repeated, and an empty line."""
    rng = np.random.default_rng(3)
    drawn = (" ".join(rng.choice(WORDS, 5, replace=False)) for _ in range(500))
    sentences = list(dict.fromkeys(drawn))[:400]
    extra = [f"{sentences[10]} {sentences[10].split()[0]}", f"{sentences[20]} {sentences[20].split()[1]}"]
    return [*sentences, *extra, sentences[30], ""]


def expected_pairs(corpus, threshold):
    texts = list(dict.fromkeys(filter(None, corpus)))
    vectors = letters(texts)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    rows, columns = np.nonzero(np.triu(vectors @ vectors.T, 1) >= threshold)
    return {frozenset((texts[a], texts[b])) for a, b in zip(rows, columns, strict=True)}


def texts_of(found):
    return {frozenset((found.sentences[pair.a], found.sentences[pair.b])) for pair in found.pairs}


def test_all_pairs_by_similarity(corpus):
    found = find_duplicates(corpus, letters, threshold=0.9)
    assert found.pairs
    assert texts_of(found) == expected_pairs(corpus, 0.9)
    similarities = [pair.similarity for pair in found.pairs]
    assert similarities == sorted(similarities, reverse=True)
    assert found.records.skipped == 1
    assert [found.sentences[i] for i in found.repeated] == [corpus[30]]
    assert found.places[found.repeated[0]] == [
        "the given sentences, line 31",
        "the given sentences, line 403",
    ]


def test_threshold_as_a_share_of_random_pairs(corpus):
    found = find_duplicates(corpus, letters, threshold="99.9%")
    every = 401 * 402 // 2
    assert found.calibration.pairs == every
    assert len(found.pairs) == pytest.approx(every / 1000, rel=0.2)
    assert texts_of(found) == expected_pairs(corpus, found.threshold)
    assert all(pair.percentile >= 99.8 for pair in found.pairs)
    with pytest.raises(InputError, match="99.99999% is too fine for"):
        find_duplicates(corpus, letters, threshold="99.99999%")


def test_groups_hang_together():
    texts = ["a b c d", "d c b a", "a b c d d", "x y z", "z y x", "lonely"]
    found = find_duplicates(texts, letters, threshold=0.9)
    assert [[found.sentences[i] for i in group] for group in found.groups()] == [texts[:3], texts[3:5]]


def test_blocks_are_compared_with_each_other(corpus, monkeypatch):
    monkeypatch.setattr(module, "_BLOCK", 30)
    monkeypatch.setattr(module, "_WIDTH", 70)
    assert texts_of(find_duplicates(corpus, letters, threshold=0.9)) == expected_pairs(corpus, 0.9)


RULES = ("first", "longest", "central")


def graph_of(found):
    graph = nx.Graph()
    graph.add_nodes_from(range(len(found.sentences)))
    graph.add_weighted_edges_from((pair.a, pair.b, pair.similarity) for pair in found.pairs)
    return graph


texts_with_repeats = st.lists(
    st.lists(st.sampled_from(WORDS[:6]), max_size=4).map(" ".join), min_size=2, max_size=30
).filter(lambda texts: len({text for text in texts if text}) >= 2)


@settings(max_examples=40, deadline=None)
@given(texts_with_repeats, st.sampled_from(RULES), st.floats(0.2, 1))
def test_representatives_are_a_maximal_independent_set(texts, rule, threshold):
    found = find_duplicates(texts, letters, threshold=threshold)
    graph = graph_of(found)
    best, alike = found.representatives(rule)
    stays = set(np.flatnonzero(best < 0).tolist())
    assert graph.subgraph(stays).number_of_edges() == 0
    for number in set(graph) - stays:
        nearest = max(graph[number][n]["weight"] for n in graph[number] if n in stays)
        assert graph[number][int(best[number])]["weight"] == alike[number] == nearest
        assert int(best[number]) in stays
    groups = {frozenset(group) for group in found.groups()}
    components = {frozenset(c) for c in nx.connected_components(graph) if len(c) > 1 or c & {*found.repeated}}
    assert groups == components


@settings(max_examples=40, deadline=None)
@given(texts_with_repeats, st.sampled_from(RULES), st.floats(0.2, 1))
def test_kept_removed_and_skipped_add_up(texts, rule, threshold):
    rows = [{"text": text, "row": i} for i, text in enumerate(texts)]
    found = find_duplicates(rows, letters, threshold=threshold)
    kept, removed = found.split(rule)
    assert len(kept) + len(removed) + found.records.skipped == len(texts)
    numbers = [row["row"] for row in kept]
    assert numbers == sorted(numbers)
    assert {*numbers, *(row["row"] for row in removed)} == {i for i, text in enumerate(texts) if text}
    stay = {row["text"] for row in kept}
    assert len(stay) == len(kept)
    for row in removed:
        assert row["duplicate_of"] in stay
        assert row["duplicate_place"] == f"the given sentences, line {row['row'] + 1}"
        same = row["duplicate_of"] == row["text"]
        assert row["duplicate_reason"] == ("verbatim" if same else "near-duplicate")
        similarity = cosine_similarity(letters([row["text"]]), letters([row["duplicate_of"]])).item()
        assert row["duplicate_similarity"] == pytest.approx(similarity, abs=1e-5)
        assert similarity >= threshold - 1e-5


def test_which_of_a_group_stays():
    angles = {"left": 0, "middle": 19, "rightmost": 40, "opposite": 180}

    def encode(texts):
        radians = np.radians([angles[text] for text in texts])
        return np.column_stack([np.cos(radians), np.sin(radians)]).astype(np.float32)

    found = find_duplicates(list(angles), encode, threshold=0.7)
    chain = found.at(0.9)  # the ends are connected through the middle alone
    assert found.groups() == chain.groups() == [[0, 1, 2]]
    expected = {"first": [-1, 0, 0, -1], "longest": [2, 2, -1, -1], "central": [1, -1, 1, -1]}
    assert {rule: found.representatives(rule)[0].tolist() for rule in RULES} == expected
    expected = {"first": [-1, 0, -1, -1], "longest": [-1, 0, -1, -1], "central": [1, -1, 1, -1]}
    assert {rule: chain.representatives(rule)[0].tolist() for rule in RULES} == expected
    with pytest.raises(InputError, match="unknown rule 'last': choose from first, longest, central"):
        found.representatives("last")


def test_equal_vectors_are_a_pair_at_similarity_one():
    texts = [" ".join(words) for words in (WORDS[:7], WORDS[6::-1], WORDS[7:14], WORDS[13:6:-1])]
    assert {(pair.a, pair.b) for pair in find_duplicates(texts, letters, threshold=1.0).pairs} == {
        (0, 1),
        (2, 3),
    }


@pytest.mark.parametrize("indexed", [(), (0,), (1,), (0, 1)])
def test_leakage_between_two_corpora(corpus, tmp_path, indexed):
    train = [{"text": text, "source": f"train {i}"} for i, text in enumerate(corpus[:250])]
    test = [{"text": text, "source": f"test {i}"} for i, text in enumerate([*corpus[200:], corpus[5]])]
    sides = [test, train]
    for i in indexed:
        RankIndex.build(letters, sides[i], tmp_path / f"{i}")
        sides[i] = RankIndex.load(tmp_path / f"{i}", letters)
    found = find_duplicates(sides[0], letters, threshold=0.9, against=sides[1])
    a, b = found.sentences, found.against.texts
    near = cosine_similarity(letters(a), letters(b)) >= 0.9
    pairs = {(a[pair.a], b[pair.b]) for pair in found.pairs}
    assert pairs == {(a[i], b[j]) for i, j in zip(*np.nonzero(near), strict=True)}
    kept, removed = found.split()
    leaked = {text for text, _ in pairs}
    assert {row["text"] for row in removed} == leaked
    assert not leaked & {row["text"] for row in kept}
    if 0 not in indexed:  # an index has each sentence once, and no empty one
        assert len(kept) + len(removed) + found.records.skipped == len(test)
    row = next(row for row in removed if row["text"] == corpus[5])
    assert (row["duplicate_reason"], row["duplicate_of"]) == ("leakage", corpus[5])
    assert row["source"].startswith("test ")
    with pytest.raises(InputError, match="no groups between two corpora"):
        found.groups()
    with pytest.raises(InputError, match="too few usable sentences to compare: 0; use at least 1"):
        find_duplicates(corpus, letters, against=[""])


def test_indexes_of_two_models_are_not_compared(corpus, tmp_path):
    RankIndex.build(letters, corpus[:20], tmp_path / "one")
    RankIndex.build(lambda texts: letters(texts)[:, ::-1] + 1, corpus[:20], tmp_path / "two")
    one = RankIndex.load(tmp_path / "one", letters)
    with pytest.raises(InputError, match="two was made with"):
        find_duplicates(one, against=RankIndex.load(tmp_path / "two"))


def test_records_of_several_columns():
    rows = [
        {"title": "anchor bridge", "body": "candle desert", "n": 1},
        {"title": "bridge anchor", "body": "desert candle", "n": 2},
        {"title": "anchor bridge", "body": "yellow zipper", "n": 3},
        {"title": "anchor bridge", "body": "candle desert", "n": 4},
        {"title": None, "body": " temple ", "n": 5},
        {"title": "", "body": None, "n": 6},
    ]
    found = find_duplicates(rows, letters, threshold=0.99, column=["title", "body"])
    assert found.sentences == [
        "anchor bridge\ncandle desert",
        "bridge anchor\ndesert candle",
        "anchor bridge\nyellow zipper",
        "temple",
    ]
    kept, removed = found.split()
    assert [row["n"] for row in kept] == [1, 3, 5]
    assert kept[0] == rows[0]
    assert [(row["n"], row["duplicate_reason"]) for row in removed] == [
        (2, "near-duplicate"),
        (4, "verbatim"),
    ]
    assert found.records.skipped == 1
    with pytest.raises(InputError, match="line 1: no column 'bdy'; choose from body, n"):
        find_duplicates(rows, letters, column=["title", "bdy"])


@pytest.mark.parametrize("threshold", [0.3, 0.7, 0.9, "99.9%"])
def test_rethresholding_equals_searching_again(corpus, threshold, tmp_path):
    found = find_duplicates(corpus, letters, threshold=0.95, hold=10**6)
    again = find_duplicates(corpus, letters, threshold=threshold)
    found.save(tmp_path / "found")
    for one in (found.at(threshold), Duplicates.load(tmp_path / "found").at(threshold)):
        assert one.threshold == pytest.approx(again.threshold)
        for name in ("a", "b", "similarity"):
            np.testing.assert_array_equal(getattr(one.pairs, name), getattr(again.pairs, name))
        assert one.split("central") == again.split("central")
    assert len(found.pairs) < len(again.pairs)  # the first is as it was
    some = find_duplicates(corpus, letters, threshold=0.95, hold=1000)
    assert len(some.candidates) == pytest.approx(1000, rel=0.05)
    with pytest.raises(InputError, match="threshold 0.3000 is too low: only pairs of at least 0"):
        some.at(0.3)


def test_too_many_pairs_raise_the_floor_but_never_the_threshold(corpus, monkeypatch):
    monkeypatch.setattr(module, "_BLOCK", 30)
    monkeypatch.setattr(module, "_WIDTH", 70)
    every = find_duplicates(corpus, letters, threshold=-1)
    found = find_duplicates(corpus, letters, threshold=0.9, hold=10**6, most=1000)
    assert 0 < len(found.pairs) < 1000 < len(found.candidates) <= 2000
    assert found.at(found.floor).to_dict() == every.at(found.floor).to_dict()
    assert len(found.candidates) == len(every.at(found.floor).pairs)
    with pytest.raises(InputError, match="more than 1,000 pairs: choose a higher"):
        find_duplicates(corpus, letters, threshold=0.3, most=1000)


def test_saved_pairs_that_are_damaged(corpus, tmp_path):
    found = find_duplicates(corpus, letters, threshold=0.9)
    found.save(tmp_path / "found")
    with pytest.raises(InputError, match="already exists"):
        found.save(tmp_path / "found")
    found.save(tmp_path / "found", overwrite=True)
    path = tmp_path / "found" / "pairs.safetensors"
    path.write_bytes(path.read_bytes()[:-4] + b"1234")
    with pytest.raises(InputError, match="is damaged: its checksum differs; search the corpus again"):
        Duplicates.load(tmp_path / "found")
    (tmp_path / "found" / "manifest.json").unlink()
    with pytest.raises(InputError, match="no manifest"):
        Duplicates.load(tmp_path / "found")


def test_pairs_are_a_sequence(corpus):
    pairs = find_duplicates(corpus, letters, threshold=0.8).pairs
    assert list(pairs) == pairs[:] == [pairs[i] for i in range(len(pairs))]
    assert pairs[-1] == pairs[:][-1]
    with pytest.raises(IndexError):
        pairs[len(pairs)]


@pytest.mark.parametrize("size", [50, 300, 3000])
def test_default_threshold_is_not_moved_by_duplicates(size):
    """Of random vectors the share above a cosine is known: here, a normal distribution's."""
    rng = np.random.default_rng(size)
    plain = rng.normal(size=(size, 64)).astype(np.float32)
    near = plain + rng.normal(scale=0.1, size=plain.shape).astype(np.float32)
    levels = []
    for rows in (plain, np.concatenate([plain, near])):
        unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        levels.append(default_similarity(Calibration.measure(unit, "noise"), 2 / len(unit)))
    exact = 4.753 / np.sqrt(64)  # of a normal distribution; cosines of 64 dimensions are nearly so
    assert levels == pytest.approx([exact, exact], abs=0.12)
    assert levels[1] < 0.8 < cosine_similarity(plain[:1], near[:1]).item()


def test_default_threshold_finds_about_one_pair_a_sentence_at_most():
    rng = np.random.default_rng(0)
    rows = np.repeat(rng.normal(size=(400, 64)), 5, axis=0) + rng.normal(scale=0.3, size=(2000, 64))
    texts = [f"sentence {i}" for i in range(len(rows))]  # of 400 templates, each with 10 pairs
    found = find_duplicates(texts, lambda some: rows[[texts.index(text) for text in some]])
    assert len(found.pairs) == pytest.approx(2000, rel=0.05)


def test_an_index_can_be_looked_through(corpus, tmp_path):
    index = RankIndex.build(letters, corpus, tmp_path / "index")
    for corpus_or_folder in (index, tmp_path / "index"):
        found = find_duplicates(corpus_or_folder, threshold=0.9)
        assert texts_of(found) == expected_pairs(corpus, 0.9)


def test_rank_encoders_are_calibrated_on_their_reference(tiny_saved, sentences):
    from rankencoder import RankEncoder

    found = find_duplicates(sentences[:300], tiny_saved, threshold="99.9%")
    assert found.calibration.source == "the model's reference corpus"
    assert found.calibration.pairs == 1200 * 1199 // 2
    vectors = RankEncoder.load(tiny_saved).encode(sentences[:300])
    assert len(found.pairs) == (np.triu(vectors @ vectors.T, 1) >= found.threshold).sum()


@pytest.mark.parametrize("threshold", ["much", "1.5", "100%", "-3%", "nan", "%", 90])
def test_bad_thresholds(threshold, corpus):
    with pytest.raises(InputError, match="is neither a similarity .0.9. nor a share of random pairs"):
        find_duplicates(corpus, letters, threshold=threshold)


def test_too_little_to_compare():
    with pytest.raises(InputError, match="too few usable sentences to compare: 1"):
        find_duplicates(["one", "one", ""], letters)
    with pytest.raises(InputError, match="no model"):
        find_duplicates(["one", "two"])


def test_command(run_cli, tiny_saved, tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_text("The cat sees the dog\nThe cat sees the dog .\nA river breaks\nA river breaks\n", "utf-8")
    code, out, err = run_cli("duplicates", path, "--model", tiny_saved, "--threshold", "0.8")
    assert (code, err) == (0, "")
    assert "The cat sees the dog ." in out
    assert "1 sentences are repeated word for word" in out
    assert "of the model's reference corpus" in out
    code, out, _ = run_cli("duplicates", path, "--model", tiny_saved, "--threshold", "0.8", "--groups")
    assert "different" in out.splitlines()[0]
    assert "(and 1 more): A river breaks" in out
    assert [line.split()[0] for line in out.splitlines()[1:3]] == ["keep", "remove"]
    code, out, _ = run_cli("duplicates", path, "--model", tiny_saved, "--threshold", "0.8", "--json")
    value = json.loads(out)
    assert value["pairs"][0]["a"] == {"text": "The cat sees the dog", "places": [f"{path}, line 1"]}
    assert value["threshold"] == 0.8
    code, out, err = run_cli("duplicates", path)
    assert (code, out) == (2, "")
    assert err.startswith("error: no model:")
    code, _, err = run_cli("duplicates", tmp_path / "none.txt", "--model", tiny_saved)
    assert (code, err.count("\n")) == (2, 1)


def test_command_that_removes_and_rethresholds(run_cli, tiny_saved, tmp_path):
    path = tmp_path / "corpus.csv"
    rows = ["id,title,body", "1,The cat,sees the dog", "2,The cat,sees the dog .", "3,A river,breaks"]
    path.write_text("\n".join([*rows, "4,A river,breaks"]), "utf-8")
    kept, removed, found = tmp_path / "kept.jsonl", tmp_path / "removed.parquet", tmp_path / "found"
    outputs = ["--kept", kept, "--removed", removed, "--representative", "longest"]
    given = ["duplicates", path, "--model", tiny_saved, "--threshold", "0.8", "--column", "title,body"]
    code, out_first, err = run_cli(*given, *outputs, "-o", found)
    assert (code, err) == (0, f"reading {path}: ',', header, 3 columns, text column title\n")
    rows = [json.loads(line) for line in kept.read_text("utf-8").splitlines()]
    assert [row["id"] for row in rows] == [2, 3]
    gone = pq.read_table(removed).to_pylist()
    reasons = [(row["id"], row["duplicate_reason"], row["duplicate_of_place"]) for row in gone]
    assert reasons == [
        (1, "near-duplicate", f"{path}, line 3"),
        (4, "verbatim", f"{path}, line 4"),
    ]
    code, out, err = run_cli(*given, *outputs)
    assert (code, out) == (2, "")
    assert "already exists: choose another name or set --overwrite" in err
    code, again, err = run_cli("duplicates", found, "--json")
    assert (code, err) == (0, "")
    value = json.loads(again)
    assert value["threshold"] == 0.8
    assert f"{len(value['pairs'])} pairs among 3 different sentences, from similarity 0.8000 on" in out_first
    stay = {entry["places"][0]: entry["stays"] for group in value["groups"] for entry in group}
    assert stay[f"{path}, line 2"]  # of the first in the corpus
    assert not stay[f"{path}, line 3"]
    code, out, _ = run_cli("duplicates", found, "--threshold", "0.9999")
    assert "0 pairs among 3 different sentences, from similarity 0.9999 on" in out
    code, out, err = run_cli("duplicates", found, "--model", tiny_saved)
    assert (code, err.count("\n")) == (2, 1)
    assert "only --threshold can be changed" in err


def test_command_for_leakage(run_cli, tiny_saved, tmp_path):
    train, test = tmp_path / "train.txt", tmp_path / "test.txt"
    train.write_text("A river breaks\nThe cat sees the dog\nThe cat sees the dog\n", "utf-8")
    test.write_text("The cat sees the dog\n\nIt rains\n", "utf-8")
    given = ["duplicates", test, "--against", train, "--model", tiny_saved, "--threshold", "0.999"]
    code, out, err = run_cli(*given, "--kept", tmp_path / "kept.csv")
    assert (code, err) == (0, "")
    assert "1 pair of 2 different sentences with 2 others" in out
    assert (tmp_path / "kept.csv").read_text("utf-8") == '"text"\n"It rains"\n'
    code, out, err = run_cli(*given, "--groups")
    assert (code, out) == (2, "")
    assert err.startswith("error: there are no groups between two corpora")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--threshold", "0.99", "--precision", "0.6"], "pass either a threshold or a precision"),
        (["--precision", "0.6"], "--precision needs labels"),
        (["--representative", "longst"], "'longst' is not one of 'first', 'longest', 'central'"),
        (["--against", "corpus.txt", "--groups"], "there are no groups between two corpora"),
        (["--kept", "x.csv", "--removed", "./x.csv"], "must be different files"),
        (["--kept", "pairs.csv"], "must be different files"),
    ],
)
def test_command_checks_options_before_the_work(options, message, run_cli, tiny_saved, tmp_path, monkeypatch):
    from rankencoder import RankEncoder

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(RankEncoder, "encode", lambda *_, **__: pytest.fail("encoded"))
    (tmp_path / "corpus.txt").write_text("A river breaks\nThe cat sees the dog\n", "utf-8")
    given = ["duplicates", "corpus.txt", "--model", tiny_saved, "-o", "pairs.csv"]
    code, out, err = run_cli(*given, *options)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err
    assert [file.name for file in tmp_path.iterdir()] == ["corpus.txt"]


def test_saved_leakage_has_no_groups(run_cli, corpus, tmp_path):
    find_duplicates(corpus[:9], letters, against=corpus[:5], threshold=0.9).save(tmp_path / "found")
    code, out, err = run_cli("duplicates", tmp_path / "found", "--groups", "-o", tmp_path / "pairs.csv")
    assert (code, out, (tmp_path / "pairs.csv").exists()) == (2, "", False)
    assert "there are no groups between two corpora" in err


def test_saved_pairs_are_read_without_torch(tmp_path, corpus):
    import subprocess
    import sys

    find_duplicates(corpus, letters, threshold=0.9).save(tmp_path / "found")
    code = (
        "import sys; from rankencoder.search.near_duplicates import Duplicates; "
        f"Duplicates.load({str(tmp_path / 'found')!r}).at(0.95); sys.exit('torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
