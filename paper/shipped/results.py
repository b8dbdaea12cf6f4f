"""The numbers of docs/shipped_models.md: everything that is measured of each model, into paper/shipped_results.json.

python paper/shipped/results.py development
python paper/shipped/results.py final
python paper/shipped/results.py final py3langid     # one model again; the others stay

Development may be run as often as one likes. The final half is for the end, when nothing is changed any more. Both take about
five minutes on one core.
"""

import json
import sys
from pathlib import Path

from nishimori_paper import shipped
from nishimori_paper._artefact import Scale
from nishimori_paper.artefacts._figure_shipped import network_differences
from nishimori_paper.artefacts._shipped_measures import measured, transferred
from nishimori_paper.artefacts._table_shipped import models

PATH = Path(__file__).resolve().parents[1] / "shipped_results.json"


def results(half, chosen):
    """Pieces of the artefacts, by name: of the chosen models, or of all."""
    found = {name: measured(name, half) for name in models() if name in chosen or not chosen}
    for name in shipped.names():
        model = name.removesuffix("-manuals")
        if model != name and (model in chosen or not chosen):
            found[name] = transferred(model, name, half)
    return found | {"image networks": network_differences(Scale())}


def rounded(value):
    """Six digits: more would differ between machines."""
    if isinstance(value, dict):
        return {name: rounded(each) for name, each in value.items()}
    if isinstance(value, list):
        return [rounded(each) for each in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


if __name__ == "__main__":
    stored = json.loads(PATH.read_text(encoding="utf-8")) if PATH.exists() else {}
    half, *chosen = sys.argv[1:]
    stored[half] = (stored.get(half, {}) if chosen else {}) | rounded(results(half, chosen))
    PATH.write_text(json.dumps(stored, indent=1, sort_keys=True) + "\n", encoding="utf-8")
