"""A real Ray cluster of two workers on this machine, one of which is killed."""

import json
import os
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from live_server import wait_for

from rankencoder import RankEncoder
from rankencoder.errors import InputError
from rankencoder.scale.cluster import RayCluster
from rankencoder.scale.cluster_encoding import _PieceEncoder, encode_with_ray
from rankencoder.vector_files import encode_file

pytest.importorskip("ray", reason="needs Ray: pip install 'rankencoder[ray]'")
pytest.importorskip("ray.data", reason="needs Ray Data: pip install 'rankencoder[ray]'")

STORE = 80 * 2**20  # bytes of each node's object store


@pytest.fixture(scope="module")
def cluster():
    """Two nodes with one CPU each: the head, and another."""
    from ray.cluster_utils import Cluster

    quick = {
        "health_check_initial_delay_ms": 500,
        "health_check_period_ms": 300,
        "health_check_failure_threshold": 3,
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        node = {"num_cpus": 1, "object_store_memory": STORE}
        head = {**node, "include_dashboard": False, "_system_config": quick}
        made = Cluster(initialize_head=True, head_node_args=head)
        made.add_node(**node)
        yield made
        made.shutdown()


@pytest.fixture
def corpus(tmp_path, sentences):
    """A folder of files of all kinds, and among them lines that cannot be encoded."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    for number in range(6):
        part = sentences[number * 40 : (number + 1) * 40]
        path = folder / f"{number:02d}.txt"
        if number % 3 == 0:
            path.write_text("\n".join(["", *part, "x" * 11_000]))
        elif number % 3 == 1:
            path.with_suffix(".jsonl").write_text("\n".join(json.dumps({"text": text}) for text in part))
        else:
            pq.write_table(pa.table({"text": part}), path.with_suffix(".parquet"), row_group_size=30)
    return folder


def same(a, b):
    """Say whether two tables hold the same sentences, in the same order, and the same vectors."""
    for name in ("source", "line", "text"):
        assert a[name].to_pylist() == b[name].to_pylist()
    return np.allclose(a["vector"].to_pylist(), b["vector"].to_pylist(), atol=1e-5)


class Gated(_PieceEncoder):
    """Encodes one piece, says so by a file, and then waits until a node was killed.

    So both workers are in the middle of their work when that happens, however slow the machine is.
    """

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.gate = Path(self.output.work).parent / "gate"

    def __call__(self, piece):
        (self.gate / f"worker-{os.getpid()}").touch()
        while self.gate.joinpath(f"done-{os.getpid()}").exists() and not self.gate.joinpath("open").exists():
            time.sleep(0.01)
        note = super().__call__(piece)
        (self.gate / f"done-{os.getpid()}").touch()
        return note


def test_one_of_two_workers_is_killed(cluster, tiny_saved, corpus, tmp_path, monkeypatch):
    from ray import cloudpickle

    monkeypatch.setattr("rankencoder.scale.cluster_encoding.PIECE", 20)
    monkeypatch.setattr("rankencoder.scale.cluster_encoding._PieceEncoder", Gated)
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import this file
    plain = encode_file(tiny_saved, corpus, tmp_path / "plain.parquet", skip_invalid=True)
    gate = tmp_path / "gate"
    gate.mkdir()
    finished, over = [], threading.Event()

    def kill():
        """Kill a node when the workers of both nodes have written a piece."""
        while len(list(gate.glob("done-*"))) < 2 and not over.is_set():
            time.sleep(0.01)
        finished.append(len(list((tmp_path / ".vectors.parts").glob("part-*"))))
        cluster.remove_node(*cluster.worker_nodes, allow_graceful=False)
        (gate / "open").touch()

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        with RayCluster(cluster.address) as connected:
            counts = encode_with_ray(
                tiny_saved, corpus, tmp_path / "vectors", connected, skip_invalid=True, batch_size=8
            )
    finally:
        over.set()
        killer.join()
        cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    assert counts == plain == {"encoded": 240, "resumed": 0, "skipped": 4}
    assert finished == [2]
    assert len(list((tmp_path / "vectors").glob("part-*.parquet"))) == 14
    assert same(pq.read_table(tmp_path / "vectors"), pq.read_table(tmp_path / "plain.parquet"))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["corpus", "gate", "plain.parquet", "vectors"]


def test_what_was_finished_is_not_done_again(cluster, tiny_saved, tmp_path, sentences, monkeypatch, run_cli):
    monkeypatch.setattr("rankencoder.scale.cluster_encoding.PIECE", 50)
    source, target = tmp_path / "in.txt", tmp_path / "vectors"
    source.write_text("\n".join([*sentences[:120], "", *sentences[120:180]]))
    address = f"file://{source}"
    with RayCluster(cluster.address, workers=1) as connected:  # which the functions inside of it use
        with pytest.raises(InputError, match=r"in\.txt, line 121: the sentence is empty"):
            encode_with_ray(tiny_saved, address, target, connected)
        assert not target.exists()
        on_ray = ["--ray", "local", "--workers", 1]
        code, out, err = run_cli(
            "encode", tiny_saved, address, "-o", target, *on_ray, "--skip-invalid", "--json"
        )
        assert code == 0, err
        assert json.loads(out) == {"output": str(target), "encoded": 80, "resumed": 100, "skipped": 1}
    table = pq.read_table(target)
    encode_file(tiny_saved, source, tmp_path / "plain.parquet", skip_invalid=True)
    expected = pq.read_table(tmp_path / "plain.parquet")
    assert set(table["source"].to_pylist()) == {address}
    assert same(table.drop(["source"]).append_column("source", expected["source"]), expected)


@pytest.mark.filterwarnings("ignore::rankencoder.errors.ReferenceWarning")
def test_build_and_index(cluster, tiny_folder, corpus, tmp_path, run_cli):
    pytest.importorskip("lancedb", reason="needs LanceDB: pip install 'rankencoder[search]'")
    from rankencoder.search.rank_index import RankIndex

    with RayCluster(cluster.address):
        for name, more in (("plain", []), ("on-ray", ["--ray", "local"])):
            code, _, err = run_cli("build", tiny_folder, corpus, "-o", tmp_path / name, "--size", 100, *more)
            assert code == 0, err
        a, b = (RankEncoder.load(tmp_path / name) for name in ("plain", "on-ray"))
        assert a.reference.sentences == b.reference.sentences
        assert a.reference.counts == b.reference.counts
        assert np.allclose(a.reference.vectors, b.reference.vectors, atol=1e-5)
        assert len(RankIndex.build(tiny_folder, corpus / "00.txt", tmp_path / "index")) == 40
        code, out, err = run_cli(
            "index", tiny_folder, corpus, "-o", tmp_path / "index", "--ray", "local", "--json"
        )
        assert code == 0, err
        counts = {"added": 200, "replaced": 0, "unchanged": 40, "repeated": 0, "empty": 2, "overlong": 2}
        assert json.loads(out) == {"index": str(tmp_path / "index"), "sentences": 240, **counts}
        bad = tmp_path / "bad.jsonl"
        bad.write_text('{"text": "one"}\nno JSON')
        code, _, err = run_cli("build", tiny_folder, bad, "-o", tmp_path / "bad", "--ray", "local")
        assert (code, err.count("\n")) == (2, 1)
        assert "bad.jsonl, line 2: not JSON" in err
    plain = RankIndex.build(tiny_folder, corpus, tmp_path / "plain-index")
    found, expected = (
        RankIndex.load(folder).search("The cat paints the song 1", k=5)
        for folder in (tmp_path / "index", plain.folder.path)
    )
    assert [hit.text for hit in found] == [hit.text for hit in expected]
    assert np.allclose([hit.score for hit in found], [hit.score for hit in expected], atol=1e-5)


def test_an_error_leaves_no_thread_behind(cluster):
    def fail_at_3(number):
        if number == 3:
            raise InputError("no 3, please")
        return number

    before = set(threading.enumerate())
    with RayCluster(cluster.address) as connected, pytest.raises(InputError, match="no 3, please"):
        list(connected.map(list(range(100)), fail_at_3))
    wait_for(lambda: set(threading.enumerate()) <= before, 30)  # else one of Ray's could start it again


def test_no_such_cluster(tiny_saved, corpus, tmp_path, run_cli):
    code, _, err = run_cli(
        "encode", tiny_saved, corpus, "-o", tmp_path / "v", "--ray", "127.0.0.1:9", "--skip-invalid"
    )
    assert code == 2
    assert err.startswith("error: no Ray cluster at '127.0.0.1:9'")
    assert len(err.splitlines()) == 1
