"""What a release needs to be consistent: versions, addresses, lower bounds, and workflows that name what exists."""

import re
import tomllib
from pathlib import Path

import pytest
from optional import yaml
from packaging.requirements import Requirement

import nishimori

ROOT = Path(__file__).parents[2]
LIBRARY = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PAPER = tomllib.loads((ROOT / "paper" / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
# Extras whose lowest versions would need gigabytes, or tests of their own.
HEAVY = {"torch", "onnx", "skl2onnx", "dask", "transformers", "lightning", "torchmetrics", "all"}


def steps(workflow):
    jobs = yaml.safe_load(workflow.read_text(encoding="utf-8"))["jobs"]
    return [step for job in jobs.values() for step in job.get("steps", ())]


def test_one_version_everywhere():
    assert f"nishimori=={nishimori.__version__}" in PAPER["dependencies"]
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {nishimori.__version__}\n" in citation
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(r"^## (\S+)", changelog, re.MULTILINE)[1] == nishimori.__version__


def test_both_distributions_have_the_same_addresses_and_pythons():
    assert {"Homepage", "Documentation", "Source", "Issues", "Changelog", "Paper"} == set(LIBRARY["urls"]) == set(PAPER["urls"])
    assert all(PAPER["urls"][name].startswith(address) for name, address in LIBRARY["urls"].items())
    assert LIBRARY["requires-python"] == PAPER["requires-python"]
    pythons = [[each for each in project["classifiers"] if ":: 3." in each] for project in (LIBRARY, PAPER)]
    assert pythons[0] == pythons[1] != []


def test_the_lowest_versions_that_are_tested_are_those_that_are_allowed():
    extras = LIBRARY["optional-dependencies"]
    assert set(extras) >= HEAVY
    allowed = [*LIBRARY["dependencies"], *(each for name in extras.keys() - HEAVY for each in extras[name])]
    lines = (ROOT / "requirements" / "minimum.txt").read_text(encoding="utf-8").partition("# With which")[0].splitlines()
    tested = {line for line in lines if not line.startswith("#")}
    assert tested == {str(Requirement(each)).replace(">=", "==") for each in allowed}


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_names_targets_and_files_that_exist_and_asks_for_few_permissions(workflow):
    content = yaml.safe_load(workflow.read_text(encoding="utf-8"))
    assert content["permissions"] == {"contents": "read"}
    lines = "\n".join(step["run"] for step in steps(workflow) if "run" in step)
    assert set(re.findall(r"\bmake ([a-z-]+)", lines)) <= TARGETS
    named = re.findall(r"(?<![\w/.-])((?:requirements|tests|\.ci)/[\w./-]+)", workflow.read_text(encoding="utf-8"))
    assert [name for name in named if not (ROOT / name).exists()] == []
    for step in steps(workflow):
        assert re.fullmatch(r"[\w.-]+/[\w.-]+@(v\d+|release/v1|[0-9a-f]{40})", step.get("uses", "a/b@v1"))
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False


def test_only_what_publishes_can_prove_who_it_is():
    (release,) = (path for path in WORKFLOWS if path.stem == "release")
    jobs = yaml.safe_load(release.read_text(encoding="utf-8"))["jobs"]
    granted = {name: job["permissions"] for name, job in jobs.items() if "permissions" in job}
    assert granted == {"publish": {"id-token": "write"}, "publish-paper": {"id-token": "write"}}
    assert all(jobs[name]["environment"]["name"] == "pypi" for name in granted)
    assert set(jobs["publish"]["needs"]) == {"tests", "archives", "wheels"}


def test_what_is_not_free_stays_out_of_the_source_archive():
    include = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]["targets"]["sdist"]
    # Without the slash, hatchling takes "src" for every folder of that name, paper/src and its logits of SVHN among them.
    assert all(name.startswith("/") for name in include["include"])
