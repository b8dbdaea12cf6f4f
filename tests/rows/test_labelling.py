"""Labels to ignore, logits of any leading shape, and labels that are one position late, in everything that takes arrays."""

import inspect
import re

import numpy as np
import pytest
import reference
from optional import array_api_strict, torch
from token_cases import CLASSES, COUNTED, DOCUMENTS, FLAT, IGNORED, LABELS, LOGITS, SEQUENCES, TOKENS, TRUE, WEIGHTS

import nishimori
from nishimori import ExpectationConsistency, GroupConsistency, metrics, plot, testing
from nishimori._rows.labels import Labelling
from nishimori._rows.options import DEFAULTS
from nishimori._rows.scores import scores
from nishimori.errors import InputError

T = reference.ec_temperature(FLAT, TRUE)
FINITE = np.where(COUNTED[..., None], LOGITS, 0.0)


def test_temperatures_are_those_of_the_tokens_that_count():
    found = nishimori.temperatures(LOGITS, LABELS, ignore_index=IGNORED)
    assert found.ec == pytest.approx(T, rel=1e-8)
    assert found.ts == pytest.approx(reference.ts_temperature(FLAT, TRUE), rel=1e-8)
    assert found.n_samples == COUNTED.sum()


def test_metrics_are_those_of_the_tokens_that_count():
    given = {"ignore_index": IGNORED, "temperature": 1.5, "sample_weight": WEIGHTS}
    heavy = WEIGHTS[COUNTED]
    right = np.average(reference.right(FLAT, TRUE), weights=heavy)
    top = reference.softmax(FLAT, 1.5).max(axis=1)
    edges = np.linspace(0, 1, 16)
    assert metrics.accuracy(LOGITS, LABELS, **given) == pytest.approx(right, rel=1e-12)
    assert metrics.error(LOGITS, LABELS, **given) == pytest.approx(1 - right, rel=1e-12)
    assert metrics.confidence(LOGITS, LABELS, **given) == pytest.approx(np.average(top, weights=heavy), rel=1e-12)
    assert metrics.nll(LOGITS, LABELS, **given) == pytest.approx(reference.nll(FLAT, TRUE, 1.5, heavy), rel=1e-12)
    assert metrics.brier(LOGITS, LABELS, **given) == pytest.approx(reference.brier(FLAT, TRUE, 1.5, heavy), rel=1e-12)
    expected = reference.ece(top, reference.right(FLAT, TRUE), edges, heavy)
    assert metrics.ece(LOGITS, LABELS, **given) == pytest.approx(expected, rel=1e-12)
    top_two = np.average(reference.right(FLAT, TRUE, 2), weights=heavy)
    assert metrics.top_n_accuracy(LOGITS, LABELS, top_n=2, **given) == pytest.approx(top_two, rel=1e-12)


def test_the_error_of_the_loss_takes_documents_as_independent():
    card = nishimori.evaluate(LOGITS, LABELS, ignore_index=IGNORED, clusters=DOCUMENTS)
    documents = np.repeat(DOCUMENTS, TOKENS).reshape(LABELS.shape)
    losses = -np.log(reference.softmax(FLAT)[np.arange(len(TRUE)), TRUE])
    assert card.nll == pytest.approx(losses.mean(), rel=1e-12)
    assert card.nll_se == pytest.approx(reference.error_of_mean(losses, clusters=documents[COUNTED]), rel=1e-10)
    each = nishimori.evaluate(LOGITS, LABELS, ignore_index=IGNORED, clusters=documents)
    assert each.nll_se == card.nll_se


def _quiet_gate(*data, **given):
    return nishimori.gate(*data, bounds={"gap": 0.9}, **given).checks[0].message


def _assertion(*data, **given):
    with pytest.raises(AssertionError) as caught:
        testing.assert_calibrated(*data, bounds={"nll": 0.01}, **given)
    return str(caught.value)


def _legend(*data, **given):
    ax = plot.calibration(*data, **given)
    texts = str([text.get_text() for text in ax.get_legend().get_texts()])
    ax.figure.clear()
    return texts


FUNCTIONS = {
    "accuracy": metrics.accuracy,
    "error": metrics.error,
    "confidence": metrics.confidence,
    "nll": metrics.nll,
    "brier": metrics.brier,
    "ece": metrics.ece,
    "ks": metrics.ks,
    "smooth_ece": metrics.smooth_ece,
    "top_n_accuracy": lambda *data, **given: metrics.top_n_accuracy(*data, top_n=2, **given),
    "reliability": lambda *data, **given: metrics.reliability(*data, of="classwise", **given).gap,
    "decomposition": lambda *data, **given: metrics.decomposition(*data, **given).calibration,
    "gap": metrics.gap,
    "temperatures": lambda *data, **given: nishimori.temperatures(*data, **given).ts_se,
    "temperature_curve": lambda *data, **given: nishimori.temperature_curve(*data, grid=[1.0, 2.0], **given).ece,
    "evaluate": lambda *data, **given: nishimori.evaluate(*data, **given).brier_se,
    "bootstrap": lambda *data, **given: nishimori.bootstrap(*data, n_draws=10, **given).temperatures,
    "compare": lambda *data, **given: nishimori.compare(*data, methods=(1.0, 2.0), **given)["T=2"].differences["nll"].se,
    "gate": _quiet_gate,
    "assert_calibrated": _assertion,
    "group_gaps": lambda *data, **given: nishimori.group_gaps(*data, **given).mean_abs_gap,
    "calibration_test": lambda *data, **given: [
        nishimori.calibration_test(*data, statistic=each, **given).z
        for each in ("confidence", "energy", "spiegelhalter", "ece", "temperatures")
    ],
    "Report": lambda *data, **given: [each["nll"] for each in nishimori.Report(*data, **given).to_dict()["methods"]],
    "calibration": _legend,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_ignored_tokens_are_as_if_they_were_not_there(name):
    found, expected = FUNCTIONS[name](LOGITS, LABELS, ignore_index=IGNORED), FUNCTIONS[name](FLAT, TRUE)
    if isinstance(found, str):
        assert found == expected
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-9)


def _public():
    """Every public function and class by name, with its signature."""
    for module in (nishimori, metrics, plot, testing):
        for name in dir(module):
            found = getattr(module, name)
            if callable(found) and not (inspect.isclass(found) and issubclass(found, Exception)):
                yield name, found


OTHER_SHAPES = {"claims", "evaluate_multilabel", "MultilabelCalibrator", "Sketch"}
"""Labels of their own shape, or no labels where the function is called."""


def test_every_function_of_logits_and_labels_ends_with_the_same_keywords_and_explains_each():
    takes = set()
    for name, found in _public():
        known = list(inspect.signature(found).parameters)
        if {"floor", "sample_weight"} <= set(known) and name not in OTHER_SHAPES:
            said = [each for each in DEFAULTS if each in known]
            assert known[-len(said) :] == said, name
            assert {"sample_weight", "input", "classes", "floor", "ignore_index", "shift_labels", "class_axis"} <= set(said), (
                name
            )
            assert all(re.search(rf"^{each} : ", found.__doc__, re.MULTILINE) for each in said), name
            assert "**options" not in found.__doc__, name
            takes.add(name)
    assert takes == {
        *FUNCTIONS,
        "rows",
        "positive_gap",
        "positive_ece",
        "auc",
        "augrc",
        "aurc",
        "calibration_intercept",
        "calibration_slope",
        "reliability_map",
    }  # which are for two classes, or for images, and read bins as `ece` does


def test_every_calibrator_can_ignore_labels():
    for name in nishimori.methods():
        assert "ignore_index" in inspect.signature(nishimori.calibrator(name).fit).parameters, name


@pytest.mark.parametrize(
    "name", [each for each in nishimori.methods() if each not in ("platt", "beta", "quadratic", "intercept")]
)
def test_every_method_gives_tokens_the_probabilities_of_flat_rows(name):
    fitted = nishimori.calibrator(name).fit(LOGITS, LABELS, ignore_index=IGNORED)
    flat = nishimori.calibrator(name).fit(FLAT, TRUE)
    for method in ("predict_proba", "predict_log_proba", "transform", "predict"):
        found, expected = getattr(fitted, method)(FINITE), getattr(flat, method)(FINITE.reshape(-1, CLASSES))
        assert found.shape == (SEQUENCES, TOKENS, CLASSES)[: found.ndim]
        np.testing.assert_allclose(found.reshape(expected.shape), expected, rtol=1e-6, atol=1e-9)


def test_probabilities_keep_shape_and_follow_the_formula():
    found = nishimori.from_temperature(1.7).predict_proba(FINITE)
    assert found.shape == FINITE.shape
    np.testing.assert_allclose(found.reshape(-1, CLASSES), reference.softmax(FINITE.reshape(-1, CLASSES), 1.7), rtol=1e-12)


def test_labels_of_text_are_ignored_by_a_number():
    names = ["ant", "bee", "cat", "dog", "eel"]
    given = [names[label] if label != IGNORED else IGNORED for label in LABELS.ravel().tolist()]
    fitted = ExpectationConsistency(classes=names).fit(LOGITS, given, ignore_index=IGNORED)
    assert fitted.temperature_ == pytest.approx(T, rel=1e-8)
    assert set(fitted.predict(np.zeros((2, 3, 5))).ravel()) == {"ant"}
    text = ExpectationConsistency(classes=names).fit(LOGITS, np.array(given), ignore_index=IGNORED)  # which holds "-100"
    assert text.temperature_ == pytest.approx(T, rel=1e-8)


SITE = np.array(["north", "south"])[np.arange(SEQUENCES) % 2]
NORTH = np.repeat(SITE == "north", TOKENS).reshape(LABELS.shape)


def test_gaps_of_groups_that_are_given_per_sequence_follow_the_formula():
    found = nishimori.group_gaps(LOGITS, LABELS, by="groups", groups=SITE, ignore_index=IGNORED)
    for name, chosen in {"north": COUNTED & NORTH, "south": COUNTED & ~NORTH}.items():
        assert found[name].n == chosen.sum()
        assert found[name].gap == pytest.approx(reference.ec_gap(LOGITS[chosen], LABELS[chosen], 1.0), rel=1e-10)


def test_each_sequence_is_divided_by_the_temperature_of_its_group():
    scaled = np.where(NORTH[..., None], LOGITS, 4 * LOGITS)
    fitted = GroupConsistency(by="groups").fit(scaled, LABELS, groups=SITE, ignore_index=IGNORED)
    north, south = fitted.temperatures_
    assert south > 2 * north
    for groups in (SITE, np.where(NORTH, "north", "south")):
        found = fitted.predict_proba(FINITE, groups=groups)
        for chosen, temperature in ((NORTH, north), (~NORTH, south)):
            np.testing.assert_allclose(found[chosen], reference.softmax(FINITE[chosen], temperature), rtol=1e-9)


def test_the_label_of_a_position_is_found_at_the_next_one():
    late = np.full_like(LABELS, 0)
    late[:, 1:] = LABELS[:, :-1]  # the last label of each sequence is lost
    found = nishimori.temperatures(nishimori.rows(LOGITS, late, shift_labels=True, ignore_index=-100))
    chosen = COUNTED.copy()
    chosen[:, -1] = False
    assert found.n_samples == chosen.sum()
    assert found.ec == pytest.approx(reference.ec_temperature(LOGITS[chosen], LABELS[chosen]), rel=1e-8)


def test_labels_cannot_be_shifted_where_sequences_are_not_known():
    with pytest.raises(
        InputError, match=r"^`logits` must have shape \(n_sequences, n_tokens, n_classes\) where `shift_labels` is True, got"
    ):
        nishimori.rows(FLAT, TRUE, shift_labels=True, ignore_index=-100)
    with pytest.raises(InputError, match=r"^`shift_labels` must be True or False, got 'yes'\.$"):
        nishimori.rows(LOGITS, LABELS, shift_labels="yes", ignore_index=-100)


def test_a_source_has_its_labels():
    data = nishimori.rows(LOGITS, LABELS, ignore_index=-100)
    with pytest.raises(
        InputError,
        match=r"^`ignore_index` must be left out where `logits` is a Rows object\. Pass it when you make the Rows object\.$",
    ):
        nishimori.evaluate(data, ignore_index=IGNORED)
    assert nishimori.rows(data) is data


def test_a_source_has_no_predictions():
    with pytest.raises(InputError, match=r"^`X` must be an array, got a Rows object\. Pass the array of scores that the rows"):
        nishimori.from_temperature(2.0).predict_proba(nishimori.rows(LOGITS, LABELS, ignore_index=-100))


def test_only_labels_to_ignore_are_refused():
    nothing = np.full_like(LABELS, IGNORED)
    message = r"^`labels` must hold at least one label that is not `ignore_index`, got only -100\.$"
    with pytest.raises(InputError, match=message):
        nishimori.temperatures(LOGITS, nothing, ignore_index=IGNORED)
    with pytest.raises(InputError, match=r"got only labels that do not count\.$"):
        nishimori.rows(LOGITS, nothing, shift_labels=True, ignore_index=-100)


def test_missing_weights_and_clusters_of_ignored_tokens_do_not_matter():
    weights = np.where(COUNTED, WEIGHTS, np.nan)
    clusters = np.where(COUNTED, np.repeat(DOCUMENTS, TOKENS).reshape(LABELS.shape).astype(object), None)
    found = nishimori.temperatures(LOGITS, LABELS, sample_weight=weights, clusters=clusters, ignore_index=IGNORED)
    assert found.ec == pytest.approx(reference.ec_temperature(FLAT, TRUE, WEIGHTS[COUNTED]), rel=1e-8)
    flat = np.repeat(DOCUMENTS, TOKENS)[COUNTED.ravel()]
    expected = nishimori.temperatures(FLAT, TRUE, sample_weight=WEIGHTS[COUNTED], clusters=flat)
    assert found.ec_se == pytest.approx(expected.ec_se, rel=1e-9)
    sketch = nishimori.Sketch().update(LOGITS, LABELS, weights, clusters, ignore_index=IGNORED)
    assert nishimori.temperatures(sketch).ec_se == pytest.approx(expected.ec_se, rel=1e-4)
    clusters[COUNTED] = np.where(np.arange(COUNTED.sum()) == 3, None, clusters[COUNTED])
    row = ", ".join(map(str, np.argwhere(COUNTED)[3]))
    with pytest.raises(InputError, match=rf"^`clusters` must not be missing, got None in row \({row}\)"):
        nishimori.temperatures(LOGITS, LABELS, clusters=clusters, ignore_index=IGNORED)


def test_weights_that_leave_only_labels_to_ignore_are_named():
    weights = (LABELS == IGNORED).astype(float)
    message = r"^`sample_weight` must be positive for some sample whose label is not `ignore_index`, got only zeros\.$"
    with pytest.raises(InputError, match=message):
        nishimori.evaluate(LOGITS, LABELS, ignore_index=IGNORED, sample_weight=weights)


def test_clusters_and_weights_may_have_the_first_dimensions_of_the_logits():
    logits, labels = (each[:, :12].reshape(SEQUENCES, 3, 4, *each.shape[2:]) for each in (LOGITS, LABELS))
    per_sequence = np.arange(SEQUENCES * 3).reshape(SEQUENCES, 3)
    use = {"ignore_index": IGNORED, "sample_weight": 1.0 + per_sequence % 3}
    found = nishimori.temperatures(logits, labels, clusters=per_sequence, **use)
    counted, flat = labels != IGNORED, np.repeat(per_sequence, 4).reshape(labels.shape)
    weights = 1.0 + flat[counted] % 3
    assert found.ec == pytest.approx(reference.ec_temperature(logits[counted], labels[counted], weights), rel=1e-8)
    expected = nishimori.temperatures(logits[counted], labels[counted], sample_weight=weights, clusters=flat[counted])
    assert found.ec_se == pytest.approx(expected.ec_se, rel=1e-9)


@pytest.mark.parametrize("name", ["clusters", "sample_weight"])
def test_a_wrong_number_of_values_is_refused_with_the_shapes_that_fit(name):
    for shape, wanted in (((4, 6), "(4,), one per sequence"), ((4, 3, 2), "(4, 3) or (4,), one per sequence")):
        with pytest.raises(InputError) as refused:
            nishimori.temperatures(np.zeros((*shape, 5)), np.zeros(shape, int), **{name: np.ones(3)})
        assert str(refused.value) == f"`{name}` must have shape {shape}, one per position, or {wanted}, got (3,)."


def test_the_score_is_the_share_of_right_tokens():
    labels = LABELS.clip(min=0)
    fitted = nishimori.from_temperature(2.0)
    right = FINITE.argmax(axis=2) == labels
    assert fitted.score(FINITE, labels) == pytest.approx(right.mean())
    assert fitted.score(FINITE, labels, WEIGHTS) == pytest.approx(np.average(right, weights=WEIGHTS))
    assert fitted.score(torch.asarray(FINITE), torch.asarray(labels), DOCUMENTS) == pytest.approx(
        np.average(right, weights=np.broadcast_to(DOCUMENTS[:, None], right.shape))
    )
    with pytest.raises(InputError, match=r"^`y` must be one label per sample, shape \(40, 15\), got shape \(40,\)"):
        fitted.score(FINITE, labels[:, 0])


def test_rows_are_named_by_their_position():
    given = scores(np.zeros((3, 4, 5, 2)))
    assert given.row(0) == (0, 0, 0)
    assert given.row(2 * 20 + 3 * 5 + 4) == (2, 3, 4)
    assert Labelling().is_plain


LIBRARIES = {
    "torch": torch.from_numpy,
    "jax": lambda values: pytest.importorskip("jax.numpy").asarray(values),
    "array_api_strict": array_api_strict.asarray,
}


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("name", ["temperatures", "evaluate", "reliability", "group_gaps"])
def test_weights_of_any_library_may_come_with_labels_of_which_none_is_to_be_ignored(name, library):
    data = FLAT.astype(np.float32), TRUE, WEIGHTS[COUNTED]
    logits, labels, weights = map(LIBRARIES[library], data)
    found = FUNCTIONS[name](logits, labels, sample_weight=weights, ignore_index=IGNORED)
    np.testing.assert_allclose(found, FUNCTIONS[name](*data[:2], sample_weight=data[2]), rtol=1e-5)


@pytest.mark.parametrize("labels", [TRUE, np.where(np.arange(len(TRUE)) % 5, TRUE, IGNORED)], ids=["none ignored", "some"])
@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ma.masked_array(WEIGHTS[COUNTED], TRUE == 0), "`sample_weight` must not hide entries, got a NumPy masked array"),
        (
            ["heavy"] * len(TRUE),
            "`sample_weight` must hold one number per sample, but one could not be read: could not convert",
        ),
        ([[1.0], [2.0, 3.0]], "`sample_weight` must hold one number per sample, but one could not be read: setting an array"),
        (
            torch.zeros(len(TRUE)),
            "`sample_weight` must be positive for some sample whose label is not `ignore_index`, got only",
        ),
    ],
    ids=["masked", "text", "ragged", "zeros"],
)
def test_weights_that_cannot_be_read_are_refused_whether_or_not_labels_are_ignored(weights, message, labels):
    with pytest.raises(InputError, match=f"^{message}"):
        nishimori.temperatures(FLAT, labels, sample_weight=weights, ignore_index=IGNORED)


@pytest.mark.parametrize("library", LIBRARIES)
def test_predictions_of_tokens_stay_in_their_array_library_and_shape(library):
    given = LIBRARIES[library](FINITE.astype(np.float32))
    calibrator = nishimori.from_temperature(T)
    found = calibrator.predict_proba(given)
    assert type(found) is type(given)
    assert found.dtype == given.dtype
    assert tuple(found.shape) == FINITE.shape
    expected = reference.softmax(FINITE.reshape(-1, CLASSES), T)
    np.testing.assert_allclose(np.asarray(found).reshape(-1, CLASSES), expected, rtol=1e-4)
    np.testing.assert_array_equal(np.asarray(calibrator.predict(given)), FINITE.argmax(axis=-1))


def test_half_precision_that_is_cut_from_a_longer_array_is_read_as_it_is():
    cut = torch.from_numpy(np.concatenate([FINITE, FINITE], axis=1)).bfloat16()[:, :TOKENS]
    rounded = cut.double().numpy()
    found = nishimori.temperatures(cut, LABELS, ignore_index=IGNORED)
    assert found.ec == pytest.approx(reference.ec_temperature(rounded[COUNTED], TRUE), rel=1e-8)


def test_a_data_frame_has_one_row_per_token():
    fitted = ExpectationConsistency().fit(LOGITS, LABELS, ignore_index=IGNORED).set_output(transform="pandas")
    found = fitted.transform(FINITE)
    assert list(found.columns) == [f"class{k}" for k in range(CLASSES)]
    np.testing.assert_allclose(found.to_numpy(), FINITE.reshape(-1, CLASSES) / T, rtol=1e-8)
