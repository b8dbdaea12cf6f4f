"""The largest private memory of commands of ``nishimori`` that run one after another in a process of their own."""

import json
import subprocess
import sys
import threading


def peak_memory(*commands, kept=None):
    """In bytes; ``kept`` is the size up to which unpacked files stay in memory, the usual one by default."""
    words = [[str(word) for word in command] for command in commands]
    asked = json.dumps({"commands": words, "kept": kept})
    done = subprocess.run([sys.executable, __file__, asked], capture_output=True, text=True, check=True)
    return int(done.stdout.splitlines()[-1])


class _Watcher(threading.Thread):
    """A thread that looks at the memory every five milliseconds; a daemon, so that it ends with a program that fails."""

    def __init__(self):
        super().__init__(daemon=True)
        self.peak, self.done = 0, threading.Event()

    def run(self):
        while not self.done.wait(0.005):
            with open("/proc/self/statm") as file:
                resident, shared = map(int, file.read().split()[1:3])
            self.peak = max(self.peak, 4096 * (resident - shared))


def _main(commands, kept):
    from nishimori import cli
    from nishimori.cli import _files, _labelled_table

    if kept is not None:
        _files.KEPT = _labelled_table.KEPT = kept
    watcher = _Watcher()
    watcher.start()
    for words in commands:
        sys.argv = ["nishimori", *words]
        try:
            cli.main()
        except SystemExit as end:
            if end.code:
                raise
    watcher.done.set()
    watcher.join()
    sys.stdout.write(f"{watcher.peak}\n")


if __name__ == "__main__":
    _main(**json.loads(sys.argv[1]))
