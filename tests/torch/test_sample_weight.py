"""Weights of samples in batches: they count as copies do, wherever logits are kept, summed or read again."""

import numpy as np
import pytest
import reference
import torch
from torch import nn

import nishimori
from nishimori.errors import InputError
from nishimori.torch import calibrate, collect

LOGITS, LABELS = reference.drawn(600, 4, temperature=2.0)
WEIGHTS = np.random.default_rng(0).uniform(0.2, 3, size=600)
WEIGHTS[::7] = 0
X, Y, W = torch.tensor(LOGITS, dtype=torch.float32), torch.tensor(LABELS), torch.tensor(WEIGHTS, dtype=torch.float32)
LOADER = [{"input": X[i : i + 100], "labels": Y[i : i + 100], "w": W[i : i + 100]} for i in range(0, 600, 100)]
EXPECTED = nishimori.temperatures(X.numpy(), LABELS, sample_weight=W.numpy())


@pytest.mark.parametrize("options", [{}, {"keep_up_to": 0}, {"keep_up_to": 0, "reread": True}])
@pytest.mark.parametrize("method", ["ec", "ts"])
def test_the_temperature_is_that_of_the_weighted_rows(method, options):
    calibrated = calibrate(nn.Identity(), LOADER, method=method, sample_weight="w", **options)
    assert float(calibrated.temperature) == pytest.approx(getattr(EXPECTED, method), rel=2e-6)
    assert calibrated.temperatures.n_samples == EXPECTED.n_samples


def test_methods_of_several_parameters_take_them_too():
    fitted = calibrate(nn.Identity(), LOADER, method="bias", sample_weight="w").calibrator
    expected = nishimori.BiasCorrected().fit(X.numpy(), LABELS, W.numpy())
    np.testing.assert_allclose(fitted.biases_, expected.biases_, atol=1e-6)


def test_a_function_of_the_users_own_returns_them():
    forward = lambda model, batch: {"logits": batch["input"], "labels": batch["labels"], "sample_weight": batch["w"]}  # noqa: E731
    calibrated = calibrate(nn.Identity(), LOADER, method="ec", forward=forward)
    assert float(calibrated.temperature) == pytest.approx(EXPECTED.ec, rel=2e-6)


def test_collected_rows_bring_their_weights():
    collected = collect(nn.Identity(), LOADER, sample_weight="w")
    found = nishimori.temperatures(*collected, sample_weight=collected.sample_weight)
    assert found.ec == pytest.approx(EXPECTED.ec, rel=1e-9)
    assert len(collected.labels) == (WEIGHTS > 0).sum()
    assert collect(nn.Identity(), (X, Y)).sample_weight is None


def test_tokens_have_the_weight_of_their_sequence_and_padding_none():
    x, y, w = X.reshape(60, 10, 4), Y.reshape(60, 10).clone(), W[:60]
    y[:, -2:] = -100
    loader = [{"input": x[:30], "labels": y[:30], "w": w[:30]}, {"input": x[30:], "labels": y[30:], "w": w[30:]}]
    calibrated = calibrate(nn.Identity(), loader, method="ts", sample_weight="w")
    expected = nishimori.temperatures(x.numpy(), y.numpy(), sample_weight=w.numpy(), ignore_index=-100)
    assert float(calibrated.temperature) == pytest.approx(expected.ts, rel=2e-6)


@pytest.mark.parametrize(
    ("loader", "options", "message"),
    [
        (LOADER, {"sample_weight": "weights"}, r"`sample_weight` must be the key of the weights in each batch, got 'weights'"),
        ([(X, Y)], {"sample_weight": "w"}, "be the key of the weights in each batch, got 'w' for batch 0"),
        (LOADER, {"sample_weight": W}, "be the key of the weights in each batch, got an object of type Tensor"),
        (LOADER, {"sample_weight": "w", "forward": lambda model, batch: (0, 0)}, "which returns the weights"),
        ([{"input": X, "labels": Y, "w": -W}], {"sample_weight": "w"}, "sample_weight"),
        ([{"input": X, "labels": Y, "w": W[:9]}], {"sample_weight": "w"}, "sample_weight"),
    ],
)
def test_what_are_no_weights_is_refused(loader, options, message):
    with pytest.raises(InputError, match=message):
        calibrate(nn.Identity(), loader, **options)
