"""Workers of a Ray cluster that are lost at random moments."""

import contextlib
import os
import random
import signal
import sys
import threading
import time
from pathlib import Path

from fault_kinds import EQUAL, FAILED, Verdict
from fault_lab import OUTPUTS
from fault_runs import run

PIECES = 10


@contextlib.contextmanager
def ray_cluster():
    """Give a cluster of two nodes with a CPU each."""
    from ray.cluster_utils import Cluster

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    # workers import what this process does from its own folders
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    quick = {
        "health_check_initial_delay_ms": 500,
        "health_check_period_ms": 300,
        "health_check_failure_threshold": 3,
    }
    node = {"num_cpus": 1, "object_store_memory": 80 * 2**20}
    cluster = Cluster(
        initialize_head=True, head_node_args={**node, "include_dashboard": False, "_system_config": quick}
    )
    try:
        yield cluster, node
    finally:
        cluster.shutdown()


def one_by_one(lab):
    """Return the file of an undisturbed run that encodes sentence by sentence, as the cluster is to do."""
    folder = lab.new_folder("undisturbed one by one")
    assert run([*lab.command("encode"), "--batch-size", 1], folder).code == 0
    return folder / "out" / OUTPUTS["encode"]


def dropped(lab, case, expected, cluster, node):
    """Kill a process that encodes, or its whole node, when some pieces are finished.

    :param expected: The file of the undisturbed result.
    """
    import pyarrow.parquet as pq

    from rankencoder.scale import cluster_encoding as encode
    from rankencoder.scale.cluster import RayCluster

    draw, folder = random.Random(str(case)), lab.new_folder("ray")
    encode.PIECE = 200 // PIECES
    if not cluster.worker_nodes:
        cluster.add_node(**node)
    parts = folder / "out/.vectors.parts"
    wanted, whole_node = draw.randrange(PIECES - 2), draw.random() < 0.5
    over = threading.Event()
    killer = threading.Thread(target=_kill, args=(parts, wanted, cluster if whole_node else None, over))
    killer.start()
    try:
        with RayCluster(cluster.address) as connected:
            encode.encode_with_ray(
                lab.model, lab.corpus, folder / "out/vectors", connected, column="text", batch_size=1
            )
    except Exception as error:
        return Verdict(FAILED, "encode", f"{type(error).__name__}: {error}")
    finally:
        over.set()
        killer.join()
    right = _same(pq.read_table(folder / "out/vectors"), pq.read_table(expected))
    return Verdict(EQUAL if right else FAILED, "encode", "" if right else "another result")


def _kill(parts, wanted, cluster, over):
    """Wait until so many pieces are finished and one more is being written, and end its writer or a node."""
    while not over.is_set():
        writing = list(parts.glob(".part-*.new"))
        if len(list(parts.glob("part-*"))) >= wanted and writing:
            break
        time.sleep(0.005)
    else:
        return
    if cluster is not None:
        cluster.remove_node(*cluster.worker_nodes, allow_graceful=False)
    else:
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(Path(writing[0]).stem.rpartition("-")[2]), signal.SIGKILL)


def _same(a, b):
    """Say whether two tables hold the same sentences in the same order, and nearly the same vectors."""
    import numpy as np

    texts = all(a[name].to_pylist() == b[name].to_pylist() for name in ("source", "line", "text"))
    return texts and np.allclose(a["vector"].to_pylist(), b["vector"].to_pylist(), atol=1e-5)
