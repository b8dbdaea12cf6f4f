"""Every script of bench/ says how it is run."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from optional import is_installed

BENCH = Path(__file__).parents[2] / "bench"
SCRIPTS = [path for path in sorted(BENCH.glob("*/*.py")) if "\nif __name__ ==" in path.read_text(encoding="utf-8")]

# One process for all: most of the time goes into imports.
ANSWERS = """
import contextlib, io, json, runpy, sys
from pathlib import Path

answers = {}
for path in sys.argv[1:]:
    sys.argv, sys.path[0], text = [path, "--help"], str(Path(path).parent), io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
        runpy.run_path(path, run_name="__main__")
    answers[path] = text.getvalue()
print(json.dumps(answers))
"""


@pytest.mark.slow
@pytest.mark.skipif(not is_installed("torch"), reason="torch is not installed")
def test_every_script_answers_help_and_shows_a_line_to_run():
    done = subprocess.run([sys.executable, "-c", ANSWERS, *map(str, SCRIPTS)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout.splitlines()[-1])
    assert len(answers) > 40
    for path, text in answers.items():
        assert text.startswith(f"usage: {Path(path).name}"), path


def test_what_is_no_script_is_imported_by_one():
    texts = {path.stem: path.read_text(encoding="utf-8") for path in BENCH.glob("*/*.py")}
    for path in BENCH.glob("*/*.py"):
        if path not in SCRIPTS:
            assert any(re.search(rf"^(from|import) {path.stem}\b", text, re.MULTILINE) for text in texts.values()), path
