"""Fuzzing of the files that the shell reads: mutated files must be read right or refused in one line.

    python tests/helpers/fuzz/run.py --minutes 60                    every format in turn, new cases all the time (`make fuzz`)
    python tests/helpers/fuzz/run.py --format npz --cases 300        cases 0 to 299 of one format
    python tests/helpers/fuzz/run.py --format npz --seed 123         one case again, as a finding prints it
    python tests/helpers/fuzz/run.py --format npz --seed 123 --save X the same, and its files and command line in the folder X
    python tests/helpers/fuzz/run.py --named                         the cases of `named_cases`, each a claim

A case is a format and a number, and always the same: `samples` makes small valid files, `damage` and the modules beside it
mutate them, `cases` chooses, `oracle` runs fit, eval or apply and judges. `strict_tables` reads accepted text tables a second
time, so that a wrong number is found, not only a crash. `campaign` forks a child for every few cases, with 1 GB of memory and
10 s of processor time (30 s of waiting) for each case: what hangs or fills memory is a finding. A format that the shell does
not know is skipped.

A *finding* is: an exception that escapes, or a traceback on the screen; an exit code other than 0, 1 and 2; a failure with no
line of error or with several; a failure that leaves files behind or changes one; a result that is not complete and valid, or
not that of the numbers in the file; raw control characters on the screen; a valid file that is refused; too much memory or
time. The exit code is 1 if there are findings.

The suite runs fifty cases of each format (test_fuzz.py) and the cases that have a name (test_named_cases.py). To add a
format, add its samples to `samples.FORMATS` and its mutations to `cases.MUTATIONS`.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Read mutated files with the nishimori command, and judge what it does.")
    parser.add_argument("--format", action="append", help="an ending such as npz, again for more; by default all of them")
    parser.add_argument("--cases", type=int, default=300, help="cases of each format and round")
    parser.add_argument("--start", type=int, default=0, help="number of the first case")
    parser.add_argument("--seed", type=int, help="only this case")
    parser.add_argument("--minutes", type=float, help="go on with new cases for so long")
    parser.add_argument("--save", type=Path, help="with --seed: write the files of the case to this folder")
    parser.add_argument("--named", nargs="*", metavar="NAME", help="the cases that have names, all or these")
    parser.add_argument("--json", action="store_true", help="print findings as JSON, for the tests")
    return parser.parse_args()


def main() -> int:
    """Try cases and print findings; the exit code."""
    # One thread each, and no memory set aside by libraries: the limit on memory is for what a case takes.
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"}
    os.environ |= {"ARROW_DEFAULT_MEMORY_POOL": "system", "COLUMNS": "120", "TERM": "dumb", "NO_COLOR": "1"}
    # Children work in other folders, and modules that are imported late must still be found.
    sys.path[:] = [str(Path(__file__).resolve().parents[1]), *map(os.path.abspath, sys.path[1:])]
    given = _arguments()
    return _named(given) if given.named is not None else _mutated(given)


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _named(given: argparse.Namespace) -> int:
    from fuzz.campaign import warm
    from fuzz.named_cases import NAMED, results

    warm("pyarrow.parquet", "pyarrow.feather", "pyarrow.csv", "pyarrow.compute", "safetensors", "torch")
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        found = dict(results(given.named or list(NAMED), Path(folder)))
    if given.json:
        _say(json.dumps(found))
    else:
        for name, faults in found.items():
            _say(f"{name}: {'; '.join(faults) or 'holds'}")
    return int(any(found.values()))


def _mutated(given: argparse.Namespace) -> int:
    from fuzz.campaign import Campaign, Unknown
    from fuzz.samples import FORMATS

    campaigns: dict[str, Campaign] = {}
    for ending in given.format or FORMATS:
        try:
            campaigns[ending] = Campaign(ending)
        except (Unknown, ModuleNotFoundError) as reason:
            sys.stderr.write(f"{ending}: skipped, {reason}\n")
    seeds = range(given.start, given.start + given.cases) if given.seed is None else range(given.seed, given.seed + 1)
    until = time.monotonic() + 60 * (given.minutes or 0)
    findings, tried = [], Counter()
    while True:
        for ending, campaign in campaigns.items():
            for finding in campaign.findings(seeds):
                findings.append(finding)
                if not given.json:
                    _say(f"{finding.repeat}  # {finding.mutation}, {finding.command}: {'; '.join(finding.faults)}")
            tried[ending] += len(seeds)
        if given.minutes is None or time.monotonic() > until:
            break
        seeds = range(seeds.stop, seeds.stop + given.cases)
    if given.save and given.seed is not None:
        for campaign in campaigns.values():
            _say(campaign.save(given.seed, given.save.resolve()))
    if given.json:
        _say(json.dumps({"tried": tried, "findings": [asdict(each) for each in findings]}))
    else:
        for ending, number in tried.items():
            _say(f"{ending}: {sum(each.ending == ending for each in findings)} findings in {number} cases")
    return int(bool(findings))


if __name__ == "__main__":
    sys.exit(main())
