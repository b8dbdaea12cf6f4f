"""The studies of tests and of numbers of samples run at a small size, and find what they are about."""

import pytest


@pytest.fixture
def study(run_study, tmp_path):
    """Run a script of bench/ and give the cells of the tables that it wrote."""

    def run(name, *options):
        out = tmp_path / f"{name}.md"
        run_study(name, *options, "--out", out)
        lines = out.read_text(encoding="utf-8").splitlines()
        return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("|")]

    return run


def test_the_temperature_test_keeps_its_size_and_finds_label_noise(study, tmp_path):
    picture = tmp_path / "shares.png"
    options = ["--repeats", "40", "--power-repeats", "20", "--sizes", "400", "--picture", str(picture)]
    rows = study("temperature_test", *options, "--networks", "cifar10/resnet20", "--teachers", "constant")
    chosen = {row[0]: float(row[4]) for row in rows[2:]}
    assert chosen["labels redrawn from softmax(z/T)"] < 20  # four standard errors above 5
    assert chosen["label noise as in Table 2"] > 60
    assert len(rows) == 2 + 5
    assert picture.stat().st_size > 10_000


def test_tests_of_calibration_keep_their_size_and_find_a_wrong_temperature(study):
    options = ["--repeats", "40", "--power-repeats", "15", "--sizes", "300", "--power-sizes", "300"]
    options += ["--networks", "cifar10/resnet20"]
    rows = study("calibration_tests", *options)
    header, _, sizes = rows[:3]
    assert len(header) == len(sizes) == 3 + 5 + 3
    assert all(float(cell) < 20 for cell in sizes[3:8])
    (wrong,) = (row for row in rows if row[2] == "1.200")
    assert max(float(cell) for cell in wrong[3:]) > 30
    (fitted,) = (row for row in rows if row[2] == "EC")
    assert float(fitted[3]) == 0  # mean confidence is accuracy


def test_pilots_predict_the_spread_and_the_plan(study):
    options = ["--pilots", "8", "--draws", "12", "--networks", "cifar10/resnet20", "--teachers", "probit"]
    rows = study("required_samples", *options)
    assert [row[:2] for row in rows[2:4]] == [["cifar10/resnet20", "EC"], ["cifar10/resnet20", "TS"]]
    for row in rows[2:4]:
        assert 0.8 < float(row[3].split()[0]) < 3.5  # 2 %, and four standard errors of 12 draws
    for row in rows[6:]:
        predicted, planned = (float(row[i].split()[0].replace(",", "")) for i in (2, 3))
        assert 0.7 < predicted / planned < 1.4


def test_intervals_of_clusters_contain_the_truth_more_often_than_those_of_rows(study):
    rows = study("cluster_coverage", "--draws", "60", "--numbers", "40")
    assert rows[0][:3] == ["clusters", "EC", "TS"]
    (found,) = ([float(cell) for cell in row[1:]] for row in rows[2:])
    assert found[0] > 83  # 95, and four standard errors of 60 draws
    assert found[1] > 83
    assert found[3] < found[1]
