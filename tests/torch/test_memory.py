"""Beyond a limit, logits are summed up and forgotten, or the loader is read again; the temperature stays the same."""

import gc

import numpy as np
import pytest
import reference
import torch
from small_tokens import error_of_temperature, flat, sequences
from torch import nn

import nishimori
from nishimori import evaluate
from nishimori._sketch.stream import Stream
from nishimori._support.arrays import is_on_cuda
from nishimori.errors import InputError
from nishimori.torch import calibrate

DEVICES = pytest.mark.parametrize(
    "device",
    ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"))],
)
LENGTHS = [(7, 3, 12), (5, 5), (9, 1, 1, 30), (20,), (4, 44, 2, 8)]
BATCHES = sequences(LENGTHS * 4)
ROWS, TRUTH, DOCUMENTS = flat(BATCHES)
PLAIN = [{key: batch[key] for key in ("x", "labels")} for batch in BATCHES]
SOME = ROWS.nbytes // 3  # so many bytes of logits are kept


class Network(nn.Module):
    """Returns what it is given, and counts."""

    n_runs = 0

    def forward(self, x):
        self.n_runs += 1
        return x


@pytest.mark.parametrize("keep_up_to", [0, SOME, ROWS.nbytes - 1])
@pytest.mark.parametrize("method", ["ec", "ts"])
def test_beyond_the_limit_a_sketch_gives_the_temperature(method, keep_up_to):
    network = Network()
    calibrated = calibrate(network, PLAIN, method=method, keep_up_to=keep_up_to)
    T = {"ec": reference.ec_temperature, "ts": reference.ts_temperature}[method](ROWS, TRUTH)
    assert calibrated.calibrator.temperature_ == pytest.approx(T, rel=1e-6)
    assert calibrated.sketch.n_samples == calibrated.temperatures.n_samples == len(ROWS)
    assert network.n_runs == len(PLAIN)
    assert calibrated.extra_repr() == f"temperature={T:.4g}, method='{method}', from a sketch"
    assert evaluate(calibrated.sketch).accuracy == pytest.approx((ROWS.argmax(axis=1) == TRUTH).mean())


class OnDevice(nn.Linear):
    """Returns what it is given, on the device of its weights and in half precision if they are."""

    def __init__(self):
        super().__init__(1, 1)

    def forward(self, x):
        return x.to(self.weight.dtype)


@DEVICES
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("clusters", [None, "document"])
def test_rows_are_summed_up_on_the_device_of_the_network(device, dtype, clusters, monkeypatch):
    devices = []
    add = Stream.add

    def watched(self, data, *others):
        devices.append("cuda" if is_on_cuda(data.scores.array) else "cpu")
        return add(self, data, *others)

    monkeypatch.setattr(Stream, "add", watched)
    batches = BATCHES if clusters else PLAIN
    calibrated = calibrate(OnDevice().to(device, dtype), batches, method="ec", clusters=clusters, keep_up_to=0)
    rounded = torch.tensor(ROWS).to(dtype).double().numpy()
    assert calibrated.calibrator.temperature_ == pytest.approx(reference.ec_temperature(rounded, TRUTH), rel=1e-6)
    assert devices == [device] * len(BATCHES)


def test_up_to_the_limit_all_rows_are_kept():
    assert calibrate(Network(), PLAIN, keep_up_to=ROWS.nbytes).sketch is None


def test_other_conditions_of_one_temperature_are_part_of_the_sketch():
    calibrated = calibrate(Network(), PLAIN, method=nishimori.ExpectationConsistency(top_n=2), keep_up_to=SOME)
    T = reference.ec_temperature(ROWS, TRUTH, top_n=2)
    assert calibrated.calibrator.temperature_ == pytest.approx(T, rel=1e-6)
    assert calibrated.temperatures.ec == pytest.approx(reference.ec_temperature(ROWS, TRUTH), rel=1e-6)


def in_pieces(batches):
    """Each sequence as a batch of its own, cut into chunks of nine tokens, so that documents go on from batch to batch."""
    for batch in batches:
        for i in range(len(batch["document"])):
            for x, labels in zip(batch["x"][i].split(9), batch["labels"][i].split(9), strict=True):
                if (labels >= 0).any():
                    yield {"x": x[None], "labels": labels[None], "document": batch["document"][i : i + 1]}


@pytest.mark.parametrize("split", [False, True], ids=["documents in batches", "documents over batches"])
@pytest.mark.parametrize("method", ["ec", "ts"])
def test_error_bars_from_a_sketch_are_those_of_documents(method, split):
    batches = list(in_pieces(BATCHES)) if split else BATCHES
    calibrated = calibrate(Network(), batches, method=method, clusters="document", keep_up_to=SOME)
    T = calibrated.calibrator.temperature_
    expected = error_of_temperature(method, ROWS, TRUTH, DOCUMENTS, T)
    assert calibrated.calibrator.temperature_se_ == pytest.approx(expected, rel=0.02)
    assert calibrated.sketch.n_clusters == len(np.unique(DOCUMENTS))


def test_the_order_of_documents_within_a_batch_does_not_matter():
    whole = {
        "x": torch.tensor(ROWS)[None],
        "labels": torch.tensor(TRUTH)[None],
        "document": torch.tensor(DOCUMENTS)[None],
    }
    order = torch.tensor(np.random.default_rng(0).permutation(len(ROWS)))
    mixed = {key: value[:, order] for key, value in whole.items()}
    kept = error_of_temperature("ec", ROWS, TRUTH, DOCUMENTS, reference.ec_temperature(ROWS, TRUTH))
    found = calibrate(Network(), [mixed], method="ec", clusters="document", keep_up_to=0).calibrator
    assert found.temperature_se_ == pytest.approx(kept, rel=0.02)


@pytest.mark.parametrize("method", ["vector", nishimori.BiasCorrected(), "group"])
def test_methods_that_need_rows_are_refused_beyond_the_limit(method):
    with pytest.raises(InputError) as error:
        calibrate(Network(), PLAIN, method=method, keep_up_to=3 * 48)
    name = method if isinstance(method, str) else "bias"
    assert str(error.value) == (
        "`method` must be fitted to sums, as 'adaptive', 'ec' and 'ts' are, where logits take more than 144 bytes, "
        f"got '{name}', which needs all rows. Pass `reread=True` to run the "
        "network again whenever rows are needed, or a larger `keep_up_to`, in bytes, if the logits fit in memory."
    )


@pytest.mark.parametrize("method", ["ec", "ts"])
def test_the_loader_is_read_again_on_request(method):
    network = Network()
    calibrated = calibrate(network, BATCHES, method=method, clusters="document", keep_up_to=SOME, reread=True)
    T = {"ec": reference.ec_temperature, "ts": reference.ts_temperature}[method](ROWS, TRUTH)
    assert calibrated.calibrator.temperature_ == pytest.approx(T, rel=1e-8)
    expected = error_of_temperature(method, ROWS, TRUTH, DOCUMENTS, T)
    assert calibrated.calibrator.temperature_se_ == pytest.approx(expected, rel=1e-3)
    assert calibrated.sketch is None
    assert network.n_runs > 2 * len(BATCHES)


def test_methods_that_need_rows_read_the_loader_again():
    """Vector scaling minimises the cross-entropy: the gradients in its scales and biases are zero."""
    fitted = calibrate(Network(), PLAIN, method=nishimori.VectorScaling(penalty=0), keep_up_to=SOME, reread=True)
    logits = torch.tensor(ROWS - ROWS.mean(axis=1, keepdims=True))
    scale, bias = (
        torch.tensor(each, requires_grad=True) for each in (fitted.calibrator.map_.scale, fitted.calibrator.map_.bias)
    )
    torch.nn.functional.cross_entropy(logits * scale + bias, torch.tensor(TRUTH)).backward()
    assert scale.grad.abs().max() < 1e-5
    assert bias.grad.abs().max() < 1e-5


class Shrinking:
    """A loader that gives fewer batches in each reading."""

    n_batches = 20

    def __iter__(self):
        self.n_batches -= 1
        return iter(PLAIN[: self.n_batches])


def test_progress_says_that_a_sketch_is_made(capfd):
    calibrate(Network(), PLAIN, keep_up_to=SOME, progress=True)
    assert capfd.readouterr().err.splitlines() == ["0/20 Reading batches", "1/20 Reading batches into a sketch"]


SCORES = {
    "binary scores": lambda x: x[..., 1] - x[..., 0],
    "masked classes": lambda x: x.masked_fill(torch.arange(6) == 5, -torch.inf),
    "half precision": lambda x: x.half(),
}


@pytest.mark.parametrize("reread", [False, True], ids=["a sketch", "read again"])
@pytest.mark.parametrize("changed", SCORES.values(), ids=SCORES)
def test_scores_of_all_kinds_are_summed_up(changed, reread):
    z = changed(torch.tensor(ROWS))
    labels = torch.tensor(TRUTH).clamp(max=4 if z.ndim == 2 else 1)
    parts = list(zip(z.split(30), labels.split(30), strict=True))
    table = torch.stack([torch.zeros_like(z), z], dim=1) if z.ndim == 1 else z.double()
    T = calibrate(nn.Identity(), parts, method="ts", keep_up_to=10_000 if z.ndim == 2 else 1_000, reread=reread).calibrator
    # The reference multiplies probabilities and logits, so that a masked class must be a finite number there.
    assert T.temperature_ == pytest.approx(reference.ts_temperature(table.numpy().clip(-1e4), labels.numpy()), rel=1e-6)


def test_documents_that_come_back_are_refused():
    with pytest.raises(InputError) as error:
        calibrate(Network(), [BATCHES[0], BATCHES[1], BATCHES[0]], clusters="document", keep_up_to=0)
    assert str(error.value) == (
        "Batch 2: `clusters` must be consecutive: all rows of a cluster must be in one batch or in consecutive batches, got "
        "cluster 0 again after others. Do not shuffle the loader. Pass `reread=True` to run the network again whenever rows "
        "are needed, or a larger `keep_up_to`, in bytes, if the logits fit in memory."
    )
    shuffled = [BATCHES[0], *BATCHES[1:], BATCHES[0]]
    rows, truth, documents = flat(shuffled)
    found = calibrate(Network(), shuffled, method="ec", clusters="document", keep_up_to=0, reread=True).calibrator
    expected = error_of_temperature("ec", rows, truth, documents, found.temperature_)
    assert found.temperature_se_ == pytest.approx(expected, rel=1e-3)


ONE_BY_ONE = {"clusters": "document", "keep_up_to": 0}
REFUSED = {
    "a loader that changes": (
        lambda: calibrate(Network(), Shrinking(), keep_up_to=0, reread=True),
        r"^`loader` must give the same rows in every pass, got \d+ rows of weight \d+ after \d+ rows of weight \d+\. Check",
    ),
    "an iterator that is used up": (
        lambda: calibrate(Network(), iter(PLAIN), keep_up_to=0, reread=True),
        r"^`loader` must be readable more than once where `reread=True`, got an object of type list_iterator, which is used "
        r"up after one pass\. Pass a DataLoader\.$",
    ),
    "a limit that is not a number": (
        lambda: calibrate(Network(), PLAIN, keep_up_to="1 GB"),
        r"^`keep_up_to` must lie between 0 and inf, got '1 GB'\.$",
    ),
    "one document in a sketch": (
        lambda: calibrate(Network(), [batch | {"document": 0 * batch["document"]} for batch in BATCHES], **ONE_BY_ONE),
        r"^The method 'adaptive' needs .* a sketch of one cluster\. Fit 'ec' or 'ts', or fit 'adaptive' to samples of more cl",
    ),
    "numbers and text as names of documents": (
        lambda: calibrate(Network(), [BATCHES[0], BATCHES[1] | {"document": ["a", "b"]}], **ONE_BY_ONE),
        r"^Batch 1: `clusters` must hold values of one type, such as numbers or text\.$",
    ),
    "NaN beyond the limit": (
        lambda: calibrate(Network(), [PLAIN[0], (torch.full((2, 3, 6), torch.nan), torch.zeros(2, 3))], keep_up_to=0),
        r"^Batch 1: `logits` must not contain NaN or \+inf, got nan in row \(0, 0\), column 0\.",
    ),
    "NaN in a later reading": (
        lambda: calibrate(
            Network(), [PLAIN[0], (torch.full((2, 3, 6), torch.nan), torch.zeros(2, 3))], keep_up_to=0, reread=True
        ),
        r"^Batch 1: `logits` must not contain NaN or \+inf, got nan in row \(0, 0\), column 0\.",
    ),
    "a temperature outside of the range": (
        lambda: calibrate(Network(), [batch | {"x": 100 * batch["x"]} for batch in PLAIN], method="ec", keep_up_to=0),
        r"^The temperature must lie in the range of the sketch, .* Pass `reread=True` to run the network again .* in memory\.$",
    ),
}


@pytest.mark.parametrize(("call", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_used_is_refused_with_this_message(call, message):
    with pytest.raises(InputError, match=message):
        call()


N_COLUMNS = 173  # no other tensor has so many


def alive():
    """The memory of all tensors of logits that exist, in bytes."""
    found = [each for each in gc.get_objects() if type(each) is torch.Tensor and each.shape[-1:] == (N_COLUMNS,)]
    return sum({each.untyped_storage().data_ptr(): each.untyped_storage().nbytes() for each in found}.values())


class Watched:
    """A loader of 12 batches, of which ``n_counted`` of 60 rows count, that looks at the memory before each batch."""

    def __init__(self, n_counted):
        z = 3 * torch.randn(60, N_COLUMNS, generator=torch.Generator().manual_seed(0))
        self.nbytes = z.nbytes
        self.logits = z.numpy().copy()
        self.labels = (z / 2).softmax(dim=1).multinomial(1, generator=torch.Generator().manual_seed(1))[:, 0]
        self.labels[n_counted:] = -100
        self.most = 0
        self.before = []  # the memory at the start of each reading

    def __iter__(self):
        self.before.append(alive())
        for _ in range(12):
            self.most = max(self.most, alive())
            yield torch.tensor(self.logits), self.labels
        self.last = alive()


@pytest.fixture
def only_new_objects():
    gc.freeze()  # those that exist are not looked at, which would take long
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("only_new_objects")
@pytest.mark.parametrize("reread", [False, True], ids=["a sketch", "read again"])
def test_memory_does_not_grow_with_the_loader_beyond_the_limit(reread):
    loader = Watched(n_counted=60)
    calibrate(nn.Identity(), loader, method="ts", keep_up_to=3.5 * loader.nbytes, reread=reread)
    assert 3 * loader.nbytes <= loader.most <= 5 * loader.nbytes  # three that were kept, the last batch and a copy
    assert loader.last <= 2 * loader.nbytes  # what was kept is forgotten


@pytest.mark.usefixtures("only_new_objects")
def test_no_batch_is_kept_while_the_loader_is_read_again():
    loader = Watched(n_counted=60)

    def forward(model, batch):
        return {"logits": model(batch[0]), "labels": batch[1], "clusters": np.arange(60)}

    calibrate(nn.Identity(), loader, forward=forward, method="ts", keep_up_to=0, reread=True, keep_probe=False)
    assert set(loader.before) == {0}


@pytest.mark.usefixtures("only_new_objects")
def test_padding_takes_no_memory():
    loader = Watched(n_counted=5)
    calibrate(nn.Identity(), loader, method="ts")
    assert max(loader.most, loader.last) <= 3 * loader.nbytes  # twelve twelfths of a batch, the last batch and a copy


@pytest.mark.parametrize(
    ("method", "clusters", "is_kept"),
    [("ec", None, False), ("adaptive", None, False), ("ec", "document", True), ("bias", None, True)],
)
def test_by_default_logits_are_kept_only_where_sums_are_not_enough(method, clusters, is_kept, monkeypatch):
    monkeypatch.setattr("nishimori.torch._loader._KEPT_BEFORE_A_SKETCH", SOME)
    calibrated = calibrate(Network(), BATCHES if clusters else PLAIN, method=method, clusters=clusters)
    assert (calibrated.sketch is None) == is_kept
    if method == "ec":
        assert calibrated.calibrator.temperature_ == pytest.approx(reference.ec_temperature(ROWS, TRUTH), rel=1e-6)
