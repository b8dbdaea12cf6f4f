"""A process that has imported nishimori and runs scripts and commands in children of itself, one after the other.

To start Python and import nishimori, scikit-learn and PyTorch takes seconds, longer than most blocks of a page. A forked child
has them at once, and nothing else of what ran before: each script has a ``__main__`` of its own. Requests are lines of JSON on
standard input, ``{"words": [...], "cwd": ...}`` with the words of a Python or ``nishimori`` command; answers are lines of JSON
on standard output.
"""

import atexit
import contextlib
import gc
import importlib
import json
import os
import runpy
import sys
import tempfile
import threading
import types
import warnings


def execute(words):
    """Run ``python -c code``, ``python script ...`` or ``nishimori ...`` in this process."""
    if words[0] == "nishimori":
        from nishimori.cli import main

        sys.argv = words
        main()
    elif words[1] == "-c":
        sys.argv = ["-c", *words[3:]]
        sys.modules["__main__"] = module = types.ModuleType("__main__")
        exec(compile(words[2], "<string>", "exec"), module.__dict__)
    else:
        sys.argv = words[1:]
        sys.path[0] = os.path.dirname(os.path.abspath(words[1]))
        runpy.run_path(words[1], run_name="__main__")


def end(words):
    """Run a command and end as Python does after it, but without taking the modules apart that were imported before.

    That would take a second after each block, because each page of memory that it writes to is copied from the parent first.
    """
    code = 0
    try:
        execute(words)
    except SystemExit as stop:
        code = 0 if stop.code is None else stop.code
        if not isinstance(code, int):
            sys.stderr.write(f"{code}\n")
            code = 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    threading._shutdown()  # waits for threads
    atexit._run_exitfuncs()
    sys.modules.pop("__main__")  # what the script made is finalised, and may say so
    gc.collect()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def serve():
    """Answer requests until there are no more; in a child, return the words that it shall run."""
    for line in sys.stdin:
        request = json.loads(line)
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads, here of idle BLAS ones
                pid = os.fork()
            if pid == 0:
                os.chdir(request["cwd"])
                nothing = os.open(os.devnull, os.O_RDONLY)
                for source, target in ((nothing, 0), (out.fileno(), 1), (err.fileno(), 2)):
                    os.dup2(source, target)
                return request["words"]
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            texts = []
            for file in (out, err):
                file.seek(0)
                texts.append(file.read().decode())
        sys.stdout.write(json.dumps({"code": code, "out": texts[0], "err": texts[1]}) + "\n")
        sys.stdout.flush()
    return None


if __name__ == "__main__":
    for name in sys.argv[1:]:
        with contextlib.suppress(ModuleNotFoundError):  # then a script that needs it says so
            importlib.import_module(name)
    gc.collect()
    gc.freeze()  # so that no child looks through, and thereby copies, all that was imported
    asked = serve()
    if asked is not None:
        end(asked)
