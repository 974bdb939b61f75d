"""A table and documents walk through every command and back; pandas and pyarrow are the oracle."""

import io
import json
import sys
from datetime import date, timedelta

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sentence_transformers import SentenceTransformer
from test_search import letters

from rankencoder import RankIndex
from rankencoder.encoders import Encoder
from rankencoder.errors import InputError, TextWarning
from rankencoder.io.corpus import estimate_sentences
from rankencoder.io.passages import make_splitter
from rankencoder.io.read_options import ReadOptions
from rankencoder.vector_files import encode_file

pytestmark = [
    pytest.mark.filterwarnings("ignore::rankencoder.errors.TrainingWarning"),
    pytest.mark.filterwarnings("default::rankencoder.errors.ReferenceWarning"),
]
TYPES = {"ticket": "int64", "code": "string", "day": "date32[day]", "price": "double", "urgent": "bool"}


@pytest.fixture(scope="module")
def tickets(tmp_path_factory, sentences):
    """600 questions in two languages, with quotes, newlines, nulls, and ids of two kinds."""
    path = tmp_path_factory.mktemp("tickets") / "tickets.csv"
    questions = [*sentences[:450], *(f"Wie öffne ich die Tür {i}?" for i in range(150))]
    questions[3], questions[4], questions[5] = 'He said "hi"; twice', "two\nlines\n\nof text", None
    questions[7] = questions[6] + "!"
    rows = range(600)
    frame = pd.DataFrame(
        {
            "ticket": [1000 + 3 * i for i in rows],
            "code": [f"{i:05d}" for i in rows],
            "day": [date(2026, 1, 1) + timedelta(days=i) if i % 4 else None for i in rows],
            "question": questions,
            "price": [i / 4 if i % 3 else None for i in rows],
            "urgent": [i % 2 == 0 for i in rows],
            "lang": ["en"] * 450 + ["de"] * 150,
        }
    )
    frame.to_csv(path, sep=";", index=False)
    return path, frame.astype(object).where(frame.notna(), None).set_index("ticket", drop=False)


def check(rows, frame, names=(*TYPES, "lang")):
    """Every row has the columns, values and Python types of its ticket."""
    for row in rows:
        expected = frame.loc[row["ticket"]]
        assert {name: row[name] for name in names} == {name: expected[name] for name in names}
        assert type(row["ticket"]) is int


def test_a_table_walks_through_every_command(tickets, tiny_folder, tmp_path, run_cli):
    path, frame = tickets
    reads = ("--column", "question")
    out = {name: tmp_path / name for name in ("model", "index", "student")}
    code, _, err = run_cli("build", tiny_folder, path, *reads, "--size", 300, "-o", out["model"])
    assert code == 0, err
    assert f"reading {path}: ';', header, 7 columns, text column question\n" in err
    assert "column question is empty in 1 of 600 rows\n" in err

    usable = frame[frame["question"].notna()]
    encoded = ("encode", out["model"], path, *reads, "--skip-invalid", "-o")
    for name in ("v.parquet", "v.jsonl", "v.csv", "v.npy"):
        code, _, err = run_cli(*encoded, tmp_path / name, "--id", "ticket")
        assert code == 0, err
    table = pq.read_table(tmp_path / "v.parquet")
    assert {name: str(table.schema.field(name).type) for name in TYPES} == TYPES
    assert table["ticket"].to_pylist() == list(usable["ticket"])
    assert table["text"].to_pylist() == list(usable["question"])
    check(table.to_pylist(), frame)
    lines = [json.loads(line) for line in (tmp_path / "v.jsonl").read_text().splitlines()]
    check(lines, frame, ("code", "price", "urgent", "lang"))
    assert [line["day"] for line in lines] == [day and day.isoformat() for day in usable["day"]]
    cells = pd.read_csv(tmp_path / "v.csv", dtype={"code": str})
    assert cells["ticket"].dtype == "int64"
    assert list(cells["ticket"]) == list(usable["ticket"])
    assert list(cells["code"]) == list(usable["code"])
    assert list(cells["text"]) == list(usable["question"])
    assert np.allclose(np.array([*map(json.loads, cells["vector"])]), table["vector"].to_pylist(), atol=1e-6)
    assert json.loads((tmp_path / "v.npy.json").read_text())["ids"] == list(usable["ticket"])
    assert "a .npy file has no columns: code, day, price, urgent, lang left out" in err
    assert np.allclose(np.load(tmp_path / "v.npy"), np.array(table["vector"].to_pylist()), atol=1e-5)

    code, _, err = run_cli("index", out["model"], path, *reads, "--id", "ticket", "-o", out["index"])
    assert code == 0, err
    filters = ("--where", "ticket > 1500", "--where", "ticket<=1900", "--where", "lang=en")
    code, _, err = run_cli(
        "search", out["index"], "a cat", "-k", 300, *filters, "-o", tmp_path / "hits.parquet"
    )
    assert code == 0, err
    hits = pq.read_table(tmp_path / "hits.parquet")
    assert {name: str(hits.schema.field(name).type) for name in TYPES} == TYPES
    check(hits.to_pylist(), frame)
    assert hits["id"].equals(hits["ticket"])
    expected = usable[(usable["ticket"] > 1500) & (usable["ticket"] <= 1900) & (usable["lang"] == "en")]
    assert sorted(hits["ticket"].to_pylist()) == list(expected["ticket"])
    for typed, number in (
        ("day>=2027-01-01", (usable["day"].dropna() >= date(2027, 1, 1)).sum()),
        ("urgent=true", usable["urgent"].sum()),
        ("code=00010", 1),
        ("price != 1", (usable["price"] != 1).sum()),
    ):
        code, text, _ = run_cli("search", out["index"], "a cat", "-k", 999, "--where", typed, "--json")
        assert len(json.loads(text)[0]["hits"]) == number, typed
    code, _, err = run_cli("search", out["index"], "a cat", "--where", "code > 10")
    assert (code, "column 'code' holds text" in err) == (2, True)

    code, text, err = run_cli(
        "duplicates", path, "--model", out["model"], *reads, "--threshold", 0.9, "--json"
    )
    assert (code, "tickets.csv, line" in text) == (0, True), err
    taught = ("--teacher", tiny_folder, "--student", "static", "--max-steps", 3, "--batch-size", 64)
    code, _, err = run_cli("distill", path, *reads, *taught, "--device", "cpu", "-o", out["student"])
    assert code == 0, err

    # and back: what a command wrote is read by the next
    again = ("encode", out["student"], tmp_path / "hits.parquet", "--column", "text", "-o")
    code, _, err = run_cli(*again, tmp_path / "back.parquet", "--keep", "ticket,day")
    assert code == 0, err
    back = pq.read_table(tmp_path / "back.parquet")
    assert back.column_names == ["source", "line", "text", "vector", "id", "ticket", "day"]
    assert back["ticket"].equals(hits["ticket"])
    assert back["day"].equals(hits["day"])


def test_ids_called_id_keep_their_type(tmp_path):
    rows = [{"id": i, "text": f"sentence {'a' * i}"} for i in range(90, 110)]
    index = RankIndex.build(letters, rows, tmp_path / "index")
    assert {hit.id for hit in index.search("sentence", 99, where={"id": {"gt": 99}})} == {*range(100, 110)}
    assert [hit.id for hit in index.search("sentence", 99, where={"id": [91, 92]})] in ([91, 92], [92, 91])
    assert [hit.id for hit in index.search("sentence", 99, where={"id": "91"})] == [91]
    assert index.columns == []
    assert index.delete(91) == 1


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_types_survive(tmp_path, suffix):
    columns = {
        "text": pa.array(["one", "two"]),
        "small": pa.array([1, None], pa.int16()),
        "kind": pa.array(["a", "b"]).dictionary_encode(),
        "at": pa.array([0, None], pa.timestamp("ms", "Europe/Berlin")),
        "share": pa.array([0.5, 1], pa.float32()),
        "tags": pa.array([["x"], None]),
        "nothing": pa.nulls(2),
    }
    given = tmp_path / f"in.{suffix}"
    if suffix == "arrow":
        with pa.ipc.new_file(given, pa.table(columns).schema) as file:
            file.write_table(pa.table(columns), max_chunksize=1)
    else:
        pq.write_table(pa.table(columns), given)
    assert estimate_sentences(given) == 2
    encode_file(letters, given, tmp_path / "out.parquet")
    found = pq.read_table(tmp_path / "out.parquet")
    for name, column in columns.items():
        assert found[name].type == column.type, name
        assert found[name].to_pylist() == column.to_pylist()
    index = RankIndex.build(letters, given, tmp_path / "index")
    kinds = {field.name: str(field.type) for field in index.rows.table.schema}
    assert (kinds["small"], kinds["share"], kinds["kind"]) == ("int16", "float", "string")


def test_ids_that_change_type_are_written_as_text(tmp_path, monkeypatch):
    monkeypatch.setattr("rankencoder.vector_files.PART", 2)
    rows = [{"ticket": 1, "text": "a"}, {"ticket": 2, "text": "b"}, {"ticket": "A3", "text": "c"}]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.warns(
        UserWarning, match="column 'ticket' holds values of several types: it is written as text"
    ):
        encode_file(letters, tmp_path / "in.jsonl", tmp_path / "out.parquet")
    assert pq.read_table(tmp_path / "out.parquet")["ticket"].to_pylist() == ["1", "2", "A3"]
    with pytest.raises(InputError, match=r"in\.jsonl, line 3: column 'ticket' holds int64, not 'A3'"):
        RankIndex.build(letters, tmp_path / "in.jsonl", tmp_path / "index")


def test_repeated_ids_are_named(tmp_path, monkeypatch):
    rows = [{"id": i % 8, "text": f"sentence {i}"} for i in range(10)]
    monkeypatch.setattr("rankencoder.search.index_rows._WATCHED", 3)  # held otherwise from there on
    with pytest.warns(
        UserWarning,
        match="2 rows repeat an earlier id .first: '0', .*, line 9.; the last row of each id is kept",
    ):
        index = RankIndex.build(letters, rows, tmp_path / "index")
    assert {hit.id: hit.text for hit in index.search("sentence")}[0] == "sentence 8"
    assert len(index) == 8


def test_columns_that_would_be_lost_are_refused(tmp_path):
    (tmp_path / "in.csv").write_text("question,vector,source\nWhat is it?,1,web\n")
    with pytest.raises(
        InputError, match="line 2: the output has a column 'vector': rename yours, or set `keep`"
    ):
        encode_file(letters, tmp_path / "in.csv", tmp_path / "out.parquet", column="question")
    reading = ReadOptions("question", keep=("source",))
    encode_file(letters, tmp_path / "in.csv", tmp_path / "out.parquet", column=reading)
    assert pq.read_table(tmp_path / "out.parquet")["source"].to_pylist() == ["web"]


@pytest.mark.parametrize(
    ("text", "options", "found"),
    [
        (b"a sentence\nanother\n", (), ["a sentence", "another"]),
        (b'{"text": "a", "id": 1}\n', (), ["a"]),
        (b"1;a b\n2;c d\n", ("--no-header", "--column", "column_2"), ["a b", "c d"]),
        (b"1\ta b\n2\tc d\n", ("--delimiter", "tab", "--column", "column_2"), ["a b", "c d"]),
    ],
)
def test_standard_input(tiny_folder, tmp_path, run_cli, monkeypatch, text, options, found):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    code, _, err = run_cli("encode", tiny_folder, "-", *options, "-o", tmp_path / "v.parquet")
    assert code == 0, err
    table = pq.read_table(tmp_path / "v.parquet")
    assert table["text"].to_pylist() == found
    assert {*table["source"].to_pylist()} == {"stdin"}


def test_options_that_make_no_sense(tiny_folder, tmp_path, run_cli):
    (tmp_path / "a.csv").write_text("a,b\nx y,z w\n")
    for options, message in (
        ((), "Set --column to one of a (e.g. 'x y'), b (e.g. 'z w')"),
        (("--delimiter", "ab"), "--delimiter is one character, or tab, not 'ab'"),
        (("--column", "a", "--keep", "c"), "a.csv, line 2: no column 'c'; choose from a, b"),
        (("--column", "a", "--split", "pages"), "cannot split by 'pages': use 'sentences'"),
        (("--column", "a", "--split", "9999-tokens"), "reads 64 tokens: set --split to 64-tokens or fewer"),
    ):
        code, _, err = run_cli(
            "encode", tiny_folder, tmp_path / "a.csv", *options, "-o", tmp_path / "v.parquet"
        )
        assert (code, message in err) == (2, True), err
    (tmp_path / "hits.csv").touch()
    RankIndex.build(letters, ["a"], tmp_path / "index")
    code, _, err = run_cli("search", tmp_path / "index", "x", "-o", tmp_path / "hits.csv")
    assert (code, "already exists: choose another name or set --overwrite" in err) == (2, True)


def test_columns_that_do_not_fit_are_named(tiny_folder, tmp_path, run_cli):
    names = [f"column{i}" for i in range(8)]
    rows = [{"text": f"sentence {i}", **dict.fromkeys(names, "x" * 30)} for i in range(3)]
    RankIndex.build(str(tiny_folder), rows, tmp_path / "index")
    code, out, _ = run_cli("search", tmp_path / "index", "a sentence")
    table, _, hidden = out.partition("columns that do not fit: ")
    assert code == 0
    assert table.split("\n")[0].split()[-4:] == names[:4]
    assert hidden == f"{', '.join(names[4:])} (see --json or -o)\n"


def test_no_index(tmp_path, run_cli, tiny_saved):
    for folder, message in ((tmp_path / "none", "no such folder: "), (tiny_saved, "no index in ")):
        code, _, err = run_cli("search", folder, "x")
        assert (code, err) == (2, f"error: {message}{folder}: index a corpus first\n")


def test_what_is_listed_can_be_written(tiny_saved, tmp_path, run_cli):
    neighbors = ("neighbors", tiny_saved, "The cat sees the dog", "-k", 4)
    code, _, err = run_cli(*neighbors, "-o", tmp_path / "n.csv")
    assert code == 0, err
    expected = json.loads(run_cli(*neighbors, "--json")[1])
    assert pd.read_csv(tmp_path / "n.csv").to_dict("records") == [pytest.approx(row) for row in expected]
    similarity = ("similarity", tiny_saved, "a cat", "a dog")
    code, _, err = run_cli(*similarity, "-o", tmp_path / "s.parquet")
    assert code == 0, err
    assert pq.read_table(tmp_path / "s.parquet").to_pylist() == json.loads(run_cli(*similarity, "--json")[1])
    for command in (neighbors, similarity):
        code, _, err = run_cli(*command, "-o", tmp_path / "n.csv")
        assert (code, "already exists: choose another name or set --overwrite" in err) == (2, True)


# --- documents


@pytest.fixture
def documents(tmp_path, sentences):
    """Seven documents of nine sentences, and a last one without any."""
    rows = [
        {"id": 10 + i, "title": f"Doc {i}", "text": ". ".join(sentences[9 * i : 9 * i + 9]) + "."}
        for i in range(7)
    ]
    path = tmp_path / "documents.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in [*rows, {"id": 99, "title": "", "text": None}]))
    return path, rows


def test_documents_walk_through_index_search_and_encode(documents, tiny_folder, tmp_path, run_cli, sentences):
    path, rows = documents
    split = ("--split", "sentences")
    code, _, err = run_cli("index", tiny_folder, path, *split, "-o", tmp_path / "index")
    assert code == 0, err
    index = RankIndex.load(tmp_path / "index")
    assert len(index) == 63
    query = sentences[9 * 3 + 4]
    hits = index.search(query, 5)
    assert (hits[0].columns["document"], hits[0].columns["passage"]) == (13, 4)
    assert (hits[0].id, hits[0].columns["passages"], hits[0].columns["title"]) == ("13#4", 9, "Doc 3")
    assert len({hit.columns["document"] for hit in hits}) == 5
    every = index.search(query, 63, documents=False)
    best = list(dict.fromkeys(hit.columns["document"] for hit in every))  # by the best passage of each
    assert [hit.score for hit in hits] == pytest.approx(
        [max(h.score for h in every if h.columns["document"] == name) for name in best[:5]], abs=1e-5
    )
    code, _, err = run_cli("search", tmp_path / "index", query, "-k", 7, "-o", tmp_path / "hits.parquet")
    assert code == 0, err
    found = pq.read_table(tmp_path / "hits.parquet")
    assert (found["document"].type, sorted(found["document"].to_pylist())) == (pa.int64(), [*range(10, 17)])
    assert len(index.search(query, 9, where={"title": "Doc 2"})) == 1

    # a document that became shorter leaves no passage behind, and the same one again changes nothing
    rows[3]["text"] = ". ".join(sentences[27:30]) + "."
    counts = index.add(rows, column=ReadOptions(split="sentences"))
    assert len(index) == 63 - 6
    assert (counts["added"], counts["replaced"]) == (0, 3)  # which know that there are three
    assert index.add(rows, column=ReadOptions(split="sentences"))["unchanged"] == 57

    code, _, err = run_cli("build", tiny_folder, path, *split, "--size", 40, "-o", tmp_path / "model")
    assert code == 0, err
    windows = ("--split", "16-tokens", "--skip-invalid", "-o", tmp_path / "v.parquet")
    code, _, err = run_cli("encode", tiny_folder, path, *windows)
    assert code == 0, err
    table = pq.read_table(tmp_path / "v.parquet").to_pandas()
    tokenizer = SentenceTransformer(str(tiny_folder), device="cpu").tokenizer
    assert max(len(tokenizer(text)["input_ids"]) for text in table["text"]) <= 16
    rows[3]["text"] = ". ".join(sentences[27:36]) + "."
    for number, group in table.groupby("document"):
        assert list(group["passage"]) == [*range(len(group))]
        assert {*group["passages"]} == {len(group)}
        assert " ".join(group["text"]) == rows[number - 10]["text"]


def test_duplicates_of_documents_are_documents(tmp_path, run_cli, tiny_folder, sentences):
    """Of each two documents the nearest passages, by numpy; none within a document."""
    texts = [sentences[:4], [*sentences[:2], sentences[0]], sentences[20:24], [sentences[21]]]
    rows = [{"id": 10 + i, "text": ". ".join(text) + "."} for i, text in enumerate(texts)]
    path = tmp_path / "documents.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    split = ("--split", "sentences")
    code, _, err = run_cli("index", tiny_folder, path, *split, "-o", tmp_path / "index")
    assert code == 0, err
    flat = [(10 + i, number, f"{text}.") for i, one in enumerate(texts) for number, text in enumerate(one)]
    vectors = Encoder(tiny_folder).encode([text for *_, text in flat])
    expected = {}
    for i, j in zip(*np.triu_indices(len(flat), 1), strict=True):
        pair = flat[i][0], flat[j][0]
        if pair[0] != pair[1]:
            expected[pair] = max(expected.get(pair, -1), float(vectors[i] @ vectors[j]))
    expected = {pair: value for pair, value in expected.items() if value >= 0.5}
    assert expected[10, 11] == pytest.approx(1, abs=1e-4)
    for given in ((tmp_path / "index",), (path, "--model", tiny_folder, *split)):
        out = tmp_path / "pairs.parquet"
        options = ("--threshold", "0.5", "--overwrite", "-o", out)
        code, shown, err = run_cli("duplicates", *given, *options, "--json")
        assert code == 0, err
        pairs = [(one["a"], one["b"], one["similarity"]) for one in json.loads(shown)["pairs"]]
        found = {
            (min(a["document"], b["document"]), max(a["document"], b["document"])): s for a, b, s in pairs
        }
        assert (len(pairs), found) == (len(expected), pytest.approx(expected, abs=1e-4))
        for a, b, _ in pairs:
            assert all((one["document"], one["passage"], one["text"]) in flat for one in (a, b))
        table = pq.read_table(out)
        assert table["a_document"].type == pa.int64()
        assert table["a_place"].to_pylist() == [f"{a['document']}#{a['passage']}" for a, *_ in pairs]
    run_cli("duplicates", tmp_path / "index", "--threshold", "0.5", "-o", tmp_path / "found")
    code, shown, err = run_cli("duplicates", tmp_path / "found", "--json")
    assert len(json.loads(shown)["pairs"]) == len(expected), err
    files = ("--kept", tmp_path / "kept.csv", "--removed", tmp_path / "removed.parquet")
    options = (*files, "--threshold", "0.9999", "--groups")
    code, shown, err = run_cli("duplicates", tmp_path / "index", *options)
    assert code == 0, err
    assert shown.count("2 documents\n") == 1
    assert shown.count("keep ") == shown.count("remove ") == 1
    assert "among 4 documents" in shown.replace("\n", " ")
    kept, removed = pd.read_csv(tmp_path / "kept.csv"), pq.read_table(tmp_path / "removed.parquet")
    # whole documents; 13 is a quarter of 12, which is too little to take them for the same
    assert list(kept["id"]) == [*(f"{i}#{j}" for i in (10, 12) for j in range(4)), "13#0"]
    assert removed["id"].to_pylist() == ["11#0", "11#1", "11#2"]
    assert {row["duplicate_of_place"][:2] for row in removed.to_pylist()} == {"10"}
    longest = ("--kept", tmp_path / "longest.csv", "--representative", "longest", "--threshold", "0.9999")
    assert run_cli("duplicates", tmp_path / "index", *longest)[0] == 0
    assert {*pd.read_csv(tmp_path / "longest.csv")["document"]} == {10, 12, 13}


def test_windows_of_tokens_are_compared(documents, tiny_folder, tmp_path, run_cli):
    path, rows = documents
    path.write_text("".join(json.dumps({**row, "id": i}) + "\n" for i, row in enumerate([*rows, rows[0]])))
    options = ("--model", tiny_folder, "--split", "16-tokens", "--threshold", "0.9999", "--json")
    code, shown, err = run_cli("duplicates", path, *options)
    assert code == 0, err
    (group,) = json.loads(shown)["groups"]
    assert [(one["document"], one["stays"]) for one in group] == [(0, True), (7, False)]


def test_documents_without_ids_are_named_by_file_and_line(tmp_path):
    (tmp_path / "a.txt").write_text("One here. Two here.\nThree is alone.\n")
    index = RankIndex.build(
        letters, tmp_path / "a.txt", tmp_path / "i", column=ReadOptions(split="sentences")
    )
    hits = index.search("One here.", 9, documents=False)
    places = {hit.text: (hit.columns["document"], hit.columns["passage"]) for hit in hits}
    name = str(tmp_path / "a.txt")
    assert places == {
        "One here.": (f"{name}:1", 0),
        "Two here.": (f"{name}:1", 1),
        "Three is alone.": (f"{name}:2", 0),
    }
    plain = RankIndex.build(letters, ["a"], tmp_path / "plain")
    with pytest.raises(InputError, match="has no documents: index with `split`"):
        plain.search("a", documents=True)


def test_texts_too_long_for_a_sentence_are_split(tmp_path):
    text = "This is one of very many sentences. " * 2000  # 72,000 characters
    for name, content in (
        ("a.txt", text),
        ("a.jsonl", json.dumps({"text": text})),
        ("a.csv", f'text\n"{text}"\n'),
    ):
        (tmp_path / name).write_text(content)
        encode_file(letters, tmp_path / name, tmp_path / f"{name}.npy", column=ReadOptions(split="sentences"))
        assert len(np.load(tmp_path / f"{name}.npy")) == 2000


def test_sentences_are_split_by_a_real_splitter():
    assert make_splitter("sentences")("Dr. Smith paid $3.50, e.g. today. Did he? Yes!") == [
        "Dr. Smith paid $3.50, e.g. today. ",
        "Did he? ",
        "Yes!",
    ]
    assert len(make_splitter("sentences:de")("Am 3. Mai kam Herr Dr. Müller. Er ging.")) == 2
    assert len(make_splitter("sentences")("他来了。你好吗？我很好！")) == 3


# --- whether the model fits the text


def test_texts_that_are_cut_are_counted(tiny_folder, tmp_path, sentences, run_cli):
    encoder = Encoder(tiny_folder)
    long = [" ".join(sentences[:20]), *sentences[:30], " ".join(sentences[20:50])]
    lengths, limit = encoder.count_tokens(long)
    assert sum(length > limit for length in lengths) == 2
    (tmp_path / "a.txt").write_text("\n".join(long))
    message = r"2 of 32 texts were cut because .* reads 64 tokens: set `split` to encode them as passages"
    with pytest.warns(TextWarning, match=message):
        encode_file(encoder, tmp_path / "a.txt", tmp_path / "v.npy")
    with pytest.warns(TextWarning, match=message):
        RankIndex.build(encoder, long, tmp_path / "index")
    code, _, err = run_cli("encode", tiny_folder, tmp_path / "a.txt", "-o", tmp_path / "cli.npy")
    assert (code, err.count("warning: 2 of 32 texts were cut")) == (0, 1)
    assert "set --split to encode them" in err
