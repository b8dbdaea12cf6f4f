"""Loaders and functions of batches: what is recognised, what is refused, and which batch an error is about."""

import functools

import numpy as np
import pytest
import reference
from optional import torch

import nishimori
from nishimori import ExpectationConsistency, metrics
from nishimori.errors import InputError

LOGITS, LABELS = reference.drawn(900, 5)
T = reference.ec_temperature(LOGITS, LABELS)


def parts(logits=LOGITS, labels=LABELS, step=200):
    return [(logits[start : start + step], labels[start : start + step]) for start in range(0, len(logits), step)]


class Files:
    """What can be iterated again and again, and is no list."""

    def __iter__(self):
        return iter(parts())


class Numbered:
    """A sequence by its methods alone, as torch's data sets are."""

    def __len__(self):
        return 900

    def __getitem__(self, row):
        return LOGITS[row], LABELS[row]


def generator():
    yield from parts()


LOADER = torch.utils.data.DataLoader(
    torch.utils.data.TensorDataset(torch.from_numpy(LOGITS), torch.from_numpy(LABELS)), batch_size=128, shuffle=True
)


@pytest.mark.parametrize(
    "batches",
    [
        generator,
        lambda: (part for part in parts()),
        functools.partial(parts, step=77),
        Files(),
        Files,
        LOADER,
        parts(),
        [[*p] for p in parts()],
    ],
    ids=["generator function", "lambda", "partial", "iterable", "class", "loader", "list", "list of lists"],
)
def test_what_yields_batches_is_taken_by_every_function(batches):
    assert ExpectationConsistency().fit(batches).temperature_ == pytest.approx(T, rel=1e-8)
    assert nishimori.temperatures(batches).ec == pytest.approx(T, rel=1e-8)
    assert nishimori.evaluate(batches).nll == pytest.approx(reference.nll(LOGITS, LABELS), rel=1e-12)
    assert metrics.accuracy(batches) == pytest.approx(np.mean(LOGITS.argmax(axis=1) == LABELS))


def test_batches_may_be_tensors_of_any_precision_with_weights():
    weights = np.random.default_rng(0).integers(0, 3, 900).astype(float)
    single = LOGITS.astype(np.float32)
    given = [
        tuple(torch.from_numpy(each[start : start + 100]) for each in (single, LABELS, weights)) for start in range(0, 900, 100)
    ]
    found = nishimori.temperatures(lambda: given)
    assert found.ec == pytest.approx(reference.ec_temperature(single.astype(float), LABELS, weights), rel=1e-8)
    assert found.n_samples == np.count_nonzero(weights)


def test_classes_and_probabilities_are_those_of_the_calibrator():
    names = np.array(list("abcde"))
    batches = parts(reference.softmax(LOGITS), names[LABELS])
    found = ExpectationConsistency(input="probabilities", classes=list("abcde"), floor=None).fit(batches)
    assert found.temperature_ == pytest.approx(T, rel=1e-8)


def test_batches_without_rows_and_batches_of_weight_zero_do_not_count():
    nothing = (LOGITS[:0], LABELS[:0])
    ignored = (np.full((3, 5), np.nan), [-1, -1, -1], np.zeros(3))
    found = nishimori.temperatures(lambda: [nothing, *parts(), ignored, nothing])
    assert found.ec == pytest.approx(T, rel=1e-8)
    assert found.n_samples == 900


def test_batches_are_made_in_the_thread_of_the_caller_unless_asked_otherwise():
    import threading

    makers = []

    def made():
        for part in parts():
            makers.append(threading.current_thread() is threading.main_thread())
            yield part

    nishimori.temperatures(made)
    assert set(makers) == {True}
    makers.clear()
    ahead = nishimori.rows(made, read_ahead=True)
    ahead.n_classes  # noqa: B018 - asks for the first batch
    makers.clear()
    assert nishimori.evaluate(ahead).accuracy == nishimori.evaluate(made).accuracy
    assert False in makers


def test_the_number_of_rows_is_learned_in_the_first_reading():
    data = nishimori.rows(generator)
    assert (data.n_rows, data.n_classes) == (None, 5)
    nishimori.evaluate(data)
    assert data.n_rows == 900


def test_values_are_checked_in_the_first_reading_alone(monkeypatch):
    checked = []
    check = nishimori._rows.scores.Scores.check
    monkeypatch.setattr(nishimori._rows.scores.Scores, "check", lambda self, *rest: checked.append(1) or check(self, *rest))
    assert nishimori.temperatures(parts).n_passes > 1
    assert len(checked) == len(parts())


def test_masks_are_found_in_whatever_batch_a_loader_puts_them():
    logits = LOGITS.copy()
    logits[[3, 500, 890], (LABELS[[3, 500, 890]] + 1) % 5] = -np.inf
    order, reading = np.random.default_rng(0), []

    def shuffled():
        reading.append(1)
        index = order.permutation(900)
        return parts(logits[index], LABELS[index], 50)

    found = nishimori.temperatures(shuffled)
    assert len(reading) > 2
    assert found.ts == pytest.approx(reference.ts_temperature(logits, LABELS), rel=1e-8)


def test_batches_between_0_and_1_are_refused_unless_the_last_one_holds_a_negative_score():
    p = reference.softmax(LOGITS)
    with pytest.raises(InputError, match=r"^`logits` must be declared as logits or probabilities, got numbers"):
        nishimori.evaluate(parts(p))
    p[-1, 0] = -0.25
    assert nishimori.evaluate(parts(p)).nll == pytest.approx(reference.nll(p, LABELS), rel=1e-12)


def put(array, where, value):
    array = array.astype(np.result_type(array, type(value)))
    array[where] = value
    return array


REFUSED = {
    "`logits` must be readable more than once, got a generator, which is used up after one pass. Pass a function that "
    "makes a new one, such as `lambda: batches()`.": generator(),
    "The data must have at least one row of positive weight, got none.": list,
    "`logits` must be an array of scores or a function without arguments that returns batches, got 'put': missing a required "
    "argument: 'array'.": put,
    "`logits` must yield batches, got a Numbered, which gives one sample at a time. Pass a loader, such as": Numbered(),
    "Batch 0: each batch must be a tuple (logits, labels) or (logits, labels, sample_weight), or a dictionary, got an array "
    "of shape (900, 5) without labels.": lambda: [LOGITS],
    "Batch 1: each batch must be a tuple (logits, labels) or (logits, labels, sample_weight), or a dictionary, got a tuple of "
    "1.": lambda: [
        *parts()[:1],
        (LOGITS,),
    ],
    "Batch 2: each batch must be a dictionary with logits, labels and perhaps sample_weight, clusters and groups, got one with "
    "logits.": lambda: [
        *parts()[:2],
        {"logits": LOGITS},
    ],
    "Batch 0: `labels` must be the true class of each sample, got None: pass it.": lambda: [(LOGITS, None)],
    "Batch 3: `logits` must not contain NaN or +inf, got nan in row 17, column 2.": lambda: parts(
        put(LOGITS, (617, 2), np.nan)
    ),
    "Batch 3: `labels` must be from 0 to 4, got 7 in row 17.": lambda: parts(LOGITS, put(LABELS, 617, 7)),
    "Batch 1: `logits` must have 5 classes, like the rows before, got 4.": lambda: [
        *parts()[:1],
        (LOGITS[:, :4], LABELS),
    ],
    "Batch 1: `labels` must be one label per sample, shape (900,), got shape (899,).": lambda: [
        *parts()[:1],
        (LOGITS, LABELS[1:]),
    ],
    "Batch 0: `sample_weight` must be finite and not negative, got -1 in row 0.": lambda: [(LOGITS, LABELS, -np.ones(900))],
}


@pytest.mark.parametrize("message", REFUSED)
def test_a_refusal_names_the_batch_and_its_row(message):
    with pytest.raises(InputError) as caught:
        nishimori.temperatures(REFUSED[message])
    assert str(caught.value).startswith(message)


def test_labels_beside_batches_are_refused():
    message = (
        r"^`y` must be left out where `X` yields batches, each of which is a tuple \(logits, labels\) or \(logits, labels, "
        r"sample_weight\), or a dictionary\.$"
    )
    with pytest.raises(InputError, match=message):
        ExpectationConsistency().fit(generator, LABELS)


def test_a_list_of_rows_is_still_an_array():
    assert ExpectationConsistency().fit(LOGITS.tolist(), LABELS).temperature_ == pytest.approx(T, rel=1e-8)
    with pytest.raises(InputError, match="`labels` must be the true class of each sample, got None"):
        nishimori.temperatures(LOGITS.tolist())


class Changing:
    """Gives other rows from the second reading on."""

    def __init__(self, first, later):
        self.n_passes, self.first, self.later = 0, first, later

    def __iter__(self):
        self.n_passes += 1
        return iter(self.first if self.n_passes <= 2 else self.later)  # the first asks for the number of classes


@pytest.mark.parametrize(
    ("later", "found"),
    [
        (parts()[:-1], "got 800 rows of weight 800 after 900 rows of weight 900"),
        ([], "got 0 rows of weight 0 after 900 rows of weight 900"),
        ([(LOGITS, LABELS, np.full(900, 2.0))], "got 900 rows of weight 1800 after 900 rows of weight 900"),
        ([(LOGITS, (LABELS + 1) % 5)], "got as many rows with other labels after 900 rows of weight 900"),
    ],
    ids=["fewer", "none", "heavier", "other labels"],
)
def test_another_reading_with_other_rows_is_an_error(later, found):
    with pytest.raises(InputError) as caught:
        nishimori.temperatures(Changing(parts(), later))
    assert str(caught.value) == (
        f"`logits` must give the same rows in every pass, {found}. Check that no iterator inside it is used up, and that "
        "rows are not drawn at random or dropped, as by `drop_last`."
    )


def test_a_generator_is_closed_when_a_reading_ends_early():
    made = []

    def held():
        made.append(part for part in parts(put(LOGITS, (0, 0), np.nan)))
        return made[-1]

    with pytest.raises(InputError, match=r"^Batch 0: "):
        nishimori.evaluate(held)
    assert [each.gi_frame for each in made] == [None]


DOCUMENTS = np.arange(900) // 9
SITES = np.where(np.arange(900) % 3 == 0, "a", "b")


def named(clusters=DOCUMENTS):
    """Batches that name the clusters and groups of their rows."""
    given = {"logits": LOGITS, "labels": LABELS, "clusters": clusters, "groups": SITES}
    return [{name: each[start : start + 200] for name, each in given.items()} for start in range(0, 900, 200)]


FRESH = {"function": lambda: named, "list": named, "rows": lambda: nishimori.rows(named)}

OF_CLUSTERS = {
    "evaluate": lambda *data, **said: (
        (card := nishimori.evaluate(*data, **said)).accuracy_se,
        card.nll_se,
        card.ece_se,
        card.n_clusters,
    ),
    "evaluate after a map": lambda *data, **said: nishimori.evaluate(*data, temperature=2.0, **said).nll_se,
    "compare": lambda *data, **said: nishimori.compare(*data, methods=("none", "ts"), **said)["none"].scorecard.accuracy_se,
    "gate": lambda *data, **said: str(nishimori.gate(*data, bounds={"error": 0.55}, **said)),
    "gap of groups": lambda *data, **said: [each.se for each in nishimori.group_gaps(*data, by="groups", **said).groups],
    "calibration_test": lambda *data, **said: nishimori.calibration_test(*data, **said).p_value,
    "temperatures": lambda *data, clusters=None, groups=None: nishimori.temperatures(*data, clusters=clusters).ec_se,
    "a batch of an iteration": lambda *data, **said: [
        each.clusters.number for each in (data[0] if hasattr(data[0], "gather") else nishimori.rows(*data, **said))
    ][:1],
}


@pytest.mark.parametrize("fresh", FRESH)
@pytest.mark.parametrize("what", OF_CLUSTERS)
def test_clusters_and_groups_of_batches_count_from_the_first_reading_on(what, fresh):
    measure = OF_CLUSTERS[what]
    expected = measure(LOGITS, LABELS, clusters=DOCUMENTS, groups=SITES)
    found = measure(FRESH[fresh]())
    assert found == expected if isinstance(expected, str) else found == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("fresh", FRESH)
def test_a_verdict_counts_the_clusters_of_batches(fresh):
    asked = {"bounds": {"error": 0.9}, "min_samples": 101}
    of_arrays = nishimori.gate(LOGITS, LABELS, clusters=DOCUMENTS, **asked)
    assert of_arrays.verdict == "cannot be judged"
    assert nishimori.gate(FRESH[fresh](), **asked).verdict == "cannot be judged"
    with pytest.raises(AssertionError, match="there are only 100 clusters"):
        nishimori.testing.assert_calibrated(FRESH[fresh](), **asked)


def test_a_map_for_groups_gets_those_of_batches_in_the_first_reading():
    calibrator = nishimori.GroupConsistency(by="groups").fit(LOGITS, LABELS, groups=SITES)
    expected = nishimori.evaluate(LOGITS, LABELS, groups=SITES, calibrator=calibrator).ece
    assert nishimori.evaluate(named, calibrator=calibrator).ece == pytest.approx(expected)


def test_rows_of_batches_without_a_cluster_are_refused():
    missing = DOCUMENTS.astype(object)
    missing[203] = None
    with pytest.raises(InputError, match=r"^Batch 1: `clusters` must not be missing, got None in row 3\."):
        nishimori.evaluate(lambda: named(missing))


def test_batches_without_names_are_read_once_by_evaluate():
    readings = []

    def counted():
        readings.append(1)
        return parts()

    nishimori.evaluate(counted)
    assert len(readings) == 1
