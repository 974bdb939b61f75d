"""What people rely on, as text: public names with their parameters, commands with their options.

`make public-names` writes public_names.txt anew, after a change that was meant.
"""

import inspect
import re
from pathlib import Path

FILE = Path(__file__).with_name("public_names.txt")
MODULES = ("rankencoder", "rankencoder.training")
"""Whose ``__all__`` is public; besides what docs/api.md lists."""


def described():
    """One line for each public name, command and option."""
    return "".join(f"{line}\n" for line in (*sorted(set(_names())), *_commands()))


def _names():
    from pkgutil import resolve_name

    names = [f"{module}.{name}" for module in MODULES for name in resolve_name(module).__all__]
    page = (FILE.parents[1] / "docs/api.md").read_text(encoding="utf-8")
    seen = []
    for name in (*names, *re.findall(r"^::: (\S+)$", page, flags=re.MULTILINE)):
        found = resolve_name(name)
        if found not in seen:  # by its shortest name
            seen.append(found)
            yield from _object(name, found)


def _object(name, found):
    if not callable(found):
        yield name
        return
    yield name + _parameters(found)
    if inspect.isclass(found):
        for attribute, member in vars(found).items():  # what is inherited is public by its own class
            if attribute.startswith("_"):
                continue
            function = getattr(found, attribute) if isinstance(member, classmethod | staticmethod) else member
            yield f"{name}.{attribute}{_parameters(function) if callable(function) else ''}"


def _parameters(function):
    """Names, kinds and whether there is a default; types and defaults may change."""
    try:
        signature = inspect.signature(function)
    except ValueError:  # an exception's
        return ""
    empty = inspect.Parameter.empty
    short = [
        parameter.replace(annotation=empty, default=empty if parameter.default is empty else ...)
        for parameter in signature.parameters.values()
    ]
    text = str(signature.replace(parameters=short, return_annotation=empty))
    return text.replace("=Ellipsis", "=…")


def _commands():
    from typer.main import get_command

    from rankencoder.cli import app

    yield from _command("rankencoder", get_command(app))


def _command(name, command):
    for inner in sorted(getattr(command, "commands", {})):
        yield from _command(f"{name} {inner}", command.commands[inner])
    if name != "rankencoder":  # whose options are typer's
        yield f"$ {name} {' '.join(p.name.upper() for p in command.params if not _is_option(p))}".rstrip()
        options = sorted("/".join((*p.opts, *p.secondary_opts)) for p in command.params if _is_option(p))
        yield from (f"$ {name} {option}" for option in options)


def _is_option(parameter):
    return parameter.opts[0].startswith("-")


if __name__ == "__main__":
    FILE.write_text(described(), encoding="utf-8")
