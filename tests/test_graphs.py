"""Steps of compiled layers, on a CPU: what is captured there is a plain function, in the place of a graph."""

import shutil
import sys
import warnings

import pytest
import torch
from torch._dynamo.backends.registry import lookup_backend
from torch._inductor import config as inductor

from rankencoder.errors import TrainingWarning
from rankencoder.training import plan
from rankencoder.training.config import TrainConfig
from rankencoder.training.loop import graphs, stage
from rankencoder.training.loop.graphs import GraphedStep, compiled_layers
from rankencoder.training.methods import ConSERT, ESimCSE, PromptBERT, SimCSE

# at a lower temperature there is nothing to learn
METHODS = [method(temperature=1.0) for method in (SimCSE, PromptBERT, ConSERT)]


@pytest.fixture
def compilations(monkeypatch):
    """Compile without a C compiler; a list of what was compiled."""
    made, compile_, backend = [], torch.compile, lookup_backend("aot_eager")

    def counted(graph, inputs):
        made.append(graph)
        return backend(graph, inputs)

    monkeypatch.setattr(torch, "compile", lambda *a, **k: compile_(*a, **k, backend=counted))
    torch._dynamo.reset()
    yield made
    torch._dynamo.reset()


def layers_of(model):
    return list(model[0].auto_model.encoder.layer)


def loss_and_gradients(made):
    made.loss.zero_grad()
    torch.manual_seed(3)  # of augmentations
    loss = made.loss([dict(made.features)])
    loss.backward()
    gradients = {name: p.grad.clone() for name, p in made.loss.named_parameters() if p.grad is not None}
    return {"loss": loss.detach(), **gradients}


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_losses_and_gradients_of_compiled_layers(build_loss, compilations, method):
    made = build_loss("bert", method)
    expected = loss_and_gradients(made)
    assert not compilations
    with compiled_layers(made.loss.model):
        found = loss_and_gradients(made)
    assert compilations
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert max(float(value.abs().max()) for value in expected.values()) > 0.01


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_losses_and_gradients_of_layers_in_machine_code(build_loss, method):
    made = build_loss("bert", method)
    expected = loss_and_gradients(made)
    with compiled_layers(made.loss.model):
        torch.testing.assert_close(loss_and_gradients(made), expected, rtol=1e-4, atol=1e-5)
    torch._dynamo.reset()


def test_one_compilation_serves_all_layers(build_loss, compilations):
    made = build_loss("bert", SimCSE())
    for _ in range(3):
        with compiled_layers(made.loss.model):
            loss_and_gradients(made)
    assert len(layers_of(made.model)) == 2
    assert len(compilations) == 1


def test_layers_are_their_own_afterwards(build_loss):
    made = build_loss("bert", SimCSE())
    first, second = layers_of(made.model)
    second.forward = own = torch.nn.Identity().forward
    with compiled_layers(made.loss.model):
        assert "forward" in vars(first)
        assert second.forward is not own
    assert "forward" not in vars(first)
    assert vars(second)["forward"] is own
    with pytest.raises(KeyError), compiled_layers(made.loss.model):
        raise KeyError
    assert "forward" not in vars(first)
    assert vars(second)["forward"] is own


def test_a_layer_that_is_there_twice(compilations):
    layer = torch.nn.Linear(3, 3)
    model = torch.nn.ModuleList([layer, layer, torch.nn.Sequential(torch.nn.ModuleList([layer]))])
    rows = torch.ones(2, 3)
    expected = layer(rows)
    with compiled_layers(model):
        torch.testing.assert_close(layer(rows), expected)
    assert len(compilations) == 1
    assert "forward" not in vars(layer)


def test_layers_are_left_alone_where_nothing_can_be_compiled(build_loss, monkeypatch):
    def refuse_the_second(forward, **_):
        if forward == second.forward:
            raise RuntimeError("not on this Python")
        return lambda *_: None

    made = build_loss("bert", SimCSE())
    first, second = layers_of(made.model)
    monkeypatch.setattr(torch, "compile", refuse_the_second)
    with pytest.raises(RuntimeError, match="not on this Python"), compiled_layers(made.loss.model):
        pass
    assert "forward" not in vars(first)
    assert "forward" not in vars(second)


@pytest.fixture
def capture(monkeypatch):
    """Captures that fail as often as asked; a list that says of each whether layers were compiled."""

    monkeypatch.setattr(graphs, "_OFTEN", 1)

    def fail(times, model):
        captured = []

        def make(run, pool):
            # an error would hold the memory of the step that failed
            assert sys.exc_info() == (None, None, None)
            captured.append("forward" in vars(layers_of(model)[0]))
            run()
            if len(captured) <= times:
                raise RuntimeError(f"failure {len(captured)}\nand more")
            return run

        monkeypatch.setattr(graphs, "capture", make)
        return captured

    return fail


def tensors(made):
    return {name: value for name, value in made.features.items() if isinstance(value, torch.Tensor)}


def shorter(features):
    return {name: value[: 2 if name == "rows" else 4] for name, value in features.items()}  # two views


def test_captured_layers_are_compiled(build_loss, capture):
    made = build_loss("bert", SimCSE())
    captured, step = capture(0, made.model), GraphedStep(made.loss, torch.Tensor.backward, compiled=True)
    assert step.fits(tensors(made))
    assert step.fits(tensors(made))
    assert captured == [True]
    assert "forward" not in vars(layers_of(made.model)[0])
    loss, parts = step(tensors(made))
    assert parts.shape == (len(made.loss.logged),)
    found = {
        "loss": loss,
        **{name: p.grad.clone() for name, p in made.loss.named_parameters() if p.grad is not None},
    }
    torch.testing.assert_close(found, loss_and_gradients(made))
    assert step.fits(shorter(tensors(made)))
    assert captured == [True, True]


def test_layers_that_cannot_be_compiled_are_captured_as_they_are(build_loss, capture):
    made = build_loss("bert", SimCSE())
    captured, step = capture(1, made.model), GraphedStep(made.loss, torch.Tensor.backward, compiled=True)
    with pytest.warns(TrainingWarning, match="^layers are not compiled, which is slower: failure 1$") as told:
        assert step.fits(tensors(made))
    assert sum(warning.category is TrainingWarning for warning in told) == 1
    assert captured == [True, False]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert step.fits(shorter(tensors(made)))
    assert captured == [True, False, False]


def test_rare_shapes_have_no_graph(build_loss, capture, monkeypatch):
    monkeypatch.setattr(graphs, "_OFTEN", 3)
    made = build_loss("bert", SimCSE())
    captured, step = capture(0, made.model), GraphedStep(made.loss, torch.Tensor.backward)
    usual, rare = tensors(made), shorter(tensors(made))
    found = [step.fits(batch) for batch in (usual, rare, usual, rare, usual, usual)]
    assert found == [False, False, False, False, True, True]
    assert captured == [False]


def test_steps_that_cannot_be_captured_at_all(build_loss, capture):
    made = build_loss("bert", SimCSE())
    captured, step = capture(2, made.model), GraphedStep(made.loss, torch.Tensor.backward, compiled=True)
    with pytest.warns(TrainingWarning) as told:
        assert not step.fits(tensors(made))
    # the compiler has warnings of its own, the first time that it is imported
    assert [str(warning.message) for warning in told if warning.category is TrainingWarning] == [
        "layers are not compiled, which is slower: failure 1",
        "steps are not replayed as CUDA graphs, which is slower: failure 2",
    ]
    assert captured == [True, False]
    assert all(p.grad is None for p in made.loss.parameters())  # else the plain step would add to them
    assert not step.works
    assert not step.fits(shorter(tensors(made)))
    assert captured == [True, False]


def test_a_machine_without_a_compiler(build_loss, monkeypatch):
    def make(run, pool):
        run()
        return run

    made = build_loss("bert", SimCSE())
    monkeypatch.setattr(graphs, "capture", make)
    monkeypatch.setattr(graphs, "_OFTEN", 1)
    step = GraphedStep(made.loss, torch.Tensor.backward, compiled=True)
    torch._dynamo.reset()
    with (
        inductor.patch({"cpp.cxx": ("no-such-compiler",), "force_disable_caches": True}),
        pytest.warns(TrainingWarning, match="layers are not compiled, .*No working C\\+\\+ compiler"),
    ):
        assert step.fits(tensors(made))
    torch._dynamo.reset()
    assert step.works
    assert not step.compiled


@pytest.mark.parametrize(
    ("settings", "method"),
    [
        ({"device": "cpu"}, SimCSE()),
        ({"cuda_graphs": False}, SimCSE()),
        ({"gradient_accumulation": 2}, SimCSE()),
        ({}, ESimCSE()),
    ],
)
def test_where_compile_is_ignored_it_is_said(monkeypatch, settings, method):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.warns(TrainingWarning, match="^compile is ignored: "):
        plan.check_compile(TrainConfig(compile=True, **settings), method)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plan.check_compile(TrainConfig(**settings), method)
        plan.check_compile(TrainConfig(compile=True), SimCSE())
    assert stage.uses_graphs(TrainConfig(compile=True), SimCSE())


@pytest.mark.parametrize(
    ("settings", "sentences", "compiled"),
    [
        ({}, 299_999, False),
        ({}, 300_000, True),
        ({"epochs": 0.5}, 300_000, False),
        ({"max_steps": 4000}, 1_000_000, False),
        ({"max_steps": 5000}, 1_000_000, True),
        ({"compile": True}, 10, True),
        ({"compile": False}, 10**6, False),
    ],
)
def test_layers_are_compiled_by_default_where_a_stage_is_long(settings, sentences, compiled):
    assert stage.is_compiled(TrainConfig(**settings), sentences) is compiled


def test_a_training_says_once_that_compile_is_ignored(train):
    with pytest.warns(TrainingWarning) as told:
        run = train(compile=True, device="cpu", max_steps=1)
    ignored = [w for w in told if "compile is ignored" in str(w.message)]
    assert len(ignored) == 1
    assert ignored[0].filename.endswith("conftest.py")  # where train was called
    assert len(run.record["stages"]) == 2
