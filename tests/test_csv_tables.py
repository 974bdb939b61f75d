"""CSV files as people write them, compared with pandas and the csv module."""

import bz2
import csv
import datetime
import gzip
import io
import logging
import lzma
import random

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankencoder.errors import InputError
from rankencoder.io import csv_tables
from rankencoder.io.corpus import read_sentences
from rankencoder.io.read_options import ReadOptions


def read(path, **options):
    return list(read_sentences(path, column=ReadOptions(**options), with_columns=True, max_chars=10_000))


def write(tmp_path, text, name="a.csv"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize(
    ("text", "described", "texts"),
    [
        (
            "ticket;question\n17;How, when?\n18;Why, where?\n",
            "';', header, 2 columns, text column question",
            2,
        ),
        ("ticket,question\n17,How; when?\n18,Why; where?\n", "',', header", 2),
        ("17;Where is it?\n18;How do I pay?\n", "';', no header, 2 columns, text column column_2", 2),
        ("en,Where is it?\nde,Wo ist es?\nen,How are you?\n", "',', no header, 2 columns", 3),
        ("id|note\n1|a b\n2|c\n", "'|', header", 2),
        ("id\tnote\n1\ta, b\n2\tc, d\n", "tab, header", 2),
        ("1;3,14;Pi is this\n2;2,50;Half of five\n", "';', no header, 3 columns", 2),
        (",text,n\n0,a,1\n1,b,2\n", "',', header, 3 columns, text column text", 2),
        (
            "Frage (Kunde);Ticket-Nr.\nWas ist das?;7\n",
            "';', header, 2 columns, text column Frage (Kunde)",
            1,
        ),
        ("Fine.\nThanks.\n", "',', no header, 1 columns", 2),
        ("question\nHow are you?\nFine.\n", "',', header, 1 columns", 2),
        ("How are you?\nWhat is it?\n", "',', no header, 1 columns", 2),
        ('"a ""quoted"" one";1\n"two\nlines";2\n', "';', no header, 2 columns", 2),
        ("\ufeffid;text\r\n1;x\r\n2;y\r\n", "';', header", 2),
        ("id,text", "',', header", 0),
        ("id,text\n", "',', header", 0),
    ],
)
def test_dialects_are_recognized_and_said(tmp_path, caplog, text, described, texts):
    caplog.set_level(logging.INFO, "rankencoder.io")
    column = "column_2" if "en," in text else "column_3" if "3,14" in text else None
    rows = read(write(tmp_path, text), column=column)
    assert len(rows) == texts
    assert described in caplog.records[0].getMessage()
    assert caplog.records[0].getMessage().startswith(f"reading {tmp_path / 'a.csv'}: ")


def test_dialects_that_are_given(tmp_path):
    path = write(tmp_path, "name~word\na~b\n")
    assert [row.text for row in read(path, delimiter="~", column="word")] == ["b"]
    assert [row.text for row in read(path, delimiter="~", header=False, column="column_1")] == ["name", "a"]
    wide = write(tmp_path, "1990,1991\nx,y\n", "b.csv")
    assert [row.text for row in read(wide, column="1990")] == ["x"]  # a name that is given is one


def test_tabs_with_and_without_quotes(tmp_path):
    stray = write(tmp_path, 'id\ttext\n1\t"Hello," she said\n2\tthe 5" disk\n3\t"open\n', "a.tsv")
    assert [row.text for row in read(stray)] == ['"Hello," she said', 'the 5" disk', '"open']
    quoted = write(tmp_path, 'id\ttext\n1\t"She said ""hello"""\n2\t"two\nlines"\n', "b.tsv")
    assert [row.text for row in read(quoted)] == ['She said "hello"', "two\nlines"]


def test_types_are_those_of_the_whole_column(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_tables, "_BLOCK", 2**12)  # later rows come in other blocks
    count = 3000
    columns = {
        "text": [f"sentence {i}" for i in range(count)],
        "number": list(range(count)),
        "late": [*map(str, range(count - 1)), "A17"],
        "zip": [*map(str, range(count - 1)), "00123"],
        "price": [i / 4 for i in range(count)],
        "half": [i if i % 2 else None for i in range(count)],
        "is_open": [i % 3 == 0 for i in range(count)],
        "day": [datetime.date(2020, 1, 1) + datetime.timedelta(days=i % 99) for i in range(count)],
        "at": [datetime.datetime(2020, 1, 1, 12, 30, i % 60) for i in range(count)],
        "bad_day": ["2026-02-30"] * count,
        "big": ["12345678901234567890"] * count,
        "country": ["NA"] * (count - 1) + ["DE"],
        "nothing": [None] * count,
    }
    frame = pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in columns.items()})
    frame.to_csv(tmp_path / "a.csv", index=False)
    rows = read(tmp_path / "a.csv")
    assert [row.text for row in rows] == columns.pop("text")
    for name, values in columns.items():
        assert [row.columns[name] for row in rows] == values, name
    kinds = {name: str(kind) for name, kind in rows[0].types.items() if kind != "string"}
    assert kinds == {
        "number": "int64",
        "price": "double",
        "half": "int64",
        "is_open": "bool",
        "day": "date32[day]",
        "at": "timestamp[us]",
    }


def test_nulls_and_zones(tmp_path):
    path = write(tmp_path, "n,at,text\nNA,2026-01-31T10:00:00Z,a\n3,2026-01-31 12:00:00+02:00,NA\n")
    first, second = read(path)
    assert first.columns["n"] is None
    assert (second.columns["n"], second.text) == (3, "NA")
    assert first.columns["at"] == second.columns["at"]
    assert first.columns["at"].utcoffset() == datetime.timedelta(0)


cell = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=8)


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(st.tuples(cell, cell), min_size=1, max_size=20),
    delimiter=st.sampled_from(",;|"),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_whatever_the_csv_module_writes_is_read(tmp_path_factory, rows, delimiter, end):
    file = io.StringIO(newline="")
    writer = csv.writer(file, delimiter=delimiter, quoting=csv.QUOTE_ALL, lineterminator=end)
    writer.writerows([("text", "other"), *rows])
    path = tmp_path_factory.getbasetemp() / "any.csv"
    path.write_bytes(file.getvalue().encode())
    reader = csv.reader(io.StringIO(file.getvalue(), newline=""), delimiter=delimiter)
    expected = [(row, reader.line_num) for row in reader][1:]
    found = read(path, delimiter=delimiter)
    assert [row.text for row in found] == [row[0].strip() for row, _ in expected]
    assert [row.line for row in found] == [line for _, line in expected]
    others = [row.columns["other"] for row in found]
    assert all(isinstance(value, (str, type(None))) for value in others) or not any(
        row[1].strip().isalpha() for row, _ in expected
    )


def test_compressed_tables_and_patterns(tmp_path):
    text = "id,text\n" + "".join(f"{i},sentence {i}\n" for i in range(500))
    for suffix, pack in ((".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)):
        (tmp_path / f"a.csv{suffix}").write_bytes(pack(text.encode()))
    (tmp_path / "a.csv.zst").write_bytes(pa.compress(text.encode(), "zstd", asbytes=True))
    (tmp_path / "a.jsonl.zst").write_bytes(pa.compress(b'{"text": "x", "id": 1}\n' * 9, "zstd", asbytes=True))
    for suffix in (".gz", ".bz2", ".xz", ".zst"):
        rows = read(tmp_path / f"a.csv{suffix}")
        assert [row.columns["id"] for row in rows] == list(range(500))
    assert len(read(tmp_path / "a.jsonl.zst")) == 9
    assert len(read(str(tmp_path / "a.csv.*"))) == 2000
    with pytest.raises(InputError, match="no such file or folder"):
        read(str(tmp_path / "b*.csv"))
    (tmp_path / "a.csv.zst").write_bytes((tmp_path / "a.csv.zst").read_bytes()[:-20])
    with pytest.raises(InputError, match=r"not a complete \.zst file|columns, but"):
        read(tmp_path / "a.csv.zst")


def test_only_columns_of_text_are_offered(tmp_path):
    names = [*(f"n{i}" for i in range(30)), "question", "answer"]
    path = write(tmp_path, f"{','.join(names)}\n{'1,' * 30}What?,That.\n", "wide.csv")
    with pytest.raises(
        InputError, match=r"to one of question \(e\.g\. 'What\?'\), answer \(e\.g\. 'That\.'\)$"
    ):
        read(path)


def test_patterns_keep_relative_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("b.txt", "a.txt"):
        write(tmp_path, "a sentence\n", name)
    assert [row.source for row in read_sentences("*.txt")] == ["a.txt", "b.txt"]
    with pytest.raises(InputError, match="no such file or folder"):
        list(read_sentences("*.csv"))


def test_nested_keys(tmp_path):
    line = '{"ticket": {"id": 7, "body": "How?"}, "day": "2026-01-01", "tags": ["a"]}\n'
    path = write(tmp_path, line, "a.jsonl")
    (row,) = read(path, column="ticket.body", keep=("ticket.id", "day"))
    assert (row.text, row.columns) == ("How?", {"ticket_id": 7, "day": "2026-01-01"})
    (row,) = read(path, column="ticket.body", id="ticket.id")
    assert (row.columns["ticket_id"], row.columns["tags"]) == (7, ["a"])
    table = pa.table({"ticket": [{"id": 7, "body": "How?"}], "n": pa.array([1], pa.int16())})
    pq.write_table(table, tmp_path / "a.parquet")
    (row,) = read(tmp_path / "a.parquet", column="ticket.body", keep=("n",))
    assert (row.text, row.columns, row.types["n"]) == ("How?", {"n": 1}, pa.int16())
    assert [row.text for row in read_sentences(tmp_path / "a.parquet", column="ticket.body")] == ["How?"]
    for name in ("a.jsonl", "a.parquet"):
        with pytest.raises(InputError, match=r"no column 'ticket\.title'; choose from ticket, "):
            read(tmp_path / name, column="ticket.title")


def test_options_for_columns_do_not_matter_where_there_are_none(tmp_path):
    pq.write_table(pa.table({"ticket": [1, 2], "question": ["a", "b"]}), tmp_path / "a.parquet")
    write(tmp_path, "ticket,question\n1,a\n2,b\n", "c.csv")
    for name in ("a.parquet", "c.csv"):
        rows = read_sentences(tmp_path / name, column=ReadOptions(id="ticket", keep=("ticket",)))
        assert [(row.text, row.columns) for row in rows] == [("a", None), ("b", None)]


def test_the_only_column_of_text_is_taken(tmp_path):
    pq.write_table(pa.table({"ticket": [1, 2], "question": ["a", "b"]}), tmp_path / "a.parquet")
    write(tmp_path, '{"ticket": 1, "question": "a"}\n{"ticket": 2, "question": "b"}\n', "b.jsonl")
    write(tmp_path, "ticket,question\n1,a\n2,b\n", "c.csv")
    for name in ("a.parquet", "b.jsonl", "c.csv"):
        assert [row.text for row in read_sentences(tmp_path / name)] == ["a", "b"]


# --- mistakes


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("q.pdf", b"%PDF-1.7\n", r"q\.pdf is a PDF: extract its text first, e\.g\. with pdftotext"),
        ("q.docx", b"PK\x03\x04..", r"is a ZIP archive, as Word and Excel write them: export it as \.csv"),
        ("q.csv", b"PK\x03\x04..", "is a ZIP archive"),
        ("q.xls", b"\xd0\xcf\x11\xe0..", "is an Office document"),
        ("q.png", b"\x89PNG\r\n", r"is a PNG image, not text: run OCR first, e\.g\. tesseract"),
        ("q.jpg", b"\xff\xd8\xff\xe0", "is a JPEG image"),
        ("q.txt", "héllo\n".encode("utf-16"), "is UTF-16 text: convert it first, e.g. with iconv -f utf-16"),
        ("q.csv", gzip.compress(b"text\n", mtime=0), r"is compressed with gzip: end its name with \.gz"),
        (
            "q.csv",
            "id,text\n1,café\n2,naïve\n".encode() + b"3,caf\xe9\n",
            r"q\.csv, line 4: not UTF-8 \(byte 0xe9 at column 6\); earlier lines are, so the file mixes",
        ),
        ("q.txt", "é\n".encode() + b"\xe9\n", "line 2: not UTF-8 .* mixes encodings: fix this line"),
        ("q.csv", b"id,text\n1,caf\xe9\n", "line 2: not UTF-8 .* convert the file, e.g. with iconv"),
        ("q.csv", b'id,text\n1,a\n"2\n\n",b\n3,c,d\n', "line 6: 3 columns, but the header has 2"),
        ("q.csv", b"1;Who is it?\n2;How?;3\n", "line 2: 3 columns, but the first row has 2"),
        ("q.csv", b"id,price\n1,2.5\n", r"no column holds text, among id \(e\.g\. '1'\), price"),
        ("q.jsonl", b'{"id": 1, "n": 2}\n', "line 1: no column holds text, among id"),
        (
            "q.csv",
            b"title;body\nOne;How are you today my friends of old?\n",
            r"which column holds the sentences\? Set `column` to one of title \(e\.g\. 'One'\), body \(e\.g\."
            " "
            "'How are you today my friends …'",
        ),
        ("q.csv", b'id,text\n1,"' + b"x" * (9 * 2**20), r"a row is longer than 1 MB; is the quoting right\?"),
    ],
    ids=lambda value: "" if isinstance(value, bytes) else None,
)
def test_everyday_mistakes_are_one_clear_line(tmp_path, name, content, message):
    with pytest.raises(InputError, match=message) as caught:
        read(write(tmp_path, content, name))
    assert "\n" not in str(caught.value)


def test_a_column_that_is_often_null_is_counted(tmp_path, caplog):
    caplog.set_level(logging.INFO, "rankencoder.io")
    rows = read(write(tmp_path, "id,question\n" + "1,a\n2,\n" * 50), column="question")
    assert sum(not row.text for row in rows) == 50
    assert caplog.records[-1].getMessage().endswith("column question is empty in 50 of 100 rows")


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.txt"])
def test_a_file_that_grows_while_it_is_read(tmp_path, name):
    line = '{"text": "x"}\n' if name == "a.jsonl" else "text,1\n"
    path = write(tmp_path, line * 5000, name)
    rows = read_sentences(path)
    next(rows)
    with open(path, "a") as file:
        file.write(line)
    with pytest.warns(UserWarning, match=r"changed while it was read, from [\d,]+ to [\d,]+ bytes: run this"):
        rest = list(rows)
    assert len(rest) >= 4998  # the rows that were there before; the first one of the CSV file is its header


def test_random_tables_as_pandas_reads_them(tmp_path):
    rng = random.Random(0)
    words = ["naïve", "日本", 'say "hi"', "a;b", "two\nlines", "comma, here"]
    for number in range(20):
        frame = pd.DataFrame(
            {
                "id": range(40),
                "text": [" ".join(rng.choices(words, k=3)) for _ in range(40)],
                "score": [rng.choice([None, 0.5, 1.25]) for _ in range(40)],
                "label": [rng.choice(["x", "y z"]) for _ in range(40)],
            }
        )
        path = tmp_path / f"{number}.csv"
        frame.to_csv(path, sep=rng.choice(",;|\t"), index=False, encoding="utf-8")
        rows = read(path)
        expected = pd.read_csv(path, sep=None, engine="python")
        for name in ("id", "score", "label"):
            found = pd.Series([row.columns[name] for row in rows], dtype=expected[name].dtype)
            pd.testing.assert_series_equal(found, expected[name], check_names=False)
        assert [row.text for row in rows] == list(expected["text"])


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('id,text\n1,"hello there\n2,good bye\n3,third row\n', 2),
        ('id,text\n1,"a\nb"\n2,"c\nd', 4),
        ('id,text,n\n1,a,1\n2,"b,2\n3,c,3\n', 3),
        ('id,"text\n1,a\n', 1),
    ],
)
def test_a_quote_that_is_never_closed(tmp_path, text, line):
    path = write(tmp_path, text)
    with pytest.raises(InputError, match=rf"a\.csv: the quote that begins in line {line} is never closed"):
        read(path, column="text" if line > 1 else None)
    path = write(tmp_path, 'id,text\n1,5" disk\n2,"two\nlines"\n')
    assert [row.text for row in read(path)] == ['5" disk', "two\nlines"]


def test_names_that_come_again_are_numbered(tmp_path):
    row = read(write(tmp_path, "a,a,a_2,text,a\n1,2,3,x,4\n"))[0]
    assert row.columns == {"a": 1, "a_3": 2, "a_2": 3, "a_4": 4}


def test_ids_are_whole_numbers_or_text(tmp_path):
    path = write(tmp_path, "id,day,note\n1.5,2026-01-31,one\n2,2026-02-01,two\n")
    assert [row.columns["id"] for row in read(path)] == ["1.5", "2"]
    assert [row.columns["day"] for row in read(path, id="day")] == ["2026-01-31", "2026-02-01"]
    path = write(tmp_path, "id,day,text\n1,2026-01-31,one\n2,2026-02-01,two\n")
    assert [row.columns for row in read(path, keep=("day",))] == [
        {"id": 1, "day": datetime.date(2026, 1, 31)},
        {"id": 2, "day": datetime.date(2026, 2, 1)},
    ]


def test_a_key_that_an_earlier_row_had_is_null(tmp_path):
    lines = '{"text": "one", "at": {"x": 1}}\n{"at": {"x": 2}}\n{"text": "three"}\n'
    found = read(write(tmp_path, lines, "a.jsonl"), keep=("at.x",))
    assert [(row.text, row.columns) for row in found] == [
        ("one", {"at_x": 1}),
        ("", {"at_x": 2}),
        ("three", {"at_x": None}),
    ]
    with pytest.raises(InputError, match=r"line 1: no column 'never'"):
        read(tmp_path / "a.jsonl", keep=("never",))


@pytest.mark.parametrize(
    ("lines", "header"),
    [
        (["ticket", "How do I reset my password?", "Where is my order?"], True),
        (["Support question", "How do I reset my password?", "Where is my order?"], True),
        (["Cancel my order", "How do I reset my password?", "Where is my order?"], False),
        (["Berlin", "Paris", "London"], False),
        (["text", "Paris", "London"], True),
    ],
)
def test_a_single_column_of_text_has_a_header_if_it_is_shorter(tmp_path, lines, header):
    path = write(tmp_path, "\n".join(lines).encode(), "one.csv")
    assert [row.text for row in read_sentences(path)] == lines[header:]
