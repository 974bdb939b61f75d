import os
import signal
import subprocess
import sys

import pytest

from rankencoder.errors import InputError
from rankencoder.io.parts import Parts, clear_parts
from rankencoder.io.storage import new_file, new_folder, read_json, write_errors_named, write_json


def names(folder):
    return sorted(p.name for p in folder.iterdir())


def test_a_new_folder_appears_whole_or_not_at_all(tmp_path):
    with new_folder(tmp_path / "deep" / "er" / "x") as new:
        (new / "a").write_text("1")
        assert not (tmp_path / "deep" / "er" / "x").exists()
    assert names(tmp_path / "deep" / "er") == ["x"]
    with pytest.raises(RuntimeError), new_folder(tmp_path / "y") as new:
        (new / "a").write_text("1")
        raise RuntimeError
    assert names(tmp_path) == ["deep"]


def test_replacing_a_folder(tmp_path):
    for content in ("1", "2"):
        with new_folder(tmp_path / "x", overwrite=True) as new:
            (new / content).write_text(content)
            (new / "reference.json").write_text("{}")
    assert names(tmp_path) == ["x"]
    assert names(tmp_path / "x") == ["2", "reference.json"]
    with pytest.raises(InputError, match="already exists"), new_folder(tmp_path / "x"):
        pass


def test_folders_of_others_are_never_overwritten(tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter").write_text("years of work")
    with (
        pytest.raises(InputError, match="is not from rankencoder"),
        new_folder(tmp_path / "thesis", overwrite=True),
    ):
        pass
    assert (tmp_path / "thesis" / "chapter").read_text() == "years of work"
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="is a file"), new_folder(tmp_path / "file", overwrite=True):
        pass
    (tmp_path / "empty").mkdir()
    with new_folder(tmp_path / "empty", overwrite=True) as new:
        (new / "a").write_text("1")
    assert names(tmp_path) == ["empty", "file", "thesis"]


def test_links_are_followed(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "reference.json").write_text("{}")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with new_folder(tmp_path / "link", overwrite=True) as new:
        (new / "a").write_text("1")
    assert names(tmp_path) == ["link", "real"]
    assert names(tmp_path / "link") == ["a"]


def test_files_can_be_read_by_others(tmp_path):
    with new_folder(tmp_path / "x") as new:
        (new / "a").write_text("1")
        (new / "a").chmod(0o600)
    os.umask(umask := os.umask(0))
    assert (tmp_path / "x" / "a").stat().st_mode & 0o777 == 0o666 & ~umask


def test_new_file(tmp_path):
    (tmp_path / "f").write_text("old")
    with pytest.raises(RuntimeError), new_file(tmp_path / "f") as new:
        new.write_text("half")
        raise RuntimeError
    assert (tmp_path / "f").read_text() == "old"
    with new_file(tmp_path / "f") as new:
        new.write_text("new")
    assert (tmp_path / "f").read_text() == "new"
    assert names(tmp_path) == ["f"]


def test_an_interrupted_replacement_is_told_of(tmp_path):
    with new_folder(tmp_path / "x") as new:
        write_json(new / "a.json", {})
    (tmp_path / "x").rename(tmp_path / ".x.previous")
    with pytest.raises(InputError, match=r"rename .*\.x\.previous to .*x"):
        read_json(tmp_path / "x" / "a.json")


def test_kill_minus_nine_while_writing(tmp_path):
    """A killed process leaves the old folder in place, and the next save works."""
    with new_folder(tmp_path / "x") as new:
        (new / "reference.json").write_text("old")
    code = f"""
import time
from rankencoder.io.storage import new_folder
with new_folder({str(tmp_path / "x")!r}, overwrite=True) as new:
    (new / "half").write_text("half")
    print("ready", flush=True)
    time.sleep(60)
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert names(tmp_path / "x") == ["reference.json"]
    assert len(names(tmp_path)) == 2
    with new_folder(tmp_path / "x", overwrite=True) as new:
        (new / "new").write_text("new")
    assert names(tmp_path / "x") == ["new"]
    assert names(tmp_path) == ["x"]


def finished(parts):
    return [number for number in range(3) if parts.is_finished(number)]


def test_parts_of_other_work_are_dropped(tmp_path):
    parts = Parts(tmp_path / "t", {"a": 1})
    for number in range(3):
        with parts.write(number) as path:
            path.write_text(str(number))
    parts.path(1).unlink()
    assert finished(Parts(tmp_path / "t", {"a": 1})) == [0, 2]
    with pytest.warns(UserWarning, match="unfinished parts of .* are deleted"):
        assert finished(Parts(tmp_path / "t", {"a": 2})) == []
    assert names(tmp_path) == []  # work that never wrote a part leaves nothing behind
    with parts.write(0) as path:
        path.write_text("0")
    clear_parts(tmp_path / "t")
    assert names(tmp_path) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable(tmp_path):
    (tmp_path / "a.json").write_text("{}")
    (tmp_path / "a.json").chmod(0)
    with pytest.raises(PermissionError):
        read_json(tmp_path / "a.json")


def test_sync_is_not_forgotten(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(os.readlink(f"/proc/self/fd/{handle}")))
    with new_folder(tmp_path / "x") as new:
        (new / "a").write_text("1")
        inside = str(new / "a")
    assert inside in synced


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: b"X" + data[1:]])
def test_a_damaged_part_is_not_finished(tmp_path, damage):
    parts = Parts(tmp_path / "t", {})
    for number in range(2):
        with parts.write(number) as path:
            path.write_text("abc")
    assert finished(parts) == [0, 1]
    parts.path(1).write_bytes(damage(parts.path(1).read_bytes()))
    assert finished(Parts(tmp_path / "t", {})) == [0]


def test_what_cannot_be_written_is_named_whichever_library_says_so(tmp_path):
    folder = tmp_path / "checkpoint-2"
    with pytest.raises(OSError, match="cannot write .*checkpoint-2"), write_errors_named(folder):
        raise RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 79872 vs 79764")
    with pytest.raises(RuntimeError, match="shapes"), write_errors_named(tmp_path / "x"):
        raise RuntimeError("shapes do not fit")


def test_permissions_are_those_of_any_new_file(tmp_path):
    before = os.umask(0o027)
    try:
        with new_file(tmp_path / "file") as path:
            path.touch(0o600)
        with new_folder(tmp_path / "folder") as new:
            (new / "inside").touch(0o600)
    finally:
        os.umask(before)
    for name in ("file", "folder/inside"):
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o640
