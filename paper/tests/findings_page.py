"""The page docs/findings.md, from paper/findings.md and the results of the three studies.

python paper/tests/findings_page.py
"""

import json
from pathlib import Path
from statistics import mean, stdev

from numbers_in_text import filled

PAPER = Path(__file__).resolve().parents[1]
PAGE = PAPER.parent / "docs" / "findings.md"
NOT_PLAIN = ("smoothing", "mixup")  # kinds whose labels are not plain, as in bench/studies/population_results.py


def results():
    """What the studies have measured, by name."""
    names = ("population", "shipped", "shift")
    found = {name: json.loads((PAPER / f"{name}_results.json").read_text(encoding="utf-8")) for name in names}
    kinds, hypotheses = found["population"]["kinds"], found["population"]["hypotheses"]
    ratios = [each["values"]["log_ratio"]["mean"] for kind, each in kinds.items() if not kind.endswith(NOT_PLAIN)]
    found["population"]["plain"] = {
        "kinds": len(ratios),
        "higher": sum(each < 0 for each in ratios),
        "absolute": mean(map(abs, ratios)),
    }
    grown = [mean(row["growth of T"] for row in each["growth"]) for each in kinds.values() if each["growth"]]
    found["population"]["growth"]["rose"] = sum(each > 0 for each in grown)
    found["population"]["lower"] = {name: -each["estimate"]["value"] for name, each in hypotheses.items()}
    few = [{name: each["values"][f"ece {name}, few"]["mean"] for name in ("adaptive", "ts")} for each in kinds.values()]
    behind = [each["adaptive"] - each["ts"] for each in few]
    found["population"]["behind_ts"] = {"value": mean(behind), "error": stdev(behind) / len(behind) ** 0.5}
    found["shift"]["limits"] = limits(found["shift"]["break even"]["networks"])
    return found


def limits(networks):
    """Shares of wrong labels in percent that each method tolerates: the least and the most of all networks.

    And how many times as many it tolerates by the NLL as by the ECE.
    """
    uniform = [each["uniform"] for each in networks.values()]
    shares = {
        method: sorted((each[method]["ece"] for each in uniform), key=lambda each: each["share"]) for method in ("ec", "ts")
    }
    found = {
        method: {
            which: {key: 100 * value for key, value in each.items()} for which, each in (("least", rows[0]), ("most", rows[-1]))
        }
        for method, rows in shares.items()
    }
    times = [each[method]["nll"]["share"] / each[method]["ece"]["share"] for each in uniform for method in shares]
    return found | {"nll": {"least": min(times), "most": max(times)}}


def page(stored):
    """The page in Markdown."""
    return filled((PAPER / "findings.md").read_text(encoding="utf-8"), stored)


if __name__ == "__main__":
    PAGE.write_text(page(results()), encoding="utf-8")
