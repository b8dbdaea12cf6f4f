"""Artefacts at quick scale, each computed at most once in a test session, whichever tests and processes need it."""

import fcntl
import hashlib
import json
import os
from copy import copy
from functools import partial

import pytest

import nishimori_paper as paper
from nishimori_paper import _runs

QUICK = paper.Scale(quick=True)


def done_once(work, folder):
    """What ``work`` gives, which is JSON; read from the folder if this or another process has done the same before.

    The statements rest on pieces of tables and figures: the same function with the same arguments, which their repr shows in
    full.
    """
    call = work if isinstance(work, partial) else partial(work)
    if "<" in call.func.__qualname__:  # the name of a closure does not say which numbers it holds
        return work()
    same = repr((call.func.__module__, call.func.__qualname__, call.args, call.keywords))
    path = folder / f"{hashlib.sha256(same.encode()).hexdigest()}.json"
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            text = json.dumps(work())  # an error leaves no file
            path.write_text(text, encoding="utf-8")
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def computed(tmp_path_factory):
    """A function that runs artefacts and returns the folder with their results."""
    base = tmp_path_factory.getbasetemp()
    # Processes of pytest-xdist have a folder each, in a folder that they share.
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder = shared / "artefacts"
    pieces = shared / "pieces"
    for each in (folder, pieces):
        each.mkdir(exist_ok=True)

    def run(*names):
        for name in names:
            artefact = copy(paper.artefact(name))
            works = artefact.pieces(QUICK)
            artefact.pieces = lambda _, works=works: {key: partial(done_once, work, pieces) for key, work in works.items()}
            # Another process may be computing the same artefact: wait for it. A finished run is not repeated.
            with (shared / f"{name}.lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                _runs.run(artefact, folder, scale=QUICK)
        return folder

    return run
