"""The cost model of the page "Scaling": its formula, the sizes of messages, and the numbers that the page quotes."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def test_the_slower_of_reading_and_computing_counts_and_tasks_wait_for_one_scheduler():
    from cost_model import Cost, Job

    job = Job(n_rows=1000, n_classes=50, item_size=2, n_workers=4, n_tasks=20, bandwidth=1e4, latency=0.1)
    slow_disk = Cost(per_row=1e-3, per_logit=1e-5, passes=3)
    assert job.parts(slow_disk) == pytest.approx({"reading": 10 / 4, "computing": 1.5 / 4, "scheduling": 2.0})
    assert job.seconds(slow_disk) == pytest.approx(3 * (10 / 4 + 2))
    assert job.bottleneck(slow_disk) == "reading"
    slow_kernel = Cost(per_row=0.02, per_logit=1e-5)
    assert job.seconds(slow_kernel) == pytest.approx(20.5 / 4 + 2)
    assert job.bottleneck(slow_kernel) == "computing"
    assert replace(job, crowding=1.5).seconds(slow_kernel) == pytest.approx(1.5 * 20.5 / 4 + 2)
    assert replace(job, start=7.0).seconds(slow_kernel) == pytest.approx(7 + 20.5 / 4 + 2)


def test_sums_of_a_task_are_small_and_only_those_of_rows_grow_with_clusters():
    from cost_model import N_CLUSTERS, messages

    sent = messages()
    for what, limit, per_cluster in (("fit", 2000, 16), ("evaluate", 3000, 176)):
        there, back, clustered = sent[what]
        assert there < 1200
        assert back < limit
        assert clustered - back == pytest.approx(per_cluster * N_CLUSTERS, rel=0.02)
    there, back, clustered = sent["sketch"]
    assert there < 1000
    assert back == clustered < 37_000


def cells_of(measured, start):
    """The cells of the first row of the results that starts like this."""
    line = next(line for line in measured.splitlines() if line.startswith(f"| {start} |"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_page_quotes_what_was_measured():
    page = " ".join((ROOT / "docs" / "scaling.md").read_text(encoding="utf-8").split())
    measured = (ROOT / "bench" / "results" / "cost_model.md").read_text(encoding="utf-8")
    costs = {}
    for name in ("fit", "sketch"):
        per_row, per_logit = re.fullmatch(
            r"(\S+) µs per row \+ (\S+) ns per logit", cells_of(measured, f"{name}: one reading")[1]
        ).groups()
        costs[name] = float(per_row), float(per_logit)
    (fit_row, fit_logit), (sketch_row, sketch_logit) = costs["fit"], costs["sketch"]
    sizes = {name: float(cells_of(measured, name)[2].removesuffix(" bytes").replace(",", "")) / 1000 for name in costs}
    jobs = [row.split(" | ") for row in measured.splitlines() if row.startswith("| 1e9 rows × 1000 classes")]
    takes = [float(row[5].removesuffix(" minutes")) for row in jobs]
    for sentence in (
        f"about {fit_logit:.1f} ns per logit for a fit and {sketch_logit:.0f} ns for a sketch, "
        f"plus {fit_row:.2f} and {sketch_row:.1f} µs per row",
        f"A task of a fit returns {sizes['fit']:.1f} kB, a sketch {sizes['sketch']:.0f} kB",
        f"this predicts {takes[0]:.1f} minutes for a fit and {takes[1]:.1f} for a sketch",
    ):
        assert sentence in page
    for method in ("EC", "TS"):
        c, few, many = cells_of(measured, method)[1:4]
        assert f"| {method} | {few} | {many} |" in page
        assert c.startswith({"EC": "1.7", "TS": "1.3"}[method])
