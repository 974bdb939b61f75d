"""What a training finds of its earlier self: whole, half written, or damaged."""

import json

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from training_runs import same_weights

import rankencoder
from rankencoder.encoders import Encoder
from rankencoder.errors import InputError, TrainingWarning
from rankencoder.io.manifest import write_manifest
from rankencoder.training.loop.trainer import drop_incomplete, last_checkpoint
from rankencoder.training.sentences import load_sentences, store_sentences
from rankencoder.training.teaching.teachers import EncodedSentences, is_whole, load_vectors, write_vectors

pytestmark = pytest.mark.filterwarnings("ignore:a corpus of")


def checkpoint(folder, step):
    path = folder / f"checkpoint-{step}"
    (path / "1_Pooling").mkdir(parents=True)
    (path / "optimizer.pt").write_bytes(b"momentum")
    (path / "1_Pooling" / "config.json").write_text("{}")
    write_manifest(path)
    return path


@pytest.mark.parametrize("name", ["optimizer.pt", "1_Pooling/config.json", "manifest.json"])
def test_a_damaged_checkpoint_is_left_out_and_the_one_before_it_taken(tmp_path, name):
    checkpoint(tmp_path, 9)
    newest = checkpoint(tmp_path, 10)
    assert last_checkpoint(tmp_path) == str(newest)
    drop_incomplete(tmp_path)
    assert newest.exists()
    (newest / name).write_bytes((newest / name).read_bytes()[:-3])
    with pytest.warns(TrainingWarning, match=f"checkpoint-10/{name}"):
        drop_incomplete(tmp_path)
    assert last_checkpoint(tmp_path) == str(tmp_path / "checkpoint-9")


def test_a_half_written_checkpoint_is_deleted(tmp_path):
    (checkpoint(tmp_path, 4) / "manifest.json").unlink()
    checkpoint(tmp_path, 2)
    drop_incomplete(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-2"]


def test_what_others_put_into_a_checkpoint_does_no_harm(tmp_path):
    (checkpoint(tmp_path, 2) / ".DS_Store").write_text("x")
    drop_incomplete(tmp_path)
    assert (tmp_path / "checkpoint-2").exists()


def test_damaged_sentences_are_told_of(tmp_path, sentences):
    stored = store_sentences(sentences, tmp_path, column=None, progress=False)
    assert len(stored) == len(sentences)
    file = tmp_path / "sentences.arrow"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.unlink()  # it is mapped
    file.write_bytes(data)
    with pytest.raises(InputError, match=r"sentences\.arrow was changed"):
        load_sentences(tmp_path)


def test_damaged_targets_are_made_again(train, train_killed, tmp_path):
    settings = {"combine": "sum", "rank_loss_weight": 1.0, "max_steps": 2}
    whole = train("whole", **settings)
    train_killed("cut", stage=2, step=1, **settings)
    file = tmp_path / "cut/work/targets/teacher-0/vectors.npy"
    vectors = np.load(file)
    np.save(file, vectors * np.float16(0.5))
    resumed = rankencoder.train(output=tmp_path / "cut", resume=True, progress=False)
    assert same_weights(whole.encoder, resumed.encoder)


def test_a_damaged_e1_of_a_begun_stage_2_is_told_of(train_killed, tmp_path):
    train_killed("cut", stage=2, step=1, max_steps=2)
    file = tmp_path / "cut/base/model.safetensors"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    with pytest.raises(InputError, match=r"base/model\.safetensors is damaged.*train again"):
        rankencoder.train(output=tmp_path / "cut", resume=True, progress=False)


def test_vectors_count_only_when_they_are_whole(tmp_path, sentences, callable_encoder):
    stored = store_sentences(sentences, tmp_path, column=None, progress=False)
    folder = tmp_path / "companion"
    assert not is_whole(folder)
    write_vectors(EncodedSentences(Encoder(callable_encoder), stored), stored, folder, progress=False)
    assert is_whole(folder)
    expected = load_vectors(folder).copy()
    file = folder / "vectors.npy"
    for damage in (lambda: file.write_bytes(file.read_bytes()[:-4]), (folder / "manifest.json").unlink):
        damage()
        assert not is_whole(folder)
        write_vectors(EncodedSentences(Encoder(callable_encoder), stored), stored, folder, progress=False)
        assert is_whole(folder)
        assert np.array_equal(load_vectors(folder), expected)


def test_finished_parts_of_a_teacher_are_not_made_again(tmp_path, sentences, callable_encoder, monkeypatch):
    monkeypatch.setattr("rankencoder.training.teaching.teachers._PART", 7)
    stored = store_sentences(sentences, tmp_path, column=None, progress=False)
    write_vectors(
        EncodedSentences(Encoder(callable_encoder), stored), stored, tmp_path / "whole", progress=False
    )
    whole = load_vectors(tmp_path / "whole")
    np.testing.assert_allclose(whole, Encoder(callable_encoder)(list(stored)), atol=1e-3)
    seen = []

    def encoder(texts):
        if len(seen) > 20:
            raise KeyboardInterrupt
        seen.extend(texts)
        return callable_encoder(texts)

    with pytest.raises(KeyboardInterrupt):
        write_vectors(
            EncodedSentences(Encoder(encoder), stored), stored, tmp_path / "teacher-0", progress=False
        )
    second = tmp_path / ".teacher-0.parts/part-000001"
    second.write_bytes(second.read_bytes()[:-1] + b"x")
    seen.clear()
    encoder_again = Encoder(lambda texts: seen.extend(texts) or callable_encoder(texts))
    write_vectors(EncodedSentences(encoder_again, stored), stored, tmp_path / "teacher-0", progress=False)
    assert np.array_equal(load_vectors(tmp_path / "teacher-0"), whole)
    assert not set(stored.texts(0, 7)) & set(seen)
    assert set(stored.texts(7, 14)) <= set(seen)
    assert not (tmp_path / ".teacher-0.parts").exists()


def test_a_resumed_stage_saves_the_same_tokenizer(train):
    tokenizer = json.loads((train(only_base=True, max_steps=1).encoder / "tokenizer.json").read_text())
    assert (tokenizer["truncation"], tokenizer["padding"]) == (None, None)


def test_a_gpu_encodes_in_float16_unless_values_overflow(tmp_path, sentences, tiny_folder):
    tiny = SentenceTransformer(str(tiny_folder), device="cpu")
    stored = store_sentences(sentences, tmp_path, column=None, progress=False)
    encoder = Encoder(tiny)
    exact = encoder.encode(list(stored))
    found = {}
    for scale in (1, 1e4):  # a CPU stands in for the GPU, and has no autocast for it
        source = EncodedSentences(encoder, stored)
        source._ways = ["weights", torch.float16]
        with torch.no_grad():
            tiny[0].auto_model.embeddings.LayerNorm.weight *= scale
            expected = encoder.encode(list(stored))
            found[scale] = source.rows(0, len(stored))
            tiny[0].auto_model.embeddings.LayerNorm.weight /= scale
        assert np.abs(found[scale] - expected).max() < 5e-3
        assert encoder.model is tiny
        assert tiny.dtype == torch.float32
    assert np.abs(found[1] - exact).max() > 1e-6
    assert np.array_equal(found[1e4], expected)
