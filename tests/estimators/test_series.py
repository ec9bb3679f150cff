"""The estimators of series: what they find, what they accept and refuse, and the conventions of scikit-learn."""

import pickle
import time
import warnings
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from erlangen.data import warped_bumps
from erlangen.report.alignment import alignment_figure
from erlangen.utils.io import read_json

sklearn = pytest.importorskip("sklearn", reason="the estimators of series need scikit-learn")

from sklearn.base import clone  # noqa: E402
from sklearn.exceptions import NotFittedError  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402
from sklearn.utils._set_output import ADAPTERS_MANAGER  # noqa: E402
from sklearn.utils.estimator_checks import check_estimator  # noqa: E402

from erlangen.estimators import SeriesAligner, TimeWarpClassifier  # noqa: E402
from erlangen.estimators.bumps import align_bumps  # noqa: E402

QUICK = {"width": 4, "steps": 2, "device": "cpu"}


@pytest.fixture(autouse=True)
def _single():
    """As users have it: networks in single precision."""
    torch.set_default_dtype(torch.float32)


@pytest.fixture(scope="module")
def bumps():
    return warped_bumps(300, seed=0).x.numpy(), warped_bumps(300, seed=1).x.numpy()


@pytest.fixture(scope="module")
def aligner(bumps):
    torch.set_default_dtype(torch.float32)
    start = time.process_time()
    found = SeriesAligner(device="cpu").fit(bumps[0])
    return found, time.process_time() - start


def spread(x):
    return x.var(0).mean()


def test_bumps_are_aligned(aligner, bumps):
    model, seconds = aligner
    assert seconds < 60
    train, unseen = bumps
    assert spread(train) / spread(model.transform(train)) >= 5
    assert spread(unseen) / spread(model.transform(unseen)) >= 5
    assert model.variance_before_ / model.variance_ == pytest.approx(
        spread(train) / spread(model.transform(train)), rel=1e-3
    )
    assert model.theta_.shape == (300, 9)


def test_nothing_is_squeezed_away(aligner, bumps):
    """The mean of the aligned bumps is a bump: a smaller variance is easily had where there is none."""
    mean = aligner[0].mean_[0, 0]
    assert mean.max() > 0.9
    above = (mean > mean.max() / 2).mean() * 2  # of a bump of deviation 0.2, whose width at half its height is 0.47
    assert 0.35 < above < 0.6


def test_back_in_its_own_time(aligner, bumps):
    model, (train, unseen) = aligner[0], bumps
    assert np.abs(model.inverse_transform(model.transform(train)) - train).mean() < 0.06  # the noise of 0.1, smoothed
    theta = model.warps(unseen)
    back = model.inverse_transform(model.transform(unseen), theta)
    assert np.abs(back - unseen).mean() < 0.06
    wrong = model.inverse_transform(model.transform(unseen), -theta)
    assert np.abs(wrong - unseen).mean() > 0.15
    others = (unseen[:7], unseen, train, model.transform(unseen), model.transform(train)[::-1])  # some are as many
    for other in others:
        message = f"theta: received None for {len(other)} series, which are not the 300 of the fit, aligned; accepted"
        with pytest.raises(ValueError, match=message):
            model.inverse_transform(other)
    with pytest.raises(ValueError, match=r"theta: received float64 of shape \(300, 9\)"):
        model.inverse_transform(unseen[:7], theta)


@pytest.mark.parametrize("level", [0.0, 1e6])
def test_the_series_of_the_fit_are_known_again_also_in_single_precision(level):
    x = np.random.default_rng(0).normal((level, 0.0), size=(6, 9, 2)).swapaxes(1, 2)
    model = SeriesAligner(**QUICK).fit(x)
    aligned = model.transform(x)
    for some in (aligned, aligned.astype(np.float32), list(aligned)):
        np.testing.assert_array_equal(model.inverse_transform(some), model.inverse_transform(some, model.theta_))
    with pytest.raises(ValueError, match="theta: received None for 6 series"):
        model.inverse_transform(np.where(np.arange(9) == 4, aligned + 0.01, aligned))


def test_levels_and_sizes_of_their_own_do_not_matter_if_each_is_normalised(bumps):
    x, chance = bumps[0][:64], np.random.default_rng(0)
    other = x * chance.uniform(0.2, 5, (64, 1, 1)) + chance.normal(size=(64, 1, 1))
    model = SeriesAligner(width=8, steps=20, device="cpu", normalise="each").fit(other)
    np.testing.assert_allclose(model.warps(x), model.theta_, atol=1e-3)
    assert model.variance_ < 0.7 * model.variance_before_
    assert spread(model.transform(x)) < 0.7 * spread(x)  # of the same warps
    np.testing.assert_allclose(model.transform(other) - model.transform(other - 1), 1, atol=1e-4)  # it stays as it is


def test_channels_share_a_warp(bumps):
    x = bumps[0][:32]
    model = SeriesAligner(width=8, steps=20, device="cpu").fit(np.concatenate((x, 5 - 3 * x), 1))
    found = model.transform(np.concatenate((x, 5 - 3 * x), 1))
    np.testing.assert_allclose(found[:, 1], 5 - 3 * found[:, 0], atol=1e-4)


# Classification


@pytest.fixture(scope="module")
def classifier(bumps):
    torch.set_default_dtype(torch.float32)
    x = bumps[0][:80].copy()
    y = np.array(["up", "down"])[np.arange(80) % 2]
    x[1::2] *= -1
    return TimeWarpClassifier(width=8, epochs=1, steps=60, lr=1e-2, samples=2, device="cpu").fit(x, y), x, y


def test_classes_are_learned_and_keep_their_names(classifier):
    model, x, y = classifier
    assert model.classes_.tolist() == ["down", "up"]
    assert model.score(x, y) == 1
    p = model.predict_proba(x)
    assert p.shape == (80, 2)
    np.testing.assert_allclose(p.sum(1), 1)


def test_a_prediction_depends_on_no_other(classifier):
    model, x, _ = classifier
    np.testing.assert_allclose(model.predict_proba(x)[5:9], model.predict_proba(x[5:9]), atol=1e-6)
    np.testing.assert_array_equal(model.predict_proba(x), model.predict_proba(x))


def test_long_series_take_no_more_memory(classifier, monkeypatch):
    """They go through the networks a few at a time, which changes nothing."""
    model, x, _ = classifier
    whole = model.predict_proba(x), model.transform(x), model.warps(x)
    monkeypatch.setattr("erlangen.estimators.series_base.VALUES", 3 * 8 * 128)
    monkeypatch.setattr(model.averaged_, "largest", model._rows())
    seen, forward = [], model.averaged_.model.forward
    monkeypatch.setattr(model.averaged_.model, "forward", lambda views: seen.append(len(views)) or forward(views))
    for found, expected in zip((model.predict_proba(x), model.transform(x), model.warps(x)), whole, strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-5)
    assert set(seen) == {2, 3}


def test_predictions_are_averaged_over_warps(classifier):
    model, x, _ = classifier
    found = model.averaged_(model._scaled(torch.from_numpy(x[:3])))
    assert found.v.shape == (16, 3, 9)
    assert found.v.std(0).min() > 0


@pytest.mark.parametrize("estimator", ["classifier", "aligner"])
def test_a_copy_from_a_file_is_the_same(estimator, request, bumps):
    model = request.getfixturevalue(estimator)[0]
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.transform(bumps[1][:5]), model.transform(bumps[1][:5]))


# What users bring


@pytest.mark.parametrize("kind", [SeriesAligner, TimeWarpClassifier])
@pytest.mark.parametrize(
    "x",
    [
        np.ones((6, 9)),  # constant
        np.arange(54).reshape(6, 9),  # integers
        np.random.default_rng(0).normal(size=(6, 2, 9)).astype(np.float32),
        np.random.default_rng(0).normal(size=(6, 2)),  # two moments
        np.random.default_rng(0).normal(size=(6, 9)) * 1e6 + 1e9,
    ],
    ids=["constant", "integers", "two channels", "short", "large"],
)
def test_all_kinds_of_series(kind, x):
    y = ["a", "b", "a", "b", "a", "b"]
    model = kind(**QUICK, **({"epochs": 1} if kind is TimeWarpClassifier else {})).fit(x, y)
    found = model.transform(x)
    assert found.shape == x.shape
    assert np.isfinite(found).all()
    assert found.dtype == (np.float32 if x.dtype == np.float32 else np.float64)
    if kind is TimeWarpClassifier:
        assert set(model.predict(x)) <= {"a", "b"}


@pytest.mark.parametrize("unit", [2.0**-40, 2.0**-300, 2.0**300])
def test_the_unit_of_a_channel_does_not_matter(unit):
    x = np.random.default_rng(0).normal(size=(5, 2, 9))
    model, other = (SeriesAligner(**QUICK).fit(x * [[1.0], [scale]]) for scale in (1.0, unit))
    np.testing.assert_array_equal(other.theta_, model.theta_)  # of a power of two not even the rounding differs
    assert other.scale_[0, 1].item() == unit * model.scale_[0, 1].item()


@pytest.mark.parametrize("unit", [2.0**-480, 2.0**480, 2.0**-900, 2.0**1000])
def test_the_variance_is_right_in_any_unit_or_said_to_be_lost(unit):
    x = np.random.default_rng(0).normal(size=(20, 9))
    model = SeriesAligner(**QUICK).fit(x)
    held = 2.0**-500 < unit < 2.0**500
    with nullcontext() if held else pytest.warns(UserWarning, match=r"X: .*whose variance float64 cannot hold"):
        other = SeriesAligner(**QUICK).fit(unit * x)
    np.testing.assert_array_equal(other.mean_, unit * model.mean_)
    if held:
        assert (other.variance_before_, other.variance_) == tuple(
            v * unit * unit for v in (model.variance_before_, model.variance_)
        )


@pytest.mark.parametrize("kind", [SeriesAligner, TimeWarpClassifier])
def test_series_in_a_unit_far_from_that_of_the_fit_are_refused_by_name(kind):
    x = np.random.default_rng(0).normal(size=(4, 9))
    model = kind(**QUICK, **({"epochs": 1} if kind is TimeWarpClassifier else {})).fit(x, [0, 1] * 2)
    with pytest.raises(
        ValueError, match=r"^X: received values up to .*e\+60 in size; accepted are those in the unit of fit"
    ):
        model.transform(1e60 * x)


@pytest.mark.parametrize("value", [0.0, 0.1, -1e-30, 1e9])
def test_what_differs_by_rounding_is_constant(value):
    x = np.full((5, 9), value)
    x[::2] *= 1 + 4 * np.finfo(np.float64).eps
    assert SeriesAligner(**QUICK).fit(x).scale_.tolist() == [[[1.0]]]


@pytest.mark.parametrize("normalise", ["all", "each"])
def test_a_large_level_takes_no_digits_away(normalise):
    """Of 2³⁰ and a multiple of 2⁻²⁰ double precision has all digits, and single precision none."""
    x, level = np.round(np.random.default_rng(0).normal(size=(6, 9)) * 2**20) / 2**20, 2.0**30
    model = SeriesAligner(**QUICK, normalise=normalise).fit(x + level)
    theta = torch.tensor(model.theta_, dtype=torch.float32)
    with torch.no_grad():
        aligned = model.transform_(torch.tensor(x[:, None], dtype=torch.float32), theta)[:, 0].double().numpy()
    close = {"rtol": 0, "atol": 2e-6}  # some units in the last place of single precision
    np.testing.assert_allclose(model.transform(x + level) - level, aligned, **close)
    np.testing.assert_allclose(model.mean_[0, 0] - level, aligned.mean(0), **close)
    compared = model._scaled(torch.tensor(x[:, None] + level))[:, 0].double().numpy()
    over = {"axis": 1, "keepdims": True} if normalise == "each" else {}
    np.testing.assert_allclose(compared, (x - x.mean(**over)) / x.std(**over), **close)
    before = compared if normalise == "each" else x
    assert model.variance_before_ == pytest.approx(before.var(0, ddof=1).mean(), rel=1e-5)
    if normalise == "all":
        assert model.variance_ == pytest.approx(aligned.var(0, ddof=1).mean(), rel=1e-5)


@pytest.mark.parametrize("kind", [SeriesAligner, TimeWarpClassifier])
def test_double_precision_for_those_who_want_it(kind):
    torch.set_default_dtype(torch.float64)
    x = np.random.default_rng(0).normal(size=(6, 9)).astype(np.float32)
    model = kind(**QUICK, **({"epochs": 1} if kind is TimeWarpClassifier else {})).fit(x, [0, 1] * 3)
    torch.set_default_dtype(torch.float32)
    assert model.transform(x).dtype == np.float32
    assert model.inverse_transform(model.transform(x)).shape == x.shape


@pytest.mark.parametrize("kind", [SeriesAligner, TimeWarpClassifier])
def test_a_list_is_as_good_as_an_array(kind):
    x = np.random.default_rng(0).normal(size=(4, 2, 9))
    model = kind(**QUICK, **({"epochs": 1} if kind is TimeWarpClassifier else {})).fit(list(x), [0, 1] * 2)
    np.testing.assert_array_equal(model.transform(list(x)), model.transform(x))
    np.testing.assert_array_equal(model.warps([x[1]]), model.warps(x[1:2]))


def test_what_is_masked_is_missing():
    x = np.ma.masked_greater(np.random.default_rng(0).normal(size=(5, 9)), 1.5)
    with pytest.raises(ValueError, match="missing values"):
        SeriesAligner(**QUICK).fit(x)
    assert np.abs(SeriesAligner(**QUICK, missing="interpolate").fit_transform(x)).max() < 10


@pytest.mark.parametrize("kind", [SeriesAligner, TimeWarpClassifier])
@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([np.nan, 1.0], "y contains NaN"),
        ([None, "a"], "label type"),
        (["a", None], "y: received labels that have no order"),
    ],
)
def test_labels_that_are_none_are_refused(kind, y, message):
    with pytest.raises(ValueError, match=message):
        kind(**QUICK).fit(np.ones((2, 9)), y)


@pytest.mark.parametrize("kind", [SeriesAligner, TimeWarpClassifier])
def test_tiny_sets_and_one_class(kind):
    own = {**QUICK, **({"epochs": 1} if kind is TimeWarpClassifier else {})}
    one = kind(**own).fit(np.random.default_rng(0).normal(size=(1, 1, 7)), ["only"])
    assert one.transform(np.zeros((2, 1, 7))).shape == (2, 1, 7)
    if kind is TimeWarpClassifier:
        assert one.predict(np.zeros((2, 1, 7))).tolist() == ["only", "only"]
        assert one.predict_proba(np.zeros((2, 1, 7))).tolist() == [[1.0], [1.0]]


def test_lengths_and_gaps_are_handled_only_as_asked():
    series = [np.arange(5.0), np.arange(7.0), np.array([1.0, np.nan, 3.0, 4.0, 5.0, 6.0])]
    with pytest.raises(ValueError, match="unequal: received series of lengths from 5 to 7"):
        SeriesAligner(**QUICK).fit(series[:2])
    with pytest.raises(
        ValueError, match=r"series\[2\]: received 1 missing values \(NaN\).*'interpolate' \(stack_series and"
    ):
        SeriesAligner(**QUICK, unequal="resample").fit(series)  # "drop" is for others
    model = SeriesAligner(**QUICK, unequal="resample", missing="interpolate").fit(series)
    assert model.transform(series).shape == (3, 1, 7)
    assert model.transform(np.ones((2, 1, 11))).shape == (2, 1, 7)  # brought to the length of training
    with pytest.raises(ValueError, match="missing: received 'drop'; accepted are 'raise' and 'interpolate'"):
        SeriesAligner(**QUICK, missing="drop").fit(np.ones((3, 5)))


@pytest.mark.parametrize("shape", [(6, 9), (6, 2, 9)])
def test_an_end_that_no_series_has_is_left_out_only_as_asked(shape):
    x = np.random.default_rng(0).normal(size=shape)
    x[..., -2:] = np.nan
    with pytest.raises(ValueError, match="X: received no value but NaN in the last 2 of 9 moments of all series"):
        SeriesAligner(**QUICK).fit(x)
    model = SeriesAligner(**QUICK, missing="interpolate").fit(x)
    assert (model.length_in_, model.n_features_in_) == (7, np.prod(shape[1:]))
    aligned = model.transform(x)  # also of series that have these moments, though empty
    np.testing.assert_array_equal(aligned, model.transform(x[..., :-2]))
    assert model.inverse_transform(aligned).shape == (*shape[:-1], 7)
    whole = np.random.default_rng(0).normal(size=shape)
    with pytest.raises(ValueError, match="series of length 9 for the length 7"):
        model.transform(whole)
    classifier = TimeWarpClassifier(**QUICK, epochs=1, missing="interpolate").fit(x, [0, 1] * 3)
    assert classifier.predict(x).shape == (6,)


class Frame(np.ndarray):
    """A table with names, in place of a data frame of a library that nothing else here needs."""

    columns = np.array([f"t{i}" for i in range(9)], dtype=object)


@pytest.mark.parametrize("unequal", ["raise", "pad", "resample"])
def test_names_of_columns_have_to_be_those_of_the_fit(unequal, monkeypatch):
    monkeypatch.setattr("sklearn.utils.validation._get_feature_names", lambda X: getattr(X, "columns", None))
    x = np.random.default_rng(0).normal(size=(6, 9))
    frame, turned = x.view(Frame), x.view(Frame)
    turned.columns = Frame.columns[::-1]
    model = SeriesAligner(**QUICK, unequal=unequal).fit(frame)
    assert model.feature_names_in_.tolist() == Frame.columns.tolist()
    assert model.transform(frame).shape == (6, 9)
    with pytest.raises(ValueError, match="Feature names must be in the same order as they were in fit"):
        model.transform(turned)
    for other in (x, x[:, None], list(x[:, None])):
        assert not hasattr(model.fit(frame).fit(other), "feature_names_in_")


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.ones((4, 2, 9)), "X: received 2 channels; accepted is 1"),
        (np.ones((4, 1, 8)), "unequal: received series of length 8 for the length 9"),
        (np.ones((4, 8)), "X has 8 features, but SeriesAligner is expecting 9"),
        (np.full((4, 9), np.inf), "infinite"),
        (np.ones(9), r"X: received an array of shape \(9,\); accepted are series \(n, time\) or \(n, channels, time\)"),
        (np.ones((1, 1, 4, 9)), r"X: received an array of shape \(1, 1, 4, 9\); accepted are series"),
        ([], r"X: received an array of shape \(0,\); accepted are series"),
        (None, "X: received NoneType None; accepted are series"),
        ([["a", "b"]], "dtype='numeric' is not compatible|could not convert|numbers"),
    ],
)
def test_other_series_than_in_training_are_refused(x, message):
    model = SeriesAligner(**QUICK).fit(np.random.default_rng(0).normal(size=(5, 9)))
    with pytest.raises(ValueError, match=message):
        model.transform(x)


@pytest.mark.parametrize("x", [np.ones(9), np.ones((1, 1, 4, 9)), [], None, "abc"])
def test_what_is_no_set_of_series_is_refused(x):
    with pytest.raises(ValueError, match=r"X: received .*; accepted are series \(n, time\) or \(n, channels, time\)"):
        SeriesAligner(**QUICK).fit(x)


@pytest.mark.parametrize("bad", [{"cells": 0}, {"steps": 0}, {"width": 1.5}, {"batch_size": -1}, {"smoothness": -1}])
def test_bad_parameters_are_refused_in_fit(bad):
    name = next(iter(bad))
    with pytest.raises(ValueError, match=f"{name}: received"):
        SeriesAligner(**{**QUICK, **bad}).fit(np.ones((4, 9)))


@pytest.mark.parametrize("bad", [{"spread": "wide"}, {"spread": -1.0}, {"weight": True}, {"device": "abacus"}])
def test_bad_parameters_are_refused_as_they_were_given(bad):
    ((name, value),) = bad.items()
    with pytest.raises(ValueError, match=f"{name}: received .*{value}.*; accepted"):
        TimeWarpClassifier(**{**QUICK, **bad}).fit(np.ones((4, 9)), [0, 1, 0, 1])
    with pytest.raises(ValueError, match="normalise: received 'none'; accepted are 'all' and 'each'"):
        SeriesAligner(normalise="none").fit(np.ones((4, 9)))


def test_numbers_of_numpy_are_numbers():
    wide, smooth = np.float32(0.5), np.float32(0.01)
    assert TimeWarpClassifier(**QUICK, epochs=1, spread=wide, weight=smooth).fit(np.ones((4, 9)), [0, 1, 0, 1])
    assert SeriesAligner(**QUICK, smoothness=smooth, lr=np.float32(0.01)).fit(np.ones((4, 9)))
    counts = {"width": np.int64(4), "steps": np.int32(2), "batch_size": np.int64(2), "cells": np.int64(4)}
    assert SeriesAligner(**counts, device="cpu").fit(np.ones((4, 9))).theta_.shape == (4, 3)
    some = {"epochs": np.int64(1), "samples": np.int64(2), "eval_samples": np.int64(2)}
    assert TimeWarpClassifier(**counts, **some, device="cpu").fit(np.ones((4, 9)), [0, 1, 0, 1]).theta_.shape == (4, 3)


def test_a_fit_that_fails_leaves_nothing_half_new(monkeypatch):
    x = np.random.default_rng(0).normal(size=(5, 9))
    model = SeriesAligner(**QUICK).fit(x)
    monkeypatch.setattr(
        "erlangen.estimators.series_aligner.fit", lambda *args: (_ for _ in ()).throw(KeyboardInterrupt)
    )
    with pytest.raises(KeyboardInterrupt):
        model.fit(x)
    with pytest.raises(NotFittedError):
        model.transform(x)


def test_what_interpolation_takes_of_noise(aligner):
    """Of white noise a third, on average over where between two moments a value is read: 1 - E(u² + (1 - u)²)."""
    model, noise = aligner[0], np.random.default_rng(0).normal(size=(300, 1, 128))
    left = model.inverse_transform(noise, model.theta_).var()  # warps of training, which know nothing of this noise
    assert left == pytest.approx(2 / 3, abs=0.03)


def test_scikit_learn_can_handle_them():
    model = SeriesAligner(cells=5)
    assert clone(model.set_params(width=7)).get_params()["width"] == 7
    for call in (model.transform, model.warps, model.inverse_transform, TimeWarpClassifier().predict):
        with pytest.raises(NotFittedError):
            call(np.ones((2, 9)))


@pytest.mark.parametrize(
    ("estimator", "skipped"),
    [
        (SeriesAligner(width=2, steps=1, device="cpu"), {}),
        (
            TimeWarpClassifier(width=2, steps=1, epochs=1, samples=1, eval_samples=2, device="cpu"),
            {"check_classifiers_train": "a step is no training"},
        ),
    ],
    ids=["aligner", "classifier"],
)
@pytest.mark.filterwarnings("ignore")
def test_the_conventions_of_scikit_learn(estimator, skipped):
    results = check_estimator(estimator, on_fail=None, expected_failed_checks=skipped)
    failed = {one["check_name"]: one["exception"] for one in results if one["status"] == "failed"}
    assert failed == {}
    assert sum(one["status"] == "passed" for one in results) > 40


# The page


def test_the_page_has_the_numbers_of_the_run():
    root = Path(__file__).resolve().parents[2]
    rows = read_json(root / "results" / "series" / "bumps.json")["rows"]
    text = (root / "docs" / "series.md").read_text(encoding="utf-8")
    for row in rows:
        assert f"<!-- {row['part']} -->{row['falls']:.1f}" in text
        assert row["falls"] >= 5


def test_the_picture_is_drawn(tmp_path, monkeypatch):
    monkeypatch.setattr("erlangen.estimators.bumps.TRIALS", 12)
    monkeypatch.setattr(SeriesAligner.__init__, "__kwdefaults__", {**SeriesAligner.__init__.__kwdefaults__, "steps": 2})
    picture, numbers = align_bumps(tmp_path, tmp_path)
    assert picture.read_bytes()[:4] == b"\x89PNG"
    assert [row["part"] for row in read_json(numbers)["rows"]] == ["training", "unseen"]
    with pytest.raises(ValueError, match=r"after: received shape \(3, 4\)"):
        alignment_figure(np.zeros((3, 5)), np.zeros((3, 4)))
    with pytest.raises(ValueError, match=r"before: received shape \(0, 5\)"):
        alignment_figure(np.zeros((0, 5)), np.zeros((0, 5)))
    assert len(alignment_figure([[1.0, 2.0]], [[1.0, 2.0]]).axes) == 2


def test_an_object_array_of_series_is_a_list_of_them():
    x = warped_bumps(12, 24).x.numpy()[:, 0]
    ragged = np.empty(12, dtype=object)
    ragged[:] = [row[: 20 + i % 4] for i, row in enumerate(x)]
    y = np.arange(12) % 2
    one, other = (
        TimeWarpClassifier(unequal="pad", width=4, epochs=1, steps=2, device="cpu").fit(series, y)
        for series in (ragged, list(ragged))
    )
    assert np.array_equal(one.predict_proba(ragged), other.predict_proba(list(ragged)))


def test_an_aligner_stands_before_a_regressor():
    x = warped_bumps(20, 24).x.numpy()
    aligner = SeriesAligner(steps=2, width=4, device="cpu")
    same = clone(aligner).fit(x).transform(x)
    assert np.array_equal(aligner.fit(x, np.linspace(0, 1, 20)).transform(x), same)
    assert aligner.classes_ is None
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        aligner.fit(x, np.linspace(0, 1, 19))


@pytest.mark.parametrize("lr", [None, "x", -1])
def test_a_rate_is_a_number(lr):
    with pytest.raises(ValueError, match="lr: received"):
        TimeWarpClassifier(lr=lr, steps=2, epochs=1).fit(warped_bumps(8, 24).x.numpy(), np.arange(8) % 2)


def test_masks_of_equal_series_in_a_list_are_seen():
    series = warped_bumps(6, length=20).x[:, 0].numpy().astype(np.float64)
    hidden = np.zeros_like(series, bool)
    hidden[:, 5:8] = True
    spoiled = np.where(hidden, -999.0, series)
    each = [np.ma.masked_array(one, mask) for one, mask in zip(spoiled, hidden, strict=True)]
    with pytest.raises(ValueError, match=r"received 3 missing"):
        SeriesAligner(steps=1, width=4).fit(each)
    aligner = SeriesAligner(steps=1, width=4, missing="interpolate")
    assert aligner.fit(each).transform(each).min() > -10


@pytest.mark.parametrize("estimator", [SeriesAligner, TimeWarpClassifier])
def test_a_batch_is_more_than_one_series(estimator):
    data = warped_bumps(6, length=20)
    with pytest.raises(ValueError, match=r"^batch_size: received 1; accepted are at least 2"):
        estimator(batch_size=1, steps=1).fit(data.x.numpy(), np.arange(6) % 2)


def test_what_lacks_at_the_end_of_a_series_is_filled_in_alone_as_beside_others():
    x = np.random.default_rng(0).normal(size=(6, 12))
    model = SeriesAligner(missing="interpolate", **QUICK).fit(x)
    x[2, 8:] = np.nan
    np.testing.assert_array_equal(model.transform(x[2:3]), model.transform(x)[2:3])


@pytest.mark.parametrize("kind", [SeriesAligner, TimeWarpClassifier])
def test_series_with_more_channels_than_moments_are_mentioned(kind):
    """Other libraries have time before channels; the warning is about the line that calls."""
    x, own = np.random.default_rng(0).normal(size=(4, 9, 3)), {"epochs": 1} if kind is TimeWarpClassifier else {}
    said = r"X: received series of 9 channels and 3 moments; accepted are \(n, channels, time\): np.swapaxes\(X, 1, 2\)"
    with pytest.warns(UserWarning, match=said) as found:
        kind(**QUICK, **own).fit(x, [0, 1] * 2)
    assert found[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert kind(**QUICK, **own).fit(np.swapaxes(x, 1, 2), [0, 1] * 2).n_channels_in_ == 3


@pytest.mark.filterwarnings("error")
def test_arrays_that_may_only_be_read_are_read():
    x = np.random.default_rng(0).normal(size=(6, 12))
    model = SeriesAligner(**QUICK)
    aligned, theta = model.fit_transform(x), model.warps(x)
    for array in (x, aligned, theta):
        array.setflags(write=False)
    assert np.array_equal(model.inverse_transform(aligned, theta), model.inverse_transform(aligned))
    assert np.array_equal(model.transform(x), aligned)


@pytest.mark.parametrize("kind", [SeriesAligner, TimeWarpClassifier])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_tensors_are_arrays_also_with_a_graph(kind, dtype):
    x = torch.randn(4, 9, generator=torch.Generator().manual_seed(0)).to(dtype)
    own, y = {**QUICK, **({"epochs": 1} if kind is TimeWarpClassifier else {})}, [0, 1] * 2
    plain = x.float().numpy() if dtype == torch.float32 else x.double().numpy()
    model, other = kind(**own).fit(x.clone().requires_grad_(), y), kind(**own).fit(plain, y)
    np.testing.assert_array_equal(model.theta_, other.theta_)
    found = model.transform(x.clone().requires_grad_())
    assert found.dtype == plain.dtype
    np.testing.assert_array_equal(found, other.transform(plain))
    np.testing.assert_array_equal(model.warps([one.clone().requires_grad_() for one in x]), other.warps(plain))


def test_single_precision_is_kept_in_any_order_of_bytes():
    x = np.random.default_rng(0).normal(size=(4, 9)).astype(">f4")
    model = SeriesAligner(**QUICK).fit(x)
    assert model.transform(x).dtype == np.float32
    np.testing.assert_array_equal(model.transform(x), model.transform(x.astype(np.float32)))


@pytest.mark.parametrize("kind", [SeriesAligner, TimeWarpClassifier])
def test_it_learns_where_gradients_are_off(kind):
    x, y = torch.randn(4, 9, generator=torch.Generator().manual_seed(0)), [0, 1] * 2
    own = {**QUICK, **({"epochs": 1} if kind is TimeWarpClassifier else {})}
    with torch.inference_mode():
        inside = kind(**own).fit(x.clone(), y)
        assert inside.transform(x.clone()).shape == x.shape
    np.testing.assert_array_equal(inside.theta_, kind(**own).fit(x, y).theta_)


def test_aligned_series_have_the_names_of_their_columns(monkeypatch):
    x, names = np.random.default_rng(0).normal(size=(6, 9)), [f"x{i}" for i in range(9)]
    table = SimpleNamespace(create_container=lambda x, original, columns: (x, columns().tolist()))
    monkeypatch.setitem(ADAPTERS_MANAGER.adapters, "pandas", table)
    model = SeriesAligner(**QUICK).fit(x)
    plain = model.transform(x)
    found, columns = model.set_output(transform="pandas").transform(x)
    np.testing.assert_array_equal(found, plain)
    assert columns == names
    whole = make_pipeline(StandardScaler(), SeriesAligner(**QUICK)).set_output(transform="default").fit(x)
    assert whole.get_feature_names_out(names[::-1]).tolist() == names[::-1]
    x[:, 7:] = np.nan  # an end that no series has
    short = SeriesAligner(**QUICK, missing="interpolate").fit(x)
    assert short.get_feature_names_out().tolist() == names[: short.transform(x).shape[1]] == names[:7]


@pytest.mark.parametrize("make", [lambda x: x[:, None], list], ids=["channels", "list"])
def test_what_is_no_table_stays_an_array(make):
    x = make(np.random.default_rng(0).normal(size=(6, 9)))
    with sklearn.config_context(transform_output="pandas"):
        model = SeriesAligner(**QUICK).fit(x)
        assert model.transform(x).shape == (6, 1, 9)
    assert not hasattr(model, "get_feature_names_out")
    assert not hasattr(model, "set_output")
    table = np.random.default_rng(0).normal(size=(6, 9))
    assert model.fit(table).get_feature_names_out().tolist() == [f"x{i}" for i in range(9)]
