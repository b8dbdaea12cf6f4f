"""The study of the gate runs at a small size, and finds what it is about."""

import importlib.util
import sys
from pathlib import Path

BENCH = Path(__file__).parents[2] / "bench"


def test_the_study_of_the_gate_counts_mistakes_and_detections(monkeypatch, tmp_path):
    spec = importlib.util.spec_from_file_location("gate", BENCH / "gate.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "gate", module)
    spec.loader.exec_module(module)
    out = tmp_path / "gate.md"
    words = ["gate", "--draws", "20", "--sizes", "1000", "--population", "20000", "--out", str(out)]
    monkeypatch.setattr(sys, "argv", words)
    module.main()
    lines = [line for line in out.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    header, _, *rows = ([cell.strip() for cell in line.split("|")[1:-1]] for line in lines)
    assert header[3:] == list(module.CHECKS)
    assert len(rows) == 3 + 3 * 2
    for row in rows:
        shares = [float(cell.split(" / ")[0]) for cell in row[3:]]
        if row[1] == "true value":
            assert max(shares) <= 30, row  # 5 %, and five standard errors of 20 draws
        else:
            assert min(shares[2:5]) > 80, row  # error and losses at twice their bound
