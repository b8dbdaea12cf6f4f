"""Rows that a kernel sums at once. CPU tensors and a slow kernel stand in for a device; tests/contract/test_cuda.py has one."""

from types import SimpleNamespace

import numpy as np
import pytest
import reference
from measured_moments import pair_sums

from nishimori import ExpectationConsistency, TemperatureScaling, evaluate, temperatures
from nishimori._kernels import array_api
from nishimori._kernels import kernel as kernel_module
from nishimori._kernels.sums import AnswerSums
from nishimori._rows import device_rows
from nishimori._rows.batch import Batch
from nishimori._rows.device_rows import DeviceRows
from nishimori._rows.entry import open_rows
from nishimori._rows.rows import reads_unchecked
from nishimori._sums.census import Count
from nishimori._sums.moments import Measure
from nishimori._sums.observables import Confidence, Energy, TopN
from nishimori._sums.passes import together
from nishimori._support import arrays
from nishimori.errors import InputError

torch = pytest.importorskip("torch")


def slow_sums(logits, labels, weights, beta_ec, beta_ts, *, exact):
    """What the fused kernel gives, from the ordinary way."""
    weights = torch.ones(len(labels), dtype=torch.float64) if weights is None else weights
    there = weights > 0
    peak = logits.max(dim=1).values
    bad = there & ~(torch.isfinite(peak) & (labels >= 0) & (labels < logits.shape[1]))
    good = there & ~bad
    if not good.any():
        return np.array([0.0] * 45 + [bad.sum().item()])
    batch = Batch(logits[good].double().numpy(), labels[good].numpy(), weights[good].numpy())
    census = Count(Confidence())(batch)
    sums = pair_sums(batch, beta_ec, beta_ts, exact=exact)
    CALLS.append(exact)
    answers = [getattr(census, name) for name in AnswerSums._fields]
    return np.array([*sums, *answers, there.sum(), census.n_masked, census.chance, bad.sum()], dtype=float)


CALLS = []


def use(monkeypatch, block_sums):
    """Have a kernel with these sums for tensors."""
    kernel = SimpleNamespace(
        __name__="stand-in",
        power_sums=array_api.power_sums,
        block_sums=block_sums,
        takes_unchecked=lambda logits: logits.ndim == 2,
    )
    usual = kernel_module.kernel_for
    monkeypatch.setattr(kernel_module, "kernel_for", lambda array: kernel if torch.is_tensor(array) else usual(array))


@pytest.fixture(autouse=True)
def device(monkeypatch):
    """Every tensor counts as one on a CUDA device."""
    use(monkeypatch, slow_sums)
    monkeypatch.setattr(arrays, "is_on_cuda", lambda x: isinstance(x, torch.Tensor))
    monkeypatch.setattr(arrays, "shared_numpy_view", lambda x: x)
    monkeypatch.setattr(device_rows, "_LARGE", 2**17)
    CALLS.clear()


def drawn(n, k):
    logits, labels = reference.drawn(n, k)
    return torch.from_numpy(logits).float(), torch.from_numpy(labels)


LOGITS, LABELS = drawn(3000, 10)
STORED = LOGITS.double().numpy()


def by_definition(logits=STORED, labels=LABELS, weights=None):
    return reference.ec_temperature(logits, labels, weights), reference.ts_temperature(logits, labels, weights)


def test_both_temperatures_come_from_calls_of_the_kernel_alone(monkeypatch):
    monkeypatch.setattr(device_rows.ArrayRows, "__iter__", lambda self: pytest.fail("read in blocks"))
    found = temperatures(LOGITS, LABELS)
    assert (found.ec, found.ts) == pytest.approx(by_definition(), rel=1e-9)
    assert found.n_passes == len(CALLS) <= 5
    assert CALLS[-1]  # the last one is exact
    assert not any(CALLS[:-1])


@pytest.mark.parametrize("labels", [LABELS.numpy(), LABELS.int(), LABELS.tolist(), LABELS.double()])
def test_labels_of_every_kind_give_the_same_temperatures(labels):
    assert temperatures(LOGITS, labels).ec == temperatures(LOGITS, LABELS).ec


def test_named_classes_weights_and_masks_are_those_of_the_definition():
    names = np.array([f"class {i}" for i in range(10)])
    weights = np.random.default_rng(0).exponential(size=3000) * (np.arange(3000) % 4 > 0)
    logits, stored = LOGITS.clone(), STORED.copy()
    hidden = np.random.default_rng(1).random(stored.shape) < 0.3
    hidden[np.arange(3000), LABELS] = False
    stored[hidden], logits[torch.from_numpy(hidden)] = -np.inf, -np.inf
    fitted = ExpectationConsistency(classes=names).fit(logits, names[LABELS], weights)
    assert fitted.temperature_ == pytest.approx(by_definition(stored, LABELS, weights)[0], rel=1e-9)
    assert fitted.fit_info_.n_masked == hidden[weights > 0].sum()
    assert fitted.fit_info_.n_samples == (weights > 0).sum()
    assert fitted.fit_info_.kernel == "stand-in"


def test_what_other_passes_measure_is_that_of_arrays():
    card, expected = evaluate(LOGITS, LABELS), evaluate(STORED, LABELS.numpy())
    assert card.nll == pytest.approx(expected.nll, rel=1e-9)
    fitted = ExpectationConsistency(top_n=2).fit(LOGITS, LABELS)
    assert fitted.temperature_ == pytest.approx(reference.ec_temperature(STORED, LABELS, top_n=2), rel=1e-8)


@pytest.mark.parametrize(
    ("value", "message"), [(np.nan, "NaN or .inf, got nan in row 7, column 3"), (np.inf, "got inf in row 7, column 3")]
)
def test_a_bad_logit_is_named(value, message):
    logits = LOGITS.clone()
    logits[7, 3] = value
    with pytest.raises(InputError, match=message):
        temperatures(logits, LABELS)
    assert temperatures(logits, LABELS, sample_weight=np.arange(3000) != 7).n_samples == 2999


@pytest.mark.parametrize(("label", "message"), [(-1, "got -1 in row 7"), (10, "got 10 in row 7")])
def test_a_label_that_is_no_class_is_named(label, message):
    labels = LABELS.clone()
    labels[7] = label
    for given in (labels, labels.numpy()):
        with pytest.raises(InputError, match=message):
            temperatures(LOGITS, given)


def test_a_masked_label_is_refused_by_temperature_scaling_alone():
    logits = LOGITS.clone()
    logits[7, LABELS[7]] = -np.inf
    with pytest.raises(InputError, match="1 samples whose true class has logit -inf"):
        TemperatureScaling().fit(logits, LABELS)
    assert ExpectationConsistency().fit(logits, LABELS).temperature_ > 0


@pytest.mark.parametrize("scale", [1e-6, 1e4])
def test_the_scale_of_the_logits_is_found(scale):
    found = temperatures(scale * LOGITS, LABELS)
    expected = np.array(by_definition((scale * LOGITS).double().numpy()))
    np.testing.assert_allclose([found.ec, found.ts], expected, rtol=1e-9)


def test_where_there_is_no_temperature_the_reason_is_that_of_arrays():
    right = LOGITS.argmax(dim=1)
    for labels in (right, (right + 1) % 10):
        with pytest.raises(Exception, match="Expectation consistency") as found:
            temperatures(LOGITS, labels)
        with pytest.raises(type(found.value)) as expected:
            temperatures(STORED, labels.numpy())
        assert str(found.value) == str(expected.value)


def test_many_rows_are_read_exactly_once_after_samples():
    logits, labels = drawn(160_000, 8)
    found = temperatures(logits, labels)
    assert (found.ec, found.ts) == pytest.approx(by_definition(logits.double().numpy(), labels), rel=1e-8)
    assert found.n_passes == CALLS.count(True) == 1
    assert CALLS[-1]


def test_a_sample_is_a_view_of_every_so_many_rows_and_all_of_few():
    logits, labels = drawn(20_000, 10)
    data = open_rows(logits, labels, np.arange(20_000.0))
    sample = data.sample(2500)
    assert isinstance(sample, DeviceRows)
    assert sample.scores.array.data_ptr() == logits.data_ptr()
    assert torch.equal(sample.scores.array, logits[::7])  # the largest prime number up to 8
    assert torch.equal(sample.labels, labels[::7])
    assert torch.equal(sample.weights.long(), torch.arange(20_000)[::7])
    assert data.sample(15_000) is data
    few = open_rows(LOGITS, LABELS)
    assert few.sample(500) is few


def test_a_sample_without_weight_gives_no_start_and_no_warning():
    logits, labels = drawn(40_000, 64)
    weights = np.zeros(40_000)
    weights[1:400:5] = 1
    found = temperatures(logits, labels, sample_weight=weights)
    expected = by_definition(logits[1:400:5].double().numpy(), labels[1:400:5])
    assert (found.ec, found.ts) == pytest.approx(expected, rel=1e-8)


def test_passes_that_need_a_number_per_row_do_not_take_rows_unchecked(monkeypatch):
    pair = Measure(((Confidence(), (1.0,)), (Energy(), (1.0,))))
    batch = Batch(STORED, LABELS.numpy(), np.ones(3000))

    def is_taken(*passes, by="native"):
        monkeypatch.setenv("NISHIMORI_KERNEL", by)
        return reads_unchecked(together(*passes) if len(passes) > 1 else passes[0], batch)

    assert is_taken(pair, Count(Confidence()))
    assert is_taken(Count(Confidence()), pair)
    assert not is_taken(pair, Count(Confidence()), by="numpy")
    assert not is_taken(pair, Count(TopN(2)))
    assert not is_taken(together(Count(Confidence())))
    assert not is_taken(pair, lambda batch: batch.weight)
    for wanted in ((Confidence(), (0.0,)), (Confidence(), (1.0, 2.0)), (TopN(2), (1.0,))):
        assert not is_taken(Measure((wanted,)))


@pytest.mark.parametrize("weights", [None, np.random.default_rng(1).uniform(0.5, 3, 3000)], ids=["even", "weighted"])
def test_clusters_leave_the_search_to_the_kernel_and_are_summed_in_blocks(weights):
    clusters = np.random.default_rng(0).integers(0, 200, 3000)
    found = temperatures(LOGITS, LABELS, sample_weight=weights, clusters=torch.from_numpy(clusters))
    assert len(CALLS) == found.n_passes - 1  # the last one sums clusters
    expected = temperatures(STORED, LABELS.numpy(), sample_weight=weights, clusters=clusters)
    assert (found.ec_se, found.ts_se) == pytest.approx((expected.ec_se, expected.ts_se), rel=1e-6)
    plain = temperatures(LOGITS, LABELS, sample_weight=weights)
    assert (found.ec, found.ts) == (plain.ec, plain.ts)
    assert abs(found.ec_se / plain.ec_se - 1) > 0.005
