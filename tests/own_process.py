"""Numbers that depend on a whole process, such as its memory: each is measured by a script in a process of its own.

What ran before in the same process would change them: imported packages, caches, threads, garbage that is not collected yet.
"""

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

_SCRIPTS = Path(__file__).parent / "measured"
_SERVER = Path(__file__).parent / "contract" / "block_server.py"


def measure(script, **arguments):
    """What ``tests/measured/<script>.py`` prints, called with these arguments, which may hold paths."""
    line = [sys.executable, "-W", "ignore", str(_SCRIPTS / f"{script}.py"), json.dumps(arguments, default=str)]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@contextlib.contextmanager
def warm(*imports):
    """Gives a `measure` whose processes are children of one that has imported these modules and done nothing else.

    To import them takes seconds, more than to work on files of some ten megabytes.
    """
    line = [sys.executable, "-W", "ignore", str(_SERVER), *imports]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:

        def measure_in_child(script, **arguments):
            words = [sys.executable, str(_SCRIPTS / f"{script}.py"), json.dumps(arguments, default=str)]
            server.stdin.write(json.dumps({"words": words, "cwd": os.getcwd()}) + "\n")
            server.stdin.flush()
            answer = json.loads(server.stdout.readline())
            assert answer["code"] == 0, answer["err"]
            return json.loads(answer["out"].splitlines()[-1])

        yield measure_in_child
