"""Files of arrays that are damaged, renamed, of unusual dtypes, or larger inside than they say: one line, and no memory."""

import io
import json
import pickle
import re
import struct
import warnings
import zipfile

import numpy as np
import pytest
from array_files import LABELS, ROWS, refused, saved, whole
from optional import torch

from nishimori._files.arrays import files, numpy_files, stored_array, tensors
from nishimori._files.arrays.files import SUFFIXES
from nishimori.errors import FormatError, InputError


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_no_rows_and_no_dimensions_are_refused(tmp_path, suffix):
    path = saved(tmp_path / f"x{suffix}", logits=np.zeros((0, 3), np.float32))
    refused(path, r"is empty: its shape is \(0, 3\)\. Save it again with its rows\.$")
    path = saved(tmp_path / f"y{suffix}", logits=np.zeros((3, 0), np.float32))
    refused(path, r"is empty: its shape is \(3, 0\)")
    path = saved(tmp_path / f"z{suffix}", logits=np.array(1.0))
    refused(path, r"must have one row per sample, got an array of shape \(\)\.$")


EXOTIC = {
    "complex": np.zeros(3, complex),
    "dates": np.zeros(3, "M8[s]"),
    "durations": np.zeros(3, "m8[s]"),
    "bytes": np.zeros(3, "V4"),
    "fields": np.zeros(3, [("a", "f4"), ("b", "i8")]),
    "text": np.array(["1.0"]),
    "text of no length": np.zeros(3, "U0"),
}


@pytest.mark.parametrize("what", EXOTIC)
@pytest.mark.parametrize("suffix", [".npz", ".npy"])
def test_what_is_not_a_number_is_refused(tmp_path, what, suffix):
    path = saved(tmp_path / f"x{suffix}", logits=EXOTIC[what])
    refused(path, r"must hold numbers, got dtype .* Convert it to float32 first\.$")


@pytest.mark.parametrize("suffix", [".npz", ".npy"])
def test_pickled_objects_are_refused(tmp_path, suffix):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = saved(tmp_path / f"x{suffix}", logits=np.array([{}, None], dtype=object))
    refused(
        path,
        r"holds pickled Python objects, which are never loaded\. Save scores as an array of numbers\. Save labels as numbers "
        r"or text, as with labels\.astype\('U'\)\.$",
    )


def unusual(kind):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        match kind:
            case "float8":
                return torch.zeros(3).to(torch.float8_e4m3fn)
            case "sparse":
                return torch.eye(3).to_sparse()
            case "sparse rows":
                return torch.eye(3).to_sparse_csr()
            case "quantised":
                return torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.quint8)
            case "nested":
                return torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
            case "meta":
                return torch.ones(3, device="meta")
            case "complex":
                return torch.zeros(3, dtype=torch.complex64)
            case "expanded":
                return torch.zeros(1).expand(10**12, 3)
            case "bytes":
                return bytearray(3)
            case "number":
                return 3


UNUSUAL = {
    "float8": r"'logits' in .* has the dtype torch\.float8_e4m3fn, which NumPy does not have\. Convert it to float32 first\.$",
    "sparse": r"not a file of plain tensors: it refers to 'torch\._utils _rebuild_sparse_tensor'\. Save \{name: tensor\}",
    "sparse rows": r"not a file of plain tensors: it refers to 'torch\._utils _rebuild_sparse_tensor'\. Save",
    "quantised": r"not a file of plain tensors: it refers to 'torch\._utils _rebuild_qtensor'\. Save \{name: tensor\}",
    "nested": r"not a file of plain tensors: it refers to 'torch\._utils _rebuild_nested_tensor'\. Save \{name: tensor\}",
    "meta": r"not a file of plain tensors: it refers to 'torch\._utils _rebuild_meta_tensor_no_storage'\. Save",
    "complex": r"must hold numbers, got dtype complex64",
    "expanded": r"repeats its elements\. Save `tensor\.contiguous\(\)` instead\.$",
    "bytes": r"not a file of plain tensors: it refers to '__builtin__ bytearray'\. Save \{name: tensor\}",
    "number": r"'logits' in .* must be a tensor, got a int\. Save \{name: tensor\} with torch\.save\.$",
}


@pytest.mark.parametrize("kind", UNUSUAL)
def test_unusual_tensors_are_refused_with_what_to_do(tmp_path, kind):
    path = tmp_path / "x.pt"
    torch.save({"logits": unusual(kind)}, path)
    refused(path, UNUSUAL[kind])


@pytest.mark.parametrize("content", [[1, 2], torch.zeros(3), {3: torch.zeros(3)}], ids=["list", "tensor", "number as a name"])
def test_a_pt_file_must_be_a_dictionary_with_names(tmp_path, content):
    path = tmp_path / "x.pt"
    torch.save(content, path)
    refused(path, r"must (hold a dictionary of tensors, got a \w+|have text as names, got 3)\. Save \{name: tensor\} with")


def test_instructions_that_allocate_memory_are_not_followed(tmp_path):
    path = tmp_path / "x.pt"
    torch.save({"logits": torch.zeros(3)}, path)
    bomb = b"\x80\x02}X\x01\x00\x00\x00ac__builtin__\nbytearray\n\x8a\x05\x00\x00\x00\x00\x20\x85Rs."
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(tmp_path / "y.pt", "w") as new:
        for member in old.infolist():
            new.writestr(member.filename, bomb if member.filename.endswith("data.pkl") else old.read(member))
    refused(tmp_path / "y.pt", "refers to '__builtin__ bytearray'")
    (tmp_path / "z.pt").write_bytes(b"".join(pickle.dumps(0, 2) for _ in range(3)) + bomb)
    refused(tmp_path / "z.pt", "refers to '__builtin__ bytearray'")


@pytest.mark.parametrize("dtype", ["F8_E4M3", "F8_E5M2", "F4", "C64", "F6_E2M3", "F8_E8M0"])
def test_unusual_safetensors_are_refused(tmp_path, dtype):
    bits = {"C64": 64, "F4": 4, "F6_E2M3": 6}.get(dtype, 8)
    path = tmp_path / "x.safetensors"
    header = json.dumps({"logits": {"dtype": dtype, "shape": [4], "data_offsets": [0, bits // 2]}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(bits // 2))
    refused(path, r"has the dtype \w+, which NumPy does not have\. Convert it to float32 first\.$|is not a readable")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_an_empty_file_is_refused(tmp_path, suffix):
    (tmp_path / f"x{suffix}").touch()
    refused(tmp_path / f"x{suffix}", "is empty|is not a readable")


@pytest.mark.parametrize(
    ("content", "called", "message"),
    [
        (".npy", ".npz", "holds a single .npy array. Rename it to x.npy."),
        (".npy", ".pt", "holds a single .npy array. Rename it to x.npy."),
        (".npz", ".npy", "is an archive of arrays. Rename it to x.npz."),
        (".npz", ".pt", "holds NumPy arrays. Rename it to x.npz."),
        (".pt", ".npz", "is a file of PyTorch. Rename it to x.pt."),
        (".safetensors", ".npz", "Save it again with numpy.savez."),
        (".npz", ".safetensors", "Save it again with safetensors."),
    ],
)
def test_a_file_with_the_ending_of_another_format_is_recognised(tmp_path, content, called, message):
    path = saved(tmp_path / f"original{content}", logits=ROWS, labels=LABELS).rename(tmp_path / f"x{called}")
    refused(path, re.escape(message) + "$")


def member(path, content, **about):
    """An archive with one member, whose entry in the directory is changed."""
    with zipfile.ZipFile(path, "w", about.pop("compression", zipfile.ZIP_STORED)) as archive:
        archive.writestr("logits.npy", content)
        for name, value in about.items():
            setattr(archive.infolist()[0], name, value)
    return path


def npy_content(shape, content=b"", dtype="<f4"):
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"shape": shape, "fortran_order": False, "descr": dtype})
    return stream.getvalue() + content


@pytest.mark.parametrize("suffix", [".npz", ".npy"])
@pytest.mark.parametrize("shape", [(10**6, 10**6), (3,), (11, 3), (-10, -3), (10**30, 2), (10**4000,)])
def test_an_array_must_have_the_size_that_its_header_gives(tmp_path, suffix, shape):
    path, content = tmp_path / f"x{suffix}", npy_content(shape, ROWS.tobytes())
    path.write_bytes(content) if suffix == ".npy" else member(path, content)
    refused(
        path, r"is truncated or damaged: its header describes .* bytes, but there are 120\. Save it again|is not a plain NumPy"
    )


def test_more_inside_a_member_than_the_directory_says_is_refused(tmp_path):
    content = npy_content((10, 3), ROWS.tobytes())
    refused(member(tmp_path / "x.npz", content + bytes(10**6), file_size=len(content)), "is damaged")
    path = member(tmp_path / "y.npz", content + bytes(10**6), file_size=len(content), compression=zipfile.ZIP_DEFLATED)
    refused(path, "is damaged")
    refused(member(tmp_path / "z.npz", content, file_size=10**15), "header describes 120 bytes, but there are 9999")


def test_a_small_archive_of_a_huge_array_is_refused_before_it_is_read(tmp_path):
    content = npy_content((2**28, 2))
    path = member(tmp_path / "x.npz", content, file_size=len(content) + 2**31)
    message = refused(
        path, r"would grow from \d+ to 2147483648 bytes, more than real arrays do\. Save it again with numpy\.savez"
    )
    assert "'logits'" in message
    compressed = member(tmp_path / "y.npz", content, file_size=len(content) + 2**31, compression=zipfile.ZIP_DEFLATED)
    refused(compressed, "would grow from")


def test_rows_that_are_too_long_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(stored_array, "_LONGEST_ROW", 11)
    refused(saved(tmp_path / "x.npy", logits=ROWS), r"has rows of 12 bytes\. It must have one row per sample: transpose it")


@pytest.mark.parametrize(
    "header",
    [
        b"{" * 9000,
        b"(" * 5000,
        b"{'descr': 'f4'",
        b"'\\",
        b"9" * 6000,
        b"[" * 9000 + b"]" * 900,
        b"\xff" * 100,
        b"{'a': " * 900,
    ],
)
@pytest.mark.parametrize("version", [b"\1\0", b"\2\0", b"\3\0", b"\7\7"])
def test_headers_that_cannot_be_parsed_are_refused(tmp_path, header, version):
    path = tmp_path / "x.npy"
    length = struct.pack("<H" if version == b"\1\0" else "<I", len(header))
    path.write_bytes(b"\x93NUMPY" + version + length + header + bytes(100))
    refused(path, r"is not a plain NumPy array, or is damaged\. Save it again with NumPy\.$")


@pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_compressions_are_refused(tmp_path, compression):
    path = member(tmp_path / "x.npz", npy_content((10, 3), ROWS.tobytes()), compression=compression)
    refused(path, r"uses a compression method that NumPy does not use\. Save it again with numpy\.savez\.$")


def test_encrypted_members_are_refused(tmp_path):
    path = member(tmp_path / "x.npz", npy_content((10, 3), ROWS.tobytes()), flag_bits=1)
    refused(path, r"'logits' in .* is damaged, or not an archive of arrays\. Save it again with numpy\.savez\.$")


def test_a_member_that_is_not_an_array_is_refused_when_it_is_read(tmp_path):
    path = saved(tmp_path / "x.npz", logits=ROWS)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("notes.txt", "hello")
    np.testing.assert_array_equal(whole(path), ROWS)
    refused(path, r"'notes\.txt' in .* is not a plain NumPy array", lambda path: whole(path, "notes.txt"))


def test_two_arrays_of_the_same_name_are_refused(tmp_path):
    path = saved(tmp_path / "x.npz", logits=ROWS)
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("logits.npy", npy_content((1,), bytes(4)))
    refused(path, r"has two arrays of the same name\. Save it again with numpy\.savez\.$")


def test_very_many_members_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w") as archive:
        for i in range(100):
            archive.writestr(f"{i}.npy", b"")
    monkeypatch.setattr(numpy_files, "_LARGEST_DIRECTORY", 100 * 46)
    refused(path, r"has too many members\. Save only the arrays that are needed\.$")


def test_very_many_tensors_are_refused(tmp_path, monkeypatch):
    path = saved(tmp_path / "x.safetensors", **{str(i): ROWS for i in range(20)})
    monkeypatch.setattr(files, "_LONGEST_HEADER", 1000)
    refused(path, r"has too many tensors\. Save only those that are needed\.$", lambda path: whole(path, "3"))
    path = saved(tmp_path / "x.pt", logits=ROWS)
    monkeypatch.setattr(tensors, "_LONGEST", 20)
    refused(path, "holds too many objects")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_truncated_file_is_refused_wherever_it_ends(tmp_path, suffix):
    path = saved(tmp_path / f"x{suffix}", logits=ROWS)
    content = path.read_bytes()
    for length in (*range(0, len(content), 29), len(content) - 1):
        path.write_bytes(content[:length])
        with pytest.raises(FormatError, match=rf"x{suffix}.*\.$"):
            whole(path)


@pytest.mark.parametrize("kind", ["x.npy", "x.npz", "compressed.npz", "x.pt", "old.pt", "x.safetensors"])
def test_changed_bytes_are_noticed_or_give_an_array(tmp_path, kind):
    path, rng = tmp_path / kind, np.random.default_rng(1)
    if kind == "old.pt":
        torch.save({"logits": torch.from_numpy(ROWS)}, path, _use_new_zipfile_serialization=False)
    else:
        np.savez_compressed(path, logits=ROWS) if kind == "compressed.npz" else saved(path, logits=ROWS)
    content, n_refused = path.read_bytes(), 0
    for _ in range(300):
        changed = bytearray(content)
        for _ in range(rng.integers(1, 4)):
            changed[rng.integers(len(content))] ^= rng.integers(1, 256)
        path.write_bytes(changed)
        try:
            found = whole(path)
        except (FormatError, InputError):
            n_refused += 1
        else:
            assert found.dtype.kind in "fiub"
            assert found.nbytes < 1e6
            if path.suffix == ".npz":  # has checksums
                np.testing.assert_array_equal(found, ROWS)
    assert n_refused > 20


def test_a_compressed_file_of_pytorch_is_refused(tmp_path):
    path = saved(tmp_path / "original.pt", logits=ROWS)
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(tmp_path / "x.pt", "w", zipfile.ZIP_DEFLATED) as new:
        for each in old.infolist():
            new.writestr(each.filename, old.read(each))
    refused(tmp_path / "x.pt", r"is compressed, which PyTorch does not do\. Save \{name: tensor\} with torch\.save\.$")


def test_a_changed_byte_far_from_the_header_of_a_stored_member_is_noticed(tmp_path):
    path = saved(tmp_path / "x.npz", logits=np.zeros((10_000, 3), np.float32))
    content = bytearray(path.read_bytes())
    content[100_000] ^= 1
    path.write_bytes(content)
    refused(path, r"'logits' in .* is damaged, or not an archive of arrays\. Save it again with numpy\.savez\.$")
