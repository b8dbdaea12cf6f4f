"""The logits in paper/logits give the numbers of their page, which plain NumPy gives as well, and those of the studies."""

from pathlib import Path

import numpy as np
import pytest
import reference

ROOT = Path(__file__).parents[3]


@pytest.fixture
def study():
    import published_logits

    return published_logits


@pytest.mark.slow
def test_the_page_is_what_the_files_give(study):
    written = study.PAGE.read_text(encoding="utf-8")
    assert written == study.page(study.population_rows(), study.shift_rows())


@pytest.mark.parametrize("name", ["c10-wide-1", "c100-cosine-1"])
def test_temperatures_and_errors_of_the_page_are_those_of_numpy(study, name):
    file = np.load(ROOT / "paper" / "logits" / "population" / f"{name}.npz")
    z, y, test, truth = (
        file[each].astype(float if "logits" in each else int)
        for each in ("validation_logits", "validation_labels", "test_logits", "test_labels")
    )
    page = study.PAGE.read_text(encoding="utf-8")
    (row,) = (line for line in page.splitlines() if line.startswith(f"| {name.removesuffix('-1')} |"))
    error, ec, ts = row.strip("| ").split(" | ")[1:4]
    assert error == f"{100 * (test.argmax(axis=1) != truth).mean():.1f}"
    assert ec == f"{reference.ec_temperature(z, y):.3f}"
    assert ts == f"{reference.ts_temperature(z, y):.3f}"


def test_the_ece_of_the_study_of_shift_follows_from_the_files(study):
    eces = []
    for file in sorted((ROOT / "paper" / "logits" / "shift").glob("*.npz")):
        arrays = np.load(file)
        p, labels = reference.softmax(arrays["fog_3"].astype(float)), arrays["labels"]
        claimed, right = p.max(axis=1), p.argmax(axis=1) == labels
        own = [
            reference.ece(claimed[test], right[test], np.linspace(0, 1, 16))
            for _, test in (study.halves(len(labels), split) for split in range(10))
        ]
        eces.append(np.mean(own))
    (row,) = (line for line in study.PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| fog 3 |"))
    assert row.strip("| ").split(" | ")[2].split(" / ")[0] == f"{100 * np.mean(eces):.2f}"


def test_the_files_are_small_and_stay_out_of_the_package():
    files = list((ROOT / "paper" / "logits").rglob("*.npz"))
    assert len(files) == 15
    assert sum(each.stat().st_size for each in files) < 15e6
    assert 'packages = ["src/nishimori_paper"]' in (ROOT / "paper" / "pyproject.toml").read_text(encoding="utf-8")
