import json

import pytest

from rankencoder.errors import InputError
from rankencoder.io.manifest import check_manifest, write_manifest


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "encoder").mkdir()
    (tmp_path / "encoder" / "weights").write_bytes(b"12345")
    (tmp_path / "config.json").write_text("{}")
    write_manifest(tmp_path)
    return tmp_path


def test_a_whole_folder(folder):
    assert check_manifest(folder)
    (folder / "README.md").write_text("added later")
    assert check_manifest(folder)
    (folder / "manifest.json").unlink()
    assert not check_manifest(folder)  # of an earlier version


@pytest.mark.parametrize("content", [b"1234", b"12346", None])
def test_a_damaged_folder(folder, content):
    path = folder / "encoder" / "weights"
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match="weights is (missing|damaged).*build it again"):
        check_manifest(folder)
    with pytest.raises(InputError, match="delete it"):
        check_manifest(folder, advice="delete it")
    assert check_manifest(folder, skip="encoder")


def test_chosen_files(folder):
    write_manifest(folder, [folder / "config.json"])
    (folder / "encoder" / "weights").unlink()
    assert check_manifest(folder)


@pytest.mark.parametrize("files", [None, 3, {"config.json": 3}, {"config.json": {"size": 2}}])
def test_a_damaged_manifest(folder, files):
    (folder / "manifest.json").write_text(json.dumps({"files": files}))
    with pytest.raises(InputError, match="damaged"):
        check_manifest(folder)
