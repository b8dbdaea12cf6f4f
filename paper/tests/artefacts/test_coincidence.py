"""How the TS condition splits, what follows for the two temperatures, and what the networks and the theory show."""

import csv
import json
import re
from math import exp, log, sqrt
from pathlib import Path

import numpy as np
import pytest
import reference_theory
from scipy.special import expit, softmax

import nishimori_paper as paper
from nishimori import data, temperatures
from nishimori_paper._names import NetworkName
from nishimori_paper.artefacts._coincidence import (
    Distances,
    decomposition,
    limit,
    profile,
    root_mean_square,
    roots,
)
from nishimori_paper.artefacts._figure_coincidence import RandomLabels
from nishimori_paper.theory import Affine, Overlaps


def drawn(n, k, seed=0, scale=2.0):
    """Logits, and labels from probabilities that are flatter and slightly shifted."""
    rng = np.random.default_rng(seed)
    z = scale * rng.standard_normal((n, k))
    p = softmax(0.6 * z + 0.3 * rng.standard_normal((n, k)), axis=1)
    return z, (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)


def by_hand(z, y, T):
    """Gap of EC, gap of TS and both parts of the latter, summed over classes one by one."""
    ec = ts = weighted = rest = 0.0
    for row, label in zip(z, y, strict=True):
        p = np.exp(row / T) / np.exp(row / T).sum()
        top = row.argmax()
        others = [k for k in range(len(row)) if k != top]
        margin = sum(p[k] * (row[top] - row[k]) for k in others) / sum(p[k] for k in others)
        gap = p[top] - (label == top)
        ec += gap
        ts += p @ row - row[label]  # the slope of the loss in 1/T
        weighted += margin * gap
        rest += (label != top) * (row[top] - row[label] - margin)
    return np.array([ec, ts, weighted, rest]) / len(y)


@pytest.mark.parametrize("k", [2, 5])
def test_the_ts_condition_is_the_gap_weighted_by_the_margin_and_a_rest_among_wrong_classes(k):
    z, y = drawn(60, k)
    T = 1.7
    ec, ts, weighted, rest = by_hand(z, y, T)
    assert ts == pytest.approx(weighted + rest, abs=1e-12)
    sums = Distances.from_logits(z, y).at(-log(T))
    np.testing.assert_allclose(
        [sums.gap.mean(), T * sums.ts_gap.mean(), T * (sums.margin * sums.gap).mean(), T * sums.rest.mean()],
        [ec, ts, weighted, rest],
        atol=1e-12,
    )
    if k == 2:
        assert rest == pytest.approx(0.0, abs=1e-12)
        np.testing.assert_allclose(T * sums.margin, np.abs(z[:, 1] - z[:, 0]))


def test_both_slopes_are_derivatives_in_the_logarithm_of_the_inverse_temperature():
    z, y = drawn(50, 4)
    T, h = 1.3, 1e-5
    before, after = by_hand(z, y, T * exp(h)), by_hand(z, y, T * exp(-h))
    sums = Distances.from_logits(z, y).at(-log(T))
    assert sums.slope.mean() == pytest.approx((after[0] - before[0]) / (2 * h), rel=1e-6)
    assert sums.ts_slope.mean() == pytest.approx((after[1] - before[1]) / (2 * h) / T, rel=1e-6)


def test_random_labels_are_averaged_over_all_labels():
    z, y = drawn(40, 3)
    noise = np.where(y == 0, 0.25, 0.0)
    found = Distances.from_logits(z, y, noise).at(0.2)
    expected = {name: (1 - noise) * getattr(Distances.from_logits(z, y).at(0.2), name) for name in ("gap", "ts_gap", "rest")}
    for label in range(3):
        replaced = Distances.from_logits(z, np.full(40, label)).at(0.2)
        expected = {name: value + noise / 3 * getattr(replaced, name) for name, value in expected.items()}
    for name, value in expected.items():
        np.testing.assert_allclose(getattr(found, name), value, atol=1e-12)


def test_margins_of_very_confident_samples_are_finite():
    sums = Distances.from_logits([[0.0, -2000.0, -3000.0], [1.0, 0.0, 0.5]], [0, 1]).at(0.0)
    np.testing.assert_allclose(sums.margin[0], 2000.0)
    assert np.isfinite(np.array(sums)).all()


@pytest.mark.parametrize("name", ["cifar10/resnet20", "cifar100/vgg19"])
def test_the_roots_are_the_temperatures_of_the_library(name):
    test = data.load(name).test
    found = temperatures(test.logits, test.labels)
    ec, ts = roots(Distances.from_logits(test.logits, test.labels))
    assert exp(-ec) == pytest.approx(found.ec, rel=1e-6)
    assert exp(-ts) == pytest.approx(found.ts, rel=1e-6)


@pytest.mark.parametrize("k", [2, 6])
def test_the_first_order_formula_has_an_error_of_second_order(k):
    """A share of random labels among labels of the model itself: a quarter of the share has a quarter of the relative error."""
    z, _ = drawn(400, k, seed=1)
    p = softmax(z, axis=1)
    distance = z.max(axis=1, keepdims=True) - z
    relative = []
    for share in (0.04, 0.01, 0.0):
        others = Distances.from_logits(z, np.zeros(400, dtype=int)).others
        wrong = (1 - share) * (1 - p.max(axis=1)) + share * (1 - 1 / k)
        label = (1 - share) * (p * distance).sum(axis=1) + share * distance.mean(axis=1)
        found = decomposition(Distances(others, wrong, label))
        assert found["first_order"] == pytest.approx(found["covariance"] + found["wrong_classes"], abs=1e-12)
        if share:
            relative.append(found["first_order"] / found["difference"] - 1)
    assert abs(relative[0]) < 0.3
    assert 0 < abs(relative[1]) < 0.45 * abs(relative[0])
    # Labels of the model itself have the same two temperatures, both 1.
    assert found["temperature_ec"] == pytest.approx(1.0, abs=1e-6)
    assert found["difference"] == pytest.approx(0.0, abs=1e-6)


def test_the_error_bars_are_those_of_the_jackknife():
    n = 150
    z, y = drawn(n, 4, seed=2, scale=4.0)
    found = decomposition(Distances.from_logits(z, y))
    without = [decomposition(Distances.from_logits(np.delete(z, i, axis=0), np.delete(y, i))) for i in range(n)]
    for name in ("difference", "covariance", "wrong_classes", "first_order"):
        spread = np.std([each[name] for each in without]) * (n - 1) / sqrt(n)
        assert found[f"{name}_se"] == pytest.approx(spread, rel=0.06), name


def test_bins_have_equal_numbers_of_samples_and_their_root_mean_square_is_without_noise():
    z, y = drawn(3000, 2, seed=3)
    rows = profile(Distances.from_logits(z, y), 0.0)
    margin = np.abs(z[:, 1] - z[:, 0])
    gap = expit(margin) - (y == z.argmax(axis=1))
    order = np.argsort(margin)
    assert rows[0]["gap"] == pytest.approx(gap[order[:200]].mean())
    assert rows[-1]["margin"] == pytest.approx(margin[order[-200:]].mean())
    assert rows[3]["gap_se"] == pytest.approx(gap[order[600:800]].std(ddof=1) / sqrt(200))
    assert root_mean_square([{"gap": 0.05, "gap_se": 0.03}, {"gap": -0.05, "gap_se": 0.04}]) == pytest.approx(
        0.0353553, rel=1e-5
    )
    assert root_mean_square([{"gap": 0.01, "gap_se": 0.03}]) == 0.0


def test_the_theory_is_the_limit_of_many_samples():
    score = Overlaps(Affine(), m=0.8, q=0.9)
    found = limit(score)
    rng = np.random.default_rng(0)
    theirs = rng.standard_normal(200_000)
    ours = 0.8 * theirs + sqrt(0.9 - 0.64) * rng.standard_normal(200_000)
    y = (rng.random(200_000) < np.clip((1 + theirs) / 2, 0, 1)).astype(int)
    sampled = decomposition(Distances.from_logits(np.stack([np.zeros(200_000), ours], axis=1), y))
    assert abs(sampled["difference"] - found["difference"]) < 4 * sampled["difference_se"]
    assert abs(sampled["first_order"] - found["first_order"]) < 4 * sampled["first_order_se"]
    for name in ("heat", "margin_mean", "margin_sd"):
        assert sampled[name] == pytest.approx(found[name], rel=0.01)
    reference = reference_theory.Classifier(Affine(), 0.8, 0.9)
    gap = expit(np.abs(reference.omega)) - np.where(reference.omega > 0, reference.positive, 1 - reference.positive)
    assert found["rms_before"] == pytest.approx(sqrt(reference.weight @ gap**2), rel=1e-6)


def test_random_labels_of_the_theory_are_right_half_of_the_time():
    np.testing.assert_allclose(RandomLabels(share=0.2).probability(np.array([-50.0, 0.0, 50.0])), [0.1, 0.5, 0.9])


# What the artefact and the page show


@pytest.fixture(scope="module")
def rows(computed):
    folder = computed("figure-coincidence")
    with (folder / "figure-coincidence-differences.csv").open(encoding="utf-8") as stream:
        found = [
            {key: value if key in ("network", "labels") else float(value) for key, value in row.items()}
            for row in csv.DictReader(stream)
        ]
    return {kind: [row for row in found if row["labels"] == kind] for kind in ("clean", "noisy")}


def test_with_clean_labels_one_temperature_removes_the_gap_at_every_margin(rows):
    assert len(rows["clean"]) == 11
    for row in rows["clean"]:
        assert abs(row["difference"]) < 0.06, row
        assert row["rms_after"] < 0.15 * row["rms_before"], row
        assert abs(row["covariance"]) < 0.03, row


def test_with_random_labels_the_gap_grows_with_the_margin_and_ts_is_warmer(rows):
    for row in rows["noisy"]:
        assert row["difference"] > 5 * row["difference_se"], row
        assert row["covariance"] > 0, row
        assert row["wrong_classes"] > 0, row


def test_the_formula_predicts_the_difference_of_every_network(rows):
    for row in rows["clean"]:
        assert row["first_order"] == pytest.approx(row["difference"], abs=0.005), row
    for row in rows["noisy"]:
        assert row["first_order"] == pytest.approx(row["difference"], rel=0.35), row


def test_the_teachers_of_the_theory_show_the_same_signs(computed):
    stored = json.loads((computed("figure-coincidence") / "figure-coincidence.json").read_text(encoding="utf-8"))["pieces"]
    found = {name.removeprefix("theory "): each for name, each in stored.items() if name.startswith("theory ")}
    assert len(found) == 8
    for name, each in found.items():
        assert each["first_order"] == pytest.approx(each["difference"], rel=0.1), name
        # A share of random labels makes TS warmer; σ* that reach 0 and 1 make it colder; the logit teacher does neither.
        assert (each["difference"] > 0) == ("random" in name), name
        assert (abs(each["difference"]) < 0.01) == (name in ("logit, α = 5", "logit, α = 20")), name


def test_differences_of_the_papers_tables_are_reproduced_except_three(computed):
    found = paper.check("figure-coincidence", computed("figure-coincidence"))
    assert len(found) == 22
    assert [each.what.split(":")[0] for each in found if not each.agrees] == [
        f"CIFAR-100 {name} (ours), noisy labels" for name in ("ResNet56", "VGG19", "RepVGG-A2")
    ]
    # Written from the printed tables: SVHN 1.59 and 1.55, CIFAR-100 VGG19 2.14 and 2.28.
    printed = {each.what.split(",")[0]: each.paper for each in found if "clean" in each.what}
    assert printed["SVHN ResNet20 (ours)"] == pytest.approx(log(1.59 / 1.55))
    assert printed["CIFAR-100 VGG19 (ours)"] == pytest.approx(log(2.14 / 2.28))


def test_the_table_of_all_results_is_the_output_of_the_artefact(rows):
    page = (Path(__file__).parents[2] / "RESULTS.md").read_text(encoding="utf-8")
    lines = [re.split(r" *\| *", line.strip("| ")) for line in page.splitlines() if re.match(r"\|.*\| (clean|noisy) \|", line)]
    assert len(lines) == 10
    titles = {NetworkName.parse(row["network"]).label.removesuffix(" (ours)"): row["network"] for row in rows["clean"]}
    name = None
    for cells in lines:
        name = titles[cells.pop(0)] if len(cells) == 7 else name
        kind, *numbers = cells
        row = next(each for each in rows[kind] if each["network"] == name)
        written = [float(each.replace("−", "-")) for each in re.findall(r"[+−]?\d+\.\d+", " ".join(numbers))]
        columns = (
            "difference",
            "difference_se",
            "first_order",
            "covariance",
            "covariance_se",
            "wrong_classes",
            "wrong_classes_se",
        )
        np.testing.assert_allclose(written[:7], [row[each] for each in columns], atol=0.00051)
        np.testing.assert_allclose(written[7:], [100 * row["rms_before"], 100 * row["rms_after"]], atol=0.051)
