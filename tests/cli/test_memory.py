"""What a limit of memory does to commands; each runs in a process of its own, because a limit cannot be raised again."""

import os
import subprocess
import sys

import numpy as np
import pytest
import reference

REMEDY = "Pass a smaller file, raise the memory limit (ulimit -v), or use a larger machine.\n"


def limited(words, place, gigabytes):
    """Run a command with at most that much address space; exit code, standard output, standard error."""
    # The limits are set by a program of its own: a function that runs between fork and exec is not safe beside the threads of
    # libraries that other tests have loaded.
    limit = "import os, resource, sys; size, *line = sys.argv[1:]; resource.setrlimit(resource.RLIMIT_AS, (int(size),) * 2);"
    limit += "resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); os.execv(line[0], line)"
    # One thread takes the same memory on every machine.
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "TERM": "dumb", "NISHIMORI_TRACEBACK": "0"}
    ended = subprocess.run(
        [sys.executable, "-c", limit, str(int(gigabytes * 2**30)), sys.executable, "-m", "nishimori", *words.split()],
        cwd=place,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return ended.returncode, ended.stdout, ended.stderr


@pytest.fixture
def place(tmp_path):
    logits, labels = reference.drawn(60, 3)
    np.savez(tmp_path / "val.npz", logits=logits, labels=labels)
    return tmp_path


def test_a_page_that_cannot_be_drawn_is_one_line_and_no_file(place):
    pytest.importorskip("vl_convert")
    code, out, err = limited("report val.npz", place, gigabytes=6)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert err.startswith("error: There is not enough memory to draw the charts of the page: ")
    assert err.endswith(" or write the report without charts, to a file that ends in .md or .json.\n")
    assert [path.name for path in place.iterdir()] == ["val.npz"]


def test_a_report_without_charts_needs_little_memory(place):
    code, _, err = limited("report val.npz -o report.md", place, gigabytes=6)
    assert (code, err) == (0, "Wrote report.md\n")
    assert (place / "report.md").read_text().startswith("# Calibration report: val.npz\n")


def test_arrays_that_do_not_fit_are_one_line(place):
    np.lib.format.open_memmap(place / "z.npy", mode="w+", dtype=np.float32, shape=(2**32, 2))  # which takes no room on the disk
    np.lib.format.open_memmap(place / "y.npy", mode="w+", dtype=np.int64, shape=(2**32,))
    code, out, err = limited("eval z.npy y.npy", place, gigabytes=3)
    assert (code, out) == (1, "")
    assert err.startswith("error: There is not enough memory")
    assert err.endswith(REMEDY)
    assert err.count("\n") == 1


@pytest.mark.parametrize("gigabytes", [0.2, 0.34])
def test_a_limit_that_is_too_low_for_the_libraries_is_one_line(place, gigabytes):
    assert limited("eval val.npz", place, gigabytes) == (1, "", f"error: There is not enough memory. {REMEDY}")
