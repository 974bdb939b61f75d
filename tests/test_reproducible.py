"""The same seed on the same CPU gives the same bits, in new processes that order their sets differently.

(That another seed gives other weights, and that interrupted runs end with the same ones: test_training.py.)
"""

import json
import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).with_name("reproducible_run.py")
MADE = ("compact/", "linear/", "run/base/", "run/encoder/", "run/rankencoder/", "rows", "vectors")


def test_two_processes_make_the_same_bits(tmp_path, tiny_folder, backbone, corpus_file):
    made = []
    for hashing in ("1", "2"):
        folder = tmp_path / hashing
        folder.mkdir()
        given = [sys.executable, SCRIPT, folder, tiny_folder, backbone, corpus_file]
        environment = {**os.environ, "PYTHONHASHSEED": hashing}
        made.append(
            subprocess.Popen(given, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, env=environment)
        )
    one, two = (json.loads(process.communicate(timeout=300)[0]) for process in made)
    assert [process.returncode for process in made] == [0, 0]
    assert {name for name in one if one[name] != two.get(name)} == set()
    assert one.keys() == two.keys()
    for start in MADE:
        assert any(name.startswith(start) for name in one), start
