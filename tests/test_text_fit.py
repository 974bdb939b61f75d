"""Whether the real all-MiniLM-L6-v2 knows the language of spaCy's example sentences."""

import importlib
import inspect
import warnings

import pytest

from rankencoder import encoders, model
from rankencoder.errors import TextWarning
from rankencoder.text_fit import TextFit, core_tokenizer, foreign_share


def examples(language):
    return importlib.import_module(f"spacy.lang.{language}.examples").sentences * 10


THAI = ["ฉันลืมรหัสผ่านของฉันและต้องการความช่วยเหลือ", "ร้านนี้เปิดกี่โมง", "ขอบคุณมากสำหรับคำตอบของคุณ"] * 20
CODE = [
    line for module in (encoders, model) for line in inspect.getsource(module).splitlines() if line.strip()
]


def warned(encoder, texts):
    fit = TextFit(encoder)
    fit.add(texts)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit.warn()
    return [str(one.message) for one in caught if issubclass(one.category, TextWarning)]


@pytest.mark.parametrize("language", ["el", "ru", "ar", "he", "hi", "ko", "ja", "zh"])
def test_languages_that_a_model_does_not_know_are_told(minilm, language):
    (message,) = warned(minilm, examples(language))
    assert "does it know this language? Try a multilingual model" in message


def test_thai_is_told_and_english_and_code_are_not(minilm):
    assert len(warned(minilm, THAI)) == 1
    for texts in (*map(examples, ("en", "es", "de", "pl", "vi")), CODE, ["ok"] * 20):
        assert warned(minilm, texts) == []


def test_a_tokenizer_of_bytes_is_judged_too():
    """It knows no unknown tokens: letters fall apart into bytes."""
    from tokenizers import ByteLevelBPETokenizer

    tokenizer = ByteLevelBPETokenizer()
    tokenizer.train_from_iterator(examples("en"), vocab_size=600, show_progress=False)
    assert foreign_share(tokenizer._tokenizer, examples("el")) > 0.5
    assert foreign_share(tokenizer._tokenizer, examples("en")) < 0.25


def test_encoders_without_a_tokenizer_fit(callable_encoder):
    encoder = encoders.Encoder(callable_encoder)
    assert core_tokenizer(encoder) is None
    assert warned(encoder, examples("el")) == []
