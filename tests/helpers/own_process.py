"""Numbers that depend on a whole process, such as its memory: each is measured by a script in a process of its own.

What ran before in the same process would change them: imported packages, caches, threads, garbage that is not collected yet.
"""

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

_SCRIPTS = Path(__file__).parents[1] / "measured"
_SERVER = Path(__file__).parents[1] / "contract" / "block_server.py"


def measure(script, **arguments):
    """What ``tests/measured/<script>.py`` prints, called with these arguments, which may hold paths."""
    line = [sys.executable, "-W", "ignore", str(_SCRIPTS / f"{script}.py"), json.dumps(arguments, default=str)]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


class Children:
    """Runs Python and ``nishimori`` commands, each in a child of one process that has made some imports; see `block_server`."""

    def __init__(self, python, imports, **options):
        line = [*python, str(_SERVER), *imports]
        self._server = subprocess.Popen(
            line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8", **options
        )

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._server.communicate()  # without further requests it ends

    def run(self, words, folder):
        """The exit code, standard output and standard error of a command."""
        self._server.stdin.write(json.dumps({"words": words, "cwd": str(folder)}) + "\n")
        self._server.stdin.flush()
        answer = json.loads(self._server.stdout.readline())
        return answer["code"], answer["out"], answer["err"]


@contextlib.contextmanager
def warm(*imports):
    """Gives a `measure` whose processes are children of one that has imported these modules and done nothing else.

    To import them takes seconds, more than to work on files of some ten megabytes.
    """
    with Children([sys.executable, "-W", "ignore"], imports) as children:

        def measure_in_child(script, **arguments):
            words = [sys.executable, str(_SCRIPTS / f"{script}.py"), json.dumps(arguments, default=str)]
            code, output, error = children.run(words, os.getcwd())
            assert code == 0, error
            return json.loads(output.splitlines()[-1])

        yield measure_in_child
