"""PromptEOL: prompts by hand, dropout in training alone, and what is left of both in the saved folder."""

import copy
import json

import numpy as np
import pytest
import torch
from tiny_backbones import CORPUS, gpt2_tokenizer, llama_tokenizer, tiny_model
from training_runs import same_weights

import rankencoder
from rankencoder.errors import InputError
from rankencoder.training import PromptEOL
from rankencoder.training.backbones.backbone import load_backbone
from rankencoder.training.loop.collator import ViewCollator

TEXTS = ["The cat sees a river.", "An old house", "naïve warm dogs, here", "it moves", ""]
PROMPTS = (
    ('This sentence : "', '" means in one word:"'),
    ('This sentence of "', '" means one word that is:"'),
)
KINDS = {"llama": llama_tokenizer, "qwen2": lambda: without_bos(), "gemma3_text": lambda: gemma_tokenizer()}
KINDS["gpt2"] = gpt2_tokenizer


def without_bos():
    """Qwen's kind: byte-level, with no beginning."""
    from tiny_backbones import byte_pairs
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(tokenizer_object=byte_pairs(["<|end|>"]), pad_token="<|end|>")


def gemma_tokenizer():
    """Gemma's kind, as it is made of a GGUF file: it has a <bos>, and does not put it before a text."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True))
    backend.normalizer = normalizers.Replace(" ", "▁")
    backend.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    backend.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback()])
    special = ["<pad>", "<eos>", "<bos>", "<unk>", *(f"<0x{i:02X}>" for i in range(256))]
    backend.train_from_iterator(
        CORPUS, trainers.BpeTrainer(vocab_size=500, special_tokens=special, show_progress=False)
    )
    names = {f"{name}_token": f"<{name}>" for name in ("pad", "eos", "bos", "unk")}
    return PreTrainedTokenizerFast(tokenizer_object=backend, **names)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    from transformers import AutoConfig, AutoModel

    made = {}
    for kind, make in KINDS.items():
        made[kind] = folder = tmp_path_factory.mktemp(kind)
        tokenizer = make()
        tokenizer.save_pretrained(folder)
        if kind == "gemma3_text":
            torch.manual_seed(0)
            size = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "head_dim": 16}
            size |= {"intermediate_size": 64, "num_key_value_heads": 1, "max_position_embeddings": 80}
            config = AutoConfig.for_model(kind, vocab_size=len(tokenizer), initializer_range=0.5, **size)
            AutoModel.from_config(config).save_pretrained(folder)
        else:
            tiny_model(kind, tokenizer).save_pretrained(folder)
    return made


every_kind = pytest.mark.parametrize("kind", KINDS)


def ids_by_hand(tokenizer, text, before, after):
    """What the plain tokenizer makes of the three parts, behind its beginning."""
    parts = [tokenizer(part, add_special_tokens=False)["input_ids"] for part in (before, text, after)]
    begin = [] if tokenizer.bos_token is None else [tokenizer.bos_token_id]
    return [*begin, *parts[0], *parts[1], *parts[2]]


@every_kind
def test_views_are_the_two_prompts_by_the_plain_tokenizer(folders, kind):
    from transformers import AutoTokenizer

    plain = AutoTokenizer.from_pretrained(folders[kind])
    backbone = load_backbone(str(folders[kind]), dropout=PromptEOL.dropout)
    views = PromptEOL().views({"text": TEXTS}, backbone, 32)
    assert views == [[ids_by_hand(plain, text, *prompt) for text in TEXTS] for prompt in PROMPTS]
    own = PromptEOL(first="Satz: {text} =>", second="{text} heißt:")
    views = own.views({"text": TEXTS[:1]}, backbone, 32)
    assert views[1] == [ids_by_hand(plain, TEXTS[0], "", " heißt:")]


@every_kind
def test_a_saved_folder_is_the_trained_encoder_without_dropout(folders, tmp_path, kind):
    from sentence_transformers import SentenceTransformer
    from transformers import AutoModel, AutoTokenizer

    method = PromptEOL()
    backbone = load_backbone(str(folders[kind]), dropout=method.dropout)
    model = method.encoder(backbone).to("cpu")
    loss = method.loss(model, backbone).train()
    batch = ViewCollator(method, backbone, 32)([{"row": i, "text": text} for i, text in enumerate(TEXTS)])
    features = {name.removeprefix("views_"): value for name, value in batch.items()}
    optimizer = torch.optim.AdamW(loss.parameters(), lr=1e-3)
    for _ in range(2):
        optimizer.zero_grad()
        loss([features]).backward()
        optimizer.step()
    model.eval()
    model.save_pretrained(str(tmp_path))
    config = json.loads((tmp_path / "config.json").read_text())
    assert not any(value for name, value in config.items() if "drop" in name and "summary" not in name)
    vectors = SentenceTransformer(str(tmp_path), device="cpu").encode(TEXTS)
    np.testing.assert_allclose(vectors, model.encode(TEXTS), atol=1e-5)
    plain, tokenizer = AutoModel.from_pretrained(tmp_path), AutoTokenizer.from_pretrained(folders[kind])
    for text, vector in zip(TEXTS, vectors, strict=True):  # (dropout in the model would be active here)
        with torch.no_grad():
            states = plain.train()(torch.tensor([ids_by_hand(tokenizer, text, *PROMPTS[0])]))
        np.testing.assert_allclose(vector, states.last_hidden_state[0, -1], rtol=1e-4, atol=1e-5)


@every_kind
def test_dropout_follows_attention_and_mlp_of_each_layer(folders, kind):
    backbone = load_backbone(str(folders[kind]), dropout=PromptEOL.dropout)
    model = PromptEOL(dropout_rate=0.25).encoder(backbone).to("cpu")
    seen = []

    def look(module, arguments, output):
        output = output if isinstance(output, torch.Tensor) else output[0]
        seen.append((output == 0).float().mean().item())

    names = ("attn", "self_attn", "mlp")
    blocks = [m for name, m in model[0].model.named_modules() if name.rpartition(".")[2] in names]
    assert len(blocks) == 4
    for block in blocks:
        block.register_forward_hook(look)
    inputs = dict(model.preprocess(TEXTS * 4))
    torch.manual_seed(0)
    for mode, share in ((True, 0.25), (False, 0)):
        model.train(mode)
        with torch.no_grad():
            model(dict(inputs))
        np.testing.assert_allclose(seen, share, atol=0.03 * mode)
        assert len(seen) == 4
        seen.clear()


@every_kind
def test_a_copy_drops_by_itself(folders, kind):
    backbone = load_backbone(str(folders[kind]), dropout=PromptEOL.dropout)
    model = PromptEOL().encoder(backbone).to("cpu").eval()
    twin = copy.deepcopy(model).train()

    def vectors(of):
        torch.manual_seed(1)
        with torch.no_grad():
            return of(dict(model.preprocess(TEXTS)))["sentence_embedding"]

    assert torch.equal(vectors(twin), vectors(twin))
    assert not torch.allclose(vectors(twin), vectors(model))
    assert torch.equal(vectors(twin.eval()), vectors(model))


def test_a_model_without_layers_is_refused(folders):
    backbone = load_backbone(str(folders["llama"]))
    backbone.module.model.layers = torch.nn.ModuleList()
    with pytest.raises(InputError, match="method 'prompteol' cannot train .*no layers of attention and MLP"):
        PromptEOL().check(backbone)


@pytest.mark.filterwarnings("ignore::rankencoder.errors.TrainingWarning")
@pytest.mark.parametrize("stage", [1, 2])
def test_both_stages_train_and_resume_to_the_same_weights(train, train_killed, folders, tmp_path, stage):
    settings = {"method": "prompteol", "backbone": str(folders["gemma3_text"]), "save_steps": 2}
    settings |= {"max_steps": 4, "device": "cpu", "combine": "sum", "rank_loss_weight": 1.0}
    whole = train("whole", **settings)
    train_killed("cut", stage=stage, step=3, **settings)
    resumed = rankencoder.train(output=tmp_path / "cut", resume=True, progress=False)
    for part in ("base", "encoder"):
        assert same_weights(whole.folder / part, resumed.folder / part)
    assert not same_weights(whole.folder / "base", whole.folder / "encoder")
    assert resumed.record["config"]["options"]["dropout_rate"] == 0.1
    model = rankencoder.RankEncoder.load(resumed.folder / "rankencoder")
    assert model.encode(TEXTS[:2]).shape[0] == 2
