"""Filters of an index: the SQL that is made of them, run by LanceDB on rows that try to break it."""

import datetime as dt

import lancedb
import pyarrow as pa
import pytest

from rankencoder.errors import InputError
from rankencoder.search.filters import parse_filter, to_sql

TEXTS = [
    *("it's", "'; DROP TABLE rows; --", 'a "quoted" word', "back\\slash", "\\'", "100%", "a_b", "`tick`"),
    *("日本語 🎉", "new\nline", "nul\0byte", "' OR '1'='1", "", "NULL"),
]
DAY = dt.date(2020, 1, 1)


def row(number, text):
    moment = dt.datetime(2020, 1, 1, 12) + dt.timedelta(days=number)
    return {
        "id": str(number),
        "text": text,
        "we ird \"c'olumn": text,
        "year": 1990 + number,
        "price": number + 0.5,
        "even": number % 2 == 0,
        "day": DAY + dt.timedelta(days=number),
        "at": moment,
        "there": moment.replace(tzinfo=dt.timezone.utc),
        "lang": ("en", "de", None)[number % 3],
        "raw": b"x",
    }


ROWS = [row(number, text) for number, text in enumerate(TEXTS)]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    schema = pa.Table.from_pylist(ROWS[:1]).schema.set(9, pa.field("lang", pa.string()))
    made = pa.Table.from_pylist(ROWS, schema=schema)
    return lancedb.connect(tmp_path_factory.mktemp("lance")).create_table("rows", made)


def found(table, where):
    rows = table.search().where(to_sql(where, table.schema)).select(["id"]).limit(100).to_list()
    return sorted(int(row["id"]) for row in rows)


def numbers(condition):
    return [number for number, row in enumerate(ROWS) if condition(row)]


@pytest.mark.parametrize("text", TEXTS)
def test_any_text_is_found_as_it_is(table, text):
    one = [TEXTS.index(text)]
    for column in ("text", "we ird \"c'olumn"):
        assert found(table, {column: text}) == one
        assert found(table, {column: [text, "absent ' text"]}) == one
        assert found(table, {column: {"not": text}}) == [n for n in range(len(TEXTS)) if n not in one]
        expected = numbers(lambda row: row["text"].startswith(text))
        assert found(table, {column: {"prefix": text}}) == expected


@pytest.mark.parametrize(
    ("where", "condition"),
    [
        ({"year": 1993}, lambda row: row["year"] == 1993),
        ({"year": "1993"}, lambda row: row["year"] == 1993),
        ({"year": 1993.0}, lambda row: row["year"] == 1993),
        ({"year": -5}, lambda row: False),
        ({"year": {"gt": 1992, "lte": 1995}}, lambda row: 1992 < row["year"] <= 1995),
        ({"year": {"gte": 1992}, "even": True}, lambda row: row["year"] >= 1992 and row["even"]),
        ({"even": "false"}, lambda row: not row["even"]),
        ({"price": {"lt": 3}}, lambda row: row["price"] < 3),
        ({"price": {"gt": 1e300}}, lambda row: False),
        ({"lang": None}, lambda row: row["lang"] is None),
        ({"lang": []}, lambda row: False),
        ({"lang": ["en", None]}, lambda row: row["lang"] in ("en", None)),
        ({"lang": {"not": "en"}}, lambda row: row["lang"] != "en"),
        ({"lang": {"not": ["en", None]}}, lambda row: row["lang"] == "de"),
        ({"day": {"gte": "2020-01-05"}}, lambda row: row["day"] >= dt.date(2020, 1, 5)),
        ({"day": dt.date(2020, 1, 5)}, lambda row: row["day"] == dt.date(2020, 1, 5)),
        ({"at": {"lt": "2020-01-05T12:00:00"}}, lambda row: row["at"] < dt.datetime(2020, 1, 5, 12)),
        (
            {"there": {"lte": "2020-01-05T13:00:00+01:00"}},
            lambda row: row["at"] <= dt.datetime(2020, 1, 5, 12),
        ),
        ({"raw": {"not": None}}, lambda row: True),
    ],
)
def test_conditions(table, where, condition):
    assert found(table, where) == numbers(condition)


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ({"color": "red"}, "cannot filter by 'color': the index has no such column; choose from id, text, "),
        ({"yaer": 3}, "the index has no such column; did you mean 'year'"),
        ({"year = 1 OR 1": 1}, "the index has no such column"),
        ({"year": {"near": 3}}, "no operator 'near'; choose from gt, gte, lt, lte, prefix, not"),
        ({"year": {"gt": {"gt": 3}}}, "column 'year' holds numbers"),
        ({"year": {"gt": [3]}}, "column 'year' holds numbers"),
        ({"year": [[3]]}, "column 'year' holds numbers"),
        ({"year": {"gt": None}}, "column 'year' holds numbers"),
        ({"year": "x"}, r"cannot filter by 'x': column 'year' holds numbers \(int64\)"),
        ({"year": 2.5}, "column 'year' holds whole numbers; 2.5 is not one"),
        ({"year": True}, "column 'year' holds numbers"),
        ({"year": 2**70}, "column 'year' holds numbers"),
        ({"year": {}}, "{} has no condition"),
        ({"year": {"prefix": "19"}}, "prefix of 'year', which holds numbers .int64"),
        ({"price": float("nan")}, "column 'price' holds numbers"),
        ({"price": "inf"}, "column 'price' holds numbers"),
        ({"even": 1}, "column 'even' holds true or false"),
        ({"lang": 3}, "column 'lang' holds text"),
        ({"lang": "half \ud800 a character"}, "column 'lang' holds text"),
        ({"day": 5}, "column 'day' holds times"),
        ({"day": "2020-99-99"}, "column 'day' holds times"),
        ({"raw": "x"}, "column 'raw' holds binary, which can only be compared with null"),
        ({}, "a filter is an object such as"),
        ("year > 3", "a filter is an object such as"),
        (["year"], "a filter is an object such as"),
    ],
)
def test_what_does_not_fit_is_one_message(table, where, message):
    with pytest.raises(InputError, match=message):
        to_sql(where, table.schema)


def test_filters_that_are_typed():
    assert parse_filter([]) == {}
    assert parse_filter(["a = b=c", ' {"year": [1, null]}']) == {"a": "b=c", "year": [1, None]}
    typed = ["year>=3", "year < 4.5", "lang != en", "a b==c > d", "day>2020-01-02"]
    assert parse_filter(typed) == {
        "year": {"gte": 3, "lt": 4.5},
        "lang": {"not": "en"},
        "a b": "c > d",
        "day": {"gt": "2020-01-02"},
    }
    for texts, message in (
        (["year 3"], "write column=value, column>value, or JSON such as"),
        (["year > 3", "year > 4"], "two filters on column 'year'"),
        (['{"year": 3'], "not JSON"),
        (["{" * 9_000], "not JSON"),
        (['{"a":' * 1_900], "not JSON"),
        (['{"year": ' + "1" * 5000 + "}"], "not JSON"),
        (["year=1", '{"year": 2}'], "two filters on column 'year'"),
    ):
        with pytest.raises(InputError, match=message):
            parse_filter(texts)
