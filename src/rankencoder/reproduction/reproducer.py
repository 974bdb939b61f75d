"""Reproduce a published result: fetch data, train, evaluate and compare."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from rankencoder.errors import InputError, nearest
from rankencoder.evaluation.public_data import fetch_data
from rankencoder.evaluation.sts_data import SEVEN, senteval_home
from rankencoder.io.pairs import DEV_FILES, read_pair_lines, read_pairs
from rankencoder.io.storage import RUN, data_folder, new_file, read_json, write_json
from rankencoder.report import paper_scores

COLUMNS = (*SEVEN, "AVG")
# settings that a recipe leaves open; the last two are paths of second models
_FREE = ("seed", "device", "workers", "report_to", "parser", "complementary")


@dataclass(frozen=True)
class Recipe:
    """How to reproduce a published row; `recipes.yaml` explains the fields."""

    name: str
    settings: dict[str, Any]
    published: dict[str, tuple[str, str]]
    within: float
    spread: str
    corpus: str = "wiki1m"
    first: dict[str, Any] = field(default_factory=dict)
    differs: list[str] = field(default_factory=list)

    def figures(self, system: str) -> dict[str, float]:
        """Return the published scores of a similarity of the run, by set."""
        table, row = self.published[system]
        values = getattr(paper_scores, table)[row]
        means = [value[0] if isinstance(value, list) else value for value in values]
        return dict(zip(COLUMNS, means, strict=True))


def read_recipes() -> dict[str, Recipe]:
    """Return all recipes by name."""
    tables = yaml.safe_load(Path(__file__).with_name("recipes.yaml").read_text(encoding="utf-8"))
    every = tables.pop("every")
    for recipe in tables.values():
        recipe["settings"] = {**every["settings"], **recipe["settings"]}
        recipe["differs"] = [*recipe.get("differs", []), *every["differs"]]
    return {name: Recipe(name=name, **recipe) for name, recipe in tables.items()}


def find_recipe(name: str) -> Recipe:
    """Return a recipe by its name."""
    recipes = read_recipes()
    if name not in recipes:
        raise InputError(f"no recipe {name!r}:{nearest(name, recipes)}")
    return recipes[name]


@dataclass(frozen=True)
class Verdict:
    """Scores of a run beside the published ones.

    :param found: Scores by similarity of the run and set.
    :param changed: Settings that differ from the recipe.
    """

    recipe: Recipe
    found: Mapping[str, Mapping[str, float]]
    changed: tuple[str, ...] = ()

    @property
    def averages(self) -> list[tuple[float, float]]:
        """AVG as found and as published, of E1 and, if the row has one, of E2."""
        names = self.recipe.published
        return [(self.found[name]["AVG"], self.recipe.figures(name)["AVG"]) for name in names]

    @property
    def difference(self) -> float:
        """AVG minus the published one."""
        found, published = self.averages[-1]
        return round(found - published, 2)

    def __str__(self) -> str:
        if self.changed:
            return f"no verdict: changed from the recipe: {', '.join(self.changed)}"
        recipe, (first, last) = self.recipe, (self.averages[0], self.averages[-1])
        word = "reproduced" if abs(self.difference) <= recipe.within else "not reproduced"
        gains = [e2 - e1 for e1, e2 in zip(first, last, strict=True)]
        gained = f"; E2 gains {gains[0]:+.2f}, published {gains[1]:+.2f}" if len(self.averages) > 1 else ""
        return (
            f"{word}: AVG {self.difference:+.2f}; ±{recipe.within:g} counts, spread: {recipe.spread}{gained}"
        )

    def as_data(self) -> dict[str, Any]:
        """Return the verdict as JSON data."""
        return {
            "recipe": self.recipe.name,
            "verdict": str(self),
            "difference": self.difference,
            "changed": list(self.changed),
            "systems": {
                name: {"found": dict(self.found[name]), "published": self.recipe.figures(name)}
                for name in self.recipe.published
            },
            "differs": self.recipe.differs,
        }


@dataclass(frozen=True)
class Reproduction:
    """The steps of a reproduction.

    :param data: Folder of fetched data.
    :param corpus: Training text; a file of the STS sets' texts is written there.
    :param trainings: Settings of each training by its folder: E1, if trained separately, and the evaluated
        run.
    :param changed: Settings that differ from the recipe.
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
    """Return what `reproduce` would do with these arguments, without reading or writing anything."""
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

    An interrupted call resumes.

    :return: The verdict, also written to ``verdict.json`` in the output folder.
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
    """Return whether a training with these settings is finished."""
    from rankencoder.training.config import TrainConfig, read_given

    if not (folder / RUN).exists() or not read_json(folder / RUN).get("finished"):
        return False
    if read_given({}, folder / TrainConfig.file).values != read_given(settings).values:
        raise InputError(f"{folder} holds a training with other settings: use another output folder")
    return True


def sts_texts(data: Path) -> list[str]:
    """Return ConSERT's training text: all sentences of the STS sets, scored or not, of all splits."""
    home = senteval_home(data, "STS", "SICK")
    if home is None:
        raise InputError(f"no STS sets in {data}")
    inputs = sorted(home.glob("STS/STS1?-en-test/STS.input.*.txt"))
    rows = [text.split("\t")[:2] for path in inputs for text, _ in read_pair_lines(path)]
    tables = [*sorted(home.glob("STS/STSBenchmark/sts-*.csv")), *sorted(home.glob("SICK/SICK_*.txt"))]
    rows += [list(pair) for path in tables for pair in read_pairs(path)]
    texts = (" ".join(cell.split()) for row in rows for cell in row)
    return [text for text in texts if text]
