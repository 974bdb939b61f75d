"""Progress of long work: lines where there is no terminal, a bar where there is one."""

import fcntl
import json
import logging
import os
import pty
import re
import struct
import subprocess
import sys
import termios

import pytest
from training_runs import SMALL, flags

from rankencoder import progress as module
from rankencoder.errors import Interrupted
from rankencoder.progress import Progress


@pytest.fixture
def clock(monkeypatch):
    """A clock that goes as far as it is told to."""
    now = [1000.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(Progress, "due", float("inf"))
    return now


@pytest.fixture
def lines(monkeypatch, caplog, clock):
    """What was logged: the messages, and the fields of each."""
    monkeypatch.setattr(Progress, "in_log", True)
    caplog.set_level(logging.INFO, "rankencoder.progress")
    yield lambda: [record.getMessage() for record in caplog.records]
    assert not Progress.active


def work(clock, bar, steps, *, seconds, number=1, **values):
    with bar:
        for _ in range(steps):
            clock[0] += seconds
            bar.update(number, **values)


def test_a_line_after_three_seconds_every_half_a_minute_and_at_the_end(lines, clock):
    work(clock, Progress(1000, desc="Encoding"), 100, seconds=1, number=10)
    assert lines() == [
        "Encoding: 30 of 1,000 sentences, 10/s, about 01:37 left",
        "Encoding: 330 of 1,000 sentences, 10/s, about 01:07 left",
        "Encoding: 630 of 1,000 sentences, 10/s, about 00:37 left",
        "Encoding: 930 of 1,000 sentences, 10/s, about 00:07 left",
        "Encoding: 1,000 sentences in 01:40",
    ]


def test_short_work_is_silent_but_many_pieces_of_it_are_not(lines, clock):
    Progress.due = clock[0] + 30
    for _ in range(14):
        work(clock, Progress(20, desc="Encoding"), 20, seconds=0.1)
    assert lines() == []
    work(clock, Progress(desc="Reading"), 31, seconds=0.1)
    assert lines() == ["Reading: 20 sentences, 10/s", "Reading: 31 sentences in 00:03"]


def test_long_work_names_what_would_be_faster(lines, clock, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    work(clock, Progress(10_000, desc="Encoding", faster="fewer of them"), 6, seconds=1)
    assert lines()[0] == (
        "Encoding: 3 of 10,000 sentences, 1/s, about 2:46:37 left; faster: fewer of them or a GPU"
    )
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    work(clock, Progress(10_000, desc="Other", faster="fewer of them"), 6, seconds=1)
    assert lines()[-2].endswith("left; faster: fewer of them")


def test_work_inside_adds_to_what_is_around_it_once(lines, clock):
    with Progress(40, desc="Parts") as outer:
        for _ in range(2):
            with Progress(2, desc="Members", unit="members", show=False) as members:
                work(clock, Progress(20, desc="Of another unit"), 1, seconds=1)  # not counted
                members.update()
            work(clock, Progress(20, desc="Encoding"), 20, seconds=1)
            outer.update(20)
    assert lines() == [
        "Parts: 2 of 40 sentences, 0.667/s, about 00:57 left",
        "Parts: 31 of 40 sentences, 0.939/s, about 00:09 left",
        "Parts: 40 sentences in 00:42",
    ]


def test_a_resumed_part_does_not_count_for_the_rate(lines, clock, caplog):
    work(clock, Progress(100, desc="Steps", unit="steps", initial=50), 10, seconds=1, loss=0.25)
    assert lines()[0] == "Steps: 53 of 100 steps, loss 0.25, 1/s, about 00:47 left"
    fields = caplog.records[0].fields
    assert fields["loss"] == 0.25
    assert (fields["done"], fields["total"]) == (53, 100)
    assert (fields["rate"], fields["seconds_left"]) == (1.0, 47.0)


def test_nothing_is_shown_unless_asked_for(lines, clock, capsys):
    work(clock, Progress(100, desc="Steps", show=False), 100, seconds=10)
    assert (lines(), capsys.readouterr()) == ([], ("", ""))


def test_scripts_and_notebooks_have_bars(clock, caplog, capsys, monkeypatch):
    caplog.set_level(logging.INFO)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    work(clock, Progress(1000, desc="Encoding"), 10, seconds=1)
    shown = capsys.readouterr().err
    assert "10/1000" in shown
    assert "Encoding: 3 of 1,000 sentences, 1/s, about 16:37 left; faster: a GPU" in shown
    assert caplog.records == []


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr(module, "FIRST", 0.0)
    monkeypatch.setattr(module, "EVERY", 0.0)


def test_train_logs_steps_loss_rate_and_time_left(run_cli, at_once, tmp_path, corpus_file, backbone):
    given = [corpus_file, *flags(**SMALL, backbone=backbone), "--only-base"]
    code, _, err = run_cli("train", *given, "-o", tmp_path / "run")
    assert code == 0, err
    pattern = r"Stage 1 \(simcse\): 3 of 6 steps, loss [\d.e+-]+, [\d.]+/s, about [\d:]+ left"
    assert re.search(pattern, err), err


@pytest.mark.filterwarnings("default::rankencoder.errors.ReferenceWarning")
@pytest.mark.parametrize("command", ["build", "encode", "index", "evaluate"])
def test_json_lines_and_nothing_else(
    run_cli, at_once, command, tmp_path, tiny_folder, corpus_file, monkeypatch
):
    monkeypatch.setenv("RANKENCODER_CACHE", str(tmp_path / "cache"))
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"{n % 6}\tThe cat sees {n}\tThe dog likes {n * 7}\n" for n in range(40)))
    given = {
        "build": [tiny_folder, corpus_file, "-o", tmp_path / "model", "--size", "900"],
        "encode": [tiny_folder, corpus_file, "-o", tmp_path / "vectors.npy"],
        "index": [tiny_folder, corpus_file, "-o", tmp_path / "index"],
        "evaluate": [tiny_folder, "--dev", pairs, "-o", tmp_path / "results", "--task", "sts"],
    }[command]
    code, _, err = run_cli(command, *given, "--log-json")
    assert code == 0, err
    rows = [json.loads(line) for line in err.splitlines()]
    assert (rows[0]["command"], rows[0]["given"]["output"]) == (command, str(given[given.index("-o") + 1]))
    assert all({"time", "level", "message"} <= row.keys() for row in rows)
    done = [row for row in rows if row.get("unit") == "sentences"]
    assert done[-1]["done"] > 0
    assert done[-1]["rate"] > 0
    assert done[-1]["total"] == done[-1]["done"]
    if command == "build":  # 900 sentences are few, which is a warning
        assert {row["level"] for row in rows} == {"info", "warning"}
        assert done[-1]["total"] == 900


def test_an_error_is_a_json_line_too(run_cli, tmp_path, tiny_folder):
    code, _, err = run_cli("encode", tiny_folder, tmp_path / "no.txt", "-o", tmp_path / "v.npy", "--log-json")
    start, row = map(json.loads, err.splitlines())
    assert start["command"] == "encode"
    assert (code, row["level"]) == (2, "error")
    assert "no.txt" in row["message"]


@pytest.mark.parametrize(
    ("command", "given", "line"),
    [
        ("build", ["E", "no.txt", "-o", "m"], "encoder E, corpus no.txt, output m"),
        ("index", ["E", "no.txt", "--id", "n", "-o", "i"], "model E, corpus no.txt, output i, id n"),
        ("encode", ["E", "-o", "v.npy", "no.txt"], "model E, source no.txt, output v.npy"),
        ("evaluate", ["A", "B", "--task", "sts", "-o", "r"], "models A B, task sts, output r"),
        ("distill", ["no.txt", "--teacher", "A", "-o", "d"], "corpus no.txt, output d, teacher A"),
        ("label", ["E", "no.txt", "-o", "l.tsv"], "model E, corpus no.txt, output l.tsv"),
        ("train", ["no.txt", "--seed", "7", "-o", "r"], "corpus no.txt, output r, seed 7"),
    ],
)
def test_the_log_begins_with_what_was_asked_for(command, given, line, capsys, monkeypatch):
    from typer.core import TyperCommand

    from rankencoder.cli import main

    monkeypatch.setattr("sys.argv", ["rankencoder", command, *given])
    monkeypatch.setattr(TyperCommand, "invoke", lambda *_: None)  # nothing is done, nothing else is logged
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code in (0, None)
    first, rest = capsys.readouterr().err.split("\n", 1)
    assert (first.split(": ")[0], rest) == (f"started {command}", "")
    assert {*first.split(": ")[1].split(", ")} == {*line.split(", ")}


def test_a_terminal_has_a_bar(tmp_path, tiny_folder, corpus_file):
    """In a process whose error output is a terminal."""
    words = ["encode", tiny_folder, corpus_file, "-o", tmp_path / "vectors.npy"]
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 24, 100, 0, 0))
    process = subprocess.Popen([sys.executable, "-m", "rankencoder", *map(str, words)], stderr=theirs)
    os.close(theirs)
    shown = b""
    try:
        while part := os.read(ours, 4096):
            shown += part
    except OSError:  # the other side is closed
        pass
    assert process.wait() == 0, shown
    assert re.search(rb"Encoding: .*\d+/\d+", shown), shown
    assert b"\r" in shown


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        ("train", "; to resume, run rankencoder train --resume -o '/tmp/a run'"),
        ("reproduce", "; to resume, run the same command again"),
        ("demo", ""),  # its folder is temporary
    ],
)
def test_the_hint_after_ctrl_c_names_a_command_that_resumes(command, hint, run_cli, monkeypatch):
    from typer.core import TyperCommand

    def stop(*_):
        raise Interrupted("/tmp/a run")

    monkeypatch.setattr(TyperCommand, "invoke", stop)
    code, _, err = run_cli(command, *(["simcse"] if command == "reproduce" else []))
    assert (code, err) == (130, f"error: interrupted{hint}\n")
