import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from sklearn.decomposition import PCA

from rankencoder.errors import InputError
from rankencoder.forms import fit_form, restore_form
from rankencoder.forms.compact import split
from rankencoder.forms.linear import matrix_power


@pytest.fixture(scope="module")
def reference():
    """Unit vectors that vary much more in some directions than in others, around a common mean."""
    generator = torch.Generator().manual_seed(0)
    scales = torch.logspace(0, -2, 24, dtype=torch.float64)
    vectors = torch.randn(1500, 24, generator=generator, dtype=torch.float64) * scales + 0.1
    return torch.nn.functional.normalize(vectors, dim=1)


@pytest.fixture(scope="module")
def queries(reference):
    generator = torch.Generator().manual_seed(1)
    noise = 0.3 * torch.randn(200, 24, generator=generator, dtype=torch.float64)
    return torch.nn.functional.normalize(reference[:200] + noise, dim=1)


def cosines(form, vectors):
    parts = form(vectors)
    assert torch.allclose(parts.norm(dim=1), torch.ones(len(parts), dtype=parts.dtype), atol=1e-6)
    return (parts @ parts.T).numpy()


def above_diagonal(matrix):
    return np.asarray(matrix)[np.triu_indices(len(matrix), k=1)]


def test_exact_form_is_spearmans_correlation(reference, queries):
    expected = spearmanr((queries @ reference.T).numpy(), axis=1).statistic
    assert np.allclose(cosines(fit_form("exact", reference), queries), expected, atol=1e-9)


def test_linear_form_at_one_half_is_pearsons_correlation(reference, queries):
    expected = np.corrcoef((queries @ reference.T).numpy())
    assert np.allclose(cosines(fit_form("linear", reference), queries), expected, atol=1e-9)


def test_linear_form_at_zero_is_plain_cosine(reference, queries):
    assert np.allclose(
        cosines(fit_form("linear", reference, power=0), queries), (queries @ queries.T).numpy()
    )


def test_linear_form_at_minus_one_half_is_whitening(reference, queries):
    whitened = PCA(whiten=True).fit(reference.numpy()).transform(queries.numpy())
    whitened /= np.linalg.norm(whitened, axis=1, keepdims=True)
    form = fit_form("linear", reference, power=-0.5)
    assert form.center
    assert np.allclose(cosines(form, queries), whitened @ whitened.T, atol=1e-9)


@pytest.mark.parametrize("power", [-0.5, -0.25, 0.25, 1])
def test_powers_of_a_covariance(reference, power):
    covariance = torch.cov(reference.T)
    result = matrix_power(covariance, power)
    back = matrix_power(result, 1 / power)
    assert torch.allclose(back, covariance, rtol=1e-6, atol=1e-9)


def test_negative_powers_ignore_directions_without_variance():
    flat = torch.nn.functional.normalize(
        torch.randn(50, 6, generator=torch.Generator().manual_seed(0)), dim=1
    )
    flat = torch.cat([flat, torch.zeros(50, 4)], dim=1)
    query = torch.nn.functional.normalize(torch.ones(1, 10), dim=1)
    mapped = fit_form("linear", flat, power=-0.5)(query)
    assert torch.isfinite(mapped).all()
    assert mapped[0, 6:].abs().max() < 1e-3


def test_compact_form_keeps_the_similarities(reference, queries):
    exact = above_diagonal(cosines(fit_form("exact", reference), queries))
    previous = 0.0
    for dim in (4, 16, 64, 256):
        fidelity = spearmanr(
            above_diagonal(cosines(fit_form("compact", reference, dim=dim), queries)), exact
        ).statistic
        assert fidelity > previous
        previous = fidelity
    assert previous > 0.999


def test_compact_projection_is_orthonormal_and_no_larger_than_the_corpus(reference):
    form = fit_form("compact", reference, dim=20)
    assert torch.allclose(form.projection.T @ form.projection, torch.eye(20, dtype=torch.float64), atol=1e-6)
    small = fit_form("compact", reference[:6], dim=256)
    assert small.dimension <= 6
    assert torch.isfinite(small(reference[:3])).all()


@pytest.mark.parametrize("name", ["exact", "compact", "linear"])
def test_forms_can_be_restored(reference, queries, name):
    form = fit_form(name, reference)
    again = restore_form(name, form.config(), reference, form.tensors())
    assert torch.equal(again(queries), form(queries))
    assert again.config() == form.config()


def test_settings_belong_to_forms(reference):
    with pytest.raises(InputError, match="unknown form 'rank': use exact, compact, linear"):
        fit_form("rank", reference)
    with pytest.raises(InputError, match="power is not a setting of the compact form, but of linear"):
        fit_form("compact", reference, power=1)
    with pytest.raises(InputError, match="dim must be at least 1"):
        fit_form("compact", reference, dim=0)
    with pytest.raises(InputError, match="power must be between"):
        fit_form("linear", reference, power=3)


@pytest.mark.parametrize("dimension", [1, 3, 384])
def test_split_vectors_have_the_products_of_float32(dimension):
    rng = np.random.default_rng(dimension)
    rows = rng.standard_normal((2, 50, dimension)) * np.geomspace(1, 1e-6, dimension)
    rows[0, 0] = 0
    a, b = rows / np.linalg.norm(rows, axis=2, keepdims=True).clip(1e-9)
    first, second = (torch.from_numpy(x).float() for x in (a, b))
    found = split(first, (0, 1, 0)).double() @ split(second, (0, 0, 1)).double().T / 4096
    assert split(first, (0, 1, 0)).dtype == torch.float16
    assert np.abs(found.numpy() - a @ b.T).max() < 5e-7


def test_a_large_reference_is_fitted_on_fewer_rows(monkeypatch):
    from rankencoder.forms import CompactForm, compact
    from rankencoder.forms.fidelity import measure_form

    rng = np.random.default_rng(0)
    vectors = torch.from_numpy(rng.normal(size=(1500, 24)) * np.linspace(3, 0.3, 24)).float()
    vectors = torch.nn.functional.normalize(vectors, dim=1)
    whole = CompactForm.fit(vectors, dim=60)
    monkeypatch.setattr(compact, "_FIT_BYTES", 4 * 1500 * 200)
    fewer = CompactForm.fit(vectors, dim=60)
    assert len(compact._rows_to_fit(1500, 60)) == 200
    assert torch.allclose(fewer.projection.T @ fewer.projection, torch.eye(60), atol=1e-4)
    a, b = (measure_form(form).spearman for form in (whole, fewer))
    assert b > a - 2e-3
    assert b > 0.99
