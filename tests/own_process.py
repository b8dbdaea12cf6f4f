"""Numbers that depend on a whole process, such as its memory: each is measured by a script in a process of its own.

What ran before in the same process would change them: imported packages, caches, threads, garbage that is not collected yet.
"""

import json
import subprocess
import sys
from pathlib import Path

_SCRIPTS = Path(__file__).parent / "measured"


def measure(script, **arguments):
    """What ``tests/measured/<script>.py`` prints, called with these arguments, which may hold paths."""
    line = [sys.executable, "-W", "ignore", str(_SCRIPTS / f"{script}.py"), json.dumps(arguments, default=str)]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])
