"""The tables of results/ are those of the raw results."""

from pathlib import Path

from methods_table import PAPER, read, updated

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
