"""The tables of results/ are those of the raw results."""

from pathlib import Path

import labelfree
import labelfree_table
import numpy as np
import pytest
import result_tables
import threshold_bound
import thresholds_table
from methods_table import PAPER, read, updated
from pages import MISSING
from result_runs import read as read_runs

PAGE = Path(__file__).parents[1] / "results/README.md"


def test_tables_are_made_of_the_raw_results():
    page = PAGE.read_text(encoding="utf-8")
    assert updated(page) == page


def test_runs_of_a_name_differ_in_their_seeds_alone():
    runs = read()
    assert set(PAPER) <= set(runs)
    for of in runs.values():
        assert len({run["seed"] for run in of}) == len(of)
        for name in ("corpus", "backbone", "method", "learning_rate", "batch_size", "epochs"):
            assert len({run["config"][name] for run in of}) == 1


def test_tables_of_the_experiments_are_made_of_the_raw_results():
    page = PAGE.read_text(encoding="utf-8")
    assert result_tables.updated(page) == page


def test_the_table_of_choices_without_labels_is_made_of_the_raw_results():
    page = PAGE.read_text(encoding="utf-8")
    assert labelfree_table.updated(page) == page


def test_the_label_free_rule_has_the_regret_that_is_published():
    for judges, last, halves in (
        (("stsb",), (1.29, 4.46), (0.22, 0.88)),
        (labelfree.DEV, (0.83, 3.24), (0.26, 1.05)),
    ):
        runs = labelfree_table.read(tuple(judges))
        for way, expected in (("last weights", last), ("halves", halves)):
            lost = [run.scores.max() - run.scores[labelfree_table.chosen_looks(run)[way]] for run in runs]
            assert (np.mean(lost), max(lost)) == pytest.approx(expected, abs=0.005)


def test_what_was_not_measured_is_said_to_be_so():
    page = PAGE.read_text(encoding="utf-8")
    tables = [make({}) for name, make in result_tables.TABLES.items() if name != "when"]
    assert set(tables) == {MISSING}
    assert all(f"<!-- {name} -->" in page for name in result_tables.TABLES)


def test_raw_results_say_what_they_are_and_not_where_they_were_made():
    for file in (*(PAGE.parent / "runs").glob("*/*.json"), *(PAGE.parent / "labelfree").glob("*/*.json")):
        text = file.read_text(encoding="utf-8")
        assert not any(place in text for place in ('"/tmp', '"/work', '"/root', '"/home'))
    for key, of in read_runs().items():
        assert len({run["seed"] for run in of}) == len(of)
        for run in of:
            assert f"{run['group']}/{run['name']}" == key
            assert {"settings", "versions", "machine", "seconds"} <= run.keys()


def test_the_tables_of_thresholds_are_made_of_the_raw_results():
    page = PAGE.read_text(encoding="utf-8")
    assert thresholds_table.updated(page) == page


def test_the_bound_on_promises_is_what_simulated_tests_keep():
    """Draws without replacement, and an exact test by counting: how often the promise is made."""
    random = np.random.default_rng(0)
    same = np.arange(600) < 540  # precision 0.9 of 600 pairs
    drawn = np.array([random.choice(same, 120, replace=False).sum() for _ in range(4000)])
    worst = np.arange(600) < 479  # the most same pairs at which precision is below 0.8
    null = np.array([random.choice(worst, 120, replace=False).sum() for _ in range(20_000)])
    needed = min(k for k in range(121) if (null >= k).mean() <= 0.1)
    found = threshold_bound.power(np.array([600]), np.array([540]), 0.8, 120)[0]
    assert found == pytest.approx((drawn >= needed).mean(), abs=0.03)
    assert threshold_bound.power(np.array([100]), np.array([80]), 0.8, 120)[0] == 1  # all are labelled
    assert threshold_bound.power(np.array([10_000]), np.array([7999]), 0.8, 120)[0] <= 0.1
