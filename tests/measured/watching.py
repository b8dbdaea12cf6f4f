"""How the scripts of this folder watch memory, and how they are called: arguments and results are JSON."""

import json
import sys
import threading
import tracemalloc


def run(main):
    """Call ``main`` with the arguments of the command line and print what it returns."""
    sys.stdout.write(f"\n{json.dumps(main(**json.loads(sys.argv[1])))}\n")


def traced_peak(call):
    """The largest memory that Python and NumPy hold during the call beyond what they held before, in bytes."""
    tracemalloc.start()
    call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def private_memory():
    """The memory of this process that it shares with no file and no other process, in bytes."""
    with open("/proc/self/statm") as file:
        resident, shared = map(int, file.read().split()[1:3])
    return 4096 * (resident - shared)


def private_peak(call):
    """The largest private memory of this process during the call, looked at every five milliseconds, in bytes."""
    peak, done = private_memory(), threading.Event()

    def watch():
        nonlocal peak
        while not done.wait(0.005):
            peak = max(peak, private_memory())

    watcher = threading.Thread(target=watch, daemon=True)  # so that it ends with a program that fails
    watcher.start()
    call()
    done.set()
    watcher.join()
    return peak
