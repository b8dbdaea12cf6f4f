"""Networks with a row of logits per token: any shape before the classes, labels that do not count, and clusters."""

import pickle

import numpy as np
import pytest
import reference
import torch
from mapped_networks import MAPS, K
from small_tokens import error_of_temperature, flat, late, sequences
from torch import nn

import nishimori
from nishimori.errors import InputError
from nishimori.maps import Temperature
from nishimori.torch import Calibrated, calibrate, collect


class Network(nn.Module):
    """Returns what it is given."""

    def forward(self, x):
        return x


LENGTHS = [(7, 3, 12), (5, 5), (9, 1, 1, 30), (20,), (4, 44, 2, 8)]
BATCHES = sequences(LENGTHS * 4)
ROWS, TRUTH, DOCUMENTS = flat(BATCHES)
PLAIN = [{key: batch[key] for key in ("x", "labels")} for batch in BATCHES]
EC, TS = reference.ec_temperature(ROWS, TRUTH), reference.ts_temperature(ROWS, TRUTH)


@pytest.mark.parametrize(("method", "T"), [("ec", EC), ("ts", TS)])
def test_tokens_that_count_determine_the_temperature(method, T):
    calibrated = calibrate(Network(), PLAIN, method=method)
    assert calibrated.temperature.item() == pytest.approx(T, rel=1e-6)
    assert calibrated.temperatures.n_samples == len(ROWS)
    assert calibrated.sketch is None


def test_rows_of_padding_are_not_kept():
    logits, labels = collect(Network(), PLAIN)
    np.testing.assert_array_equal(logits, ROWS)
    np.testing.assert_array_equal(labels, TRUTH)


@pytest.mark.parametrize("shift", [False, True], ids=["in place", "late"])
def test_late_labels_belong_to_the_position_before(shift):
    found = collect(Network(), [{key: each[key] for key in ("x", "labels")} for each in late(BATCHES)], shift_labels=True)
    np.testing.assert_array_equal(found.logits, ROWS)
    np.testing.assert_array_equal(found.labels, TRUTH)
    if not shift:
        with pytest.raises(InputError, match=r"^Batch 0: `logits` must not contain NaN"):
            collect(Network(), [{key: each[key] for key in ("x", "labels")} for each in late(BATCHES)])


@pytest.mark.parametrize("shape", [(6, 10), (2, 3, 10), (2, 3, 5, 2)])
def test_any_shape_may_come_before_the_classes(shape):
    logits, labels = reference.drawn(60, 4)
    batch = torch.tensor(logits).reshape(*shape, 4), torch.tensor(labels).reshape(shape)
    assert calibrate(Network(), [batch], method="ec").temperature.item() == pytest.approx(
        reference.ec_temperature(logits, labels), rel=1e-6
    )


@pytest.mark.parametrize("column", [False, True], ids=["labels per token", "a column of labels, as for BCEWithLogitsLoss"])
def test_one_unit_per_token_is_a_binary_score(column):
    logits, labels = reference.drawn(200, 2)
    z = torch.tensor(logits[:, 1] - logits[:, 0]).reshape(20, 10, 1)
    y = torch.tensor(labels).reshape(z.shape if column else z.shape[:-1])
    calibrated = calibrate(Network(), [(z, y)], method="ts")
    assert calibrated.temperature.item() == pytest.approx(reference.ts_temperature(logits, labels), rel=1e-6)
    expected = reference.softmax(logits, calibrated.temperature.item()).reshape(20, 10, 2)
    np.testing.assert_allclose(calibrated.predict_proba(z), expected, atol=1e-6)
    np.testing.assert_array_equal(calibrated.predict(z), logits.argmax(axis=1).reshape(20, 10))


def test_another_label_can_be_ignored_and_none():
    logits, labels = torch.tensor(ROWS), torch.tensor(TRUTH)
    some = collect(Network(), [(logits, labels)], ignore_index=2)
    assert torch.equal(some.labels, labels[labels != 2])
    assert torch.equal(some.logits, logits[labels != 2])
    assert len(collect(Network(), [(logits, labels)], ignore_index=None).labels) == len(labels)


def documents_by_forward(model, batch):
    return {"logits": model(batch["x"]), "labels": batch["labels"], "clusters": batch["document"]}


def per_token(batch):
    return batch | {"document": batch["document"][:, None].expand(batch["labels"].shape)}


CLUSTERED = {
    "key": (BATCHES, {"clusters": "document"}),
    "one per token": ([per_token(batch) for batch in BATCHES], {"clusters": "document"}),
    "text": ([batch | {"document": [f"page {i}" for i in batch["document"]]} for batch in BATCHES], {"clusters": "document"}),
    "forward": (BATCHES, {"forward": documents_by_forward}),
}


@pytest.mark.parametrize(("batches", "given"), CLUSTERED.values(), ids=CLUSTERED)
def test_error_bars_are_those_of_documents(batches, given):
    calibrated = calibrate(Network(), batches, method="ec", **given)
    assert calibrated.temperature.item() == pytest.approx(EC, rel=1e-6)
    by_document = error_of_temperature("ec", ROWS, TRUTH, DOCUMENTS, EC)
    assert calibrated.calibrator.temperature_se_ == pytest.approx(by_document, rel=1e-3)
    assert by_document > 1.5 * error_of_temperature("ec", ROWS, TRUTH, np.arange(len(ROWS)), EC)


@pytest.mark.parametrize(("batches", "given"), CLUSTERED.values(), ids=CLUSTERED)
def test_collected_rows_are_a_pair_that_knows_its_documents(batches, given):
    found = collect(Network(), batches, **given)
    logits, labels = found
    np.testing.assert_array_equal(logits, ROWS)
    np.testing.assert_array_equal(labels, TRUTH)
    codes = [int(str(each).removeprefix("page ")) for each in found.clusters.tolist()]
    np.testing.assert_array_equal(codes, DOCUMENTS)
    assert found.groups is None
    again = pickle.loads(pickle.dumps(found))
    np.testing.assert_array_equal(again.clusters, found.clusters)


def kind(documents):
    return np.where(documents.numpy() % 2, "right", "usual")


GROUPED = {
    "sequences": lambda model, batch: {
        "logits": model(batch["x"]),
        "labels": batch["labels"],
        "groups": kind(batch["document"]),
    },
    "tokens": lambda model, batch: {
        "logits": model(batch["x"]),
        "labels": batch["labels"],
        "groups": kind(per_token(batch)["document"]),
    },
}


@pytest.mark.parametrize("forward", GROUPED.values(), ids=GROUPED)
def test_groups_may_be_those_of_sequences_and_of_tokens(forward):
    found = collect(Network(), BATCHES, forward=forward)
    np.testing.assert_array_equal(found.groups, np.where(DOCUMENTS % 2, "right", "usual"))
    some = [batch | {"labels": torch.where(batch["labels"] == 1, 0, batch["labels"])} for batch in BATCHES]  # not all right
    fitted = calibrate(Network(), some, forward=forward, method=nishimori.GroupConsistency(by="groups"))
    warm, cold = (fitted.map.temperatures[fitted.map.groups.index(name)] for name in ("usual", "right"))
    assert warm > 1.5 > cold
    x = BATCHES[0]["x"]
    expected = x / torch.tensor([cold if each % 2 else warm for each in BATCHES[0]["document"].tolist()])[:, None, None]
    torch.testing.assert_close(fitted(x, groups=kind(BATCHES[0]["document"])), expected, equal_nan=True, rtol=1e-6, atol=0)


@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 4)])
@pytest.mark.parametrize(("map_", "applied"), [*MAPS.values(), (Temperature(1.7), lambda z: z / 1.7)], ids=[*MAPS, "T"])
def test_maps_give_probabilities_of_the_shape_of_the_logits(map_, applied, shape):
    logits = np.random.default_rng(0).normal(size=(*shape, K))
    expected = reference.softmax(applied(logits.reshape(-1, K))).reshape(logits.shape)
    calibrated, x = Calibrated(Network(), map_), torch.tensor(logits)
    np.testing.assert_allclose(calibrated.predict_proba(x), expected, atol=1e-6)
    np.testing.assert_allclose(calibrated(x).softmax(dim=-1), expected, atol=1e-6)
    np.testing.assert_array_equal(calibrated.predict(x), expected.argmax(axis=-1))


def with_one(batches, number, **changed):
    """The batches with other entries in one of them."""
    return [batch | changed if i == number else batch for i, batch in enumerate(batches)]


def spoiled():
    x = PLAIN[2]["x"].clone()
    x[3, 5, 1] = torch.inf
    return with_one(PLAIN, 2, x=x)


def mislabelled():
    labels = PLAIN[1]["labels"].clone()
    labels[1, 3] = 17
    return with_one(PLAIN, 1, labels=labels)


def other_keys(model, batch):
    return {"logits": model(batch["x"]), "labels": batch["labels"], "document": batch["document"]}


def sometimes(model, batch):
    found = {"logits": model(batch["x"]), "labels": batch["labels"]}
    return found if batch["document"][0] else found | {"clusters": batch["document"]}


REFUSED = {
    "a logit that is infinite": (
        lambda: collect(Network(), spoiled()),
        "Batch 2: `logits` must not contain NaN or +inf, got inf in row (3, 5), column 1. Drop those rows or find where the "
        "model produced them; -inf is allowed and masks a class.",
    ),
    "a label that is not a class": (
        lambda: collect(Network(), mislabelled()),
        "Batch 1: `labels` must be from 0 to 5, got 17 in row (1, 3). Check that every class has its column.",
    ),
    "labels of another shape": (
        lambda: collect(Network(), with_one(PLAIN, 3, labels=torch.zeros(1, 19))),
        "Batch 3: `labels` must be one label per sample, shape (1, 20), got shape (1, 19). Pass one label per position of "
        "`logits`, whose last dimension is that of the classes.",
    ),
    "classes in dimension 1": (
        lambda: collect(Network(), [(torch.zeros(2, 6, 4, 5), torch.zeros(2, 4, 5))]),
        "Batch 0: `labels` must be one label per sample, shape (2, 6, 4), got shape (2, 4, 5). If dimension 1 of `logits` "
        "holds the classes, pass `class_axis=1`.",
    ),
    "late labels without sequences": (
        lambda: collect(Network(), [(torch.zeros(4, 3), torch.zeros(4))], shift_labels=True),
        "Batch 0: `logits` must have shape (n_sequences, n_tokens, n_classes) where `shift_labels` is True, got (4, 3): it is "
        "not known where a sequence ends.",
    ),
    "a label to ignore that is not a number": (
        lambda: collect(Network(), PLAIN, ignore_index="pad"),
        "`ignore_index` must be a whole number, such as -100, got 'pad'.",
    ),
    "nothing that counts": (
        lambda: calibrate(Network(), [(torch.zeros(1, 1, 3), torch.zeros(1, 1))], shift_labels=True),
        "`labels` must hold at least one label that is not `ignore_index`, got only labels that do not count.",
    ),
    "clusters in place of their key": (
        lambda: calibrate(Network(), BATCHES, clusters=DOCUMENTS),
        "`clusters` must be the key of the clusters, such as the numbers of documents, in each batch, got an object of type "
        "ndarray. Make the loader yield them with each batch.",
    ),
    "an unknown key of clusters": (
        lambda: calibrate(Network(), BATCHES, clusters="page"),
        "`clusters` must be the key of the clusters in each batch, got 'page' for batch 0 with the keys ['x', 'labels', "
        "'document']. Pass the right key, or make the loader yield the clusters. The Trainer of Hugging Face drops columns "
        "that the model does not take, unless `remove_unused_columns=False`.",
    ),
    "a key of clusters in tuples": (
        lambda: calibrate(Network(), [(torch.zeros(4, 3), torch.zeros(4))], clusters="document"),
        "`clusters` must be left out where batches are not mappings, got 'document' for tuple (tensor float32 (4, 3), "
        'tensor float32 (4,)) in batch 0. Make the loader yield dicts, or pass `forward=lambda model, batch: {"logits": '
        'logits, "labels": labels, "clusters": clusters}`.',
    ),
    "a key of clusters and forward": (
        lambda: calibrate(Network(), BATCHES, clusters="document", forward=documents_by_forward),
        "`clusters` must be left out where `forward` is passed, got 'document': `forward` returns the clusters. Pass "
        '`forward=lambda model, batch: {"logits": logits, "labels": labels, "clusters": clusters}`.',
    ),
    "clusters of another shape": (
        lambda: calibrate(Network(), with_one(BATCHES, 2, document=torch.zeros(3)), clusters="document"),
        "Batch 2: `clusters` must have shape (4, 30), one per position, or (4,), one per sequence, got (3,).",
    ),
    "a missing cluster": (
        lambda: calibrate(Network(), with_one(BATCHES, 1, document=torch.tensor([0, torch.nan])), clusters="document"),
        "Batch 1: `clusters` must not be missing, got NaN in row (1, 0). Give that row its cluster.",
    ),
    "other keys from forward": (
        lambda: calibrate(Network(), BATCHES, forward=other_keys),
        "`forward` must return the logits and labels of each batch, got dict {'logits': tensor float64 (3, 12, 6), "
        "'labels': tensor int64 (3, 12), 'document': tensor int64 (3,)} in batch 0. Return a tuple `(logits, labels)`, or "
        "a dict with the keys 'logits', 'labels' and, where you have them, 'groups', 'clusters' and 'sample_weight'.",
    ),
    "clusters of some batches": (
        lambda: calibrate(Network(), BATCHES, forward=sometimes),
        "`forward` must return clusters and groups for every batch or for none, got none in batch 1 after clusters.",
    ),
    "groups of some batches": (
        lambda: collect(
            Network(),
            BATCHES[:2],
            forward=lambda model, batch: {
                **GROUPED["tokens"](model, batch),
                "groups": None if batch is BATCHES[1] else batch["document"],
            },
        ),
        "`forward` must return clusters and groups for every batch or for none, got none in batch 1 after groups.",
    ),
    "no groups from forward": (
        lambda: calibrate(Network(), BATCHES, forward=documents_by_forward, method=nishimori.GroupConsistency(by="groups")),
        "`forward` must return the logits, labels and groups of each batch, got dict {'logits': tensor float64 (3, 12, "
        "6), 'labels': tensor int64 (3, 12), 'clusters': tensor int64 (3,)} in batch 0. Return a tuple `(logits, labels, "
        "groups)`, or a dict with the keys 'logits', 'labels', "
        "'groups' and, where you have them, 'clusters' and 'sample_weight'.",
    ),
}


@pytest.mark.parametrize(("call", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_used_is_refused_with_this_message(call, message):
    with pytest.raises(InputError) as error:
        call()
    assert str(error.value) == message


class NextToken(torch.nn.Module):
    """Scores of the next token, from a table."""

    def __init__(self, n_tokens=12):
        super().__init__()
        table = 2 * np.random.default_rng(0).normal(size=(n_tokens, n_tokens)) - 4 * np.eye(n_tokens)
        self.table = torch.nn.Embedding.from_pretrained(torch.tensor(table))

    def forward(self, input_ids, attention_mask=None):
        return self.table(input_ids)


IDS = torch.tensor(np.random.default_rng(1).integers(0, 12, (8, 9)))
PADDED = torch.where(torch.arange(9) < 3, -100, IDS)
UNSHIFTED = {
    "a dict": ({"input_ids": IDS, "attention_mask": torch.ones_like(IDS), "labels": IDS.clone()}, None, "input_ids"),
    "a prompt without labels": ({"input_ids": IDS, "labels": PADDED}, None, "input_ids"),
    "a tuple": ((IDS, IDS), None, r"batch\[0\]"),
    "a function": (
        {"input_ids": IDS},
        lambda model, batch: (model(batch["input_ids"]), batch["input_ids"]),
        "input_ids",
    ),
}


@pytest.mark.parametrize(("batch", "forward", "name"), UNSHIFTED.values(), ids=UNSHIFTED)
def test_labels_that_are_the_tokens_themselves_are_a_warning_to_shift_them(batch, forward, name):
    said = (
        rf"^The labels of each token are equal to the inputs, {name}: at each position, the token itself\. A causal language "
        r"model predicts the next token\. If this is one, pass `shift_labels=True`\.$"
    )
    with pytest.warns(nishimori.errors.InputWarning, match=said) as caught:
        collect(NextToken(), [batch, batch], forward=forward)
    assert len(caught) == 1
    collect(NextToken(), [batch], forward=forward, shift_labels=True)


def test_labels_that_only_look_like_inputs_are_no_reason_to_warn():
    ones = torch.ones_like(IDS)
    collect(NextToken(), [{"input_ids": IDS, "attention_mask": ones, "labels": ones}])
    collect(NextToken(), [{"input_ids": IDS, "labels": IDS.roll(-1, dims=1)}])
    collect(NextToken(), [{"input_ids": IDS[:2], "labels": IDS[:2]}])  # too few to tell
