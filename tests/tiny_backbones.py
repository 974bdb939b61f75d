"""Tokenizers of the kinds that there are, trained on the spot, and random models that read them."""

import json
import re
import string

import torch

from rankencoder.training.backbones.templates import Template

BERT = Template('This sentence of "', '" means{mask}.')
ROBERTA = Template("This sentence : ' ", " ' means{mask}.")
SNCSE = Template('This sentence : " ', ' " means {mask} .')
CAUSAL = Template('This sentence : "', '" means in one word:"')

TEXTS = [
    "A cat sleeps on the warm windowsill",
    "Hi!",
    "",
    "Is it “here”?",
    "The Cat sees the DOG, and the river moves the old house: naïve, isn't it",
]
CORPUS = [*TEXTS, "This sentence of the means in one word: '", 'The sentence : "a cat" means a dog.'] * 3


def word_pieces():
    from transformers import BertTokenizer

    letters = string.ascii_lowercase + string.digits + string.punctuation + "“”"
    words = sorted({word for text in CORPUS for word in re.findall("[a-z]{2,}", text.lower())})
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{c}" for c in letters), *words]
    return BertTokenizer(vocab={token: i for i, token in enumerate(tokens)}, model_max_length=64)


def byte_pairs(special):
    """A byte-level BPE, trained on the spot."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


def model_of(tokenizer):
    """Vocabulary and merges."""
    model = json.loads(tokenizer.to_str())["model"]
    return {"vocab": model["vocab"], "merges": [tuple(merge) for merge in model["merges"]]}


def roberta_tokenizer():
    from transformers import RobertaTokenizer

    trained = byte_pairs(["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    return RobertaTokenizer(**model_of(trained), model_max_length=64)


def modernbert_tokenizer():
    from tokenizers import AddedToken, normalizers, processors
    from transformers import PreTrainedTokenizerFast

    backend = byte_pairs(["[PAD]", "[UNK]", "[CLS]", "[SEP]"])
    backend.add_special_tokens([AddedToken("[MASK]", lstrip=True, normalized=False)])
    backend.normalizer = normalizers.NFC()
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    return PreTrainedTokenizerFast(tokenizer_object=backend, **names, model_max_length=64)


def llama_tokenizer(end=""):
    """Llama 3's kind: byte-level, with a beginning, a chat template and no padding token."""
    from tokenizers import processors
    from transformers import PreTrainedTokenizerFast

    backend = byte_pairs(["<|begin|>", "<|end|>"])
    backend.post_processor = processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=True),
            processors.TemplateProcessing(
                single=f"<|begin|> $A {end}".strip(), special_tokens=[("<|begin|>", 0), ("<|end|>", 1)]
            ),
        ]
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token="<|begin|>", eos_token="<|end|>", model_max_length=64
    )
    tokenizer.chat_template = "{% for message in messages %}[{{ message['content'] }}]{% endfor %}"
    return tokenizer


def gpt2_tokenizer():
    from transformers import GPT2Tokenizer

    return GPT2Tokenizer(**model_of(byte_pairs(["<|endoftext|>"])), model_max_length=64)


def metaspace_tokenizer(scheme="always"):
    """Llama 2's kind: the beginning of a word is marked, and so is the beginning of a text."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer(models.BPE(unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme)
    special = ["<unk>", "<s>", "</s>", "<mask>"]
    backend.train_from_iterator(
        CORPUS, trainers.BpeTrainer(vocab_size=300, special_tokens=special, show_progress=False)
    )
    backend.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    names = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>", "mask_token": "<mask>"}
    return PreTrainedTokenizerFast(tokenizer_object=backend, **names, model_max_length=64)


def tiny_model(kind, tokenizer):
    from transformers import AutoConfig, AutoModel

    size = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    if kind == "distilbert":
        size = {"dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 64}
    if kind == "gpt2":
        size = {"n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 80}
    if kind in ("llama", "qwen2"):
        size["num_key_value_heads"] = 2
    if kind != "gpt2":
        size["max_position_embeddings"] = 80
    pad = {"pad_token_id": tokenizer.pad_token_id}
    if kind == "modernbert":
        ids = {"cls_token_id": 2, "sep_token_id": 3, "bos_token_id": 2, "eos_token_id": 3}
        pad |= ids
    config = AutoConfig.for_model(kind, vocab_size=len(tokenizer), initializer_range=0.5, **size, **pad)
    torch.manual_seed(0)
    return AutoModel.from_config(config).eval()


def masked_language_model(folder):
    """A random two-layer BERT with its language modeling head, saved to a folder."""
    from transformers import BertConfig, BertForMaskedLM

    tokenizer = word_pieces()
    tokenizer.save_pretrained(folder)
    size = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    torch.manual_seed(0)
    config = BertConfig(vocab_size=len(tokenizer), max_position_embeddings=64, initializer_range=0.2, **size)
    BertForMaskedLM(config).save_pretrained(folder)
    return folder


KINDS = {
    "bert": (word_pieces, BERT, "promptbert"),
    "distilbert": (word_pieces, SNCSE, "sncse"),
    "roberta": (roberta_tokenizer, ROBERTA, "promptbert"),
    "modernbert": (modernbert_tokenizer, ROBERTA, "promptbert"),
    "llama": (llama_tokenizer, CAUSAL, "none"),
    "gpt2": (gpt2_tokenizer, CAUSAL, "none"),
}
