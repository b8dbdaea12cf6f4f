"""Many cases, each protected: a batch runs in a forked child with limits on memory and time, and no case ends the campaign."""

import functools
import importlib
import json
import os
import resource
import signal
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import typer
from fuzz.cases import Case, case
from fuzz.samples import FORMATS, Sample, calibration, samples, scores_for_calibrations

from fuzz import oracle

MEMORY = 2**30  # bytes that a case may take, beyond what the process has at its start
CPU_SECONDS = 10
WALL_SECONDS = 150  # a case that waits takes no time of the processor; on a busy machine a good one took more than 30
_BATCH = 50


@dataclass(frozen=True)
class Finding:
    """A case that did not go as it must, and its faults."""

    ending: str
    seed: int
    mutation: str
    sample: str
    command: str
    faults: list[str]
    repeat: str


class Unknown(Exception):
    """The shell does not know this format."""


class Campaign:
    """The cases of one format. Everything is imported before the first child is forked, so that a child costs nothing."""

    def __init__(self, ending: str) -> None:
        self.ending = ending
        warm(*FORMATS[ending][0])
        self.pool = samples(ending)
        self._folder = tempfile.TemporaryDirectory(prefix="fuzz-")
        self._place = Path(self._folder.name, "case")
        self._place.mkdir()
        if ending == "json":  # also those that this version writes
            self.pool += [calibration(f"of {name}", text) for name, text in self._fitted(samples("csv")).items()]
        self.calibrations = {sample.name: b"" for sample in self.pool} if ending == "json" else self._fitted(self.pool)

    def _fitted(self, pool: list[Sample]) -> dict[str, bytes]:
        """The calibration of each sample, made in a child."""
        found: dict[str, str] = {}
        for line in child(self._place, lambda: [json.dumps({k: v.decode() for k, v in oracle.calibrations(pool).items()})]):
            if isinstance(line, str):
                found = json.loads(line)
        if not found:
            raise Unknown("the shell does not know it")
        return {name: text.encode() for name, text in found.items()}

    def case(self, seed: int) -> Case:
        """Case number ``seed``."""
        return case(self.ending, seed, self.pool)

    def findings(self, seeds: range) -> Iterator[Finding]:
        """Try these cases and give those that did not go as they must."""
        left = list(seeds)
        while left:
            batch = left[:_BATCH]
            done = 0
            for result in child(self._place, lambda batch=batch: map(self._line, batch)):
                seed = batch[min(done, len(batch) - 1)]
                if isinstance(result, str):
                    faults = json.loads(result)
                    done += 1
                elif done == len(batch):
                    continue  # the child ended as it should
                else:
                    faults = [end(result)]
                    done += 1
                if faults:
                    yield self._finding(seed, faults)
            left = left[done:]

    def _line(self, seed: int) -> str:
        limit_time()
        each = self.case(seed)
        known = self.calibrations.get(each.sample.name)
        if known is None and not each.sample.optional:
            return json.dumps([f"refused the valid sample {each.sample.name!r}"])
        return json.dumps(oracle.judge(each, known or next(iter(self.calibrations.values()))))

    def _finding(self, seed: int, faults: list[str]) -> Finding:
        each = self.case(seed)
        return Finding(self.ending, seed, each.mutation, each.sample.name, each.command, faults, each.repeat)

    def save(self, seed: int, folder: Path) -> str:
        """Write the files of a case to a folder and return the command line to try there."""
        folder.mkdir(parents=True, exist_ok=True)
        os.chdir(folder)
        each = self.case(seed)
        oracle.place(each.sample.files | oracle.beside(each, self.calibrations.get(each.sample.name, b"")))
        output = "out.json" if each.command == "fit" else f"out.{each.output}"
        return " ".join(["nishimori", *oracle.words_of(each, output)])


def warm(*modules: str) -> None:
    """Import what commands need, so that no child has to."""
    for module in modules:
        importlib.import_module(module)
    _run_once()


@functools.cache
def _run_once() -> None:
    """Run each command on a valid file, which imports whatever it imports late."""
    # Two thirds of a short command's time go into building the same parser again.
    typer.main.get_command = functools.cache(typer.main.get_command)
    here = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        place = Path(folder, "case")
        place.mkdir()
        os.chdir(place)
        try:
            oracle.place({"valid.npz": scores_for_calibrations()})
            oracle.run(["fit", "valid.npz", "-o", "valid.json", "--json"])
            oracle.run(["eval", "valid.npz", "--calibration", "valid.json", "--json"])
            oracle.run(["apply", "valid.json", "valid.npz", "-o", "out.csv"])
            oracle.run(["eval", "no-such-file.npz"])
        finally:
            os.chdir(here)


def end(status: int) -> str:
    """What the end of a child says about the case that it was at."""
    if not os.WIFSIGNALED(status):
        return f"the process ended with code {os.waitstatus_to_exitcode(status)}"
    number = os.WTERMSIG(status)
    if number == signal.SIGALRM:
        return f"still waiting after {WALL_SECONDS} s"
    if number in (signal.SIGPROF, signal.SIGXCPU):
        return f"took more than {CPU_SECONDS} s"
    return f"killed by {signal.Signals(number).name}"


def limit_time() -> None:
    """End this process if it takes too long from now on."""
    # The default action of both signals ends the process, also where Python code cannot run.
    signal.setitimer(signal.ITIMER_REAL, WALL_SECONDS)
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)


def _limit_memory() -> None:
    """Private memory, which neither mapped files nor reserved addresses count towards."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    (now,) = (int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmData:"))
    resource.setrlimit(resource.RLIMIT_DATA, (now + MEMORY, now + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def child(place: Path, lines: Callable[[], Iterable[str]]) -> Iterator[str | int]:
    """Run a function in a forked child, in a folder, and give each line that it gives, then how the child ended."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.close(read)
            os.chdir(place)
            _limit_memory()
            for line in lines():
                os.write(write, line.encode() + b"\n")
            code = 0
        finally:
            os._exit(code)
    os.close(write)
    with open(read, encoding="utf-8") as pipe:
        for line in pipe:
            yield line
    yield os.waitpid(pid, 0)[1]
