"""Rows written outside the package work for every fit and every metric, and so does each kind of rows of the package."""

import pickle
import runpy
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import reference
from optional import nishimori_torch, pd, torch, zarr

import nishimori
from nishimori import metrics
from nishimori._rows.batch import Batch
from nishimori._rows.entry import open_rows
from nishimori._rows.rows import Rows
from nishimori._rows.scores import Scores
from nishimori.errors import InputError

LOGITS, LABELS = reference.drawn(900, 5)
WEIGHTS = np.random.default_rng(2).integers(0, 3, 900).astype(float)
CUTS = [0, 7, 8, 400, 900]
CLUSTERS = np.random.default_rng(3).integers(100, 220, 900)
GROUPS = np.where(LOGITS[:, 0] > 1, "high", np.where(LOGITS[:, 1] > 0, "middle", "a low one"))


def batches():
    """The rows of positive weight, as batches of very different sizes."""
    for start, stop in pairwise(CUTS):
        rows = np.arange(start, stop)[WEIGHTS[start:stop] > 0]
        if len(rows):
            yield Batch(LOGITS[rows], LABELS[rows], WEIGHTS[rows])


class Listed:
    """A list of batches; it shares no code with the package. What it is asked to do could be sent to another process."""

    def __init__(self, parts):
        self.parts = parts
        self.n_classes = parts[0].logits.shape[1]
        self.n_rows = None
        self.n_passes = 0

    def gather(self, pass_, report=None):
        self.n_passes += 1
        sums = [pickle.loads(pickle.dumps(pass_))(batch) for batch in self.parts]
        sums = [pickle.loads(pickle.dumps(each)) for each in sums]
        total = sums[0]
        for each in sums[1:]:
            total = total + each
        return total

    def sample(self, size):
        return None


class Yielded(Rows):
    """The same with the methods that a subclass inherits."""

    n_classes = 5
    n_rows = None

    def __iter__(self):
        return batches()


def tuples():
    """The same rows as tuples, those of weight zero too."""
    return [(LOGITS[start:stop], LABELS[start:stop], WEIGHTS[start:stop]) for start, stop in pairwise(CUTS)]


def loader():
    tensors = torch.utils.data.TensorDataset(*map(torch.from_numpy, (LOGITS, LABELS, WEIGHTS)))
    return torch.utils.data.DataLoader(tensors, batch_size=128, shuffle=True)


def npy(folder, order="C"):
    np.save(folder / "logits.npy", np.asarray(LOGITS, order=order))
    return folder / "logits.npy"


def in_chunks(folder):
    stored = zarr.create_array(
        store=str(folder / "logits.zarr"), shape=LOGITS.shape, chunks=(150, 2), dtype="float64", overwrite=True
    )
    stored[:] = LOGITS
    return zarr.open_array(str(folder / "logits.zarr"), mode="r")


FRAME = pd.DataFrame(LOGITS, columns=[f"z_{k}" for k in range(5)]).assign(labels=LABELS, weight=WEIGHTS)


def table(folder, ending):
    path = folder / f"rows.{ending}"
    {
        "parquet": FRAME.to_parquet,
        "csv": lambda path: FRAME.to_csv(path, index=False),
        "jsonl": lambda path: FRAME.to_json(path, orient="records", lines=True, double_precision=15),
    }[ending](path)
    return path


def parts(folder):
    for number, (start, stop) in enumerate(pairwise(CUTS)):
        FRAME[start:stop].to_parquet(folder / f"part-{number}.parquet", row_group_size=100)
    return folder


def dictionaries():
    """The same rows as dictionaries, which name the clusters and groups of their rows."""
    return [
        {
            "logits": LOGITS[start:stop],
            "labels": LABELS[start:stop],
            "sample_weight": WEIGHTS[start:stop],
            "clusters": CLUSTERS[start:stop],
            "groups": GROUPS[start:stop],
        }
        for start, stop in pairwise(CUTS)
    ]


class Iterated:
    """An object of one's own that yields them each time it is iterated over, always in another order."""

    def __init__(self):
        self.n_passes = 0

    def __iter__(self):
        self.n_passes += 1
        batches = dictionaries()
        yield from batches[self.n_passes % 2 :: 2]
        yield from batches[1 - self.n_passes % 2 :: 2]


WEIGHED = {"sample_weight": WEIGHTS}
KINDS = {
    "by itself": lambda _: Listed(list(batches())),
    "as a subclass": lambda _: Yielded(),
    "function": lambda _: nishimori.rows(tuples),
    "function read ahead": lambda _: nishimori.rows(lambda: iter(tuples()), read_ahead=True),
    "list": lambda _: nishimori.rows(tuples()),
    "dictionaries": lambda _: nishimori.rows([{**each, "clusters": None, "groups": None} for each in dictionaries()]),
    "loader": lambda _: nishimori.rows(loader()),
    "npy": lambda folder: nishimori.rows(npy(folder), LABELS, **WEIGHED),
    "npy by columns": lambda folder: nishimori.rows(npy(folder, "F"), LABELS, **WEIGHED),
    "memmap": lambda folder: nishimori.rows(np.load(npy(folder), mmap_mode="r"), LABELS, **WEIGHED),
    "zarr": lambda folder: nishimori.rows(in_chunks(folder), LABELS, **WEIGHED),
    "parquet": lambda folder: nishimori.rows(table(folder, "parquet"), sample_weight="weight"),
    "folder of parquet": lambda folder: nishimori.rows(parts(folder), sample_weight="weight"),
    "csv": lambda folder: nishimori.rows(table(folder, "csv"), sample_weight="weight"),
    "jsonl": lambda folder: nishimori.rows(table(folder, "jsonl"), sample_weight="weight"),
}


@pytest.fixture(params=KINDS)
def rows(request, tmp_path):
    return KINDS[request.param](tmp_path)


def test_temperatures_are_those_of_the_array(rows):
    found, expected = nishimori.temperatures(rows), nishimori.temperatures(LOGITS, LABELS, sample_weight=WEIGHTS)
    assert found.ec == pytest.approx(reference.ec_temperature(LOGITS, LABELS, WEIGHTS), rel=1e-8)
    assert found.ts == pytest.approx(reference.ts_temperature(LOGITS, LABELS, WEIGHTS), rel=1e-8)
    assert (found.n_samples, found.accuracy) == (expected.n_samples, pytest.approx(expected.accuracy, rel=1e-12))


class Logit(nishimori.Observable):
    def values(self, logits):
        return logits


@pytest.mark.parametrize(
    "calibrator",
    [
        nishimori.ExpectationConsistency(),
        nishimori.ExpectationConsistency(top_n=2),
        nishimori.TemperatureScaling(classes=list("abcde")),
        nishimori.calibrators.Matched(Logit()),
        nishimori.calibrators.FixedTemperature(2.0),
    ],
    ids=["ec", "ec top 2", "ts", "matched", "fixed"],
)
def test_every_calibrator_fits(rows, calibrator):
    labels = LABELS if calibrator.classes is None else np.array(calibrator.classes)[LABELS]
    expected = type(calibrator)(**calibrator.get_params(deep=False)).fit(LOGITS, labels, WEIGHTS)
    calibrator.fit(rows)
    assert calibrator.temperature_ == pytest.approx(expected.temperature_, rel=1e-9)
    assert (calibrator.n_samples_, calibrator.n_features_in_) == (expected.n_samples_, 5)
    np.testing.assert_allclose(calibrator.predict_proba(LOGITS), expected.predict_proba(LOGITS), rtol=1e-8)
    if hasattr(expected, "fit_info_"):
        assert calibrator.fit_info_.accuracy == pytest.approx(expected.fit_info_.accuracy)


METRICS = {
    **{name: getattr(metrics, name) for name in ("accuracy", "error", "nll", "brier", "confidence", "ece", "ks", "smooth_ece")},
    "top 2": lambda data, labels=None, **given: metrics.top_n_accuracy(data, labels, top_n=2, **given),
    "classwise": lambda *data, **given: metrics.ece(*data, of="classwise", strategy="quantile", **given),
    "refinement": lambda *data, **given: metrics.decomposition(*data, **given).refinement,
    "refinement of all classes": lambda *data, **given: metrics.decomposition(*data, of="all", **given).refinement,
    "l2": lambda *data, **given: metrics.ece(*data, norm="l2", strategy="quantile", **given),
}


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
def test_every_metric_is_that_of_the_array(rows, metric):
    assert metric(rows, temperature=1.7) == pytest.approx(
        metric(LOGITS, LABELS, temperature=1.7, sample_weight=WEIGHTS), rel=1e-12
    )


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_curves_and_scorecards_are_those_of_the_array(rows, strategy):
    given = {"grid": [0.5, 2.0], "strategy": strategy}
    found = nishimori.temperature_curve(rows, **given)
    expected = nishimori.temperature_curve(LOGITS, LABELS, sample_weight=WEIGHTS, **given)
    for name in ("loss", "confidence", "ece"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-12)
    card = nishimori.evaluate(rows, temperature=2.0, strategy=strategy)
    assert (card.nll, card.ece) == pytest.approx((expected.loss[1], expected.ece[1]), rel=1e-12)


def test_an_evaluation_gathers_once():
    rows = Listed(list(batches()))
    nishimori.evaluate(rows)
    assert rows.n_passes == 1


def test_what_a_source_brings_may_not_be_passed_again(rows):
    given = {"labels": LABELS, "sample_weight": WEIGHTS, "classes": list("abcde"), "input": "probabilities"}
    for name, wrong in {name: {name: value} for name, value in given.items()}.items():
        with pytest.raises(InputError, match=f"^`{name}` must be left out where `logits` is a Rows object. Pass"):
            nishimori.evaluate(rows, **wrong)
    with pytest.raises(InputError, match=r"^`y` must be left out where `X` is a Rows object"):
        nishimori.ExpectationConsistency().fit(rows, LABELS)


@pytest.mark.parametrize("kind", KINDS)
def test_sixteen_threads_give_the_digits_of_one(kind, tmp_path, monkeypatch):
    monkeypatch.setattr("nishimori._support.arrays._HOST_BLOCK", 500)
    monkeypatch.setattr("nishimori._rows.pieces._NUMBERS", 1000)
    if kind == "loader":
        pytest.skip("a loader that shuffles sums in another order each time")
    rows = KINDS[kind](tmp_path)
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(nishimori.temperatures, [rows] * 16))
    alone = nishimori.temperatures(KINDS[kind](tmp_path))
    assert {(each.ec, each.ts) for each in found} == {(alone.ec, alone.ts)}


def test_a_calibrator_for_other_classes_is_refused(rows):
    other = nishimori.from_temperature(2.0, classes=["a", "b"])
    with pytest.raises(InputError, match="`logits` must have 2 classes, as the calibrator has, got 5"):
        nishimori.evaluate(rows, calibrator=other)


def test_labels_are_still_asked_for_where_arrays_are_passed():
    with pytest.raises(InputError, match="`labels` must be the true class of each sample"):
        nishimori.evaluate(LOGITS)


def test_a_wrong_row_is_counted_through_all_blocks_and_rows_of_weight_zero(monkeypatch):
    monkeypatch.setattr("nishimori._support.arrays._HOST_BLOCK", 500)  # a hundred rows
    logits, weights = LOGITS.copy(), np.ones(900)
    logits[456, 2], weights[430:440] = np.nan, 0
    with pytest.raises(InputError, match="got nan in row 456, column 2"):
        nishimori.temperatures(logits, LABELS, sample_weight=weights)
    with pytest.raises(InputError, match="got nan in row 456, column 2"):
        nishimori.from_temperature(2.0).predict_proba(logits)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_rows_of_weight_zero_are_not_checked(value):
    logits, labels, weights = LOGITS.copy(), LABELS.copy(), np.ones(900)
    logits[[3, 500]], labels[[3, 500]], weights[[3, 500]] = value, -100, 0
    found = nishimori.temperatures(logits, labels, sample_weight=weights)
    kept = weights > 0
    assert found.ec == pytest.approx(reference.ec_temperature(LOGITS[kept], LABELS[kept]), rel=1e-8)
    assert metrics.nll(logits, labels, sample_weight=weights) == pytest.approx(reference.nll(LOGITS[kept], LABELS[kept]))
    weights[500] = 1
    with pytest.raises(InputError, match=r"^`labels` must be from 0 to 4, got -100 in row 500"):
        nishimori.temperatures(logits, labels, sample_weight=weights)
    labels[500] = 0
    with pytest.raises(InputError, match=rf"^`logits` must not contain NaN or \+inf, got {value} in row 500, column 0"):
        nishimori.temperatures(logits, labels, sample_weight=weights)


def test_masks_are_known_for_each_block(monkeypatch):
    monkeypatch.setattr("nishimori._support.arrays._HOST_BLOCK", 500)
    logits = LOGITS.copy()
    logits[150, (LABELS[150] + 1) % 5] = -np.inf
    data = open_rows(logits, LABELS)
    assert [batch.has_masks for batch in data] == [False, True, *7 * [False]]
    assert [batch.has_masks for batch in data] == [False, True, *7 * [False]]  # and stays known
    assert nishimori.temperatures(data).ts == pytest.approx(reference.ts_temperature(logits, LABELS), rel=1e-8)


def test_values_are_checked_in_the_first_reading_alone(monkeypatch):
    checked = []
    check = Scores.check

    def counted(self, *rest):
        checked.append(self.n_samples)
        return check(self, *rest)

    monkeypatch.setattr(Scores, "check", counted)
    monkeypatch.setenv("NISHIMORI_KERNEL", "numpy")  # the native one checks while it sums
    found = nishimori.temperatures(LOGITS, LABELS)
    assert found.n_passes > 1
    assert checked.count(900) == 1


SAID = {"sample_weight": WEIGHTS, "clusters": CLUSTERS, "groups": GROUPS}


@pytest.fixture(params=[lambda: nishimori.rows(dictionaries()), lambda: nishimori.rows(dictionaries), Iterated])
def named(request):
    """Rows of one's own with clusters and groups."""
    made = request.param()
    return nishimori.rows(made, progress=False) if isinstance(made, Iterated) else made


def test_clusters_and_groups_of_batches_count_as_those_of_arrays(named):
    plain = {name: value for name, value in SAID.items() if name != "groups"}
    found, expected = nishimori.temperatures(named), nishimori.temperatures(LOGITS, LABELS, **plain)
    assert (found.ec_se, found.ts_se) == pytest.approx((expected.ec_se, expected.ts_se), rel=1e-9)
    assert abs(found.ec_se / nishimori.temperatures(LOGITS, LABELS, **WEIGHED).ec_se - 1) > 1e-3
    card, wanted = nishimori.evaluate(named, temperature=2.0), nishimori.evaluate(LOGITS, LABELS, temperature=2.0, **plain)
    assert (card.nll_se, card.accuracy_se) == pytest.approx((wanted.nll_se, wanted.accuracy_se), rel=1e-9)
    gaps, wanted_gaps = nishimori.group_gaps(named, by="groups"), nishimori.group_gaps(LOGITS, LABELS, by="groups", **SAID)
    assert [each.name for each in gaps] == [each.name for each in wanted_gaps]
    for mine, theirs in zip(gaps, wanted_gaps, strict=True):
        assert (mine.gap, mine.se, mine.n) == pytest.approx((theirs.gap, theirs.se, theirs.n), rel=1e-9)


def test_temperatures_per_group_and_comparisons_are_those_of_arrays(named):
    fitted = nishimori.GroupConsistency(by="groups").fit(named)
    expected = nishimori.GroupConsistency(by="groups").fit(LOGITS, LABELS, WEIGHTS, groups=GROUPS, clusters=CLUSTERS)
    assert fitted.map_.groups == expected.map_.groups == ("a low one", "high", "middle")
    np.testing.assert_allclose(fitted.map_.temperatures, expected.map_.temperatures, rtol=1e-8)
    found = nishimori.compare(named, methods=("none", "ec", "group"))
    expected = nishimori.compare(LOGITS, LABELS, methods=("none", "ec", "group"), **SAID)
    for name in ("ec", "group"):
        mine, theirs = found[name].differences["nll"], expected[name].differences["nll"]
        assert (mine.value, mine.se) == pytest.approx((theirs.value, theirs.se), rel=1e-7)
    calibrated = nishimori_torch.Calibrated(torch.nn.Identity(), fitted)
    found = calibrated.predict_proba(torch.tensor(LOGITS), groups=GROUPS.tolist())
    np.testing.assert_allclose(found.numpy(), fitted.predict_proba(LOGITS, groups=GROUPS), atol=1e-6)


def test_resamples_of_batches_draw_whole_clusters(named):
    found = nishimori.bootstrap(named, n_draws=10).temperatures
    expected = nishimori.bootstrap(LOGITS, LABELS, n_draws=10, sample_weight=WEIGHTS, clusters=CLUSTERS).temperatures
    np.testing.assert_allclose(found, expected, rtol=1e-8)


WRONG_BATCHES = {
    "no labels": ({"logits": LOGITS}, "^Batch 0: each batch must be a dictionary with logits, labels and perhaps .* logits"),
    "another key": (
        {"logits": LOGITS, "labels": LABELS, "weights": WEIGHTS},
        "must be a dictionary with logits, labels and perhaps .* got one with logits, labels, weights",
    ),
    "too few groups": (
        {"logits": LOGITS, "labels": LABELS, "groups": GROUPS[:5]},
        r"^Batch 0: `groups` must have shape \(900,\), one group per sample, got \(5,\)",
    ),
    "one cluster": (
        {"logits": LOGITS, "labels": LABELS, "clusters": np.zeros(900)},
        "^`clusters` must name at least two clusters",
    ),
}


@pytest.mark.parametrize(("batch", "message"), WRONG_BATCHES.values(), ids=WRONG_BATCHES)
def test_a_batch_that_is_wrong_is_refused(batch, message):
    with pytest.raises(InputError, match=message):
        nishimori.temperatures(nishimori.rows([batch]))


def test_batches_must_name_the_same_and_the_same_in_every_reading():
    first, *others = dictionaries()
    with pytest.raises(InputError, match="must name clusters and groups, as the first one does"):
        nishimori.temperatures(nishimori.rows([first, *({**each, "groups": None} for each in others)]))
    with pytest.raises(InputError, match="`groups` must hold values of one type, such as numbers or text"):
        nishimori.temperatures(
            nishimori.rows([first, *({**each, "groups": np.arange(len(each["groups"]))} for each in others)])
        )
    readings = []

    def changing():
        readings.append(None)
        return [first, *({**each, "clusters": each["clusters"] + len(readings)} for each in others)]

    with pytest.raises(InputError, match=r"`clusters` must be the same in every pass, got .* which was not there before"):
        nishimori.temperatures(nishimori.rows(changing))


def test_the_example_with_a_database_gives_what_arrays_give(tmp_path):
    path = Path(__file__).parents[2] / "examples" / "rows_from_sqlite.py"
    module = runpy.run_path(str(path))
    module["draw"](tmp_path / "answers.db", n_patients=300)
    batches = list(module["Answers"](tmp_path / "answers.db"))
    logits, labels, groups, clusters = (
        np.concatenate([each[name] for each in batches]) for name in ("logits", "labels", "groups", "clusters")
    )
    assert (len(batches), logits.shape) == (2, (1500, 3))
    rows = nishimori.rows(module["Answers"](tmp_path / "answers.db"))
    found, expected = nishimori.temperatures(rows), nishimori.temperatures(logits, labels, clusters=clusters)
    assert (found.ec, found.ec_se) == pytest.approx((expected.ec, expected.ec_se), rel=1e-8)
    by_hospital = nishimori.GroupConsistency(by="groups").fit(rows)
    expected = nishimori.GroupConsistency(by="groups").fit(logits, labels, groups=groups, clusters=clusters)
    np.testing.assert_allclose(by_hospital.map_.temperatures, expected.map_.temperatures, rtol=1e-8)
