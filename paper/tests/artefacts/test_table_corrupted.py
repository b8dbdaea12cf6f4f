"""Label noise: which labels it changes, and what it does to the networks' scores."""

import numpy as np
import pytest

from nishimori import ExpectationConsistency, TemperatureScaling, data, metrics
from nishimori_paper._artefact import Scale
from nishimori_paper._printed import printed
from nishimori_paper.artefacts._rows import COLUMNS
from nishimori_paper.artefacts._table_corrupted import _noisy, corrupted, noisy_scores, validation_only


@pytest.mark.parametrize(
    ("name", "percent"),
    [("cifar10/resnet20-authors", 20.8), ("cifar10/resnet56-authors", 20.9), ("svhn/resnet20-authors", 12.6)],
)
def test_the_authors_networks_have_the_papers_error_under_label_noise(name, percent):
    assert 100 * noisy_scores(name, Scale(quick=True))["clean"]["error"] == pytest.approx(percent, abs=0.3)
    line = printed()["table-corrupted"]["rows"][name.removesuffix("-authors")]
    assert percent == pytest.approx(line[0], abs=0.15)


@pytest.mark.parametrize("name", ["cifar10/resnet20", "cifar100/resnet20-conv"])
def test_noise_replaces_the_labels_of_the_first_tenth_of_the_classes_only(name):
    part, rng = data.load(name).test, np.random.default_rng(0)
    n_classes = part.logits.shape[1]
    drawn = [corrupted(part, rng) for _ in range(20)]
    noisy = part.labels < n_classes // 10
    assert noisy.mean() == pytest.approx(0.1, abs=0.01)
    for each in drawn:
        assert each.logits is part.logits
        np.testing.assert_array_equal(each.labels[~noisy], part.labels[~noisy])
    noise = np.concatenate([each.labels[noisy] for each in drawn])
    shares = np.bincount(noise, minlength=n_classes) / len(noise)
    sd = np.sqrt((1 - 1 / n_classes) / n_classes / len(noise))
    assert len(shares) == n_classes
    assert np.abs(shares - 1 / n_classes).max() < 5 * sd  # all classes are equally likely, the true one included
    kept = np.mean([(each.labels == part.labels)[noisy].mean() for each in drawn])
    assert kept == pytest.approx(1 / n_classes, abs=5 * sd)
    assert not np.array_equal(drawn[0].labels, drawn[1].labels)


@pytest.mark.parametrize("name", ["cifar10/resnet20-authors", "svhn/resnet20", "cifar100/repvgg-a2"])
def test_the_error_under_noise_is_the_one_the_confusion_predicts(name):
    part, scale = data.load(name).test, Scale(quick=True)
    n_classes = part.logits.shape[1]
    confusion = np.zeros((n_classes, n_classes))
    np.add.at(confusion, (part.labels, part.logits.argmax(axis=1)), 1 / len(part.labels))
    tenth = n_classes // 10
    # Whatever class the network predicts for a noisy row, one label in K equals it.
    share = confusion[:tenth].sum()
    expected = confusion[tenth:].sum() - np.trace(confusion[tenth:, tenth:]) + share * (1 - 1 / n_classes)
    found = noisy_scores(name, scale)
    sd = np.sqrt(share / n_classes * (1 - 1 / n_classes) / len(part.labels) / 4)  # standard deviation of the mean of four draws
    assert found["clean"]["error"] == pytest.approx(expected, abs=4 * sd)
    assert found["noisy"] == pytest.approx(share, abs=1e-12)


def test_noise_follows_from_the_seed():
    one, other = (noisy_scores("cifar10/resnet20-fraction-0.1", Scale(quick=True, seed=seed)) for seed in (0, 1))
    assert one == _noisy(data.load("cifar10/resnet20-fraction-0.1"), Scale(quick=True))
    assert one["clean"] != other["clean"]


def test_the_papers_seven_percent_is_a_mean_over_its_rows():
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in printed()["table-corrupted"]["rows"].values()]
    mean = np.mean([(row["ece_ts"] - row["ece_ec"]) / row["ece_ts"] for row in rows])
    assert round(mean, 2) == printed()["table-corrupted"]["ece_reduction"] == 0.07


def test_noise_in_the_validation_labels_alone_is_measured_with_clean_test_labels():
    name, scale = "cifar10/resnet20-authors", Scale(quick=True)
    network, rng = data.load(name), np.random.default_rng(scale.seed)
    expected = []
    for _ in range(4):
        noisy = corrupted(network.validation, rng)
        corrupted(network.test, rng)  # the next numbers, which are not used here
        fitted = [kind().fit(noisy.logits, noisy.labels) for kind in (TemperatureScaling, ExpectationConsistency)]
        expected.append(
            [
                metrics.ece(network.test.logits, network.test.labels, temperature=each.temperature_, strategy="quantile")
                for each in fitted
            ]
        )
    found = noisy_scores(name, scale)["validation only"]
    assert (found["ece_ts"], found["ece_ec"]) == pytest.approx(np.mean(expected, axis=0), abs=2e-5)
    assert found["ece"] == pytest.approx(metrics.ece(network.test.logits, network.test.labels, strategy="quantile"), abs=1e-6)
    assert found["error"] == pytest.approx((network.test.logits.argmax(axis=1) != network.test.labels).mean())
    row = validation_only(noisy_scores(name, scale))
    assert row == {f"validation_only_{column}": 100 * found[column] for column in ("ece", "ece_ts", "ece_ec")}
    assert row["validation_only_ece_ts"] > row["validation_only_ece"]  # worse than no calibration
