import pickle
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
import reference
from optional import torch

from nishimori.errors import InputError
from nishimori.maps.affine import Affine
from nishimori.maps.kinds import from_parameters
from nishimori.maps.temperature import Temperature

LOGITS, _ = reference.drawn(20, 4)


def test_a_temperature_divides_and_keeps_library_and_dtype():
    halved = Temperature(2.0).apply(torch.tensor(LOGITS, dtype=torch.float32))
    assert halved.dtype is torch.float32
    np.testing.assert_allclose(halved, LOGITS / 2, rtol=1e-6)


def test_probabilities_do_not_lose_digits_to_a_constant_per_row():
    shifted = (LOGITS + 1e4).astype(np.float32)
    expected = reference.softmax(shifted.astype(np.float64), 0.3)
    np.testing.assert_allclose(Temperature(0.3).probabilities(shifted), expected, rtol=1e-5)


def test_what_a_dtype_cannot_hold_is_infinite_without_a_warning():
    assert Temperature(1e-3).apply(np.array([[1000.0, 0.0]], dtype=np.float16)).tolist() == [[np.inf, 0.0]]
    tripled = Affine(np.array(3.0), np.zeros(2))
    logits = np.array([[6e4, -6e4]], dtype=np.float16)
    assert tripled.apply(logits).tolist() == [[np.inf, -np.inf]]
    assert tripled.probabilities(logits).tolist() == [[1.0, 0.0]]


def test_a_map_is_its_kind_and_parameters_again():
    assert from_parameters(Temperature.kind, dict(Temperature(1.5).parameters)) == Temperature(1.5)


def test_a_map_is_frozen_and_can_be_sent_elsewhere():
    assert pickle.loads(pickle.dumps(Temperature(1.5))) == Temperature(1.5)
    with pytest.raises(FrozenInstanceError):
        Temperature(1.5).temperature = 2.0


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [("other", {"temperature": 1.0}), ("temperature", {}), ("temperature", {"temperature": "1"}), ("temperature", [1.0])],
)
def test_what_describes_no_map_is_refused(kind, parameters):
    with pytest.raises(InputError, match="must"):
        from_parameters(kind, parameters)
