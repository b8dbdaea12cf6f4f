"""The paper's claims: the verdict on each, written down by hand, and the numbers of some against the tables."""

import csv

import numpy as np
import pytest

from nishimori import paper
from nishimori.paper.artefacts._rows import COLUMNS

# Of sentences that do not hold, the comment says why.
VERDICTS = {
    "A: million parameters of resnet20": "agrees",
    "A: million parameters of resnet56": "agrees",
    "A: million parameters of densenet121": "differs",  # 7.9 million belong to the network for ImageNet
    "4: training and validation digits of SVHN": "differs",  # one training image more
    "3: a network's mean confidence falls to zero as T grows": "differs",  # it falls to 1/K
    "4: EC and TS yield very similar temperatures": "agrees",
    "4: both give T > 1: the networks were overconfident": "agrees",
    "4: both methods improve calibration": "agrees",
    "4: both methods improve the Brier score": "agrees",
    "4: with very similar Brier scores": "agrees",
    "Table 1: EC has at least as low an ECE as TS in every row": "differs",  # in 10 of 11
    "4: neither T is close to the minimum of ECE (DenseNet121, clean validation)": "differs",  # 0.01 away
    "4: neither T is close to the minimum of ECE (DenseNet121, augmented validation)": "agrees",
    "Figure: EC's reliability diagram is indistinguishable from TS's (ResNet20)": "agrees",
    "4: accuracy grows with the training set": "agrees",
    "4: T_TS and T_EC are extremely similar at every size, as in Table 1": "agrees",
    "C: share of labels that are replaced, around": "agrees",
    "4: EC's mean reduction of the ECE under label noise, eight networks": "differs",  # a third, not 7 %
    "C: EC outperforms TS by a significant margin on several networks": "agrees",
    "4: under noise the temperatures differ, contrary to Table 1": "agrees",
    "5.1: the Bayes-optimal estimator's mean confidence is its accuracy": "agrees",
    "5.1: least loss and EC both choose T* for the likelihood": "agrees",
    "5.1: T* also has the least classification error": "agrees",
    "5.1: in ERM neither TS nor EC finds T*, well specified, T* = 0.5 and 2, at λ_loss": "agrees",
    "5.1: in ERM neither TS nor EC finds T*, at λ = 1e-4": "agrees",
    "5.3: δT grows from logit to affine to constant, at every α": "agrees",
    "5.3: δT of the constant teacher never falls with α": "agrees",
    "5.3: δT of the constant teacher at α = 20, around": "agrees",
    "Figure: the points of the affine teacher are simulations": "differs",  # they are the curve
    "3: mean confidence falls to zero as T grows": "differs",  # it falls to 1/2
    "5.3: EC has the lower ECE in all settings": "agrees",
    "5.3: lead of EC in ECE for the logit teacher, points, around": "agrees",
    "5.3: the lead is larger for the other teachers": "agrees",
    "1: EC consistently outperforms TS in different metrics": "differs",  # TS often has the lower Brier score
    "5.2: logistic regression is overconfident if well specified": "agrees",
    "6: EC and TS perform the same if well specified": "agrees",
    "5.2: λ_error instead of 1e-4 lowers the error": "agrees",
    "5.2: λ_error instead of 1e-4 lowers the ECE": "agrees",
    "5.2: λ_loss instead of 1e-4 lowers the ECE": "agrees",
    "5.2: λ_error and λ_loss differ more if misspecified": "agrees",
    "5.3: overconfident at every level, affine": "differs",  # not near 1
    "5.3: TS and then EC bring it closer to the diagonal": "agrees",
    "Caption: T_TS": "agrees",
    "Caption: T_EC": "agrees",
    "Caption: ECE uncalibrated, %": "explained",  # the integral over half the line
    "Caption: ECE after TS, %": "explained",
    "Caption: ECE after EC, %": "explained",
    "Proposition: the integral over z > 0 is the ECE": "differs",  # half of it
}


@pytest.fixture(scope="module")
def folder(computed):
    return computed("claims", "table-real", "table-corrupted")


@pytest.fixture(scope="module")
def claims(folder):
    """Findings by their sentence."""
    return {each.what: each for each in paper.check("claims", folder)}


def read(path):
    with path.open(encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def test_every_sentence_has_the_verdict_that_was_written_down(claims):
    assert {what: each.verdict for what, each in claims.items()} == VERDICTS
    assert list(claims) == list(VERDICTS)


def test_a_sentence_in_words_has_no_tolerance_and_one_in_numbers_has(claims):
    for what, each in claims.items():
        assert isinstance(each.ours, str) == (each.tolerance is None), what


def test_the_table_of_claims_says_which_hold(claims, folder):
    assert [(row["what"], row["holds"]) for row in read(folder / "claims.csv")] == [
        (what, str(verdict == "agrees")) for what, verdict in VERDICTS.items()
    ]


def test_sentences_on_table_1_count_its_rows(claims, folder):
    rows = [{key: float(row[key]) for key in COLUMNS} for row in read(folder / "table-real.csv")]
    for metric, what in (("ece", "4: both methods improve calibration"), ("brier", "4: both methods improve the Brier score")):
        better = sum(max(row[f"{metric}_ts"], row[f"{metric}_ec"]) < row[metric] for row in rows)
        assert claims[what].ours == f"on {better} of 11"
    lower = sum(round(row["ece_ec"], 1) <= round(row["ece_ts"], 1) for row in rows)
    assert claims["Table 1: EC has at least as low an ECE as TS in every row"].ours == f"in {lower} of 11"
    apart = max(abs(1 - row["temperature_ec"] / row["temperature_ts"]) for row in rows)
    assert claims["4: EC and TS yield very similar temperatures"].ours == f"within {apart:.1%}"


def test_sentences_on_noise_average_its_table(claims, folder):
    rows = read(folder / "table-corrupted.csv")
    found = claims["4: EC's mean reduction of the ECE under label noise, eight networks"]
    ours = [row for row in rows if row["weights"] == "ours"]
    clean = [1 - float(row["ece_ec"]) / float(row["ece_ts"]) for row in ours]
    kinds = ["_augmented" if row["ece_ts_augmented"] else "" for row in ours]
    augmented = [1 - float(row[f"ece_ec{kind}"]) / float(row[f"ece_ts{kind}"]) for row, kind in zip(ours, kinds, strict=True)]
    assert (found.paper, len(ours), kinds.count("_augmented")) == (0.07, 8, 3)
    assert (found.ours, found.paper_method) == pytest.approx((np.mean(clean), np.mean(augmented)), rel=1e-9)
    lower = sum(float(row["ece_ec"]) < float(row["ece_ts"]) for row in rows)
    found = claims["C: EC outperforms TS by a significant margin on several networks"]
    assert found.ours.startswith(f"lower ECE on {lower} of 11, ")
