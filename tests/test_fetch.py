import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import time

import pytest
from hub_server import HubServer
from huggingface_hub import constants

from rankencoder.errors import InputError
from rankencoder.evaluation.public_data import fetch_data, unpack_senteval
from rankencoder.evaluation.sts_data import read_sts
from rankencoder.io.storage import data_folder

SIMCSE = "princeton-nlp/datasets-for-simcse"
STSB = "x\tx\tx\t1\t4.5\ta b\tc\nx\tx\tx\t2\t0.5\td\te\n"
FILES = {
    "STS/STSBenchmark/sts-dev.csv": STSB,
    "SICK/SICK_trial.txt": "header\n",
    "MR/rt-polarity.pos": "good\n",
}
WIKI = b"A sentence of Wikipedia.\nAnother one.\n"
MANY = b"One of many sentences.\n" * 600_000  # the hub's library writes 10 MB at a time


def tar_of(files, *members):
    """A tar archive of texts by name, and of further members."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
        for member in members:
            tar.addfile(member)
    return stream.getvalue()


@pytest.fixture
def hub(tmp_path, monkeypatch):
    server = HubServer()
    server.add(SIMCSE, "senteval.tar", tar_of(FILES), large=True)
    server.add(SIMCSE, "wiki1m_for_simcse.txt", WIKI, large=True)
    monkeypatch.setattr(constants, "ENDPOINT", server.url)
    template = f"{server.url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hf/hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setenv("RANKENCODER_DATA", str(tmp_path / "data"))
    yield server
    server.close()


@pytest.fixture
def data(run_cli, hub):
    return lambda *arguments: run_cli("data", *arguments)


def files_in(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_fetch_and_repeat(hub, data, tmp_path):
    folder = tmp_path / "data"
    code, out, err = data("fetch")
    assert (code, out) == (0, f"{folder}: senteval\n"), err
    assert files_in(folder) == sorted(f"senteval/downstream/{name}" for name in FILES)
    (stsb,) = read_sts(folder, ["STS-B dev"])
    assert [pair[:3] for pair in stsb.pairs] == [("a b", "c", 4.5), ("d", "e", 0.5)]
    hub.log.clear()
    code, out, err = data("fetch", "senteval", "--json")
    assert (code, json.loads(out), err) == (0, {"folder": str(folder), "data": ["senteval"]}, "")
    assert hub.log == []


def test_other_folder_and_plain_file(data, tmp_path):
    code, out, err = data("fetch", "wiki1m", "senteval", "-o", tmp_path / "here")
    assert code == 0, err
    assert out == f"{tmp_path / 'here'}: wiki1m, senteval\n"
    assert (tmp_path / "here/wiki1m/wiki1m_for_simcse.txt").read_bytes() == WIKI
    assert (tmp_path / "here/senteval/downstream/STS").is_dir()
    assert not (tmp_path / "data").exists()


def test_a_wrong_checksum_is_refused(hub, data, tmp_path):
    hub.lies["senteval.tar"] = "a" * 64
    code, out, err = data("fetch")
    assert (code, out) == (2, "")
    assert "the download of senteval.tar is damaged" in err
    assert not (tmp_path / "data" / "senteval").exists()
    hub.lies.clear()  # and once the hub is mended, all is well
    assert data("fetch")[0] == 0


def link(kind):
    member = tarfile.TarInfo("STS/link")
    member.type, member.linkname = kind, "/etc/passwd"
    return member


@pytest.mark.parametrize(
    ("archive", "message"),
    [
        (tar_of({"../evil": "x", **FILES}), "outside the destination"),
        (tar_of(FILES, link(tarfile.SYMTYPE)), "'STS/link' is a link to an absolute path"),
        (tar_of(FILES, link(tarfile.LNKTYPE)), "'STS/link' is a link to an absolute path"),
        (tar_of(FILES, link(tarfile.FIFOTYPE)), "'STS/link' is a special file"),
        (tar_of({"MR/rt-polarity.pos": "x"}), "is not SentEval's data: it holds no folder STS"),
        (tar_of(FILES)[:700], "cannot unpack senteval.tar: unexpected end of data"),
        (b"no archive", "cannot unpack senteval.tar: "),
    ],
)
def test_bad_archives_are_refused(tmp_path, archive, message):
    (tmp_path / "a").mkdir()
    (tmp_path / "a/senteval.tar").write_bytes(archive)
    with pytest.raises(InputError, match=message):
        unpack_senteval(tmp_path / "a/senteval.tar", tmp_path / "a/downstream")
    assert not (tmp_path / "a/downstream").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_bad_archive_leaves_nothing(hub, data, tmp_path):
    hub.add(SIMCSE, "senteval.tar", tar_of({**FILES, "../../evil": "x"}), large=True)
    code, _, err = data("fetch")
    assert code == 2
    assert err.startswith("error: cannot unpack senteval.tar: ")
    assert files_in(tmp_path / "data") == []
    assert not list(tmp_path.rglob("evil"))


def test_archives_of_other_shapes(tmp_path):
    archive = tmp_path / "senteval.tar"
    for i, top in enumerate(("", "./", "downstream/", "SentEval/data/downstream/")):
        archive.write_bytes(tar_of({f"{top}{name}": text for name, text in FILES.items()}))
        unpack_senteval(archive, tmp_path / f"target-{i}")
        assert files_in(tmp_path / f"target-{i}") == sorted(FILES)


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("senteval", "senteval.tar and unpack it into {}/downstream"),
        ("wiki1m", "wiki1m_for_simcse.txt into {}"),
    ],
)
def test_no_hub_within_reach(hub, data, tmp_path, name, what):
    hub.close()
    code, out, err = data("fetch", name)
    assert (code, out) == (2, "")
    assert err.splitlines()[-1].startswith("error: cannot fetch from the hub (")
    assert (
        f"download {hub.url}/datasets/{SIMCSE}/resolve/main/{what.format(tmp_path / 'data' / name)};" in err
    )
    assert err.endswith("or evaluate with your own copy\n")


def test_no_such_file_on_the_hub(hub, data):
    del hub.files[SIMCSE, "senteval.tar"]
    code, _, err = data("fetch")
    assert code == 2
    assert err.startswith("error: cannot fetch from the hub (")


def test_a_full_disk_is_not_taken_for_a_lost_network(data, monkeypatch):
    def fail(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("huggingface_hub.hf_hub_download", fail)
    assert data("fetch")[::2] == (2, "error: No space left on device\n")


def test_an_interrupted_call_can_be_repeated(hub, data, tmp_path):
    hub.add(SIMCSE, "wiki1m_for_simcse.txt", MANY, large=True)
    hub.stops_after = 12_000_000
    environment = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
    environment |= {"HF_ENDPOINT": hub.url, "HF_HUB_CACHE": constants.HF_HUB_CACHE}
    code = (  # a shell in the background lets its processes ignore Ctrl-C
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from rankencoder.cli.data import data; data(prog_name='rankencoder data')"
    )
    command = [sys.executable, "-c", code, "fetch", "wiki1m"]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    while not any(path.stat().st_size >= 10 * 2**20 for path in tmp_path.rglob("*.incomplete")):
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130
    assert err.splitlines()[-1] == "error: interrupted"
    assert not (tmp_path / "data/wiki1m").exists()
    hub.stops_after = None
    assert data("fetch", "wiki1m")[0] == 0
    assert files_in(tmp_path / "data") == ["wiki1m/wiki1m_for_simcse.txt"]
    assert (tmp_path / "data/wiki1m/wiki1m_for_simcse.txt").read_bytes() == MANY


def test_nothing_of_others_is_replaced(hub, tmp_path):
    own = tmp_path / "senteval/downstream/STS/notes.txt"
    own.parent.mkdir(parents=True)
    own.write_text("mine")
    fetch_data(["senteval"], tmp_path)
    assert own.read_text() == "mine"
    assert hub.log == []


def test_bad_names(tmp_path):
    with pytest.raises(InputError, match="no data 'sentevl': did you mean 'senteval'"):
        fetch_data(["wiki1m", "sentevl"], tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_where_data_lives(monkeypatch, tmp_path):
    monkeypatch.delenv("RANKENCODER_DATA", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert data_folder() == tmp_path / ".cache/rankencoder/data"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert data_folder() == tmp_path / "cache/rankencoder/data"
    monkeypatch.setenv("RANKENCODER_DATA", "~/mine")
    assert data_folder() == tmp_path / "mine"
