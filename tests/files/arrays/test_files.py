"""Files of arrays: read in blocks exactly as stored, and written in blocks exactly as given."""

import os
import subprocess
import sys

import numpy as np
import pytest
from array_files import LABELS, ROWS, blocks, named, refused, saved, whole
from optional import safetensors, torch
from own_process import measure

from nishimori._files.arrays import numpy_files, tensors
from nishimori._files.arrays.files import SUFFIXES, open_arrays
from nishimori._files.arrays.new_arrays import new_arrays
from nishimori.errors import FormatError, InputError

# Reading.


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("n_rows", [1, 4, 10, 11])
def test_blocks_are_consecutive_rows_and_can_be_read_again(tmp_path, suffix, n_rows):
    path = saved(tmp_path / f"x{suffix}", logits=ROWS, labels=LABELS)
    file = open_arrays(path)
    stored = file.array(named(path))
    assert (stored.shape, stored.dtype) == ((10, 3), np.float32)
    for _ in range(2):
        found = list(stored.blocks(n_rows))
        assert [len(each) for each in found] == [len(ROWS[i : i + n_rows]) for i in range(0, 10, n_rows)]
        np.testing.assert_array_equal(np.concatenate(found), ROWS)
    np.testing.assert_array_equal(stored.whole(), ROWS)
    assert type(next(stored.blocks(n_rows))) is np.ndarray


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_upper_case_endings_are_the_same_formats(tmp_path, suffix):
    path = saved(tmp_path / f"x{suffix.upper()}", logits=ROWS)
    np.testing.assert_array_equal(whole(path), ROWS)
    with new_arrays(tmp_path / f"y{suffix.upper()}", (10, 3), np.float32, overwrite=False) as new:
        new.write(ROWS)
    np.testing.assert_array_equal(whole(tmp_path / f"y{suffix.upper()}", "" if suffix == ".npy" else "probabilities"), ROWS)
    assert sorted(each.name for each in tmp_path.iterdir()) == [f"x{suffix.upper()}", f"y{suffix.upper()}"]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_names_are_those_in_the_file(tmp_path, suffix):
    file = open_arrays(saved(tmp_path / f"x{suffix}", logits=ROWS, labels=LABELS))
    assert sorted(file.names) == ([""] if suffix == ".npy" else ["labels", "logits"])
    with pytest.raises(InputError, match=r"x\.\w+ has no array 'z', only '"):
        file.array("z")


DTYPES = ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?"]


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers_of_any_size_are_read_exactly(tmp_path, suffix, dtype):
    values = (np.arange(6).reshape(3, 2) % 2).astype(dtype)
    path = saved(tmp_path / f"x{suffix}", logits=values)
    file = open_arrays(path)
    stored = file.array(named(path))
    assert stored.dtype == np.dtype(dtype)
    assert stored.whole().dtype == np.dtype(dtype)
    np.testing.assert_array_equal(stored.whole(), values)


@pytest.mark.parametrize("suffix", [".npz", ".npy"])
@pytest.mark.parametrize("dtype", [">f4", ">f8", ">i4", "<f4", np.longdouble])
def test_blocks_have_the_byte_order_of_the_machine(tmp_path, suffix, dtype):
    path = saved(tmp_path / f"x{suffix}", logits=ROWS.astype(dtype))
    for block in blocks(path, 4):
        assert block.dtype.isnative
    np.testing.assert_array_equal(np.concatenate(blocks(path, 4)), ROWS.astype(dtype))


@pytest.mark.parametrize("suffix", [".npz", ".npy"])
def test_a_byte_that_is_neither_true_nor_false_counts_as_true(tmp_path, suffix):
    path = saved(tmp_path / f"x{suffix}", logits=np.array([0, 1, 5], np.uint8).view(bool))
    assert whole(path).view(np.uint8).tolist() == [0, 1, 1]


@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
def test_bfloat16_becomes_float32(tmp_path, suffix):
    path, values = tmp_path / f"x{suffix}", torch.from_numpy(ROWS).bfloat16()
    (torch.save if suffix == ".pt" else safetensors.torch.save_file)({"logits": values}, path)
    file = open_arrays(path)
    assert file.array("logits").dtype == np.float32
    for block in blocks(path, 4):
        assert block.dtype == np.float32
    np.testing.assert_array_equal(np.concatenate(blocks(path, 4)), values.float().numpy())


@pytest.mark.parametrize("write", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("order", ["C", "F"])
def test_members_are_read_in_either_order_stored_or_compressed(tmp_path, write, order):
    path = tmp_path / "x.npz"
    write(path, logits=np.asarray(ROWS, order=order))
    for n_rows in (3, 10):
        np.testing.assert_array_equal(np.concatenate(blocks(path, n_rows)), ROWS)
        assert len(blocks(path, n_rows)) == -(-10 // n_rows)


def test_a_npy_file_in_fortran_order_is_read_by_rows(tmp_path):
    path = saved(tmp_path / "x.npy", logits=np.asfortranarray(ROWS))
    np.testing.assert_array_equal(np.concatenate(blocks(path, 3)), ROWS)


def test_a_tensor_that_is_not_contiguous_or_has_a_gradient_is_read_by_rows(tmp_path):
    path = tmp_path / "x.pt"
    content = torch.from_numpy(np.ascontiguousarray(ROWS.T))
    torch.save({"logits": content.T, "parameter": torch.nn.Parameter(content)}, path)
    np.testing.assert_array_equal(np.concatenate(blocks(path, 3)), ROWS)
    np.testing.assert_array_equal(whole(path, "parameter"), ROWS.T)


def test_files_of_old_pytorch_are_read_if_they_are_small(tmp_path, monkeypatch):
    path = tmp_path / "x.pt"
    torch.save({"logits": torch.from_numpy(ROWS)}, path, _use_new_zipfile_serialization=False)
    np.testing.assert_array_equal(np.concatenate(blocks(path, 3)), ROWS)
    monkeypatch.setattr(tensors, "_LARGEST_OLD", 100)
    refused(path, r"was written by an old PyTorch, in a format for small files\. Load it and save it again\.$")


def test_text_is_accepted_for_labels_only(tmp_path):
    words = np.array(["ant", "béé", "日本"])
    for suffix in (".npz", ".npy"):
        for stored in (words, words.astype(">U3"), np.char.encode(words, "utf-8")):
            path = saved(tmp_path / f"x{suffix}", logits=stored)
            file = open_arrays(path)
            labels = file.labels(named(path))
            assert labels.dtype.kind == "U"
            assert labels.whole().tolist() == words.tolist()
            assert [each.tolist() for each in labels.blocks(2)] == [["ant", "béé"], ["日本"]]
            refused(path, r"must hold numbers, got dtype .* Convert it to float32 first\.$")
    file = open_arrays(saved(tmp_path / "x.npz", logits=LABELS))
    np.testing.assert_array_equal(file.labels("logits").whole(), LABELS)


@pytest.mark.parametrize("stored", [np.array([b"\xff\xfe"]), np.array([0x110000, 65], np.uint32).view("U2")])
def test_labels_that_are_not_text_are_refused(tmp_path, stored):
    path = saved(tmp_path / "x.npz", logits=stored)

    def labels(path):
        file = open_arrays(path)
        file.labels("logits").whole()

    refused(path, r"has labels that are not text\. Save them again as text in UTF-8\.$", labels)


def test_a_lone_surrogate_is_not_text(tmp_path):
    path = saved(tmp_path / "x.npy", labels=np.array([0xD800], np.uint32).view("U1"))
    file = open_arrays(path)
    with pytest.raises(FormatError, match="not text"):
        file.labels("").whole()


@pytest.mark.parametrize("kind", [*(f"x{suffix}" for suffix in SUFFIXES), "compressed.npz", "columns.npy", "columns.npz"])
def test_any_run_of_rows_can_be_read(tmp_path, kind):
    path, values = tmp_path / kind, np.arange(120).reshape(4, 10, 3)
    stored = np.asfortranarray(values) if kind.startswith("columns") else values
    np.savez_compressed(path, logits=stored) if kind == "compressed.npz" else saved(path, logits=stored)
    array = open_arrays(path).array(named(path))
    assert (array.shape, array.n_rows) == ((4, 10, 3), 40)
    assert array.together == (10 if path.suffix == ".safetensors" else 1)
    for start, stop in [(0, 40), (10, 30), (20, 30)] + [(7, 31), (39, 40)] * (array.together == 1):
        np.testing.assert_array_equal(array.rows(start, stop), values.reshape(40, 3)[start:stop])
    np.testing.assert_array_equal(array.whole(), values)
    np.testing.assert_array_equal(np.concatenate(list(array.blocks(11))), values.reshape(40, 3))


TOO_LARGE = r"'logits' in .* is compressed, and its 248 bytes do not fit in memory\. Convert it to \.npy, which is read"


def test_a_compressed_member_must_fit_in_memory(tmp_path, monkeypatch):
    path = tmp_path / "x.npz"
    np.savez_compressed(path, logits=ROWS)
    monkeypatch.setattr(numpy_files, "_free_memory", lambda: 248)
    np.testing.assert_array_equal(whole(path), ROWS)
    monkeypatch.setattr(numpy_files, "_free_memory", lambda: 247)
    refused(path, TOO_LARGE)


def test_a_compressed_member_for_which_a_program_has_no_memory_is_refused(tmp_path, monkeypatch):
    def unpack(*_):
        raise MemoryError

    path = tmp_path / "x.npz"
    np.savez_compressed(path, logits=ROWS)
    monkeypatch.setattr(numpy_files, "_unpack", unpack)
    refused(path, TOO_LARGE)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the system does not say it")
def test_free_memory_is_that_of_the_system():
    pages, available = (os.sysconf(name) for name in ("SC_PHYS_PAGES", "SC_AVPHYS_PAGES"))
    # What caches hold is available, too, so that there is more than what nothing uses, and less than all of it.
    assert 0.5 * available < numpy_files._free_memory() / os.sysconf("SC_PAGE_SIZE") < pages


@pytest.mark.parametrize("write", [np.savez, np.savez_compressed])
def test_a_single_value_is_an_array_of_one_row(tmp_path, write):
    write(tmp_path / "x.npz", notes=np.array("words"))
    assert open_arrays(tmp_path / "x.npz").stored("notes").rows(0, 1).tolist() == ["words"]


def test_constant_arrays_are_read_however_well_they_are_compressed(tmp_path):
    path, rows = tmp_path / "x.npz", np.zeros((10_000_000, 2), np.int8)
    np.savez_compressed(path, logits=rows)
    assert 500 * path.stat().st_size < rows.nbytes
    assert open_arrays(path).array("logits").rows(9_999_999, 10_000_000).tolist() == [[0, 0]]


@pytest.mark.parametrize("suffix", [".npz", ".npy"])
def test_a_file_that_changes_after_it_was_opened_is_refused(tmp_path, suffix):
    path = saved(tmp_path / f"x{suffix}", logits=ROWS)
    stored = open_arrays(path).array(named(path))
    stored.rows(0, 2)
    saved(path, logits=np.concatenate([ROWS, ROWS]))
    with pytest.raises(FormatError, match=r"has changed since it was first read\. Start again when it is complete\.$"):
        stored.rows(0, 2)


# Memory: a block, not the array.


@pytest.mark.parametrize("kind", ["x.npy", "x.npz", "x.pt", "x.safetensors"])
def test_reading_and_writing_take_the_memory_of_a_block(tmp_path, kind):
    path = tmp_path / kind
    rows = np.zeros((400_000, 8), np.float32)  # 13 MB
    saved(path, logits=rows)
    peak, n_found = measure("array_files", path=path, name=named(path), target=tmp_path / f"new{path.suffix}")
    assert n_found == 400_000
    assert peak < rows.nbytes / 4


# Writing.


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_other_libraries_read_the_bits_that_were_written(tmp_path, suffix, dtype):
    path, rows = tmp_path / f"x{suffix}", ROWS.astype(dtype)
    with new_arrays(path, rows.shape, dtype, overwrite=False) as new:
        for part in np.array_split(rows, 3):
            new.write(part)
    match suffix:
        case ".npz":
            with np.load(path, allow_pickle=False) as archive:
                found = archive["probabilities"]
        case ".npy":
            found = np.load(path, allow_pickle=False)
        case ".safetensors":
            found = safetensors.numpy.load_file(path)["probabilities"]
        case _:
            found = torch.load(path, weights_only=True)["probabilities"].numpy()
    assert found.dtype == np.dtype(dtype)
    assert found.tobytes() == rows.tobytes()
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("suffix", [".npz", ".npy", ".safetensors"])
def test_files_are_those_of_the_formats_own_libraries(tmp_path, suffix):
    with new_arrays(tmp_path / f"x{suffix}", (10, 3), np.float32, overwrite=False) as new:
        new.write(ROWS)
    assert (tmp_path / f"x{suffix}").read_bytes() == saved(tmp_path / f"y{suffix}", probabilities=ROWS).read_bytes()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_rows_in_another_dtype_or_order_are_converted(tmp_path, suffix):
    path = tmp_path / f"x{suffix}"
    with new_arrays(path, (10, 3), np.float64, overwrite=False) as new:
        new.write(np.asfortranarray(ROWS[:4]))
        new.write(ROWS[::-1][:6].astype(">f8"))
    expected = np.concatenate([ROWS[:4], ROWS[::-1][:6]]).astype(np.float64)
    np.testing.assert_array_equal(whole(path, "" if suffix == ".npy" else "probabilities"), expected)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_an_existing_file_is_replaced_only_on_request(tmp_path, suffix):
    path = tmp_path / f"x{suffix}"
    path.write_bytes(b"mine")
    with pytest.raises(FileExistsError, match="overwrite=True"), new_arrays(path, (10, 3), "f4", overwrite=False):
        pytest.fail("began to write")
    assert path.read_bytes() == b"mine"
    with new_arrays(path, (10, 3), "f4", overwrite=True) as new:
        new.write(ROWS)
    np.testing.assert_array_equal(whole(path, "" if suffix == ".npy" else "probabilities"), ROWS)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("fails", ["interrupted", "too few rows", "too many rows"])
def test_nothing_is_left_of_a_file_that_was_not_finished(tmp_path, suffix, fails):
    def attempt():
        with new_arrays(tmp_path / f"x{suffix}", (10, 3), "f4", overwrite=False) as new:
            new.write(ROWS[:5])
            if fails == "interrupted":
                raise KeyboardInterrupt
            if fails == "too many rows":
                new.write(ROWS)

    if fails == "interrupted":
        with pytest.raises(KeyboardInterrupt):
            attempt()
    else:
        with pytest.raises(
            InputError, match=rf"x{suffix} must get 10 rows, got (5|15)\. Check that its source did not change\."
        ):
            attempt()
    assert list(tmp_path.iterdir()) == []


FULL = """
import os, resource, sys, numpy as np
from pathlib import Path
from nishimori._files.arrays.new_arrays import new_arrays
path = Path(sys.argv[1])
if path.suffix in (".pt", ".pth"):
    import torch
for limit in sys.argv[2:]:
    # Each limit in a process of its own, because it cannot be raised again; forked, because imports take seconds.
    if child := os.fork():
        os.waitpid(child, 0)
        continue
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit),) * 2)
    try:
        with new_arrays(path, (4000, 100), "f4", overwrite=False) as new:
            for _ in range(4):
                new.write(np.zeros((1000, 100)))
    except OSError as error:
        print(limit, type(error).__name__, error.errno, "\\n" in str(error), os.listdir(path.parent), flush=True)
    os._exit(0)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits the size of files")
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_full_disk_is_an_error_of_the_system_and_leaves_nothing(tmp_path, suffix):
    pytest.importorskip({".pt": "torch", ".pth": "torch", ".safetensors": "safetensors"}.get(suffix, "numpy"))
    limits = ["0", "100000", "1599000"]
    if suffix != ".safetensors":  # whose header is small
        limits.append("1600100")  # the rows fit, the finished file does not
    command = [sys.executable, "-c", FULL, tmp_path / f"x{suffix}", *limits]
    ended = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.splitlines() == [f"{limit} OSError 27 False []" for limit in limits]


def test_an_unknown_ending_is_refused(tmp_path):
    (tmp_path / "x.txt").touch()
    for attempt in (open_arrays, lambda path: new_arrays(path, (1, 1), "f4", overwrite=True).__enter__()):
        with pytest.raises(InputError, match=r"unknown ending\. Use one of \.npz, \.npy, \.pt, \.pth, \.safetensors\."):
            attempt(tmp_path / "x.txt")
    with pytest.raises(FileNotFoundError, match=r"There is no file .*none\.npz"):
        open_arrays(tmp_path / "none.npz")


def test_tensors_are_memory_mapped(tmp_path, monkeypatch):
    path, load, asked = saved(tmp_path / "x.pt", logits=ROWS), torch.load, []
    monkeypatch.setattr(torch, "load", lambda *args, **options: asked.append(options) or load(*args, **options))
    np.testing.assert_array_equal(whole(path), ROWS)
    assert [(each["mmap"], each["weights_only"], each["map_location"]) for each in asked] == [(True, True, "cpu")]
