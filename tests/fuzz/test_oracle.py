"""The fuzzer itself: each fault that it looks for is seen, and good behaviour is not one."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from fuzz.samples import COLUMNS, FORMATS, LABELS, LOGITS, Sample, samples

from fuzz import cases, oracle, strict_tables

TABLE = {"scores": list(COLUMNS), "labels": "labels", "weights": None, "classes": None}
PLAIN = next(iter(samples("csv")[0].files.values()))


@pytest.mark.parametrize(
    ("ended", "fault"),
    [
        (oracle.Ended(0, "{}\n", "Wrote o.json\n"), None),
        (oracle.Ended(1, "", "warning: few\nerror: x is damaged.\n"), None),
        (oracle.Ended(1, "", ""), "0 lines of error"),
        (oracle.Ended(1, "", "error: a\nb\n"), "1 lines of error, 2 lines in all"),
        (oracle.Ended(1, "", "error: a\nerror: b\n"), "2 lines of error"),
        (oracle.Ended(1, "", "", "KeyError in _files.py:read"), "traceback: KeyError"),
        (oracle.Ended(1, "", "Traceback (most recent call last)\nerror: a\n"), "traceback printed"),
        (oracle.Ended(1, "", "error: an unexpected error, please report it.\n"), "called a bug"),
        (oracle.Ended(3, "", "error: a\n"), "exit code 3"),
        (oracle.Ended(0, "\x1b[31m\n", ""), "raw control characters"),
        (oracle.Ended(1, "", "error: column \x9b31m\n"), "raw control characters"),
        (oracle.Ended(0, "", "x.py:3: UserWarning: beta\n"), "a warning of Python"),
        (oracle.Ended(1, "", "error: Unable to allocate 4 GiB\n"), "more than 1 GB"),
    ],
)
def test_manners_are_judged(ended, fault):
    found = oracle.manners(ended)
    assert found == [] if fault is None else fault in found[0]


@pytest.mark.parametrize("ending", ["csv", "tsv", "csv.gz", "jsonl"])
def test_the_strict_reader_reads_what_was_written(ending):
    (content,) = samples(ending)[0].files.values()
    scores, labels, weights = strict_tables.table(ending, content, **TABLE)
    np.testing.assert_array_equal(scores, LOGITS)
    np.testing.assert_array_equal(labels, LABELS)
    assert weights is None


@pytest.mark.parametrize(
    ("ending", "content"),
    [
        ("csv", PLAIN + b"0,5,1,2,0\n"),
        ("csv", PLAIN + b"1,2,0\n"),
        ("csv", PLAIN + b"1,2,3,1.7\n"),
        ("csv", PLAIN + b"1,2,x,1\n"),
        ("csv", PLAIN + b'"1,2,3,1\n'),
        ("csv", PLAIN.replace(b"z_dog", b"z_cat")),
        ("csv", PLAIN + b"\xff"),
        ("csv", b""),
        ("csv.gz", gzip.compress(PLAIN)[:-9]),
        ("jsonl", b'{"z_cat": 1, "z_dog": 2, "z_fish": 3}\n'),
        ("jsonl", b'{"z_cat": 1, "z_cat": 1, "z_dog": 2, "z_fish": 3, "labels": 0}\n'),
        ("jsonl", b'{"z_cat": true, "z_dog": 2, "z_fish": 3, "labels": 0}\n'),
        ("jsonl", b"[]\n"),
    ],
)
def test_the_strict_reader_refuses(ending, content):
    with pytest.raises(strict_tables.StrictError):
        strict_tables.table(ending, content, **TABLE)


def test_a_wrong_temperature_is_seen():
    right = oracle.second_reading("csv", PLAIN, {}, list(COLUMNS), 1.0)
    (told,) = right
    T = float(told.rpartition(" ")[2])
    assert oracle.second_reading("csv", PLAIN, {}, list(COLUMNS), T) == []
    assert oracle.second_reading("csv", PLAIN, {}, list(COLUMNS[::-1]), T) != []


@pytest.mark.parametrize("ending", [name for name, (needs, _) in FORMATS.items() if not needs])
def test_a_case_is_always_the_same(ending):
    def case(seed):
        return cases.case(ending, seed, samples(ending))

    seeds = range(len(cases.MUTATIONS[ending]))
    assert [case(seed) for seed in seeds] == [case(seed) for seed in seeds]
    assert {case(seed).mutation for seed in seeds} == {each.__name__ for each in cases.MUTATIONS[ending]}


LIMITS = """
import os, sys, time
sys.path[0] = sys.argv[1]
from pathlib import Path
from fuzz import campaign

# Only one of both limits can be reached at a time, however busy the machine is.
def limit(cpu, wall): campaign.CPU_SECONDS, campaign.WALL_SECONDS = cpu, wall; campaign.limit_time()
def take(): return [str(len(bytearray(2 * campaign.MEMORY)))]
def spin(): limit(0.5, 600); return iter(int, 1)
def sleep(): limit(600, 1.5); time.sleep(60)
def die(): os.kill(os.getpid(), 11)
def work(): limit(600, 600); return ["done"]
for each in (take, lambda: [next(x for x in spin() if x)], sleep, die, work):
    last = None
    campaign.CPU_SECONDS, campaign.WALL_SECONDS = 0.5, 1.5  # as the messages tell, which are made here
    for last in campaign.child(Path("."), each):
        pass
    print(campaign.end(last))
"""


def test_memory_time_and_crashes_are_findings():
    words = [sys.executable, "-c", LIMITS, str(Path(__file__).parents[1] / "helpers")]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ended.stdout.splitlines() == [
        "the process ended with code 1",
        "took more than 0.5 s",
        "still waiting after 1.5 s",
        "killed by SIGSEGV",
        "the process ended with code 0",
    ], ended.stderr


def test_a_failure_that_leaves_a_file_is_seen(tmp_path, monkeypatch):
    place = tmp_path / "case"
    place.mkdir()
    monkeypatch.chdir(place)

    def fail(words):
        Path(words[words.index("-o") + 1]).write_bytes(b"half")
        Path(".temporary").write_bytes(b"")
        return oracle.Ended(1, "", "error: no.\n")

    monkeypatch.setattr(oracle, "run", fail)
    fit = cases.Case("npz", 0, "flip_bits", Sample("plain", {"table.npz": b"x"}), "fit", "npz", overwrite=False)
    assert oracle.judge(fit, b"") == ["left '.temporary' behind", "left 'out.json' behind"]
    kept = cases.Case("npz", 0, "flip_bits", Sample("plain", {"table.npz": b"x"}), "fit", "npz", overwrite=True)
    assert oracle.judge(kept, b"") == ["left '.temporary' behind", "changed the existing output although it failed"]


def test_a_calibration_that_is_not_used_as_it_says_is_seen():
    content = json.dumps({"format_version": 1, "temperature": 2.0, "input": "logits"}).encode()
    case = cases.Case("json", 0, "a_field", Sample("x", {"mutated.json": content}), "apply", "npz", overwrite=False)
    powers = np.exp(LOGITS / 2.0)
    assert oracle.applied(case, powers / powers.sum(axis=1, keepdims=True)) == []
    powers = np.exp(LOGITS)
    assert oracle.applied(case, powers / powers.sum(axis=1, keepdims=True)) == ["probabilities are not those of T = 2.0"]
