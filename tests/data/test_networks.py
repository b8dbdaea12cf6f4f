"""Saved logits are read back exactly or refused, and the bundled ones agree with their own description."""

import io
import json
import re
import zipfile
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest

from nishimori import data
from nishimori.data import Labelled, Network
from nishimori.errors import FormatError, InputError

BUNDLED = Path(data.__file__).parent


def labelled(n, n_classes=10, dtype=np.float32, seed=0):
    rng = np.random.default_rng(seed)
    return Labelled(rng.normal(0, 5, (n, n_classes)).astype(dtype), rng.integers(0, n_classes, n))


def network(dtype=np.float32, n_classes=10, *, augmented=True, **provenance):
    return Network(
        "cifar10/résnet",
        labelled(20, n_classes, dtype, 1),
        labelled(30, n_classes, dtype, 2),
        labelled(20, n_classes, dtype, 3) if augmented else None,
        provenance,
    )


def assert_same(found, expected):
    if expected is None:
        assert found is None
        return
    np.testing.assert_array_equal(found.logits, expected.logits)
    np.testing.assert_array_equal(found.labels, expected.labels)
    assert (found.logits.dtype, found.labels.dtype) == (expected.logits.dtype, np.int64)


def stored(path, **replaced):
    """A file as `data.save` writes it, with some arrays replaced, or left out if None."""
    content = {"provenance": np.array('{"name": "x"}')}
    for part in ("validation", "test"):
        content |= {f"{part}_logits": np.zeros((4, 3), np.float32), f"{part}_labels": np.zeros(4, np.uint8)}
    np.savez(path, **{key: value for key, value in (content | replaced).items() if value is not None})
    return path


# Saving and loading.


@pytest.mark.parametrize("augmented", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_what_is_saved_is_loaded(tmp_path, dtype, augmented):
    provenance = {"data": "Straße", "recipe": {"epochs": 50, "fraction": None, "augment": True}, "seed": 3, "test_error": 0.1}
    expected = network(dtype, augmented=augmented, **provenance)
    data.save(expected, tmp_path / "it.npz")
    found = data.load(tmp_path / "it.npz")
    assert found.name == expected.name
    assert found.provenance == provenance
    for part in ("validation", "test", "augmented"):
        assert_same(getattr(found, part), getattr(expected, part))
    assert [path.name for path in tmp_path.iterdir()] == ["it.npz"]


@pytest.mark.parametrize("n_classes", [2, 100, 256, 257, 1000])
def test_labels_of_any_number_of_classes_survive(tmp_path, n_classes):
    last = Labelled(np.zeros((2, n_classes), np.float32), np.array([0, n_classes - 1]))
    data.save(Network("x", last, last), tmp_path / "it.npz")
    assert_same(data.load(tmp_path / "it.npz").test, last)


def test_a_name_among_the_provenance_does_not_replace_the_networks(tmp_path):
    data.save(network(name="other"), tmp_path / "it.npz")
    assert data.load(tmp_path / "it.npz").name == "cifar10/résnet"


def test_a_path_is_taken_as_text_too(tmp_path):
    path = str(tmp_path / "it.npz")
    data.save(network(), path)
    assert data.load(path).name == "cifar10/résnet"


# Refusals.


def test_a_file_is_replaced_only_on_request(tmp_path):
    path = tmp_path / "it.npz"
    path.write_bytes(b"mine")
    with pytest.raises(FileExistsError, match="overwrite=True"):
        data.save(network(), path)
    assert path.read_bytes() == b"mine"
    data.save(network(), path, overwrite=True)
    assert data.load(path).name == "cifar10/résnet"


def test_another_ending_is_refused_and_nothing_written(tmp_path):
    with pytest.raises(InputError, match=r"`path` must end in \.npz, got '.*it\.npy'\."):
        data.save(network(), tmp_path / "it.npy")
    assert not list(tmp_path.iterdir())


def test_an_unknown_name_is_refused_with_the_list():
    listed = re.escape(", ".join(data.names()))
    with pytest.raises(
        InputError, match=rf"no bundled network 'cifar10/resnet-20'; there are {listed}.*\. A file's name ends in"
    ):
        data.load("cifar10/resnet-20")


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"There is no file .*it\.npz"):
        data.load(tmp_path / "it.npz")


@pytest.mark.parametrize("fails", ["full disk", "interrupted", "provenance that is not JSON"])
def test_nothing_half_written_remains(tmp_path, monkeypatch, fails):
    path = tmp_path / "it.npz"
    data.save(network(), path)
    before = path.read_bytes()
    if fails == "provenance that is not JSON":
        error, other = TypeError, network(seed={1, 2})
    else:
        error, other = {"full disk": OSError, "interrupted": KeyboardInterrupt}[fails], network(seed=1)

        def half(target, **arrays):
            Path(target).write_bytes(before[: len(before) // 2])
            raise error

        monkeypatch.setattr(np, "savez_compressed", half)
    with pytest.raises(error):
        data.save(other, path, overwrite=True)
    with pytest.raises(error):
        data.save(other, tmp_path / "other.npz")
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_bytes() == before


def test_a_truncated_file_is_refused_wherever_it_ends(tmp_path):
    path = tmp_path / "it.npz"
    data.save(network(augmented=False), path)
    whole = path.read_bytes()
    for length in (*range(0, len(whole), 37), len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(FormatError, match=r"it\.npz is not a file of a network's logits, or damaged"):
            data.load(path)


def test_a_changed_byte_is_noticed_or_changes_nothing(tmp_path):
    path = tmp_path / "it.npz"
    expected = network(augmented=False, data="some")
    data.save(expected, path)
    whole = path.read_bytes()
    refused = 0
    for i in range(0, len(whole), 5):
        path.write_bytes(whole[:i] + bytes([whole[i] ^ 0x81]) + whole[i + 1 :])
        try:
            found = data.load(path)
        except FormatError:
            refused += 1
        else:  # for example a date, or a second copy of a checksum
            assert (found.name, found.provenance) == (expected.name, expected.provenance)
            assert_same(found.validation, expected.validation)
            assert_same(found.test, expected.test)
    assert refused > len(whole) / 5 / 2


def zipped(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("text.txt", "hello")


def plain_array(path):
    with path.open("wb") as stream:
        np.save(stream, np.zeros((4, 3)))


def bomb(path):
    """Few bytes, of which the directory and the header say that they hold 2 GB."""
    stored(path, test_logits=None)
    content = io.BytesIO()
    np.lib.format.write_array_header_1_0(content, {"shape": (4, 2**27), "fortran_order": False, "descr": "<f4"})
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("test_logits.npy", content.getvalue())
        archive.infolist()[-1].file_size += 2**31


FOREIGN = {
    "text": lambda path: path.write_text("logits"),
    "a plain array": plain_array,
    "another archive": zipped,
    "arrays of something else": lambda path: np.savez(path, logits=np.zeros((4, 3)), labels=np.zeros(4)),
    "objects": lambda path: stored(path, test_logits=np.array([{}, None], dtype=object)),
    "no provenance": lambda path: stored(path, provenance=None),
    "provenance that is not JSON": lambda path: stored(path, provenance=np.array("{")),
    "provenance that is a number": lambda path: stored(path, provenance=np.array("5")),
    "provenance that is a list": lambda path: stored(path, provenance=np.array("[]")),
    "no name": lambda path: stored(path, provenance=np.array("{}")),
    "no test labels": lambda path: stored(path, test_labels=None),
    "no test logits": lambda path: stored(path, test_logits=None),
    "no validation": lambda path: stored(path, validation_logits=None, validation_labels=None),
    "more labels than rows": lambda path: stored(path, test_labels=np.zeros(5, np.uint8)),
    "a flat array of logits": lambda path: stored(path, test_logits=np.zeros(4, np.float32)),
    "fractional labels": lambda path: stored(path, test_labels=np.zeros(4)),
    "text as logits": lambda path: stored(path, test_logits=np.array([["a"] * 3] * 4)),
    "provenance of nested lists": lambda path: stored(path, provenance=np.array('{"a":' * 100_000)),
    "a number of 5,000 digits": lambda path: stored(path, provenance=np.array('{"name": "x", "a": ' + "9" * 5000 + "}")),
    "half a character": lambda path: stored(path, provenance=np.array('{"name": "x", "a": "\\ud800"}')),
    "half a character in the text": lambda path: stored(path, provenance=np.array('{"name": "\ud800"}')),
    "a name that is a number": lambda path: stored(path, provenance=np.array('{"name": 3}')),
    "no characters": lambda path: stored(path, provenance=np.array([0x7FFFFFFF], np.uint32).view("U1")),
    "a bomb": bomb,
    "labels in words": lambda path: stored(path, test_labels=np.array(["cat"] * 4)),
}


@pytest.mark.parametrize("foreign", FOREIGN)
def test_a_file_of_something_else_is_refused_by_name(tmp_path, foreign):
    path = tmp_path / "it.npz"
    FOREIGN[foreign](path)
    before = path.read_bytes()
    with pytest.raises(FormatError, match=rf"^{re.escape(str(path))} .*Compute it again\.$"):
        data.load(path)
    assert path.read_bytes() == before


def test_the_file_that_the_refusals_start_from_is_a_good_one(tmp_path):
    assert data.load(stored(tmp_path / "it.npz")).test.logits.shape == (4, 3)


# What is bundled.

CLASSES = {"svhn": 10, "cifar10": 10, "cifar100": 100}


@pytest.mark.parametrize("name", data.names())
def test_a_bundled_network_has_finite_logits_and_labels_in_range(name):
    found = data.load(name)
    dataset = name.partition("/")[0]
    assert found.name.partition("/")[0] == dataset
    parts = [found.validation, found.test, *([found.augmented] if found.augmented else [])]
    for part in parts:
        assert part.logits.shape == (len(part.labels), CLASSES[dataset])
        assert part.logits.dtype in (np.float32, np.float16)
        assert np.isfinite(part.logits).all()
        assert set(part.labels.tolist()) == set(range(CLASSES[dataset]))
    if found.augmented:
        np.testing.assert_array_equal(found.augmented.labels, found.validation.labels)
        assert not np.array_equal(found.augmented.logits, found.validation.logits)


@pytest.mark.parametrize("name", data.names())
def test_a_bundled_network_says_where_it_comes_from(name):
    provenance = data.load(name).provenance
    assert json.loads(json.dumps(provenance)) == provenance
    assert provenance.keys() >= {"data", "recipe", "weights", "versions", "validation_error", "test_error", "n_test"}
    assert provenance["recipe"]["dataset"] == name.partition("/")[0]
    assert provenance["versions"].keys() >= {"nishimori", "torch", "python"}
    trained_here = provenance["weights"] == "trained by nishimori"
    assert trained_here != name.endswith("-authors")
    assert not trained_here or {"seed", "settings", "device"} <= provenance.keys()


@pytest.mark.parametrize("part", ["validation", "test"])
@pytest.mark.parametrize("name", data.names())
def test_the_recorded_error_of_a_bundled_network_is_that_of_its_logits(name, part):
    found = data.load(name)
    kept = getattr(found, part)
    recorded = found.provenance[f"{part}_error"]
    error = (kept.logits.argmax(1) != kept.labels).mean()
    allowed = 0.002  # near-ties that rounding of logits reversed
    if part == "test" and len(kept.labels) < found.provenance["n_test"]:  # only some of the counted images are stored
        allowed += 4 * np.sqrt(recorded * (1 - recorded) / len(kept.labels))
    assert error == pytest.approx(recorded, abs=allowed)
    assert 0 < error < 1 - 1 / kept.logits.shape[1]  # better than guessing


def test_the_library_itself_has_one_network_and_says_where_its_images_come_from():
    assert data.names_in(BUNDLED) == ["cifar10/resnet20"]
    assert "| `cifar10` | CIFAR-10 " in (BUNDLED / "LICENSES.md").read_text(encoding="utf-8")
    assert sum(path.stat().st_size for path in BUNDLED.rglob("*") if path.suffix != ".pyc") < 1e6


# What packages add.


@pytest.fixture
def added(monkeypatch, tmp_path):
    """A function that makes these the only entry points for networks; `bundle_of_a_test` is a package with a network."""
    folder = tmp_path / "bundle_of_a_test" / "networks"
    (folder / "letters").mkdir(parents=True)
    (tmp_path / "bundle_of_a_test" / "__init__.py").write_text("raise RuntimeError('it was imported')", encoding="utf-8")
    data.save(network(), folder / "letters" / "small.npz")
    monkeypatch.syspath_prepend(tmp_path)

    def use(*values):
        points = [EntryPoint("more", value, data.GROUP) for value in values]
        monkeypatch.setattr(data, "entry_points", lambda group: points if group == data.GROUP else [])

    return use


def test_a_package_adds_networks_and_is_not_imported(added):
    added("bundle_of_a_test.networks")
    assert data.names() == ["cifar10/resnet20", "letters/small"]
    assert data.load("letters/small").name == "cifar10/résnet"


def test_a_network_that_is_not_there_says_where_more_come_from(added):
    added()
    assert data.names() == ["cifar10/resnet20"]
    message = (
        "There is no bundled network 'svhn/resnet20'; there are cifar10/resnet20, and more with `pip install nishimori-paper`. "
        "A file's name ends in .npz."
    )
    with pytest.raises(InputError) as caught:
        data.load("svhn/resnet20")
    assert str(caught.value) == message


@pytest.mark.parametrize("value", ["no_such_package_at_all.networks", "bundle_of_a_test.nothing", "", "csv"])
def test_networks_that_cannot_be_found_are_one_line_and_leave_those_of_the_library(added, value):
    added(value)
    assert data.load("cifar10/resnet20").test.logits.shape == (10000, 10)
    message = rf"^The networks that an installed package calls 'more' cannot be found: there is no folder {re.escape(value)}\. "
    for ask in (data.names, lambda: data.load("letters/small")):
        with pytest.raises(InputError, match=message):
            ask()


@pytest.mark.parametrize(
    ("logits", "labels", "got"),
    [
        (np.zeros((2, 3)), np.array([0.5, 1.7]), r"\(2, 3\) and float64 of shape \(2,\)"),
        (np.zeros((2, 3)), np.array([0, 1, 2]), r"\(2, 3\) and int64 of shape \(3,\)"),
        (np.zeros(2), np.array([0, 1]), r"\(2,\) and int64 of shape \(2,\)"),
    ],
)
def test_what_could_not_be_loaded_again_is_not_saved(tmp_path, logits, labels, got):
    made = Network("mine", Labelled(logits, labels), labelled(3, 3, np.float32, 0))
    with pytest.raises(
        InputError, match=rf"`validation` must have logits of shape \(n, n_classes\) and n integer labels, got {got}"
    ):
        data.save(made, tmp_path / "it.npz")
    assert not list(tmp_path.iterdir())


def test_lists_are_saved_as_arrays(tmp_path):
    made = Network("mine", Labelled([[1.0, 0.0]], [1]), Labelled([[1.0, 0.0]], [0]))
    data.save(made, tmp_path / "it.npz")
    assert data.load(tmp_path / "it.npz").validation.labels.tolist() == [1]
