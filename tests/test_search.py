"""`RankIndex` and ``rankencoder index`` and ``search``; the oracle is scikit-learn's exact search."""

import datetime
import json
import os
import shutil
import signal
import sys
import time
from decimal import Decimal

import numpy as np
import pytest
import warm
from sklearn.neighbors import NearestNeighbors

from conftest import ROOT, letters
from rankencoder import RankIndex
from rankencoder.errors import InputError
from rankencoder.io.read_options import ReadOptions
from rankencoder.search import rank_index as index_module
from rankencoder.search import table as table_module
from rankencoder.search.calibration import Calibration
from rankencoder.search.index_rows import Hit, content_id

QUERY = "The dog finds the river"


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.fixture
def index(tmp_path, sentences):
    return RankIndex.build(letters, sentences, tmp_path / "index")


def contents(index):
    table = index.rows.table.to_arrow().sort_by("id")
    return table.to_pylist()


def scores(hits):
    """Sentences with equal scores come in any order."""
    return pytest.approx([hit.score for hit in hits], abs=1e-6)


# --- searching


def test_equals_exact_search(index, sentences):
    vectors = unit(letters(sentences))
    queries = [QUERY, "A teacher paints", "window window song"]
    oracle = NearestNeighbors(n_neighbors=20, metric="cosine", algorithm="brute").fit(vectors)
    distances, _ = oracle.kneighbors(unit(letters(queries)))
    for query, expected, hits in zip(queries, 1 - distances, index.search(queries, 20), strict=True):
        np.testing.assert_allclose([hit.score for hit in hits], expected, atol=1e-5)
        own = unit(letters([hit.text for hit in hits])) @ unit(letters([query]))[0]
        np.testing.assert_allclose([hit.score for hit in hits], own, atol=1e-5)
    assert [hit.score for hit in index.search(unit(letters([QUERY]))[0], 20)] == scores(
        index.search(QUERY, 20)
    )


def test_scores_are_those_of_the_rank_encoder(tiny_saved, tmp_path, sentences):
    from rankencoder import RankEncoder

    index = RankIndex.build(tiny_saved, sentences[:100], tmp_path / "index")
    model = RankEncoder.load(tiny_saved)
    for hit in RankIndex.load(tmp_path / "index").search(QUERY, 5):
        assert hit.score == pytest.approx(model.similarity(QUERY, hit.text)[0, 0], abs=1e-5)
    assert index.calibration.source == "the model's reference corpus"
    assert index.calibration.pairs == 1200 * 1199 // 2


def test_percentile_is_the_share_of_random_pairs_below(index, sentences):
    vectors = unit(letters(sentences))
    pairs = (vectors @ vectors.T)[np.triu_indices(len(vectors), 1)]
    for hit in index.search(QUERY, 1200)[::100]:
        assert hit.percentile == pytest.approx(100 * (pairs < hit.score).mean(), abs=0.5)


def kinds(index):
    return {found.index_type for found in index.rows.table.list_indices()}


def test_filters_find_the_few_rows_they_leave_in_many_partitions(tmp_path, monkeypatch):
    for name, value in (("APPROXIMATE", 2000), ("_PARTITION", 128), ("_PROBES", 4)):
        monkeypatch.setattr(table_module, name, value)
    rng = np.random.default_rng(0)
    vectors = unit(rng.normal(size=(6000, 16))).astype(np.float32)
    index = RankIndex.create(letters, tmp_path / "index")
    index.add([{"text": f"s{i}", "rare": i % 500 == 0} for i in range(6000)], vectors=vectors)
    index.optimize()
    assert kinds(index) == {"BTree", "IvfPq"}
    for query in unit(rng.normal(size=(20, 16))).astype(np.float32):
        expected = np.argsort(-(vectors[::500] @ query))[:10] * 500
        assert [hit.text for hit in index.search(query, 10, where={"rare": True})] == [
            f"s{i}" for i in expected
        ]


def test_an_index_that_was_half_made_is_made_whole(tmp_path, monkeypatch):
    from lancedb.index import BTree

    monkeypatch.setattr(table_module, "APPROXIMATE", 2000)
    vectors = unit(np.random.default_rng(0).normal(size=(2100, 16))).astype(np.float32)
    index = RankIndex.create(letters, tmp_path / "index")
    index.add([f"s{i}" for i in range(2100)], vectors=vectors)
    index.rows.table.create_index("id", config=BTree())  # as if killed right after
    index.optimize()
    assert kinds(index) == {"BTree", "IvfPq"}


def test_approximate_index_finds_nearly_all_and_what_came_after(tmp_path, monkeypatch):
    monkeypatch.setattr(table_module, "APPROXIMATE", 2000)
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(40, 16))
    vectors = unit(centres[rng.integers(0, 40, 4000)] + 0.5 * rng.normal(size=(4000, 16))).astype(np.float32)
    index = RankIndex.create(letters, tmp_path / "index")
    texts = [f"s{i}" for i in range(4000)]
    index.add(texts[:3900], vectors=vectors[:3900])
    index.optimize()
    assert kinds(index) == {"BTree", "IvfPq"}
    index.add(texts[3900:], vectors=vectors[3900:])
    queries = np.concatenate([vectors[:50], vectors[-50:]])
    oracle = NearestNeighbors(n_neighbors=10, metric="cosine", algorithm="brute").fit(vectors)
    expected = oracle.kneighbors(queries)[1]
    for exact, least in ((False, 0.95), (True, 0.999)):
        found = index.search(queries, 10, exact=exact)
        shared = [
            len({hit.text for hit in hits} & {f"s{n}" for n in row})
            for hits, row in zip(found, expected, strict=True)
        ]
        assert np.mean(shared) / 10 >= least
        assert all(hits[0].text == f"s{3950 + i}" for i, hits in enumerate(found[50:]))
    index.optimize()
    assert len(index.search(queries[-1], 10)) == 10


def test_filters(tmp_path, sentences):
    rows = [
        {"text": text, "year": 1990 + i % 30, "lang": "en" if i % 2 else "de"}
        for i, text in enumerate(sentences)
    ]
    index = RankIndex.build(letters, rows, tmp_path / "index")
    hits = index.search(QUERY, 50, where={"year": {"gte": 2010}, "lang": "en"})
    vectors = unit(letters(sentences)) @ unit(letters([QUERY]))[0]
    mask = np.array([row["year"] >= 2010 and row["lang"] == "en" for row in rows])
    np.testing.assert_allclose([hit.score for hit in hits], np.sort(vectors[mask])[::-1][:50], atol=1e-5)
    assert all(hit.columns["year"] >= 2010 and hit.columns["lang"] == "en" for hit in hits)
    assert index.search(QUERY, where={"year": {"gt": 3000}}) == []
    assert len(index.search(QUERY, where={})) == 10
    for bad in ({"color": "red"}, {"year": {">": 3}}, {"year": "x"}):
        with pytest.raises(InputError, match="cannot filter by"):
            index.search(QUERY, where=bad)
        with pytest.raises(InputError, match="cannot filter by"):
            index.delete(where=bad)


def test_bad_queries(index):
    with pytest.raises(InputError, match="empty"):
        index.search("  ")
    with pytest.raises(InputError, match="at least 1"):
        index.search(QUERY, 0)
    with pytest.raises(InputError, match="expected vectors of 16"):
        index.search(np.ones(3, dtype=np.float32))
    with pytest.raises(InputError, match="unit vectors"):
        index.search(np.ones(16, dtype=np.float32))
    assert index.search([]) == []


def test_an_empty_index_finds_nothing(tmp_path):
    index = RankIndex.create(letters, tmp_path / "index")
    assert index.search(QUERY) == []
    assert index.calibration is None
    index.optimize()
    assert index.add(["one"])["added"] == 1
    assert index.search("one")[0].percentile is None


# --- adding and deleting


def test_adding_again_changes_nothing(index, sentences):
    before = contents(index)
    assert index.add(sentences)["unchanged"] == 1200
    assert contents(index) == before
    counts = index.add(["", "   ", "new one", "new one", "x" * 20_000, "new   one "])
    assert counts == {"added": 2, "replaced": 0, "unchanged": 0, "repeated": 1, "empty": 2, "overlong": 1}
    assert len(index) == 1202


def test_any_unicode_is_kept(tmp_path):
    texts = [
        "naïve café",
        "日本語の文",
        "emoji 😀 'quoted' \"twice\"",
        "line\u2028separator",
        "مرحبا",
        "O'Brien; --",
    ]
    index = RankIndex.build(letters, texts, tmp_path / "index")
    for text in texts:
        hits = index.search(text, 1)
        assert hits[0].text == text
        assert hits[0].id == content_id(text)
        assert index.delete(hits[0].id) == 1
    assert len(index) == 0


def test_own_ids_replace(tmp_path):
    rows = [{"text": "a cat", "id": 1, "n": 1}, {"text": "a dog", "id": "it's", "n": 2}]
    index = RankIndex.build(letters, rows, tmp_path / "index")
    assert index.add(rows)["unchanged"] == 2
    assert index.add([{"text": "a cat", "id": 1, "n": 3}])["replaced"] == 1
    assert index.add([{"text": "a river", "id": "it's", "n": 2}])["replaced"] == 1
    assert {(hit.id, hit.text, hit.columns["n"]) for hit in index.search("a river")} == {
        (1, "a cat", 3),
        ("it's", "a river", 2),
    }
    assert index.search("a river", 1)[0].score == pytest.approx(1, abs=1e-5)
    with pytest.raises(InputError, match="line 1: no column 'key'; choose from text"):
        index.add([{"text": "x"}], id_column="key")
    with pytest.raises(InputError, match="line 1: no id in column 'key'"):
        index.add([{"text": "x", "key": None}], id_column="key")
    assert index.delete(["1", "it's", "none"]) == 2


def test_columns_come_when_they_come_and_keep_their_type(tmp_path):
    index = RankIndex.build(letters, [{"text": "a", "n": None}, {"text": "b"}], tmp_path / "index")
    assert index.columns == []
    index.add([{"text": "c", "n": 3, "tags": ["x", {"y": 1}]}])
    index.add([{"text": "d", "other": True}])
    assert {hit.text: hit.columns for hit in index.search("c")} == {
        "a": {"n": None, "tags": None, "other": None},
        "b": {"n": None, "tags": None, "other": None},
        "c": {"n": 3, "tags": '["x", {"y": 1}]', "other": None},
        "d": {"n": None, "tags": None, "other": True},
    }
    with pytest.raises(InputError, match="line 2: column 'n' holds int64, not 'many'"):
        index.add([{"text": "e", "n": 1}, {"text": "f", "n": "many"}])
    for name in ("vector", "_distance", "a.b"):
        with pytest.raises(InputError, match="an index cannot have a column"):
            index.add([{"text": "g", name: 1}])


@pytest.mark.parametrize("name", ["query_index", "a`b", "*", "a.b", "_x", ""])
def test_names_that_lancedb_takes_for_something_else(name, index):
    before = contents(index)
    with pytest.raises(InputError, match="line 1: an index cannot have a column"):
        index.add([{"text": "new", name: 1}])
    assert contents(index) == before


@pytest.mark.parametrize(
    ("first", "second"),
    [(True, 5), (5, True), (5, "12"), ("12", 12), (5, 1.5), (5, 2**70), ("a", "\ud800"), ("a", ["\ud800"])],
)
def test_values_of_another_type_are_refused_not_changed(first, second, tmp_path):
    index = RankIndex.create(letters, tmp_path / "index")
    index.add([{"text": "one", "x": first}])
    with pytest.raises(InputError, match="line 1: column 'x'"):
        index.add([{"text": "two", "x": second}])
    assert [hit.columns for hit in index.search("one", 5)] == [{"x": first}]


def test_whole_numbers_may_be_written_either_way(tmp_path):
    index = RankIndex.create(letters, tmp_path / "index")
    index.add([{"text": "one", "x": 1, "y": 1.5}])
    index.add([{"text": "two", "x": 2.0, "y": 2}])
    assert {hit.text: hit.columns for hit in index.search("one", 5)}["two"] == {"x": 2, "y": 2.0}


def test_the_same_text_keeps_its_first_columns(tmp_path, monkeypatch):
    rows = [{"text": "same", "x": 1}, {"text": "other", "x": 2}, {"text": "same", "x": 3}]
    for part in (1, 100):
        monkeypatch.setattr(index_module, "_PART", part)
        index = RankIndex.build(letters, rows, tmp_path / f"of {part}")
        assert {hit.text: hit.columns["x"] for hit in index.search("same", 5)} == {"same": 1, "other": 2}


def test_any_column_can_be_json(tmp_path):
    day, moment = datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29, 10, 30)
    row = {"id": 7, "day": day, "at": moment, "raw": b"\xff", "nan": float("nan"), "price": Decimal("1.50")}
    index = RankIndex.build(letters, [{"text": "one", **row}], tmp_path / "index")
    assert index.add([{"text": "one", **row}])["unchanged"] == 1
    (hit,) = index.search("one", 1)
    found = json.loads(json.dumps(hit.to_dict(), allow_nan=False))["columns"]
    assert found == {
        **{"day": "2024-02-29", "at": "2024-02-29T10:30:00", "raw": "/w=="},
        **{"nan": None, "price": "1.50"},
    }
    assert index.delete(7) == 1


def test_delete_by_filter(tmp_path, sentences):
    rows = [{"text": text, "n": i} for i, text in enumerate(sentences)]
    index = RankIndex.build(letters, rows, tmp_path / "index")
    assert index.delete(where={"n": {"lt": 200}}) == 200
    assert len(index) == len(RankIndex.load(tmp_path / "index", letters)) == 1000
    assert all(hit.columns["n"] >= 200 for hit in index.search(QUERY, 1000))
    assert index.add(rows)["added"] == 200
    for wrong in ({}, {"ids": "a", "where": {"n": 1}}):
        with pytest.raises(InputError, match="pass either the ids to delete or a filter"):
            index.delete(**wrong)


def test_given_vectors_must_fit(index):
    with pytest.raises(InputError, match="expected vectors of 16"):
        index.add(["a"], vectors=np.ones((1, 3), dtype=np.float32))
    with pytest.raises(InputError, match="1 vectors for 2 sentences"):
        index.add(["a", "b"], vectors=unit(np.ones((1, 16))))
    with pytest.raises(InputError, match="3 vectors for 1 sentences"):
        index.add(["a"], vectors=unit(np.ones((3, 16))))


# --- on disk


def test_a_copied_folder_is_an_index(index, tmp_path):
    shutil.copytree(index.folder.path, tmp_path / "copy")
    copy = RankIndex.load(tmp_path / "copy", letters)
    assert contents(copy) == contents(index)
    assert [hit.score for hit in copy.search(QUERY)] == scores(index.search(QUERY))
    assert copy.delete(where={"id": {"not": None}}) == 1200
    assert len(index) == 1200


def test_a_table_of_another_index_is_refused(tmp_path):
    RankIndex.build(letters, ["one", "two"], tmp_path / "a", table=str(tmp_path / "table"))
    with pytest.raises(InputError, match="sentences of another index"):
        RankIndex.create(letters, tmp_path / "b", table=str(tmp_path / "table"))
    assert not (tmp_path / "b" / "index.json").exists()


def test_table_elsewhere(tmp_path, sentences):
    address = f"file://{tmp_path}/bucket"
    RankIndex.build(letters, sentences, tmp_path / "index", table=address)
    assert (tmp_path / "bucket" / "rows.lance").is_dir()
    assert not (tmp_path / "index" / "rows.lance").exists()
    assert len(RankIndex.load(tmp_path / "index", letters).search(QUERY)) == 10
    with pytest.raises(InputError, match="the table of .* is in"):
        RankIndex.create(letters, tmp_path / "index", table="s3://somewhere/else")


def test_another_model_is_refused(index, tiny_folder):
    def other(texts):
        return letters([f"{text} and more" for text in texts])

    folder = index.folder.path
    for model in (other, str(tiny_folder)):
        with pytest.raises(InputError, match="was made with 'letters', and .* is a different"):
            RankIndex.load(folder, model).search(QUERY)
        with pytest.raises(InputError, match="make another index"):
            RankIndex.build(model, ["x"], folder)
    with pytest.raises(InputError, match="which is not on disk: use RankIndex.load"):
        RankIndex.load(folder).search(QUERY)
    assert RankIndex.load(folder).search(unit(letters([QUERY]))[0], 1)  # vectors need no model


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("index.json", "{", "is damaged"),
        ("index.json", "[]", "is damaged"),
        ("index.json", '{"format": 99}', "has format 99"),
        ("index.json", '{"format": 1}', "is damaged .'name'"),
        ("index.json", None, "index a corpus first"),
        ("probe.safetensors", "x", "is damaged"),
        ("calibration.json", '{"pairs": 3}', "delete it to measure again"),
        ("calibration.json", "{}", "delete it to measure again"),
    ],
)
def test_damage_is_told(index, file, content, message):
    path = index.folder.path / file
    path.unlink() if content is None else path.write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        RankIndex.load(index.folder.path, letters).search(QUERY)


def test_a_table_can_be_moved_as_the_documentation_says(index, tmp_path):
    place, rows = index.folder.path, len(index)
    about = json.loads((place / "index.json").read_text())
    (tmp_path / "elsewhere").mkdir()
    (place / "rows.lance").rename(tmp_path / "elsewhere" / "rows.lance")
    (place / "index.json").write_text(json.dumps({**about, "table": str(tmp_path / "elsewhere")}))
    assert len(RankIndex.load(place, letters)) == rows > 0


def test_folders_of_earlier_versions_have_no_manifest(index):
    (index.folder.path / "manifest.json").unlink()
    assert len(RankIndex.load(index.folder.path, letters)) == 1200


def test_a_missing_table_is_told(index):
    shutil.rmtree(index.folder.path / "rows.lance")
    with pytest.raises(InputError, match="cannot open the table"):
        RankIndex.load(index.folder.path, letters)


def test_a_folder_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    for path in (tmp_path, tmp_path / "notes.txt"):
        with pytest.raises(InputError, match="is not an index"):
            RankIndex.create(letters, path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_lancedb_missing_is_one_line(index, monkeypatch):
    monkeypatch.setitem(sys.modules, "lancedb", None)
    with pytest.raises(InputError, match=r"pip install .*\[search\]'"):
        RankIndex.load(index.folder.path, letters)


# --- interruptions and other processes


def start(folder, corpus, how):
    command = [sys.executable, str(ROOT / "tests" / "index_writer.py"), str(folder), str(corpus), how]
    path = {"PYTHONPATH": str(ROOT / "src")}
    return warm.Popen(command, env={**os.environ, **path}, stdout=warm.PIPE)


@pytest.mark.parametrize("how", ["before 1", "after 7", "optimizing"])
def test_killed_and_run_again_equals_undisturbed(how, index, corpus_file, tmp_path):
    child = start(tmp_path / "killed", corpus_file, how)
    child.communicate()
    assert child.returncode == -signal.SIGKILL
    committed = {"before 1": 0, "after 7": 350, "optimizing": 1200}[how]
    assert len(RankIndex.load(tmp_path / "killed")) == committed
    again = RankIndex.build(letters, corpus_file, tmp_path / "killed")
    assert contents(again) == contents(index)
    assert [hit.score for hit in again.search(QUERY)] == scores(index.search(QUERY))


def test_killed_from_outside_at_any_time(index, corpus_file, tmp_path):
    folder = tmp_path / "killed"
    child = start(folder, corpus_file, "slow")
    seen = 0
    while not seen and child.poll() is None:
        time.sleep(0.05)
        if (folder / "index.json").exists():
            seen = len(RankIndex.load(folder))
    child.kill()
    child.communicate()
    assert 0 < seen <= len(RankIndex.load(folder)) <= 1200
    assert contents(RankIndex.build(letters, corpus_file, folder)) == contents(index)


def test_two_writers_at_once(index, sentences, tmp_path):
    for name, part in (("a", sentences[:900]), ("b", sentences[300:][::-1])):
        (tmp_path / f"{name}.txt").write_text("\n".join(part), encoding="utf-8")
    children = [start(tmp_path / "both", tmp_path / f"{name}.txt", "slow") for name in "ab"]
    for child in children:
        child.communicate()
        assert child.returncode == 0
    both = RankIndex.load(tmp_path / "both", letters)
    assert contents(both) == contents(index)
    assert [hit.score for hit in both.search(QUERY)] == scores(index.search(QUERY))


# --- calibration


def test_calibration_equals_numpy_quantiles(tmp_path):
    vectors = unit(np.random.default_rng(1).normal(size=(2500, 24))).astype(np.float32)
    pairs = (vectors @ vectors.T)[np.triu_indices(2500, 1)]
    calibration = Calibration.measure(vectors, "noise")
    assert calibration.pairs == len(pairs)
    stored = json.loads(json.dumps(calibration.to_dict()))
    for made in (calibration, Calibration.from_dict(stored, tmp_path)):
        for percentile in (1, 10, 50, 90, 99, 99.9, 99.99, 99.999):
            similarity = made.similarity_at(percentile)
            assert similarity == pytest.approx(np.percentile(pairs, percentile), abs=0.01)
            above = (pairs > similarity).mean()
            assert 100 * above == pytest.approx(100 - percentile, rel=0.1)
            assert made.percentile(similarity) == pytest.approx(
                percentile, abs=(100 - percentile) * 0.1 + 1e-9
            )
        assert made.percentile(2.0) == pytest.approx(made.finest)
        assert made.percentile(-2.0) == 0
        assert made.describe(pairs.max() + 0.01) == "higher than all 3,123,750 random pairs"
    with pytest.raises(InputError, match="too fine for 3,123,750 random pairs of noise"):
        calibration.similarity_at(99.9999999)
    with pytest.raises(InputError, match="choose at least 0%"):
        calibration.similarity_at(100)


def test_ties_are_not_below():
    vectors = np.eye(4, dtype=np.float32)[[0, 0, 1, 1, 2, 3]]  # two of 15 pairs are equal
    calibration = Calibration.measure(vectors, "x")
    assert calibration.percentile(1.0) == pytest.approx(100 * 13 / 15, abs=1e-6)
    assert calibration.describe(1.0) == "higher than 86% of random pairs"
    assert calibration.describe(0.0) == "higher than 0% of random pairs"
    one = Calibration.measure(vectors[:2], "x")
    assert one.percentile(1.0) == one.percentile(2.0) == one.finest == 0


def test_percentages_are_rounded_down():
    similarities = np.linspace(-1, 1, 100_001, dtype=np.float32)
    calibration = Calibration.of_similarities([similarities], "a line")
    assert calibration.percent(similarities[98_840]) == "98%"
    assert calibration.percent(similarities[99_959]) == "99.95%"


def test_an_index_that_grows_is_calibrated_anew(tmp_path, sentences):
    index = RankIndex.build(letters, sentences[:2], tmp_path / "index")
    assert index.calibration.pairs == 1
    index.add(sentences[2:202])
    assert index.search(QUERY, 1)[0].percentile > 90
    assert index.calibration.pairs == 202 * 201 // 2
    index.delete([row["id"] for row in contents(index)[:190]])
    assert index.calibration.pairs == 12 * 11 // 2


def test_the_calibration_of_another_process_is_used(index):
    opened = RankIndex.load(index.folder.path, letters)
    before = opened.search(QUERY, 1)[0].percentile
    stored = json.loads((opened.folder.path / "calibration.json").read_text())
    stored["similarities"] = [value - 0.1 for value in stored["similarities"]]
    (opened.folder.path / "calibration.json").write_text(json.dumps(stored))
    assert opened.search(QUERY, 1)[0].percentile >= before


# --- the command line


def test_index_and_search_commands(run_cli, tiny_saved, tmp_path):
    rows = [
        {"body": f"The cat sees the {noun}", "year": 2000 + i}
        for i, noun in enumerate(("dog", "river", "song"))
    ]
    corpus = tmp_path / "rows.jsonl"
    corpus.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    folder = tmp_path / "index"
    code, out, err = run_cli("index", tiny_saved, corpus, "--column", "body", "-o", folder)
    assert (code, err) == (0, "")
    assert out == f"{folder}: 3 sentences (3 added)\n"
    code, out, _ = run_cli("index", tiny_saved, corpus, "--column", "body", "-o", folder, "--json")
    assert code == 0
    assert json.loads(out)["unchanged"] == 3
    code, out, err = run_cli("search", folder, "The cat sees the river", "-k", 2)
    assert (code, err) == (0, "")
    assert out.splitlines()[0].split() == ["score", "random", "pairs", "below", "text", "year"]
    assert "The cat sees the river" in out.splitlines()[1]
    code, out, _ = run_cli(
        "search", folder, "The cat", "A dog", "--where", '{"year": {"gt": 2000}}', "--json"
    )
    found = json.loads(out)
    assert [row["query"] for row in found] == ["The cat", "A dog"]
    assert {hit["columns"]["year"] for hit in found[0]["hits"]} == {2001, 2002}
    assert set(found[0]["hits"][0]) == {"id", "text", "score", "percentile", "columns", "probability"}


def test_commands_tell_in_one_line(run_cli, tiny_saved, tmp_path, corpus_file):
    assert run_cli("index", tiny_saved, corpus_file, "-o", tmp_path / "i")[0] == 0
    for arguments, message in (
        (("search", tmp_path / "none", "x"), "no such folder"),
        (("index", tmp_path / "none", corpus_file, "-o", tmp_path / "i"), "cannot load encoder"),
        (("index", tiny_saved, tmp_path / "none.txt", "-o", tmp_path / "i"), "no such file or folder"),
        (
            ("search", tmp_path / "i", "x", "--where", "foo=1"),
            "cannot filter by 'foo': the index has no such column; choose",
        ),
        (("search", tmp_path / "i", "x", "--where", "year 1"), "cannot filter by 'year 1'"),
    ):
        code, out, err = run_cli(*arguments)
        assert (code, out) == (2, "")
        assert message in err
        assert err.count("\n") == 1


def test_columns_called_like_ours_stay():
    columns = {"score": 7, "score_": 8, "query": "mine", "lang": "en"}
    row = Hit("a", "A cat", 0.5, 99.0, columns).to_row("cats")
    own = {"query": "cats", "id": "a", "text": "A cat", "score": 0.5, "percentile": 99.0}
    assert row == {**own, "score__": 7, "score_": 8, "query_": "mine", "lang": "en"}


def test_rows_that_repeat_a_text_are_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(index_module, "_PART", 2)
    rows = [{"text": text, "ticket": i} for i, text in enumerate(["one", "two", "one", "one", "three"])]
    index = RankIndex.create(letters, tmp_path / "index")
    message = r"2 rows repeat an earlier text .*\(first: .*, line 3\).*set `id_column` to keep both"
    with pytest.warns(UserWarning, match=message):
        counts = index.add(rows)
    assert {name: counts[name] for name in ("added", "unchanged", "repeated")} == {
        "added": 3,
        "unchanged": 0,
        "repeated": 2,
    }
    assert index.add(rows[:2])["unchanged"] == 2


def test_another_column_than_id_holds_the_ids(tmp_path):
    rows = [{"text": "one", "id": 7, "ticket": "a"}, {"text": "two", "id": 8, "ticket": "b"}]
    with pytest.warns(UserWarning, match="column 'id' becomes 'id_': the ids are 'ticket'") as caught:
        index = RankIndex.build(letters, rows, tmp_path / "index", id_column="ticket")
    assert len(caught) == 1
    assert [(hit.id, hit.columns) for hit in index.search("one", 1)] == [("a", {"id_": 7, "ticket": "a"})]
    with pytest.raises(InputError, match="an id is a string or a whole number, not True"):
        index.add([{"text": "three", "id": True}])


def test_a_document_that_became_empty_is_gone(tmp_path):
    rows = [{"id": "a", "text": "one. two"}, {"id": "b", "text": "three. four"}]
    reading = ReadOptions(split=lambda text: text.split(". "))
    index = RankIndex.build(letters, rows, tmp_path / "index", column=reading)
    index.add([{"id": "a", "text": ""}, rows[1]], column=reading)
    assert {row["text"] for row in contents(index)} == {"three", "four"}


def test_what_to_do_about_a_damaged_calibration(index):
    (index.folder.path / "calibration.json").write_text("{")
    with pytest.raises(InputError, match=r"calibration\.json is damaged .*; delete it to measure again"):
        index.search(QUERY)


def test_an_index_that_cannot_be_written_is_searched(index, monkeypatch):
    stored = index.folder.path / "calibration.json"
    expected = [hit.percentile for hit in index.search(QUERY)]
    stored.unlink()

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("rankencoder.search.index_folder.write_json", refuse)
    assert [hit.percentile for hit in index.search(QUERY)] == pytest.approx(expected)
    assert not stored.exists()


def test_a_first_index_that_fails_leaves_nothing(tmp_path, run_cli, tiny_folder):
    (tmp_path / "bad.jsonl").write_text('{"text": "One sentence."}\nno JSON\n')
    code, _, err = run_cli("index", tiny_folder, tmp_path / "bad.jsonl", "-o", tmp_path / "index")
    assert code == 2, err
    assert not (tmp_path / "index").exists()
    with pytest.raises(InputError):
        RankIndex.build(tiny_folder, tmp_path / "bad.jsonl", tmp_path / "index")
    assert not (tmp_path / "index").exists()
    RankIndex.build(tiny_folder, ["One sentence."], tmp_path / "index")
    assert run_cli("index", tiny_folder, tmp_path / "bad.jsonl", "-o", tmp_path / "index")[0] == 2
    assert len(RankIndex.load(tmp_path / "index")) == 1
