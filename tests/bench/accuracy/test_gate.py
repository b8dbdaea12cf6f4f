"""The study of the gate runs at a small size, and finds what it is about."""

from concurrent.futures import Executor, Future


def test_the_study_of_the_gate_counts_mistakes_and_detections(run_study, monkeypatch, tmp_path):
    import gate

    monkeypatch.setattr(gate, "ProcessPoolExecutor", InProcess)
    out = tmp_path / "gate.md"
    sizes = ["--draws", "20", "--rare-draws", "20", "--few-draws", "8", "--sizes", "1000", "--population", "100000"]
    run_study("gate", *sizes, "--networks", "cifar10/resnet20", "--processes", "1", "--out", out)
    tables = [table_in(part) for part in out.read_text(encoding="utf-8").split("\n## ")[1:]]
    nll, power, rare, settings = tables
    assert len(nll) == 2
    assert all(float(row[2]) <= 25 for row in nll), "passes at the truth: 5 %, and four standard errors of 20 draws"
    assert all(float(row[3]) <= 25 for row in nll), "failures at the truth"
    assert [row[0] for row in power] == ["cifar10/resnet20"]
    assert [row[0].split(",")[0] for row in rare] == ["all bins", "confidence 99 %", "confidence 98 %", "all bins"]
    assert all(max(float(row[4]), float(row[5])) <= 25 for row in rare)
    assert len(settings) == 3 + 3 * 2
    for row in settings:
        shares = [float(cell.split(" / ")[0]) for cell in row[3:]]
        if row[1] == "true value":
            assert max(shares) <= 50, row  # 5 %, and five standard errors of 8 draws
        else:
            assert min(shares[2], shares[3], shares[5]) > 80, row  # error, Brier score and any of them, at twice their bound


def table_in(text):
    """The rows of the one table of a text."""
    _, _, *rows = ([cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|"))
    return rows


class InProcess(Executor):
    """Runs what it is told at once, in this process, which knows the module."""

    def __init__(self, processes):
        assert processes == 1

    def submit(self, function, *arguments):
        done = Future()
        done.set_result(function(*arguments))
        return done
