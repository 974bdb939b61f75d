import bz2
import gzip
import json
import lzma

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankencoder.errors import InputError
from rankencoder.io.corpus import check_sentences, estimate_sentences, read_sentences


def texts(corpus, **options):
    return [row.text for row in read_sentences(corpus, **options)]


def test_text_lines_are_split_at_newlines_only(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes("\ufeffone\r\n\n  two\u2028still two \x0bthree\x1c\nlast".encode())
    assert texts(path) == ["one", "", "two\u2028still two \x0bthree", "last"]


@pytest.mark.parametrize(("suffix", "opener"), [(".gz", gzip.open), (".bz2", bz2.open), (".xz", lzma.open)])
def test_compressed_files(tmp_path, suffix, opener):
    path = tmp_path / f"a.txt{suffix}"
    with opener(path, "wt", encoding="utf-8") as file:
        file.write("eins\nzwei\n")
    assert texts(path) == ["eins", "zwei"]
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(InputError, match=r"not a complete \.(gz|bz2|xz) file"):
        texts(path)


def test_jsonl_csv_tsv_parquet_and_folders_agree(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = ['He said "hi", twice', "naïve café 🙂", "plain"]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"id": 1, "text": r}) + "\n" for r in rows))
    (tmp_path / "b.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    quoted = "".join('1,"' + r.replace('"', '""') + '"\n' for r in rows)
    (tmp_path / "c.csv").write_text("id,sentence\n" + quoted, encoding="utf-8")
    (tmp_path / "d.tsv").write_text("id\ttext\n" + "".join(f"1\t{r}\n" for r in rows), encoding="utf-8")
    pq.write_table(pa.table({"id": [1, 2, 3], "text": rows}), tmp_path / "e.parquet")
    (tmp_path / "notes.md").write_text("not read")
    for name in ("a.jsonl", "b.jsonl", "c.csv", "d.tsv", "e.parquet"):
        assert texts(tmp_path / name) == rows, name
    assert texts(tmp_path) == rows * 5
    assert texts(tmp_path / "notes.md") == ["not read"]


def test_datasets_and_iterables():
    import datasets

    dataset = datasets.Dataset.from_dict({"body": ["a", "b"], "label": [0, 1]})
    assert texts(dataset, column="body") == ["a", "b"]
    assert texts(dataset.to_iterable_dataset(), column="body") == ["a", "b"]
    assert texts(x for x in ("a", " b ")) == ["a", "b"]
    with pytest.raises(InputError, match=r"DatasetDict is not one list .*choose one of train"):
        texts(datasets.DatasetDict(train=dataset))


def test_columns_are_chosen_or_asked_for(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("title,body\nx,y\n")
    assert texts(path, column="body") == ["y"]
    with pytest.raises(InputError, match=r"Set `column` to one of title \(e\.g\. 'x'\), body \(e\.g\. 'y'\)"):
        texts(path)
    with pytest.raises(InputError, match="no column 'text'; choose from title, body"):
        texts(path, column="text")


def test_columns_come_along(tmp_path):
    (tmp_path / "a.csv").write_text("year,text,text,lang\n1918,one,uno,en\n")
    (tmp_path / "a.jsonl").write_text('{"year": 1918, "text": "one", "text_2": "uno", "lang": "en"}\n')
    for name in ("a.csv", "a.jsonl"):
        (row,) = read_sentences(tmp_path / name, with_columns=True)
        assert (row.text, row.columns) == ("one", {"year": 1918, "text_2": "uno", "lang": "en"})
        assert list(row.columns) == ["year", "text_2", "lang"]
        assert next(read_sentences(tmp_path / name)).columns is None


def test_a_line_longer_than_memory_would_like_is_passed_over(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"short\n" + b"x" * 5_000_000 + b"\nafter\n" + b"y" * 3000)
    rows = list(read_sentences(path))
    assert [(row.text, row.line) for row in rows] == [("short", 1), (None, 2), ("after", 3), (None, 4)]


def test_nulls_and_blank_lines_are_empty_sentences(tmp_path):
    import datasets
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"text": ["a", None, "b"]}), tmp_path / "a.parquet")
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n{"text": null}\n"b"\n')
    (tmp_path / "a.csv").write_text('text,id\na,1\n\n"b",2\n')
    for name in ("a.parquet", "a.jsonl", "a.csv"):
        assert texts(tmp_path / name) == ["a", "", "b"], name
    assert texts(datasets.Dataset.from_dict({"text": ["a", None, "b"]})) == ["a", "", "b"]


def test_over_long_cells_are_passed_over_and_long_neighbors_are_not(tmp_path):
    (tmp_path / "a.csv").write_text(f"text,other\n{'x' * 300_000},1\nb,{'y' * 300_000}\n")
    (tmp_path / "a.jsonl").write_text(json.dumps({"other": "y" * 300_000, "text": "b"}) + "\n")
    assert texts(tmp_path / "a.csv") == [None, "b"]
    assert texts(tmp_path / "a.jsonl") == ["b"]


def test_tables_are_not_mistaken_for_sentences(tmp_path):
    import pandas as pd
    import pyarrow as pa

    table = {"text": ["a", "b"]}
    for corpus in (table, pd.DataFrame(table), pa.table(table)):
        with pytest.raises(InputError, match="is not one list of sentences"):
            texts(corpus)
    assert texts(pd.Series(["a", "b"])) == ["a", "b"]
    (tmp_path / "a.json").write_text('["a"]')
    with pytest.raises(InputError, match=r"write one object per line, as \.jsonl"):
        texts(tmp_path / "a.json")
    (tmp_path / "a.ndjson").write_text('"a"\n')
    assert texts(tmp_path / "a.ndjson") == ["a"]


def test_parquet_that_is_not_utf8(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    bad = pa.Array.from_buffers(
        pa.utf8(), 1, [None, pa.py_buffer(np.array([0, 2], "int32").tobytes()), pa.py_buffer(b"\xff\xfe")]
    )
    pq.write_table(pa.table({"text": bad}), tmp_path / "a.parquet")
    with pytest.raises(InputError, match=r"a\.parquet is not a readable Parquet file: 'utf-8'"):
        texts(tmp_path / "a.parquet")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"fine\ncaf\xe9\n", r"a\.txt, line 2: not UTF-8 \(byte 0xe9 at column 4\)"),
        ("a.txt", b"a\x00\n", r"line 1: a NUL byte"),
        ("a.csv", b"text,id\na\x00,1\n", r"line 2: a NUL byte"),
        ("a.jsonl", b'{"text": "x"}\n{"text": \n', r"a\.jsonl, line 2: not JSON"),
        ("a.jsonl", b'{"text": 3}\n', "line 1: expected a string, got int"),
        ("a.jsonl", b"9" * 5000 + b"\n", "line 1: not JSON"),
        ("a.jsonl", b'"\\ud800"\n', "line 1: not valid Unicode"),
        ("a.csv", b"text,id\nx,1\ny\n", "line 3: 1 columns, but the header has 2"),
        ("a.parquet", b"not parquet", "not a readable Parquet file"),
        ("a.txt.gz", b"not gzip", "not a complete .gz file"),
    ],
)
def test_bad_files_are_named_with_their_line(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        texts(tmp_path / name)


def test_missing_and_empty(tmp_path):
    with pytest.raises(InputError, match="no such file or folder"):
        texts(tmp_path / "nowhere.txt")
    with pytest.raises(InputError, match="no file of sentences in"):
        texts(tmp_path)
    with pytest.raises(InputError, match="cannot read sentences from int"):
        texts(3)
    (tmp_path / "empty.csv").write_text("")
    assert texts(tmp_path / "empty.csv") == []


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\0")), max_size=8))
def test_any_unicode_text_survives(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("any") / "a.txt"
    path.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8", newline="")
    assert texts(path) == [row.removeprefix("\ufeff" if i == 0 else "").strip() for i, row in enumerate(rows)]


@pytest.mark.parametrize(
    ("sentence", "message"),
    [
        ("", "sentence 1 is empty"),
        (" \t\n", "sentence 1 is empty"),
        ("x" * 100_000, "100,000 characters"),
        ("\ud800", "not valid Unicode"),
        (None, "not a string but NoneType"),
    ],
)
def test_sentences_no_encoder_can_make_sense_of(sentence, message):
    with pytest.raises(InputError, match=message):
        check_sentences(["fine", sentence])


@pytest.mark.parametrize("suffix", [".txt", ".jsonl", ".csv", ".parquet", ".txt.gz"])
def test_how_much_there_is_to_read_is_estimated(tmp_path, monkeypatch, suffix):
    monkeypatch.setattr("rankencoder.io.corpus.SAMPLE", 100)
    texts = [f"sentence number {i:05d}" for i in range(5000)]
    path = tmp_path / f"corpus{suffix}"
    frame = pd.DataFrame({"text": texts})
    if suffix == ".parquet":
        frame.to_parquet(path)
    elif suffix == ".csv":
        frame.assign(more='two\nlines, "quoted"').to_csv(path, index=False)
    elif suffix == ".jsonl":
        frame.to_json(path, orient="records", lines=True)
    else:
        frame.to_csv(path, header=False, index=False)
    estimated = estimate_sentences(path)
    assert estimated is None if suffix == ".txt.gz" else abs(estimated - 5000) <= 250
    assert estimate_sentences(texts) is None
    (tmp_path / "short.txt").write_text("a\n\nb\n")
    assert estimate_sentences(tmp_path / "short.txt") == 2
