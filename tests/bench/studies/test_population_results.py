"""The analysis of the population of networks: its statistics, its bootstrap, and a run on generated logits."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import softmax

import nishimori
from nishimori_paper.artefacts._coincidence import Distances, profile, root_mean_square, roots

BENCH = Path(__file__).parents[3] / "bench"


def generated(n, k, *, seed, T=1.5, shape=1.0):
    """Logits and labels: right at temperature T, but for ``shape``, a power of the distance to the top logit."""
    rng = np.random.default_rng(seed)
    z = 2 * rng.normal(size=(n, k)) * rng.gamma(2, size=(n, 1))
    below = z - z.max(axis=1, keepdims=True)
    labels = (-(np.abs(below) ** shape) / T + rng.gumbel(size=z.shape)).argmax(axis=1)
    return below.astype(np.float32), labels


# Statistics.


def test_the_mixed_model_is_restricted_maximum_likelihood():
    from population_results import intercept

    rng = np.random.default_rng(1)
    groups = [list(rng.normal(rng.normal(0.3, 1.0), 0.3, size=n)) for n in (5, 3, 2, 3, 2, 4)]
    y, sizes = np.concatenate(groups), [len(each) for each in groups]
    member = np.repeat(np.eye(len(sizes)), sizes, axis=0)

    def parts(logs):
        V = np.exp(logs[0]) * member @ member.T + np.exp(logs[1]) * np.eye(len(y))
        inverse = np.linalg.inv(V)
        precision = inverse.sum()
        mean = (inverse @ y).sum() / precision
        return V, inverse, precision, mean

    def loss(logs):
        V, inverse, precision, mean = parts(logs)
        return np.linalg.slogdet(V)[1] + np.log(precision) + (y - mean) @ inverse @ (y - mean)

    best = minimize(loss, [-1.0, -1.0], method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-12})
    mean, variance, between, within = intercept(groups)
    _, _, precision, expected = parts(best.x)
    assert mean == pytest.approx(expected, rel=1e-4)
    assert variance == pytest.approx(1 / precision, rel=1e-3)
    assert (between, within) == pytest.approx(np.exp(best.x), rel=1e-3)


def test_without_variance_between_groups_the_mean_is_that_of_all():
    from population_results import intercept

    groups = [[1.0, 2.0, 3.0], [1.1, 2.1, 2.8, 2.0], [1.5, 2.5]]  # means differ by less than the scatter within
    mean, variance, between, _ = intercept(groups)
    assert between == 0
    assert mean == pytest.approx(np.mean(np.concatenate(groups)))
    assert variance == pytest.approx(np.var(np.concatenate(groups), ddof=1) / 9)


def test_differences_of_kinds_have_a_pooled_error_and_that_of_the_images():
    from population_results import difference, mean_over_kinds, mean_over_networks

    rng = np.random.default_rng(2)
    image = rng.normal(size=50)  # the same images for all networks
    first = {"a": [1.0, 2.0], "b": [4.0, 5.0, 9.0], "c": [0.0, 0.5]}
    values = [np.concatenate([[each], each + 0.3 * image]) for group in first.values() for each in group]
    kinds = [kind for kind, group in first.items() for _ in group]
    found = difference(values, kinds, ["b"], ["a", "c"])
    assert found.value == pytest.approx(6 - (1.5 + 0.25) / 2)
    within = (0.5 + 14 + 0.125) / 4
    assert found.networks == pytest.approx(np.sqrt(within * (1 / 3 + 1 / 4 / 2 + 1 / 4 / 2)))
    assert found.images == pytest.approx(0, abs=1e-12)  # what the images do to all networks alike cancels
    assert mean_over_kinds(values, kinds).images == pytest.approx(0.3 * np.std(image, ddof=1))
    plain = mean_over_networks(values)
    assert plain.networks == pytest.approx(np.std([each for group in first.values() for each in group], ddof=1) / np.sqrt(7))
    assert plain.freedom == 6
    assert plain.above(0) + plain.below(0) == pytest.approx(1)
    assert plain.within_margin(100) < 1e-6 < 0.5 < plain.within_margin(0.1)


def test_holms_correction_by_hand():
    from population_results import holm

    assert holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.9}) == pytest.approx({"a": 0.04, "b": 0.09, "c": 0.09, "d": 0.9})


def test_seeds_of_a_kind_count_once_in_the_growth_over_kinds():
    from population_results import growth_over_kinds

    grown = {"a": [(0.1, 0.2), (0.3, 0.4)], "b": [(-0.4, -0.8)], "c": [(-0.1, -0.3), (-0.2, -0.1), (-0.3, -0.2)], "d": []}
    kinds = {
        kind: {"growth": [{"growth of T": T, "growth of scale": scale} for T, scale in rows]} for kind, rows in grown.items()
    }
    T, scale = np.array([0.2, -0.4, -0.2]), np.array([0.3, -0.8, -0.2])
    found = growth_over_kinds(kinds, 0.05)
    assert found["kinds"] == 3
    assert found["value"] == pytest.approx(T.mean())
    assert found["error"] == pytest.approx(np.hypot(np.std(T, ddof=1) / np.sqrt(3), 0.05))
    assert found["freedom"] == 2
    assert found["correlation"] == pytest.approx(np.corrcoef(T, scale)[0, 1])
    assert found["slope"] == pytest.approx(np.cov(T, scale)[0, 1] / np.var(scale, ddof=1))
    assert growth_over_kinds({"a": kinds["a"], "b": kinds["b"]}, 0.05) is None


# Bootstrap samples.


def ece_by_hand(confidence, right):
    order = np.argsort(confidence, kind="stable")
    gaps = [np.sum((confidence - right)[part]) for part in np.array_split(order, 15)]
    return 100 * np.abs(gaps).sum() / len(confidence)


def test_scores_of_bootstrap_samples_are_those_of_repeated_rows():
    from population_measures import LOGS, Curves, resampled

    logits, labels = generated(1500, 5, seed=0)
    counts = resampled(1500, 3)[:4]
    assert (counts.sum(axis=1) == 1500).all()
    curves = Curves(logits, labels, counts)
    logs = np.array([0.0, 0.2, 0.4, 0.6])
    ece, nll = curves.at(logs)
    for i, row in enumerate(counts):
        some = np.repeat(np.arange(1500), row)
        p = softmax(logits[some].astype(float) / np.exp(logs[i]), axis=1)
        assert ece[i] == pytest.approx(ece_by_hand(p.max(axis=1), logits[some].argmax(axis=1) == labels[some]), abs=1e-3)
        assert nll[i] == pytest.approx(-np.log(p[np.arange(1500), labels[some]]).mean(), abs=2e-4)
    assert LOGS[0] < -1 < 1 < LOGS[-1]


def test_a_refit_to_a_bootstrap_sample_is_that_of_the_library():
    from population_measures import Pool, Resamples, temperatures

    logits, labels = generated(800, 5, seed=1)
    drawn = Resamples(800, 10, seed=4).drawn
    found = temperatures(Pool(logits), labels, drawn[:4])
    for i in range(4):
        for name in ("ec", "ts", "adaptive"):
            fitted = nishimori.calibrator(name).fit(logits[drawn[i]], labels[drawn[i]])
            assert np.exp(found[name][i]) == pytest.approx(fitted.temperature_, rel=2e-3)


def test_what_ec_leaves_is_the_mean_square_of_the_profile():
    from population_measures import at_epoch, left_by_ec, resampled

    logits, labels = generated(3000, 6, seed=2, shape=0.6)
    counts = resampled(3000, 5)[:40]
    found, distances, log_beta = at_epoch(logits, labels)
    left = left_by_ec(distances, log_beta, counts)
    assert left[0] == pytest.approx(found["rms_after"] ** 2, rel=0.02)
    again = [Distances.from_logits(logits[some], labels[some]) for some in (np.repeat(np.arange(3000), row) for row in counts)]
    exact = [root_mean_square(profile(each, roots(each).ec)) ** 2 for each in again]
    # To first order in T, and samples near the ends of bins are in the other one: right for the spread.
    assert np.corrcoef(left[1:], exact)[0, 1] > 0.95
    assert np.std(left[1:]) == pytest.approx(np.std(exact), rel=0.1)
    assert left[1:].mean() == pytest.approx(np.mean(exact), rel=0.05)


def test_logits_that_grow_only_change_the_temperature():
    from population_measures import growth, resampled

    logits, labels = generated(2000, 6, seed=3)
    counts = resampled(2000, 5)[:5]
    found = growth(logits, 3 * logits, labels, counts)
    np.testing.assert_allclose(found["growth of T"], np.log(3), rtol=1e-6)
    np.testing.assert_allclose(found["growth of scale"], np.log(3), rtol=1e-6)
    np.testing.assert_allclose(found["r2"], 1)
    rng = np.random.default_rng(0)
    other = logits + 2 * rng.normal(size=logits.shape).astype(np.float32)
    found = growth(logits, other, labels, counts)
    a, b = (each - each.mean(axis=1, keepdims=True) for each in (logits.astype(float), other.astype(float)))
    assert found["r2"][0] == pytest.approx(np.corrcoef(a.ravel(), b.ravel())[0, 1] ** 2, rel=1e-3)
    again = np.repeat(np.arange(2000), counts[1])
    expected = [-roots(Distances.from_logits(z[again], labels[again])).ec for z in (logits, other)]
    assert found["growth of T"][2] == pytest.approx(expected[1] - expected[0], abs=0.005)


# A run.

KINDS = {
    "c10-cosine": (5, 1.0),
    "c10-constant": (2, 1.0),
    "c10-interpolating": (2, 1.0),
    "c10-smoothing": (2, 0.45),
    "c10-mixup": (2, 0.6),
    "c10-dropout": (2, 1.0),
    "c100-cosine": (2, 1.0),
    "c10-wide": (1, 1.0),  # too few for anything
    "trial": (2, 1.0),  # not declared
}


def written(folder):
    """Files of generated networks, in the form of those that are trained."""
    from population_measures import write

    folder.mkdir()
    for kind, (seeds, shape) in KINDS.items():
        dataset = "cifar100" if kind.startswith("c100") else "cifar10"
        k, epochs = (12, (10, 50)) if dataset == "cifar100" else (6, (5, 20, 50))
        for seed in range(1, seeds + 1):
            # The same images, that is the same labels, for all networks of a data set would need trained networks.
            val, val_labels = generated(700, k, seed=(k, seed, len(kind)), shape=shape)
            test, test_labels = generated(900, k, seed=(k, seed, len(kind), 1), shape=shape)
            arrays = {"validation_labels": val_labels.astype(np.uint8), "test_labels": test_labels.astype(np.uint8)}
            for epoch in epochs:
                grown = 0.5 + epoch / 50
                arrays[f"test_{epoch}"] = (grown * test[: 900 if epoch == 50 else 600]).astype(np.float16)
            arrays["validation_50"] = (1.5 * val).astype(np.float16)
            if kind == "c10-dropout":
                arrays |= {f"passes_{part}_50": arrays[f"{part}_50"] * np.float16(0.8) for part in ("validation", "test")}
            done = 0.999 if kind == "c10-interpolating" else 0.9
            about = {
                "kind": kind,
                "dataset": dataset,
                "seed": seed,
                "recipe": {"epochs": 50},
                "measured": {str(each): {"accuracy": done if each > 5 else 0.8, "loss": 0.1} for each in epochs},
            }
            write(folder / f"{kind}-{seed}.npz", arrays, about)


def in_two_parts(calibrator):
    """Makes calibrators that fit others to parts of the data, to two of them: it takes a third of the time."""

    def made(name):
        found = calibrator(name)
        return found.set_params(cv=2) if "cv" in found.get_params() else found

    return made


def test_a_run_tests_what_was_declared(monkeypatch, tmp_path):
    import population_measures
    import population_results

    monkeypatch.setattr(population_measures, "RESAMPLES", 12)
    monkeypatch.setattr(population_measures, "DRAWS", 3)
    monkeypatch.setattr(nishimori, "calibrator", in_two_parts(nishimori.calibrator))
    written(tmp_path / "packs")
    paths = {"--page": tmp_path / "page.md", "--numbers": tmp_path / "numbers.json"}
    line = ["population_results", str(tmp_path / "packs"), *(str(each) for pair in paths.items() for each in pair)]
    monkeypatch.setattr(sys, "argv", line)
    population_results.main()
    found = json.loads(paths["--numbers"].read_text(encoding="utf-8"))
    page = paths["--page"].read_text(encoding="utf-8")
    assert [*found["kinds"]] == [*KINDS][:-2]
    declared = [each["id"] for each in population_results.declaration()["hypotheses"]]
    assert [*found["hypotheses"]] == declared
    assert all(f"| {each} |" in page for each in declared)
    tested = {name: each for name, each in found["hypotheses"].items() if "p" in each}
    assert set(tested) == set(declared)
    # What was put in: a shape that one temperature cannot mend, and logits that only grow.
    assert tested["H2a"]["estimate"]["value"] > 0.0003
    assert tested["H2a"]["p"] < 0.05
    assert tested["H6a"]["estimate"]["value"] == pytest.approx(np.log(1.5 / 0.9), rel=0.01)
    assert tested["H6b"]["verdict"] == tested["H6c"]["verdict"] == "supported"
    assert tested["H7"]["verdict"] == "not supported"
    assert found["kinds"]["c10-cosine"]["values"]["log_ec"]["mean"] == pytest.approx(np.log(1.5 * 1.5), abs=0.1)
    assert set(found["ensemble"]) == {f"{what} {name}" for what in ("ece", "nll") for name in ("none", "ts", "ec")}
    assert len(found["kinds"]["c10-interpolating"]["growth"]) == 2
    import population_tables

    population_tables.draw(found, tmp_path / "population.png")
    assert (tmp_path / "population.png").stat().st_size > 20_000
    before = page
    monkeypatch.setattr(population_results, "measure", lambda *_: pytest.fail("measured again"))
    population_results.main()
    assert paths["--page"].read_text(encoding="utf-8") == before


# The pages.


@pytest.fixture(scope="module")
def numbers():
    return json.loads((BENCH.parent / "paper" / "population_results.json").read_text(encoding="utf-8"))


def test_the_tables_are_made_of_the_stored_numbers(numbers):
    from population_tables import page

    assert (BENCH / "results" / "population.md").read_text(encoding="utf-8") == page(numbers)


def test_the_page_says_what_was_measured_of_kinds(numbers):
    text = " ".join((BENCH.parent / "docs" / "findings.md").read_text(encoding="utf-8").split())
    text = text.replace("−", "-").replace("**", "")
    plain = {kind: each for kind, each in numbers["kinds"].items() if not kind.endswith(("smoothing", "mixup"))}
    grown = {kind: [row["growth of T"] for row in each["growth"]] for kind, each in numbers["kinds"].items() if each["growth"]}
    scales = [np.mean([row["growth of scale"] for row in numbers["kinds"][kind]["growth"]]) for kind in grown]
    means = [np.mean(each) for each in grown.values()]
    assert (len(grown), {len(each) for each in grown.values()}) == (4, {3})
    assert numbers["growth"]["value"] == pytest.approx(np.mean(means), rel=1e-3)
    higher = sum(each["values"]["log_ratio"]["mean"] < 0 for each in plain.values())
    sentences = [
        f"T_EC is slightly higher in {higher} of {len(plain)} kinds",
        f"log T changed by {np.mean(means):.2f} ± {numbers['growth']['error']:.2f} ({len(grown)} kinds",
        f"T rose in {sum(mean > 0 for mean in means)} of them), following the scale of the logits",
    ]
    assert [each for each in sentences if each not in text] == []
    assert np.corrcoef(means, scales)[0, 1] > 0.9
