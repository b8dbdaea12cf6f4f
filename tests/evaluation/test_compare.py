"""Several methods on the same data: each number is that of the function that is there for it alone, and verdicts follow."""

import html as html_module
import json
import re

import numpy as np
import pytest
import reference
from optional import pd, torch
from small_calibrators import PerGroup, Shifted

import nishimori
from nishimori import ExpectationConsistency, TemperatureScaling, compare
from nishimori.errors import InputError

LOGITS, LABELS = reference.drawn(3000, 5)  # drawn at another temperature than 1
VALIDATION, TEST = (LOGITS[:1500], LABELS[:1500]), (LOGITS[1500:], LABELS[1500:])


@pytest.fixture(scope="module")
def found():
    return compare(*VALIDATION, *TEST, methods=("adaptive", "none", "ts", "ec"))


def test_every_method_has_the_temperature_of_its_own_fit(found):
    assert [each.method for each in found] == ["adaptive", "none", "ts", "ec"]
    assert (found["none"].temperature, found["none"].temperature_se, found["none"].interval) == (1, None, None)
    for name in ("ts", "ec", "adaptive"):
        fitted = nishimori.calibrator(name).fit(*VALIDATION)
        assert found[name].temperature == pytest.approx(fitted.temperature_, rel=1e-8)
        assert found[name].temperature_se == pytest.approx(fitted.temperature_se_, rel=1e-6)
        assert found[name].interval == pytest.approx(fitted.confidence_interval(0.95), rel=1e-6)
    assert found["ec"].temperature == pytest.approx(reference.ec_temperature(*VALIDATION, low=0.1, high=10), rel=1e-6)


def test_metrics_are_those_of_the_test_data(found):
    assert (found.n_validation, found.n_test, found.is_test) == (1500, 1500, True)
    for each in found:
        T = each.temperature
        assert each.scorecard.nll == pytest.approx(reference.nll(*TEST, T))
        assert each.scorecard.brier == pytest.approx(reference.brier(*TEST, T))
        assert each.scorecard.accuracy == pytest.approx((TEST[0].argmax(axis=1) == TEST[1]).mean())


def test_differences_are_paired_and_from_the_first_method(found):
    assert found["adaptive"].differences == {}
    rows = np.arange(1500)
    losses = {each.method: -np.log(reference.softmax(TEST[0], each.temperature)[rows, TEST[1]]) for each in found}
    for name in ("none", "ts", "ec"):
        by_row = losses[name] - losses["adaptive"]
        assert found[name].differences["nll"].value == pytest.approx(by_row.mean())
        assert found[name].differences["nll"].se == pytest.approx(by_row.std() / np.sqrt(1500), rel=1e-3)
        assert found[name].differences["error"].value == 0


def test_verdicts_say_what_the_tests_found(found):
    assert list(found.tests) == ["score_test", "temperature_test"]
    p = reference.softmax(VALIDATION[0])
    gap = 100 * (p.max(axis=1).mean() - (p.argmax(axis=1) == VALIDATION[1]).mean())
    side = "above" if gap > 0 else "below"
    first, second = found.verdicts[-2:]
    finding = f"mean confidence is {abs(gap) / 100:.2g} {side} accuracy."
    assert first == f"On the validation data, T = 1 is rejected (p < 0.001): {finding}"
    # Labels were drawn from one temperature.
    assert re.fullmatch(r"On the validation data, EC and TS differ by .* \(p = .*\): one temperature is not rejected\.", second)
    use, others, classes = found.verdicts[:-2]
    assert (use, others) == found.recommendation.sentences
    assert classes == found.about_classes


def test_without_test_data_the_validation_data_are_measured_and_that_is_said():
    found = compare(*VALIDATION, methods=("none", "ec"))
    assert (found.is_test, found.n_test) == (False, 1500)
    assert found["ec"].scorecard.nll == pytest.approx(reference.nll(*VALIDATION, found["ec"].temperature))
    assert found.flatters
    assert found.verdicts[0] == "All methods were measured on the data that they were fitted to, which flatters them."
    assert not compare(*VALIDATION, *TEST, methods=("none", "ec")).flatters


def test_a_method_without_a_temperature_says_why_and_the_others_go_on():
    logits = LOGITS[:300]
    right = logits.argmax(axis=1)
    found = compare(logits, right, methods=("none", "ec", "ts"))
    assert found["ec"].temperature is found["ec"].scorecard is None
    assert "all 300 samples are classified correctly" in found["ec"].why
    assert any(each.startswith("ec could not be fitted. No temperature fits:") for each in found.verdicts)
    # The test of the model as it is exists where no temperature does.
    assert any("T = 1 is rejected" in each for each in found.verdicts)
    assert list(found.tests) == ["score_test"]
    assert found.tables["calibration"].rows[1] == ("ec", "-", "", "")
    assert [row[0] for row in found.tables["scores"].rows] == ["none"]
    with pytest.raises(nishimori.errors.NoTemperatureError, match="ec: No temperature fits: all 300 samples"):
        compare(logits, right, methods=("ec",))


def test_differences_are_from_the_first_method_that_was_fitted():
    logits = LOGITS[:300]
    right = logits.argmax(axis=1)
    found = compare(logits, right, methods=("adaptive", "none", 0.5))
    assert found["adaptive"].scorecard is None
    assert found.tables["differences"].headers[0] == "minus none"
    assert [each[0] for each in found.tables["differences"].rows] == ["T=0.5"]
    changed = reference.nll(logits, right, 0.5) - reference.nll(logits, right, 1.0)
    assert found["T=0.5"].differences["nll"].value == pytest.approx(changed)


def cells_of(table, method):
    """The cells of a row by the headers of their columns."""
    (row,) = (each for each in table.rows if each[0] == method)
    return dict(zip(table.headers, row, strict=True))


def test_the_table_shows_numbers_with_their_errors(found):
    row = found["ec"]
    cells = cells_of(found.tables["calibration"], "ec")
    value, error = map(float, cells["T"].split(" ± "))
    assert (value, error) == pytest.approx((row.temperature, row.temperature_se), rel=0.02)
    value, error = map(float, cells["gap"].replace("−", "-").removesuffix(" %").split(" ± "))
    assert (value, error) == pytest.approx((100 * row.scorecard.gap, 100 * row.scorecard.gap_se), rel=0.02, abs=0.06)
    low, high = row.scorecard.interval("ece")
    assert cells["ECE, 95 % interval"] == f"{100 * row.scorecard.ece:.2f} % ({100 * low:.2f} to {100 * high:.2f})"
    assert found.tables["differences"].headers[0] == "minus adaptive"
    assert [each[0] for each in found.tables["differences"].rows] == ["none", "ts", "ec"]
    low, high = (100 * each for each in row.differences["ece"].interval())
    assert found.tables["differences"].headers[1] == "ECE in points, 95 %"
    shown = f"{100 * row.differences['ece'].value:.2f} ({low:.2f} to {high:.2f})".replace("-", "−")
    assert found.tables["differences"].rows[2][1] == shown


def test_all_forms_have_the_same_numbers(found):
    told = json.loads(found.to_json())
    frame = found.to_pandas()
    assert isinstance(frame, pd.DataFrame)
    for each, row in zip(found, told["methods"], strict=True):
        assert row["nll"] == each.scorecard.nll == frame.loc[each.method, "nll"]
        assert (row["ece_low"], row["ece_high"]) == each.scorecard.interval("ece")
        assert row["why"] is None
    assert told["methods"][3]["nll_difference"] == found["ec"].differences["nll"].value
    assert told["tests"]["temperature_test"]["p_value"] == found.tests["temperature_test"].p_value
    assert told["verdicts"] == list(found.verdicts)
    text, markdown, latex, html = str(found), found.to_markdown(), found.to_latex(), found._repr_html_()
    for cell in (cell for table in found.tables.values() for cell in table.rows[2]):
        assert cell in text
        assert cell in markdown
        assert cell in html
        assert cell.replace("%", r"\%").replace("±", r"$\pm$").replace("−", "$-$") in latex
    for verdict in found.verdicts:
        assert verdict in " ".join(text.split())
        assert f"- {verdict}" in html_module.unescape(markdown)


def test_tests_have_the_same_keys_in_files_as_in_earlier_reports(found):
    one, both = found.tests["score_test"], found.tests["temperature_test"]
    assert (one.statistic, one.temperature, both.statistic) == ("confidence", 1, "temperatures")
    told = found.to_dict()["tests"]
    assert told["score_test"] == {
        "temperature": 1,
        "method": "ec",
        "gap": one.value,
        "se": one.se,
        "se_from": "model",
        "statistic": one.z,
        "p_value": one.p_value,
        "n_samples": 1500,
    }
    assert told["temperature_test"] == {
        "ec": both.ec,
        "ts": both.ts,
        "log_ratio": both.value,
        "se": both.se,
        "statistic": both.z,
        "p_value": both.p_value,
        "j": both.j,
        "n_samples": 1500,
    }


def test_the_level_is_that_of_intervals_and_of_tests():
    found = compare(*VALIDATION, *TEST, methods=("none", "ec"), level=0.5)
    assert found["ec"].interval == pytest.approx(ExpectationConsistency().fit(*VALIDATION).confidence_interval(0.5), rel=1e-6)
    assert found.tables["calibration"].headers[3] == "ECE, 50 % interval"
    row = found.to_dict()["methods"][1]
    assert (row["nll_low"], row["nll_high"]) == found["ec"].scorecard.interval("nll", 0.5)
    p = found.tests["temperature_test"].p_value
    for level, says in (
        (1 - 1.1 * p, "temperature does not describe this model"),
        (1 - 0.9 * p, "temperature is not rejected"),
    ):
        sentences = compare(*VALIDATION, *TEST, methods=("none", "ec"), level=level).verdicts
        assert any(says in each for each in sentences), (level, sentences)
    assert 1.1 * p < 1


def test_calibrators_sources_tensors_weights_and_clusters_pass():
    five = ExpectationConsistency(top_n=2)
    found = compare(*VALIDATION, *TEST, methods=("none", five))
    assert found["ec"].temperature == pytest.approx(ExpectationConsistency(top_n=2).fit(*VALIDATION).temperature_)
    assert not hasattr(five, "temperature_")  # the caller's calibrator is not touched
    plain = compare(*VALIDATION, *TEST, methods=("none", "ec"))
    batches = [(LOGITS[start : start + 500], LABELS[start : start + 500]) for start in range(0, 1500, 500)]
    pieces = compare(
        lambda: iter(batches), test_logits=torch.tensor(TEST[0]), test_labels=torch.tensor(TEST[1]), methods=("none", "ec")
    )
    assert pieces["ec"].temperature == pytest.approx(plain["ec"].temperature)
    assert pieces["ec"].scorecard.nll_se == pytest.approx(plain["ec"].scorecard.nll_se)
    twice = [np.repeat(each, 2, axis=0) for each in (*VALIDATION, *TEST)]
    pairs = np.repeat(np.arange(1500), 2)
    together = compare(*twice, methods=("none", "ec"), clusters=pairs, test_clusters=pairs)
    alone = compare(*twice, methods=("none", "ec"))
    assert together["ec"].temperature_se == pytest.approx(np.sqrt(2) * alone["ec"].temperature_se, rel=1e-3)
    assert together["ec"].scorecard.nll_se == pytest.approx(np.sqrt(2) * alone["ec"].scorecard.nll_se)
    ones, twos = np.ones(1500), np.full(1500, 2.0)
    heavy = compare(*VALIDATION, *TEST, methods=("none", "ec"), sample_weight=twos, test_weight=twos, counts=True)
    light = compare(*VALIDATION, *TEST, methods=("none", "ec"), sample_weight=ones, test_weight=ones, counts=True)
    assert light["ec"].temperature_se == pytest.approx(np.sqrt(2) * heavy["ec"].temperature_se, rel=1e-6)
    assert light["ec"].scorecard.brier_se == pytest.approx(np.sqrt(2) * heavy["ec"].scorecard.brier_se)


def test_two_of_the_same_method_need_names():
    two = ExpectationConsistency(top_n=2)
    with pytest.raises(InputError, match=r"`methods` must be different from each other, got ec, ec\."):
        compare(*VALIDATION, methods=("ec", two))
    assert [each.method for each in compare(*VALIDATION, methods={"ec": "ec", "two": two})] == ["ec", "two"]


def test_named_classes_and_probabilities_reach_every_method():
    names = np.array(["a", "b", "c", "d", "e"])
    probabilities, labels = reference.softmax(VALIDATION[0]), names[VALIDATION[1]]
    found = compare(probabilities, labels, methods=("none", "ec"), input="probabilities", classes=names, floor=None)
    assert found["ec"].temperature == pytest.approx(compare(*VALIDATION, methods=("ec",))["ec"].temperature)


def test_a_sketch_has_no_paired_differences():
    found = compare(nishimori.Sketch().update(*VALIDATION), methods=("none", "ec"))
    assert found["ec"].temperature == pytest.approx(ExpectationConsistency().fit(*VALIDATION).temperature_, rel=1e-5)
    assert found["ec"].differences == {}
    assert list(found.tables) == ["calibration", "scores"]
    assert found["ec"].scorecard.nll_se is None
    assert found.to_dict()["methods"][1]["nll_low"] is None
    assert any(each.startswith("A sketch does not give standard errors of the NLL, the Brier score") for each in found.verdicts)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (VALIDATION, {"methods": "ec"}, "`methods` must be a list of names or calibrators"),
        (VALIDATION, {"methods": ()}, "`methods` must be a list of names or calibrators"),
        (VALIDATION, {"methods": ("ec", "ec")}, "`methods` must be different from each other, got ec, ec"),
        (VALIDATION, {"methods": (ExpectationConsistency(), "ec")}, "`methods` must be different from each other"),
        (
            VALIDATION,
            {"methods": (ExpectationConsistency(input="probabilities"),)},
            "`methods` must hold calibrators with the same `input` as the data, 'logits', got 'probabilities'",
        ),
        (VALIDATION, {"methods": ("auto",)}, "Did you mean 'adaptive'"),
        (VALIDATION, {"level": 95}, "`level` must lie between 0 and 1, got 95"),
        (VALIDATION, {"test_labels": LABELS}, "`test_labels` must be left out where there is no `test_logits`"),
        (VALIDATION, {"test_weight": LABELS}, "`test_weight` must be left out where there is no `test_logits`"),
        (VALIDATION, {"n_bins": 0}, "`n_bins` must be a whole number"),
        ((*VALIDATION, LOGITS[:, :4], LABELS % 4), {}, "`test_logits` must have 5 classes, as `logits` has, got 4"),
        ((LOGITS, LABELS[:-1]), {}, "`labels` must"),
    ],
)
def test_bad_arguments_are_named(arguments, options, message):
    with pytest.raises(InputError, match=re.escape(message)):
        compare(*arguments, **options)


def test_an_unknown_row_is_refused(found):
    with pytest.raises(InputError, match="`name` must be one of 'adaptive', 'none', 'ts', 'ec', got 'isotonic'"):
        found["isotonic"]


def test_an_infinite_loss_is_not_called_the_lowest():
    masked = LOGITS.copy()
    masked[0, LABELS[0]] = -np.inf
    found = compare(masked, LABELS, methods=("none", "ec"))
    assert np.isinf(found["none"].scorecard.nll)
    assert found.recommendation.simplest.nll_percent is None
    assert found.recommendation.best is found.recommendation.action is None


def test_temperature_scaling_alone_is_a_comparison_of_one():
    found = compare(*VALIDATION, methods=(TemperatureScaling(),))
    assert [each.method for each in found] == ["ts"]
    assert found["ts"].temperature == pytest.approx(reference.ts_temperature(*VALIDATION), rel=1e-6)


def test_methods_share_the_readings_of_a_stream():
    readings = []

    def batches():
        readings.append(1)
        return iter([(VALIDATION[0][:700], VALIDATION[1][:700]), (VALIDATION[0][700:], VALIDATION[1][700:])])

    nishimori.temperatures(batches)
    alone = len(readings)
    readings.clear()
    compare(batches, test_logits=TEST[0], test_labels=TEST[1], methods=("adaptive", "none", "ts", "ec"))
    # For none, at both temperatures, for the score test, at the temperature of TS.
    assert len(readings) <= alone + 5


def after_shift(logits, by):
    """Probabilities after `small_calibrators.Shifted`."""
    return reference.softmax((logits - logits.mean(axis=1, keepdims=True)) / 2 + np.array([by, 0, 0, 0, 0]))


def test_the_error_is_shown_and_judged_where_predictions_change():
    found = compare(*VALIDATION, *TEST, methods=("none", "ts", Shifted(by=3.0)))
    name = "small_calibrators:Shifted"
    wrong = {"none": TEST[0].argmax(axis=1) != TEST[1], name: after_shift(TEST[0], 3.0).argmax(axis=1) != TEST[1]}
    change = wrong[name].astype(float) - wrong["none"]
    error = found[name].differences["error"]
    assert (error.value, error.se) == pytest.approx((change.mean(), change.std() / np.sqrt(1500)), rel=1e-3)
    headers = {name: table.headers[1:] for name, table in found.tables.items()}
    assert headers == {
        "calibration": ("T", "gap", "ECE, 95 % interval"),
        "scores": ("error", "NLL", "Brier score"),
        "classes": ("class gap", "significant"),
        "differences": ("error in points", "ECE in points, 95 %", "NLL"),
    }
    assert cells_of(found.tables["calibration"], name)["T"] == ""
    assert (
        cells_of(found.tables["scores"], name)["error"]
        == f"{100 * wrong[name].mean():.1f} ± {100 * wrong[name].std() / np.sqrt(1500):.1f} %"
    )
    assert found.tables["differences"].rows[0][1] == "0"
    assert found.tables["differences"].rows[1][1] == f"{100 * error.value:.1f} ± {100 * error.se:.1f}"


def test_the_error_is_not_shown_where_all_predictions_are_the_same(found):
    assert "error" not in found.tables["scores"].headers
    kept = compare(*VALIDATION, *TEST, methods=("none", Shifted(preserve_accuracy=True)))
    assert "error" not in kept.tables["scores"].headers
    assert not any("error" in each and "standard error" not in each for each in (*kept.verdicts, *found.verdicts))


def class_gaps(p, labels):
    """Confidence minus accuracy of each predicted class."""
    top = p.argmax(axis=1)
    return np.array([(p.max(axis=1) - (top == labels))[top == k].mean() for k in range(p.shape[1])])


def test_single_classes_that_are_off_are_counted_and_named():
    rng = np.random.default_rng(5)
    logits = 3 * rng.normal(size=(4000, 3))
    biased = np.where(logits.argmax(axis=1)[:, None] == 2, logits / 4, logits)  # a model that is too sure of its third class
    labels = (biased + rng.gumbel(size=logits.shape)).argmax(axis=1)
    names = np.array(["ant", "bee", "cat"])
    found = compare(logits, names[labels], methods=("none", "ec"), classes=names)
    told = found.to_dict()["methods"]
    for row, each in zip(told, found, strict=True):
        gaps = class_gaps(reference.softmax(logits, each.temperature), labels)
        assert row["class_gap"] == pytest.approx(np.abs(gaps).mean())
        assert row["class_gap_low"] < row["class_gap"] < row["class_gap_high"]
        cells = cells_of(found.tables["classes"], each.method)
        assert cells["significant"] == {"none": "1 of 3", "ec": "3 of 3"}[each.method]  # as it is, only that of the third
        value, error = map(float, re.fullmatch(r"(.*) ± (.*) %", cells["class gap"]).groups())
        assert (value, error) == pytest.approx((100 * np.abs(gaps).mean(), 100 * row["class_gap_se"]), rel=0.02)
    gaps = class_gaps(reference.softmax(logits, found["ec"].temperature), labels)
    assert found.about_classes == (
        "Predicted classes, with Holm's correction: after ec 3 of 3 gaps are significant (the largest, class cat: confidence "
        f"{100 * gaps[2]:.1f} points above accuracy). The methods group, bias and vector correct single classes."
    )
    assert found.about_classes in found.verdicts
    halves = (logits[::2], names[labels[::2]], logits[1::2], names[labels[1::2]])
    named = compare(*halves, methods=("none", "ec", "group"), classes=names)
    assert ": after group none of 3 gaps is significant (the largest, class " in named.about_classes
    assert named.about_classes.endswith("accuracy).")
    assert named["group"].by_class.mean_abs_gap < 0.2 * found["ec"].by_class.mean_abs_gap


def test_groups_reach_the_methods_that_have_a_temperature_for_each():
    names = np.array(["delta", "north", "south"])
    sites, others = names[np.arange(1500) % 3], names[np.arange(1500) % 2]
    found = compare(*VALIDATION, *TEST, methods=("none", PerGroup(), "ec"), groups=sites, test_groups=others)
    by_row = np.where(others == "delta", 1.0, 2.0)
    p = reference.softmax(TEST[0] / by_row[:, None])
    row = found["small_calibrators:PerGroup"]
    assert row.scorecard.nll == pytest.approx(-np.log(p[np.arange(1500), TEST[1]]).mean())
    assert row.temperature is None
    assert found["ec"].temperature == pytest.approx(compare(*VALIDATION, methods=("ec",))["ec"].temperature)
    unseen = np.where(others == "delta", "west", others)
    with pytest.warns(nishimori.errors.InputWarning, match="The group 'west' was not seen when the temperatures were fitted"):
        compare(*VALIDATION, *TEST, methods=("none", PerGroup()), groups=sites, test_groups=unseen)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (
            (*VALIDATION, *TEST),
            {"groups": np.arange(1500) % 3},
            "`test_groups` must name the group of each sample: the calibrator has a temperature for each group.",
        ),
        (VALIDATION, {"groups": np.arange(1500) % 3, "test_groups": [1]}, "`test_groups` must be left out where there is no"),
        (VALIDATION, {"groups": np.arange(1499)}, "`groups` must have shape (1500,), one group per sample, got (1499,)"),
    ],
)
def test_groups_that_do_not_align_are_refused(arguments, options, message):
    with pytest.raises(InputError, match=re.escape(message)):
        compare(*arguments, methods=("none", PerGroup()), **options)


def test_validation_and_test_data_of_different_kinds_are_said_to_be_so():
    logits, labels = reference.drawn(600, 3)
    p = reference.softmax(logits)
    said = r"^`test_logits` must be .* Validation and test data must be of one kind\."
    for validation, test, options in ((logits, p, {}), (p, logits, {"input": "probabilities"})):
        with pytest.raises(InputError, match=said):
            nishimori.compare(validation, labels, test, labels, **options)
