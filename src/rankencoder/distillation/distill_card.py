"""Write the model card of a student."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rankencoder._version import __version__
from rankencoder.distillation.distill_summary import describe_distillation, short_name
from rankencoder.encoder_sources import split_prompt

_CARD = """---
library_name: sentence-transformers
pipeline_tag: sentence-similarity
tags:
- sentence-transformers
- sentence-similarity
- rankencoder
- distillation
---

# {title}

A sentence encoder that learnt the similarities of {teachers}, by distillation on unlabelled text with
[rankencoder](https://pypi.org/project/rankencoder) {version}. It loads with sentence-transformers alone:

```python
from sentence_transformers import SentenceTransformer

model = SentenceTransformer("this folder")
vectors = model.encode(["A cat sleeps.", "A dog barks."])
```

## What was measured

{figures}

Agreement is with the teachers, on text that was held out; it says nothing of how good they are.

## How it was made

| | |
|---|---|
{recipe}
"""


def write_card(path: Path, record: dict[str, Any]) -> None:
    """Write the model card of a finished distillation; of the text it has name, size and digest alone."""
    config = record["config"]
    names = [f"`{short_name(teacher['name'])}`" for teacher in record["teachers"]]
    weights = config["weight"] or [1] * len(names)
    teachers = [
        f"`{short_name(teacher['name'])}`{_prompt(teacher['name'])}, weight {weight / sum(weights):.3g}"
        for teacher, weight in zip(record["teachers"], weights, strict=True)
    ]
    student = short_name(config["student"]) or "the student"
    layers = f", {config['layers']} layers kept" if config["layers"] else ""
    corpus = record["corpus"]
    name = Path(corpus["path"]).name if corpus["path"] else "sentences given in memory"
    rows = {
        "student": f"`{student}`{_prompt(config['student'])}{layers}",
        "dimensions": f"{record['student']['dimension']:,}",
        "teachers": "; ".join(teachers),
        "text": f"{name}: {corpus['sentences']:,} sentences (SHA-256 {corpus['sha256'][:16]}…)",
        "target": config["target"],
        "training": f"{record['stage']['steps']:,} steps, batches of {config['batch_size']}, "
        f"learning rate {config['learning_rate']:g}, {config['max_length']} tokens, seed {config['seed']}",
        "vector space": "the first teacher's" if config["space"] == "teacher" else "its own",
    }
    text = _CARD.format(
        title=f"{student} taught by {' and '.join(', '.join(names).rsplit(', ', 1))}",
        teachers=" and ".join(", ".join(names).rsplit(", ", 1)),
        version=__version__,
        figures="\n".join(f"- {line}" for line in describe_distillation(record)),
        recipe="\n".join(f"| {key} | {value} |" for key, value in rows.items()),
    )
    path.write_text(text, encoding="utf-8")


def _prompt(name: str) -> str:
    prompt = split_prompt(name)[1]
    return f" with the prompt `{prompt}`" if prompt else ""
