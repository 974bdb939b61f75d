import json
from functools import partial

import numpy as np
import pytest

from rankencoder import Reference
from rankencoder.encoders import Encoder
from rankencoder.errors import InputError, ReferenceWarning


def test_build_is_seeded_and_made_of_unit_vectors(callable_encoder, sentences):
    first = Reference.build(callable_encoder, sentences, size=1000)
    again = Reference.build(callable_encoder, sentences[::-1], size=1000)
    other = Reference.build(callable_encoder, sentences, size=1000, seed=7)
    assert first.sentences == again.sentences != other.sentences
    assert np.array_equal(first.vectors, again.vectors)
    assert first.vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(first.vectors, axis=1), 1, atol=1e-6)
    raw = callable_encoder(first.sentences)
    assert np.allclose(first.vectors, raw / np.linalg.norm(raw, axis=1, keepdims=True), atol=1e-6)


def test_save_and_load(callable_encoder, sentences, tmp_path):
    reference = Reference.build(callable_encoder, [*sentences, "naïve 🙂", "naïve 🙂", ""], size=2000)
    reference.save(tmp_path / "r")
    loaded = Reference.load(tmp_path / "r")
    assert loaded.sentences == reference.sentences
    assert np.array_equal(loaded.vectors, reference.vectors)
    assert (loaded.seed, loaded.encoder, loaded.counts) == (42, "letters", reference.counts)
    assert loaded.counts["duplicates"] == loaded.counts["empty"] == 1
    assert sorted(p.name for p in (tmp_path / "r").iterdir()) == [
        "manifest.json",
        "reference.json",
        "reference.safetensors",
    ]
    assert [p.name for p in tmp_path.iterdir()] == ["r"]


def test_another_encoder_is_a_clear_error(callable_encoder, sentences):
    reference = Reference.build(callable_encoder, sentences)
    reference.check_encoder(Encoder(callable_encoder))
    reference.check_encoder(Encoder(lambda texts: callable_encoder(texts).astype(np.float16)))
    with pytest.raises(InputError, match="encoded by 'letters', and .* is a different .*cosine"):
        reference.check_encoder(Encoder(lambda texts: callable_encoder(texts) + 0.5))
    with pytest.raises(InputError, match="vectors have 8 dimensions, not 16"):
        reference.check_encoder(Encoder(lambda texts: callable_encoder(texts)[:, :8]))


def test_an_encoder_set_to_read_less_is_another_encoder(tiny_folder, sentences):
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(tiny_folder), device="cpu")
    reference = Reference.build(model, sentences)
    model.max_seq_length = 12
    with pytest.raises(InputError, match="is a different"):
        reference.check_encoder(Encoder(model))


def test_an_encoder_that_tells_nothing_apart(sentences):
    with pytest.raises(InputError, match="the same vector"):
        Reference.build(lambda texts: np.ones((len(texts), 4)), sentences)


def test_seeds(callable_encoder, sentences):
    with pytest.raises(InputError, match="64 bits"):
        Reference.build(callable_encoder, sentences, seed=2**70)


def test_too_few_sentences(callable_encoder):
    with pytest.raises(
        InputError, match=r"too few usable sentences: 1 of 4 lines \(1 empty, 0 longer .* 2 duplicates"
    ):
        Reference.build(callable_encoder, ["a", "", "a", "a"])
    with pytest.raises(InputError, match="at least 2 sentences, not 1"):
        Reference.build(callable_encoder, ["a", "b"], size=1)
    with pytest.warns(ReferenceWarning, match="2 sentences is small"):
        Reference.build(callable_encoder, ["a", "b"])


def damage_json(folder, **changes):
    about = json.loads((folder / "reference.json").read_text())
    (folder / "reference.json").write_text(json.dumps({**about, **changes}))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "reference.json").unlink(), "no reference.json"),
        (lambda f: (f / "reference.safetensors").unlink(), "reference.safetensors is missing"),
        (lambda f: (f / "reference.json").write_text('{"format": 1'), "not JSON"),
        (lambda f: (f / "reference.json").write_text("[]"), "not a JSON object"),
        (lambda f: (f / "reference.safetensors").write_bytes(b"\x80\x02]."), "safetensors is damaged"),
        (lambda f: damage_json(f, sentences=["one"]), "reference.json is damaged"),
        (lambda f: damage_json(f, format=99), "format 99"),
        (
            lambda f: (f / "reference.json").write_text('{"format": 1}'),
            "'sentences': .*valid list",
        ),
        (lambda f: _truncate(f / "reference.safetensors"), "safetensors is damaged"),
    ],
)
def test_damaged_folders(callable_encoder, sentences, tmp_path, damage, message):
    Reference.build(callable_encoder, sentences).save(tmp_path / "r")
    damage(tmp_path / "r")
    with pytest.raises(InputError, match=message):
        Reference.load(tmp_path / "r")


def _truncate(path):
    path.write_bytes(path.read_bytes()[:-100])


def test_interrupted_encoding_is_taken_up_again(callable_encoder, tmp_path):
    texts = [f"word{i} word{i % 7}" for i in range(5000)]
    whole = Reference.build(callable_encoder, texts, size=5000)
    seen = []

    def stops_at(limit):
        def encode(batch):
            seen.extend(batch)
            if len(seen) > limit:
                raise KeyboardInterrupt
            return callable_encoder(batch)

        return encode

    with pytest.raises(KeyboardInterrupt):
        Reference.build(stops_at(3000), texts, size=5000, resume_beside=tmp_path / "model")
    seen.clear()
    resumed = Reference.build(stops_at(10**6), texts, size=5000, resume_beside=tmp_path / "model")
    assert len(seen) < 3100
    assert resumed.sentences == whole.sentences
    assert np.array_equal(resumed.vectors, whole.vectors)
    (tmp_path / ".model.parts" / "part-000001").write_bytes(b"cut off")
    again = Reference.build(callable_encoder, texts, size=5000, resume_beside=tmp_path / "model")
    assert np.array_equal(again.vectors, whole.vectors)


def test_a_changed_file_is_noticed(callable_encoder, sentences, tmp_path):
    Reference.build(callable_encoder, sentences).save(tmp_path / "r")
    path = tmp_path / "r" / "reference.json"
    path.write_text(path.read_text().replace("The cat sees", "The cat hears", 1))
    with pytest.raises(InputError, match="reference.json is damaged"):
        Reference.load(tmp_path / "r")
    (tmp_path / "r" / "manifest.json").unlink()  # an earlier version wrote none
    Reference.load(tmp_path / "r")


def test_begun_work_is_resumed_on_other_hardware_and_dropped_for_another_encoder(callable_encoder, tmp_path):
    texts = [f"word{i} word{i % 7}" for i in range(3000)]
    build = partial(Reference.build, corpus=texts, size=3000, resume_beside=tmp_path / "model")
    build(callable_encoder)
    seen = []

    def elsewhere(batch):
        seen.extend(batch)
        return callable_encoder(batch) * (1 + 1e-6)

    build(elsewhere)
    assert len(seen) < 10
    with pytest.warns(UserWarning, match="unfinished parts of .*model are deleted"):
        build(lambda batch: callable_encoder(batch) + 0.5)
