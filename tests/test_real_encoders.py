from types import SimpleNamespace

import numpy as np
import pytest
import real_encoders
from pypi_encoders import KNOWN, Known, encoder_folder, layers, named_weights
from real_encoders import make_job, report


def node(op_type, inputs, output):
    return SimpleNamespace(op_type=op_type, input=inputs, output=[output])


def test_matrices_get_the_names_of_the_biases_beside_them():
    matrix, bias = np.arange(6.0).reshape(2, 3), np.ones(3)
    tensors = {"query.bias": bias, "onnx::MatMul_7": matrix, "words.weight": np.eye(2), "val_3": np.zeros(1)}
    product = node("MatMul", ["x", "onnx::MatMul_7"], "product")
    for inputs in (["query.bias", "product"], ["product", "query.bias"]):
        found = named_weights(tensors, [product, node("Add", inputs, "y")])
        assert found.keys() == {"query.bias", "query.weight", "words.weight"}
        np.testing.assert_array_equal(found["query.weight"], matrix.T)


def test_a_bias_of_a_layer_norm_names_no_matrix():
    tensors = {"norm.bias": np.ones(3), "norm.weight": np.ones(3)}
    nodes = [node("LayerNormalization", ["x", "norm.weight", "norm.bias"], "y"), node("Add", ["y", "x"], "z")]
    assert named_weights(tensors, nodes).keys() == {"norm.bias", "norm.weight"}


def test_quantized_matrices_are_numbers_again():
    whole = np.array([[-128, 0], [5, 127]], dtype=np.int8)
    tensors = {"query.bias": np.ones(2)}
    for name in ("m", "words.weight"):
        tensors |= {f"{name}_quantized": whole, f"{name}_scale": np.float32(0.5)}
        tensors |= {f"{name}_zero_point": np.int8(1)}
    nodes = [
        node("DequantizeLinear", ["m_quantized", "m_scale", "m_zero_point"], "m_number"),
        node("MatMul", ["x", "m_number"], "product"),
        node("QuantizeLinear", ["product", "scale", "zero"], "small"),
        node("DequantizeLinear", ["small", "scale", "zero"], "number"),
        node("Add", ["query.bias", "number"], "y"),
    ]
    found = named_weights(tensors, nodes)
    numbers = np.array([[-64.5, -0.5], [2.0, 63.0]])
    np.testing.assert_array_equal(found["query.weight"], numbers.T)
    np.testing.assert_array_equal(found["words.weight"], numbers)


def test_matrices_of_whole_numbers_with_a_scale_per_column_are_numbers_again():
    whole, scales = np.array([[-128, 0, 3], [5, 127, 1]], dtype=np.int8), np.float32([0.5, 0.25, 2])
    tensors = {"query.bias": np.ones(3), "m_quantized": whole, "m_scale": scales}
    tensors |= {"m_zero_point": np.int8([0, 1, 0])}
    nodes = [
        node("MatMulInteger", ["x_quantized", "m_quantized", "x_zero_point", "m_zero_point"], "product"),
        node("Cast", ["product"], "cast"),
        node("Mul", ["x_scale", "m_scale"], "scales"),
        node("Mul", ["cast", "scales"], "scaled"),
        node("Add", ["query.bias", "scaled"], "y"),
    ]
    numbers = np.array([[-64, -0.25, 6], [2.5, 31.5, 2]])
    np.testing.assert_array_equal(named_weights(tensors, nodes)["query.weight"], numbers.T)


def test_layers_are_counted():
    assert layers(["encoder.layer.0.a", "encoder.layer.11.b", "pooler.a"], "encoder.layer.") == 12


def test_each_encoder_is_a_backbone_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr(real_encoders, "corpus_file", lambda work, sentences: work / f"{sentences}.txt")
    backbones = {name: make_job(name, tmp_path).about["family"].split()[0] for name in KNOWN}
    assert all(name.startswith(backbone) for name, backbone in backbones.items())
    assert len(set(backbones.values())) == len(KNOWN) - 1  # DistilBERT is there twice


def test_folders_are_made_once_and_never_by_halves(tmp_path, monkeypatch):
    made = []

    def make(_, output):
        made.append(output)
        (output / "part").mkdir(parents=True)
        if len(made) == 1:
            raise OSError("the disk is full")

    monkeypatch.setitem(KNOWN, "potion", Known(make, "potion"))
    with pytest.raises(OSError, match="full"):
        encoder_folder("potion", tmp_path, tmp_path)
    assert not (tmp_path / "potion").exists()
    for _ in range(2):
        assert (encoder_folder("potion", tmp_path, tmp_path) / "part").exists()
    assert len(made) == 2


@pytest.mark.parametrize(("score", "same"), [(83.4, True), (70.0, False)])
def test_a_score_that_was_not_published_is_told(tmp_path, score, same):
    file = tmp_path / "mpnet-1.json"
    of = f'{{"STS-B": {score}, "AVG": 80}}'
    scores = f'{{"cosine": {of}, "centered -0.25": {of}, "ranks": {of}}}'
    file.write_text(f'{{"profiles": {{"E1": {{"scores": {scores}}}}}}}')
    assert ("NOT THE SAME" in report("mpnet", file)) is not same
