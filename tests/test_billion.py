"""The page on scale holds what the script computes."""

import re
from pathlib import Path

from billion import RATES, page

from rankencoder.io.storage import read_json

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/scale.md").read_text(encoding="utf-8")


def test_the_page_holds_what_is_computed():
    rates = read_json(RATES)
    assert page(rates, 10**9, rates["rates"][0]["dimension"], 10_000) in PAGE


def test_its_commands_are_understood():
    import typer

    from rankencoder.cli import app

    names = typer.main.get_command(app).commands
    commands = re.findall(r"^(?:\$|head\$) +rankencoder (.*)$", PAGE, flags=re.MULTILINE)
    assert len(commands) == 2
    for command in commands:
        name, *arguments = command.split()
        given = names[name].make_context(name, arguments).params
        assert str(given["model"]) == "my-encoder"
        assert given["ray"] in ("local", "head:6379")
        assert given["source"] in ("corpus.txt", "s3://bucket/corpus")
