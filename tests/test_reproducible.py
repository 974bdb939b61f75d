"""The same seed on the same CPU gives the same bits, in processes that order their sets differently.

(That another seed gives other weights, and that interrupted runs end with the same ones: test_training.py.)
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from reproducible_run import checksums, make

SCRIPT = Path(__file__).with_name("reproducible_run.py")
MADE = ("compact/", "linear/", "run/base/", "run/encoder/", "run/rankencoder/", "rows", "vectors")


@pytest.mark.filterwarnings("ignore")
def test_two_processes_make_the_same_bits(tmp_path, tiny_folder, backbone, corpus_file):
    """Here, where strings are hashed in a random way, and in a new process, where they are not."""
    here, there = tmp_path / "here", tmp_path / "there"
    given = (tiny_folder, backbone, corpus_file)
    for folder in (here, there):
        folder.mkdir()
    command = [sys.executable, SCRIPT, there, *given]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "PYTHONHASHSEED": "1"},
    ) as process:
        make(here, *given)
        one, two = checksums(here), json.loads(process.communicate()[0])
    assert process.returncode == 0
    assert {name for name in one if one[name] != two.get(name)} == set()
    assert one.keys() == two.keys()
    for start in MADE:
        assert any(name.startswith(start) for name in one), start
