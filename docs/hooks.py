"""mkdocs hooks: add pages from elsewhere in the repository and pages generated from code.

README, results and others become pages of the site, with their links rewritten. The pages of methods and
commands are generated from the code's own descriptions. Run as a script, this writes the tables of settings
and results into README and ``docs/``: between ``<!-- settings -->`` or ``<!-- results: NAME -->`` and
``<!-- end -->``.
"""

from __future__ import annotations

import inspect
import os
import posixpath
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
os.environ.setdefault("HF_HUB_OFFLINE", "1")

PAGES = {
    "README.md": "index.md",
    "results/README.md": "results/README.md",
    "SECURITY.md": "SECURITY.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "CHANGELOG.md": "CHANGELOG.md",
}
"""Pages outside ``docs/`` and their paths on the site."""

_FENCED = re.compile(r"(^```\w*\n.*?^```$)", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
_TABLE = re.compile(r"^<!-- results: (.+?) -->\n.*?^<!-- end -->$", re.DOTALL | re.MULTILINE)
_PARAM = re.compile(r":param (\w+): (.*?)(?=\n\s*:|\Z)", re.DOTALL)
_SHIM = "https://unpkg.com/iframe-worker/shim"
_WORKER = "javascripts/worker.js"
_KINDS = {"masked": "masked (BERT, RoBERTa, …)", "causal": "causal (Llama, Qwen, …)"}


def on_config(config: Any) -> Any:
    """Add each method to the navigation."""
    chapters = [items for entry in config.nav for items in entry.values() if isinstance(items, list)]
    methods = next(item for chapter in chapters for item in chapter if "Methods" in item)
    methods["Methods"] = ["methods/index.md", *({name: f"methods/{name}.md"} for name in _methods())]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add pages and plots from outside ``docs/``."""
    for source, uri in PAGES.items():
        files.append(File.generated(config, uri, content=(ROOT / source).read_text(encoding="utf-8")))
    for plot in sorted((ROOT / "results/plots").glob("*.svg")):
        files.append(File.generated(config, f"results/plots/{plot.name}", abs_src_path=str(plot)))
    for uri, content in generated_pages():
        files.append(File.generated(config, uri, content=content))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Rewrite links to other places of the repository."""
    uri = page.file.src_uri
    source = next((source for source, target in PAGES.items() if target == uri), f"docs/{uri}")
    parts = _FENCED.split(markdown)
    return "".join(part if part.startswith("```") else turn_links(part, source, uri) for part in parts)


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Load our own script where the theme would load one from a CDN."""
    return output.replace(_SHIM, posixpath.relpath(_WORKER, posixpath.dirname(page.file.dest_uri) or "."))


def on_post_template(output_content: str, **_: Any) -> str:
    """Do the same for the 404 page."""
    return output_content.replace(_SHIM, f"/{_WORKER}")


def turn_links(markdown: str, source: str, uri: str) -> str:
    """Return a page with its links as on the site. Links to files that are not pages become their names.

    :param source: Path of the page in the repository.
    :param uri: Path on the site.
    """

    def turned(found: re.Match[str]) -> str:
        image, text, target = found.groups()
        path, mark, anchor = target.partition("#")
        if not path or ":" in path:
            return found[0]
        whole = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        inside = PAGES.get(whole, whole.removeprefix("docs/"))
        if whole in PAGES or whole.startswith(("docs/", "results/plots/")):
            return (
                f"{image}[{text}]({posixpath.relpath(inside, posixpath.dirname(uri) or '.')}{mark}{anchor})"
            )
        if not (ROOT / whole).exists():
            return found[0]  # mkdocs reports it
        return f"`{whole}`" if text.strip("`") == path.removeprefix("../") else f"{text} (`{whole}`)"

    return _LINK.sub(turned, markdown)


def results_table(name: str) -> str:
    """Return the text between ``<!-- NAME -->`` and ``<!-- end -->`` in the results."""
    text = (ROOT / "results/README.md").read_text(encoding="utf-8")
    found = re.search(rf"<!-- {re.escape(name)} -->\n(.*?)<!-- end -->", text, flags=re.DOTALL)
    if found is None:
        raise PluginError(f"results/README.md has no table {name!r}")
    return found[1].strip()


def generated_pages() -> Iterator[tuple[str, str]]:
    """Yield name and text of each generated page."""
    yield "commands.md", commands_page()
    yield "methods/index.md", methods_page()
    for name, method in _methods().items():
        yield f"methods/{name}.md", method_page(method)


def _methods() -> dict[str, Any]:
    from rankencoder.training.methods import methods

    ours = {
        name: method for name, method in methods().items() if method.__module__.startswith("rankencoder.")
    }
    return dict(sorted(ours.items(), key=lambda item: (item[1].paper()[1], item[0])))


def methods_page() -> str:
    """Return the list of methods."""
    rows = "\n".join(
        f"| [{name}]({name}.md) | {m.about} | {m.paper()[0]} |" for name, m in _methods().items()
    )
    return (
        "# Methods\n\n```console\n$ rankencoder methods\n```\n\n"
        "A method trains E1 (`rankencoder train --method NAME`). Which one to choose, and how to write your "
        "own, is in [training](../training.md#methods). Our scores are in "
        "[results](../results/README.md#the-seven-methods-e1-and-e2).\n\n"
        f"| | what it does | paper |\n|---|---|---|\n{rows}\n"
    )


def method_page(method: Any) -> str:
    """Return a method's page: what it does, its authors' settings, its options."""
    from rankencoder.cli.train import describe
    from rankencoder.training.methods.method import Family

    sizes = {
        "BERT base": Family(),
        "BERT large": Family(is_large=True),
        "RoBERTa base": Family(is_roberta=True),
        "RoBERTa large": Family(is_roberta=True, is_large=True),
    }
    told = {size: describe(method, family) for size, family in sizes.items()}
    lead = inspect.cleandoc(method.__doc__ or "").partition("\n\n:param")[0]
    kinds = " and ".join(_KINDS[kind] for kind in method.kinds)
    return "\n\n".join(
        [
            f"# {method.name}",
            method.about,
            lead,
            f"{method.paper()[0]}. Backbones: {kinds} language models.",
            f"```console\n$ rankencoder train corpus.txt --backbone bert-base-uncased --method {method.name} "
            "-o my-run\n```",
            "## Settings\n\nThe authors' settings. Each is an option of `rankencoder train`.",
            _table({size: about["settings"] for size, about in told.items()}, _flag),
            "## Options\n\nSet them with `--option NAME=VALUE`.",
            _table({size: about["options"] for size, about in told.items()}, _explained(method)),
            f"## Citation\n\n```bibtex\n{method.citation}\n```\n",
        ]
    )


def _flag(setting: str) -> str:
    return f"`--{setting.replace('_', '-')}`"


def _table(columns: dict[str, dict[str, Any]], describe: Any) -> str:
    names = dict.fromkeys(name for values in columns.values() for name in values)
    lines = [f"| | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for name in names:
        cells = [_cell(values.get(name)) for values in columns.values()]
        lines.append(f"| {describe(name)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(value: Any) -> str:
    return "–" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _explained(method: Any) -> Any:
    """Return a function from an option to its name and description."""
    said: dict[str, str] = {}
    for cls in reversed(method.__mro__):
        for name, text in _PARAM.findall(inspect.cleandoc(cls.__doc__ or "")):
            said[name] = " ".join(text.split()).replace("|", r"\|")
    return lambda name: f"`{name}`: {said[name]}"


def commands_page() -> str:
    """Return all commands with their arguments and options."""
    from typer.main import get_command

    from rankencoder.cli import app

    lines = [
        "# Commands\n\nAll commands and options, from `rankencoder --help`. `--json` prints JSON. "
        "Errors are one line, with exit code 2."
    ]
    for path, command in _commands(get_command(app), "rankencoder"):
        lines += [f"## {path}", _help(command), _options_table(command)]
    return "\n\n".join(lines) + "\n"


def _commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    inner = getattr(command, "commands", None)
    if inner is None:
        yield path, command
    for name, one in (inner or {}).items():
        yield from _commands(one, f"{path} {name}")


def _help(command: Any) -> str:
    """Return a command's help, with an empty line before its list of examples."""
    return inspect.cleandoc(command.help or "").replace("Examples:\n", "Examples:\n\n")


def _options_table(command: Any) -> str:
    rows = ["| | |", "|---|---|"]
    for parameter in command.params:
        if parameter.name == "help":
            continue
        names = [*parameter.opts, *parameter.secondary_opts]
        is_argument = parameter.param_type_name == "argument"
        shown = parameter.name.upper() if is_argument else ", ".join(names)
        about = re.sub(r"([|\[])", r"\\\1", " ".join((getattr(parameter, "help", None) or "").split()))
        rows.append(f"| `{shown}` | {about}{_default(parameter)} |")
    return "\n".join(rows)


def _default(parameter: Any) -> str:
    default = parameter.default
    plain = isinstance(default, (int, float, str)) and not isinstance(default, bool) and default != ""
    return f" Default: `{default}`." if plain else ""


def settings_table(model: Any, default_text: Callable[[str], str]) -> str:
    """Return settings as a table, from their declarations.

    :param default_text: Returns the default of a setting as text.
    """
    rows, group = ["| setting | default | |", "|---|---|---|"], ""
    for name in model.by_group():
        field = model.model_fields[name]
        about = field.json_schema_extra
        if about["group"] != group:
            group = about["group"]
            rows.append(f"| **{group}** | | |")
        rows.append(f"| `{name}` | {default_text(name)} | {field.description} |")
    return "\n".join(rows)


def settings_tables() -> dict[str, str]:
    """Return the table of settings for each page that has one."""
    from rankencoder.distillation import distill_config
    from rankencoder.training import config

    return {
        "docs/training.md": settings_table(config.TrainConfig, config.default_text),
        "docs/distill.md": settings_table(distill_config.DistillConfig, distill_config.default_text),
    }


def with_settings_table(markdown: str, table: str) -> str:
    """Return a page with an updated table of settings."""
    marked = f"<!-- settings -->\n{table}\n<!-- end -->"
    return re.sub(r"<!-- settings -->\n.*?<!-- end -->", lambda _: marked, markdown, flags=re.DOTALL)


def with_tables(path: Path) -> str:
    """Return a page with updated tables of settings and results."""
    markdown = path.read_text(encoding="utf-8")
    if table := settings_tables().get(path.relative_to(ROOT).as_posix()):
        markdown = with_settings_table(markdown, table)
    return _TABLE.sub(
        lambda found: f"<!-- results: {found[1]} -->\n{results_table(found[1])}\n<!-- end -->", markdown
    )


if __name__ == "__main__":
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        page.write_text(with_tables(page), encoding="utf-8")
