"""The keys of the JSON of each command are those that the documentation lists; what `show` prints depends on the file."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import reference

PAGE = Path(__file__).parents[2] / "docs" / "command_line.md"
COMMANDS = {
    "fit": ["fit val.npz -o again.json --json", "fit val.npz --method best -o best.json --json"],
    "sketch": ["sketch val.npz -o s.npz --json"],
    "merge": ["merge m.npz -o s.npz --json"],
    "apply": ["apply c.json val.npz -o p.npz --json"],
    "eval": ["eval val.npz --calibration c.json --by prediction --json"],
    "gate": ["gate val.npz --bound ece=1 --json", "gate val.npz --bound ece=7 --json"],
    "threshold": ["threshold val.npz --groups site --max-risk 0.9 --json"],
    "compare": ["compare val.npz --methods none,ts,ec --groups site --json"],
    "diff": ["diff c.json c.json --json"],
    "methods": ["methods --json"],
    "report": ["report val.npz --groups site --bound ece=0.5 --json"],
}


@pytest.fixture
def files(tmp_path, run):
    logits, labels = reference.drawn(200, 3)
    np.savez(tmp_path / "val.npz", logits=logits, labels=labels, site=np.arange(200) % 3)
    assert run("fit val.npz -o c.json").code == run("sketch val.npz -o m.npz").code == 0


SECTION = PAGE.read_text(encoding="utf-8").split("### Keys of the JSON\n")[1].split("\n## ")[0]
COMMON = SECTION.partition("\n- ")[0]  # keys that several commands have
NAMED_BY_USERS = ("params", "parameters", "left_out")  # what is in these has names of its own


def documented(command):
    """What the page says of a command, and of those that it refers to."""
    (entry,) = re.findall(rf"^- \*\*[^*]*`{command}`[^*]*\*\*: (.*)$", SECTION, re.MULTILINE)
    return COMMON + entry + "".join(documented(other) for other in set(re.findall(r"as of `(\w+)`", entry)))


def keys_in(value):
    """All keys of JSON, of dictionaries in it too."""
    if isinstance(value, list):
        return {key for entry in value for key in keys_in(entry)}
    if not isinstance(value, dict):
        return set()
    inside = [keys_in(entry) for name, entry in value.items() if name not in NAMED_BY_USERS]
    return set(value).union(*inside)


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("command", COMMANDS)
def test_all_keys_of_the_json_are_documented(run, command):
    named = set(re.findall(r"`(\w+)`", documented(command)))
    # Metrics have differences, standard errors, limits and p-values beside them.
    named |= {f"{name}_difference" for name in named}
    named |= {f"{name}_{end}" for name in named for end in ("se", "low", "high", "p")}
    for line in COMMANDS[command]:
        assert sorted(keys_in(json.loads(run(line).out)) - named) == []
