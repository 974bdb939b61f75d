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

from rankencoder.errors import InputError
from rankencoder.evaluation.public_data import PARTS, data_folder, fetch_data, unpack_senteval
from rankencoder.evaluation.sts_data import WHOLE_SICK
from rankencoder.evaluation.sts_sources import HUB_SETS, read_sts

SIMCSE = "princeton-nlp/datasets-for-simcse"
STSB = "x\tx\tx\t1\t4.5\ta b\tc\nx\tx\tx\t2\t0.5\td\te\n"
FILES = {
    "STS/STSBenchmark/sts-dev.csv": STSB,
    "SICK/SICK_trial.txt": "header\n",
    "MR/rt-polarity.pos": "good\n",
}
WIKI = b"A sentence of Wikipedia.\nAnother one.\n"


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
def hub():
    server = HubServer()
    server.add(SIMCSE, "senteval.tar", tar_of(FILES), large=True)
    server.add(SIMCSE, "wiki1m_for_simcse.txt", WIKI, large=True)
    yield server
    server.close()


@pytest.fixture
def start(hub, tmp_path):
    """Start ``rankencoder data`` in a process of its own: the hub's address is read at the import."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
    environment |= {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "hf"), "OMP_NUM_THREADS": "1"}
    environment["RANKENCODER_DATA"] = str(tmp_path / "data")
    code = "from rankencoder.cli.data import data; data(prog_name='rankencoder data')"

    def run(*arguments):
        command = [sys.executable, "-c", code, *map(str, arguments)]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, env=environment, stdout=pipe, stderr=pipe, text=True)

    return run


@pytest.fixture
def data(start):
    def run(*arguments):
        process = start(*arguments)
        out, err = process.communicate()
        return process.returncode, out, err

    return run


def files_in(folder):
    return sorted(
        str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and path.name != ".lock"
    )


def test_fetch_repeat_and_mend(hub, data, tmp_path):
    folder = tmp_path / "data"
    code, out, err = data("fetch")
    assert (code, out) == (0, f"{folder}: senteval, whole\n"), err
    assert err == "fetching senteval.tar\n"
    assert files_in(folder / "senteval") == sorted(
        ["manifest.json", *(f"downstream/{name}" for name in FILES)]
    )
    assert not list(folder.glob(".downloads*"))
    (stsb,) = read_sts(folder, ["STS-B dev"])
    assert stsb.pairs == [("a b", "c", 4.5), ("d", "e", 0.5)]

    hub.log.clear()
    code, out, err = data("fetch", "senteval", "--json")
    assert (code, json.loads(out), err) == (0, {"folder": str(folder), "data": ["senteval"]}, "")
    assert hub.log == []

    damaged = folder / "senteval/downstream/MR/rt-polarity.pos"
    damaged.write_text("bad\n")
    code, _, err = data("fetch")
    assert code == 0
    assert f"{damaged} is damaged" in err
    assert hub.downloads() == ["senteval.tar"]
    damaged.unlink()
    assert "rt-polarity.pos is missing" in data("fetch")[2]
    assert damaged.read_text() == FILES["MR/rt-polarity.pos"]


def test_other_folder_and_plain_file(data, tmp_path):
    code, out, err = data("fetch", "wiki1m", "senteval", "-o", tmp_path / "here")
    assert code == 0, err
    assert out == f"{tmp_path / 'here'}: wiki1m, senteval, whole\n"
    assert (tmp_path / "here/wiki1m/wiki1m_for_simcse.txt").read_bytes() == WIKI
    assert (tmp_path / "here/senteval/downstream/STS").is_dir()
    assert not (tmp_path / "data").exists()


def test_the_sets_of_mteb(hub, data, tmp_path, monkeypatch):
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "datasets-cache")
    rows = [{"sentence1": "a", "sentence2": "b", "score": score} for score in (1.0, 2.0)]
    content = "\n".join(map(json.dumps, rows)).encode()
    for repository in {hub_set.repository for hub_set in HUB_SETS.values()}:
        hub.add(repository, "test.jsonl", content, large=True)
        hub.add(repository, "README.md", b"---\nlanguage:\n- en\n---\n", large=False)
        hub.add(repository, "script.py", b"raise SystemExit", large=False)
    hub.add("mteb/stsbenchmark-sts", "validation.jsonl", content, large=False)
    code, _, err = data("fetch", "mteb")
    assert code == 0, err
    revisions = {
        path.split("/")[6].partition("?")[0] for _, path, _ in hub.log if path.startswith("/api/datasets/")
    }
    assert revisions == {hub_set.revision for hub_set in HUB_SETS.values()}
    assert files_in(tmp_path / "data/mteb/sts16-sts") == ["README.md", "manifest.json", "test.jsonl"]
    sets = read_sts(tmp_path / "data")
    assert [s.name for s in sets] == list(HUB_SETS)
    assert all(len(s.pairs) == 2 for s in sets)
    assert WHOLE_SICK in HUB_SETS


@pytest.mark.parametrize(
    ("repository", "name", "large", "what"),
    [(SIMCSE, "senteval.tar", True, "senteval"), ("mteb/sts12-sts", "test.jsonl", False, "mteb")],
)
def test_a_wrong_checksum_is_refused(hub, data, tmp_path, repository, name, large, what):
    hub.add(repository, name, tar_of(FILES), large=large)
    hub.lies[name] = "a" * (64 if large else 40)
    code, out, err = data("fetch", what)
    assert (code, out) == (2, "")
    assert f"{name} of {PARTS[what][0].repository} arrived damaged: its checksum is" in err
    assert f"the hub's {hub.lies[name]}; nothing was installed" in err
    assert files_in(tmp_path / "data") == []
    if what == "senteval":  # and once the hub is mended, all is well
        hub.lies.clear()
        assert data("fetch")[0] == 0


def link(kind):
    member = tarfile.TarInfo("STS/link")
    member.type, member.linkname = kind, "/etc/passwd"
    return member


@pytest.mark.parametrize(
    ("archive", "message"),
    [
        (tar_of({"../evil": "x", **FILES}), "outside the destination"),
        (tar_of(FILES, link(tarfile.SYMTYPE)), "STS/link in it is no plain file"),
        (tar_of(FILES, link(tarfile.LNKTYPE)), "STS/link in it is no plain file"),
        (tar_of(FILES, link(tarfile.FIFOTYPE)), "STS/link in it is no plain file"),
        (tar_of({"MR/rt-polarity.pos": "x"}), "is not SentEval's data: it holds no folder STS"),
        (tar_of(FILES)[:700], "is not unpacked: unexpected end of data"),
        (b"no archive", "is not unpacked: .* is not a compressed or uncompressed tar"),
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
    assert err.splitlines()[-1].startswith("error: senteval.tar is not unpacked: ")
    assert files_in(tmp_path / "data") == []
    assert not list(tmp_path.rglob("evil"))


def test_archives_of_other_shapes(tmp_path):
    archive = tmp_path / "senteval.tar"
    for i, top in enumerate(("", "./", "downstream/", "SentEval/data/downstream/")):
        archive.write_bytes(tar_of({f"{top}{name}": text for name, text in FILES.items()}))
        unpack_senteval(archive, tmp_path / f"target-{i}")
        assert files_in(tmp_path / f"target-{i}") == sorted(FILES)


def test_no_hub_within_reach(hub, data, tmp_path):
    hub.close()
    code, out, err = data("fetch", "senteval", "wiki1m")
    assert (code, out) == (2, "")
    error = err.splitlines()[-1]
    folder, address = tmp_path / "data", f"{hub.url}/datasets/{SIMCSE}/resolve/main"
    assert error.startswith("error: cannot fetch from the hub (")
    assert f"download {address}/senteval.tar and unpack it into {folder}/senteval/downstream" in error
    assert f"and {address}/wiki1m_for_simcse.txt into {folder}/wiki1m;" in error
    assert error.endswith("or evaluate with a copy that you have")
    _, _, err = data("fetch", "mteb")
    assert f"{hub.url}/datasets/mteb/sts12-sts/tree/a0d554a64d88156834ff5ae9920b964011b16384" in err
    assert f"into {folder}/mteb/sickr-sts;" in err


def test_no_such_file_on_the_hub(hub, data):
    del hub.files[SIMCSE, "senteval.tar"]
    code, _, err = data("fetch")
    assert code == 2
    assert "error: cannot fetch from the hub (" in err
    assert "Traceback" not in err


MANY = b"One of many sentences.\n" * 600_000  # the hub's library writes 10 MB at a time


def test_a_lost_connection_is_taken_up_again(hub, data, tmp_path):
    hub.add(SIMCSE, "wiki1m_for_simcse.txt", MANY, large=True)
    hub.stops_after, hub.hangs = 12_000_000, False
    code, _, err = data("fetch", "wiki1m")
    assert (code, err) == (0, "fetching wiki1m_for_simcse.txt\n")
    assert [asked for _, asked in hub.contents()] == [None, f"bytes={10 * 2**20}-"]
    assert (tmp_path / "data/wiki1m/wiki1m_for_simcse.txt").read_bytes() == MANY


def test_an_interrupted_call_can_be_repeated(hub, start, data, tmp_path):
    assert data("fetch")[0] == 0
    hub.add(SIMCSE, "wiki1m_for_simcse.txt", MANY, large=True)
    hub.stops_after = 12_000_000
    process = start("fetch", "senteval", "wiki1m")
    while not any(path.stat().st_size >= 10 * 2**20 for path in tmp_path.rglob("*.incomplete")):
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130
    assert err.splitlines()[-1] == "error: interrupted; the same command fetches what is missing"
    assert not (tmp_path / "data/wiki1m").exists()
    hub.stops_after = None
    hub.log.clear()
    assert data("fetch", "senteval", "wiki1m")[0] == 0
    assert hub.downloads() == ["wiki1m_for_simcse.txt"]
    assert (tmp_path / "data/wiki1m/wiki1m_for_simcse.txt").read_bytes() == MANY
    assert not list((tmp_path / "data").glob(".downloads*"))


def test_names_that_lead_out_of_a_data_set(hub, data, tmp_path):
    hub.add("mteb/sts12-sts", "../../evil.jsonl", b"x", large=True)
    code, _, err = data("fetch", "mteb")
    assert code == 2
    assert "error: cannot fetch from the hub (" in err
    assert not list(tmp_path.parent.rglob("evil*"))


def test_nothing_of_others_is_replaced(tmp_path):
    own = tmp_path / "senteval/downstream/STS/notes.txt"
    own.parent.mkdir(parents=True)
    own.write_text("mine")
    with pytest.raises(InputError, match="senteval holds files that were not fetched, .* evaluate with that"):
        fetch_data(["senteval"], tmp_path)
    assert own.read_text() == "mine"


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
