"""``nishimori paper train``, ``logits`` and ``recipes`` on small generated images: what they write, say and refuse."""

import json

import numpy as np
import pytest
import shell
import torch

from nishimori import data
from nishimori_paper import models
from nishimori_paper.training._recipes import NORMALISATION
from nishimori_paper.training._training import Training

TRAIN = "paper train --data images --dataset cifar10 --model resnet20 --device cpu --epochs 2"
LOGITS = "paper logits --data images --dataset cifar10 --model resnet20 --device cpu"
RESULTS = ["cifar10-resnet20.npz", "cifar10-resnet20.pt"]
SIZES = {"train": 48, "val": 16, "test": 16}


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """One thread: for small images, waiting for another thread takes longer than the work itself."""
    was = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(was)


def command(line, place):
    return shell.nishimori(line, place=place)


def files(folder):
    return sorted(path.name for path in folder.iterdir())


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """A folder with ``images/cifar10``."""
    place, rng = tmp_path_factory.mktemp("training"), np.random.default_rng(0)
    folder = place / "images" / "cifar10"
    folder.mkdir(parents=True)
    for split, n in SIZES.items():
        np.save(folder / f"{split}_images.npy", rng.integers(0, 256, (n, 32, 32, 3), dtype=np.uint8))
        np.save(folder / f"{split}_labels.npy", rng.integers(0, 10, n))
    return place


@pytest.fixture(scope="module")
def trained(images):
    """What one run printed and left in ``once``."""
    return command(f"{TRAIN} -o once", images), images / "once"


@pytest.fixture
def place(tmp_path, images):
    (tmp_path / "images").symlink_to(images / "images", target_is_directory=True)
    return tmp_path


def assert_same_bits(one, other):
    found, expected = (data.load(each / RESULTS[0]) for each in (one, other))
    for kind in ("validation", "test", "augmented"):
        np.testing.assert_array_equal(getattr(found, kind).logits, getattr(expected, kind).logits)
        np.testing.assert_array_equal(getattr(found, kind).labels, getattr(expected, kind).labels)
    found, expected = (torch.load(each / RESULTS[1], weights_only=True) for each in (one, other))
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)


# Training.


def test_training_leaves_logits_and_weights_but_no_checkpoint_and_says_so(trained):
    (code, out, err), folder = trained
    assert (code, out) == (0, "")
    assert files(folder) == RESULTS
    network = data.load(folder / RESULTS[0])
    error = (network.test.logits.argmax(1) != network.test.labels).mean()
    lines = err.splitlines()
    assert lines[-1] == f"cifar10/resnet20: error {error:.2%} on 16 test images; wrote once/cifar10-resnet20.npz"
    assert lines[-4] == "0/2 cifar10/resnet20: preparing"
    assert [each.partition(":")[0] for each in lines[-3:-1]] == ["1/2 cifar10/resnet20", "2/2 cifar10/resnet20"]


def test_the_written_logits_are_of_the_images_that_were_given(trained, images):
    network = data.load(trained[1] / RESULTS[0])
    for split, part in {"val": network.validation, "test": network.test}.items():
        np.testing.assert_array_equal(part.labels, np.load(images / "images" / "cifar10" / f"{split}_labels.npy"))
        assert part.logits.shape == (SIZES[split], 10)
    assert network.provenance["n_train"] == SIZES["train"]
    assert network.provenance["recipe"]["epochs"] == 2
    assert network.provenance["weights"] == "trained by nishimori"


def test_the_written_weights_give_the_written_logits(trained, images):
    network = models.build("resnet20", n_classes=10).eval()
    network.load_state_dict(torch.load(trained[1] / RESULTS[1], weights_only=True))
    kept = data.load(trained[1] / RESULTS[0])
    mean, std = (torch.tensor(each)[:, None, None] for each in NORMALISATION["cifar10"])
    for split, part in {"val": kept.validation, "test": kept.test}.items():
        pixels = torch.from_numpy(np.load(images / "images" / "cifar10" / f"{split}_images.npy"))
        with torch.inference_mode():
            expected = network((pixels.permute(0, 3, 1, 2) / 255 - mean) / std)
        # Logits are stored with 14 bits after the leading one.
        np.testing.assert_allclose(part.logits, expected, rtol=2**-14, atol=1e-4)


def test_results_that_are_there_are_not_replaced(trained, images):
    before = contents(trained[1])
    assert command(f"{TRAIN} -o once", images) == (
        1,
        "",
        "error: once/cifar10-resnet20.npz exists. Pass --force to replace it.\n",
    )
    (images / "half").mkdir()
    (images / "half" / RESULTS[1]).write_bytes(b"other weights")
    code, _, err = command(f"{TRAIN} -o half", images)
    assert (code, err.count("\n")) == (1, 1)
    assert err.startswith("error: half/cifar10-resnet20.pt exists.")
    assert contents(trained[1]) == before
    assert contents(images / "half") == {RESULTS[1]: b"other weights"}


def test_force_starts_over_and_json_is_one_object(trained, place):
    (place / "new").mkdir()
    for name in (*RESULTS, "cifar10-resnet20.checkpoint.pt"):
        (place / "new" / name).write_bytes(b"of an earlier run")
    code, out, err = command(f"{TRAIN} -o new --force --json", place)
    assert code == 0
    assert "wrote" not in err
    result = json.loads(out)
    assert (result["name"], result["file"]) == ("cifar10/resnet20", "new/cifar10-resnet20.npz")
    assert result["recipe"]["epochs"] == 2
    assert (result["n_train"], result["n_test"], result["parameters"]) == (48, 16, 269_722)
    assert files(place / "new") == RESULTS
    assert_same_bits(place / "new", trained[1])


def test_a_fraction_is_of_training_and_validation_images_together(place):
    code, out, _ = command(f"{TRAIN} -o new --fraction 0.5 --epochs 1 --seed 3 --repeatable --json", place)
    result = json.loads(out)
    assert code == 0
    assert (result["name"], result["n_train"], result["seed"]) == ("cifar10/resnet20-fraction-0.5", 32, 3)
    assert result["settings"]["repeatable"] is True
    assert files(place / "new") == ["cifar10-resnet20-fraction-0.5.npz", "cifar10-resnet20-fraction-0.5.pt"]
    assert data.load(place / result["file"]).augmented is None


def test_a_network_outside_the_paper_names_the_recipe_it_uses(place):
    code, _, err = command(f"{TRAIN} -o new --model resnet20-conv --epochs 1", place)
    said = "0/1 cifar10/resnet20-conv, which is not in the paper, with the recipe of cifar10/resnet20: preparing"
    assert code == 0
    assert said in err.splitlines()


# Interruptions.


def interrupted(line, place, epoch=2):
    """Run the command until Control-C is pressed in that epoch; here each epoch has one step."""
    steps, step = [], Training._step

    def pressed(training):
        steps.append(1)
        if len(steps) == epoch:
            raise KeyboardInterrupt
        step(training)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Training, "_step", pressed)
        return command(line, place)


def test_a_run_interrupted_before_its_first_epoch_starts_over(place):
    code, out, err = interrupted(f"{TRAIN} -o new --force", place, epoch=1)
    assert (code, out) == (130, "")
    assert err.splitlines()[-1] == "Interrupted before the first epoch was finished. Repeat the command to start again."
    assert files(place / "new") == []


def test_force_keeps_the_checkpoint_until_the_images_are_found(place):
    interrupted(f"{TRAIN} -o new", place)
    before = contents(place / "new")
    assert command(f"{TRAIN} -o new --force --data nowhere", place)[0] == 1
    assert contents(place / "new") == before


def test_an_interrupted_run_says_how_to_continue_and_continues_to_the_same_bits(trained, place):
    code, out, err = interrupted(f"{TRAIN} -o new", place)
    assert (code, out) == (130, "")
    assert err.splitlines()[-1] == "Interrupted. The finished epochs are in new; repeat the command to continue."
    assert files(place / "new") == ["cifar10-resnet20.checkpoint.pt"]
    code, _, err = command(f"{TRAIN} -o new", place)
    assert code == 0
    assert "1/2 cifar10/resnet20: loss" not in err
    assert "2/2 cifar10/resnet20: loss" in err
    assert files(place / "new") == RESULTS
    assert_same_bits(place / "new", trained[1])


def test_the_checkpoint_of_another_run_is_refused_until_it_is_forced(place):
    interrupted(f"{TRAIN} -o new", place)
    before = contents(place / "new")
    code, _, err = command(f"{TRAIN} -o new --seed 1", place)
    assert code == 1
    assert "checkpoint of another run (it differs in: seed). Remove it, or pass another -o." in err.splitlines()[-1]
    assert contents(place / "new") == before
    assert command(f"{TRAIN} -o new --seed 1 --force", place)[0] == 0
    assert files(place / "new") == RESULTS


def test_a_run_that_replaces_another_can_be_interrupted_too(trained, place):
    (place / "new").mkdir()
    for name in RESULTS:
        (place / "new" / name).write_bytes(b"of an earlier run")
    code, _, err = interrupted(f"{TRAIN} -o new --force", place)
    assert code == 130
    assert err.splitlines()[-1].endswith("in new; repeat the command without --force to continue.")
    assert (place / "new" / RESULTS[0]).read_bytes() == b"of an earlier run"
    code, _, err = command(f"{TRAIN} -o new", place)
    assert code == 0, err
    assert "1/2 cifar10/resnet20: loss" not in err
    assert files(place / "new") == RESULTS
    assert_same_bits(place / "new", trained[1])


def test_a_run_that_could_not_write_its_logits_continues_from_its_last_epoch(trained, place):
    from nishimori_paper.training import _train

    def full(*_, **__):
        raise OSError("No space left on device")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_train, "save", full)
        assert command(f"{TRAIN} -o new", place)[2].endswith("\nerror: No space left on device\n")
    code, _, err = command(f"{TRAIN} -o new", place)
    assert code == 0, err
    assert "loss" not in err
    assert files(place / "new") == RESULTS
    assert_same_bits(place / "new", trained[1])


# Refusals.

BAD = {
    "data set": ("--dataset mnist", "There is no data set 'mnist'; there are svhn, cifar10, cifar100."),
    "network": ("--model resnet21", "There is no network 'resnet21'; there are resnet20, resnet32,"),
    "device": ("--device gpu", "--device must be a PyTorch device such as 'cpu' or 'cuda', got 'gpu'."),
    "device that does not compute": ("--device meta", "--device must be one that works on this machine, got 'meta'"),
    "folder of images": ("--data nowhere", "There is no folder nowhere to read CIFAR-10 from. Choose one that exists."),
}


def assert_refused(found, message):
    code, out, err = found
    assert (code, out) == (1, "")
    assert err.splitlines()[-1].startswith(f"error: {message}")
    assert "Traceback" not in err
    assert err.count("error:") == 1


@pytest.mark.parametrize("what", BAD)
def test_what_is_not_there_is_refused_in_one_line_before_any_image_is_read(place, what):
    option, message = BAD[what]
    found = command(f"{TRAIN} -o new {option}", place)
    assert_refused(found, message)
    assert found[2].count("\n") == 1
    assert not (place / "new").exists() or not files(place / "new")


@pytest.mark.parametrize("fraction", ["0", "-0.5", "0.8", "1.5", "nan", "0.001"])
def test_a_fraction_that_leaves_nothing_or_takes_validation_images_is_refused(place, fraction):
    found = command(f"{TRAIN} -o new --fraction {fraction}", place)
    number = float(fraction)
    message = f"--fraction must be above 0 and at most 0.75, to leave out validation images, got {number}."
    assert_refused(found, message if 0 < number < 1 else f"--fraction must be a number between 0 and 1, got {number}.")
    assert not (place / "new").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_refused(place):
    assert_refused(command(f"{TRAIN} -o new --device cuda", place), "There is no CUDA device here. Use 'cpu', or")
    assert not (place / "new").exists()


def test_a_file_in_place_of_the_folder_is_refused(place):
    (place / "new").write_text("mine")
    assert_refused(command(f"{TRAIN} -o new", place), "new is a file, but the results need a folder.")
    assert (place / "new").read_text() == "mine"


@pytest.mark.parametrize("option", ["--epochs 0", "--epochs few", "--seed -1", "--no-such-option"])
def test_wrong_usage_ends_with_two(place, option):
    code, out, err = command(f"{TRAIN} -o new {option}", place)
    assert (code, out) == (2, "")
    assert option.split()[0] in err
    assert not (place / "new").exists()


# Logits of given weights.


def test_logits_of_the_written_weights_are_the_written_logits(trained, place):
    (place / "net.pt").write_bytes((trained[1] / RESULTS[1]).read_bytes())
    code, out, err = command(f"{LOGITS} net.pt -o it.npz", place)
    assert (code, out) == (0, "")
    assert err.splitlines()[-1].endswith(" on 16 test images; wrote it.npz")
    found, expected = data.load(place / "it.npz"), data.load(trained[1] / RESULTS[0])
    for kind in ("validation", "test", "augmented"):
        np.testing.assert_allclose(getattr(found, kind).logits, getattr(expected, kind).logits, rtol=2**-13, atol=1e-5)
    assert found.provenance["weights"] == "read from net.pt"
    assert found.provenance["test_error"] == expected.provenance["test_error"]

    before = (place / "it.npz").read_bytes()
    assert_refused(
        command(f"{LOGITS} net.pt -o it.npz", place),
        "it.npz exists. Pass --force to replace it.",
    )
    assert (place / "it.npz").read_bytes() == before
    code, out, _ = command(f"{LOGITS} net.pt -o it.npz --seed 1 --force --json", place)
    assert (code, json.loads(out)["file"]) == (0, "it.npz")
    other = data.load(place / "it.npz")
    np.testing.assert_array_equal(other.test.logits, found.test.logits)
    assert not np.array_equal(other.augmented.logits, found.augmented.logits)


def weights(name, place, trained):
    whole = (trained[1] / RESULTS[1]).read_bytes()
    if name == "of another network":
        torch.save(models.build("resnet20-conv", n_classes=10).state_dict(), place / "net.pt")
    elif name == "of other classes":
        torch.save(models.build("resnet20", n_classes=100).state_dict(), place / "net.pt")
    elif name == "a list":
        torch.save([1, 2], place / "net.pt")
    else:
        (place / "net.pt").write_bytes({"truncated": whole[: len(whole) // 2], "empty": b"", "text": b"weights"}[name])


@pytest.mark.parametrize("name", ["of another network", "of other classes", "a list", "truncated", "empty", "text"])
def test_a_file_without_the_networks_weights_is_refused_by_name(place, trained, name):
    weights(name, place, trained)
    before = contents(place / "images" / "cifar10"), (place / "net.pt").read_bytes()
    found = command(f"{LOGITS} net.pt -o it.npz", place)
    readable = name in ("of another network", "of other classes", "a list")
    assert_refused(
        found, f"net.pt {'does not hold the weights of a resnet20 for 10 classes: ' if readable else 'is not a PyTorch'}"
    )
    assert found[2].count("\n") == 1  # before any image is read
    assert files(place) == ["images", "net.pt"]
    assert (contents(place / "images" / "cifar10"), (place / "net.pt").read_bytes()) == before


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("nowhere.pt -o it.npz", "There is no file nowhere.pt."),
        ("images -o it.npz", "images is a folder. Name a file in it."),
        ("net.pt -o new/it.npz", "There is no folder new to write it.npz to. Create it first."),
        ("net.pt -o it.npy", "-o must end in .npz, got 'it.npy'."),
        *((f"net.pt -o it.npz {option}", message) for option, message in BAD.values()),
    ],
)
def test_logits_are_refused_in_one_line_before_any_image_is_read(place, line, message):
    torch.save(models.build("resnet20", n_classes=10).state_dict(), place / "net.pt")
    found = command(f"{LOGITS} {line}", place)
    assert_refused(found, message)
    assert found[2].count("\n") == 1
    assert files(place) == ["images", "net.pt"]


# Recipes.


def test_recipes_are_those_of_the_papers_code(tmp_path):
    code, out, err = command("paper recipes --json", tmp_path)
    assert (code, err) == (0, "")
    found = {f"{each['dataset']}/{each['model']}": each for each in json.loads(out)["recipes"]}
    assert len(found) == 9
    for name, each in found.items():
        assert (each["batch"], each["momentum"]) == (128, 0.9)
        if each["dataset"] == "cifar100":  # the paper took trained networks there
            continue
        assert (each["epochs"], each["weight_decay"], each["schedule"]) == (50, 1e-4, "constant")
        assert each["learning_rate"] == (0.01 if name.startswith("cifar10/densenet121") else 0.1)
        assert each["augment"] == (each["dataset"] == "cifar10")


def test_recipes_are_a_table_for_people(tmp_path):
    code, out, err = command("paper recipes", tmp_path)
    assert (code, err) == (0, "")
    for word in ("svhn", "densenet121", "resnet56-conv", "repvgg-a2", "learning rate", "cosine"):
        assert word in out
