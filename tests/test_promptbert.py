"""PromptBERT's template bias, against the template read by hand."""

import numpy as np
import pytest
import torch
from loss_oracles import MASKED, SENTENCES, cosines_by_hand, info_nce_by_hand
from tiny_backbones import TEXTS, tiny_model, word_pieces

from rankencoder.training.backbones.backbone import load_backbone
from rankencoder.training.loop.collator import ViewCollator
from rankencoder.training.methods import SNCSE, PromptBERT


def bias_by_hand(folder, ids, before, n, first=0):
    """The states of a template whose second part stands n positions further on."""
    from transformers import AutoModel

    tokens = torch.tensor([ids])
    positions = torch.arange(len(ids)) + torch.where(torch.arange(len(ids)) < before, 0, n) + first
    with torch.no_grad():
        return AutoModel.from_pretrained(folder)(tokens, position_ids=positions[None]).last_hidden_state[0]


def biases(made, longest):
    """The tables of both templates, up to a sentence of so many tokens."""
    width = longest + max(map(len, made.loss.empty))
    return torch.stack([table[: longest + 1] for table in made.loss.biases(width, torch.device("cpu"))])


@pytest.mark.parametrize(("kind", "first"), [("bert", 0), ("distilbert", 0), ("roberta", 2)])
def test_the_bias_is_the_templates_state_at_shifted_positions(build_loss, masked_models, kind, first):
    made = build_loss(kind, PromptBERT())
    tokenizer = made.backbone.tokenizer
    starts, end = ('This sentence of "', 'This sentence : "'), '" means[MASK].'
    if kind == "roberta":
        starts, end = ("This sentence : '", "The sentence : '"), " ' means<mask>."
    tables = biases(made, 6)
    assert tables.shape == (2, 7, 32)
    for start, table in zip(starts, tables, strict=True):
        head, tail = (tokenizer(part, add_special_tokens=False)["input_ids"] for part in (start, end))
        ids = [tokenizer.cls_token_id, *head, *tail, tokenizer.sep_token_id]
        for n in (0, 1, 6):
            states = bias_by_hand(masked_models[kind], ids, 1 + len(head), n, first)
            state = states[ids.index(tokenizer.mask_token_id)]
            torch.testing.assert_close(table[n], state, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", MASKED)
def test_the_bias_is_the_state_with_tokens_that_nobody_sees(build_loss, kind):
    made = build_loss(kind, PromptBERT())
    ids = torch.tensor([made.model.tokenizer("")["input_ids"]])
    before = ids.shape[1] - 5  # quotation mark, means, mask, full stop, end
    inserted = torch.tensor([[7, 9, 11]])
    row = torch.cat([ids[:, :before], inserted, ids[:, before:]], dim=1)
    mask = torch.ones_like(row)
    mask[:, before : before + 3] = 0
    state = made.model({"input_ids": row, "attention_mask": mask})["sentence_embedding"][0]
    torch.testing.assert_close(biases(made, 8)[0, 3], state, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", MASKED)
def test_an_empty_sentence_says_what_its_template_says(build_loss, kind):
    """Section 2.9: h_T("") = b_T(0), so that nothing is left of it."""
    made = build_loss(kind, PromptBERT(), ["", *SENTENCES])
    inputs = {name: made.features[name] for name in ("input_ids", "attention_mask")}
    vectors = made.loss.encode(inputs, 5)
    left = made.loss.adjust(vectors, inputs)
    torch.testing.assert_close(left[0], torch.zeros(2, 32), rtol=0, atol=2e-6)
    assert left[1:].abs().amax(dim=-1).min() > 1e-2
    alone = build_loss(kind, PromptBERT(), [""])
    own = {name: alone.features[name] for name in inputs}
    assert torch.equal(alone.loss.adjust(alone.loss.encode(own, 1), own), torch.zeros(1, 2, 32))


@pytest.mark.parametrize("kind", MASKED)
def test_each_sentence_loses_the_bias_of_its_own_length(build_loss, kind):
    made = build_loss(kind, PromptBERT())
    inputs = {name: made.features[name] for name in ("input_ids", "attention_mask")}
    vectors = made.loss.encode(inputs, 4)
    tables = biases(made, 40)
    left = made.loss.adjust(vectors, inputs)
    template = len(made.model.tokenizer("")["input_ids"])
    for i, text in enumerate(SENTENCES):
        n = len(made.model.tokenizer(text)["input_ids"]) - template
        for view in range(2):
            torch.testing.assert_close(left[i, view], vectors[i, view] - tables[view, n], rtol=0, atol=1e-5)
    np.testing.assert_allclose(vectors[:, 0].detach(), made.model.encode(SENTENCES), atol=1e-5)


def test_the_head_sees_vectors_less_their_bias_and_ranks_see_vectors(build_loss):
    made = build_loss("bert", PromptBERT(temperature=0.5))
    inputs = {name: made.features[name] for name in ("input_ids", "attention_mask")}
    with torch.no_grad():
        vectors = made.loss.encode(inputs, 4)
        outputs = made.loss.head(made.loss.adjust(vectors, inputs))
    expected = info_nce_by_hand(cosines_by_hand(outputs[:, 0], outputs[:, 1]), 0.5)
    assert made.loss([made.features]).item() == pytest.approx(expected, rel=1e-4)
    objective = made.loss.objective(made.features)
    np.testing.assert_allclose(objective.vectors[0].detach(), made.model.encode(SENTENCES), atol=1e-5)
    torch.testing.assert_close(objective.vectors, vectors.transpose(0, 1))
    torch.testing.assert_close(objective.outputs, outputs.transpose(0, 1))


def test_the_bias_is_under_dropout_and_learns(build_loss):
    made = build_loss("bert", PromptBERT())
    made.model.train()
    one, two = (biases(made, 3) for _ in range(2))
    assert (one - two).abs().max() > 1e-2
    one.sum().backward()
    assert made.model[0].model.embeddings.word_embeddings.weight.grad.any()


@pytest.mark.parametrize("kind", MASKED)
@pytest.mark.parametrize("method", [PromptBERT(), SNCSE()])
def test_one_mask_a_row(build_loss, kind, method):
    mask = "<mask>" if kind == "roberta" else "[MASK]"
    made = build_loss(kind, method, [*TEXTS, f"a {mask} in{mask} a sentence", "a cat " * 50])
    rows = made.features["input_ids"]
    assert rows.shape[0] == 7 * (3 if method.name == "sncse" else 2)
    assert (rows == made.backbone.tokenizer.mask_token_id).sum(dim=1).tolist() == [1] * len(rows)


def test_templates_of_two_lengths(tmp_path):
    from transformers import BertTokenizer

    words = sorted(word_pieces().get_vocab().items(), key=lambda item: item[1])
    names = [word for word, _ in words if word != "of"]
    tokenizer = BertTokenizer(vocab={word: i for i, word in enumerate(names)}, model_max_length=64)
    tokenizer.save_pretrained(tmp_path)
    tiny_model("bert", tokenizer).save_pretrained(tmp_path)
    backbone, method = load_backbone(str(tmp_path)), PromptBERT()
    model = method.encoder(backbone)
    loss = method.loss(model, backbone).eval()
    batch = ViewCollator(method, backbone, 32)([{"row": 0, "text": ""}, {"row": 1, "text": "A cat."}])
    inputs = {name: batch[f"views_{name}"] for name in ("input_ids", "attention_mask")}
    left = loss.adjust(loss.encode(inputs, 2), inputs)
    torch.testing.assert_close(left[0], torch.zeros(2, 32), rtol=0, atol=2e-6)


# --- as the authors' code has it ---

TRAINING = pytest.mark.filterwarnings("ignore::rankencoder.errors.TrainingWarning")


def mask_states(folder, texts):
    """The state of [MASK] of whole texts, one by one and without padding, and their numbers of tokens."""
    from transformers import AutoModel

    backbone = load_backbone(str(folder))
    model = AutoModel.from_pretrained(folder).eval()
    states, lengths = [], []
    for text in texts:
        ids = backbone.tokenizer(text, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            (found,) = model(ids).last_hidden_state[ids == backbone.tokenizer.mask_token_id]
        states.append(found)
        lengths.append(ids.shape[1])
    return torch.stack(states), lengths


@pytest.fixture
def with_tokenizer_of(backbone, tmp_path):
    """Puts the backbone's own tokenizer beside trained weights, without template."""
    import shutil

    def make(folder):
        shutil.copytree(backbone, tmp_path / "plain", dirs_exist_ok=True)
        shutil.copyfile(folder / "model.safetensors", tmp_path / "plain" / "model.safetensors")
        return tmp_path / "plain"

    return make


@TRAINING
def test_dev_pairs_scored_less_the_bias_and_without_full_stop(train, tmp_path, sentences, with_tokenizer_of):
    from scipy.stats import spearmanr
    from scored_pairs import make_pairs, write_pairs
    from sentence_transformers import SentenceTransformer

    pairs = make_pairs(sentences, 40)
    dev = {"dev": [str(write_pairs(tmp_path / "dev.tsv", pairs))], "eval_steps": 2, "max_steps": 4}
    run = train(method="promptbert", options={"dev_bias": True}, **dev)
    folder = with_tokenizer_of(run.folder / "base")
    tokenizer = load_backbone(str(folder)).tokenizer
    head = tokenizer('This sentence of "', add_special_tokens=False)["input_ids"]
    tail = tokenizer('" means[MASK].', add_special_tokens=False)["input_ids"]
    ids = [tokenizer.cls_token_id, *head, *tail, tokenizer.sep_token_id]
    place = ids.index(tokenizer.mask_token_id)
    sides = []
    for side in (0, 1):
        texts = [f'This sentence of "{pair[side]}" means[MASK].' for pair in pairs]
        states, lengths = mask_states(folder, texts)
        added = {length - len(ids) for length in lengths}
        table = {n: bias_by_hand(folder, ids, 1 + len(head), n)[place] for n in added}
        sides.append(states - torch.stack([table[length - len(ids)] for length in lengths]))
    cosines = torch.nn.functional.cosine_similarity(*sides).numpy()
    gold = [pair.score for pair in pairs]
    first, second = run.record["stages"]
    assert first["best"]["dev"] == pytest.approx(spearmanr(gold, cosines).statistic, abs=1e-3)
    # E2 is scored as it is written
    for stage, name in ((first, "base"), (second, "encoder")):
        model = SentenceTransformer(str(run.folder / name), device="cpu")
        a, b = (model.encode([pair[i] for pair in pairs], normalize_embeddings=True) for i in (0, 1))
        as_written = spearmanr(gold, (a * b).sum(axis=1)).statistic
        assert (abs(stage["best"]["dev"] - as_written) < 1e-6) == (name == "encoder")


@TRAINING
def test_e1_reads_the_training_sentences_in_another_template(train, sentences, with_tokenizer_of):
    from rankencoder.encoders import Encoder

    learns = {"combine": "sum", "rank_loss_weight": 3.0, "max_steps": 2}
    runs = {
        template: train(template, method="promptbert", options={"teacher_template": template}, **learns)
        for template in ("same", "authors")
    }
    base = runs["authors"].folder / "base"
    found = PromptBERT(teacher_template="authors").teaching_encoder(Encoder(base, device="cpu"))(
        sentences[:3]
    )
    texts = [f"This sentence : ' {text}. ' means[MASK]." for text in sentences[:3]]
    expected, _ = mask_states(with_tokenizer_of(base), texts)
    torch.testing.assert_close(found, torch.nn.functional.normalize(expected, dim=1), rtol=0, atol=1e-5)
    # stage 2 learns from these vectors
    targets = [
        next(entry["target"] for entry in run.record["history"] if "target" in entry) for run in runs.values()
    ]
    assert abs(targets[0] - targets[1]) > 1e-4
