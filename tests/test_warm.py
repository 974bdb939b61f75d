"""The stand-in for subprocess in these tests does what subprocess does."""

import os
import signal
import subprocess
import sys

import pytest
import warm


@pytest.mark.parametrize("code", ["print('a')", "import sys; sys.exit(3)", "1 / 0", "print('\\xe4')"])
def test_it_ends_as_a_new_process_does(code, tmp_path):
    command = [sys.executable, "-c", code, "more"]
    given = {"capture_output": True, "text": True, "cwd": tmp_path}
    given["env"] = {**os.environ, "PYTHONIOENCODING": "ascii:replace"}
    found, expected = warm.run(command, **given), subprocess.run(command, **given)
    assert (found.returncode, found.stdout) == (expected.returncode, expected.stdout)
    assert found.stderr.splitlines()[-1:] == expected.stderr.splitlines()[-1:]


def test_scripts_and_modules(tmp_path):
    (tmp_path / "neighbor.py").write_text("NAME = 'b'")
    (tmp_path / "script.py").write_text("import sys, neighbor; print(neighbor.NAME, *sys.argv[1:])")
    done = warm.run([sys.executable, str(tmp_path / "script.py"), "c"], capture_output=True, text=True)
    assert done.stdout == "b c\n", done.stderr
    done = warm.run([sys.executable, "-m", "neighbor"], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_signals_reach_it(number, tmp_path):
    code = f"import time; open({str(tmp_path / 'begun')!r}, 'w').close(); time.sleep(600)"
    process = warm.Popen([sys.executable, "-c", code], stderr=warm.PIPE, text=True)
    while not (tmp_path / "begun").exists():
        assert process.poll() is None
    process.send_signal(number)
    _, err = process.communicate()
    assert process.returncode == -number
    assert ("KeyboardInterrupt" in err) == (number == signal.SIGINT)


def test_it_is_a_process_of_its_own_with_everything_imported():
    code = "import os, sys; print(os.getpid(), 'torch' in sys.modules)"
    process = warm.Popen([sys.executable, "-c", code], stdout=warm.PIPE, text=True)
    assert process.communicate()[0] == f"{process.pid} True\n"
