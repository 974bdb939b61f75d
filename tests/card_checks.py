"""Whether a model card is what the hub takes, by its own library, and what people can use."""

import re

from huggingface_hub import ModelCard as HubCard
from huggingface_hub import metadata_load
from huggingface_hub.utils import validate_repo_id


def checked(folder):
    """The card of a folder, once it is what the hub takes and what people can use."""
    card = HubCard.load(folder / "README.md")
    data = card.data.to_dict()
    assert data == metadata_load(folder / "README.md")
    assert data["library_name"] in ("rankencoder", "sentence-transformers")
    assert data["pipeline_tag"] == "sentence-similarity"
    assert "license" not in data
    assert "rankencoder" in data["tags"]
    for name in data.get("base_model", []):
        validate_repo_id(name)
    assert "Unknown" not in card.content
    assert not re.search(r"(/tmp|/work|/home|pytest-)\S*", card.content), card.content
    for heading in ("Usage", "What was measured", "How it was made", "Limits", "License"):
        assert f"\n## {heading}\n" in card.content
    return card


def run_usage(card, folder):
    """Run the snippet of a card on its own folder, and return its vectors."""
    code = re.search(r"```python\n(.*?)```", card.content, re.DOTALL)[1]
    names = {}
    exec(code.replace("FOLDER OR HUB NAME", str(folder)), names)
    return names["vectors"]
