"""Checkpoints: runs that are stopped and resumed give the same bits, and wrong or damaged checkpoints are refused."""

import resource
import sys
from dataclasses import replace

import pytest
import torch
from small_training import RECIPE, Projected, bits, image_set, run, same, stopped_after

from nishimori._support.disk import new_file
from nishimori.errors import FormatError, InputError
from nishimori_paper import models
from nishimori_paper.training._recipes import Recipe
from nishimori_paper.training._training import Training


@pytest.fixture(scope="module")
def unstopped():
    return bits(run())


@pytest.mark.parametrize("epoch", [1, 2, 3])
def test_a_stopped_run_ends_with_the_bits_of_one_that_was_not(tmp_path, unstopped, epoch):
    path = tmp_path / "it.pt"
    stopped_after(epoch, path)
    numbers = []
    resumed = run(checkpoint=path, after=lambda at: numbers.append(len(at.progress.epochs)))
    assert numbers == list(range(epoch + 1, 4))
    assert same(bits(resumed), unstopped)
    assert [each.name for each in tmp_path.iterdir()] == ["it.pt"]


def test_a_run_stopped_within_an_epoch_continues_from_the_one_before(tmp_path, unstopped, monkeypatch):
    path, steps, step = tmp_path / "it.pt", [], Training._step

    def failing(training):
        steps.append(1)
        if len(steps) == 4:  # two per epoch
            raise KeyboardInterrupt
        step(training)

    with monkeypatch.context() as patched:
        patched.setattr(Training, "_step", failing)
        with pytest.raises(KeyboardInterrupt):
            run(checkpoint=path)
    assert same(bits(run(checkpoint=path)), unstopped)


def test_dropout_repeats_itself_and_resumes_exactly(tmp_path, monkeypatch):
    monkeypatch.setitem(models._BUILDERS, "dropping", Projected)
    dropping = Recipe("cifar10", "dropping", epochs=2, batch=4, learning_rate=0.01)
    of = image_set(8, 2)
    whole = bits(run(dropping, of))
    stopped_after(1, tmp_path / "it.pt", dropping, of)
    assert same(bits(run(dropping, of, checkpoint=tmp_path / "it.pt")), whole)


@pytest.mark.parametrize(
    ("other", "differs"),
    [
        ({"a_recipe": replace(RECIPE, epochs=4)}, "recipe"),
        ({"a_recipe": replace(RECIPE, model="resnet20-conv")}, "recipe"),
        ({"a_recipe": replace(RECIPE, fraction=0.5)}, "recipe"),
        ({"seed": 1}, "seed"),
        ({"of": image_set(n_train=41)}, "images"),
        ({"of": replace(image_set(), test=image_set().validation)}, "images"),
        ({"precision": "bfloat16"}, "settings"),
        ({"seed": 1, "of": image_set(n_train=41)}, "seed, images"),
    ],
)
def test_the_checkpoint_of_another_run_is_refused_and_stays(tmp_path, other, differs):
    path = tmp_path / "it.pt"
    stopped_after(1, path)
    before = path.read_bytes()
    with pytest.raises(
        InputError,
        match=rf"it\.pt is the checkpoint of another run \(it differs in: {differs}\)\. Remove it, or pass another `folder`\.",
    ):
        run(checkpoint=path, **other)
    assert path.read_bytes() == before


def test_a_truncated_checkpoint_is_refused_and_stays(tmp_path):
    path = tmp_path / "it.pt"
    stopped_after(1, path)
    whole = path.read_bytes()
    for length in (0, 1, 100, len(whole) // 2, len(whole) - 100, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(
            FormatError, match=r"it\.pt is not a checkpoint, or damaged \(.*it\.pt .*\)\. Remove it to start over\.$"
        ):
            run(checkpoint=path)
        assert path.read_bytes() == whole[:length]


@pytest.mark.parametrize("content", [[1, 2], {"network": {}}, {"progress": 1}], ids=str)
def test_a_file_of_something_else_is_not_a_checkpoint(tmp_path, content):
    path = tmp_path / "it.pt"
    torch.save(content, path)
    before = path.read_bytes()
    with pytest.raises(
        FormatError, match=r"it\.pt is not a checkpoint of `nishimori_paper\.train`\. Remove it, or pass another `folder`\."
    ):
        run(checkpoint=path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("epoch", [1, 2])
def test_no_half_written_checkpoint_remains(tmp_path, monkeypatch, unstopped, epoch):
    path, whole = tmp_path / "it.pt", []

    def full(content, target):
        target.write_bytes(b"half of it")
        raise OSError("No space left on device")

    def after(training):
        whole.append(path.read_bytes())
        if len(whole) == epoch - 1:
            patched.setattr(torch, "save", full)

    with monkeypatch.context() as patched:
        if epoch == 1:
            patched.setattr(torch, "save", full)
        with pytest.raises(OSError, match="No space left"):
            run(checkpoint=path, after=after)
    assert [each.read_bytes() for each in tmp_path.iterdir()] == whole
    assert len(whole) == epoch - 1
    if epoch == 2:
        assert same(bits(run(checkpoint=path)), unstopped)


@pytest.mark.skipif(sys.platform != "linux", reason="limits the size of files")
@pytest.mark.parametrize("limit", [0, 10_000, 1_000_000])
def test_a_full_disk_is_an_error_of_the_system(tmp_path, limit):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"), new_file(tmp_path / "it.pt", overwrite=True) as temporary:
            torch.save({"weights": torch.zeros(10**6)}, temporary)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


EPOCH = {"number": 1, "loss": 0.5, "train_accuracy": 0.5, "validation_accuracy": 0.5, "test_accuracy": 0.5}
CHANGES = {
    "progress that is a number": {"progress": 3},
    "no epochs": {"progress": {"seconds": 1.0}},
    "no epoch": {"progress": {"seconds": 1.0, "epochs": []}},
    "seconds in words": {"progress": {"seconds": "one", "epochs": [EPOCH]}},
    "an epoch that is a number": {"progress": {"seconds": 1.0, "epochs": [1]}},
    "an epoch with other names": {"progress": {"seconds": 1.0, "epochs": [{"number": 1}]}},
    "the number of an epoch in words": {"progress": {"seconds": 1.0, "epochs": [EPOCH | {"number": "1"}]}},
    "a number that was left out": {"progress": {"seconds": 1.0, "epochs": [EPOCH | {"number": 2}]}},
    "too many epochs": {"progress": {"seconds": 1.0, "epochs": [EPOCH | {"number": i} for i in range(1, 9)]}},
    "a state that is a number": {"state": 3},
    "a state without momenta": {"state": {"network": {}}},
    "weights of nothing": {"state": {"network": {}, "momenta": []}},
}


def test_a_checkpoint_with_a_state_that_cannot_be_used_is_refused_and_stays(tmp_path):
    path = tmp_path / "it.pt"
    stopped_after(1, path)
    content = torch.load(path, weights_only=True)
    for change in CHANGES.values():
        torch.save(content | change, path)
        before = path.read_bytes()
        with pytest.raises(
            FormatError, match=r"it\.pt is damaged: it does not hold the state of a training\. Remove it to start over\.$"
        ):
            run(checkpoint=path)
        assert path.read_bytes() == before


def test_a_checkpoint_that_cannot_be_written_is_refused_before_training(tmp_path, monkeypatch):
    monkeypatch.setattr(Training, "_epoch", lambda *_: pytest.fail("training began"))
    with pytest.raises(FileNotFoundError, match=r"There is no folder .*nowhere to write it\.pt to"):
        run(checkpoint=tmp_path / "nowhere" / "it.pt")
    with pytest.raises(FileExistsError, match="is not a regular file"):
        run(checkpoint=tmp_path)
