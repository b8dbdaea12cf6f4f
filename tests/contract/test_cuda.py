"""Tensors on a CUDA device are calibrated where they are."""

import numpy as np
import pytest
import reference
import torch

import nishimori
from nishimori import ExpectationConsistency, TemperatureScaling, from_temperature, temperatures
from nishimori._kernels import kernel
from nishimori._support import arrays
from nishimori.errors import InputError
from nishimori.multilabel import MultilabelCalibrator

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

DTYPES = pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])


def on_device(n, k, dtype):
    logits, labels = reference.drawn(n, k)
    tensor = torch.from_numpy(logits).to(dtype).cuda()
    return tensor, tensor.double().cpu().numpy(), labels


@DTYPES
@pytest.mark.parametrize("k", [2, 10, 1000])
def test_both_temperatures_agree_with_the_definition_on_the_stored_values(k, dtype):
    tensor, stored, labels = on_device(2000 if k < 100 else 200, k, dtype)
    found = temperatures(tensor, torch.from_numpy(labels).cuda())
    assert found.ec == pytest.approx(reference.ec_temperature(stored, labels), rel=1e-8)
    assert found.ts == pytest.approx(reference.ts_temperature(stored, labels), rel=1e-8)


def with_ties_and_masks(n, k, dtype):
    """Rounded logits, so that many rows have several largest ones, with masks beside the labels; weights, some of them zero."""
    rng = np.random.default_rng(0)
    logits, labels = reference.drawn(n, k)
    logits = np.round(2 * logits) / 2
    hidden = rng.random(logits.shape) < 0.2
    hidden[np.arange(n), labels] = False
    logits[hidden] = -np.inf
    weights = rng.exponential(size=n) * (rng.random(n) < 0.9)
    return torch.from_numpy(logits).to(dtype).cuda(), logits, labels, weights, hidden[weights > 0].sum()


HALF_AND_SINGLE = pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])


@HALF_AND_SINGLE
@pytest.mark.parametrize(("n", "k"), [(3000, 10), (600_000, 10), (3000, 100), (60_000, 100)])
def test_weights_masks_and_ties_agree_with_the_definition(n, k, dtype):
    tensor, stored, labels, weights, n_masked = with_ties_and_masks(n, k, dtype)
    at = torch.from_numpy(labels).cuda()
    ec = ExpectationConsistency().fit(tensor, at, torch.from_numpy(weights).cuda())
    ts = TemperatureScaling().fit(tensor, labels, weights)
    assert ec.temperature_ == pytest.approx(reference.ec_temperature(stored, labels, weights, low=0.1, high=10), rel=1e-8)
    assert ts.temperature_ == pytest.approx(reference.ts_temperature(stored, labels, weights, low=0.1, high=10), rel=1e-8)
    assert (ec.fit_info_.kernel, ec.fit_info_.n_masked) == ("triton", n_masked)
    assert ec.fit_info_.n_samples == (weights > 0).sum()


@HALF_AND_SINGLE
@pytest.mark.parametrize(("n", "k"), [(3000, 10), (60_000, 100)])
def test_a_fit_copies_no_more_than_a_corner_of_the_logits(monkeypatch, n, k, dtype):
    tensor, _, labels = on_device(n, k, dtype)
    at, sizes, own = torch.from_numpy(labels).cuda(), [], torch.Tensor.cpu
    monkeypatch.setattr(torch.Tensor, "cpu", lambda self: sizes.append(self.numel()) or own(self))
    monkeypatch.setattr(arrays, "on_device_of", lambda *_: pytest.fail("copied to the device"))
    assert temperatures(tensor, at).n_passes <= 3
    assert max(sizes) < 10_000


def test_a_fit_needs_little_memory_beside_the_logits():
    tensor, _, labels = on_device(60_000, 100, torch.float32)
    at = torch.from_numpy(labels).cuda()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    temperatures(tensor, at)
    assert torch.cuda.max_memory_allocated() - before < tensor.nbytes / 8


def test_the_same_few_rows_many_times_have_the_temperature_of_those_rows():
    logits, labels = reference.drawn(60, 100)
    tensor = torch.from_numpy(logits).float().cuda().repeat(1500, 1)
    found = temperatures(tensor, torch.from_numpy(labels).cuda().repeat(1500))
    stored = tensor[:60].double().cpu().numpy()
    assert found.ec == pytest.approx(reference.ec_temperature(stored, labels), rel=1e-8)
    assert found.ts == pytest.approx(reference.ts_temperature(stored, labels), rel=1e-8)


@pytest.mark.parametrize(("n", "k"), [(3000, 10), (60_000, 100)])
def test_bad_values_and_labels_are_named(n, k):
    tensor, _, labels = on_device(n, k, torch.float32)
    at = torch.from_numpy(labels).cuda()
    for value, shown in ((float("nan"), "nan"), (float("inf"), "inf")):
        bad = tensor.clone()
        bad[n - 2, 3] = value
        with pytest.raises(InputError, match=rf"must not contain NaN or \+inf, got {shown} in row {n - 2}, column 3"):
            temperatures(bad, at)
    bad = tensor.clone()
    bad[n - 2] = -float("inf")
    with pytest.raises(InputError, match=f"only -inf in row {n - 2}"):
        temperatures(bad, at)
    for label in (-1, k):
        wrong = at.clone()
        wrong[n - 2] = label
        for given in (wrong, wrong.cpu()):
            with pytest.raises(InputError, match=f"`labels` must be from 0 to {k - 1}, got {label} in row {n - 2}"):
                temperatures(tensor, given)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8])
def test_labels_may_be_on_the_host_or_on_the_device(dtype):
    tensor, _, labels = on_device(3000, 10, torch.float32)
    at = torch.from_numpy(labels).to(dtype)
    assert temperatures(tensor, at.cuda()) == temperatures(tensor, at) == temperatures(tensor, labels.tolist())


@pytest.mark.parametrize(("n", "k"), [(3000, 10), (60_000, 100)])
def test_without_triton_the_temperatures_are_the_same(monkeypatch, n, k):
    tensor, _, labels = on_device(n, k, torch.float32)
    with_it = temperatures(tensor, labels)
    monkeypatch.setattr(kernel, "_has_triton", lambda: False)
    without = ExpectationConsistency().fit(tensor, labels)
    assert without.fit_info_.kernel == "array_api"
    assert without.temperature_ == pytest.approx(with_it.ec, rel=1e-8)


@pytest.mark.parametrize("top_n", [2, 5])
def test_top_n_masks_and_weights_agree_with_the_definition(top_n):
    tensor, stored, labels = on_device(2000, 10, torch.float32)
    hidden = np.random.default_rng(1).random(stored.shape) < 0.3
    hidden[np.arange(2000), labels] = False
    stored[hidden] = -np.inf
    tensor[torch.from_numpy(hidden).cuda()] = -np.inf
    weights = np.arange(2000) % 3
    fitted = ExpectationConsistency(top_n=top_n).fit(tensor, labels, torch.from_numpy(weights).cuda())
    assert fitted.temperature_ == pytest.approx(reference.ec_temperature(stored, labels, weights, top_n), rel=1e-8)
    assert fitted.fit_info_.n_masked == hidden[weights > 0].sum()


@DTYPES
def test_results_stay_on_the_device_in_their_dtype(dtype):
    tensor, stored, _ = on_device(200, 10, dtype)
    calibrator = from_temperature(2.0)
    for result in (calibrator.predict_proba(tensor), calibrator.predict_log_proba(tensor), calibrator.transform(tensor)):
        assert (result.device, result.dtype) == (tensor.device, dtype)
    assert calibrator.predict(tensor).device == tensor.device
    tolerance = {torch.float64: 1e-12, torch.float32: 1e-5}.get(dtype, 1e-2)
    np.testing.assert_allclose(
        calibrator.predict_proba(tensor).double().cpu(), reference.softmax(stored, 2.0), rtol=tolerance, atol=tolerance
    )


def test_named_classes_labels_and_probabilities_on_the_device_work():
    tensor, stored, labels = on_device(500, 3, torch.float64)
    names = np.array(["a", "b", "c"])
    probabilities = torch.softmax(tensor, dim=1).requires_grad_()
    fitted = TemperatureScaling(input="probabilities", classes=names, floor=None).fit(probabilities, names[labels])
    assert fitted.temperature_ == pytest.approx(reference.ts_temperature(stored, labels), rel=1e-8)
    assert np.array_equal(fitted.predict(probabilities), names[stored.argmax(axis=1)])


def test_a_flat_score_on_the_device_works():
    tensor, _, labels = on_device(500, 2, torch.float32)
    z = tensor[:, 1] - tensor[:, 0]
    found = TemperatureScaling().fit(z, torch.from_numpy(labels).cuda().bool())
    columns = np.stack([np.zeros(500), z.double().cpu().numpy()], axis=1)
    assert found.temperature_ == pytest.approx(reference.ts_temperature(columns, labels), rel=1e-8)
    assert found.transform(z).shape == (500,)


class Logit(nishimori.Observable):
    """The observable of temperature scaling, from its values."""

    def values(self, logits):
        return logits


def test_an_observable_of_ones_own_and_a_scorecard_agree_with_the_definition():
    tensor, stored, labels = on_device(2000, 10, torch.float32)
    fitted = nishimori.calibrators.Matched(Logit()).fit(tensor, labels)
    T = reference.ts_temperature(stored, labels)
    assert fitted.temperature_ == pytest.approx(T, rel=1e-8)
    card = nishimori.evaluate(tensor, labels, calibrator=fitted, strategy="quantile")
    p = reference.softmax(stored, T).max(axis=1)
    assert card.nll == pytest.approx(reference.nll(stored, labels, T), rel=1e-8)
    assert card.brier == pytest.approx(reference.brier(stored, labels, T), rel=1e-8)
    expected = reference.ece(p, reference.right(stored, labels), reference.quantile_edges(p, 15))
    assert card.ece == pytest.approx(expected, rel=1e-6)
    assert fitted.predict_proba(tensor).is_cuda


# How sure: the same numbers on the device and on the host, whose formulas have tests of their own.


def test_standard_errors_are_those_of_the_host():
    tensor, stored, labels = on_device(6000, 10, torch.float32)
    at, weights = torch.from_numpy(labels).cuda(), np.random.default_rng(1).uniform(0.5, 2, 6000)
    documents = np.arange(6000) // 4
    for options in ({}, {"sample_weight": weights}, {"sample_weight": weights, "counts": True}, {"clusters": documents}):
        there, here = temperatures(tensor, at, **options), temperatures(stored, labels, **options)
        assert (there.ec_se, there.ts_se) == pytest.approx((here.ec_se, here.ts_se), rel=1e-3)
    assert nishimori.AdaptiveConsistency().fit(tensor, at).temperature_ == pytest.approx(
        nishimori.AdaptiveConsistency().fit(stored, labels).temperature_, rel=1e-3
    )


def test_errors_of_metrics_differences_and_tests_are_those_of_the_host():
    tensor, stored, labels = on_device(6000, 10, torch.float32)
    at = torch.from_numpy(labels).cuda()
    there, here = nishimori.evaluate(tensor, at), nishimori.evaluate(stored, labels)
    for name in ("error", "confidence", "ece", "brier", "nll"):
        assert getattr(there, f"{name}_se") == pytest.approx(getattr(here, f"{name}_se"), rel=1e-4)
    for run in (
        lambda *data: nishimori.compare(*data, methods=(1.0, 2.0))["T=2"].differences["nll"].se,
        lambda *data: nishimori.calibration_test(*data, statistic="confidence").z,
        lambda *data: nishimori.calibration_test(*data, statistic="temperatures").z,
        lambda *data: nishimori.calibration_test(*data, temperature=2.0).z,
        lambda *data: nishimori.bootstrap(*data, n_draws=500).se,
        nishimori.metrics.smooth_ece,
        nishimori.metrics.ks,
        lambda *data: nishimori.metrics.decomposition(*data).calibration,
    ):
        assert run(tensor, at) == pytest.approx(run(stored, labels), rel=1e-3)


def test_methods_are_compared_on_the_device():
    tensor, stored, labels = on_device(6000, 10, torch.float32)
    there, here = nishimori.compare(tensor, torch.from_numpy(labels).cuda()), nishimori.compare(stored, labels)
    assert {name: each.rows for name, each in there.tables.items()} == {name: each.rows for name, each in here.tables.items()}
    assert there.verdicts == here.verdicts


# Scorecards and sketches, whose sums are made by one kernel.


@DTYPES
@pytest.mark.parametrize("k", [2, 10, 1000])
@pytest.mark.parametrize("temperature", [1.0, 2.5])
def test_metrics_agree_with_the_definition_on_the_stored_values(k, dtype, temperature):
    tensor, stored, labels = on_device(3000 if k < 100 else 300, k, dtype)
    card = nishimori.evaluate(tensor, torch.from_numpy(labels).cuda(), temperature=temperature)
    p, right = reference.softmax(stored, temperature), reference.right(stored, labels)
    assert card.accuracy == pytest.approx(right.mean(), rel=1e-12)
    assert card.confidence == pytest.approx(p.max(axis=1).mean(), rel=1e-6)
    assert card.nll == pytest.approx(reference.nll(stored, labels, temperature), rel=1e-6)
    assert card.brier == pytest.approx(reference.brier(stored, labels, temperature), rel=1e-6)
    assert card.ece == pytest.approx(reference.ece(p.max(axis=1), right, np.arange(16) / 15), rel=1e-5)


def test_scorecards_of_weights_masks_ties_and_clusters_are_those_of_the_host():
    tensor, stored, labels, weights, _ = with_ties_and_masks(3000, 10, torch.float32)
    at, documents = torch.from_numpy(labels).cuda(), np.arange(3000) // 4
    for options in (
        {"sample_weight": weights},
        {"sample_weight": weights, "counts": True},
        {"sample_weight": weights, "clusters": documents},
        {"sample_weight": weights, "strategy": "quantile"},
        {"sample_weight": weights, "n_bins": 200},
    ):
        there, here = nishimori.evaluate(tensor, at, **options), nishimori.evaluate(stored, labels, **options)
        assert there.n_samples == here.n_samples
        assert there.n_clusters == here.n_clusters
        for name in ("error", "confidence", "gap", "ece", "brier", "nll"):
            assert getattr(there, name) == pytest.approx(getattr(here, name), rel=1e-6), (name, options)
            assert getattr(there, f"{name}_se") == pytest.approx(getattr(here, f"{name}_se"), rel=1e-5), (name, options)
        np.testing.assert_allclose(there.reliability.weight, here.reliability.weight, rtol=1e-12)


@pytest.mark.parametrize(
    "measure", [nishimori.evaluate, lambda *rows: nishimori.Sketch().update(*rows)], ids=["card", "sketch"]
)
@HALF_AND_SINGLE
def test_a_scorecard_and_a_sketch_copy_no_more_than_a_corner_of_the_logits(monkeypatch, measure, dtype):
    tensor, _, labels = on_device(60_000, 100, dtype)
    at, sizes, own = torch.from_numpy(labels).cuda(), [], torch.Tensor.cpu
    monkeypatch.setattr(torch.Tensor, "cpu", lambda self: sizes.append(self.numel()) or own(self))
    monkeypatch.setattr(arrays, "on_device_of", lambda *_: pytest.fail("copied to the device"))
    measure(tensor, at)
    assert max(sizes) <= 1024 * 100  # the rows of a digest


@pytest.mark.parametrize(
    "measure", [nishimori.evaluate, lambda *rows: nishimori.Sketch().update(*rows)], ids=["card", "sketch"]
)
def test_bad_values_and_labels_of_scorecards_and_sketches_are_named(measure):
    tensor, _, labels = on_device(3000, 10, torch.bfloat16)
    at = torch.from_numpy(labels).cuda()
    for value, shown in ((float("nan"), "nan"), (float("inf"), "inf")):
        bad = tensor.clone()
        bad[2998, 3] = value
        with pytest.raises(InputError, match=rf"must not contain NaN or \+inf, got {shown} in row 2998, column 3"):
            measure(bad, at)
    bad = tensor.clone()
    bad[2998] = -float("inf")
    with pytest.raises(InputError, match="only -inf in row 2998"):
        measure(bad, at)
    wrong = at.clone()
    wrong[2998] = 10
    with pytest.raises(InputError, match="`labels` must be from 0 to 9, got 10 in row 2998"):
        measure(tensor, wrong)


@DTYPES
@pytest.mark.parametrize("k", [2, 10, 1000])
def test_a_sketch_of_tensors_has_the_sums_of_a_sketch_of_arrays(k, dtype):
    tensor, stored, labels = on_device(3000 if k < 100 else 300, k, dtype)
    weights = np.random.default_rng(0).exponential(size=len(labels))
    for heavy in (None, weights):
        there = nishimori.Sketch().update(tensor, torch.from_numpy(labels).cuda(), heavy)
        here = nishimori.Sketch().update(stored, labels, heavy)
        for name, values in here.state.items():
            np.testing.assert_allclose(there.state[name], values, rtol=1e-9, atol=1e-9 * np.abs(values).max(), err_msg=name)
        found = temperatures(there)
        assert found.ec == pytest.approx(reference.ec_temperature(stored, labels, heavy), rel=1e-8)
        assert found.ts == pytest.approx(reference.ts_temperature(stored, labels, heavy), rel=1e-8)


def test_a_sketch_of_masked_tensors_is_that_of_arrays():
    tensor, stored, labels, weights, _ = with_ties_and_masks(3000, 10, torch.bfloat16)
    there, here = nishimori.Sketch().update(tensor, labels, weights), nishimori.Sketch().update(stored, labels, weights)
    assert temperatures(there).ec == pytest.approx(temperatures(here).ec, rel=1e-9)


# More than one temperature: the same maps and the same fits on the device and on the host.

GROUPS = np.array(["north", "south", "west"])[np.random.default_rng(3).integers(0, 3, 6000)]

MAPS = {
    "class": nishimori.maps.ClassTemperatures(np.linspace(0.5, 3, 10)),
    "group": nishimori.maps.GroupTemperatures(("north", "south", "west"), (0.7, 1.5, 2.5), 1.2),
    "matrix": nishimori.maps.Affine(0.5 * np.eye(10) + 0.02, np.linspace(-1, 1, 10)),
    "fallback": nishimori.maps.Affine(np.linspace(0.3, 0.7, 10), np.linspace(-1, 1, 10), 2.0),
}


@DTYPES
@pytest.mark.parametrize("name", MAPS)
def test_maps_do_the_same_on_the_device_and_stay_there(name, dtype):
    tensor, stored, labels = on_device(6000, 10, dtype)
    fixed, given = nishimori.calibrators.FixedMap(MAPS[name]).fit(stored, labels), {"groups": GROUPS} if name == "group" else {}
    there, here = fixed.predict_proba(tensor, **given), fixed.predict_proba(stored, **given)
    assert there.is_cuda
    assert there.dtype is dtype
    np.testing.assert_allclose(there.double().cpu().numpy(), here, atol={8: 1e-12, 4: 1e-5, 2: 1e-2}[dtype.itemsize])
    cards = [nishimori.evaluate(each, labels, calibrator=fixed, **given) for each in (tensor, stored)]
    assert cards[0].nll == pytest.approx(cards[1].nll, rel=1e-6)


@HALF_AND_SINGLE
@pytest.mark.parametrize(
    "fitted",
    [
        nishimori.GroupConsistency(),
        nishimori.GroupConsistency(by="groups", method="ts"),
        nishimori.BiasCorrected(),
        nishimori.BiasCorrected(method="ts", shrink=False, preserve_accuracy=True),
        nishimori.VectorScaling(),
        nishimori.calibrators.MatrixScaling(),
        nishimori.calibrators.ClasswiseTemperature(),
        nishimori.calibrators.TemperatureMixture(),
        nishimori.calibrators.Dirichlet(),
    ],
    ids=str,
)
def test_fits_of_several_parameters_are_those_of_the_host(fitted, dtype):
    tensor, stored, labels = on_device(6000, 10, dtype)
    given = {"groups": GROUPS} if getattr(fitted, "by", None) == "groups" else {}
    there = fitted.fit(tensor, torch.from_numpy(labels).cuda(), **given).predict_proba(stored, **given)
    here = fitted.fit(stored, labels, **given).predict_proba(stored, **given)
    np.testing.assert_allclose(there, here, atol=1e-6)


def test_gaps_of_groups_are_those_of_the_host():
    tensor, stored, labels = on_device(6000, 10, torch.float32)
    there, here = nishimori.group_gaps(tensor, labels), nishimori.group_gaps(stored, labels)
    assert there.mean_abs_gap == pytest.approx(here.mean_abs_gap, rel=1e-6)


@pytest.mark.parametrize("method", ["ec", "ts"])
def test_temperatures_and_gaps_of_groups_are_those_of_the_host(method):
    tensor, stored, labels = on_device(6000, 10, torch.float32)
    wide = stored.argmax(axis=1) < 4
    tensor[torch.from_numpy(wide).cuda()] *= 2
    stored = tensor.double().cpu().numpy()
    at, sites = torch.from_numpy(labels).cuda(), np.where(wide, "wide", "narrow")
    for by, groups in (("prediction", None), ("groups", sites)):
        there = nishimori.GroupConsistency(by=by, method=method).fit(tensor, at, groups=groups)
        here = nishimori.GroupConsistency(by=by, method=method).fit(stored, labels, groups=groups)
        np.testing.assert_allclose(there.temperatures_, here.temperatures_, rtol=1e-6)
        np.testing.assert_allclose(there.temperatures_se_, here.temperatures_se_, rtol=1e-4)
        assert there.predict_proba(tensor, groups=groups).is_cuda
        gaps = [
            nishimori.group_gaps(*rows, by=by, groups=groups, calibrator=there) for rows in ((tensor, at), (stored, labels))
        ]
        np.testing.assert_allclose([each.gap for each in gaps[0]], [each.gap for each in gaps[1]], rtol=1e-5)
        np.testing.assert_allclose([each.se for each in gaps[0]], [each.se for each in gaps[1]], rtol=1e-5)


@pytest.mark.parametrize("parameters", ["shared", "per_label", "shrunk"])
def test_labels_that_do_not_exclude_each_other_are_calibrated_there(parameters):
    rng = np.random.default_rng(0)
    logits = 4 * rng.normal(size=(2000, 3))
    labels = logits / np.array([1.0, 2.0, 4.0]) + rng.logistic(size=logits.shape) > 0
    expected = MultilabelCalibrator(parameters=parameters).fit(logits, labels)
    tensor = torch.from_numpy(logits).cuda()
    found = MultilabelCalibrator(parameters=parameters).fit(tensor, torch.from_numpy(labels).cuda())
    np.testing.assert_allclose(found.temperatures_, expected.temperatures_, rtol=1e-8)
    np.testing.assert_allclose(found.temperatures_se_, expected.temperatures_se_, rtol=1e-6)
    p = found.predict_proba(tensor)
    assert p.is_cuda
    np.testing.assert_allclose(p.cpu(), expected.predict_proba(logits), rtol=1e-8)
