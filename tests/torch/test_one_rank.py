"""What a job of one rank shows: how rows are read, arguments that are refused, and NCCL where there is a device."""

import pickle

import numpy as np
import pytest
import reference
import torch
import torch.distributed as dist
from ranks_job import MANY_CLASSES, SMALL

import nishimori
from nishimori._rows.batch import Groups
from nishimori._rows.rows import Rows
from nishimori.errors import InputError
from nishimori.torch import across_ranks, calibrate, reduced


@pytest.mark.parametrize(
    "call",
    [
        lambda: across_ranks(*SMALL),
        lambda: reduced(nishimori.Sketch()),
        lambda: calibrate(torch.nn.Identity(), tuple(map(torch.tensor, SMALL)), across_ranks=True),
    ],
    ids=["across_ranks", "reduced", "calibrate"],
)
def test_without_a_process_group_there_are_no_ranks(call):
    assert not dist.is_initialized()
    with pytest.raises(
        InputError, match=r"^Several ranks need a process group, got none\. Start the script with `torchrun` and"
    ):
        call()


@pytest.fixture
def one_rank():
    """A job of one rank in this process."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def test_no_number_per_row_travels_in_a_search(one_rank, monkeypatch):
    sizes = []
    gather = dist.all_gather_object

    def noted(received, sent, group=None):
        sizes.append(len(pickle.dumps(sent)))
        gather(received, sent, group=group)

    monkeypatch.setattr(dist, "all_gather_object", noted)
    found = nishimori.temperatures(across_ranks(*MANY_CLASSES))
    assert found.n_samples == 3000
    assert len(sizes) > found.n_passes
    assert max(sizes) < 5000  # bytes: one number for each row of the sample, 372, would be more than half of that


def test_a_sample_has_the_share_of_each_rank_or_is_the_rows_themselves(one_rank):
    rows = across_ranks(*SMALL)
    assert rows.sample(100).n_rows == 100
    assert rows.sample(800) is rows


def test_groups_of_a_source_of_ones_own_must_have_the_same_names_everywhere(one_rank):
    class Own(Rows):
        """Rows whose groups are not in order."""

        n_classes, n_rows, groups = 2, 2, Groups(np.arange(2), ("b", "a"))

        def __iter__(self):
            return iter(())

    with pytest.raises(InputError) as error:
        across_ranks(Own())
    assert str(error.value) == (
        "Rank 0: `groups` of an object of type Own must have the same names in the same order on every rank, got "
        "('b', 'a'), and ('a', 'b') on all ranks. Pass arrays."
    )


def test_what_cannot_be_read_row_by_row_is_refused_before_anything_is_measured(one_rank):
    top_k = nishimori.TopK([[0, 1], [2, 0]], np.log([[0.6, 0.3], [0.5, 0.4]]), vocabulary_size=5)
    with pytest.raises(InputError) as error:
        across_ranks(top_k, [0, 2])
    assert str(error.value) == (
        "Rank 0: A TopK has no rows to add to those of other ranks; `nishimori.torch.reduced` adds the sketches of all ranks. "
        "Pass logits and labels instead."
    )


@pytest.mark.parametrize(
    "group", [True, None, "yes"]
)  # `torch.distributed.group.WORLD` is None before there is a process group
def test_without_a_process_group_the_error_says_how_to_start_one(group):
    with pytest.raises(InputError, match=r"^Several ranks need a process group, got none\. Start the script with `torchrun`"):
        calibrate(torch.nn.Identity(), tuple(map(torch.tensor, SMALL)), across_ranks=group)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_tensors_on_a_device_travel_by_nccl():
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    try:
        rows = across_ranks(*(torch.tensor(each, device="cuda") for each in SMALL))
        found = nishimori.temperatures(rows)
        sketch = reduced(nishimori.Sketch().update(*SMALL))
        network = calibrate(torch.nn.Linear(5, 5).cuda(), tuple(map(torch.tensor, SMALL)), forward=given, across_ranks=True)
    finally:
        dist.destroy_process_group()
    assert found.ec == pytest.approx(reference.ec_temperature(*SMALL), rel=1e-8)
    assert nishimori.temperatures(sketch).ts == pytest.approx(reference.ts_temperature(*SMALL), rel=1e-6)
    assert network.temperatures.ts == pytest.approx(reference.ts_temperature(*SMALL), rel=1e-8)


def given(model, batch):
    """The inputs as logits, which are on the device of the network."""
    return batch
