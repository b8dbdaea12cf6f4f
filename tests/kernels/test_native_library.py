"""The library of the native kernel: which variant runs, what it leaves alone, and that it touches no memory but its own."""

import os
import shutil
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest
from host_kernels import WITH_NATIVE

import nishimori
from nishimori._kernels import native
from nishimori.errors import InputError

ROOT = Path(__file__).parents[2]
CASES = [ROOT / "tests" / "helpers" / f"{name}.py" for name in ("native_cases", "node_cases", "native_probability_cases")]

pytestmark = WITH_NATIVE


@pytest.fixture(scope="module")
def build():
    """The build hook, as a module."""
    spec = spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_library_was_compiled_from_these_files(build):
    assert native.library().source == build.source_digest(), "run `make native`"


def test_the_best_variant_runs_unless_another_is_named(monkeypatch):
    monkeypatch.delenv("NISHIMORI_NATIVE_VARIANT", raising=False)
    assert native.variant() == native.library().variants[0]
    assert native.library().variants[-1] == "baseline"
    monkeypatch.setenv("NISHIMORI_NATIVE_VARIANT", "baseline")
    assert native.description() == "native kernel, baseline"


@pytest.mark.parametrize(("name", "why"), [("sse9", "which is none"), ("avx2", "which this processor or library lacks")])
def test_a_variant_that_cannot_run_is_refused_with_the_choices(name, why, monkeypatch):
    monkeypatch.setenv("NISHIMORI_NATIVE_VARIANT", name)
    monkeypatch.setattr(native, "library", lambda: native.Library(object(), ("avx512", "baseline")))
    message = rf"^`NISHIMORI_NATIVE_VARIANT` must be avx512 or baseline, got '{name}', {why}\. Correct or unset it\.$"
    with pytest.raises(InputError, match=message):
        nishimori.temperatures(np.eye(4), [0, 1, 2, 0])


def test_another_version_of_the_library_is_not_used(tmp_path, monkeypatch, build):
    native.library.cache_clear()
    try:
        monkeypatch.setattr(native, "_ABI", -1)
        assert native.description().endswith("is of another version; install nishimori again")
        monkeypatch.setattr(native, "_LIBRARY", tmp_path / build.LIBRARY)
        native.library.cache_clear()
        assert native.description() == "NumPy only: no C compiler when it was installed"
        (tmp_path / build.LIBRARY).write_bytes(b"not a library")
        native.library.cache_clear()
        assert native.description().startswith(f"NumPy only: {build.LIBRARY} cannot be loaded: ")
    finally:
        native.library.cache_clear()


SUBNORMAL = """
import numpy as np
from nishimori._kernels import native
assert native.is_available()
native.power_sums(np.eye(100), (1.0,), 5)
tiny = np.float64(5e-324)
assert tiny * 1 == tiny > 0
assert (np.full(100, 1e-310) / 2 == 5e-311).all()
assert (np.full(100, 1e-40, np.float32) * np.float32(0.5) > 0).all()
assert np.isnan(np.full(9, np.nan) * 0).all()
"""


def test_loading_the_library_leaves_the_arithmetic_of_the_process_alone():
    subprocess.run([sys.executable, "-c", SUBNORMAL], check=True)


def test_no_flag_lets_the_compiler_forget_nan_infinities_or_subnormal_numbers(build):
    given = {*build.FLAGS, *(flag for flags in build.VARIANTS.values() for flag in flags)}
    assert not given & {"-ffast-math", "-Ofast", "-funsafe-math-optimizations", "-ffinite-math-only", "-fassociative-math"}


def test_without_a_compiler_the_build_says_so(tmp_path, monkeypatch, build):
    monkeypatch.setenv("CC", str(tmp_path / "cc"))
    with pytest.raises(build.CannotCompileError, match="the C compiler could not be run"):
        build.compile_library(tmp_path / "library")
    monkeypatch.delenv("CC")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(build.CannotCompileError, match="no C compiler was found"):
        build.compile_library(tmp_path / "library")
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def sanitized(tmp_path_factory, build):
    """A library that ends the process when it reads or writes outside an array, or does what C leaves undefined."""
    runtime = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=False).stdout.strip()
    if not sys.platform.startswith("linux") or not os.path.isabs(runtime):
        pytest.skip("needs GCC's address sanitizer")
    target = tmp_path_factory.mktemp("sanitized") / build.LIBRARY
    flags = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    best = native.library().variants[0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CC", "gcc")
        build.compile_library(target, flags, tuple(dict.fromkeys(("baseline", best))))
    stdcxx = subprocess.run(["gcc", "-print-file-name=libstdc++.so"], capture_output=True, text=True, check=True).stdout.strip()
    return target, f"{runtime}:{stdcxx}"


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("gcc"), reason="needs GCC's address sanitizer")
@pytest.mark.parametrize("variant", list(dict.fromkeys([*native.library().variants[:1], "baseline"])))
@pytest.mark.parametrize("cases", CASES, ids=lambda path: path.stem)
def test_no_memory_but_that_of_its_arrays_is_touched(sanitized, variant, cases):
    library, preloaded = sanitized
    # Some releases of GCC place vectors of AVX-512 badly on the stack that the second option uses (GCC bug 110027).
    options = "detect_leaks=0:detect_stack_use_after_return=0"
    settings = {"LD_PRELOAD": preloaded, "ASAN_OPTIONS": options, "NISHIMORI_NATIVE_VARIANT": variant}
    line = [sys.executable, str(cases), str(library), "40"]
    done = subprocess.run(line, env=os.environ | settings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.startswith(f"native kernel, {variant} ")
