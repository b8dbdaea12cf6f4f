"""The keys of the JSON of each command are those that the documentation lists; what `show` prints depends on the file."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import reference

PAGE = Path(__file__).parents[2] / "docs" / "command_line.md"
COMMANDS = {
    "fit": "fit val.npz -o again.json --json",
    "sketch": "sketch val.npz -o s.npz --json",
    "merge": "merge m.npz -o s.npz --json",
    "apply": "apply c.json val.npz -o p.npz --json",
    "eval": "eval val.npz --calibration c.json --json",
    "gate": "gate val.npz --bound ece=1 --json",
    "compare": "compare val.npz --methods none,ts --json",
    "diff": "diff c.json c.json --json",
    "methods": "methods --json",
    "report": "report val.npz --json",
}


@pytest.fixture
def files(tmp_path, run):
    logits, labels = reference.drawn(200, 3)
    np.savez(tmp_path / "val.npz", logits=logits, labels=labels)
    assert run("fit val.npz -o c.json").code == run("sketch val.npz -o m.npz").code == 0


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("command", COMMANDS)
def test_all_keys_of_the_json_are_documented(run, command):
    table = PAGE.read_text(encoding="utf-8").split("| command | keys |")[1]
    (documented,) = re.findall(rf"^\| [^|]*`{command}`[^|]* \| (.*) \|$", table, re.MULTILINE)
    keys = json.loads(run(COMMANDS[command]).out)
    assert [name for name in keys if f"`{name}`" not in documented] == []
