import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, normalize
from sklearn.utils.estimator_checks import check_estimator

from rankencoder import RankTransformer
from rankencoder.errors import InputError


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.parametrize("form", ["exact", "compact", "linear"])
def test_scikit_learns_own_checks(form):
    check_estimator(RankTransformer(form=form))


def test_inner_products_are_the_blend():
    rng = np.random.default_rng(0)
    reference, queries = rng.normal(size=(400, 12)), rng.normal(size=(5, 12))
    blended = RankTransformer(rank_weight=0.4, form="exact").fit(reference).transform(queries)
    unit = normalize(queries)
    ranks = spearmanr(unit @ normalize(reference).T, axis=1).statistic
    assert np.allclose(blended @ blended.T, 0.4 * ranks + 0.6 * unit @ unit.T)


def test_in_a_pipeline_with_names_and_types():
    rng = np.random.default_rng(0)
    reference = rng.normal(size=(60, 8)).astype(np.float32)
    transformer = RankTransformer(form="linear", power=-0.25)
    pipeline = make_pipeline(StandardScaler(), clone(transformer)).fit(reference)
    assert pipeline.transform(reference).dtype == np.float32
    assert len(pipeline.get_feature_names_out()) == 16


def test_extreme_vectors():
    rng = np.random.default_rng(0)
    transformer = RankTransformer(form="exact").fit(rng.normal(size=(50, 4)))
    row = np.array([[1.0, 2.0, -1.0, 0.5]])
    assert np.allclose(transformer.transform(row * 1e300), transformer.transform(row))
    assert np.allclose(transformer.transform(row * 1e-300), transformer.transform(row))
    assert np.array_equal(transformer.transform(row * 0), np.zeros((1, 54)))
    centered = RankTransformer(form="linear", power=-0.5).fit(rng.normal(size=(50, 4)) + 1)
    assert np.array_equal(centered.transform(row * 0), np.zeros((1, 8)))
    with pytest.raises(InputError, match="between 0"):
        transformer.set_params(rank_weight=5).transform(row)
    with pytest.raises(InputError, match="between 0"):
        RankTransformer(rank_weight=5).fit(row.repeat(3, axis=0))


def test_the_default_is_compact():
    rng = np.random.default_rng(0)
    transformer = RankTransformer().fit(rng.normal(size=(2000, 12)))
    assert transformer.transform(rng.normal(size=(3, 12))).shape == (3, 268)
    assert len(transformer.get_feature_names_out()) == 268
    assert len(transformer.set_params(rank_weight=0).get_feature_names_out()) == 12
