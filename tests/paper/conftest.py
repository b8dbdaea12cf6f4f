"""Artefacts at quick scale, each computed at most once in a test session, whichever tests and processes need it."""

import fcntl
import os

import pytest

from nishimori import paper


@pytest.fixture(scope="session")
def computed(tmp_path_factory):
    """A function that runs artefacts and returns the folder with their results."""
    base = tmp_path_factory.getbasetemp()
    # Processes of pytest-xdist have a folder each, in a folder that they share.
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder = shared / "artefacts"
    folder.mkdir(exist_ok=True)

    def run(*names):
        for name in names:
            # Another process may be computing the same artefact: wait for it. A finished run is not repeated.
            with (shared / f"{name}.lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                paper.run(name, folder, quick=True, progress=False)
        return folder

    return run
