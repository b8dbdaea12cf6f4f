"""Tensors on a CUDA device are calibrated where they are."""

import numpy as np
import pytest
import torch

import nishimori
import reference
from nishimori import ExpectationConsistency, TemperatureScaling, from_temperature, temperatures

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
    assert fitted.receipt_.n_masked == hidden[weights > 0].sum()


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
    fitted = TemperatureScaling(input="probabilities", classes=names).fit(probabilities, names[labels])
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
    fitted = nishimori.Matched(Logit()).fit(tensor, labels)
    T = reference.ts_temperature(stored, labels)
    assert fitted.temperature_ == pytest.approx(T, rel=1e-8)
    card = nishimori.evaluate(tensor, labels, calibrator=fitted, strategy="quantile")
    p = reference.softmax(stored, T).max(axis=1)
    assert card.nll == pytest.approx(reference.nll(stored, labels, T), rel=1e-8)
    assert card.brier == pytest.approx(reference.brier(stored, labels, T), rel=1e-8)
    expected = reference.ece(p, reference.right(stored, labels), reference.quantile_edges(p, 15))
    assert card.ece == pytest.approx(expected, rel=1e-6)
    assert fitted.predict_proba(tensor).is_cuda
