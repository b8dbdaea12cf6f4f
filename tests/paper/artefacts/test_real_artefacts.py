"""The real-data artefacts: bundled logits against what the paper prints, formulas and runs."""

import csv
import json

import matplotlib.image
import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import reference
import shell
from nishimori import data, paper
from nishimori.data import Labelled
from nishimori.paper._artefact import Scale
from nishimori.paper._measured import measured, scores
from nishimori.paper._printed import printed
from nishimori.paper.artefacts import _real_claims
from nishimori.paper.artefacts._rows import AUGMENTED, COLUMNS, compared_row
from nishimori.paper.artefacts._table_corrupted import _noisy, corrupted, noisy_scores

NAMES = ("table-real", "table-corrupted", "figure-curves", "figure-reliability", "figure-train-size")
AUTHORS = ("cifar10/resnet20-authors", "cifar10/resnet56-authors")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where each artefact was run once, for a first look."""
    target = tmp_path_factory.mktemp("real")
    for name in NAMES:
        assert paper.run(name, target, quick=True).fresh
    return target


def read(path):
    with path.open(encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def table(path):
    """A table's rows by network and whose it is."""
    return {(row["network"], row["weights"]): row for row in read(path)}


# The authors' own networks.


@pytest.mark.parametrize(
    ("name", "error", "ece", "brier"), [(AUTHORS[0], 0.1349, 0.0535, 0.1998), (AUTHORS[1], 0.1319, 0.0598, 0.2022)]
)
def test_the_authors_networks_give_the_papers_uncalibrated_numbers(name, error, ece, brier):
    test = data.load(name).test
    confidence = reference.softmax(test.logits).max(axis=1)
    right = reference.right(test.logits, test.labels)
    assert round(1 - right.mean(), 4) == error
    assert round(equal_mass_ece(confidence, right), 4) == ece
    assert round(reference.brier(test.logits, test.labels), 4) == brier
    row = scores(data.load(name).validation, test)
    assert [round(row[key], 4) for key in ("error", "ece", "brier")] == [error, ece, brier]
    # What the paper prints has a digit less; the last one is rounded there, or cut off.
    line = dict(zip(COLUMNS, printed()["table-real"]["rows"][name.removesuffix("-authors")], strict=True))
    for key, value in (("error", error), ("ece", ece), ("brier", brier)):
        assert abs(100 * value - line[key]) < 0.1


@pytest.mark.parametrize("name", AUTHORS)
def test_augmented_validation_images_give_the_papers_temperatures_and_clean_ones_calibrate_better(name):
    found = data.load(name)
    augmented, clean = (scores(part, found.test) for part in (found.augmented, found.validation))
    line = dict(zip(COLUMNS, printed()["table-real"]["rows"][name.removesuffix("-authors")], strict=True))
    for method in ("ts", "ec"):
        assert 1.30 < augmented[f"temperature_{method}"] < 1.46
        assert 1.50 < clean[f"temperature_{method}"] < 1.67
        assert augmented[f"temperature_{method}"] == pytest.approx(line[f"temperature_{method}"], abs=0.06)
        assert 0.019 < augmented[f"ece_{method}"] < 0.025
        assert 0.005 < clean[f"ece_{method}"] < 0.012


@pytest.mark.parametrize(
    ("name", "percent"),
    [("cifar10/resnet20-authors", 20.8), ("cifar10/resnet56-authors", 20.9), ("svhn/resnet20-authors", 12.6)],
)
def test_the_authors_networks_have_the_papers_error_under_label_noise(name, percent):
    assert 100 * noisy_scores(name, Scale(quick=True))["clean"]["error"] == pytest.approx(percent, abs=0.3)
    line = printed()["table-corrupted"]["rows"][name.removesuffix("-authors")]
    assert percent == pytest.approx(line[0], abs=0.15)


# Scores.


def equal_mass_ece(confidence, right, n_bins=15):
    """Chunk by chunk of the sorted samples."""
    chunks = np.array_split(np.argsort(confidence, kind="stable"), n_bins)
    return sum(abs((confidence - right)[chunk].sum()) for chunk in chunks) / len(right)


def least_loss(part):
    """Where SciPy finds the least cross-entropy; a minimum is known to half the digits."""
    return minimize_scalar(
        lambda T: reference.nll(part.logits, part.labels, T), bounds=(0.3, 6), method="bounded", options={"xatol": 1e-9}
    ).x


@pytest.mark.parametrize("name", ["cifar10/resnet20-authors", "cifar100/vgg19"])
def test_scores_are_those_of_the_formulas(name):
    found = data.load(name)
    row = scores(found.validation, found.test)
    ts = least_loss(found.validation)
    ec = reference.ec_temperature(found.validation.logits, found.validation.labels, low=0.3, high=6)
    assert row["temperature_ts"] == pytest.approx(ts, rel=1e-5)
    assert row["temperature_ec"] == pytest.approx(ec, rel=1e-8)
    right = reference.right(found.test.logits, found.test.labels)
    assert row["error"] == pytest.approx(1 - right.mean(), abs=1e-12)
    for end, T in (("", 1.0), ("_ts", row["temperature_ts"]), ("_ec", row["temperature_ec"])):
        confidence = reference.softmax(found.test.logits, T).max(axis=1)
        assert row[f"ece{end}"] == pytest.approx(equal_mass_ece(confidence, right), abs=1e-9)
        assert row[f"brier{end}"] == pytest.approx(reference.brier(found.test.logits, found.test.labels, T), rel=1e-9)


def test_a_weight_counts_copies_of_a_row():
    found, rng = data.load("cifar10/resnet20"), np.random.default_rng(0)
    parts = [Labelled(part.logits[:2000], part.labels[:2000]) for part in (found.validation, found.test)]
    counts = [rng.integers(0, 4, 2000) for _ in parts]
    copies = [
        Labelled(np.repeat(part.logits, n, axis=0), np.repeat(part.labels, n)) for part, n in zip(parts, counts, strict=True)
    ]
    weighted = scores(*parts, validation_weight=counts[0], test_weight=counts[1])
    assert weighted == pytest.approx(scores(*copies), rel=1e-8, abs=1e-9)
    assert weighted != pytest.approx(scores(*parts), rel=1e-3)


def test_the_bootstraps_error_bar_of_the_error_is_the_binomial_one():
    found = data.load("cifar10/resnet20-fraction-0.5")
    rows = measured(found, resamples=50, seed=0)
    error = rows["clean"]["error"]
    expected = np.sqrt(error * (1 - error) / len(found.test.labels))
    assert rows["clean error bars"]["error"] == pytest.approx(expected, rel=0.35)
    # A temperature moves by hundredths, and not by nothing.
    assert 0.003 < rows["clean error bars"]["temperature_ec"] < 0.1


def test_error_bars_follow_from_the_seed_and_numbers_do_not():
    found = data.load("cifar10/resnet20")
    one, again, other = (measured(found, resamples=2, seed=seed) for seed in (1, 1, 2))
    assert one == again
    assert set(one) == {"clean", "augmented", "clean error bars", "augmented error bars"}
    for kind in ("clean", "augmented"):
        assert one[kind] == other[kind]
        assert one[f"{kind} error bars"] != other[f"{kind} error bars"]


# Label noise.


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
    assert np.abs(shares - 1 / n_classes).max() < 5 * sd  # all classes are as likely, their own included
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
    # Whatever the network says of a noisy row, one label in K is that.
    share = confusion[:tenth].sum()
    expected = confusion[tenth:].sum() - np.trace(confusion[tenth:, tenth:]) + share * (1 - 1 / n_classes)
    found = noisy_scores(name, scale)
    sd = np.sqrt(share / n_classes * (1 - 1 / n_classes) / len(part.labels) / 4)  # of the mean of four draws
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


# Comparison.

PAPER = (13.5, 1.37, 1.38, 5.3, 1.9, 1.9, 20.0, 19.43, 19.2)


def content(*, bars=0.0, **changes):
    """A network that has the paper's numbers, but for changes in its units."""

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
        assert found[key].because == (AUGMENTED if calibrated else None)
        assert found[key].in_their_way == (pytest.approx(dict(zip(COLUMNS, PAPER, strict=True))[key]) if calibrated else None)
    assert found["temperature_ts"].ours == 1.52
    assert found["ece_ec"].what == "CIFAR-10 ResNet20 (authors'): ece ec, %"


def test_a_number_that_neither_way_gives_differs():
    found = verdicts("cifar10/resnet20-authors", content(temperature_ts_clean=1.52, temperature_ts_augmented=1.44))
    assert found["temperature_ts"].verdict == "differs"
    found = verdicts("cifar10/resnet20-authors", content(error_clean=14.0))
    assert found["error"].verdict == "differs"  # of the test set, whatever the calibration is


def test_without_augmented_images_there_is_nothing_to_explain():
    clean = {key: value for key, value in content(temperature_ts_clean=1.52).items() if key.startswith("clean")}
    found = verdicts("svhn/resnet20-authors", clean)
    assert found["temperature_ts"].verdict == "differs"
    assert found["temperature_ts"].because is None


def test_error_bars_widen_the_comparison_of_the_same_network():
    changed = {"temperature_ts_clean": 1.45, "temperature_ts_augmented": 1.45}
    for bars, verdict in ((0.03, "differs"), (0.04, "agrees")):  # a digit and two error bars
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
    assert ours["ece_ts"].in_their_way is None


# Runs.

SHEETS = {
    "table-real": {"table-real.csv": (11, 32)},
    "table-corrupted": {"table-corrupted.csv": (11, 32)},
    "figure-curves": {"figure-curves-curves.csv": (2 * 19, 5), "figure-curves-reliability.csv": (2 * 3 * 15, 7)},
    "figure-reliability": {"figure-reliability.csv": (4 * 3 * 15, 8)},
    "figure-train-size": {"figure-train-size.csv": (9, 16)},
}
FINDINGS = {"table-real": 99, "table-corrupted": 99, "figure-curves": 6, "figure-reliability": 8, "figure-train-size": 45}


@pytest.mark.parametrize("name", NAMES)
def test_a_run_leaves_pictures_tables_and_findings(folder, name):
    picture = matplotlib.image.imread(folder / f"{name}.png")
    assert min(picture.shape[:2]) > 300
    assert picture[..., :3].std() > 0.01  # something is drawn
    assert "<svg" in (folder / f"{name}.svg").read_text(encoding="utf-8")
    for sheet, (n_rows, n_columns) in SHEETS[name].items():
        rows = read(folder / sheet)
        assert (len(rows), len(rows[0])) == (n_rows, n_columns)
    kept = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    assert kept["complete"] is True
    assert kept["settings"] == {"quick": True, "seed": 0, "networks": None}
    assert len(kept["findings"]) == FINDINGS[name]


@pytest.mark.parametrize("name", NAMES)
def test_check_finds_in_the_folder_what_the_run_found(folder, name):
    kept = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))["findings"]
    found = paper.check(name, folder)
    assert [(each.what, each.ours, each.paper, each.verdict) for each in found] == [
        (each["what"], each["ours"], each["paper"], each["verdict"]) for each in kept
    ]


def test_a_second_run_says_that_it_is_there(folder):
    times = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    code, out, err = shell.nishimori("paper", "run", *NAMES, "--quick", "-o", folder)
    assert (code, out) == (0, "")
    assert [line.partition(":")[0] for line in err.splitlines()] == list(NAMES)
    assert all(line.endswith(f"; already in {folder}; --force starts over") for line in err.splitlines())
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == times


def test_every_network_of_the_tables_has_its_row_with_error_bars(folder):
    for sheet, bar in (("table-real.csv", "se"), ("table-corrupted.csv", "sd")):
        rows = table(folder / sheet)
        assert sum(whose == "ours" for _, whose in rows) == 8
        assert {net for net, whose in rows if whose == "authors'"} == {
            "SVHN ResNet20",
            "CIFAR-10 ResNet20",
            "CIFAR-10 ResNet56",
        }
        for (net, _), row in rows.items():
            for column in COLUMNS:
                assert float(row[column]) > 0
                assert float(row[f"{column}_{bar}"]) > 0
            both = net.startswith("CIFAR-10 ")
            assert bool(row["temperature_ec_augmented"]) == bool(row[f"ece_ts_augmented_{bar}"]) == both


def test_the_table_holds_the_scores_in_the_papers_units(folder):
    found = data.load("cifar10/resnet20-authors")
    row = table(folder / "table-real.csv")["CIFAR-10 ResNet20", "authors'"]
    for end, part in (("", found.validation), ("_augmented", found.augmented)):
        expected = scores(part, found.test)
        assert float(row[f"temperature_ts{end}"]) == pytest.approx(expected["temperature_ts"], rel=1e-9)
        assert float(row[f"ece_ec{end}"]) == pytest.approx(100 * expected["ece_ec"], rel=1e-9)
        assert float(row[f"brier_ts{end}"]) == pytest.approx(100 * expected["brier_ts"], rel=1e-9)


def test_of_the_authors_networks_everything_in_table_1_agrees_or_is_explained(folder):
    found = [each for each in paper.check("table-real", folder) if "(authors')" in each.what]
    assert len(found) == 27
    assert {each.verdict for each in found} == {"agrees", "explained"}
    assert {each.because for each in found if each.verdict == "explained"} == {AUGMENTED}
    explained = {each.what.partition(": ")[2] for each in found if each.verdict == "explained"}
    assert {"temperature ts", "temperature ec", "ece ts, %", "ece ec, %"} <= explained


def test_curves_have_their_least_loss_at_ts_and_cross_accuracy_at_ec(folder):
    pieces = json.loads((folder / "figure-curves.json").read_text(encoding="utf-8"))["pieces"]
    for name, each in pieces.items():
        T, loss, confidence = (np.array([row[key] for row in each["curves"]]) for key in ("temperature", "loss", "confidence"))
        step = np.diff(T).max()
        assert abs(T[loss.argmin()] - each["clean"]["temperature_ts"]) <= step, name
        assert (np.diff(confidence) < 0).all(), name
        assert abs(np.interp(each["accuracy"], confidence[::-1], T[::-1]) - each["clean"]["temperature_ec"]) <= step, name
    dense = pieces["cifar10/densenet121"]
    assert dense["least_ece"][1] <= min(dense["clean"]["ece_ts"], dense["clean"]["ece_ec"]) + 1e-4


def test_bins_of_the_diagrams_have_equal_mass_and_give_the_ece(folder):
    groups = {}
    for row in read(folder / "figure-reliability.csv"):
        groups.setdefault((row["network"], row["weights"], row["when"]), []).append(row)
    assert len(groups) == 12
    for rows in groups.values():
        samples, gap = (np.array(each) for each in zip(*((int(r["samples"]), _gap(r)) for r in rows), strict=True))
        assert np.ptp(samples) <= 0.01 * samples.mean()
        assert samples @ np.abs(gap) / samples.sum() == pytest.approx(float(rows[0]["ece"]), abs=1e-9)


def _gap(row):
    return float(row["confidence"]) - float(row["accuracy"])


def test_the_size_of_the_training_set_is_that_of_the_fraction(folder):
    rows = read(folder / "figure-train-size.csv")
    assert [float(row["fraction"]) for row in rows] == printed()["figure-train-size"]["fraction"]
    assert [int(row["n_train"]) for row in rows] == [round(50_000 * float(row["fraction"])) for row in rows]
    for row in rows:
        assert float(row["accuracy"]) == pytest.approx(1 - float(row["error"]))
    accuracy = [float(row["accuracy"]) for row in rows]
    assert accuracy[0] == min(accuracy) < 0.75 < 0.82 < max(accuracy)


# Claims.

SENTENCES = {
    "A: million parameters of resnet20": "agrees",
    "A: million parameters of resnet56": "agrees",
    "A: million parameters of densenet121": "differs",  # 7.9 is of the network for ImageNet
    "4: training and validation digits of SVHN": "differs",  # by one
    "3: a network's mean confidence falls to zero as T grows": "differs",  # to 1/K
    "4: EC and TS yield very similar temperatures": None,
    "4: both give T > 1: the networks were overconfident": "agrees",
    "4: both methods improve calibration": None,
    "4: both methods improve the Brier score": None,
    "4: with very similar Brier scores": None,
    "Table 1: EC has at least as low an ECE as TS in every row": None,
    "4: neither T is close to the minimum of ECE (DenseNet121, clean validation)": None,
    "4: neither T is close to the minimum of ECE (DenseNet121, augmented validation)": None,
    "Figure: EC's reliability diagram is indistinguishable from TS's (ResNet20)": None,
    "4: accuracy grows with the training set": "agrees",
    "4: T_TS and T_EC are extremely similar at every size, as in Table 1": None,
    "C: share of labels that are replaced, around": "agrees",
    "4: EC's mean reduction of the ECE under label noise, eight networks": None,
    "C: EC outperforms TS by a significant margin on several networks": None,
    "4: under noise the temperatures differ, contrary to Table 1": None,
}


@pytest.fixture(scope="module")
def claims():
    done = {key: work() for key, work in _real_claims.pieces(Scale(quick=True)).items()}
    return {each.what: each for each in _real_claims.findings(json.loads(json.dumps(done)))}


def test_each_sentence_on_real_data_holds_or_does_not(claims):
    assert list(claims) == list(SENTENCES)
    for what, verdict in SENTENCES.items():
        assert claims[what].verdict == (verdict or claims[what].verdict), what
        assert claims[what].verdict in ("agrees", "differs"), what
        assert isinstance(claims[what].ours, str) == (claims[what].tolerance is None), what


def test_sentences_on_table_1_count_its_rows(claims, folder):
    rows = [{key: float(row[key]) for key in COLUMNS} for row in read(folder / "table-real.csv")]
    for metric, what in (("ece", "4: both methods improve calibration"), ("brier", "4: both methods improve the Brier score")):
        better = sum(max(row[f"{metric}_ts"], row[f"{metric}_ec"]) < row[metric] for row in rows)
        assert (claims[what].ours, claims[what].agrees) == (f"on {better} of 11", better == 11)
    lower = sum(round(row["ece_ec"], 1) <= round(row["ece_ts"], 1) for row in rows)
    found = claims["Table 1: EC has at least as low an ECE as TS in every row"]
    assert (found.ours, found.agrees) == (f"in {lower} of 11", lower == 11)
    apart = max(abs(1 - row["temperature_ec"] / row["temperature_ts"]) for row in rows)
    assert claims["4: EC and TS yield very similar temperatures"].ours == f"within {apart:.1%}"


def test_sentences_on_noise_average_its_table(claims, folder):
    rows = read(folder / "table-corrupted.csv")
    found = claims["4: EC's mean reduction of the ECE under label noise, eight networks"]
    ours = [row for row in rows if row["weights"] == "ours"]
    clean = [1 - float(row["ece_ec"]) / float(row["ece_ts"]) for row in ours]
    kinds = ["_augmented" if row["ece_ts_augmented"] else "" for row in ours]
    their_way = [1 - float(row[f"ece_ec{kind}"]) / float(row[f"ece_ts{kind}"]) for row, kind in zip(ours, kinds, strict=True)]
    assert (found.paper, len(ours), kinds.count("_augmented")) == (0.07, 8, 3)
    assert (found.ours, found.in_their_way) == pytest.approx((np.mean(clean), np.mean(their_way)), rel=1e-9)
    lower = sum(float(row["ece_ec"]) < float(row["ece_ts"]) for row in rows)
    found = claims["C: EC outperforms TS by a significant margin on several networks"]
    assert found.ours.startswith(f"lower ECE on {lower} of 11, ")
