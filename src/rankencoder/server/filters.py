"""Filters of a search from outside, read before a database's parser sees them."""

from __future__ import annotations

import re
from collections.abc import Collection
from datetime import date, datetime

from rankencoder.errors import InputError, nearest

LONGEST = 2000
DEEPEST = 6
_KEYWORDS = ("AND", "OR", "NOT", "IN", "IS", "NULL", "LIKE", "BETWEEN", "TRUE", "FALSE")
_SIGNS = ("<=", ">=", "<>", "!=", "=", "<", ">")
_TOKEN = re.compile(
    r"\s*(?:(?P<time>(?i:DATE|TIMESTAMP)\s*'[^']*')"
    r"|(?P<value>'(?:[^']|'')*'|[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?(?![\w.]))"
    r"|(?P<name>`[^`]+`|[^\W\d]\w*(?:\.\w+)*)|(?P<sign><=|>=|<>|!=|[=<>,()]))"
)


def check_filter(where: str, columns: Collection[str]) -> str:
    """Return a filter if it is made of comparisons, AND, OR, NOT, IN, IS NULL, LIKE and BETWEEN.

    More than that is not for clients: LanceDB's parser takes exponential time for some chains of words and
    nested brackets, and long arithmetic overflows its stack, which would end the whole process.

    :param columns: The names that may occur.
    :raises InputError: If it is not.

    >>> check_filter("year > 1990 AND (lang = 'en' OR lang IS NOT NULL)", ["year", "lang"])
    "year > 1990 AND (lang = 'en' OR lang IS NOT NULL)"
    >>> check_filter("CAST(CAST(", ["year"])
    Traceback (most recent call last):
    rankencoder.errors.InputError: cannot filter by 'CAST', no column of the index: choose from year
    """
    if len(where) > LONGEST:
        raise InputError(f"cannot filter by {len(where):,} characters: {LONGEST:,} are the most")
    reader = _Reader(where, columns)
    reader.condition(0)
    if reader.token:
        raise reader.unexpected("AND, OR or the end")
    return where


class _Reader:
    """Reads a filter from left to right; ``token`` is what comes next, in capitals where it is a keyword."""

    def __init__(self, where: str, columns: Collection[str]) -> None:
        self.where, self.columns = where, columns
        self.place, self.kind, self.token = 0, "", ""
        self.advance()

    def advance(self) -> None:
        """Go to the next token; it is empty at the end."""
        match = _TOKEN.match(self.where, self.place)
        if match is None:
            self.kind, self.token = "", self.where[self.place :].strip()[:1]
            return
        self.kind, self.token, self.place = str(match.lastgroup), match[0].strip(), match.end()
        if self.kind == "name" and self.token.upper() in _KEYWORDS:
            self.kind, self.token = "keyword", self.token.upper()

    def skip(self, *tokens: str) -> bool:
        """Go past one of some tokens, if it comes next."""
        found = self.token in tokens and self.kind in ("keyword", "sign")
        if found:
            self.advance()
        return found

    def expect(self, token: str) -> None:
        """Go past a token, which must come next."""
        if not self.skip(token):
            raise self.unexpected(token)

    def condition(self, depth: int) -> None:
        """Read conditions joined by AND and OR."""
        if depth > DEEPEST:
            raise InputError(f"cannot filter by brackets that are nested more than {DEEPEST} deep")
        more = True
        while more:
            self.skip("NOT")
            if self.skip("("):
                self.condition(depth + 1)
                self.expect(")")
            else:
                self.comparison()
            more = self.skip("AND", "OR")

    def comparison(self) -> None:
        """Read a column and what it is compared with; a column of truth values stands for itself."""
        if self.kind != "name":
            raise self.unexpected("a column")
        self.value()
        if self.skip(*_SIGNS):
            self.value()
        elif self.skip("IS"):
            self.skip("NOT")
            self.expect("NULL")
        else:
            self.membership(denied=self.skip("NOT"))

    def membership(self, *, denied: bool) -> None:
        """Read IN, LIKE or BETWEEN, which must be there after a NOT."""
        if self.skip("IN"):
            self.expect("(")
            self.value()
            while self.skip(","):
                self.value()
            self.expect(")")
        elif self.skip("LIKE"):
            self.value()
        elif self.skip("BETWEEN"):
            self.value()
            self.expect("AND")
            self.value()
        elif denied:
            raise self.unexpected("IN, LIKE or BETWEEN")

    def value(self) -> None:
        """Read a number, a text, a time, a truth value or a column."""
        if self.kind == "name":
            name = self.token.strip("`") if self.token.startswith("`") else self.token.partition(".")[0]
            if name not in self.columns:
                known = nearest(name, self.columns)
                raise InputError(f"cannot filter by {name!r}, no column of the index:{known}")
        elif self.kind == "time":
            _check_time(self.token)
        elif self.kind != "value" and self.token not in ("TRUE", "FALSE"):
            raise self.unexpected("a number, a 'text' or a column")
        self.advance()

    def unexpected(self, wanted: str) -> InputError:
        """Say what was to come instead."""
        found = repr(self.token[:20]) if self.token else "the end"
        return InputError(f"cannot filter by this: {wanted} was expected at {found}, character {self.place}")


def _check_time(literal: str) -> None:
    kind, text, _ = literal.split("'")
    try:
        date.fromisoformat(text) if kind.strip().upper() == "DATE" else datetime.fromisoformat(text)
    except ValueError as error:
        raise InputError(
            f"cannot filter by {literal[:40]!r}: write DATE '2020-12-31' or TIMESTAMP '2020-12-31 23:59:59'"
        ) from error
