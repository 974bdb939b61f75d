"""Encoders and data for the tests: a tiny BERT made on the spot, a real MiniLM, and ../shared where it is."""

import gc
import os
import re
import shutil
import warnings
import zlib
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

settings.register_profile("no deadline", deadline=None)  # a busy machine is no failure
settings.load_profile("no deadline")
os.environ["HF_HUB_OFFLINE"] = "1"
# by default 15: beside busy processes a worker would hardly run
os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112  (Ray's own spelling)
if not Path("/dev/nvidiactl").exists():
    os.environ["TRITON_INTERPRET"] = "1"  # kernels run on the CPU; read when triton is imported

ROOT = Path(__file__).parents[1]
SHARED = Path(os.environ.get("RANKENCODER_SHARED", ROOT.parent / "shared"))


LONG = (
    *("test_ray", "test_training", "test_real", "test_docs", "test_search", "test_negation", "test_report"),
    *("test_explorer", "test_server", "test_site", "test_methods", "test_faults", "test_tuning"),
    *("test_evaluate", "test_teachers", "test_reproducible", "test_ranks", "test_real_methods"),
)
"""The files that take longest, longest first."""


def pytest_collection_modifyitems(items):
    # the longest files first: no process of two is to be left alone with one of them
    items.sort(key=lambda item: LONG.index(item.path.stem) if item.path.stem in LONG else len(LONG))
    if SHARED.is_dir():
        return
    for item in items:
        if "shared" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.skip(reason=f"needs the development data in {SHARED}"))


@pytest.fixture(scope="module", autouse=True)
def _freeze():
    """Spare the garbage collector all imported modules: a training collects four times, for 0.4 s each."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def shared():
    return SHARED


def letters(texts):
    """A callable encoder: each word adds its own fixed random vector."""
    rows = np.zeros((len(texts), 16), dtype=np.float32)
    for row, text in zip(rows, texts, strict=True):
        for word in text.lower().split():
            row += np.random.default_rng(zlib.crc32(word.encode())).normal(size=16)
    return rows


@pytest.fixture
def callable_encoder():
    return letters


NOUNS = ("cat", "dog", "river", "house", "teacher", "engine", "garden", "song", "letter", "window")
VERBS = ("sees", "moves", "likes", "breaks", "paints", "hears", "finds", "opens", "follows", "forgets")


@pytest.fixture(scope="session")
def sentences():
    """1,200 different sentences."""
    return [f"The {a} {v} the {b} {n}" for n in range(2) for a in NOUNS for v in VERBS for b in NOUNS][:1200]


@pytest.fixture(scope="session")
def corpus_file(tmp_path_factory, sentences):
    path = tmp_path_factory.mktemp("corpus") / "corpus.txt"
    path.write_text("\n".join(sentences) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory):
    """A SentenceTransformer folder with a random two-layer BERT."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from tokenizers import BertWordPieceTokenizer
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    letters_ = [chr(c) for c in range(97, 123)] + [str(d) for d in range(10)] + list(".,:;!?'\"()-")
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters_, *(f"##{c}" for c in letters_)]
    words = sorted({w.lower() for w in (*NOUNS, *VERBS, "the", "a")})
    folder = tmp_path_factory.mktemp("tiny")
    tokenizer = BertWordPieceTokenizer({token: i for i, token in enumerate([*vocabulary, *words])})
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer._tokenizer,
        unk_token="[UNK]",
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_max_length=64,
    ).save_pretrained(folder / "bert")
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(vocabulary) + len(words),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
        initializer_range=0.5,
    )
    BertModel(config).save_pretrained(folder / "bert")
    transformer = Transformer(str(folder / "bert"))
    model = SentenceTransformer(modules=[transformer, Pooling(32)], device="cpu")
    model.save_pretrained(str(folder / "model"))
    return folder / "model"


@pytest.fixture(scope="session")
def tiny_model(tiny_folder, sentences):
    """A RankEncoder on the tiny BERT, in the exact form."""
    from rankencoder import RankEncoder

    return RankEncoder(str(tiny_folder), sentences, form="exact", rank_weight=0.3, progress=False)


@pytest.fixture(scope="session")
def tiny_saved(tiny_model, tmp_path_factory):
    """The same, saved in the compact form."""
    folder = tmp_path_factory.mktemp("saved") / "model"
    tiny_model.with_form("compact", dim=64).save(folder)
    return folder


@pytest.fixture(scope="session")
def minilm():
    """all-MiniLM-L6-v2, the real one."""
    from rankencoder.demo.encoder import bundled_encoder
    from rankencoder.encoders import Encoder

    return Encoder(bundled_encoder(), device="cpu", batch_size=16)  # on one core a fifth faster than 64


@pytest.fixture(scope="session")
def backbone(tmp_path_factory):
    """The folder of a random two-layer masked language model."""
    from tiny_backbones import masked_language_model

    return masked_language_model(tmp_path_factory.mktemp("backbone") / "tiny-bert")


@pytest.fixture
def run_cli(monkeypatch, capsys):
    """Run the command line in this process; return exit code, output and error output.

    The line that long commands begin with is left out: `test_progress` has it.
    """
    from rankencoder.cli import main

    def run(*arguments):
        monkeypatch.setattr("sys.argv", ["rankencoder", *map(str, arguments)])
        monkeypatch.setenv("COLUMNS", "200")
        shown = warnings.showwarning
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = stop.code or 0
        finally:
            warnings.showwarning = shown
        captured = capsys.readouterr()
        return code, captured.out, re.sub(r"\Astarted \w+: .*\n", "", captured.err)

    return run


@pytest.fixture(scope="session")
def masked_models(tmp_path_factory):
    """Random masked language models, with their heads."""
    import torch
    from loss_oracles import MASKED
    from tiny_backbones import KINDS, tiny_model
    from transformers import AutoModelForMaskedLM

    made = {}
    for kind in MASKED:
        made[kind] = folder = tmp_path_factory.mktemp(kind)
        tokenizer = KINDS[kind][0]()
        tokenizer.save_pretrained(folder)
        torch.manual_seed(1)
        AutoModelForMaskedLM.from_config(tiny_model(kind, tokenizer).config).save_pretrained(folder)
    return made


@pytest.fixture
def build_loss(masked_models):
    """Makes a method's loss on a tiny model, without dropout, and a batch for it."""
    from types import SimpleNamespace

    import torch
    from loss_oracles import SENTENCES

    from rankencoder.training.backbones.backbone import load_backbone
    from rankencoder.training.loop.collator import ViewCollator

    def make(kind, method, texts=SENTENCES, **more):
        backbone = load_backbone(str(masked_models[kind]))
        model = method.encoder(backbone)
        torch.manual_seed(2)
        loss = method.loss(model, backbone)
        loss.eval()
        rows = [{"row": i, "text": text, "negation": f"Not {text}"} for i, text in enumerate(texts)]
        batch = ViewCollator(method, backbone, 32)(rows)
        features = {name.removeprefix("views_"): value for name, value in batch.items()}
        return SimpleNamespace(backbone=backbone, model=model, loss=loss, features={**features, **more})

    return make


@pytest.fixture
def train(tmp_path, backbone, corpus_file):
    """Trains on a tiny BERT, a few steps."""
    from training_runs import SMALL

    import rankencoder

    def run(name="run", corpus=corpus_file, **settings):
        settings = {"backbone": str(backbone), **SMALL, **settings}
        return rankencoder.train(corpus, tmp_path / name, progress=False, **settings)

    return run


@pytest.fixture
def train_killed(train, monkeypatch):
    """Trains until a step of a stage begins."""
    from training_runs import Killed

    from rankencoder.training.loop.trainer import EncoderTrainer

    compute = EncoderTrainer.compute_loss

    def run(name, *, stage, step, **settings):
        def killing(self, *args, **kwargs):
            if self.state.global_step == step and self.args.output_dir.endswith(f"stage-{stage}"):
                raise Killed
            return compute(self, *args, **kwargs)

        with monkeypatch.context() as patch, pytest.raises(Killed):
            patch.setattr(EncoderTrainer, "compute_loss", killing)
            train(name, **settings)

    return run


BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="module")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install playwright")
    if BROWSER is None:
        pytest.skip("needs Chromium or Chrome on the PATH")
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=BROWSER, args=list(FLAGS))
        yield opened
        opened.close()


def pytest_terminal_summary(terminalreporter):
    """Say how the faults ended, whichever process ran them."""
    reports = [r for r in terminalreporter.getreports("passed") if r.when == "call"]
    ended = Counter(value for r in reports for name, value in r.user_properties if name == "fault")
    if ended:
        counts = ", ".join(f"{number} {what}" for what, number in ended.most_common())
        terminalreporter.write_line(f"faults: {counts}")
