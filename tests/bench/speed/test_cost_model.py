"""The cost model of "From a laptop to a cluster": its formula, the sizes of messages, and the tables of the page."""

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


def test_the_tables_of_the_page_are_those_that_were_measured():
    page = (ROOT / "docs" / "clusters.md").read_text(encoding="utf-8")
    measured = (ROOT / "bench" / "results" / "cost_model.md").read_text(encoding="utf-8")
    tables = re.findall(r"<!-- cost_model: \w+ -->\n\n(.*?\n)\n<!-- end -->", page, re.DOTALL)
    assert len(tables) == 5
    for table in tables:
        assert "\n|---|" in table
        assert table in measured
