"""SimCSE's vectors as a mean over tokens, on tiny models of every family, saved and loaded again."""

import pytest
import torch
from sentence_transformers import SentenceTransformer
from tiny_backbones import KINDS, tiny_model
from transformers import AutoModel

from rankencoder.errors import InputError
from rankencoder.training import SimCSE
from rankencoder.training.backbones.backbone import load_backbone
from rankencoder.training.methods import make_method, methods

SENTENCES = ["the old cat sees a river.", "a dog sleeps here", "it is warm and it moves."]
BUILT_ON_IT = sorted(name for name, method in methods().items() if issubclass(method, SimCSE))


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    made = {}
    for family in ("bert", "roberta", "distilbert", "modernbert", "llama"):
        made[family] = folder = tmp_path_factory.mktemp(family)
        tokenizer = KINDS[family][0]()
        tokenizer.save_pretrained(folder)
        tiny_model(family, tokenizer).save_pretrained(folder)
    return made


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert", "modernbert", "llama"])
def test_a_saved_vector_is_the_mean_of_the_states_of_all_tokens(folders, tmp_path, family):
    made = SimCSE(pooling="mean").encoder(load_backbone(str(folders[family])))
    made.save_pretrained(str(tmp_path / "saved"))
    model = SentenceTransformer(str(tmp_path / "saved"), device="cpu", local_files_only=True)
    plain = AutoModel.from_pretrained(folders[family]).eval()
    for text in SENTENCES:
        ids = model.tokenizer(text, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            expected = plain(input_ids=ids).last_hidden_state.mean(dim=1)[0]
        torch.testing.assert_close(model.encode(text, convert_to_tensor=True), expected, rtol=0, atol=1e-5)
    together = torch.stack([model.encode(text, convert_to_tensor=True) for text in SENTENCES])
    batch = model.encode(SENTENCES, convert_to_tensor=True)
    torch.testing.assert_close(batch, together, rtol=0, atol=1e-5)  # padding does not count


@pytest.mark.parametrize("name", BUILT_ON_IT)
def test_every_method_built_on_simcse_has_the_option(folders, name):
    backbone = load_backbone(str(folders["bert"]))
    method = make_method(name, {"pooling": "mean"}, methods()[name].defaults(backbone))
    assert method.encoder(backbone)[1].pooling_mode == "mean"
    with pytest.raises(InputError, match="pooling"):
        make_method(name, {"pooling": "max"}, {})
