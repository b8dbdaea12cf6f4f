"""The native kernel's library, compiled by pip while it builds the wheel, or in place by ``python hatch_build.py``.

The kernel is C without Python's API (``src/nishimori/_kernels/native.c``), so that one wheel per platform serves every version
of Python. It is compiled once per set of instructions and linked into one library, which `nishimori._kernels.native` loads with
ctypes. That is a few calls of a C compiler. Hatchling builds the rest of the wheel already and can call them; scikit-build-core
would add CMake, and its answer to a missing compiler is an error. Here the install then succeeds, and NumPy does the work. With
the environment variable ``NISHIMORI_REQUIRE_NATIVE=1`` a build that fails is an error.

Compiling with Microsoft's ``cl`` is written here but not tested.
"""

import ctypes
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # in place, in an environment without hatchling
    BuildHookInterface = object  # type: ignore[assignment,misc]

KERNELS = Path(__file__).parent / "src" / "nishimori" / "_kernels"
SOURCES = (
    *("native.c", "native_rows.h", "native_sketch.h"),
    *("native_probabilities.h", "native_weights.h", "native_scores.h", "native_groups.h"),
)
LIBRARY = {"win32": "nishimori.dll", "darwin": "libnishimori.dylib"}.get(sys.platform, "libnishimori.so")

# Never -ffast-math, nor any flag that it stands for and that changes what NaN, infinities or subnormal numbers do: given to the
# linker, it would even change the arithmetic of the whole process.
FLAGS = (
    *("-std=gnu11", "-O3", "-fPIC", "-fvisibility=hidden", "-fopenmp-simd"),
    *("-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math", "-fno-signed-zeros"),
)
AVX512 = ("-mavx512f", "-mavx512dq", "-mavx512bw", "-mavx512vl", "-mavx2", "-mfma", "-mprefer-vector-width=512")
VARIANTS = {"baseline": (), "avx2": ("-mavx2", "-mfma"), "avx512": AVX512}
CL_FLAGS = ("/nologo", "/std:c11", "/O2", "/fp:precise")
CL_VARIANTS = {"baseline": (), "avx2": ("/arch:AVX2",), "avx512": ("/arch:AVX512",)}


class CannotCompileError(Exception):
    """There is no C compiler, or it failed."""


def source_digest() -> str:
    """A name for the present state of the C files and of this one, which the library also has."""
    files = [*(KERNELS / name for name in SOURCES), Path(__file__)]
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]


def compile_library(target: Path, flags: tuple[str, ...] = (), variants: tuple[str, ...] = tuple(VARIANTS)) -> None:
    """Compile the library to ``target``."""
    compiler = _compiler()
    is_cl = Path(compiler[0]).stem.lower() in ("cl", "clang-cl")
    chosen = [name for name in variants if name == "baseline" or _is_x86()]
    about = [f'VARIANTS="{" ".join(chosen)}"', f'SOURCE="{source_digest()}"']
    with tempfile.TemporaryDirectory() as folder:
        objects = []
        for name in chosen:
            made = Path(folder) / f"{name}.{'obj' if is_cl else 'o'}"
            defined = about if name == "baseline" else [f"VARIANT={name}"]
            if is_cl:
                line = [*CL_FLAGS, *CL_VARIANTS[name], *(f"/D{each}" for each in defined), "/c", f"/Fo{made}"]
            else:
                line = [*FLAGS, *VARIANTS[name], *(f"-D{each}" for each in defined), *flags, *_architecture(), "-c", "-o", made]
            _run([*compiler, *line, KERNELS / "native.c"])
            objects.append(made)
        # Beside its place and then moved: a process that has loaded the old library keeps it.
        linked = Path(folder) / target.name
        if is_cl:
            _run([*compiler, "/nologo", "/LD", *objects, f"/Fe{linked}"])
        else:
            _run([*compiler, "-shared", *flags, *_architecture(), "-o", linked, *objects])
        beside = target.with_name(f"{target.name}.{os.getpid()}")
        shutil.copyfile(linked, beside)
        beside.replace(target)


def _compiler() -> list[str]:
    if os.environ.get("CC"):
        return shlex.split(os.environ["CC"])
    for name in ("cl", "clang-cl") if sys.platform == "win32" else ("cc", "gcc", "clang"):
        found = shutil.which(name)
        if found:
            return [found]
    raise CannotCompileError("no C compiler was found")


def _architecture() -> list[str]:
    """What macOS says to compile for another processor."""
    return shlex.split(os.environ.get("ARCHFLAGS", "")) if sys.platform == "darwin" else []


def _is_x86() -> bool:
    flags = _architecture()
    if flags:
        return "arm64" not in flags  # of two architectures at once, each has the baseline alone
    return platform.machine().lower() in ("x86_64", "amd64") and sys.maxsize > 2**32


def _platform() -> str:
    """The platform in the name of the wheel."""
    name = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    if name.endswith("universal2") and len(_architecture()) < 4:  # a Python for both, but the library is for one
        name = name.removesuffix("universal2") + (_architecture() or ["-arch", platform.machine()])[1]
    return name


def _run(line: list[Any]) -> None:
    try:
        done = subprocess.run([str(each) for each in line], capture_output=True, text=True, check=False)  # noqa: S603
    except OSError as error:
        raise CannotCompileError(f"the C compiler could not be run: {error}") from None
    if done.returncode:
        raise CannotCompileError(f"the C compiler failed: {' '.join(map(str, line))}\n{done.stdout}{done.stderr}")


class CustomBuildHook(BuildHookInterface):  # type: ignore[misc,type-arg]
    """Hatchling's hook: adds the library to the wheel, whose name then has the platform in it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile in place for an editable install, else into the wheel."""
        self._folder = tempfile.TemporaryDirectory()
        target = KERNELS / LIBRARY if version == "editable" else Path(self._folder.name) / LIBRARY
        try:
            compile_library(target)
        except CannotCompileError as error:
            if os.environ.get("NISHIMORI_REQUIRE_NATIVE") == "1":
                raise
            self.app.display_warning(f"nishimori is installed without its native kernel, and uses NumPy: {error}")
            return
        if version != "editable":
            build_data["force_include"][str(target)] = f"nishimori/_kernels/{LIBRARY}"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{_platform()}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """Remove what was compiled for the wheel."""
        self._folder.cleanup()


def is_up_to_date(library: Path) -> bool:
    """Whether the library was compiled from the present files."""
    try:
        source = ctypes.CDLL(str(library)).nishimori_source
    except (OSError, AttributeError):
        return False
    source.restype = ctypes.c_char_p
    return bool(source() == source_digest().encode())


if __name__ == "__main__" and not is_up_to_date(KERNELS / LIBRARY):
    try:
        compile_library(KERNELS / LIBRARY)
    except CannotCompileError as problem:
        sys.exit(str(problem))
