"""Encoders to report on: each encoder of each model, runs that differ only in seeds as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rankencoder.evaluation.results import Result, Row, grouped, rows
from rankencoder.evaluation.sts_data import DEV, SEVEN
from rankencoder.formatting import clean

_SYSTEMS = {
    ("E1", "cosine"): "E1: the base encoder",
    ("E1", "ranks"): "E1 ranks: RankEncoder without training",
    ("E2", "cosine"): "E2: retrained",
    ("E2", "blend"): "E2 blend: retrained, weighted inference",
}  # names from the paper


@dataclass(frozen=True, eq=False)
class View:
    """An encoder of one model, or of several runs of one configuration."""

    label: str
    role: str  # "E1" or "E2" of a training run, otherwise empty
    members: tuple[Result, ...]  # the results of its runs
    rows: dict[str, Row]  # its similarities: "cosine" and, with a reference corpus, "ranks" and "blend"

    @property
    def name(self) -> str:
        """Display name."""
        return f"{self.label}, {self.role}" if self.role else self.label

    @property
    def run(self) -> str:
        """A suffix where only one of several runs is shown."""
        return "" if len(self.members) == 1 else " (first run)"

    @property
    def subject(self) -> dict[str, Any]:
        """Its entry in the first result."""
        subjects: list[dict[str, Any]] = self.members[0]["model"]["subjects"]
        return next(subject for subject in subjects if subject["role"] == self.role)

    @property
    def own_form(self) -> tuple[str, dict[str, Any]] | None:
        """Name and settings of its rank form, if it has one."""
        form = self.subject.get("form")
        return form and (form["name"], form["settings"])

    @property
    def chosen(self) -> dict[str, Any] | None:
        """The similarity chosen for it on dev pairs, if all of its runs chose the same."""
        found = [choice["chosen"] for choice in self.parts("choice") if "chosen" in choice]
        return found[0] if found and all(one == found[0] for one in found) else None

    def similarity(self, kind: str) -> str:
        """Return the display name of a kind of similarity: cosine, ranks (or power …), blend 0.1."""
        row = self.rows.get(kind)
        name = kind if row is None else row.system.removeprefix(self.role).strip()
        return clean(name).replace("-", "−")

    def system(self, kind: str) -> str:
        """Return the name of a similarity in a table of all systems of a model."""
        return _SYSTEMS.get((self.role, kind)) or f"{self.role} {self.similarity(kind)}".strip()

    def parts(self, section: str) -> list[dict[str, Any]]:
        """Return this encoder's part of a section, of each run that has it."""
        found = [(member.get(section) or {}).get(self.role) for member in self.members]
        return [part for part in found if part]


def views(results: Sequence[Result]) -> list[View]:
    """Return all encoders, in the order of the results."""
    every = rows(results)
    found = []
    for label, members in grouped(results).items():
        table = [row for row in every if row.label == label]
        for subject in members[0]["model"]["subjects"]:
            role = subject["role"]
            scored = [system for member in members for system in (member.get("sts") or {}).items()]
            systems = [name for name, system in scored if system["encoder"] == role]
            own = {row.kind: row for row in table if row.system in systems}
            found.append(View(clean(label) or "model", role, tuple(members), own))
    return found


def set_order(names: Sequence[str]) -> list[str]:
    """Order sets as the field does: the seven, other sets, sets for choosing; each once."""
    others = [name for name in dict.fromkeys(names) if name not in SEVEN]
    return [*(name for name in SEVEN if name in names), *sorted(others, key=lambda name: name in DEV)]
