"""``rankencoder label`` in a pseudo-terminal, one key at a time, and without a terminal."""

import io
import os
import pty
import re
import select
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from rankencoder.io.pairs import read_scored_pairs
from rankencoder.labels.sitting import Sitting
from rankencoder.search.records import draw_pool

SOURCE = Path(__file__).parents[1] / "src"
COLOR = re.compile(r"\x1b\[[\d;]*m")


class Terminal:
    """A command in a terminal of its own; everything waits for what the terminal shows."""

    def __init__(self, *command, **environment):
        self.master, slave = pty.openpty()
        known = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
        env = {**known, "PYTHONPATH": str(SOURCE), "TERM": "xterm-256color", "COLUMNS": "100", **environment}
        words = [sys.executable, "-m", "rankencoder", *map(str, command)]
        self.process = subprocess.Popen(words, stdin=slave, stdout=slave, stderr=slave, env=env)
        os.close(slave)
        self.output, self.seen = "", 0

    def see(self, text):
        """Wait until a text is shown after what was seen before, and return all up to it, without colors."""
        start, end = self.seen, time.monotonic() + 120
        while text not in self.output[start:]:
            assert time.monotonic() < end, self.output
            assert self._read(), self.output
        self.seen = self.output.index(text, start) + len(text)
        return COLOR.sub("", self.output[start : self.seen])

    def _read(self):
        if not select.select([self.master], [], [], 1)[0]:
            return True
        try:
            part = os.read(self.master, 65536)
        except OSError:  # the process has ended
            return False
        self.output += part.decode()
        return bool(part)

    def press(self, key):
        """Press a key, once the command waits for one: it drops what was typed before."""
        end = time.monotonic() + 120
        while termios.tcgetattr(self.master)[3] & termios.ICANON:
            assert time.monotonic() < end, self.output
            time.sleep(0.01)
        os.write(self.master, key.encode())

    def end(self):
        """Wait for the end, and return the exit code."""
        while self._read():
            pass
        return self.process.wait(120)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.master)


@pytest.fixture(scope="module")
def pool(tiny_saved, corpus_file):
    return draw_pool(str(tiny_saved), corpus_file)


@pytest.fixture
def labels(pool, tmp_path):
    """A sitting without answers: one that is begun needs no model, so that the command starts quickly."""
    with Sitting(tmp_path / "labels.tsv", pool) as sitting:
        return sitting.path


@pytest.fixture
def open_terminal(labels, tiny_saved, corpus_file):
    opened = []

    def open_(*options, **environment):
        opened.append(Terminal("label", tiny_saved, corpus_file, "-o", labels, *options, **environment))
        return opened[-1]

    yield open_
    for terminal in opened:
        terminal.__exit__()


def given(labels):
    return [int(pair.score) for pair in read_scored_pairs(labels, check=False)]


def test_keys_answer_at_once_without_enter(open_terminal, labels, tiny_saved):
    terminal = open_terminal()
    asked = Sitting.resume(labels).question()
    terminal.see("1 of 120")
    terminal.see(f"A  {asked.a}")
    terminal.see(f"B  {asked.b}")
    for number, key in enumerate("ynn", start=2):
        terminal.press(key)
        terminal.see(f"{number} of 120")
        assert len(given(labels)) == number - 1  # on disk before the next question is asked
    assert given(labels) == [1, 0, 0]
    terminal.press("u")
    terminal.see("3 of 120")
    assert given(labels) == [1, 0]
    before = Sitting.resume(labels).question()
    terminal.press("s")
    terminal.see("3 of 120")
    assert [one.a for one in Sitting.resume(labels).skipped] == [before.a]
    terminal.press("x")
    terminal.see("'x' is not an answer")
    terminal.press("yn")  # two at once are none
    terminal.see("'yn' is not an answer")
    assert given(labels) == [1, 0]
    terminal.press("q")
    assert terminal.end() == 0
    told = terminal.output
    assert "run the same command again" in told
    assert f"next: rankencoder threshold {tiny_saved} {labels} --precision 0.9" in told.replace("\r\n", "\n")


def test_a_sitting_is_resumed_and_summed_up(open_terminal, labels):
    with Sitting.resume(labels) as sitting:
        for number in range(9):
            sitting.answer(number % 2 == 0)
    terminal = open_terminal("--pairs", 11)
    terminal.see("10 of 11")
    terminal.press("y")
    shown = " ".join(terminal.see("11 of 11").split())
    assert "10 answers." in shown
    assert "About 30 more answers halve the interval" in shown
    terminal.press("N")
    assert terminal.end() == 0
    assert given(labels) == [1, 0, 1, 0, 1, 0, 1, 0, 1, 1, 0]
    assert "run the same command" not in terminal.output


@pytest.mark.parametrize(
    ("environment", "allowed"),
    [({"NO_COLOR": "1"}, {"\x1b[2m", "\x1b[0m"}), ({"TERM": "dumb"}, set())],
    ids=["NO_COLOR", "dumb"],
)
def test_no_colors_where_none_are_wanted(open_terminal, environment, allowed):
    terminal = open_terminal("--pairs", 1, **environment)
    terminal.see("1 of 1")
    terminal.press("y")
    assert terminal.end() == 0
    assert set(COLOR.findall(terminal.output)) <= allowed
    assert "\x1b" not in COLOR.sub("", terminal.output)


@pytest.mark.parametrize(("key", "code"), [("\x03", 130), ("\x04", 0)], ids=["Ctrl-C", "Ctrl-D"])
def test_what_was_answered_stays_when_it_is_interrupted(open_terminal, labels, key, code):
    terminal = open_terminal()
    for number, answer in enumerate("ny", start=1):
        terminal.see(f"{number} of 120")
        terminal.press(answer)
    terminal.see("3 of 120")
    terminal.press(key)
    assert terminal.end() == code
    assert given(labels) == [0, 1]
    assert "Traceback" not in terminal.output
    assert "unexpected" not in terminal.output
    if code:
        assert "interrupted; to resume, run the same command again" in terminal.output
    with Sitting.resume(labels) as sitting:  # the lock is free again
        assert len(sitting.given) == 2


def test_a_second_terminal_waits_its_turn(open_terminal, labels, run_cli, tiny_saved, corpus_file):
    terminal = open_terminal()
    terminal.see("1 of 120")
    code, _, said = run_cli("label", tiny_saved, corpus_file, "-o", labels)
    assert (code, said.count("\n")) == (2, 1)
    assert "labels.tsv is locked by another labeler" in said
    assert "--merge it" in said
    terminal.press("y")
    terminal.see("2 of 120")
    assert given(labels) == [1]


def test_a_missing_file_to_merge_is_told_before_the_work(run_cli, tiny_saved, corpus_file, tmp_path):
    labels = tmp_path / "labels.tsv"
    code, out, err = run_cli("label", tiny_saved, corpus_file, "-o", labels, "--merge", "nothing.tsv")
    assert (code, out, err) == (2, "", "error: no such file: nothing.tsv\n")
    assert not any(tmp_path.glob("labels*"))


def test_without_a_terminal_answers_are_lines(run_cli, tiny_saved, corpus_file, tmp_path, monkeypatch):
    path = tmp_path / "new.tsv"
    monkeypatch.setattr("sys.stdin", io.StringIO("yes\nno\n\nmaybe\ns\nn\nu\n"))
    code, out, said = run_cli("label", tiny_saved, corpus_file, "-o", path)
    assert code == 0
    assert "'m' is not an answer" in said
    assert "\x1b" not in out
    assert f"{path}: 2 answers" in out
    assert given(path) == [1, 0]
    monkeypatch.setattr("sys.stdin", io.StringIO("y\ny\ny\n"))
    code, out, _ = run_cli("label", tiny_saved, corpus_file, "-o", path, "--pairs", 4)
    assert (code, given(path)) == (0, [1, 0, 1, 1])
    assert "3 of 4" in out
    assert "1 of 4" not in out


def test_a_check_is_undone_before_the_answer_that_came_earlier(labels):
    with Sitting.resume(labels) as sitting:
        for number in range(15):
            sitting.answer(number % 2 == 0)
        check = sitting.question()
        assert check.bin is None
        sitting.answer(True)
        assert sitting.doubts() == ["1 of 1 check questions were answered wrongly"]
        assert sitting.undo()
        assert sitting.question() is check
        assert (len(sitting.given), sitting.doubts()) == (15, [])
        assert sitting.undo()
        assert len(sitting.given) == 14
    assert Sitting.resume(labels).checks == []


def test_answers_of_another_process_are_read_before_one_writes(labels):
    mine, theirs = Sitting.resume(labels), Sitting.resume(labels)
    with theirs:
        theirs.answer(True)
        theirs.answer(False)
    with mine:
        mine.answer(True)
    assert given(labels) == [1, 0, 1]
    with theirs:
        assert theirs.question() is not None
        theirs.undo()
    assert given(labels) == [1, 0]
