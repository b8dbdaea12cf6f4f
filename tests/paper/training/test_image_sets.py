"""The paper's image sets in each layout they come in: tiny ones made here, real ones where `NISHIMORI_DATA` has them."""

import hashlib
import io
import os
import pickle
import re
import runpy
import struct
import sys
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.io

from nishimori.errors import FormatError, InputError
from nishimori.paper.training._image_formats import Images
from nishimori.paper.training._image_originals import ORIGINALS
from nishimori.paper.training._image_sets import _random_split, image_set, names

torch = pytest.importorskip("torch")
Image = pytest.importorskip("PIL.Image")

DATA = Path(os.environ["NISHIMORI_DATA"]) if "NISHIMORI_DATA" in os.environ else None


def images(n, n_classes=10, seed=0):
    rng = np.random.default_rng(seed)
    return Images(rng.integers(0, 256, (n, 32, 32, 3), dtype=np.uint8), rng.integers(0, n_classes, n))


def assert_same(found, expected):
    np.testing.assert_array_equal(found.pixels, expected.pixels)
    np.testing.assert_array_equal(found.labels, expected.labels)
    assert (found.pixels.dtype, found.labels.dtype) == (np.uint8, np.int64)


# Writers of each layout.


def write_arrays(folder, **splits):
    folder.mkdir(parents=True, exist_ok=True)
    for split, each in splits.items():
        np.save(folder / f"{split}_images.npy", each.pixels)
        np.save(folder / f"{split}_labels.npy", each.labels)


def write_mosaics(folder, *, in_each=300, columns=100, **splits):
    folder.mkdir(parents=True, exist_ok=True)
    for split, each in splits.items():
        np.save(folder / f"{split}-labels.npy", each.labels.astype(np.uint8))
        for i, start in enumerate(range(0, len(each), in_each)):
            tiles = each.pixels[start : start + in_each]
            rows = -(-len(tiles) // columns)
            padded = np.zeros((rows * columns, 32, 32, 3), np.uint8)
            padded[: len(tiles)] = tiles
            picture = padded.reshape(rows, columns, 32, 32, 3).transpose(0, 2, 1, 3, 4).reshape(rows * 32, columns * 32, 3)
            Image.fromarray(picture).save(folder / f"{split}-{i:02}.webp", lossless=True, quality=0, method=0)


def python_2_pickle(**content):
    """What `cPickle.dump(content, stream, 2)` of Python 2 writes: strings are bytes, NumPy's modules have their old names."""

    def text(value):
        return b"T" + struct.pack("<i", len(value)) + value

    def whole(value):
        return b"J" + struct.pack("<i", value)

    def array(value):
        empty = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00t" + text(b"b") + b"tR"
        dtype = b"cnumpy\ndtype\n(" + text(value.dtype.str.lstrip("|<").encode()) + b"K\x00K\x01tR"
        dtype += b"(K\x03" + text(value.dtype.str[:1].encode()) + b"NNN" + whole(-1) * 2 + b"K\x00tb"
        shape = b"(" + b"".join(map(whole, value.shape)) + b"t"
        return empty + b"(K\x01" + shape + dtype + b"\x89" + text(value.tobytes()) + b"tb"

    def any_of(value):
        if isinstance(value, np.ndarray):
            return array(value)
        return b"](" + b"".join(map(whole, value)) + b"e" if isinstance(value, list) else text(value)

    return b"\x80\x02}(" + b"".join(text(key.encode()) + any_of(value) for key, value in content.items()) + b"u."


def cifar_batch(each, labels="labels"):
    rows = each.pixels.transpose(0, 3, 1, 2).reshape(len(each), 3072)
    extra = {"coarse_labels": [0] * len(each)} if labels == "fine_labels" else {"batch_label": b"batch \xff"}
    return python_2_pickle(data=rows, **{labels: each.labels.tolist()}, **extra)


def cifar_batches(name, train, test):
    if name == "cifar100":
        return {"train": cifar_batch(train, "fine_labels"), "test": cifar_batch(test, "fine_labels"), "meta": b"no batch"}
    parts = [train.at(part) for part in np.array_split(np.arange(len(train)), 5)]
    return {f"data_batch_{i}": cifar_batch(part) for i, part in enumerate(parts, 1)} | {"test_batch": cifar_batch(test)}


def write_unpacked(folder, batches):
    folder.mkdir(parents=True)
    for name, content in batches.items():
        (folder / name).write_bytes(content)


def write_archive(path, inside, batches):
    with tarfile.open(path, "w:gz") as archive:
        for name, content in batches.items():
            member = tarfile.TarInfo(f"{inside}/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def write_svhn(folder, **splits):
    for split, each in splits.items():
        labels = np.where(each.labels == 0, 10, each.labels).astype(np.uint8)[:, None]
        content = {"X": each.pixels.transpose(1, 2, 3, 0), "y": labels}
        scipy.io.savemat(folder / f"{split}_32x32.mat", content, do_compression=True)


def publish(monkeypatch, folder, name):
    """Let the files in ``folder`` be the published ones."""
    original = ORIGINALS[name]
    files = [
        replace(file, md5=hashlib.md5((folder / file.name).read_bytes()).hexdigest()) if (folder / file.name).exists() else file
        for file in original.files
    ]
    monkeypatch.setitem(ORIGINALS, name, replace(original, files=files))


INSIDE = {"cifar10": "cifar-10-batches-py", "cifar100": "cifar-100-python"}
ARCHIVE = {"cifar10": "cifar-10-python.tar.gz", "cifar100": "cifar-100-python.tar.gz"}


# Splits.


def test_the_tenth_set_aside_is_the_end_of_the_authors_permutation(tmp_path):
    train, test = images(127), images(5, seed=1)
    write_arrays(tmp_path, train=train, test=test)
    found = image_set("cifar10", tmp_path)
    order = torch.randperm(127, generator=torch.Generator().manual_seed(42)).numpy()
    assert_same(found.train, train.at(order[:115]))
    assert_same(found.validation, train.at(order[115:]))
    assert_same(found.test, test)
    assert (found.name, found.n_classes) == ("cifar10", 10)


@pytest.mark.parametrize(("n", "n_train"), [(73257, 65932), (50000, 45000), (10, 9), (19, 18), (129, 117)])
def test_the_split_is_torchs_own(n, n_train):
    numbered = Images(np.arange(n), np.arange(n))
    train, validation = _random_split(numbered, [0.9, 0.1], Path())
    theirs = torch.utils.data.random_split(range(n), [0.9, 0.1], generator=torch.Generator().manual_seed(42))
    order = torch.randperm(n, generator=torch.Generator().manual_seed(42)).numpy()
    for ours, their, ordered in zip((train, validation), theirs, (order[:n_train], order[n_train:]), strict=True):
        np.testing.assert_array_equal(ours.labels, their)
        np.testing.assert_array_equal(ours.labels, ordered)


def test_the_test_images_of_cifar100_are_halved(tmp_path):
    train, test = images(3, 100), images(20, 100, seed=1)
    write_arrays(tmp_path, train=train, test=test)
    found = image_set("cifar100", tmp_path)
    order = torch.randperm(20, generator=torch.Generator().manual_seed(42)).numpy()
    assert_same(found.train, train)
    assert_same(found.validation, test.at(order[:10]))
    assert_same(found.test, test.at(order[10:]))
    assert found.origin.endswith("test images in half (validation, test) by torch.randperm with seed 42")


@pytest.mark.parametrize("name", names())
def test_validation_images_that_are_there_are_used_as_they_are(tmp_path, name):
    splits = {"train": images(3), "val": images(2, seed=1), "test": images(4, seed=2)}
    write_arrays(tmp_path / name, **splits)
    found = image_set(name, tmp_path)
    assert_same(found.train, splits["train"])
    assert_same(found.validation, splits["val"])
    assert_same(found.test, splits["test"])
    assert found.origin == f"{ORIGINALS[name].title}, arrays in {name}, validation split as found there"


@pytest.mark.parametrize(("name", "n_train", "n_test"), [("cifar10", 9, 9), ("cifar100", 9, 1)])
def test_too_few_images_to_set_some_aside_are_refused(tmp_path, name, n_train, n_test):
    write_arrays(tmp_path, train=images(n_train), test=images(n_test))
    with pytest.raises(FormatError, match=r"too few to set validation images aside\. Add some, or a split `val`\."):
        image_set(name, tmp_path)


# Layouts.


@pytest.mark.parametrize(("n", "in_each", "columns"), [(230, 100, 100), (23, 8, 4)])
def test_mosaics_are_read_in_order_and_padding_is_left_out(tmp_path, n, in_each, columns):
    splits = {"train": images(n), "val": images(8, seed=1), "test": images(3, seed=2)}
    write_mosaics(tmp_path / "svhn", **splits, in_each=in_each, columns=columns)
    told = []
    found = image_set("svhn", tmp_path, report=lambda *each: told.append(each))
    assert_same(found.train, splits["train"])
    assert_same(found.validation, splits["val"])
    assert_same(found.test, splits["test"])
    assert found.origin == "SVHN, WebP mosaics in svhn, validation split as found there"
    assert told[:3] == [(f"reading train-0{i}.webp", i, 3) for i in range(3)]


@pytest.mark.parametrize("name", ["cifar10", "cifar100"])
@pytest.mark.parametrize("n_train", [50, 53])
def test_cifar_is_read_from_its_archive_and_from_the_folder_in_it(tmp_path, monkeypatch, name, n_train):
    n_classes = ORIGINALS[name].n_classes
    train, test = images(n_train, n_classes), images(10, n_classes, seed=1)
    batches = cifar_batches(name, train, test)
    write_arrays(tmp_path / "arrays", train=train, test=test)
    write_unpacked(tmp_path / "unpacked" / INSIDE[name], batches)
    (tmp_path / "packed").mkdir()
    write_archive(tmp_path / "packed" / ARCHIVE[name], INSIDE[name], batches)
    publish(monkeypatch, tmp_path / "packed", name)
    expected = image_set(name, tmp_path / "arrays")
    for folder in ("packed", "unpacked", f"unpacked/{INSIDE[name]}"):
        found = image_set(name, tmp_path / folder)
        assert_same(found.train, expected.train)
        assert_same(found.validation, expected.validation)
        assert_same(found.test, expected.test)
    assert f"{INSIDE[name]}, not the published batches, " in found.origin
    assert f"public original {ARCHIVE[name]}, " in image_set(name, tmp_path / "packed").origin
    assert sorted(path.name for path in (tmp_path / "packed").iterdir()) == [ARCHIVE[name]]


def test_unpacked_batches_with_the_published_checksums_are_called_so(tmp_path, monkeypatch):
    batches = cifar_batches("cifar100", images(4), images(4))
    write_unpacked(tmp_path / "cifar-100-python", batches)
    checksums = {name: {name: hashlib.md5(batches[name]).hexdigest()} for name in ("train", "test")}
    monkeypatch.setitem(ORIGINALS, "cifar100", replace(ORIGINALS["cifar100"], batches=checksums))
    assert image_set("cifar100", tmp_path).origin.startswith("CIFAR-100, cifar-100-python, the public original, test images")


def test_svhn_is_read_from_its_matlab_files_where_ten_means_zero(tmp_path, monkeypatch):
    train, test = images(30), images(20, seed=1)
    write_svhn(tmp_path, train=train, test=test)
    publish(monkeypatch, tmp_path, "svhn")
    found = image_set("svhn", tmp_path)
    assert 0 in test.labels
    assert_same(found.test, test)
    assert len(found.train) == 27


def test_the_subfolder_of_that_name_comes_first(tmp_path):
    write_arrays(tmp_path, train=images(10), test=images(1))
    write_arrays(tmp_path / "svhn", train=images(10), test=images(2))
    (tmp_path / "cifar10").mkdir()
    assert len(image_set("svhn", tmp_path).test) == 2
    assert len(image_set("cifar10", str(tmp_path)).test) == 1


# Refusals.


def refused(folder, error, match, name="cifar10"):
    with pytest.raises(error, match=match) as caught:
        image_set(name, folder)
    return str(caught.value)


def test_an_unknown_set_is_refused_with_the_list(tmp_path):
    refused(tmp_path, InputError, "`name` must be one of svhn, cifar10, cifar100, got 'mnist'", name="mnist")


def test_a_folder_that_is_not_there_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "none", tmp_path / "file"):
        refused(path, FileNotFoundError, rf"There is no folder {re.escape(str(path))} to read CIFAR-10 from\.")


def test_a_folder_without_the_set_says_what_was_looked_for_and_what_is_there(tmp_path):
    message = refused(tmp_path, FileNotFoundError, "holds no CIFAR-10")
    assert "There is nothing in it." in message
    (tmp_path / "photos").mkdir()
    (tmp_path / "notes.txt").write_text("")
    message = refused(tmp_path, FileNotFoundError, "holds no SVHN", name="svhn")
    for text in ("train_32x32.mat and test_32x32.mat", "train-00.webp", "train_images.npy", "There is notes.txt, photos/."):
        assert text in message
    for i in range(9):
        (tmp_path / f"{i}.jpg").write_text("")
    message = refused(tmp_path, FileNotFoundError, "0.jpg, .*, 7.jpg and 3 more")
    assert "cifar-10-python.tar.gz or the folder cifar-10-batches-py unpacked from it" in message
    assert "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz" in message


def test_a_folder_named_after_another_set_is_not_taken_for_this_one(tmp_path):
    write_arrays(tmp_path / "cifar10", train=images(10), test=images(1))
    refused(tmp_path / "cifar10", InputError, "is a folder of cifar10, and svhn was asked for", name="svhn")


@pytest.mark.parametrize("split", ["train", "test"])
def test_a_missing_split_is_named(tmp_path, split):
    splits = {"train": images(10), "test": images(2), "val": images(2)}
    splits.pop(split)
    write_arrays(tmp_path, **splits)
    refused(tmp_path, FileNotFoundError, f"has no split '{split}' of CIFAR-10, only ")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"pixels": np.zeros((9, 32, 32, 3), np.uint8)}, "there are 9 images and 10 labels"),
        ({"pixels": np.zeros((10, 32, 32, 3))}, r"images must be uint8 of shape \(n, 32, 32, 3\), got float64"),
        ({"pixels": np.zeros((10, 3, 32, 32), np.uint8)}, r"got uint8 of shape \(10, 3, 32, 32\)"),
        ({"pixels": np.uint8(0)}, r"got uint8 of shape \(\)"),
        ({"labels": np.zeros(10)}, r"labels must be integers of shape \(n,\), got float64"),
        ({"labels": np.zeros((10, 1), int)}, r"got int64 of shape \(10, 1\)"),
        ({"labels": np.array([*range(9), 10])}, "labels must be from 0 to 9, got 0 to 10. Is this the set"),
        ({"labels": np.array([*range(9), -1])}, "got -1 to 8"),
        ({"pixels": np.zeros((0, 32, 32, 3), np.uint8), "labels": np.zeros(0, int)}, "there is no image"),
    ],
)
def test_arrays_that_are_no_images_are_refused(tmp_path, change, match):
    write_arrays(tmp_path, train=replace(images(10), **change), test=images(2))
    refused(tmp_path, FormatError, rf"train_\*\.npy: .*{match}")


def test_arrays_that_cannot_be_read_are_refused(tmp_path):
    write_arrays(tmp_path, train=images(10), test=images(2))
    path = tmp_path / "train_images.npy"
    whole = path.read_bytes()
    for content in (whole[:-1], whole[:50], b"", b"text", pickle.dumps([1])):
        path.write_bytes(content)
        refused(tmp_path, FormatError, r"train_images\.npy is damaged, or no array")
    with path.open("wb") as stream:
        np.savez(stream, a=1)
    refused(tmp_path, FormatError, "several arrays")
    path.unlink()
    refused(tmp_path, FileNotFoundError, r"There is no .*train_images\.npy")


def test_a_truncated_mosaic_is_refused(tmp_path):
    write_mosaics(tmp_path, train=images(10), test=images(2))
    path = tmp_path / "train-00.webp"
    whole = path.read_bytes()
    for length in (0, 10, 100, len(whole) // 2, len(whole) - 100):
        path.write_bytes(whole[:length])
        refused(tmp_path, FormatError, r"train-00\.webp is truncated, or no image: .*\. Copy it anew\.")


def test_a_picture_that_is_no_mosaic_is_refused(tmp_path):
    write_mosaics(tmp_path, train=images(10), test=images(2))
    Image.new("RGB", (320, 40)).save(tmp_path / "train-00.webp")
    refused(tmp_path, FormatError, "must be made of tiles of 32 x 32 pixels, got 40 x 320")


def test_a_missing_mosaic_is_named(tmp_path):
    write_mosaics(tmp_path, train=images(30), test=images(2), in_each=10, columns=5)
    for number, match in ((2, "there are 20 images and 30 labels"), (0, r"There is no .*train-00\.webp")):
        (tmp_path / f"train-0{number}.webp").unlink()
        refused(tmp_path, (FormatError, FileNotFoundError), match)
    (tmp_path / "train-01.webp").unlink()
    refused(tmp_path, FileNotFoundError, r"There is no .*train-00\.webp")
    write_mosaics(tmp_path, train=images(30))
    (tmp_path / "train-labels.npy").unlink()
    refused(tmp_path, FileNotFoundError, r"There is no .*train-labels\.npy")


def test_labels_of_another_number_than_the_tiles_are_refused(tmp_path):
    write_mosaics(tmp_path, train=images(24), test=images(2), in_each=8, columns=4)
    for n, tiles in ((25, 24), (16, 24), (3, 24)):
        np.save(tmp_path / "train-labels.npy", np.zeros(n, np.uint8))
        refused(tmp_path, FormatError, f"there are {tiles} images and {n} labels")


def test_mosaics_without_pillow_say_what_to_install(tmp_path, monkeypatch):
    write_mosaics(tmp_path, train=images(10), test=images(2))
    for module in [each for each in sys.modules if each.partition(".")[0] == "PIL"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(sys, "path", [])
    refused(tmp_path, ModuleNotFoundError, r"Reading WebP mosaics needs PIL.*nishimori\[train\]")


@pytest.mark.parametrize("damage", [lambda whole: whole[:-7], lambda whole: whole[:99] + b"?" + whole[100:], lambda whole: b""])
def test_a_damaged_archive_is_named_with_both_checksums(tmp_path, monkeypatch, damage):
    path = tmp_path / ARCHIVE["cifar10"]
    write_archive(path, INSIDE["cifar10"], cifar_batches("cifar10", images(20), images(2)))
    publish(monkeypatch, tmp_path, "cifar10")
    path.write_bytes(damage(path.read_bytes()))
    message = refused(tmp_path, FormatError, "is truncated, corrupted, or another file than the one published")
    (file,) = ORIGINALS["cifar10"].files
    found = hashlib.md5(path.read_bytes()).hexdigest()
    assert f"{path} is truncated" in message
    assert f"must be {file.md5}, got {found}" in message
    assert message.endswith(f"Remove it and fetch {file.url} again.")


def test_a_damaged_matlab_file_is_named(tmp_path, monkeypatch):
    write_svhn(tmp_path, train=images(20), test=images(10))
    publish(monkeypatch, tmp_path, "svhn")
    path = tmp_path / "test_32x32.mat"
    path.write_bytes(path.read_bytes()[:-100])
    refused(tmp_path, FormatError, r"test_32x32\.mat is truncated, corrupted", name="svhn")
    path.unlink()
    refused(tmp_path, FileNotFoundError, r"There is no .*test_32x32\.mat\. Fetch http://ufldl", name="svhn")


@pytest.mark.parametrize("content", [b"MATLAB" * 100, b"", None], ids=["text", "empty", "other variables"])
def test_a_matlab_file_of_something_else_is_refused(tmp_path, monkeypatch, content):
    write_svhn(tmp_path, train=images(20), test=images(10))
    path = tmp_path / "train_32x32.mat"
    if content is None:
        scipy.io.savemat(path, {"Z": np.zeros(3)})
    else:
        path.write_bytes(content)
    publish(monkeypatch, tmp_path, "svhn")
    refused(tmp_path, FormatError, r"train_32x32\.mat holds no `X` and `y` of SVHN", name="svhn")


def test_an_archive_without_a_batch_is_refused(tmp_path, monkeypatch):
    batches = cifar_batches("cifar10", images(20), images(2))
    del batches["data_batch_3"]
    write_archive(tmp_path / ARCHIVE["cifar10"], INSIDE["cifar10"], batches)
    publish(monkeypatch, tmp_path, "cifar10")
    refused(tmp_path, FormatError, r"has no data_batch_3\. Fetch it anew\.")
    write_unpacked(tmp_path / "other" / INSIDE["cifar10"], batches)
    refused(tmp_path / "other", FileNotFoundError, r"There is no .*data_batch_3\. Unpack the archive again\.")


class Mischief:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (os.mkdir, (str(self.path),))


def test_a_pickle_runs_nothing(tmp_path):
    batches = cifar_batches("cifar10", images(20), images(2))
    target = tmp_path / "made"
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        batches["data_batch_2"] = pickle.dumps({"data": Mischief(target), "labels": [0]}, protocol)
        folder = tmp_path / str(protocol)
        write_unpacked(folder / INSIDE["cifar10"], batches)
        refused(folder, FormatError, r"data_batch_2: damaged, or no batch: it asks for .*\.mkdir, which no batch needs")
        assert not target.exists()


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"", "damaged, or no batch"),
        (b"text", "damaged, or no batch"),
        (cifar_batch(images(4))[:-500], "damaged, or no batch"),
        (python_2_pickle(data=np.zeros((2, 3072), np.uint8)), "no batch of CIFAR-10, which has `data` and `labels`"),
        (python_2_pickle(data=b"text", labels=[1]), "no batch of CIFAR-10"),
        (pickle.dumps([1, 2], 2), "no batch of CIFAR-10"),
        (python_2_pickle(data=np.zeros((2, 3071), np.uint8), labels=[1, 2]), r"shape \(n, 3072\), got \(2, 3071\)"),
        (python_2_pickle(data=np.zeros((2, 3072), np.uint8), labels=[1]), "there are 2 images and 1 labels"),
        (python_2_pickle(data=np.zeros((2, 3072), np.uint8), labels=[1, 10]), "from 0 to 9, got 1 to 10"),
        (python_2_pickle(data=np.zeros((2, 3072)), labels=[1, 2]), "images must be uint8"),
    ],
)
def test_a_batch_that_is_none_is_refused(tmp_path, content, match):
    batches = cifar_batches("cifar10", images(20), images(2)) | {"data_batch_2": content}
    write_unpacked(tmp_path / INSIDE["cifar10"], batches)
    refused(tmp_path, FormatError, f"data_batch_2: .*{match}")


# The real ones.

COUNTS = {"svhn": (65932, 7325, 26032), "cifar10": (45000, 5000, 10000), "cifar100": (45000, 5000, 10000)}


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.skipif(not DATA or not (DATA / "unpack.py").exists(), reason="NISHIMORI_DATA does not name a folder with mosaics")
def test_the_real_mosaics_are_complete_and_as_their_own_script_unpacks_them(name, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", Image.MAX_IMAGE_PIXELS)  # which the script changes
    tiles = runpy.run_path(str(DATA / "unpack.py"))["tiles"](DATA / name / "test-00.webp")
    found = image_set(name, DATA)
    assert (len(found.train), len(found.validation), len(found.test)) == COUNTS[name]
    assert all(set(each.labels) == set(range(found.n_classes)) for each in (found.train, found.validation, found.test))
    np.testing.assert_array_equal(found.test.pixels[: len(tiles)], tiles)
