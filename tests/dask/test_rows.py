"""Arrays of Dask: any chunks and any scheduler give the numbers of the rows, and only sums are moved."""

import pickle
import re

import dask.array as da
import numpy as np
import pytest
import reference
from dask.callbacks import Callback

import dask
import nishimori
from nishimori import ExpectationConsistency, metrics
from nishimori._rows.entry import open_rows
from nishimori.errors import InputError

LOGITS, LABELS = reference.drawn(900, 5)
WEIGHTS = np.random.default_rng(1).integers(0, 3, 900).astype(float)
EC, TS = reference.ec_temperature(LOGITS, LABELS), reference.ts_temperature(LOGITS, LABELS)


class Computed(Callback):
    """Which tasks ran in each graph, and how many bytes the largest array and result for the caller had."""

    def __init__(self):
        super().__init__(start=self._begin, posttask=self._note)
        self.graphs, self.most_bytes, self.largest_result = [], 0, 0

    def _begin(self, _):
        self.graphs.append([])

    def _note(self, key, result, *_):
        self.graphs[-1].append(str(key))
        self.most_bytes = max(self.most_bytes, getattr(result, "nbytes", 0))
        if "nishimori-chunk-aggregate-" in str(key):
            self.largest_result = max(self.largest_result, len(pickle.dumps(result)))


def n_chunks_of(graph):
    """How many chunks were summed, apart from the tasks that add these sums."""
    return sum(re.match(r"\('nishimori-chunk-[0-9a-f]{32}'", key) is not None for key in graph)


@pytest.fixture(autouse=True)
def synchronous():
    """Everything in this thread, so that `Computed` sees it; tests of other schedulers say so."""
    with dask.config.set(scheduler="synchronous"):
        yield


def in_chunks(rows=200, columns=5, logits=LOGITS):
    return da.from_array(logits, chunks=(rows, columns))


def hidden(array):
    """The same array without the sizes of its chunks."""
    return array[da.ones(array.shape[0], chunks=array.chunks[0], dtype=bool)]


@pytest.mark.parametrize("scheduler", ["synchronous", "threads"])
@pytest.mark.parametrize("label_chunks", [200, 900, 77])
@pytest.mark.parametrize("chunks", [(200, 5), (900, 5), (60, 5), (100, 2), (900, 1), ((1, 600, 0, 299), (4, 1))], ids=str)
def test_any_chunks_have_the_temperatures_of_the_rows(chunks, label_chunks, scheduler):
    with dask.config.set(scheduler=scheduler):
        found = nishimori.temperatures(da.from_array(LOGITS, chunks=chunks), da.from_array(LABELS, chunks=label_chunks))
    assert (found.ec, found.ts) == (pytest.approx(EC, rel=1e-8), pytest.approx(TS, rel=1e-8))


def test_all_schedulers_give_the_same_digits():
    found = set()
    for scheduler in ("synchronous", "threads"):
        with dask.config.set(scheduler=scheduler):
            found.add(nishimori.temperatures(in_chunks(50), LABELS, sample_weight=WEIGHTS))
    assert len(found) == 1


def test_weights_may_be_of_dask_and_rows_of_weight_zero_may_hold_anything():
    logits, labels = LOGITS.copy(), LABELS.copy()
    logits[WEIGHTS == 0], labels[WEIGHTS == 0] = np.nan, -7
    logits[:200], weights = np.nan, np.where(np.arange(900) < 200, 0, WEIGHTS)  # a whole chunk of weight zero
    found = nishimori.temperatures(in_chunks(logits=logits), labels, sample_weight=da.from_array(weights, chunks=31))
    kept = weights > 0
    assert found.ec == pytest.approx(reference.ec_temperature(LOGITS[kept], LABELS[kept], weights[kept]), rel=1e-8)


def test_every_metric_is_that_of_the_rows():
    expected = {name: each.mean() for name, each in reference.scores(LOGITS, LABELS).items()}
    card = nishimori.evaluate(in_chunks(columns=3), da.from_array(LABELS, chunks=10))
    for name, value in expected.items():
        assert getattr(card, name) == pytest.approx(value, rel=1e-12)
        assert getattr(metrics, name)(in_chunks(), LABELS) == pytest.approx(value, rel=1e-12)
    top = reference.softmax(LOGITS).max(axis=1)
    edges = reference.quantile_edges(top, 15)
    expected = reference.ece(top, reference.right(LOGITS, LABELS), edges)
    assert metrics.ece(in_chunks(), LABELS, strategy="quantile") == pytest.approx(expected, rel=1e-10)


def test_standard_errors_take_clusters_as_text_in_other_chunks():
    clusters = np.array([f"document {number}" for number in range(60)])[np.arange(900) * 7 % 60]
    card = nishimori.evaluate(in_chunks(), LABELS, clusters=da.from_array(clusters, chunks=111))
    scores = reference.scores(LOGITS, LABELS)["nll"]
    assert card.nll_se == pytest.approx(reference.error_of_mean(scores, clusters=clusters), rel=1e-10)


def test_the_names_of_clusters_are_collected_without_a_look_at_the_logits():
    with Computed() as seen:
        open_rows(in_chunks(), LABELS, clusters=np.arange(900) // 10)
    assert len(seen.graphs) == 1
    assert seen.most_bytes <= 8 * 200


def test_the_gap_of_each_group_is_that_of_its_rows():
    groups = np.array(["night", "day"])[(np.arange(900) % 3 > 0).astype(int)]
    found = nishimori.group_gaps(in_chunks(90), LABELS, by="groups", groups=da.from_array(groups, chunks=41))
    for name in ("day", "night"):
        kept = groups == name
        assert found[name].gap == pytest.approx(reference.ec_gap(LOGITS[kept], LABELS[kept], 1.0), abs=1e-12)


def test_tokens_in_chunks_of_both_dimensions_are_rows():
    logits, labels = LOGITS.reshape(30, 30, 5), LABELS.reshape(30, 30).copy()
    labels[:, ::7] = -100
    documents = np.arange(30) // 2
    kept = labels.reshape(-1) >= 0
    weights = np.linspace(1, 2, 30)
    found = nishimori.temperatures(
        da.from_array(logits, chunks=(4, 11, 2)),
        da.from_array(labels, chunks=7),
        sample_weight=weights,
        clusters=documents,
        ignore_index=-100,
    )
    each = np.repeat(weights, 30)[kept]
    assert found.n_samples == kept.sum()
    assert found.ec == pytest.approx(reference.ec_temperature(LOGITS[kept], LABELS[kept], each), rel=1e-8)
    flat = nishimori.temperatures(LOGITS[kept], LABELS[kept], sample_weight=each, clusters=np.repeat(documents, 30)[kept])
    assert found.ec_se == pytest.approx(flat.ec_se, rel=1e-8)


def test_flat_scores_probabilities_names_of_classes_and_masks_mean_what_they_mean_in_memory():
    z = LOGITS[:, 1] - LOGITS[:, 0]
    labels = (z / 2 + np.random.default_rng(0).logistic(size=900) > 0).astype(int)
    both = np.stack([np.zeros(900), z], axis=1)
    flat = nishimori.temperatures(da.from_array(z, chunks=100), labels).ec
    assert flat == pytest.approx(reference.ec_temperature(both, labels), rel=1e-8)
    names = np.array(list("abcde"))
    p = da.from_array(reference.softmax(LOGITS), chunks=(100, 5))
    named = nishimori.temperatures(
        p, da.from_array(names[LABELS], chunks=100), input="probabilities", classes=list("abcde"), floor=None
    )
    assert named.ec == pytest.approx(EC, rel=1e-8)
    masked = LOGITS.copy()
    masked[500:, 4] = -np.inf
    kept = np.where(LABELS == 4, 0, LABELS)
    found = nishimori.temperatures(in_chunks(logits=masked), kept).ec
    assert found == pytest.approx(reference.ec_temperature(masked, kept), rel=1e-8)


def test_a_sketch_of_chunks_has_the_temperature_of_the_rows():
    sketch = nishimori.Sketch().update(in_chunks(), da.from_array(LABELS, chunks=50), da.from_array(WEIGHTS, chunks=50))
    kept = WEIGHTS > 0
    expected = reference.ec_temperature(LOGITS[kept], LABELS[kept], WEIGHTS[kept])
    assert nishimori.temperatures(sketch).ec == pytest.approx(expected, rel=1e-6)
    with pytest.raises(InputError, match=r"^`clusters` must be left out where `logits` is a Rows object or a Dask"):
        sketch.update(in_chunks(), LABELS, clusters=LABELS)


def test_a_reading_is_one_graph_with_a_task_per_chunk_and_no_rechunk():
    made = da.map_blocks(np.add, in_chunks(50), 1.0)
    with Computed() as seen:
        nishimori.evaluate(made, da.from_array(LABELS, chunks=50))
    (graph,) = seen.graphs
    assert not [key for key in graph if "rechunk" in key]
    assert n_chunks_of(graph) == 18
    assert seen.most_bytes <= 8 * 50 * 5


def test_a_reading_of_columns_in_several_chunks_is_one_graph_that_puts_only_rows_together():
    made = da.map_blocks(np.add, in_chunks(50, 2), 1.0)
    with Computed() as seen:
        nishimori.evaluate(made, da.from_array(LABELS, chunks=50))
    (graph,) = seen.graphs
    assert n_chunks_of(graph) == 18
    assert seen.most_bytes == 8 * 50 * 5


def test_a_fit_reads_all_chunks_twice_at_most_and_a_sample_of_them_once():
    logits, labels = reference.drawn(3000, 5)
    made = da.map_blocks(np.add, da.from_array(logits, chunks=(60, 5)), 1.0)
    with Computed() as seen:
        found = nishimori.temperatures(made, da.from_array(labels, chunks=60))
    assert found.ec == pytest.approx(reference.ec_temperature(logits, labels), rel=1e-8)
    numbers = [n_chunks_of(graph) for graph in seen.graphs]
    assert numbers.count(50) == found.n_passes <= 2
    assert max(number for number in numbers if number != 50) <= 50 / 4
    assert seen.most_bytes <= 8 * 720 * 5  # the sample: all rows of twelve chunks


def test_a_fit_to_many_classes_searches_a_sample_in_one_task_and_moves_sums_alone():
    logits, labels = reference.drawn(6000, 40)
    with Computed() as seen:
        found = nishimori.temperatures(da.from_array(logits, chunks=(200, 40)), labels)
    assert found.ec == pytest.approx(reference.ec_temperature(logits, labels), rel=1e-8)
    assert found.ts == pytest.approx(reference.ts_temperature(logits, labels), rel=1e-8)
    numbers = [n_chunks_of(graph) for graph in seen.graphs]
    assert numbers.count(30) == found.n_passes <= 2
    assert len(numbers) == 2 + found.n_passes  # the sample, the search in it, and all rows
    assert 0 < seen.largest_result < 8 * 750  # less than a number per row of the sample


def test_a_column_of_all_rows_is_not_put_together(monkeypatch):
    monkeypatch.setattr("nishimori._dask.chunks.MOST_NUMBERS", 5 * 60)
    with Computed() as seen:
        found = metrics.nll(in_chunks(900, 1), LABELS)
    assert found == pytest.approx(reference.nll(LOGITS, LABELS), rel=1e-12)
    (graph,) = seen.graphs
    assert n_chunks_of(graph) == 15
    assert seen.most_bytes == 8 * 60 * 5


def test_a_search_starts_at_a_sample_that_stays_in_its_chunks():
    data = open_rows(in_chunks(20), LABELS)
    sample = data.sample(90)
    assert (sample.n_rows, sample.n_classes) == (96, 5)  # twelve rows of each of eight chunks
    rows = sample.cut.logits.compute()
    assert len({tuple(row) for row in rows}) == 96
    assert {tuple(row) for row in rows} <= {tuple(row) for row in LOGITS}
    places = [int(np.flatnonzero((row == LOGITS).all(axis=1))[0]) for row in rows]
    assert (sample.cut.others["labels"].compute() == LABELS[places]).all()
    assert sample.sample(16).n_rows == 16
    assert open_rows(in_chunks(300), LABELS).sample(90) is None  # a third of all chunks is too many


@pytest.mark.parametrize("scheduler", ["synchronous", "threads"])
def test_the_first_chunk_that_is_wrong_is_named(scheduler):
    logits, labels = LOGITS.copy(), LABELS.copy()
    logits[[617, 777], 2], labels[811] = np.nan, 9
    with dask.config.set(scheduler=scheduler):
        message = r"^Chunk 3 \(rows 600 to 799\): `logits` must not contain NaN or \+inf, got nan in row 617, column 2\. Drop"
        with pytest.raises(InputError, match=message):
            nishimori.temperatures(in_chunks(logits=logits), labels)
        with pytest.raises(InputError, match=r"^Chunk 4 \(rows 800 to 899\): `y` must be from 0 to 4, got 9 in row 811\."):
            ExpectationConsistency().fit(in_chunks(), labels)
        weights = np.where(np.arange(900) == 450, -1.0, 1.0)
        with pytest.raises(InputError, match=r"^Chunk 2 \(rows 400 to 599\): `sample_weight` must be .* got -1 in row 450\."):
            nishimori.evaluate(in_chunks(), LABELS, sample_weight=weights)
    with pytest.raises(
        InputError, match=r"^Chunk \(2, 1\), which begins at row \(20, 15\) \(rows in it count from 0\): .* row \(0, 2\)"
    ):
        nishimori.evaluate(da.from_array(logits.reshape(30, 30, 5), chunks=(10, 15, 5)), LABELS.reshape(30, 30))
    with pytest.raises(
        InputError, match=r"^Chunk 3 \(rows in it count from 0\): `logits` must not contain NaN .* in row 17, column 2"
    ):
        nishimori.evaluate(hidden(in_chunks(logits=logits)), hidden(da.from_array(LABELS, chunks=200)))
    with pytest.raises(InputError, match=r"^Chunk 0 \(rows 0 to 199\): `clusters` must not be missing, got NaN in row 3\."):
        nishimori.evaluate(in_chunks(), LABELS, clusters=np.where(np.arange(900) == 3, np.nan, 1.0))


def test_an_error_of_a_pass_keeps_its_type_and_notes_the_chunk():
    def fails(batch):
        raise KeyError("theirs")

    with pytest.raises(KeyError) as caught:
        open_rows(in_chunks(900), LABELS).gather(fails)
    assert caught.value.__notes__ == ["nishimori was reading Chunk 0 (rows 0 to 899)."]


def test_what_does_not_fit_together_is_refused_before_anything_is_computed():
    with Computed() as seen:
        for given, message in {
            (899,): r"^`labels` must have shape \(900,\), as `logits` before the classes, one entry per sample, got \(899,\)\.",
            (900, 5): r"^`labels` must have shape \(900,\), .* got \(900, 5\)\.",
        }.items():
            with pytest.raises(InputError, match=message):
                nishimori.evaluate(in_chunks(), np.zeros(given, dtype=int))
        with pytest.raises(InputError, match=r"^`labels` must be the true class of each sample, got None: pass it\."):
            nishimori.evaluate(in_chunks())
        with pytest.raises(InputError, match=r"^`classes` must name 5 classes, one per column in order, got 2\."):
            nishimori.evaluate(in_chunks(), LABELS, classes=["a", "b"])
        with pytest.raises(InputError, match=r"^`logits` must be real, got complex128\."):
            nishimori.evaluate(in_chunks().astype(complex), LABELS)
        with pytest.raises(InputError, match=r"^`groups` must be the group of each sample, got the text 'g'\."):
            open_rows(in_chunks(), LABELS, groups="g")
        with pytest.raises(InputError, match=r"^`shift_labels` must be left out where .* several chunks, got 2 chunks\. Put"):
            open_rows(da.zeros((4, 6, 5), chunks=(4, 3, 5)), np.zeros((4, 6), int), shift_labels=True)
    assert not seen.graphs


def test_chunks_of_unknown_sizes_are_paired_one_by_one():
    logits, labels = hidden(in_chunks()), hidden(da.from_array(LABELS, chunks=200))
    data = open_rows(logits, labels)
    assert data.n_rows is None
    assert nishimori.temperatures(data).ec == pytest.approx(EC, rel=1e-8)
    assert data.n_rows == 900
    message = (
        r"^`labels` must have the same chunks as `logits`, \(5,\) of unknown sizes, got {}\. Call `compute_chunk_sizes\(\)` "
        r"of all Dask arrays first, for example `logits\.compute_chunk_sizes\(\)`\.$"
    )
    with pytest.raises(InputError, match=message.format("a ndarray")):
        nishimori.temperatures(logits, LABELS)
    with pytest.raises(InputError, match=message.format(r"\(9,\) chunks")):
        nishimori.temperatures(logits, da.from_array(LABELS, chunks=100))
    other = hidden(da.from_array(LABELS, chunks=(300, 100, 200, 200, 100)))
    message = (
        r"^Chunk 0 \(rows in it count from 0\): `labels` must have chunks of the same lengths as `logits`, got shape \(300,\)"
    )
    with pytest.raises(InputError, match=message):
        nishimori.temperatures(logits, other)


def test_readings_that_differ_are_refused(tmp_path):
    def drawn_anew(block):
        path = tmp_path / f"{block[0]}"
        path.write_text(path.read_text() + "x" if path.exists() else "x")
        return LABELS[: len(block)] if len(path.read_text()) == 1 else LABELS[-len(block) :]

    numbers = da.from_array(np.arange(900), chunks=450)
    labels = da.map_blocks(drawn_anew, numbers, dtype=LABELS.dtype)
    with pytest.raises(
        InputError, match=r"^`logits` must give the same rows in every pass, got as many rows with other labels"
    ):
        nishimori.temperatures(in_chunks(450), labels)


def test_logits_that_are_drawn_again_are_refused_unless_they_are_persisted():
    rng = np.random.default_rng(0)
    logits = da.map_blocks(lambda block: block + 0.5 * rng.standard_normal(block.shape), in_chunks(450), dtype=float)
    message = (
        r"^`logits` must give the same logits in every pass over the data, got logits that change .* Call `persist\(\)` first, "
        r"which computes the chunks once\.$"
    )
    with dask.config.set(scheduler="synchronous"):
        with pytest.raises(InputError, match=message):
            nishimori.temperatures(logits, LABELS)
        nishimori.temperatures(logits.persist(), LABELS)


def test_chunks_between_0_and_1_are_refused_unless_another_one_holds_a_negative_score():
    p = reference.softmax(LOGITS)
    with pytest.raises(InputError, match=r"^`logits` must be declared as logits or probabilities, got numbers"):
        metrics.nll(da.from_array(p, chunks=(100, 5)), LABELS)
    p[-1, 0] = -0.25
    assert metrics.nll(da.from_array(p, chunks=(100, 5)), LABELS) == pytest.approx(reference.nll(p, LABELS), rel=1e-12)


def test_what_needs_each_row_is_refused():
    message = r"^`logits` must not be a Dask array here, because this needs each row and not only sums\. Pass `clusters`"
    with pytest.raises(InputError, match=message):
        nishimori.bootstrap(in_chunks(), LABELS, n_draws=20)
    with pytest.raises(InputError, match=r"^`X` must be in memory or in a file, got a Dask array\. Pass `X\.compute\(\)`\."):
        nishimori.multilabel.MultilabelCalibrator().fit(in_chunks(), LOGITS > 0)


@pytest.mark.parametrize("method", ["predict_proba", "predict_log_proba", "predict", "transform"])
@pytest.mark.parametrize("chunks", [(200, 5), (70, 2)], ids=str)
def test_predictions_are_lazy_and_in_the_same_chunks_of_rows(method, chunks):
    fitted = ExpectationConsistency().fit(LOGITS, LABELS)
    p = reference.softmax(LOGITS, fitted.temperature_)
    expected = {"predict_proba": p, "predict_log_proba": np.log(p), "predict": LOGITS.argmax(axis=1)}
    expected["transform"] = LOGITS / fitted.temperature_
    with Computed() as seen:
        found = getattr(fitted, method)(da.from_array(LOGITS, chunks=chunks))
        tokens = getattr(fitted, method)(da.from_array(LOGITS.reshape(30, 30, 5), chunks=(7, 11, 2)))
        assert not seen.graphs
    assert found.chunks[0] == da.from_array(LABELS, chunks=chunks[0]).chunks[0]
    assert found.dtype == expected[method].dtype
    np.testing.assert_allclose(found.compute(), expected[method], rtol=1e-12)
    np.testing.assert_allclose(tokens.compute(), expected[method].reshape(30, 30, *expected[method].shape[1:]), rtol=1e-12)


def test_predictions_take_groups_flat_scores_and_names_of_classes():
    groups = np.arange(900) % 2
    fitted = nishimori.GroupConsistency(by="groups").fit(LOGITS, LABELS, groups=groups)
    p = reference.softmax(LOGITS / fitted.temperatures_[groups][:, None])
    np.testing.assert_allclose(fitted.predict_proba(in_chunks(), groups).compute(), p, rtol=1e-12)
    z, y = LOGITS[:, 0], (LOGITS[:, 0] + np.random.default_rng(0).logistic(size=900) > 0).astype(int)
    flat = ExpectationConsistency(classes=["no", "yes"]).fit(z, np.array(["no", "yes"])[y])
    given = da.from_array(z, chunks=100)
    assert flat.predict_proba(given).shape == (900, 2)
    np.testing.assert_allclose(flat.transform(given).compute(), z / flat.temperature_, rtol=1e-12)
    assert (flat.predict(given).compute() == np.where(z > 0, "yes", "no")).all()


@pytest.mark.parametrize("method", ["predict_proba", "predict", "transform"])
def test_a_chunk_without_rows_has_no_predictions(method):
    fitted = ExpectationConsistency().fit(LOGITS, LABELS)
    given = in_chunks()
    chosen = given[da.from_array(np.arange(900) >= 450, chunks=given.chunks[0])]  # the first chunks are empty
    np.testing.assert_array_equal(getattr(fitted, method)(chosen).compute(), getattr(fitted, method)(LOGITS[450:]))


def test_a_chunk_that_cannot_be_predicted_is_named():
    logits = LOGITS.copy()
    logits[617, 2] = np.nan
    fitted = ExpectationConsistency().fit(LOGITS, LABELS)
    message = (
        r"^Chunk 3, which begins at row 600 \(rows in it count from 0\): `X` must not contain NaN or \+inf, got nan in row 17"
    )
    with pytest.raises(InputError, match=message):
        fitted.predict_proba(in_chunks(logits=logits)).compute()
    with pytest.raises(InputError, match=r"^X has 4 features, but ExpectationConsistency is expecting 5 features as input"):
        fitted.predict_proba(in_chunks()[:, :4])
    with pytest.raises(InputError, match=r"^`groups` must be left out: this calibrator treats all groups alike\."):
        fitted.predict_proba(in_chunks(), LABELS)
    with pytest.raises(InputError, match=r"^The output must be an array where `X` is a Dask array\. Call `set_output"):
        ExpectationConsistency().set_output(transform="pandas").fit(LOGITS, LABELS).transform(in_chunks())
