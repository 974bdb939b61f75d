"""Any task of mteb on any of our models, through mteb itself."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankencoder.errors import InputError, MissingExtraError, first_line
from rankencoder.fingerprints import digest
from rankencoder.io.files import file_name
from rankencoder.io.storage import new_file
from rankencoder.model import RankEncoder, open_model

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


def run_mteb(
    model: str | Path,
    tasks: Sequence[Any],
    output: str | Path | None = None,
    *,
    device: str | None = None,
    batch_size: int = 32,
) -> list[dict[str, Any]]:
    """Run mteb tasks on a model.

    :param model: A RankEncoder's folder, a training's (its RankEncoder), or an encoder's folder or hub name.
    :param output: A folder for what mteb returns, in full: ``mteb/MODEL/TASK.json``.
    :return: The main score of each split of each task.
    """
    try:
        import mteb
    except ImportError as error:
        raise MissingExtraError("mteb tasks need mteb", "mteb") from error
    try:
        chosen = [mteb.get_task(task) if isinstance(task, str) else task for task in tasks]
    except KeyError as error:  # it names the nearest
        raise InputError(f"mteb has no such task ({error.args[0]})") from error
    loaded = load_as_sentence_transformer(model, device=device, batch_size=batch_size)
    found = []
    for task in chosen:
        name = task.metadata.name
        try:
            made = mteb.evaluate(
                loaded, task, cache=None, show_progress_bar=False, encode_kwargs={"batch_size": batch_size}
            ).task_results[0]
        except (OSError, ConnectionError, ValueError, RuntimeError) as error:  # mostly: no data, no network
            raise InputError(f"mteb could not run {name}: {first_line(error)}") from error
        if output is not None:
            target = Path(output) / "mteb" / _folder_name(model) / f"{file_name(name)}.json"
            with new_file(target) as new:
                new.write_text(json.dumps(made.to_dict(), default=str) + "\n", encoding="utf-8")
        for split, scores in made.scores.items():
            found += [
                {"task": name, "split": split, "subset": score["hf_subset"], "score": score["main_score"]}
                for score in scores
            ]
    return found


def load_as_sentence_transformer(
    model: str | Path, *, device: str | None = None, batch_size: int = 32
) -> SentenceTransformer:
    """Return a model that was given by name as a SentenceTransformer whose cosine is its similarity."""
    opened = open_model(model, device=device, batch_size=batch_size)
    if isinstance(opened, RankEncoder):
        return opened.to_sentence_transformer()
    assert opened.model is not None
    if opened.prompt:
        opened.model.prompts = {"given": opened.prompt}
        opened.model.default_prompt_name = "given"
    return opened.model


def _folder_name(model: str | Path) -> str:
    """Return a name for a model's results that models in other folders do not have."""
    folder = Path(model).resolve()
    return (
        f"{file_name(folder.name)}-{digest([str(folder)])[:8]}" if folder.exists() else file_name(str(model))
    )
