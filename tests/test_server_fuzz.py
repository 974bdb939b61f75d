"""Schemathesis sends what the OpenAPI document allows, and what it does not."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from live_server import serving
from schemathesis import GenerationMode, checks

from rankencoder.errors import InputError
from rankencoder.search.index_rows import Hit


class Index:
    """Stands in for a RankIndex."""

    model = calibration = curve = None
    folder = SimpleNamespace(config=Path(__file__), path=Path(__file__).parent)

    def search(self, vector, k, where=None):
        if where:
            raise InputError(f"cannot filter by {where!r}")
        return [Hit("1", "found", 0.5, None)] * min(k, 3)


@pytest.fixture(scope="module")
def api(tiny_model):
    with serving(tiny_model, index=Index(), name="tiny") as url:
        yield schemathesis.openapi.from_url(f"{url}/openapi.json")


CHECKS = (
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
)
OPERATIONS = (
    ("POST", "/v1/embeddings"),
    ("POST", "/similarity"),
    ("POST", "/explain"),
    ("POST", "/search"),
    ("GET", "/v1/models"),
    ("GET", "/v1/models/{name}"),
    ("GET", "/metrics"),
    ("GET", "/health"),
)


def test_every_operation_is_tried(api):
    found = {(o.ok().method.upper(), o.ok().path) for o in api.get_all_operations()}
    assert found == set(OPERATIONS)


@pytest.mark.parametrize(
    ("method", "path", "mode"),
    [
        *((method, path, GenerationMode.POSITIVE) for method, path in OPERATIONS),
        *((method, path, GenerationMode.NEGATIVE) for method, path in OPERATIONS if method == "POST"),
    ],
)
def test_answers_are_as_described_and_never_a_fault_of_ours(api, method, path, mode):
    telling = checks.negative_data_rejection if mode is GenerationMode.NEGATIVE else refused_for_a_reason

    @given(case=api[path][method].as_strategy(generation_mode=mode))
    @settings(
        max_examples=30 if method == "POST" else 5,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def send(case):
        case.call_and_validate(checks=[*CHECKS, telling])

    send()


REASONS = ("cannot filter", "no model", "Not Found", "the model has")


def refused_for_a_reason(ctx, response, case):
    """What the document allows is answered, but for what it does not know: filters, names, dimensions."""
    if response.status_code != 200:
        assert response.json()["error"]["message"].removeprefix("dimensions: ").startswith(REASONS)
