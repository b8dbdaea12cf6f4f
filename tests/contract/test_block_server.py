"""A command that runs in a child of the server ends as it does in a process of its own."""

import subprocess
import sys

import pytest
from own_process import Children

ENDINGS = {
    "end of the script": "print(1)",
    "exit code": "import sys; print(2); sys.exit(3)",
    "exit without a code": "raise SystemExit",
    "exit with a message": "import sys; sys.exit('no such file')",
    "error": "print(4, end=''); 1 / 0",
    "interrupt of another name": "raise BaseException('stop')",
    "functions for the end": "import atexit; atexit.register(print, 'bye'); atexit.register(lambda: 1 / 0)",
    "thread": "import threading, time\nthreading.Thread(target=lambda: print(time.sleep(0.05))).start()",
    "finaliser": "class Loud:\n    def __del__(self):\n        raise ValueError('so late')\nkept = Loud()",
    "finaliser in a cycle": "class Loud:\n    def __del__(self):\n        print('gone')\nkept = Loud()\nkept.itself = kept",
    "temporary folder": "import tempfile; kept = tempfile.TemporaryDirectory()",
    "standard error": "import sys; print('careful', file=sys.stderr, end='')",
}


@pytest.fixture(scope="module")
def children():
    with Children([sys.executable], ()) as running:
        yield running


@pytest.mark.parametrize("is_file", [False, True], ids=["line", "file"])
@pytest.mark.parametrize("code", ENDINGS.values(), ids=ENDINGS)
def test_a_child_ends_as_python_does(children, code, is_file, tmp_path):
    words = [sys.executable, "-c", code]
    if is_file:
        (tmp_path / "script.py").write_text(code, encoding="utf-8")
        words = [sys.executable, str(tmp_path / "script.py")]
    alone = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    found = children.run(words, tmp_path)
    # A traceback shows the lines of the server as well, but ends with the same error.
    assert (*found[:2], found[2].splitlines()[-1:]) == (alone.returncode, alone.stdout, alone.stderr.splitlines()[-1:])
