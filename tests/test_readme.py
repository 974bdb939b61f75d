"""What the README lists is whole. (That its commands work is tested with the docs', in test_docs.py.)"""

import re

from documents import read


def test_the_table_of_commands_is_complete():
    from rankencoder.cli import app

    names = {command.callback.__name__ for command in app.registered_commands}
    names |= {group.name for group in app.registered_groups}
    assert names == set(re.findall(r"^\| `rankencoder (\w+)", read("README.md"), flags=re.MULTILINE))
