"""Model cards: a ``README.md`` for every model, with metadata for the Hugging Face hub."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rankencoder._version import __version__
from rankencoder.encoder_sources import split_prompt

CARD = "README.md"
_HUB_NAME = re.compile(r"[\w.-]{1,96}(/[\w.-]{1,96})?")
_GENERIC = ("base", "encoder", "model", "models", "rankencoder", "teacher")
_LOAD = {
    "rankencoder": """from rankencoder import RankEncoder

model = RankEncoder.load("FOLDER OR HUB NAME"{})""",
    "sentence-transformers": """from sentence_transformers import SentenceTransformer

model = SentenceTransformer("FOLDER OR HUB NAME"{})""",
}
_ENCODE = """vectors = model.encode(["A cat sleeps.", "A dog barks."])
print(model.similarity(vectors, vectors))"""

_TEMPLATE = """---
{metadata}---

# {title}

{about} Made with rankencoder {version}.

## Usage

```python
{usage}
```

## What was measured

{figures}

## How it was made

| | |
|---|---|
{recipe}

## Limits

{limits}

## License

No license is set. This model derives from {sources}. Check their licenses, and an
API's terms, before you publish; then add `license:` to the metadata of this file.
{citation}"""


@dataclass(frozen=True)
class ModelCard:
    """The contents of a model card.

    :param about: One or two sentences that describe the model.
    :param figures: Measurements, one per line.
    :param recipe: Rows of the table "How it was made".
    :param limits: Limitations, one per line.
    :param sources: The models and texts it derives from, whose licenses may apply.
    :param bases: The encoders it was made from; the metadata names those on the hub.
    :param library: The library that loads it: "rankencoder" or "sentence-transformers".
    :param loading: Further arguments for loading it.
    :param citation: BibTeX.
    """

    title: str
    about: str
    figures: Sequence[str]
    recipe: Mapping[str, object]
    sources: Sequence[str]
    limits: Sequence[str] = ()
    bases: Sequence[str] = ()
    tags: Sequence[str] = ()
    library: str = "sentence-transformers"
    loading: str = ""
    citation: str = ""

    def text(self) -> str:
        """Return the card as Markdown with YAML metadata."""
        import yaml

        tags = dict.fromkeys(["sentence-transformers", "rankencoder", *map(_one_line, self.tags)])
        metadata: dict[str, Any] = {"library_name": self.library, "pipeline_tag": "sentence-similarity"}
        metadata["tags"] = list(tags)
        if bases := [name for name in self.bases if is_hub_name(name)]:
            metadata["base_model"] = bases
        load = _LOAD[self.library].format(f", {self.loading}" if self.loading else "")
        citation = f"\n## Citation\n\n```bibtex\n{self.citation.strip()}\n```\n" if self.citation else ""
        recipe = {key: _one_line(str(value)).replace("|", "\\|") for key, value in self.recipe.items()}
        limits = [*self.limits, "Figures hold for the data they were measured on. Measure on your own."]
        return _TEMPLATE.format(
            metadata=yaml.safe_dump(metadata, sort_keys=False, allow_unicode=True),
            title=_one_line(self.title),
            about=_one_line(self.about),
            version=__version__,
            usage=f"{load}\n{_ENCODE}",
            figures=_bullets(self.figures) or "Nothing yet.",
            recipe="\n".join(f"| {key} | {value} |" for key, value in recipe.items()),
            limits=_bullets(limits),
            sources=_listed(self.sources),
            citation=citation,
        )

    def write(self, folder: Path) -> None:
        """Write the card into a folder."""
        (folder / CARD).write_text(self.text(), encoding="utf-8")


def short_name(name: str) -> str:
    """Return a name without folders and prompt; a folder with a generic name goes by its parent.

    >>> short_name("/models/e5-small?prompt=query: "), short_name("my-run/encoder")
    ('e5-small', 'my-run')
    """
    parts = [part for part in Path(split_prompt(name)[0]).parts if part != os.sep]
    telling = [part for part in parts if part not in _GENERIC]
    return _one_line((telling or parts or ["encoder"])[-1])


def is_hub_name(name: str) -> bool:
    """Return whether a name looks like a hub repository and does not exist on disk.

    >>> is_hub_name("intfloat/e5-small"), is_hub_name("openai:text-embedding-3-small"), is_hub_name("/a/b")
    (True, False, False)
    """
    plain = split_prompt(name)[0]
    is_name = bool(_HUB_NAME.fullmatch(plain)) and bool({"/", "-"} & set(plain))  # callables have neither
    return is_name and not Path(plain).exists()


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _bullets(lines: Sequence[str]) -> str:
    return "\n".join(f"- {_one_line(line)}" for line in lines)


def _listed(words: Sequence[str]) -> str:
    *most, last = [f"`{word}`" if " " not in word else word for word in map(_one_line, words)]
    return f"{', '.join(most)} and {last}" if most else last
