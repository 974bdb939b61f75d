"""Made the folders beside this file, with the version of 2026-11-16, before issue 19; kept as a record.

``PYTHONPATH=OLD_TREE/src python make.py FOLDER``
"""

import json
import os
import shutil
import string
import sys
import warnings
from pathlib import Path

import numpy as np
import torch

TEXTS = ["the cat sees the dog", "a river moves the old house", "it is not here"]
NOUNS = ("cat", "dog", "river", "house", "tree")
VERBS = ("sees", "moves", "likes", "is")
CORPUS = [f"the {a} {v} the {b}" for a in NOUNS for v in VERBS for b in NOUNS]
SETTINGS = {
    "method": "simcse",
    "batch_size": 8,
    "max_steps": 2,
    "reference_size": 100,
    "logging_steps": 1,
    "learning_rate": 1e-3,
}


def backbone(folder):
    """Save a BERT of one layer and eight dimensions."""
    from transformers import BertConfig, BertForMaskedLM, BertTokenizer

    letters = string.ascii_lowercase
    words = sorted({word for text in (*CORPUS, *TEXTS) for word in text.split() if len(word) > 1})
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{c}" for c in letters), *words]
    BertTokenizer(vocab={t: i for i, t in enumerate(tokens)}, model_max_length=32).save_pretrained(folder)
    torch.manual_seed(0)
    size = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    config = BertConfig(vocab_size=len(tokens), max_position_embeddings=34, initializer_range=0.5, **size)
    BertForMaskedLM(config).save_pretrained(folder)


def interrupt(folder):
    """Begin a training that ends after its first checkpoint of stage 1."""
    from rankencoder.training.trainer import EncoderTrainer

    import rankencoder

    compute = EncoderTrainer.compute_loss

    def killing(self, *args, **kwargs):
        if self.state.global_step == 1:
            raise KeyboardInterrupt
        return compute(self, *args, **kwargs)

    EncoderTrainer.compute_loss = killing
    try:
        rankencoder.train(CORPUS, folder, backbone="bert", progress=False, save_steps=1, **SETTINGS)
    except KeyboardInterrupt:
        EncoderTrainer.compute_loss = compute


def main(out):
    """Make one of everything, and the vectors that it gives; paths are those in the folder itself."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    import rankencoder

    out.mkdir()
    os.chdir(out)
    out, work = Path(), Path("work")
    backbone("bert")
    modules = [Transformer("bert"), Pooling(8)]
    SentenceTransformer(modules=modules, device="cpu").save_pretrained("work/encoder")
    vectors = {}
    model = rankencoder.RankEncoder(
        str(work / "encoder"), CORPUS, form="exact", rank_weight=0.3, progress=False
    )
    forms = {
        "exact": model,
        "compact": model.with_form("compact", dim=4),
        "linear": model.with_form("linear"),
    }
    for name, made in forms.items():
        made.save(out / name)
        vectors[name] = made.encode(TEXTS)
    exported = forms["compact"].to_sentence_transformer()
    exported.save_pretrained(str(out / "exported"))
    vectors["exported"] = exported.encode(TEXTS)
    model.reference.save(out / "reference")
    vectors["reference"] = model.reference.vectors
    index = rankencoder.RankIndex.build(forms["compact"], CORPUS[:20], out / "index", progress=False)
    found = [[(hit.text, hit.score) for hit in index.search(text, k=3)] for text in TEXTS]
    run = rankencoder.train(CORPUS, out / "run", backbone="bert", progress=False, **SETTINGS)
    vectors["run"] = SentenceTransformer(str(run.encoder), device="cpu").encode(TEXTS)
    vectors["run-rankencoder"] = rankencoder.RankEncoder.load(out / "run/rankencoder").encode(TEXTS)
    interrupt(out / "interrupted")
    pairs = [(n % 6, a, b) for n, (a, b) in enumerate(zip(CORPUS, CORPUS[7:], strict=False))][:30]
    (work / "pairs.tsv").write_text("".join(f"{score}\t{a}\t{b}\n" for score, a, b in pairs))
    evaluation = rankencoder.evaluate(
        str(out / "compact"), dev=work / "pairs.tsv", output=out / "evaluation", tasks=["sts"], cache=False
    )
    scores = evaluation.scores()
    np.savez(out / "vectors.npz", **vectors)
    (out / "expected.json").write_text(json.dumps({"texts": TEXTS, "found": found, "scores": scores}))
    shutil.rmtree(work)
    for path in (*out.rglob("README.md"), out / "run/losses.svg"):  # large, and nothing reads them
        path.unlink()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(Path(sys.argv[1]))
