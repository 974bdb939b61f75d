"""The experiments' jobs fit together, and running many of them does each once."""

import json
import sys
import threading
import time
from dataclasses import fields
from itertools import pairwise
from pathlib import Path

import pytest
import warm
from experiment_groups import groups
from experiment_job import DO, thinned, tidied
from jobs import Job, run_all

from rankencoder.training import TrainConfig
from rankencoder.training.methods import methods

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
GROUPS = groups()
JOBS = [job for group in GROUPS.values() for seed in (1, 2, 3) for job in group.make(seed)]
BY_KEY = {job.key: job for job in JOBS}


def test_every_job_has_a_place_of_its_own_and_what_it_needs_is_a_job():
    assert len(BY_KEY) == len(JOBS)
    for job in JOBS:
        assert set(job.needs) <= BY_KEY.keys()
        assert job.about["kind"] in DO
        assert job.about["lane_seconds"] > 0
        json.dumps(vars(job))


def test_settings_are_settings():
    names = set(TrainConfig.model_fields)
    for job in JOBS:
        assert set(job.settings) <= names, job.key
        method = methods()[job.settings.get("method", "simcse")]
        assert set(job.settings.get("options", {})) <= {field.name for field in fields(method)}


def test_teachers_are_trained_by_the_jobs_that_are_needed():
    taught = [job for job in JOBS if "base_encoder" in job.settings]
    assert taught
    for job in taught:
        assert [name.removesuffix("/base") for name in job.settings["base_encoder"]] == job.needs
        assert all(BY_KEY[key].seed == job.seed for key in job.needs)


def test_the_plan_starts_nothing(tmp_path):
    command = [sys.executable, str(BENCHMARKS / "experiments.py"), "--plan", "--lanes", "2", "recipe"]
    where = ["--work", str(tmp_path / "work"), "--output", str(tmp_path / "runs")]
    done = warm.run([*command, *where], capture_output=True, text=True, check=True)
    assert "recipe: 14 of 14 to do" in done.stdout
    assert "tables: 2 of 2 to do" in done.stdout  # teachers
    assert not list(tmp_path.iterdir())


def test_paths_mean_something_elsewhere(tmp_path):
    found = tidied({"a": [str(tmp_path / "work/x/base"), 1.23456789], "b": None}, tmp_path / "work")
    assert found == {"a": ["x/base", 1.23457], "b": None}


def test_a_thinned_history_keeps_dev_and_evenly_spread_losses():
    history = [{"stage": 1, "step": i, "loss": 1.0, "contrastive": 1.0, "lr": 0} for i in range(1000)]
    found = thinned([*history, {"stage": 1, "step": 5, "dev": 0.5}])
    assert found[0] == {"stage": 1, "step": 5, "dev": 0.5}
    steps = [entry["step"] for entry in found[1:]]
    assert 30 < len(steps) <= 60
    assert len({b - a for a, b in pairwise(steps)}) == 1


SCRIPT = """
import json, sys, time
from pathlib import Path
job = json.loads(sys.argv[2])
if job["name"] == "bad":
    sys.exit("broken")
time.sleep(job["settings"].get("sleep", 0))
with open(Path(job["folder"]).parents[1] / "began", "a") as file:
    file.write(job["name"] + "\\n")
Path(job["result"]).write_text("{}")
"""


@pytest.fixture
def run(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    work, output = tmp_path / "work", tmp_path / "runs"
    work.mkdir()

    def do(*jobs, lanes=2, until=float("inf")):
        return run_all(list(jobs), str(script), work, output, lanes, until)

    do.began = work / "began"
    return do


def test_a_job_waits_for_what_it_needs_and_is_done_once(run, capsys):
    first, second = Job("a", 1, {"sleep": 0.5}, [], "g"), Job("b", 1, {}, ["g/a-1"], "g")
    assert run(first, second) == []
    assert run.began.read_text().split() == ["a", "b"]
    assert run(first, second) == []
    assert run.began.read_text().split() == ["a", "b"]
    assert "g/a-1: done in" in capsys.readouterr().out


def test_what_needs_a_failed_job_is_left(run, capsys):
    assert run(Job("bad", 1, {}, [], "g"), Job("b", 1, {}, ["g/bad-1"], "g")) == ["g/bad-1", "g/b-1"]
    assert "FAILED" in capsys.readouterr().out
    assert run(Job("b", 1, {}, ["g/bad-1"], "g")) == ["g/b-1"]


def test_nothing_begins_after_the_time_is_up(run):
    assert run(Job("a", 1, {}, [], "g"), until=time.perf_counter()) == ["g/a-1"]
    assert not run.began.exists()


def test_two_runners_do_a_job_once(run):
    job = Job("a", 1, {"sleep": 1}, [], "g")
    threads = [threading.Thread(target=run, args=[job]) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert run.began.read_text().split() == ["a"]
