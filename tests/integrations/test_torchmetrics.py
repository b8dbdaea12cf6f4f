"""The metric of torchmetrics gives what NumPy gives for all rows at once, however they come."""

import copy
import pickle
from math import isnan

import numpy as np
import pytest
import reference
from optional import torch, torchmetrics
from trainer_values import values_of

import nishimori
from nishimori.errors import InputError

LOGITS, LABELS = reference.drawn(600, 5)


@pytest.fixture
def new():
    torchmetrics.Metric  # noqa: B018 - skips without it
    from nishimori.integrations.torchmetrics import CalibrationMetric

    return CalibrationMetric


def updated(metric, logits=LOGITS, labels=LABELS, n=100):
    for start in range(0, len(labels), n):
        metric.update(torch.tensor(logits[start : start + n]), torch.tensor(labels[start : start + n]))
    return metric


def numbers(values):
    return {name: value.item() for name, value in values.items()}


def expected(logits=LOGITS, labels=LABELS):
    return pytest.approx(values_of(logits, labels), rel=1e-5)


def test_its_values_are_those_of_numpy(new):
    assert numbers(updated(new()).compute()) == expected()


@pytest.mark.parametrize(("method", "of_reference"), [("ec", "ec_temperature"), ("ts", "ts_temperature")])
def test_the_temperature_is_that_of_the_method(new, method, of_reference):
    found = updated(new(method=method)).compute()["temperature"].item()
    assert found == pytest.approx(getattr(reference, of_reference)(LOGITS, LABELS), rel=1e-5)


def test_a_method_that_needs_rows_is_refused(new):
    with pytest.raises(InputError, match=r"`method` must be fitted to sums.*'vector', which needs all rows"):
        new(method="vector")


def test_forward_gives_the_values_of_the_batch_and_adds_it(new):
    metric, half = new(), 300
    for rows in (slice(half), slice(half, None)):
        found = metric(torch.tensor(LOGITS[rows]), torch.tensor(LABELS[rows]))
        assert found["nll"].item() == pytest.approx(reference.nll(LOGITS[rows], LABELS[rows]), rel=1e-5)
    assert numbers(metric.compute()) == expected()


def test_reset_forgets_all_rows(new):
    metric = updated(new(), LOGITS[::-1] * 3, LABELS)
    metric.reset()
    assert numbers(updated(metric).compute()) == expected()


def test_pickles_copies_and_saved_states_go_on(new, tmp_path):
    half = updated(new(), LOGITS[:300], LABELS[:300])
    half.persistent(True)
    loaded = new()
    loaded.persistent(True)
    loaded.load_state_dict(half.state_dict())
    loaded._update_count = 1  # which torchmetrics does not save
    for metric in (pickle.loads(pickle.dumps(half)), copy.deepcopy(half), half.clone(), loaded):
        assert numbers(updated(metric, LOGITS[300:], LABELS[300:]).compute()) == expected()


def test_a_merged_state_is_that_of_both(new):
    metric = updated(new(), LOGITS[:200], LABELS[:200])
    metric.merge_state(updated(new(), LOGITS[200:], LABELS[200:]))
    assert numbers(metric.compute()) == expected()


def test_a_collection_has_its_values_beside_others(new):
    accuracy = torchmetrics.classification.MulticlassAccuracy(num_classes=5, average="micro")
    collection = torchmetrics.MetricCollection({"top": accuracy, "calibration": new()})
    updated(collection)
    collection.update(preds=torch.tensor(LOGITS), target=torch.tensor(LABELS))
    found = numbers(collection.compute())
    assert found.pop("top") == pytest.approx(found["accuracy"])
    assert found == expected(np.tile(LOGITS, (2, 1)), np.tile(LABELS, 2))


def test_the_ece_is_that_of_torchmetrics(new):
    theirs = torchmetrics.classification.MulticlassCalibrationError(num_classes=5, n_bins=15)
    theirs.update(torch.tensor(LOGITS).softmax(dim=1), torch.tensor(LABELS))
    assert updated(new()).compute()["ece"].item() == pytest.approx(theirs.compute().item(), rel=1e-4)


def test_the_state_keeps_its_precision_on_any_device_and_in_half_precision(new):
    class Network(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.metric = new()

    network = Network()
    updated(network.metric, LOGITS[:300], LABELS[:300])
    network.to(torch.bfloat16)
    network.half()
    network.metric.set_dtype(torch.float32)
    assert network.metric.sums.dtype == torch.float64
    assert numbers(updated(network.metric, LOGITS[300:], LABELS[300:]).compute()) == expected()
    assert new().to("meta").sums.device.type == "meta"


def test_ignored_labels_do_not_count(new):
    labels = np.where(np.arange(600) < 100, -1, LABELS)
    metric = updated(new(ignore_index=-1), LOGITS, labels, n=50)  # two batches have nothing else
    assert numbers(metric.compute()) == expected(LOGITS[100:], LABELS[100:])


def test_classes_may_be_in_another_dimension(new):
    images = LOGITS.reshape(6, 10, 10, 5).transpose(0, 3, 1, 2)
    metric = updated(new(class_axis=1), images.copy(), LABELS.reshape(6, 10, 10), n=2)
    assert numbers(metric.compute()) == expected()


def test_probabilities_must_be_said_to_be_some(new):
    p = reference.softmax(LOGITS)
    with pytest.raises(InputError, match=r"`preds` must be declared as logits or probabilities.*CalibrationMetric\(input="):
        updated(new(), p).compute()
    assert numbers(updated(new(input="probabilities"), p).compute()) == expected()
    one_negative = np.concatenate([p, [[-1.0, 0, 0, 0, 0]]])  # so these are logits after all
    assert updated(new(), one_negative, np.append(LABELS, 1)).compute()["ece"] > 0


def test_where_no_temperature_fits_it_is_nan(new):
    found = numbers(updated(new(), LOGITS, LOGITS.argmax(axis=1)).compute())
    assert isnan(found["temperature"])
    assert found["accuracy"] == 1


def test_without_rows_all_values_are_nan(new):
    metric = new(ignore_index=-1)
    metric.update(torch.zeros(4, 3), torch.full((4,), -1))
    assert all(map(isnan, numbers(metric.compute()).values()))


def test_other_classes_in_a_later_batch_are_refused(new):
    with pytest.raises(InputError, match="have 5 classes, like all rows before"):
        updated(new()).update(torch.randn(4, 3), torch.arange(4) % 3)


def test_its_sketch_gives_the_reliability_diagram(new):
    found = nishimori.evaluate(updated(new()).sketch).reliability
    direct = nishimori.evaluate(LOGITS, LABELS).reliability
    np.testing.assert_allclose(found.accuracy, direct.accuracy, rtol=1e-9)
    np.testing.assert_allclose(found.confidence, direct.confidence, rtol=1e-9)
