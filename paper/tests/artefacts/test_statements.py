"""The paper's statements: the verdict on each, written down by hand, and the numbers of some against the tables."""

import csv
import json
from dataclasses import replace

import numpy as np
import pytest
import shell

import nishimori_paper as paper
from nishimori_paper import cli
from nishimori_paper.artefacts._rows import COLUMNS
from nishimori_paper.artefacts._statements import GROUPS

HOLDS, CONDITION, NO, OPEN = "holds", "holds with a condition", "contradicted", "cannot be judged here"
SLIP = "slip of the pen"
# Where a statement does not hold as it stands, the comment says why.
VERDICTS = {
    "abstract: validation samples": CONDITION,  # performance with 1,000 samples; the precision of T takes 1.8 times as many
    "4: computational cost": HOLDS,
    "1: origin of the similarity": CONDITION,  # the paper's analysis is about linear models
    "1: TS and Bayesian approaches": CONDITION,  # if well specified; an ensemble of networks has the lower loss
    "3: vector and matrix scaling": CONDITION,  # with 100 classes
    "2: constant prediction": HOLDS,
    "2: sign of the loss": SLIP,  # the two lines have opposite signs
    "3: direction of T": SLIP,  # reversed
    "3: which images EC uses": SLIP,  # the validation set
    "3: existence and uniqueness of T_EC": CONDITION,  # 1/K < accuracy < 1
    "3: limits of the confidence": SLIP,  # 1/K
    "3: confidence equal to top-N accuracy": CONDITION,  # not for N = K
    "4: similar temperatures": HOLDS,
    "4: similar ECE and Brier score": CONDITION,  # except the authors' network on SVHN
    "4: overconfident networks": HOLDS,
    "4: calibration improves": HOLDS,
    "4: Brier score improves": HOLDS,
    "Table 1: EC at least as good as TS": CONDITION,  # not with 100 validation images
    "A: parameters of the ResNets": HOLDS,
    "A: parameters of DenseNet121": SLIP,  # million; and the network for ImageNet
    "4: split of SVHN": CONDITION,  # one training image more
    "A: which images were augmented": CONDITION,  # the validation images, too
    "A: public networks for CIFAR-100": OPEN,
    "3, first figure: accuracy of the first figure": OPEN,
    "3, first figure: TS and EC in the reliability diagram": HOLDS,
    "4: accuracy grows with the training set": HOLDS,
    "4: similarity at every training size": HOLDS,
    "4: minimum of the ECE": CONDITION,  # with augmented validation images; with clean ones within 0.1 on 16 of 19 networks
    "4: size of the reduction": CONDITION,  # with augmented validation images; a third with clean ones
    "4: different temperatures": HOLDS,
    "C: share of corrupted labels": HOLDS,
    "C: EC better than TS under noise": HOLDS,
    "3: no validation set needed": HOLDS,
    "5.1: Bayes-optimal calibration": HOLDS,
    "5.1: T* from the data": HOLDS,
    "5.1: expectation maximisation": HOLDS,
    "1: EC against TS in several metrics": NO,  # TS often has the lower Brier score
    "5.1: ERM and T*": CONDITION,  # only in a form without a scale
    "5.2: overconfidence if well specified": HOLDS,
    "5.2: regularisation helps": HOLDS,
    "5.2: two ways to choose the penalty": HOLDS,
    "5.2, proposition: integral of the ECE": NO,  # half of it
    "5.3, figure: difference grows with misspecification": HOLDS,
    "5.3, figure: points of that figure": CONDITION,  # not for the affine teacher
    "5.3: temperature difference of the constant teacher": HOLDS,
    "5.3: EC has the lower ECE": HOLDS,
    "5.3 and 6: EC and TS if well specified": HOLDS,
    "5.3 and 6: EC against TS if misspecified": HOLDS,
    "5.3: overconfident at every level": CONDITION,  # up to 0.976
    "5.3: closer to the diagonal": HOLDS,
    "5.3, caption: temperatures of the density figure": HOLDS,
}


@pytest.fixture(scope="module")
def folder(computed):
    return computed("statements", "table-real", "table-corrupted")


@pytest.fixture(scope="module")
def statements(folder):
    """Findings by section and name."""
    return {each.what: each for each in paper.check("statements", folder)}


def read(path):
    with path.open(encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def test_every_statement_has_the_verdict_that_was_written_down(statements):
    assert {what: each.verdict for what, each in statements.items()} == VERDICTS
    assert {each.statement.true_only_of for each in statements.values()} == {None}


def test_statements_are_listed_in_the_order_of_the_paper(statements):
    sections = [each.statement.section[:1] for each in statements.values()]
    assert sections == sorted(sections, key="a1234T5AC".index)  # the caption of Table 1 (T) ends Section 4


def test_a_finding_agrees_if_its_statement_holds_with_or_without_a_condition(statements):
    for what, each in statements.items():
        assert each.agrees == (VERDICTS[what] in (HOLDS, CONDITION)), what
        assert (each.ours, each.paper) == (each.statement.ours, each.statement.quotation)
        assert each.tolerance is None


def test_the_table_of_claims_has_quotation_criterion_evidence_and_verdict(folder):
    rows = read(folder / "statements.csv")
    assert {f"{row['section']}: {row['name']}": row["verdict"] for row in rows} == VERDICTS
    assert all(row["quotation"] and row["criterion"] and row["ours"] for row in rows)


def test_the_file_of_a_run_holds_the_whole_claim_and_other_artefacts_have_none(folder):
    found, other = (json.loads((folder / f"{name}.json").read_text(encoding="utf-8")) for name in ("statements", "table-real"))
    first = found["findings"][0]
    assert first["verdict"] == first["statement"]["verdict"] == CONDITION
    assert first["statement"]["quotation"] == first["paper"]
    assert first["paper"].endswith("requiring similar validation samples")
    assert all("statement" not in each for each in other["findings"])


def test_pieces_that_two_groups_share_are_the_same_work():
    works = {}
    for group in GROUPS:
        for key, work in group.pieces(paper.Scale(quick=True)).items():
            ours = (getattr(work, "func", work), getattr(work, "args", ()))
            assert works.setdefault(key, ours) == ours, key
    assert list(works) == list(paper.artefact("statements").pieces(paper.Scale(quick=True)))


def test_statements_on_table_1_count_its_rows(statements, folder):
    rows = [{key: float(row[key]) for key in COLUMNS} for row in read(folder / "table-real.csv")]
    for metric, what in (("ece", "4: calibration improves"), ("brier", "4: Brier score improves")):
        better = sum(max(row[f"{metric}_ts"], row[f"{metric}_ec"]) < row[metric] for row in rows)
        assert statements[what].ours == f"on {better} of 11 networks"
    lower = sum(row["ece_ec"] < row["ece_ts"] for row in rows)
    rounded = sum(round(row["ece_ec"], 1) <= round(row["ece_ts"], 1) for row in rows)
    assert (lower, rounded) == (8, 10)
    mean = np.mean([row["ece_ts"] - row["ece_ec"] for row in rows])
    found = statements["Table 1: EC at least as good as TS"].ours
    assert found.startswith(f"with all of them {mean:+.2f} ± ")
    assert found.endswith(f"lower on {lower} of 11 networks and not higher in the digits of Table 1 on {rounded}")
    apart = max(abs(1 - row["temperature_ec"] / row["temperature_ts"]) for row in rows)
    assert statements["4: similar temperatures"].ours == f"at most {100 * apart:.1f} % on 11 networks"


def test_statements_on_noise_average_its_table(statements, folder):
    rows = read(folder / "table-corrupted.csv")
    ours = [row for row in rows if row["weights"] == "ours"]
    clean = [1 - float(row["ece_ec"]) / float(row["ece_ts"]) for row in ours]
    kinds = ["_augmented" if row["ece_ts_augmented"] else "" for row in ours]
    augmented = [1 - float(row[f"ece_ec{kind}"]) / float(row[f"ece_ts{kind}"]) for row, kind in zip(ours, kinds, strict=True)]
    assert (len(ours), kinds.count("_augmented")) == (8, 3)
    found = statements["4: size of the reduction"]
    assert found.ours.startswith(f"{100 * np.mean(clean):.0f} % ± ")
    spread = np.std(augmented, ddof=1) / 8**0.5
    shown = f"; {100 * np.mean(augmented):.0f} % ± {100 * spread:.0f} % with augmented ones on 3 of the eight"
    assert found.ours.endswith(shown)
    assert found.statement.paper_data.startswith("6.6 % ± 8.2 %")
    lower = sum(float(row["ece_ec"]) < float(row["ece_ts"]) for row in rows)
    assert statements["C: EC better than TS under noise"].ours.startswith(f"lower on {lower} of 11 networks, ")


def test_the_number_of_validation_samples_is_the_one_found_before(statements):
    """Worked out independently from the gaps of single samples: from 1.40 to 2.05, in the median 1.76."""
    found = statements["abstract: validation samples"].ours
    assert found.startswith("T: 1.8 times as many in the median of 19 networks, from 1.4 to 2.0. ")


def test_the_shell_shows_quotation_and_verdict_and_ends_with_three(folder):
    code, out, err = shell.nishimori("paper", "check", "statements", "-o", folder)
    assert code == 3
    assert "“EC is as efficient to run as TS”" in " ".join(out.split())
    only = replace(paper.check("statements", folder)[0].statement, true_only_of="our data")
    assert cli._statement_row(only)["verdict"].endswith(": true only of our data")
    assert "true only of" not in out
    assert f"{list(VERDICTS.values()).count(NO)} contradicted" in err
    assert f"{list(VERDICTS.values()).count(SLIP)} slips of the pen" in err
    code, out, _ = shell.nishimori("paper", "check", "statements", "-o", folder, "--json")
    rows = json.loads(out)["statements"]
    assert code == 3
    assert {row["what"]: row["verdict"] for row in rows} == VERDICTS
    assert {"what", "ours", "paper", "verdict", "quotation", "criterion", "condition", "true_only_of"} <= set(rows[0])
