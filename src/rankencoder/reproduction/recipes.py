"""Recipes of published results, and the verdict on a reproduction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rankencoder.errors import InputError, nearest
from rankencoder.evaluation.sts_data import SEVEN
from rankencoder.report import paper_scores

COLUMNS = (*SEVEN, "AVG")


@dataclass(frozen=True)
class Recipe:
    """How a published row is made again; `recipes.yaml` says what each part means."""

    name: str
    settings: dict[str, Any]
    published: dict[str, tuple[str, str]]
    within: float
    spread: str
    corpus: str = "wiki1m"
    first: dict[str, Any] = field(default_factory=dict)
    differs: list[str] = field(default_factory=list)

    def figures(self, system: str) -> dict[str, float]:
        """Return the published figures of a similarity of the run, by set."""
        table, row = self.published[system]
        values = getattr(paper_scores, table)[row]
        means = [value[0] if isinstance(value, list) else value for value in values]
        return dict(zip(COLUMNS, means, strict=True))


def read_recipes() -> dict[str, Recipe]:
    """Return all recipes by name."""
    import yaml

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
    """What a run scored, beside what was published.

    :param found: Scores by similarity of the run and set.
    :param changed: Settings that are not the recipe's.
    """

    recipe: Recipe
    found: Mapping[str, Mapping[str, float]]
    changed: tuple[str, ...] = ()

    @property
    def averages(self) -> list[tuple[float, float]]:
        """AVG as found and as published; of E1, and of E2 where the row is about that."""
        names = self.recipe.published
        return [(self.found[name]["AVG"], self.recipe.figures(name)["AVG"]) for name in names]

    @property
    def difference(self) -> float:
        """AVG less the published one."""
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
        """Return all of it, to be stored as JSON."""
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
