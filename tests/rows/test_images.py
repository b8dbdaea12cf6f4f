"""Pixels of an image are not independent: where ``class_axis`` is passed, an image is a cluster unless others are named."""

import numpy as np
import pytest
import reference

import nishimori
from nishimori import metrics
from nishimori.errors import InputError, InputWarning

N, K, H, W = 60, 4, 5, 6
RNG = np.random.default_rng(3)
ROWS = 3 * RNG.normal(size=(N, H, W, K))
# In every other image the model is always right, so that the pixels of an image have errors alike.
DRAWN = (ROWS / 2 + RNG.gumbel(size=ROWS.shape)).argmax(axis=-1)
MASKS = np.where((np.arange(N) % 2 == 0)[:, None, None], ROWS.argmax(axis=-1), DRAWN)
LOGITS = np.moveaxis(ROWS, -1, 1)
IMAGE_OF_PIXEL = np.repeat(np.arange(N), H * W)
FLAT, LABELS = ROWS.reshape(-1, K), MASKS.reshape(-1)


def error_of_ec(T, clusters, logits=FLAT, labels=LABELS):
    """The sandwich: squared sums of the gap over each cluster, over the slope of the sum of all gaps."""
    gaps = reference.softmax(logits, T).max(axis=1) - (logits.argmax(axis=1) == labels)
    squares = sum(gaps[clusters == each].sum() ** 2 for each in np.unique(clusters))
    near = [reference.softmax(logits, T * (1 + sign * 1e-5)).max(axis=1).sum() for sign in (1, -1)]
    return np.sqrt(squares) / abs((near[0] - near[1]) / (2e-5 * T))


BY_IMAGE = error_of_ec(reference.ec_temperature(FLAT, LABELS), IMAGE_OF_PIXEL)
BY_PIXEL = error_of_ec(reference.ec_temperature(FLAT, LABELS), np.arange(len(LABELS)))


def test_the_images_of_these_tests_make_error_bars_of_pixels_much_too_small():
    assert BY_IMAGE > 2 * BY_PIXEL


@pytest.mark.parametrize("axis", [1, -3])
def test_error_bars_are_by_image_and_temperatures_do_not_change(axis):
    by_image = nishimori.temperatures(LOGITS, MASKS, class_axis=axis)
    by_pixel = nishimori.temperatures(LOGITS, MASKS, class_axis=axis, clusters=False)
    assert by_image.ec_se == pytest.approx(BY_IMAGE, rel=1e-6)
    assert by_pixel.ec_se == pytest.approx(BY_PIXEL, rel=1e-6)
    assert (by_image.ec, by_image.ts) == (by_pixel.ec, by_pixel.ts)


def test_clusters_that_are_named_are_used():
    patients = np.arange(N) // 3
    found = nishimori.temperatures(LOGITS, MASKS, class_axis=1, clusters=patients)
    assert found.ec_se == pytest.approx(error_of_ec(found.ec, patients[IMAGE_OF_PIXEL]), rel=1e-6)
    assert (found.n_clusters, found.cluster_name) == (20, "cluster")


def batches(size=7):
    return [(LOGITS[i : i + size], MASKS[i : i + size]) for i in range(0, N, size)]


def dask_arrays():
    da = pytest.importorskip("dask.array")
    return da.from_array(LOGITS, chunks=(20, K, H, 3)), MASKS


def file(folder):
    np.savez(folder / "x.npz", logits=LOGITS, labels=MASKS)
    return folder / "x.npz", None


OTHERS = {"batches": lambda _: (batches(), None), "Dask": lambda _: dask_arrays(), "file": file}


@pytest.mark.parametrize("kind", OTHERS)
def test_images_are_counted_in_all_kinds_of_data(kind, tmp_path):
    logits, labels = OTHERS[kind](tmp_path)
    by_image = nishimori.temperatures(logits, labels, class_axis=1)
    assert by_image.ec_se == pytest.approx(BY_IMAGE, rel=1e-5)
    assert (by_image.n_clusters, by_image.cluster_name) == (N, "image")
    by_pixel = nishimori.temperatures(logits, labels, class_axis=1, clusters=False)
    assert by_pixel.ec_se == pytest.approx(BY_PIXEL, rel=1e-4)
    assert by_pixel.n_clusters is None


def test_batches_that_name_clusters_are_believed():
    patients = np.arange(N) // 3
    named = [{"logits": LOGITS[i : i + 6], "labels": MASKS[i : i + 6], "clusters": patients[i : i + 6]} for i in range(0, N, 6)]
    found = nishimori.temperatures(named, class_axis=1)
    assert found.ec_se == pytest.approx(error_of_ec(found.ec, patients[IMAGE_OF_PIXEL]), rel=1e-5)
    assert found.cluster_name == "cluster"


def test_a_sketch_of_images_has_their_error_bars():
    sketch = nishimori.Sketch().update(nishimori.rows(LOGITS, MASKS, class_axis=1))
    assert nishimori.temperatures(sketch).ec_se == pytest.approx(BY_IMAGE, rel=1e-3)


def test_a_file_of_images_is_refused_by_a_sketch_unless_pixels_are_independent(tmp_path):
    path, _ = file(tmp_path)
    with pytest.raises(InputError, match=r"Or pass `clusters=False` to `rows`\.$"):
        nishimori.Sketch().update(nishimori.rows(path, class_axis=1))
    sketch = nishimori.Sketch().update(nishimori.rows(path, class_axis=1, clusters=False))
    assert nishimori.temperatures(sketch).ec_se == pytest.approx(BY_PIXEL, rel=1e-3)


def test_images_without_labels_are_no_clusters():
    masks = MASKS.copy()
    masks[:15] = 255
    masks[15, 0] = 255
    found = nishimori.temperatures(LOGITS, masks, class_axis=1, ignore_index=255)
    counted = masks.reshape(-1) != 255
    assert found.n_clusters == N - 15
    expected = error_of_ec(found.ec, IMAGE_OF_PIXEL[counted], FLAT[counted], LABELS[counted])
    assert found.ec_se == pytest.approx(expected, rel=1e-6)


def test_tokens_and_tables_have_no_clusters_by_default():
    assert nishimori.temperatures(ROWS, MASKS).n_clusters is None
    assert nishimori.temperatures(FLAT.T, LABELS, class_axis=0).n_clusters is None


@pytest.mark.parametrize(
    "measure",
    [
        lambda: nishimori.temperatures(LOGITS, MASKS, class_axis=1),
        lambda: nishimori.evaluate(LOGITS, MASKS, class_axis=1),
    ],
    ids=["temperatures", "evaluate"],
)
def test_results_say_that_error_bars_are_by_image(measure):
    text = str(measure())
    assert text.startswith("1,800 samples in 60 images, ")
    assert "Standard errors are by image (first axis)." in text


def test_results_of_named_clusters_and_of_pixels_do_not_speak_of_images():
    for clusters, title in ((np.arange(N), "1,800 samples in 60 clusters, "), (False, "1,800 samples, ")):
        text = str(nishimori.temperatures(LOGITS, MASKS, class_axis=1, clusters=clusters))
        assert text.startswith(title)
        assert "image" not in text


def test_a_threshold_and_a_gate_speak_of_images():
    found = nishimori.threshold(LOGITS, MASKS, max_risk=0.5, class_axis=1)
    assert "in 60 images" in str(found)
    assert "in a random image" in found.verdict
    few = nishimori.gate(LOGITS[:20], MASKS[:20], bounds={"ece": 0.5}, class_axis=1, min_samples=30)
    assert "20 images" in str(few)


def test_test_data_have_independent_pixels_where_those_of_the_validation_data_are():
    half = N // 2
    parts = LOGITS[:half], MASKS[:half], LOGITS[half:], MASKS[half:]
    by_pixel = nishimori.compare(*parts, methods=("ts",), class_axis=1, clusters=False)["ts"].scorecard
    by_image = nishimori.compare(*parts, methods=("ts",), class_axis=1)["ts"].scorecard
    assert (by_pixel.n_clusters, by_image.n_clusters, by_image.cluster_name) == (None, half, "image")
    assert by_image.nll == pytest.approx(by_pixel.nll, rel=1e-12)


REFUSED = {
    "one image": (
        lambda **options: nishimori.temperatures(LOGITS[1:2], MASKS[1:2], class_axis=1, **options),
        "`clusters` must be at least two images, got one: a standard error is computed from the spread between images. Use "
        "several images, or pass `clusters` if you know which pixels belong together. With `clusters=False` pixels count as "
        "independent, and standard errors are too small.",
    ),
    "classes first": (
        lambda **options: nishimori.temperatures(LOGITS[1], MASKS[1], class_axis=0, **options),
        "`clusters` must be passed where `class_axis=0`: no dimension before it can be that of images. For one image, pass "
        "`clusters=False`: pixels then count as independent, and standard errors are too small.",
    ),
    "counts": (
        lambda **options: nishimori.temperatures(LOGITS, MASKS, class_axis=1, counts=True, **options),
        "`counts` must be False where samples belong together, got True for pixels, which belong to images. If pixels are "
        "independent, pass `clusters=False`.",
    ),
    "redrawn labels": (
        lambda **options: nishimori.calibration_test(LOGITS, MASKS, statistic="ece", n_draws=20, class_axis=1, **options),
        "`clusters` must be left out for 'ece', which redraws each label by itself. Pass `clusters=False`.",
    ),
}


@pytest.mark.parametrize(("call", "message"), REFUSED.values(), ids=REFUSED)
def test_what_images_cannot_tell_is_refused_and_pixels_may_be_taken_as_independent(call, message):
    with pytest.raises(InputError) as error:
        call()
    assert str(error.value) == message
    call(clusters=False)


def test_few_images_are_a_warning():
    with pytest.warns(InputWarning, match=r"^Standard errors from 4 images are too small on average and unreliable\. Use at"):
        nishimori.temperatures(LOGITS[:4], MASKS[:4], class_axis=1)


def test_a_number_without_a_standard_error_needs_one_image_only():
    assert metrics.nll(LOGITS[1:2], MASKS[1:2], class_axis=1) == pytest.approx(
        reference.nll(FLAT[30:60], LABELS[30:60]), rel=1e-12
    )
    curve = nishimori.temperature_curve(LOGITS[1:2], MASKS[1:2], class_axis=1)
    assert curve.accuracy == (FLAT[30:60].argmax(axis=1) == LABELS[30:60]).mean()


def test_rows_keep_what_was_said_of_clusters():
    data = nishimori.rows(LOGITS, MASKS, class_axis=1)
    assert nishimori.temperatures(data).ec_se == pytest.approx(BY_IMAGE, rel=1e-6)
    with pytest.raises(InputError, match="`clusters` must be left out where `logits` is a Rows object"):
        nishimori.temperatures(data, clusters=False)
