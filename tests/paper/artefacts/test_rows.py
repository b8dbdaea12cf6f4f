"""Verdicts on the rows of the paper's tables: tolerances, and what counts as explained."""

import pytest

from nishimori.paper.artefacts._rows import AUGMENTED, COLUMNS, compared_row

PAPER = (13.5, 1.37, 1.38, 5.3, 1.9, 1.9, 20.0, 19.43, 19.2)


def content(*, bars=0.0, **changes):
    """A network with the paper's numbers, except for ``changes``, which are in the units of the table."""

    def row(kind):
        ours = dict(zip(COLUMNS, PAPER, strict=True))
        ours |= {key.removesuffix(f"_{kind}"): value for key, value in changes.items() if key.endswith(f"_{kind}")}
        return {key: value if key.startswith("temperature") else value / 100 for key, value in ours.items()}

    spread = {key: bars if key.startswith("temperature") else bars / 100 for key in COLUMNS}
    return {each: row(each) for each in ("clean", "augmented")} | {
        f"{kind} error bars": spread for kind in ("clean", "augmented")
    }


def verdicts(name, found):
    return dict(zip(COLUMNS, compared_row(name, found, PAPER), strict=True))


def test_a_number_that_only_augmented_images_give_is_explained_by_them():
    found = verdicts("cifar10/resnet20-authors", content(temperature_ts_clean=1.52, ece_ec_clean=0.6))
    for key in COLUMNS:
        assert found[key].verdict == ("explained" if key in ("temperature_ts", "ece_ec") else "agrees"), key
        calibrated = key.endswith(("_ts", "_ec"))
        assert found[key].explanation == (AUGMENTED if calibrated else None)
        assert found[key].paper_method == (pytest.approx(dict(zip(COLUMNS, PAPER, strict=True))[key]) if calibrated else None)
    assert found["temperature_ts"].ours == 1.52
    assert found["ece_ec"].what == "CIFAR-10 ResNet20 (authors'): ece ec, %"


def test_a_number_that_neither_method_gives_differs():
    found = verdicts("cifar10/resnet20-authors", content(temperature_ts_clean=1.52, temperature_ts_augmented=1.44))
    assert found["temperature_ts"].verdict == "differs"
    found = verdicts("cifar10/resnet20-authors", content(error_clean=14.0))
    assert found["error"].verdict == "differs"  # measured on the test set, whatever the calibration


def test_without_augmented_images_there_is_nothing_to_explain():
    clean = {key: value for key, value in content(temperature_ts_clean=1.52).items() if key.startswith("clean")}
    found = verdicts("svhn/resnet20-authors", clean)
    assert found["temperature_ts"].verdict == "differs"
    assert found["temperature_ts"].explanation is None


def test_error_bars_widen_the_comparison_of_the_same_network():
    changed = {"temperature_ts_clean": 1.45, "temperature_ts_augmented": 1.45}
    for bars, verdict in ((0.03, "differs"), (0.04, "agrees")):  # one digit and two error bars
        found = verdicts("cifar10/resnet20-authors", content(bars=bars, **changed))["temperature_ts"]
        assert (found.verdict, found.tolerance) == (verdict, pytest.approx(0.01 + 2 * bars))


def test_another_network_gets_the_spread_of_trainings():
    ours, theirs = (verdicts(name, content()) for name in ("cifar10/resnet20", "cifar10/resnet20-authors"))
    for key, wide in {"temperature_ec": 0.2, "error": 3.1, "ece_ts": 1.5, "brier": 4.0}.items():
        digit = 0.01 if key.startswith("temperature") else 0.1
        assert theirs[key].tolerance == pytest.approx(digit)
        assert ours[key].tolerance == pytest.approx(digit + wide)
    assert ours["error"].what == "CIFAR-10 ResNet20 (ours): error, %"
    assert ours["ece_ts"].what == "CIFAR-10 ResNet20 (ours, augmented): ece ts, %"
    assert ours["ece_ts"].paper_method is None
