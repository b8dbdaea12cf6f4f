"""What a kernel finds in the rows of a batch is what the batch itself would find, and is returned."""

from dataclasses import replace

import numpy as np
import pytest
import reference
from host_kernels import EVERY, WITH_NATIVE
from optional import array_api_strict

from nishimori._kernels.kernel import block_sums, kernel_name, reads_stored, row_sums
from nishimori._kernels.native import MANY
from nishimori._kernels.sums import BlockSums
from nishimori._rows.batch import Batch
from nishimori._sums.predictions import Predictions


@pytest.fixture(params=EVERY)
def _kernel(request, monkeypatch):
    monkeypatch.setenv("NISHIMORI_KERNEL", request.param)


def drawn(n, k, dtype=np.float64, *, ties=False):
    logits, labels = reference.drawn(n, k)
    if ties:
        logits[::3, 1] = logits[::3].max(axis=1)
    return Batch(logits.astype(dtype), labels, np.ones(n))


def variants(batch):
    """The same rows, and rows whose predicted classes are not those of the largest logits."""
    others = np.roll(batch.logits, 1, axis=1)
    return batch, replace(batch, probabilities=others), replace(batch, predicted=others.argmax(axis=1))


@pytest.mark.usefixtures("_kernel")
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(200, 4), (60, 150)])
@pytest.mark.parametrize("betas", [(0.7, 1.4), (0.0,)])
def test_top_classes_and_right_answers_are_those_of_the_batch(shape, dtype, ties, betas):
    for batch in variants(drawn(*shape, dtype, ties=ties)):
        found, fresh = Predictions(batch, betas[0], row_sums(batch, betas, 1, exact=False)), replace(batch)
        for name, own in (("top_class", "top"), ("right", "right"), ("label_drops", "label_drops")):
            np.testing.assert_array_equal(getattr(found, name), getattr(fresh, own), err_msg=name)


@pytest.mark.usefixtures("_kernel")
def test_sums_at_a_beta_are_found_by_it():
    batch = drawn(50, 5)
    found = row_sums(batch, (0.5, 1.0), 2)
    drops = np.sort(batch.logits - batch.logits.max(axis=1, keepdims=True), axis=1)[:, :-1]
    for beta in (1.0, 0.5):
        expected = [(drops**j * np.exp(beta * drops)).sum(axis=1) for j in range(3)]
        np.testing.assert_allclose(found.at(beta), expected, rtol=1e-12)
    assert found.has(0.5, 2)
    assert not found.has(0.5, 3)
    assert not found.has(2.0)


@WITH_NATIVE
def test_the_kernel_of_a_batch_is_that_of_its_array():
    batch = drawn(20, 3)
    assert kernel_name(batch) == "native"
    assert kernel_name(replace(batch, logits=array_api_strict.asarray(batch.logits))) == "array_api"


@WITH_NATIVE
def test_sums_of_a_block_come_with_the_answers(monkeypatch):
    monkeypatch.setenv("NISHIMORI_KERNEL", "native")
    batch, *others = variants(drawn(200, 4))
    found = block_sums(batch, 0.7, 0.6, exact=True)
    assert isinstance(found, BlockSums)
    assert (found.answers.right, found.answers.n_right) == (batch.right.sum(),) * 2
    assert (found.counted.n_rows, found.counted.n_masked, found.counted.n_bad) == (200, 0, 0)
    for other in others:  # a kernel would look for the largest logit
        assert block_sums(other, 0.7, 0.6, exact=True) is None


@pytest.mark.parametrize("name", EVERY)
def test_half_precision_is_read_as_stored_where_the_kernel_takes_it(name, monkeypatch):
    monkeypatch.setenv("NISHIMORI_KERNEL", name)
    stored = drawn(3, MANY).logits.astype(np.float16)
    batch = Batch(stored.astype(np.float32), np.zeros(3, int), np.ones(3), stored=stored)
    assert reads_stored(batch) == (name == "native")
    few = replace(batch, logits=batch.logits[:, :9], stored=stored[:, :9])
    assert not reads_stored(few)
    for each in (batch, few):
        top = Predictions(each, 0.5, row_sums(each, (0.5,), 0)).top_class
        np.testing.assert_array_equal(top, each.logits.argmax(axis=1))
