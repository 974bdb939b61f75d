"""Hostile variants of valid files: bytes flipped, cut and put in, JSON with values of other kinds."""

import copy
import json
import os

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

EXAMPLES = int(os.environ.get("RANKENCODER_FUZZ", 0))
"""How many examples each test is to try; by default a few, for every change."""


def fuzzed(few):
    """Return how a fuzz test is to be run: a few examples that are always the same, or many new ones."""
    return settings(
        max_examples=EXAMPLES or few,
        derandomize=not EXAMPLES,
        database=None,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],  # to make a long failure short takes minutes
        suppress_health_check=list(HealthCheck),
    )


CHUNKS = (
    b"\0",
    b"\n",
    b"\r",
    b"\r\n",
    b"\t",
    b",",
    b'"',
    b"'",
    b"\\",
    b"\x1a",
    b"\x1b[31m",
    b"\x85",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b"\xed\xa0\x80",  # a lone surrogate, as CESU-8 has it
    b"\xed\xa0\xbd\xed\xb8\x80",  # and two that are a character
    b"\xc0\x80",
    "\u2028\u202e\u200b\ufeff".encode(),
    b"[" * 100_000,
    b'{"a":' * 5000,
    b"9" * 5000,
    b"0x" + b"f" * 5000,
    b"-1e400",
    b"NaN",
    b"-Infinity",
    b"null",
    b"true",
    b'"\\ud800"',
    b"a" * 100_000,
    b"\t" * 10_000,
    b'""' * 10_000,
)


def _truncated(data, draw):
    return data[: draw(st.integers(0, len(data)))]


def _flipped(data, draw):
    if not data:
        return data
    place = draw(st.integers(0, len(data) - 1))
    return data[:place] + bytes([data[place] ^ draw(st.integers(1, 255))]) + data[place + 1 :]


def _inserted(data, draw):
    place = draw(st.integers(0, len(data)))
    return data[:place] + draw(st.sampled_from(CHUNKS)) + data[place:]


def _overwritten(data, draw):
    place = draw(st.integers(0, len(data)))
    chunk = draw(st.sampled_from(CHUNKS))
    return data[:place] + chunk + data[place + len(chunk) :]


def _span(data, draw):
    first, second = draw(st.integers(0, len(data))), draw(st.integers(0, len(data)))
    return min(first, second), max(first, second)


def _doubled(data, draw):
    start, stop = _span(data, draw)
    return data[:stop] + data[start:stop] + data[stop:]


def _removed(data, draw):
    start, stop = _span(data, draw)
    return data[:start] + data[stop:]


def _swapped(data, draw):
    a, b = draw(st.sampled_from([(b"\t", b","), (b",", b"\t"), (b'"', b"'"), (b"\n", b"\r"), (b" ", b"\0")]))
    return data.replace(a, b)


def _recoded(data, draw):
    text = data.decode("utf-8", "replace")
    return text.encode(
        draw(st.sampled_from(["utf-16", "utf-16-le", "utf-8-sig", "utf-32", "cp037"])), "replace"
    )


_CHANGES = (_truncated, _flipped, _inserted, _overwritten, _doubled, _removed, _swapped, _recoded)


@st.composite
def changed_bytes(draw, data):
    """A file with one change, or a few; now and then random bytes."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.binary(max_size=200))
    for change in draw(st.lists(st.sampled_from(_CHANGES), min_size=1, max_size=3)):
        data = change(data, draw)
    return data


HOSTILE = (
    None,
    True,
    0,
    -1,
    1,
    2**31,
    2**63,
    10**30,
    0.5,
    float("nan"),
    float("inf"),
    -1e308,
    "",
    "a",
    "nan",
    "\ud800",
    "../../etc/passwd",
    "/etc",
    "\0",
    "a" * 10_000,
    [],
    [None],
    ["a"],
    [[1]],
    [float("nan")],
    {},
    {"a": 1},
    {"": None},
)


def _places(value, path=()):
    """All paths to values inside of a value; of long lists a few."""
    yield path
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _places(item, (*path, key))
    elif isinstance(value, list):
        for number, item in enumerate(value[:3]):
            yield from _places(item, (*path, number))


@st.composite
def changed_json(draw, value):
    """A JSON value with one or a few of its values replaced, removed or doubled, as text."""
    value = copy.deepcopy(value)
    for _ in range(draw(st.integers(1, 3))):
        places = [path for path in _places(value) if path]
        if not places:
            break
        path = draw(st.sampled_from(places))
        holder = value
        for step in path[:-1]:
            holder = holder[step]
        how = draw(st.sampled_from(("replace", "replace", "replace", "remove", "rename")))
        if how == "replace":
            holder[path[-1]] = copy.deepcopy(draw(st.sampled_from(HOSTILE)))
        elif how == "remove":
            del holder[path[-1]]
        elif isinstance(holder, dict):
            holder[draw(st.sampled_from(("", "a", "\ud800", "format")))] = holder.pop(path[-1])
        else:
            holder.insert(path[-1], copy.deepcopy(holder[path[-1]]))
    return json.dumps(value).encode()


def changed_document(value):
    """A JSON document with values or bytes changed."""
    values, others = changed_json(value), changed_bytes(json.dumps(value).encode())
    return st.one_of(values, values, others)
