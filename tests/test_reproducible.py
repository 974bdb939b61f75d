"""The same seed on the same CPU gives the same bits, in processes that order their sets differently.

(That another seed gives other weights, and that interrupted runs end with the same ones: test_training.py.)
"""

import json
import sys
from pathlib import Path

import pytest
import warm
from reproducible_run import checksums, make

SCRIPT = Path(__file__).with_name("reproducible_run.py")
MADE = ("compact/", "linear/", "run/base/", "run/encoder/", "run/rankencoder/", "rows", "vectors")


@pytest.mark.filterwarnings("ignore")
def test_two_processes_make_the_same_bits(tmp_path, tiny_folder, backbone, corpus_file):
    """Here, and in a process that hashes strings in another way."""
    here, there = tmp_path / "here", tmp_path / "there"
    given = (tiny_folder, backbone, corpus_file)
    for folder in (here, there):
        folder.mkdir()
    process = warm.Popen(
        [sys.executable, SCRIPT, there, *given], stdout=warm.PIPE, stderr=warm.PIPE, text=True
    )
    make(here, *given)
    out, err = process.communicate()
    assert process.returncode == 0, err
    one, (other_hash, two) = checksums(here), json.loads(out)
    assert other_hash != hash("a sentence")
    assert {name for name in one if one[name] != two.get(name)} == set()
    assert one.keys() == two.keys()
    for start in MADE:
        assert any(name.startswith(start) for name in one), start
