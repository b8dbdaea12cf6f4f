"""Checks of files to read, and new files that are either complete or absent.

A new file is written under a temporary name in the folder of its target, and gets its own name when it is complete. The name
appears in one step, so that readers see the old file or the new one, and never a part. The file is not forced to the disk
(``fsync``), which takes seconds for large files: as after ``cp``, a power failure can lose what was written just before it.
Tested on Linux.
"""

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from nishimori.errors import InputError, NishimoriError, setting

# O_NOFOLLOW does not exist everywhere. O_EXCL refuses links too, so nothing is lost.
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def check_folder(folder: Path, *, for_: str) -> None:
    """Refuse a file in place of a folder, which need not exist yet; ``for_`` says who needs it, as in "the demo needs"."""
    if os.path.lexists(folder) and not folder.is_dir():
        raise InputError(f"{folder} is a file, but {for_} a folder. Choose another name.")


def check_target(target: Path, *, overwrite: bool) -> None:
    """Refuse a path that cannot be written, or that exists and must be kept; commands check this before they start to work."""
    if target.exists() and not target.is_file():
        raise FileExistsError(f"{target} is not a regular file. Choose another name.")
    if os.path.lexists(target) and not overwrite:  # a link exists even if the file that it points to does not
        raise _exists(target)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"There is no folder {target.parent} to write {target.name} to. Create it first.")


def _exists(target: Path) -> FileExistsError:
    return FileExistsError(f"{target} exists. Pass {setting('overwrite', True)} to replace it.")


@contextmanager
def new_file(path: str | os.PathLike[str], *, overwrite: bool) -> Iterator[Path]:
    """A temporary path beside ``path`` to write to. It is renamed to ``path`` if the block succeeds, and removed otherwise.

    With ``overwrite``, permissions of a replaced file of the same owner are kept. A link is replaced by the
    new file, and the file that it points to stays as it is. Without ``overwrite``, only one of several writers succeeds. Errors
    name ``path``, never the temporary file. Its ending is that of ``path`` in lower case, because writers choose their format
    by it, and NumPy adds ".npz" to a name that ends in ".NPZ".
    """
    target = Path(path)
    check_target(target, overwrite=overwrite)
    temporary = _unused_name(target)
    try:
        while not (mode := _create(temporary)):
            temporary = _unused_name(target)
        yield temporary
        _take_over(temporary, target, mode)
        if overwrite:
            os.replace(temporary, target)
        else:
            _put_in_place(temporary, target)
    except Exception as error:
        _name_target(error, temporary, target)
        raise
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)  # one call, which a signal handler cannot interrupt


def _unused_name(target: Path) -> Path:
    """A name that cannot be guessed. It does not contain the target's name, which may already have the maximal length."""
    ending = "".join(target.suffixes[-2:]).lower()  # two, as in .csv.gz
    return target.with_name(f".nishimori-{secrets.token_hex(8)}{ending if len(ending) <= 20 else ''}")


def _create(temporary: Path) -> int | None:
    """Create the file, readable for its owner only; returns the permissions of new files here, or None if the name is taken."""
    try:
        file = os.open(temporary, _NEW, 0o666)
    except FileExistsError:
        return None
    try:
        # The system has applied the umask, which Python could only read by changing it for all threads.
        mode = os.fstat(file).st_mode
        with suppress(OSError):  # file systems without permissions
            os.fchmod(file, 0o600)
    finally:
        os.close(file)
    return mode


def _take_over(temporary: Path, target: Path, mode: int) -> None:
    """Give the file the permissions of the one that it replaces, or ``mode`` if there is none of the same owner."""
    new = os.lstat(temporary)
    if not stat.S_ISREG(new.st_mode):
        raise InputError(f"Another program replaced the temporary file of {target} by a link. Choose a folder of your own.")
    with suppress(OSError):
        old = os.lstat(target)
        if stat.S_ISLNK(old.st_mode):  # never more open than what the link points to, whose owner may be anybody
            mode &= os.stat(target).st_mode
        elif (old.st_uid, old.st_gid) == (new.st_uid, new.st_gid):
            mode = old.st_mode
        else:  # nor than what others could do with the old file
            mode &= old.st_mode
    with suppress(OSError):  # file systems without permissions
        os.chmod(temporary, mode & 0o777)


def _put_in_place(temporary: Path, target: Path) -> None:
    """Rename to a name that must not exist, with one winner; `os.rename` would replace a file that has appeared meanwhile."""
    try:
        os.link(temporary, target)
    except FileExistsError:
        raise _exists(target) from None
    except OSError:
        # A file system without hard links. The name is claimed by an empty file, which exists until the renaming.
        try:
            os.close(os.open(target, _NEW, 0o600))
        except FileExistsError:
            raise _exists(target) from None
        try:
            os.replace(temporary, target)
        except BaseException:
            os.unlink(target)
            raise


def _name_target(error: Exception, temporary: Path, target: Path) -> None:
    """Make the error name the target, and say that the disk is full if that is the cause."""
    if isinstance(error, OSError) and error.errno is not None:
        if error.errno in _NO_SPACE and error.filename is None:
            raise OSError(error.errno, os.strerror(error.errno), str(target)) from None
        if str(temporary) in (error.filename, error.filename2):
            raise OSError(error.errno, error.strerror, str(target)) from None
    elif not isinstance(error, NishimoriError | FileExistsError):
        _refuse_full_disk(error, temporary, target)
    error.args = tuple(_replace_name(part, temporary, target) for part in error.args)
    vars(error).update({name: _replace_name(value, temporary, target) for name, value in vars(error).items()})


def _replace_name(part: Any, temporary: Path, target: Path) -> Any:
    """A part of an error, with the target's name in place of the temporary file's."""
    return part.replace(str(temporary), str(target)) if isinstance(part, str) else part


def _refuse_full_disk(error: Exception, temporary: Path, target: Path) -> None:
    """Whether the disk is full, for which NumPy, PyTorch and safetensors raise their own errors."""
    for number in _NO_SPACE:
        if os.strerror(number) in str(error):
            raise OSError(number, os.strerror(number), str(target)) from None
    try:
        with temporary.open("ab") as file:
            file.write(bytes(1 << 16))  # does not fit either, if the disk is full
    except OSError as failure:
        if failure.errno in _NO_SPACE:
            raise OSError(failure.errno, failure.strerror, str(target)) from None


def existing_file(path: str | os.PathLike[str]) -> Path:
    """``path``, if it is a file; else an error. It is not opened, because a pipe without a writer would block forever."""
    source = Path(path)
    if source.is_dir():
        raise IsADirectoryError(f"{source} is a folder. Name a file in it.")
    if not source.exists():
        is_pattern = any(letter in source.name for letter in "*?[")
        advice = " In Python, patterns are not expanded: update a `nishimori.Sketch` with each file of `glob.glob`."
        raise FileNotFoundError(f"There is no file {source}.{advice * is_pattern}")
    if not source.is_file():
        raise InputError(
            f"{source} is not a regular file but a pipe or a device. Save its contents to a file first, and pass that file."
        )
    return source
