"""Makes one of everything with a seed; prints a hash and checksums of what it made: for test_reproducible.py.

`python reproducible_run.py FOLDER ENCODER BACKBONE CORPUS`
"""

import gc
import hashlib
import json
import sys
import warnings
from pathlib import Path


def make(folder, encoder, backbone, corpus):
    """Build, encode, index and train, each into a folder or file of its own."""
    from training_runs import SMALL

    import rankencoder

    model = rankencoder.RankEncoder(str(encoder), corpus, dim=16, progress=False)
    model.save(folder / "compact")
    model.with_form("linear").save(folder / "linear")
    (folder / "vectors").write_bytes(model.encode(corpus.read_text().splitlines()[:200]).tobytes())
    index = rankencoder.RankIndex.build(model, corpus, folder / "index", progress=False)
    names = [name for name in index.columns if not name.startswith("_")]
    rows = [row for batch in index.rows.batches([*names, "vector"]) for row in batch.to_pylist()]
    (folder / "rows").write_text(json.dumps(rows, sort_keys=True))
    given = {**SMALL, "max_steps": 2, "combine": "sum", "rank_loss_weight": 1.0}
    rankencoder.train(corpus, folder / "run", backbone=str(backbone), progress=False, **given)


def checksums(folder):
    """Checksums of what the seed decides; other files hold times and places too."""
    chosen = {"vectors", "rows", "sentences.txt", "calibration.json"}
    paths = [path for path in folder.rglob("*") if path.suffix == ".safetensors" or path.name in chosen]
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(paths)}


if __name__ == "__main__":
    gc.disable()  # a training collects four times, which takes longer than its steps
    warnings.simplefilter("ignore")
    made, *given = map(Path, sys.argv[1:])
    gc.collect = lambda *_: 0
    make(made, *given)
    print(json.dumps([hash("a sentence"), checksums(made)]))
