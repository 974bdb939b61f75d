import datetime
import json

import pandas as pd
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from rankencoder.errors import InputError
from rankencoder.io.row_files import write_rows

DAY = datetime.date(2026, 1, 31)
ROWS = [
    {"id": 7, "text": 'He said "hi",\ntwice', "day": DAY, "score": 0.5, "old": None, "code": "007"},
    {"id": 8, "text": "naïve 日本", "day": None, "score": 1.0, "old": True, "code": "008", "late": "x"},
]


def test_rows_keep_their_types(tmp_path):
    for suffix in (".parquet", ".jsonl", ".csv"):
        write_rows(tmp_path / f"a{suffix}", ROWS)
    filled = [{"late": None, **row} for row in ROWS]
    assert pq.read_table(tmp_path / "a.parquet").to_pylist() == filled
    strings = pyarrow.csv.ConvertOptions(column_types={"code": "string"}, strings_can_be_null=True)
    lines = pyarrow.csv.ParseOptions(newlines_in_values=True)
    read = pyarrow.csv.read_csv(tmp_path / "a.csv", parse_options=lines, convert_options=strings)
    assert read.to_pylist() == filled
    lines = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert lines == [{**row, "day": row["day"] and "2026-01-31"} for row in ROWS]


def test_nested_values_are_json_in_csv(tmp_path):
    rows = [{"id": 1, "tags": ["a", "b"], "at": {"x": 1}}]
    write_rows(tmp_path / "a.csv", rows)
    assert pd.read_csv(tmp_path / "a.csv").to_dict("records") == [
        {"id": 1, "tags": '["a", "b"]', "at": '{"x": 1}'}
    ]
    write_rows(tmp_path / "a.parquet", rows)
    assert pq.read_table(tmp_path / "a.parquet").to_pylist() == rows


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl", ".csv"])
def test_no_rows(tmp_path, suffix):
    write_rows(tmp_path / f"a{suffix}", [])
    assert (tmp_path / f"a{suffix}").exists()


def test_what_cannot_be_written(tmp_path):
    with pytest.raises(InputError, match=r"use \.parquet, \.jsonl or \.csv"):
        write_rows(tmp_path / "a.xlsx", ROWS)
    assert not list(tmp_path.iterdir())
    with pytest.warns(UserWarning, match="column 'id' holds values of several types: it is written as text"):
        write_rows(tmp_path / "a.parquet", [{"id": 1}, {"id": "x"}, {"id": None}])
    assert pq.read_table(tmp_path / "a.parquet")["id"].to_pylist() == ["1", "x", None]
    write_rows(tmp_path / "a.csv", ROWS)
    with pytest.raises(InputError, match="already exists: choose another name or set `overwrite`"):
        write_rows(tmp_path / "a.csv", ROWS)
    write_rows(tmp_path / "a.csv", ROWS[:1], overwrite=True)
    assert len(pd.read_csv(tmp_path / "a.csv")) == 1


def test_no_value_changes(tmp_path):
    noon = datetime.datetime(2026, 1, 31, 12, 30)
    with pytest.warns(UserWarning, match="column 'at' holds values of several types"):
        write_rows(tmp_path / "a.parquet", [{"at": DAY}, {"at": noon}, {"at": None}])
    assert pq.read_table(tmp_path / "a.parquet")["at"].to_pylist() == [
        "2026-01-31",
        "2026-01-31T12:30:00",
        None,
    ]
    rows = [{"x": float("nan"), "y": [1.5, float("inf")], "raw": b"\xff\x00"}]
    for suffix in (".jsonl", ".csv", ".parquet"):
        write_rows(tmp_path / f"b{suffix}", rows)
    line = json.loads((tmp_path / "b.jsonl").read_text(), parse_constant=pytest.fail)
    assert line == {"x": None, "y": [1.5, None], "raw": "/wA="}
    read = pd.read_csv(tmp_path / "b.csv")
    assert read["raw"].tolist() == ["/wA="]
    assert read["x"].isna().all()
    assert pq.read_table(tmp_path / "b.parquet")["raw"].to_pylist() == [b"\xff\x00"]
    nested = [{"at": {"a": 1}}, {"at": {"b": [2]}}]  # a key that is missing is null, and no other type
    write_rows(tmp_path / "c.parquet", nested)
    assert pq.read_table(tmp_path / "c.parquet")["at"][1].as_py() == {"a": None, "b": [2]}
