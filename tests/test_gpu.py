"""Ranking on an NVIDIA GPU against scipy. Needs no pytest: ``python tests/test_gpu.py``."""

import string
import tempfile
import threading
import unittest

import numpy as np
import torch
from scipy.stats import rankdata
from sentence_transformers import SentenceTransformer
from transformers import BertConfig, BertModel, BertTokenizer

from rankencoder import rank_vectors, ranks, ranks_cuda
from rankencoder.encoders import Encoder
from rankencoder.errors import InputError
from rankencoder.forms.compact import CompactForm
from rankencoder.training.loop.graphs import GraphedStep

SIZES = (1, 2, 3, 31, 33, 1000, 2049, 4097, 10_000, 16_385, 50_001, 100_000, 131_071, 131_072)


def expected(rows):
    centred = rankdata(np.atleast_2d(rows), axis=1).astype(np.float64) - (rows.shape[-1] + 1) / 2
    norms = np.linalg.norm(centred, axis=1, keepdims=True)
    return np.divide(centred, norms, out=np.zeros_like(centred), where=norms > 0).reshape(rows.shape)


def kinds(n, rows=3):
    normal = np.random.default_rng(n).standard_normal((rows, n)).astype(np.float32)
    return {
        "cosines": np.tanh(0.1 * normal),
        "ties": np.round(normal, 2),
        "a few ties": np.round(normal, 6),
        "two values": np.sign(normal),
        "constant": np.full_like(normal, 0.25),
        "almost constant": np.where(np.arange(n) == n // 2, normal, np.float32(0.5)),
        "ascending": np.sort(normal, axis=1),
        "skewed": np.exp(3 * normal),
        "zeros of both signs": np.where(normal > 1, np.float32(-0.0), normal * (normal > 0)),
        "denormal": normal * np.float32(1e-41),
        "one row of each": np.stack([normal[0], np.sign(normal[0]), np.exp(3 * normal[0])]),
    }


def assert_ranks(found, rows, tolerance=1e-7):
    assert np.abs(found.double().cpu().numpy() - expected(rows)).max(initial=0) < tolerance


def refusal(rows):
    try:
        rank_vectors(rows)
    except InputError as error:
        return str(error)
    return ""


def tiny_bert(folder):
    """Write a BERT with random weights that reads letters."""
    letters = string.ascii_lowercase + string.punctuation
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{letter}" for letter in letters)]
    BertTokenizer(vocab={token: i for i, token in enumerate(tokens)}).save_pretrained(folder)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    BertModel(BertConfig(vocab_size=len(tokens), **sizes)).save_pretrained(folder)


class SquaredNorms(torch.nn.Module):
    """A loss with layers of its own."""

    def __init__(self):
        super().__init__()
        self.model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(6)])

    def forward(self, features):
        loss = self.model(features[0]["rows"]).square().mean()
        self.logged = {"loss": loss.detach()}
        return loss


@unittest.skipUnless(torch.cuda.is_available() and torch.version.cuda, "needs an NVIDIA GPU")
class TestGPU(unittest.TestCase):
    def test_there_is_a_kernel(self):
        ranks_cuda.compile_source("sm_{}{}".format(*torch.cuda.get_device_capability()))
        assert ranks_cuda.kernel(torch.device("cuda", 0))

    def test_every_size_and_kind_of_row(self):
        for n in SIZES:
            for kind, rows in kinds(n).items():
                with self.subTest(n=n, kind=kind):
                    # the kernel takes fewer than 2^17 values
                    tolerance = 1e-7 if n < 2**17 else 2e-6
                    assert_ranks(rank_vectors(torch.from_numpy(rows).cuda()), rows, tolerance)

    def test_training_needs_no_second_look(self):
        for n in (2, 1000, 10_000, 50_001):
            for kind, rows in kinds(n).items():
                with self.subTest(n=n, kind=kind):
                    found = ranks.training_rank_vectors(torch.from_numpy(rows).cuda())
                    assert_ranks(found, rows, 2e-7)

    def test_nan_and_infinity_are_refused(self):
        for n in (2, 1000, 100_000):
            for bad in (np.nan, np.inf, -np.inf):
                rows = torch.randn(5, n, device="cuda")
                rows[3, -1] = bad
                assert "row 3 of the similarities contains NaN" in refusal(rows)

    def test_other_types_and_views(self):
        whole = torch.from_numpy(100 * kinds(600, 64)["cosines"]).cuda()
        for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int64):
            rows = whole.to(dtype)
            for view in (rows, rows[:, ::2], rows.T, rows[::2], rows[0], rows[:0]):
                found = rank_vectors(view)
                assert found.dtype == (torch.float32 if dtype.itemsize < 8 else torch.float64)
                assert found.shape == view.shape
                if len(view):
                    assert_ranks(found, view.double().cpu().numpy())

    def test_parts_of_the_budget(self):
        rows = torch.from_numpy(kinds(5000, 9)["ties"]).cuda()
        whole, budget = rank_vectors(rows), ranks.MEMORY_BUDGET
        try:
            ranks.MEMORY_BUDGET = 40_000
            assert torch.equal(rank_vectors(rows), whole)
            rows[7, 7] = np.nan
            assert "row 7" in refusal(rows)
        finally:
            ranks.MEMORY_BUDGET = budget

    def test_captured_in_a_graph(self):
        rows = torch.randn(64, 10_000, device="cuda")
        ranks.training_rank_vectors(rows)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = ranks.training_rank_vectors(rows)
        for kind, values in kinds(10_000, 64).items():
            if len(values) == len(rows):
                with self.subTest(kind=kind):
                    rows.copy_(torch.from_numpy(values))
                    graph.replay()
                    assert_ranks(out, values, 2e-7)

    def test_threads_and_streams(self):
        rows = {n: kinds(n, 40)["a few ties"] for n in (1000, 3001, 20_000)}
        wrong = []

        def work(values):
            with torch.cuda.stream(torch.cuda.Stream()):
                for _ in range(30):
                    found = rank_vectors(torch.from_numpy(values).cuda()).cpu().numpy()
                    if not np.abs(found - wanted[values.shape[1]]).max() < 1e-7:
                        wrong.append(values.shape)

        wanted = {n: expected(values) for n, values in rows.items()}
        threads = [threading.Thread(target=work, args=(values,)) for values in rows.values() for _ in "ab"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong

    def test_the_compact_form_in_float16(self):
        for n, number in ((300, 300), (20_000, 2500), (20_000, 100), (100_000, 1100)):
            unit = torch.nn.functional.normalize(torch.randn(n, 64), dim=1)
            form = CompactForm.fit(unit.cuda())
            vectors = torch.nn.functional.normalize(torch.randn(number, 64), dim=1)
            found = form(vectors.cuda()).double().cpu()
            ranked = rank_vectors((vectors.double() @ unit.double().T), method="exact")
            true = torch.nn.functional.normalize(ranked @ form.projection.double().cpu(), dim=1)
            assert found.shape == (number, form.dimension)
            assert float((found @ found.T - true @ true.T).abs().max()) < 2 * ranks.COARSE

    def test_encoding(self):
        draw = np.random.default_rng(0)
        words = ["a", "cat", "sees", "the", "old", "house", "by", "sea", "?", "中文"]
        texts = [" ".join(draw.choice(words, length)) for length in draw.integers(1, 80, 10_000)]
        texts[100:104] = ["[MASK] [SEP]", "cat " * 2000, "\t😀", "[PAD]"]
        with tempfile.TemporaryDirectory() as folder:
            tiny_bert(folder)
            model = SentenceTransformer(folder, device="cuda")
        model.max_seq_length = 64
        for number in (10_000, 3, 1):
            expected = model.encode(texts[:number], normalize_embeddings=True)
            np.testing.assert_allclose(Encoder(model).encode(texts[:number]), expected, atol=1e-5)

    def test_graphs_of_several_shapes_share_memory(self):
        torch.manual_seed(0)
        loss = SquaredNorms().cuda()
        step = GraphedStep(loss, torch.Tensor.backward)
        batches = [{"rows": torch.randn(size, 64, device="cuda")} for size in (512, 8, 1024, 512, 8, 1024)]
        for features in 10 * batches:
            loss.zero_grad()
            loss([features]).backward()
            expected = [parameter.grad.clone() for parameter in loss.parameters()]
            loss.zero_grad()
            if step.fits(features):
                step(features)
                torch.cuda.synchronize()
                torch.testing.assert_close([parameter.grad for parameter in loss.parameters()], expected)
                with torch.no_grad():
                    for parameter in loss.parameters():
                        parameter -= 0.01 * parameter.grad
        assert len(step.graphs) == 3


if __name__ == "__main__":
    unittest.main(verbosity=2)
