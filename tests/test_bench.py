"""The arithmetic of the benchmarks, not their times."""

import pytest
from speed import goals, tables
from speed.growth import curve
from speed.timing import compare, exponent, interleaved, ratio


def test_works_are_timed_in_turn_and_the_first_round_does_not_count():
    order = []
    times = interleaved({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, rounds=2)
    assert order == ["b", "a", "a", "b", "b", "a"]
    assert {name: len(found) for name, found in times.items()} == {"a": 2, "b": 2}


def test_ratios_are_medians_of_rounds():
    assert ratio([2.0, 30.0, 4.0], [1.0, 1.0, 4.0]) == 2.0
    found = compare({"ours": list, "peer": list}, "ours", rounds=3)
    assert set(found["peers"]) == {"peer"}
    assert found["peers"]["peer"]["ratio"] > 0


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_exponents_are_those_of_powers(power):
    sizes = [10, 100, 1000]
    times = [3 * size**power for size in sizes]
    assert exponent(sizes, times) == pytest.approx(power)
    assert curve("x", "n", sizes, times)["last_exponent"] == pytest.approx(power)


def run(ratio=25.0, overhead=0.03):
    ranking = {"B": 64, "n": 100_000, "ms": 1.0, "peers": {"scipy rankdata": {"ms": ratio, "ratio": ratio}}}
    encoding = {
        "model": "m",
        "precision": "float32",
        "peers": {
            "SentenceTransformer.encode": {"ms": 3.0, "ratio": 1.5},
            "RankEncoder.encode, n = 10,000": {"ms": 2.0, "ratio": 1.0},
        },
        "rank_parts": [{"form": "compact", "n": 10_000, "ms": 1.0, "overhead": overhead}],
    }
    return {
        "quick": False,
        "busy": False,
        "sections": {"ranking": {"cpu": [ranking]}, "encoding": {"cpu": [encoding]}},
    }


def test_goals_say_what_is_reached_missed_and_not_measured():
    lines = tables.goals([run()]).splitlines()
    assert "| ranking / scipy rankdata | CPU | B = 64, n = 100,000 | at least 20 | 25 | reached |" in lines
    assert any("at most 0.02 | 0.03 | **missed**" in line for line in lines)
    assert any("RankEncoder.encode" in line and "| 1.5 | reached |" in line for line in lines)
    assert any("authors' loop" in line and "not measured" in line for line in lines)
    assert len(lines) == 2 + len(goals.GOALS)


def test_figures_as_people_read_them():
    assert [tables.number(x) for x in (None, 0.01234, 12345.6)] == ["–", "0.0123", "12,346"]
    assert [tables.times(x) for x in (None, 1.234, 24.4)] == ["–", "1.23×", "24×"]
    assert [tables.size(x) for x in (None, 12, 2560, 3e9)] == ["–", "12 B", "2.56 kB", "3.00 GB"]
