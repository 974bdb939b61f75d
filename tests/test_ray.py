"""A real Ray cluster of two workers on this machine, one of which is killed."""

import json
import threading
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rankencoder import RankEncoder
from rankencoder.errors import InputError
from rankencoder.scale.cluster import RayCluster
from rankencoder.scale.cluster_encoding import encode_with_ray
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
    for number in range(12):
        part = sentences[number * 100 : (number + 1) * 100]
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


def test_one_of_two_workers_is_killed(cluster, tiny_saved, corpus, tmp_path, monkeypatch):
    monkeypatch.setattr("rankencoder.scale.cluster_encoding.PIECE", 40)
    plain = encode_file(tiny_saved, corpus, tmp_path / "plain.parquet", skip_invalid=True)
    parts = tmp_path / ".vectors.parts"
    finished, working = [], set()

    def kill():
        """Kill a node when both nodes' workers have been seen writing."""
        deadline = time.monotonic() + 120
        while len(working) < 2 and time.monotonic() < deadline:
            working.update(path.name.split("-")[-1] for path in parts.glob(".part-*.new"))
            time.sleep(0.005)
        finished.append(len(list(parts.glob("part-*"))))
        cluster.remove_node(*cluster.worker_nodes, allow_graceful=False)

    killer = threading.Thread(target=kill)
    killer.start()
    counts = encode_with_ray(
        tiny_saved,
        corpus,
        tmp_path / "vectors",
        address=cluster.address,
        skip_invalid=True,
        batch_size=1,  # slowly, so that something is left to be done
    )
    killer.join()
    assert counts == plain == {"encoded": 1200, "resumed": 0, "skipped": 8}
    assert len(working) == 2
    assert finished[0] < 36
    assert len(list((tmp_path / "vectors").glob("part-*.parquet"))) == 36
    assert same(pq.read_table(tmp_path / "vectors"), pq.read_table(tmp_path / "plain.parquet"))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["corpus", "plain.parquet", "vectors"]


def test_what_was_finished_is_not_done_again(cluster, tiny_saved, tmp_path, sentences, monkeypatch, run_cli):
    lance = pytest.importorskip("lance", reason="needs pylance: pip install 'rankencoder[ray]'")
    monkeypatch.setattr("rankencoder.scale.cluster_encoding.PIECE", 50)
    source = tmp_path / "in.txt"
    source.write_text("\n".join([*sentences[:120], "", *sentences[120:180]]))
    address = f"file://{source}"
    target = tmp_path / "v.lance"
    with RayCluster(cluster.address) as connected:  # which the functions inside of it use
        assert connected.workers == 1
        with pytest.raises(InputError, match=r"in\.txt, line 121: the sentence is empty"):
            encode_with_ray(tiny_saved, address, target)
        assert not target.exists()
        code, out, err = run_cli(
            "encode", tiny_saved, address, "-o", target, "--ray", "--skip-invalid", "--json"
        )
        assert code == 0, err
        assert json.loads(out) == {"output": str(target), "encoded": 80, "resumed": 100, "skipped": 1}
    table = lance.dataset(str(target)).to_table()
    encode_file(tiny_saved, source, tmp_path / "plain.parquet", skip_invalid=True)
    expected = pq.read_table(tmp_path / "plain.parquet")
    assert set(table["source"].to_pylist()) == {address}
    assert same(table.drop(["source"]).append_column("source", expected["source"]), expected)


def test_build_and_index(cluster, tiny_folder, corpus, tmp_path, run_cli):
    lancedb = pytest.importorskip("lancedb", reason="needs LanceDB: pip install 'rankencoder[search]'")
    assert lancedb
    from rankencoder.search import RankIndex

    with RayCluster(cluster.address):
        for name, more in (("plain", []), ("on-ray", ["--ray"])):
            code, _, err = run_cli("build", tiny_folder, corpus, "-o", tmp_path / name, "--size", 1000, *more)
            assert code == 0, err
        a, b = (RankEncoder.load(tmp_path / name) for name in ("plain", "on-ray"))
        assert a.reference.sentences == b.reference.sentences
        assert a.reference.counts == b.reference.counts
        assert np.allclose(a.reference.vectors, b.reference.vectors, atol=1e-5)
        assert len(RankIndex.build(tiny_folder, corpus / "00.txt", tmp_path / "index")) == 100
        code, out, err = run_cli("index", tiny_folder, corpus, "-o", tmp_path / "index", "--ray", "--json")
        assert code == 0, err
        counts = {"added": 1100, "replaced": 0, "unchanged": 100, "empty": 4, "overlong": 4}
        assert json.loads(out) == {"index": str(tmp_path / "index"), "sentences": 1200, **counts}
    plain = RankIndex.build(tiny_folder, corpus, tmp_path / "plain-index")
    found, expected = (
        RankIndex.load(folder).search("The cat paints the song 1", k=5)
        for folder in (tmp_path / "index", plain.folder.path)
    )
    assert [hit.text for hit in found] == [hit.text for hit in expected]
    assert np.allclose([hit.score for hit in found], [hit.score for hit in expected], atol=1e-5)


def test_no_such_cluster(tiny_saved, corpus, tmp_path, run_cli):
    code, _, err = run_cli(
        "encode", tiny_saved, corpus, "-o", tmp_path / "v", "--ray", "127.0.0.1:9", "--skip-invalid"
    )
    assert code == 2
    assert err.startswith("error: no Ray cluster at '127.0.0.1:9'")
    assert len(err.splitlines()) == 1
