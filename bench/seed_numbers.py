"""Turn logits of further trainings and draws of the augmentation into `spreads.toml`, which comes with the package.

    python bench/seed_numbers.py OUT DRAWS.json > paper/src/nishimori_paper/spreads.toml

OUT is what `bench/seeds.py` wrote, DRAWS.json what `bench/augmentation.py` wrote. Numbers are those of the paper's tables, as
fractions and not in percent, computed by the code that computes the tables.
"""

import argparse
import json
from pathlib import Path

from nishimori import data
from nishimori_paper._artefact import Scale
from nishimori_paper._measured import scores_by_kind, validations
from nishimori_paper._names import NetworkName
from nishimori_paper.artefacts._rows import COLUMNS
from nishimori_paper.artefacts._table_corrupted import _noisy

HEADER = """\
# How much the numbers of the paper's tables vary. `trainings`: networks trained again with other seeds, one entry per seed.
# Seed 0 is that of the bundled logits and not in the lists. `augmentations`: the authors' networks, calibrated on validation
# images that are shifted and mirrored at random, one entry per draw. Everything except temperatures is a fraction, not percent.
# With noisy labels, each entry is the mean over 20 draws of the noise. Written by bench/seed_numbers.py.
"""


def columns(rows, names):
    """One line of TOML per column."""
    return [f"{name} = [{', '.join(f'{row[name]:.6g}' for row in rows)}]" for name in names]


def training_lines(networks):
    """The numbers of one network with several seeds, and how it was trained."""
    first = networks[0].provenance
    name = str(NetworkName.parse(networks[0].name))
    recipe = ", ".join(f"{key} = {json.dumps(value)}" for key, value in first["recipe"].items() if value is not None)
    versions = ", ".join(f"{key} = {json.dumps(value)}" for key, value in first["versions"].items())
    lines = [
        f'\n[trainings."{name}"]',
        f"seeds = {[each.provenance['seed'] for each in networks]}",
        f"recipe = {{ {recipe} }}",
        f"data = {json.dumps(first['data'])}",
        f"device = {json.dumps(first['device'] + ', several runs at a time')}",
        f"settings = {{ {', '.join(f'{key} = {json.dumps(value)}' for key, value in first['settings'].items())} }}",
        f"versions = {{ {versions} }}",
    ]
    for split in ("test", "validation"):
        epochs = [[round(error, 4) for error in each.provenance["last_epochs"][f"{split}_error"]] for each in networks]
        lines += [f"last_epochs_{split}_error = [", *(f"    {each}," for each in epochs), "]"]
    noisy = [_noisy(each, Scale()) for each in networks]
    clean = [scores_by_kind(validations(each), each.test) for each in networks]
    for kind in clean[0]:
        lines += [f'\n[trainings."{name}".clean_labels.{kind}]', *columns([each[kind] for each in clean], COLUMNS)]
    for kind in clean[0]:
        lines += [f'\n[trainings."{name}".noisy_labels.{kind}]', *columns([each[kind] for each in noisy], COLUMNS)]
    return lines


def augmentation_lines(name, draws):
    """The calibrated columns of the authors' network; the others do not depend on the draw."""
    calibrated = [each for each in COLUMNS if each.endswith(("_ts", "_ec"))]
    lines = [f'\n[augmentations."{name}"]', f"draws = {len(draws)}"]
    for labels in ("clean", "noisy"):
        lines += [f'\n[augmentations."{name}".{labels}_labels]']
        lines += columns([each[f"{labels} labels"] for each in draws.values()], calibrated)
    return lines


def main():
    """Print the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, metavar="OUT")
    parser.add_argument("draws", type=Path, metavar="DRAWS.json")
    chosen = parser.parse_args()
    groups = {}
    for path in sorted(chosen.out.glob("*/*.npz")):
        network = data.load(path)
        groups.setdefault(network.name, []).append(network)
    lines = [HEADER.rstrip()]
    for networks in groups.values():
        lines += training_lines(sorted(networks, key=lambda each: each.provenance["seed"]))
    for name, draws in json.loads(chosen.draws.read_text()).items():
        lines += augmentation_lines(name, draws)
    print("\n".join(lines))


if __name__ == "__main__":
    main()
