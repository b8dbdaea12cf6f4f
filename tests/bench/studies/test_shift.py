"""The study of shift and label noise: its noise, its fits and scores, its summaries, and the page that tells them."""

import json
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import log_softmax, softmax

import nishimori

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def numbers():
    return json.loads((ROOT / "paper" / "shift_results.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def scores():
    """The scores of a generated network in two splits."""
    from shift_measures import measure

    return measure(*generated(), n_splits=2)


def generated(n=400, k=5, *, seed=0, T=1.5):
    """Logits under all conditions, which are right at T, and less and less informative; and labels."""
    from shift_measures import CONDITIONS

    rng = np.random.default_rng(seed)
    z = 4 * rng.normal(size=(n, k))
    labels = (z / T + rng.gumbel(size=z.shape)).argmax(axis=1)
    noise = rng.normal(size=(len(CONDITIONS), n, k)) * np.linspace(0, 3, len(CONDITIONS))[:, None, None]
    return (z + noise).astype(np.float32), labels


# Noise.


def test_each_kind_of_noise_changes_the_share_of_labels_that_it_says():
    from shift_measures import NOISES, noisy, transitions

    confusion = np.random.default_rng(0).integers(0, 50, (10, 10)) + 100 * np.eye(10)
    labels = np.arange(40_000) % 10
    for noise in NOISES:
        matrix = transitions(noise, 0.2, confusion)
        np.testing.assert_allclose(matrix.sum(axis=1), 1)
        drawn = noisy(labels, matrix, np.random.default_rng(1))
        found = np.histogram2d(labels, drawn, bins=10)[0] / 4000
        np.testing.assert_allclose(found, matrix, atol=0.03)
        # Random labels in two of ten classes are right in a tenth of the cases.
        assert (drawn != labels).mean() == pytest.approx(0.2 * (0.9 if noise == "classes" else 1), abs=0.01)
    assert transitions("pairs", 0.2, confusion)[9, 0] == pytest.approx(0.2)
    wrong = confusion[3].copy()
    wrong[3] = 0
    expected = 0.2 * wrong / wrong.sum()
    expected[3] = 0.8
    np.testing.assert_allclose(transitions("confusion", 0.2, confusion)[3], expected)
    half = transitions("classes", 0.05, confusion)
    np.testing.assert_allclose(half[0], [0.55, *[0.05] * 9])
    np.testing.assert_allclose(half[1:], np.eye(10)[1:])


def test_a_class_that_is_never_mistaken_gets_any_other_label():
    from shift_measures import transitions

    np.testing.assert_allclose(transitions("confusion", 0.4, np.eye(5))[2], [0.1, 0.1, 0.6, 0.1, 0.1])


# Fits and scores.


def test_temperatures_are_those_of_the_library():
    from shift_measures import METHODS, fit, halves

    logits, labels = generated()
    validation, test = halves(400, 0)
    assert sorted([*validation, *test]) == list(range(400))
    draws = np.stack([[labels, np.where(np.arange(400) % 4, labels, 0)]])
    found = fit(logits[3], [validation], draws)
    for variant in (0, 1):
        for j, method in enumerate(METHODS):
            fitted = nishimori.calibrator(method).fit(logits[3, validation], draws[0, variant, validation])
            assert np.exp(found[0, variant, j]) == pytest.approx(fitted.temperature_, rel=2e-3)


def scores_by_hand(logits, labels, T):
    p = softmax(logits.astype(float) / T, axis=1)
    confidence, right = p.max(axis=1), p.argmax(axis=1) == labels
    ece = 0.0
    for low in np.arange(15) / 15:
        inside = (confidence > low) & (confidence <= low + 1 / 15)
        ece += abs((confidence - right)[inside].sum()) / len(labels)
    nll = -log_softmax(logits.astype(float) / T, axis=1)[np.arange(len(labels)), labels].mean()
    return 100 * abs(confidence.mean() - right.mean()), 100 * ece, nll


def test_all_scores_of_a_network_are_those_by_hand(scores):
    from shift_measures import COLUMNS, CONDITIONS, GRID, METHODS, PLACES, SOURCES, VARIANTS, halves, label_draws

    logits, labels = generated()
    confusion = np.histogram2d(labels, logits[0].argmax(axis=1), bins=5)[0]
    draws = label_draws(labels, confusion, 2)
    validation, test = halves(400, 1)
    condition, variant = CONDITIONS.index("fog 3"), VARIANTS.index(("pairs", 0.2))
    assert (draws[1, 0] == labels).all()
    assert (draws[1, variant] != labels).mean() == pytest.approx(0.2, abs=0.06)
    fits = {"clean": 0, "matching": condition}
    for place, fitted_to, tested_with in (("validation", variant, 0), ("test", 0, variant), ("both", variant, variant)):
        truth = draws[1, tested_with, test]
        for source, images in fits.items():
            row = scores.shifted[:, condition, 1, SOURCES.index(source), PLACES.index(place), variant]
            for j, method in enumerate(METHODS[:2]):
                T = nishimori.calibrator(method).fit(logits[images, validation], draws[1, fitted_to, validation]).temperature_
                by_hand = scores_by_hand(logits[condition, test], truth, T)
                np.testing.assert_allclose(row[:, j], by_hand, rtol=0.01, atol=0.15)
            plain = scores_by_hand(logits[condition, test], truth, 1.0)
            np.testing.assert_allclose(row[:, COLUMNS.index("none")], plain, rtol=1e-4)
            lowest = np.min([scores_by_hand(logits[condition, test], truth, T) for T in np.exp(GRID[::6])], axis=0)
            assert (row[:, COLUMNS.index("oracle")] <= lowest + 1e-3).all()
            assert (row[:, COLUMNS.index("oracle"), None] <= row + 1e-9).all()
    T = nishimori.calibrator("ec").fit(logits[condition, validation], labels[validation]).temperature_
    by_hand = scores_by_hand(logits[0, test], labels[test], T)
    np.testing.assert_allclose(scores.unshifted[:, condition, 1, 0], by_hand, rtol=0.01, atol=0.15)
    assert scores.errors[condition] == pytest.approx((logits[condition].argmax(axis=1) != labels).mean())


def test_a_mixture_leaves_the_kind_of_the_test_images_out():
    from shift_measures import CONDITIONS, mixture

    numbered = np.broadcast_to(np.arange(len(CONDITIONS))[:, None, None], (len(CONDITIONS), 3000, 2))
    found = np.unique(mixture(numbered, "fog"))
    assert [CONDITIONS[i] for i in found] == [each for each in CONDITIONS if not each.startswith("fog")]
    assert len(np.unique(mixture(numbered, ""))) == len(CONDITIONS)


# Summaries.


def test_a_cell_is_worse_if_it_is_so_by_more_than_its_standard_deviation(monkeypatch):
    from shift_measures import COLUMNS, MEASURES, summary

    rng = np.random.default_rng(0)
    cells = [rng.normal(size=(len(MEASURES), 4, 6, len(COLUMNS))) + 2 * rng.normal(size=(1, 4, 1, 1)) for _ in range(3)]
    for each in cells:
        each[1, 0, :, 0] += 9
    found = summary(cells, SimpleNamespace(cells=lambda each: each))
    change = np.array([each[1, ..., 0] - each[1, ..., 3] for each in cells])  # (networks, cells, splits)
    assert found["cells"] == 12
    row = found["ec"]["ece"]
    assert row["change"] == pytest.approx(change.mean())
    assert row["worse"] == pytest.approx(np.mean(change.mean(axis=2) > change.std(axis=2, ddof=1)))
    assert row["worse"] >= 0.25
    of_splits, of_networks = np.std(change.mean(axis=(0, 1)), ddof=1), np.std(change.mean(axis=(1, 2)), ddof=1) / np.sqrt(3)
    assert row["se"] == pytest.approx(np.hypot(of_splits, of_networks))
    assert row["regret"] == pytest.approx(np.mean([each[1, ..., 0] - each[1, ..., 4] for each in cells]))


def test_situations_take_the_cells_that_they_name():
    from shift_measures import COLUMNS, CONDITIONS, MEASURES, PLACES, SOURCES, VARIANTS, situations

    sizes = [len(MEASURES), len(CONDITIONS), 2, len(SOURCES), len(PLACES), len(VARIANTS), len(COLUMNS)]
    shifted = np.arange(np.prod(sizes)).reshape(sizes)
    scores = SimpleNamespace(shifted=shifted, unshifted=-shifted[:, :, :, 0, 0, 0])
    every = situations()
    noise = every["test noise, little"].cells(scores)
    assert noise.shape == (3, 8, 2, 5)  # four kinds, 5 and 10 %
    np.testing.assert_array_equal(noise[1, 3], shifted[1, 0, :, 0, 1, VARIANTS.index(("pairs", 0.1))])
    both = every["mixed with noise, much"].cells(scores)
    assert both.shape == (3, 24 * 12, 2, 5)
    np.testing.assert_array_equal(both[2, 12 + 11], shifted[2, 2, :, 2, 0, VARIANTS.index(("classes", 0.4))])
    np.testing.assert_array_equal(every["validation corrupted"].cells(scores), -shifted[:, 1:, :, 0, 0, 0])
    np.testing.assert_array_equal(every["nothing"].cells(scores)[:, 0], shifted[:, 0, :, 0, 0, 0])


def test_the_rate_at_which_calibration_stops_to_pay_is_interpolated():
    from shift_measures import crossing

    assert crossing((0, 0.1, 0.2), [-2, -1, 3]) == pytest.approx(0.125)
    assert crossing((0, 0.1, 0.2), [1, -1, 3]) == 0
    assert crossing((0, 0.1, 0.2), [-3, -2, -1]) == 0.2


def test_a_break_even_share_is_where_the_mean_over_splits_crosses_and_has_the_deviation_of_single_splits():
    from shift_measures import COLUMNS, MEASURES, NOISES, SHARES, break_even

    # By noise, split and measure, calibration is worse by 100 (share − limit), and without it every score is 7.
    rng = np.random.default_rng(0)
    limits = rng.uniform(0.03, 0.15, size=(len(MEASURES), 6, len(NOISES), 1, len(COLUMNS)))
    scores = 7 + 100 * (np.array(SHARES)[:, None] - limits)
    scores[..., COLUMNS.index("none")] = 7
    found = break_even({"a": (scores, 0.1)})["a"]
    assert found["rule"] == pytest.approx(0.07 / (0.9 - 0.1 / 9))
    for i, noise in enumerate(NOISES):
        for j, method in enumerate(("ec", "ts", "adaptive")):
            for measure, row in found[noise][method].items():
                expected = limits[MEASURES.index(measure), :, i, 0, j]
                assert row == pytest.approx({"share": expected.mean(), "sd": np.std(expected, ddof=1)})


def test_scores_by_share_are_those_by_hand():
    from shift_measures import COLUMNS, NOISES, SHARES, confusions, halves, label_draws, measure_shares

    logits, labels = generated()
    logits = logits[0]
    found = measure_shares(logits, labels, n_splits=2)
    variants = [(noise, share) for noise in NOISES for share in SHARES]
    draws = label_draws(labels, confusions(labels, logits.argmax(axis=1), 5), 2, variants)
    validation, test = halves(400, 1)
    variant = ("pairs", 0.1)
    drawn = draws[1, variants.index(variant)]
    assert (drawn != labels).mean() == pytest.approx(0.1, abs=0.04)
    row = found[:, 1, [*NOISES].index("pairs"), SHARES.index(0.1)]
    for j, T in enumerate(
        nishimori.calibrator(name).fit(logits[validation], drawn[validation]).temperature_ for name in ("ec", "ts")
    ):
        np.testing.assert_allclose(row[:, j], scores_by_hand(logits[test], labels[test], T), rtol=0.01, atol=0.15)
    plain = scores_by_hand(logits[test], labels[test], 1.0)
    np.testing.assert_allclose(row[:, COLUMNS.index("none")], plain, rtol=1e-4)


def test_cells_are_counted_for_each_rate():
    from shift_measures import COLUMNS, MEASURES, Situation, counts

    class Given(Situation):
        """Two cells per network at each rate: better everywhere, but for the NLL of the first network at 10 %."""

        def cells(self, scores):
            change = np.full((len(MEASURES), 2, 4, len(COLUMNS)), -1.0) + 0.01 * np.arange(4)[:, None]
            change[..., COLUMNS.index("none")] = 0
            if scores == "worse" and self.rates == (0.1,):
                change[2, :, :, 0] = 1 + 0.01 * np.arange(4)
            if scores == "unsure":  # better on average, by less than the deviation
                change[1, 0, :, 0] = [-2, 1, -2, 1]
            return change

    found = counts(["worse", "unsure", "better"], Given("", "", ("clean",), "clean", "validation", (0.05, 0.1)))
    assert found["0.05"]["cells"] == found["0.1"]["cells"] == 6
    assert found["0.1"]["ec"] == {"ece": {"worse": 0, "better": 5}, "nll": {"worse": 2, "better": 4}}
    assert found["0.05"]["ec"]["nll"] == found["0.1"]["ts"]["nll"] == {"worse": 0, "better": 6}


# The page.


def test_the_page_says_what_was_measured(numbers):
    from shift_tables import advice, signed

    text = (ROOT / "docs" / "shift_and_noise.md").read_text(encoding="utf-8")
    assert advice(numbers) in text
    every, by_severity = numbers["situations"], numbers["curves"]["by_severity"]
    shares, little = list(numbers["break even"]["networks"].values()), numbers["counts"]["validation noise, little"]
    times = [row["nll"]["share"] / row["ece"]["share"] for each in shares for row in map(each["uniform"].get, ("ec", "ts"))]

    def worse(name, method):
        return f"{100 * every[name][method]['ece']['worse']:.0f} %"

    def ece(name, method="ec"):
        return f"{every[name][method]['ece']['mean']:.1f} %"

    def change(name):
        return f"{abs(every[name]['ec']['ece']['change']):.1f} points"

    def limit(row):
        return f"{100 * row['share']:.1f} ± {100 * row['sd']:.1f}"

    def limits(method, measure):
        return "{}, {} and {} %".format(*(limit(each["uniform"][method][measure]) for each in shares))

    def count(method, measure, what, *rates):
        return sum(little[rate][method][measure][what] for rate in rates or little)

    def versus(name):
        each = every[name]["ec − ts"]
        return f"{signed(each['change'], 1)} ± {each['se']:.1f}"

    sentences = [
        "this rule gives {:.1f}, {:.1f} and {:.1f} %".format(*(100 * each["rule"] for each in shares)),
        f"without calibration at {limits('ec', 'ece')} wrong labels with EC",
        f"and after TS at {limits('ts', 'ece')} (± standard deviation over {numbers['break even']['splits']} splits",
        f"It tolerates {min(times):.1f} to {max(times):.1f} times as many wrong labels",
        f"EC hurts in {count('ec', 'ece', 'worse')} of {sum(each['cells'] for each in little.values())} cells",
        f"(all {count('ec', 'ece', 'worse', '0.1')} with 10 %, {count('ec', 'ece', 'worse', '0.05')} of 12 with 5 %)",
        f"and TS in all {count('ts', 'ece', 'worse')}.",
        f"in {100 * every['validation noise, much']['ec − ts']['lower']:.0f} % of the cells, "
        f"by {versus('validation noise, much').removeprefix('−')} points",
        f"TS has the lower ECE in {100 * every['clean with noise, little']['ec − ts']['higher']:.0f} % of the cells",
        f"EC seems to lower the ECE by {change('noise in both, much')}",
        f"the same temperature raises it by {change('validation noise, much')}",
        f"an ECE of {ece('test corrupted')} after EC and {every['test corrupted']['none']['ece']:.1f} % before",
        f"calibration hurts in {worse('test corrupted', 'ec')} of the cells: one, SVHN",
        f"of the same corruption it is {ece('both corrupted')}, with a mixture of other corruptions {ece('mixture')}",
        "clean test images have {:.1f} % with it, and {:.1f} % before".format(
            *(by_severity["mixed"]["0"][each]["mean"] for each in ("ec", "none"))
        ),
        "an ECE of {:.1f} % after EC and {:.1f} % after TS".format(
            *(by_severity["corrupted"]["5"][each]["mean"] for each in ("ec", "ts"))
        ),
        f"EC − TS is {versus('test corrupted')} points with T from clean images",
        f"and {versus('both corrupted')} with T from the same corruption",
        f"on {numbers['images']:,} images of each test set",
        f"{numbers['splits']} splits ({numbers['break even']['splits']} for the shares",
        f"not above chance ({100 * numbers['without temperature']:.1f} % of the fits)",
    ]
    plain = " ".join(text.split())
    assert [each for each in sentences if each not in plain] == []
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    least, most = ({method: shares[i]["uniform"][method] for method in ("ec", "ts")} for i in (2, 1))
    for each in (
        f"once {limit(least['ec']['ece'])} to {limit(most['ec']['ece'])} % of them are wrong",
        f"TS once {limit(least['ts']['ece'])} to {limit(most['ts']['ece'])} % are",
        f"both tolerate {min(times):.1f} to {max(times):.1f} times as many",
    ):
        assert each in readme
    # What is said without a number.
    assert little["0.1"]["cells"] == count("ec", "ece", "worse", "0.1") == 12
    assert every["test corrupted"]["ec"]["ece"]["worse"] * every["test corrupted"]["cells"] == pytest.approx(1, abs=0.01)
    assert all(every["validation noise, much"][method]["ece"]["worse"] == 1 for method in ("ec", "ts"))
    assert every["validation noise, little"]["ec − ts"]["higher"] == every["validation noise, much"]["ec − ts"]["higher"] == 0


def test_numbers_have_their_sign_and_zero_has_none():
    from shift_tables import signed

    assert [signed(each, 1) for each in (-1.26, 0.31, -0.04, 0.04)] == ["−1.3", "+0.3", "0.0", "0.0"]


def test_the_tables_are_made_of_the_same_numbers(numbers):
    from shift_tables import page

    assert (ROOT / "bench" / "results" / "shift.md").read_text(encoding="utf-8") == page(numbers)


def test_a_study_reads_blocks_and_writes_all_files(scores, monkeypatch, tmp_path):
    pytest.importorskip("torch")
    import shift
    from shift import NETWORKS, block_file

    for i, network in enumerate(NETWORKS):
        for number in range(2 + (i == 0)):  # of which the third is not used, because others have none
            part = np.full((25, 4, 10), i, dtype=np.float32)
            np.savez(block_file(tmp_path, network, number), logits=part, labels=np.full(4, number), index=np.arange(4))
    seen = []
    monkeypatch.setattr(shift, "measure", lambda logits, labels: seen.append((logits[0, 0, 0], *labels)) or scores)
    monkeypatch.setattr(shift, "measure_shares", partial(shift.measure_shares, n_splits=2))
    paths = {"page": tmp_path / "page.md", "numbers": tmp_path / "numbers.json", "picture": tmp_path / "picture.png"}
    shift.study(SimpleNamespace(folder=tmp_path, **paths))
    assert seen == [(i, *[0] * 4, *[1] * 4) for i in range(3)]
    found = json.loads(paths["numbers"].read_text(encoding="utf-8"))
    assert found["images"] == 2000
    assert found["splits"] == 2
    assert [*found["networks"]] == [each.name for each in NETWORKS]
    assert "| CIFAR-10 ResNet56 | paper's noise |" in paths["page"].read_text(encoding="utf-8")
    assert paths["picture"].stat().st_size > 20_000
    shares = found["break even"]["networks"]
    assert all(0 < each["uniform"]["ec"]["ece"]["share"] < each["uniform"]["ec"]["nll"]["share"] for each in shares.values())
    before = json.dumps(shares)
    shift.study_shares(SimpleNamespace(**paths))
    assert json.dumps(json.loads(paths["numbers"].read_text(encoding="utf-8"))["break even"]["networks"]) == before
    shift.measured(tmp_path, NETWORKS[0], 2)
    assert len(seen) == 3  # scores are kept
