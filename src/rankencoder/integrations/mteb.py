"""Run mteb tasks on any model, through mteb itself."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rankencoder.errors import InputError, MissingExtraError, first_line
from rankencoder.fingerprints import digest
from rankencoder.io.files import file_name
from rankencoder.io.storage import new_file
from rankencoder.model import RankEncoder, open_model


def run_mteb(
    model: str | Path,
    tasks: Sequence[Any],
    output: str | Path | None = None,
    *,
    device: str | None = None,
    batch_size: int = 32,
) -> list[dict[str, Any]]:
    """Run mteb tasks on a model.

    :param model: The folder of a RankEncoder or training run, or an encoder's folder or hub name.
    :param output: A folder for mteb's full results, as ``mteb/MODEL/TASK.json``.
    :return: The main score of each split of each task.
    """
    try:
        import mteb
    except ImportError as error:
        raise MissingExtraError("mteb tasks need mteb", "mteb") from error
    try:
        chosen = [mteb.get_task(task) if isinstance(task, str) else task for task in tasks]
    except KeyError as error:  # its message has the nearest names
        raise InputError(f"mteb has no such task ({error.args[0]})") from error
    opened = open_model(model, device=device, batch_size=batch_size)
    if isinstance(opened, RankEncoder):
        loaded = opened.to_sentence_transformer()
    else:
        assert opened.model is not None  # it was opened by name
        loaded = opened.model
        if opened.prompt:
            loaded.prompts, loaded.default_prompt_name = {"given": opened.prompt}, "given"
    found = []
    for task in chosen:
        name = task.metadata.name
        try:
            made = mteb.evaluate(
                loaded, task, cache=None, show_progress_bar=False, encode_kwargs={"batch_size": batch_size}
            ).task_results[0]
        except (
            OSError,
            ConnectionError,
            ValueError,
            RuntimeError,
        ) as error:  # mostly missing data or network
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


def _folder_name(model: str | Path) -> str:
    """Return a distinct folder name for a model's results."""
    folder = Path(model).resolve()
    if not folder.exists():
        return file_name(str(model))
    return f"{file_name(folder.name)}-{digest([str(folder)])[:8]}"
