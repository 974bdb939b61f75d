"""Fetch data, train, evaluate and compare with a published result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rankencoder.errors import InputError
from rankencoder.evaluation.public_data import fetch_data
from rankencoder.evaluation.sts_data import SEVEN, senteval_home
from rankencoder.io.pairs import DEV_FILES, read_pair_lines, read_pairs
from rankencoder.io.storage import RUN, data_folder, new_file, read_json, write_json
from rankencoder.reproduction.recipes import COLUMNS, Recipe, Verdict, find_recipe

# settings that do not make another recipe; the last two name second models by where they are
_FREE = ("seed", "device", "workers", "report_to", "parser", "complementary")


@dataclass(frozen=True)
class Reproduction:
    """All that is done for a recipe, known before anything is.

    :param data: The folder of fetched data.
    :param corpus: What is trained on; a file of the STS sets' texts is written there.
    :param trainings: The settings of each training by its folder: of E1 where it is trained apart, and of the
        run that is evaluated.
    :param changed: Settings that are not the recipe's.
    """

    recipe: Recipe
    folder: Path
    data: Path
    fetched: tuple[str, ...]
    corpus: Path
    trainings: dict[Path, dict[str, Any]]
    changed: tuple[str, ...]

    @property
    def run(self) -> Path:
        """The training run that is evaluated."""
        return self.folder / "run"


def plan_reproduction(
    name: str,
    output: str | Path,
    *,
    data: str | Path | None = None,
    corpus: str | Path | None = None,
    options: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Reproduction:
    """Return what `reproduce` would do with these arguments; nothing is read or written."""
    recipe, folder = find_recipe(name), Path(output).expanduser().resolve()
    home = Path(data or data_folder()).expanduser().resolve()
    own_text = recipe.corpus == "sts"
    text = folder / "sts-texts.txt" if own_text else home / recipe.corpus
    fetched = ("senteval",) if corpus or own_text else ("senteval", recipe.corpus)
    files = {dev: str(home / "senteval/downstream" / file) for dev, file in DEV_FILES.items()}
    dev = {key: [files[one] for one in recipe.settings.get(key, [])] for key in ("dev", "stage2_dev")}
    chosen = {**recipe.settings, **dev, **settings}
    chosen["options"] = {**recipe.settings.get("options", {}), **(options or {})}
    trainings = {folder / "run": chosen}
    if recipe.first:
        first = folder / "first"
        e1 = {**chosen, **recipe.first, **settings, "only_base": True}
        trainings = {first: e1, folder / "run": {**chosen, "base_encoder": [str(first / "base")]}}
    given = [*settings, *(options or {}), *(["corpus"] if corpus else [])]
    changed = tuple(name for name in given if name not in _FREE)
    return Reproduction(recipe, folder, home, fetched, Path(corpus or text).resolve(), trainings, changed)


def reproduce(plan: Reproduction, *, progress: bool | None = None) -> Verdict:
    """Fetch the data, train, evaluate the seven sets, and compare with the published row.

    What an interrupted call has finished is not done again.

    :return: The verdict, which is also written to ``verdict.json`` of the output folder.
    """
    from rankencoder.evaluation.evaluator import evaluate
    from rankencoder.training.run import train

    fetch_data(plan.fetched, plan.data)
    plan.folder.mkdir(parents=True, exist_ok=True)
    if plan.recipe.corpus == "sts" and "corpus" not in plan.changed:
        with new_file(plan.corpus) as path:
            path.write_text("".join(f"{text}\n" for text in sts_texts(plan.data)), encoding="utf-8")
    for folder, settings in plan.trainings.items():
        given = {**settings, "corpus": str(plan.corpus), "output": str(folder)}
        if not _is_finished(folder, given):
            train(resume=(folder / RUN).exists(), progress=progress, **given)
    evaluation = evaluate(
        plan.run,
        data=plan.data / "senteval",
        tasks=SEVEN,
        output=plan.folder / "evaluation",
        device=plan.trainings[plan.run].get("device"),
        batch_size=128,
        progress=progress,
    )
    scores = {row.system: {name: row.mean(name) for name in COLUMNS} for row in evaluation.rows()}
    found = {
        system: next(scores[name] for name in scores if name.startswith(system))  # "E2 blend 0.1"
        for system in plan.recipe.published
    }
    verdict = Verdict(plan.recipe, found, plan.changed)
    with new_file(plan.folder / "verdict.json") as path:
        write_json(path, verdict.as_data())
    return verdict


def _is_finished(folder: Path, settings: Mapping[str, Any]) -> bool:
    """Say whether this very training is there already."""
    from rankencoder.training.config import TrainConfig, read_given

    if not (folder / RUN).exists() or not read_json(folder / RUN).get("finished"):
        return False
    if read_given({}, folder / TrainConfig.file).values != read_given(settings).values:
        raise InputError(f"{folder} holds a training with other settings: use another output folder")
    return True


def sts_texts(data: Path) -> list[str]:
    """Return what ConSERT was trained on: each sentence of the STS sets, scored or not, in all splits."""
    home = senteval_home(data, "STS", "SICK")
    if home is None:
        raise InputError(f"no STS sets in {data}")
    inputs = sorted(home.glob("STS/STS1?-en-test/STS.input.*.txt"))
    rows = [text.split("\t")[:2] for path in inputs for text, _ in read_pair_lines(path)]
    tables = [*sorted(home.glob("STS/STSBenchmark/sts-*.csv")), *sorted(home.glob("SICK/SICK_*.txt"))]
    rows += [list(pair) for path in tables for pair in read_pairs(path)]
    texts = (" ".join(cell.split()) for row in rows for cell in row)
    return [text for text in texts if text]
