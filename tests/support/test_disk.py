"""Files that are complete or not there, whoever writes at the same time and however the writing ends."""

import errno
import os
import re
import resource
import secrets
import socket
import stat
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from nishimori._support.disk import check_folder, check_target, existing_file, new_file
from nishimori.errors import InputError

root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


def write(path, text, *, overwrite=True):
    with new_file(path, overwrite=overwrite) as temporary:
        temporary.write_text(text)


def mode(path):
    return stat.S_IMODE(os.lstat(path).st_mode)


@pytest.fixture
def umask():
    """Set the mask of new files' permissions for one test."""
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


@pytest.fixture
def full_disk():
    """Files of more than 20 kB do not fit, in this process and for the duration of the test."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_threads_that_save_to_one_path_leave_a_whole_file_at_every_moment(tmp_path):
    path, texts = tmp_path / "c.json", [digit * 20_000 for digit in "1234"]
    path.write_text(texts[0])
    seen, errors, done = set(), [], threading.Event()

    def save(text):
        try:
            for _ in range(100):
                write(path, text)
        except Exception as error:
            errors.append(error)

    def read():
        try:
            while not done.is_set():
                seen.add(path.read_text())
        except Exception as error:
            errors.append(error)

    writers = [threading.Thread(target=save, args=[text]) for text in texts]
    reader = threading.Thread(target=read)
    for thread in (reader, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    reader.join()
    assert errors == []
    assert seen <= set(texts)
    assert os.listdir(tmp_path) == ["c.json"]


_WRITER = """
import sys
from nishimori._support.disk import new_file
try:
    with new_file("c.json", overwrite=False) as temporary:
        temporary.write_text(sys.argv[1])
        print("written", flush=True)
        sys.stdin.readline()
except FileExistsError as error:
    sys.exit(f"{error}")
"""


def test_of_eight_processes_without_overwrite_one_wins_and_the_others_are_told(tmp_path):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    command = [sys.executable, "-c", _WRITER]
    writers = [subprocess.Popen([*command, str(k)], cwd=tmp_path, text=True, **pipes) for k in range(8)]
    for each in writers:
        assert each.stdout.readline() == "written\n"  # all have seen that the file does not exist
    said = []
    for each in writers:
        each.stdin.write("\n")
        each.stdin.flush()
    for each in writers:
        said.append(each.communicate()[1].strip())
    (winner,) = (k for k, each in enumerate(writers) if each.returncode == 0)
    assert (tmp_path / "c.json").read_text() == str(winner)
    assert sorted(said) == ["", *["c.json exists. Pass `overwrite=True` to replace it."] * 7]
    assert os.listdir(tmp_path) == ["c.json"]


@pytest.mark.parametrize("links", [True, False], ids=["hard links", "no hard links"])
def test_a_file_that_appears_during_the_writing_is_kept(links, tmp_path, monkeypatch):
    if not links:
        monkeypatch.setattr(os, "link", no_links)
    path = tmp_path / "c.json"
    refused = pytest.raises(FileExistsError, match=r"c\.json exists\. Pass `overwrite=True` to replace it\.$")
    with refused, new_file(path, overwrite=False) as temporary:
        temporary.write_text("new")
        path.write_text("other")
    assert (path.read_text(), os.listdir(tmp_path)) == ("other", ["c.json"])


def no_links(*_):
    raise PermissionError(errno.EPERM, "Operation not permitted")


def test_file_systems_without_hard_links_can_be_written(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "link", no_links)
    write(tmp_path / "c.json", "new", overwrite=False)
    assert ((tmp_path / "c.json").read_text(), os.listdir(tmp_path)) == ("new", ["c.json"])


def test_a_name_that_was_claimed_in_vain_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "link", no_links)
    monkeypatch.setattr(os, "replace", no_links)
    with pytest.raises(PermissionError):
        write(tmp_path / "c.json", "new", overwrite=False)
    assert os.listdir(tmp_path) == []


def test_a_link_at_the_temporary_name_is_not_followed(tmp_path, monkeypatch):
    (tmp_path / "victim").write_text("precious")
    (tmp_path / ".nishimori-guessed.json").symlink_to("victim")
    names = iter(["guessed", "free"])
    monkeypatch.setattr(secrets, "token_hex", lambda _: next(names))
    write(tmp_path / "c.json", "new")
    assert ((tmp_path / "c.json").read_text(), (tmp_path / "victim").read_text()) == ("new", "precious")
    assert (tmp_path / ".nishimori-guessed.json").is_symlink()


def test_a_link_that_takes_the_place_of_the_temporary_file_is_refused(tmp_path):
    (tmp_path / "victim").write_text("precious")
    refused = pytest.raises(InputError, match="Choose a folder of your own")
    with refused, new_file(tmp_path / "c.json", overwrite=False) as temporary:
        temporary.unlink()
        temporary.symlink_to("victim")
    assert os.listdir(tmp_path) == ["victim"]


@pytest.mark.parametrize("points_to", ["victim", "nowhere", "c.json"])
def test_a_link_is_replaced_and_not_written_through(points_to, tmp_path):
    (tmp_path / "victim").write_text("precious")
    path = tmp_path / "c.json"
    path.symlink_to(points_to)
    for refuse in (check_target, lambda path, overwrite: write(path, "new", overwrite=overwrite)):
        with pytest.raises(FileExistsError, match=r"c\.json exists\. Pass `overwrite=True`"):
            refuse(path, overwrite=False)
    assert path.is_symlink()
    write(path, "new")
    assert (path.is_symlink(), path.read_text(), (tmp_path / "victim").read_text()) == (False, "new", "precious")
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize(("private", "becomes"), [(0o600, 0o600), (0o666, 0o644)])
def test_what_replaces_a_link_is_not_more_open_than_the_file_behind_it(private, becomes, tmp_path, umask):
    umask(0o022)
    (tmp_path / "victim").touch()
    (tmp_path / "victim").chmod(private)
    (tmp_path / "c.json").symlink_to("victim")
    write(tmp_path / "c.json", "new")
    assert mode(tmp_path / "c.json") == becomes


@pytest.mark.parametrize("kept", [0o600, 0o640, 0o444, 0o664])
def test_permissions_of_a_replaced_file_are_kept(kept, tmp_path):
    path = tmp_path / "c.json"
    path.touch()
    path.chmod(kept)
    write(path, "new")
    assert (path.read_text(), mode(path)) == ("new", kept)


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002, 0o277])
def test_new_files_have_the_permissions_that_the_user_set(mask, tmp_path, umask):
    umask(mask)
    write(tmp_path / "c.json", "new", overwrite=False)
    assert mode(tmp_path / "c.json") == 0o666 & ~mask


def test_nobody_else_can_read_a_file_before_it_is_complete(tmp_path):
    with new_file(tmp_path / "c.json", overwrite=False) as temporary:
        assert mode(temporary) == 0o600
        temporary.write_text("new")


@root
def test_what_replaces_a_file_of_somebody_else_is_not_more_open(tmp_path, umask):
    path = tmp_path / "c.json"
    path.touch()
    os.chown(path, -1, 2345)
    path.chmod(0o664)
    umask(0o027)
    write(path, "new")
    assert mode(path) == 0o640


@pytest.mark.parametrize("failure", [RuntimeError("broken"), KeyboardInterrupt(), SystemExit(143)], ids=repr)
def test_nothing_is_left_of_a_writing_that_failed(failure, tmp_path):
    with pytest.raises(type(failure)), new_file(tmp_path / "c.json", overwrite=False) as temporary:  # noqa: PT012
        temporary.write_text("a part")
        raise failure
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["out.npz", "out.NPZ", "out.Npz", "v1.2.NPZ"])
def test_numpy_adds_no_second_ending(name, tmp_path):
    with new_file(tmp_path / name, overwrite=False) as temporary:
        np.savez(temporary, a=np.arange(3))
    assert os.listdir(tmp_path) == [name]
    with np.load(tmp_path / name) as saved:
        assert saved["a"].tolist() == [0, 1, 2]


@pytest.mark.parametrize(("name", "ending"), [("a.csv.gz", ".csv.gz"), ("c.json", ".json"), ("plain", "")])
def test_the_temporary_file_has_the_ending_of_its_target(name, ending, tmp_path):
    with new_file(tmp_path / name, overwrite=False) as temporary:
        assert "".join(temporary.suffixes) == ending


@pytest.mark.parametrize("name", ["n" * 250 + ".json", "n." + "e" * 250])
def test_names_can_be_as_long_as_the_system_allows(name, tmp_path):
    write(tmp_path / name, "new", overwrite=False)
    assert os.listdir(tmp_path) == [name]


def failing(tmp_path, kind, raise_, name="out.npy"):
    """The error of a writer that fails in its own way, and the path of its target."""
    path = tmp_path / name
    refused = pytest.raises(kind)
    with refused as caught, new_file(path, overwrite=False) as temporary:
        raise_(temporary)
    assert os.listdir(tmp_path) == []
    return caught.value, path


def no_space(temporary):
    raise OSError(errno.ENOSPC, "No space left on device")


def own_error(temporary):
    temporary.write_bytes(bytes(20_000))
    raise RuntimeError("PytorchStreamWriter failed writing file data/0: file write failed")


def quoted(temporary):
    temporary.unlink()
    raise ValueError("Error while serializing: I/O error: No space left on device (os error 28)")


@pytest.mark.parametrize(
    ("raise_", "name"),
    [
        (no_space, "out.npy"),
        (own_error, "out.pt"),
        (lambda temporary: np.save(temporary, np.zeros(100_000)), "out.npy"),
        (lambda temporary: np.savez(temporary, np.zeros(100_000)), "out.npz"),
        (lambda temporary: temporary.write_text("x" * 100_000), "out.csv"),
    ],
    ids=["system", "writer's own", "numpy.save", "numpy.savez", "text"],
)
def test_a_full_disk_is_an_os_error_that_names_the_target(raise_, name, tmp_path, full_disk):
    error, path = failing(tmp_path, OSError, raise_, name)
    assert (error.errno in (errno.ENOSPC, errno.EFBIG), error.filename) == (True, str(path))


def test_a_full_disk_is_recognised_after_the_writer_has_removed_its_file(tmp_path):
    error, path = failing(tmp_path, OSError, quoted, "out.safetensors")
    assert (error.errno, error.filename) == (errno.ENOSPC, str(path))


def cannot_open(temporary):
    raise RuntimeError(f"File {temporary} cannot be opened.")


def is_missing(temporary):
    temporary.unlink()


def is_folder(temporary):
    temporary.with_name("out.npy").mkdir()


def test_errors_name_the_target_and_not_the_temporary_file(tmp_path):
    error, path = failing(tmp_path, RuntimeError, cannot_open)
    assert str(error) == f"File {path} cannot be opened."
    error, path = failing(tmp_path, FileNotFoundError, is_missing)
    assert str(error) == f"[Errno 2] No such file or directory: '{path}'"
    with pytest.raises(OSError, match=r": '.*out\.npy'$") as caught, new_file(path, overwrite=True) as temporary:
        is_folder(temporary)
    assert ".nishimori" not in str(caught.value)


def test_an_error_of_another_file_keeps_its_name(tmp_path):
    error, _ = failing(tmp_path, FileNotFoundError, lambda _: (tmp_path / "input.csv").read_text())
    assert error.filename == str(tmp_path / "input.csv")


def test_what_is_not_a_regular_file_is_refused_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        place = os.getcwd()
        os.chdir(tmp_path)  # names of sockets are short
        with suppress(OSError):
            listening.bind("socket")
        os.chdir(place)
        for path in (tmp_path / "pipe", tmp_path / "socket", Path("/dev/zero")):
            with pytest.raises(InputError) as caught:
                existing_file(path)
            assert str(caught.value) == (
                f"{path} is not a regular file but a pipe or a device. Save its contents to a file first, and pass that file."
            )
            with pytest.raises(FileExistsError, match=r"is not a regular file\. Choose another name\.$"):
                check_target(path, overwrite=True)


def test_files_links_to_files_and_nothing_else_are_read(tmp_path):
    (tmp_path / "a").touch()
    (tmp_path / "link").symlink_to("a")
    (tmp_path / "dangling").symlink_to("nowhere")
    assert (existing_file(tmp_path / "a"), existing_file(tmp_path / "link")) == (tmp_path / "a", tmp_path / "link")
    with pytest.raises(FileNotFoundError, match=r"^There is no file .*dangling\.$"):
        existing_file(tmp_path / "dangling")
    with pytest.raises(IsADirectoryError, match=r"is a folder\. Name a file in it\.$"):
        existing_file(tmp_path)


def test_a_dangling_link_is_not_a_folder(tmp_path):
    (tmp_path / "dangling").symlink_to("nowhere")
    with pytest.raises(InputError, match=r"dangling is a file, but the demo needs a folder\."):
        check_folder(tmp_path / "dangling", for_="the demo needs")


@pytest.mark.parametrize("made", [ValueError, lambda text: InputError("path", "be another one", got=text)])
def test_errors_name_the_target_and_never_the_temporary_file(tmp_path, made):
    with pytest.raises(ValueError, match=re.escape(str(tmp_path / "c.json"))) as refused:  # noqa: SIM117
        with new_file(tmp_path / "c.json", overwrite=False) as temporary:
            raise made(str(temporary))
    assert ".nishimori-" not in str(refused.value)
