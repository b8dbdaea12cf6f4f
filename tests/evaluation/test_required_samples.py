"""The number of samples from a pilot: one over n, against draws."""

import json

import numpy as np
import pytest
import reference
from scipy import stats

import nishimori
from nishimori import AdaptiveConsistency, ExpectationConsistency, TemperatureScaling, required_samples, temperatures
from nishimori.errors import InputError


@pytest.mark.parametrize("calibrator", [ExpectationConsistency(), TemperatureScaling()])
def test_so_many_samples_bring_the_standard_error_to_the_target(calibrator):
    pilot = calibrator.fit(*reference.drawn(500, 5))
    needed = required_samples(0.02, pilot)
    assert needed.n == pytest.approx(500 * (pilot.temperature_se_ / pilot.temperature_ / 0.02) ** 2, abs=1)
    assert needed.more == needed.n - 500
    spread = [np.log(type(calibrator)().fit(*reference.drawn(needed.n, 5, seed=seed)).temperature_) for seed in range(1, 101)]
    # Three standard errors of a spread of 100 draws, and as much of the pilot's own standard error.
    assert np.std(spread) == pytest.approx(0.02, rel=0.3)


def test_a_level_asks_for_an_interval():
    pilot = temperatures(*reference.drawn(500, 5))
    quantile = stats.norm.ppf(0.975)
    one, interval = required_samples(0.02, pilot), required_samples(0.02, pilot, level=0.95)
    assert interval.n == pytest.approx(one.n * quantile**2, rel=1e-3)
    low, high = ExpectationConsistency().fit(*reference.drawn(500, 5)).confidence_interval(0.95)
    assert interval.reached == pytest.approx(np.log(high / low) / 2, rel=1e-6)


def test_the_pilot_may_have_both_temperatures():
    pilot = temperatures(*reference.drawn(500, 5))
    assert required_samples(0.02, pilot) == required_samples(0.02, pilot, method="ec")
    assert required_samples(0.02, pilot).n == pytest.approx(500 * (pilot.ec_se / pilot.ec / 0.02) ** 2, abs=1)
    assert required_samples(0.02, pilot, method="ts").n == pytest.approx(500 * (pilot.ts_se / pilot.ts / 0.02) ** 2, abs=1)


def test_a_saved_calibrator_is_a_pilot(tmp_path):
    pilot = TemperatureScaling().fit(*reference.drawn(500, 5))
    pilot.save(tmp_path / "ts.json")
    assert required_samples(0.05, nishimori.load(tmp_path / "ts.json")) == required_samples(0.05, pilot)


def test_the_sentence_says_how_many_and_what_within_means():
    pilot = ExpectationConsistency().fit(*reference.drawn(500, 5))
    assert required_samples(0.02, pilot).verdict == (
        "6,571 more validation samples would bring T of ec within 2 % (one standard error)."
    )
    assert required_samples(0.02, pilot, level=0.95).verdict.endswith("would bring T of ec within 2 % (interval at 95 %).")
    enough = required_samples(0.2, pilot)
    assert enough.more == 0
    assert enough.n < 500
    assert enough.verdict == "500 validation samples are enough: T of ec is within 7.5 % (one standard error)."
    other = required_samples(0.02, temperatures(*reference.drawn(500, 5)), method="ts")
    assert other.method == "ts"
    assert "would bring T of ts within" in other.verdict
    assert required_samples(0.02, TemperatureScaling().fit(*reference.drawn(500, 5))) == other


def test_an_adaptive_pilot_asks_for_the_temperature_of_ec(tmp_path):
    data = reference.drawn(500, 5)
    pilot = AdaptiveConsistency().fit(*data)
    assert pilot.temperature_se_ / pilot.temperature_ < 0.95 * np.sqrt(pilot._estimates_["ec_variance"])  # another error
    needed = required_samples(0.02, pilot)
    ec = ExpectationConsistency().fit(*data)
    assert needed.reached == pytest.approx(ec.temperature_se_ / ec.temperature_, rel=1e-6)
    assert needed.n == required_samples(0.02, ec).n
    assert needed.verdict.startswith(f"{needed.more:,} more validation samples would bring T of ec within")
    pilot.save(tmp_path / "adaptive.json")
    assert required_samples(0.02, nishimori.load(tmp_path / "adaptive.json")) == needed


def test_an_adaptive_pilot_without_the_temperature_of_ec_is_refused(tmp_path):
    logits, _ = reference.drawn(60, 5)
    second = np.argsort(logits, axis=1)[:, -2]  # never right, and never unlikely
    with pytest.warns(nishimori.errors.InputWarning, match="The temperature of TS is used as it is"):
        pilot = AdaptiveConsistency().fit(logits, second)
    with pytest.raises(InputError, match="`pilot` must have the temperature of 'ec', got none"):
        required_samples(0.02, pilot)
    path = tmp_path / "adaptive.json"
    AdaptiveConsistency().fit(*reference.drawn(500, 5)).save(path)
    kept = json.loads(path.read_text())
    del kept["provenance"]["estimates"]
    path.write_text(json.dumps(kept))
    with pytest.raises(InputError, match="`pilot` must have a temperature with a standard error, got none"):
        required_samples(0.02, nishimori.load(path))


def test_bad_arguments_are_refused():
    data = reference.drawn(500, 5)
    pilot, found = ExpectationConsistency().fit(*data), temperatures(*data)
    for target in (0, 2, "small"):
        with pytest.raises(InputError, match="`target` must lie between 1e-06 and"):
            required_samples(target, pilot)
    with pytest.raises(InputError, match="`level` must lie between"):
        required_samples(0.02, pilot, level=95)
    with pytest.raises(InputError, match="`method` must be left out where `pilot` is a calibrator"):
        required_samples(0.02, pilot, method="ts")
    with pytest.raises(InputError, match="`method` must be 'ec' or 'ts', got 'both'"):
        required_samples(0.02, found, method="both")
    for nothing in (1.5, ExpectationConsistency(), nishimori.from_temperature(2.0)):
        with pytest.raises(InputError, match="`pilot` must be a calibrator that was fitted to samples, or the result of"):
            required_samples(0.02, nothing)
    logits, labels = reference.drawn(500, 5)
    logits[0, labels[0]] = -np.inf
    with pytest.raises(InputError, match=r"`pilot` must have the temperature of 'ts', got none\. `labels` must not name"):
        required_samples(0.02, temperatures(logits, labels), method="ts")
    with pytest.raises(InputError, match="`pilot` must have a temperature with a standard error, got none"):
        required_samples(0.02, nishimori.calibrators.FixedTemperature(2.0).fit(*data))
