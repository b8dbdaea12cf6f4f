"""The command as a person types it, in a folder of its own."""

import pytest
import shell


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Run ``nishimori`` in a new folder; exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)
    return shell.nishimori
