"""Gaps of groups: those of the rows, with the errors of independent rows, counts or clusters, and honest marks."""

import json

import numpy as np
import pytest
import reference
from optional import torch

import nishimori
from nishimori import GroupConsistency, group_gaps
from nishimori._evaluation.group_gaps import holm
from nishimori.errors import InputError

RNG = np.random.default_rng(11)
LOGITS, LABELS = reference.drawn(900, 4, temperature=1.6)
TOP = LOGITS.argmax(axis=1)
SITES = np.array(["a", "b", "c"])[RNG.integers(3, size=900)]
WEIGHTS = RNG.integers(0, 3, 900).astype(float)
CLUSTERS = RNG.integers(0, 60, 900)


def by_hand(groups, temperature=1.0, weights=None, **options):
    """Name, n, confidence, accuracy, gap and its standard error, from the rows of each group."""
    p, right = reference.softmax(LOGITS, temperature).max(axis=1), TOP == LABELS
    weights = np.ones(900) if weights is None else weights
    for name in np.unique(groups):
        rows = (groups == name) & (weights > 0)
        w, c, r = weights[rows], p[rows], right[rows]
        inside = {key: value[rows] if key == "clusters" else value for key, value in options.items()}
        measured = reference.error_of_mean(c - r, w, **inside)
        units = w if options.get("counts") else w**2
        model = np.sqrt((units * c * (1 - c)).sum()) / w.sum()
        yield (
            name,
            rows.sum(),
            np.average(c, weights=w),
            np.average(r, weights=w),
            np.average(c - r, weights=w),
            max(measured, model),
        )


@pytest.mark.parametrize("how", ["rows", "counts", "clusters"])
@pytest.mark.parametrize("by", ["prediction", "groups"])
def test_gaps_and_errors_are_those_of_the_rows_of_each_group(by, how):
    options = {"clusters": CLUSTERS} if how == "clusters" else {"counts": how == "counts"}
    groups = SITES if by == "groups" else None
    found = group_gaps(LOGITS, LABELS, by=by, groups=groups, temperature=1.3, sample_weight=WEIGHTS, **options)
    expected = list(by_hand(TOP if by == "prediction" else SITES, 1.3, WEIGHTS, **options))
    assert [each.name for each in found] == [row[0] for row in expected]
    for each, (_, n, confidence, accuracy, gap, se) in zip(found, expected, strict=True):
        assert each.n == n
        assert [each.confidence, each.accuracy, each.gap, each.se] == pytest.approx([confidence, accuracy, gap, se], rel=1e-9)
    assert found.mean_abs_gap == pytest.approx(np.mean([abs(row[4]) for row in expected]))


def test_a_calibrator_is_applied_before_groups_are_made():
    biased = nishimori.calibrators.FixedMap(nishimori.maps.Affine(1.0, [0.0, 0.0, 0.0, 2.0]))
    biased.fit(LOGITS, LABELS)
    found = group_gaps(LOGITS, LABELS, calibrator=biased)
    predicted = np.add(LOGITS, [0, 0, 0, 2]).argmax(axis=1)
    assert [each.n for each in found] == np.bincount(predicted).tolist()
    assert found[3].accuracy == pytest.approx((LABELS[predicted == 3] == 3).mean())


def test_groups_that_would_not_be_used_are_refused():
    message = r"^`groups` must be left out with by='prediction', unless .* got some\. Pass by='groups' to measure"
    with pytest.raises(InputError, match=message):
        group_gaps(LOGITS, LABELS, groups=SITES)


def test_groups_go_to_a_calibrator_that_needs_them():
    fitted = GroupConsistency(by="groups").fit(LOGITS, LABELS, groups=SITES)
    found = group_gaps(LOGITS, LABELS, by="groups", groups=SITES, calibrator=fitted)
    confidence = fitted.predict_proba(LOGITS, groups=SITES).max(axis=1)
    assert found["b"].confidence == pytest.approx(confidence[SITES == "b"].mean())
    per_class = group_gaps(LOGITS, LABELS, groups=SITES, calibrator=fitted)
    assert per_class[2].confidence == pytest.approx(confidence[TOP == 2].mean())


def test_a_group_without_errors_has_the_error_that_its_confidence_implies():
    right = np.where(TOP == 1, TOP, LABELS)
    found = group_gaps(LOGITS, right)[1]
    c = reference.softmax(LOGITS).max(axis=1)[TOP == 1]
    assert found.accuracy == 1
    assert found.se == pytest.approx(np.sqrt((c * (1 - c)).sum()) / len(c))


def test_calibrated_groups_are_seldom_marked_and_their_corrected_gap_is_near_zero():
    marked, gaps, corrected = [], [], []
    for seed in range(60):
        logits, labels = reference.drawn(1500, 12, temperature=1.0, seed=seed)
        found = group_gaps(logits, labels)
        marked.append(bool(found.off))
        gaps.append(found.mean_abs_gap)
        corrected.append(found.mean_abs_gap_corrected)
    assert np.mean(marked) <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / 60)
    assert np.mean(corrected) < 0.45 * np.mean(gaps)


def test_groups_that_are_off_are_marked_and_come_first():
    logits = np.where((TOP == 2)[:, None], 6 * LOGITS, LOGITS / 1.6)
    found = group_gaps(logits, LABELS)
    assert found.off == (2,)
    assert found.worst_first[0].name == 2
    gaps = [abs(each.gap) for each in found.worst_first[1:]]
    assert gaps == sorted(gaps, reverse=True)


def test_p_values_are_adjusted_after_holm():
    assert holm([0.01, 0.04, 0.03, 0.005]).tolist() == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]).tolist() == [1.0, 1.0]


def test_groups_without_samples_are_left_out():
    logits = LOGITS.copy()
    logits[:, 3] = logits.min(axis=1) - 1
    found = group_gaps(logits, np.where(LABELS == 3, 0, LABELS))
    assert [each.name for each in found] == [0, 1, 2]
    with pytest.raises(InputError, match=r"^`name` must be one of 0, 1, 2, got 3\.$"):
        found[3]


def test_labels_of_classes_name_the_groups_and_tensors_work():
    words = np.array(["cat", "dog", "emu", "fox"])
    found = group_gaps(torch.tensor(LOGITS), words[LABELS], classes=words.tolist())
    assert [each.name for each in found] == words.tolist()
    np.testing.assert_allclose([each.gap for each in found], [each.gap for each in group_gaps(LOGITS, LABELS)], rtol=1e-9)
    fitted = GroupConsistency(classes=words.tolist()).fit(LOGITS, words[LABELS])
    assert group_gaps(LOGITS, words[LABELS], calibrator=fitted)["emu"].n == (TOP == 2).sum()


def test_streams_have_the_gaps_of_arrays():
    batches = [(LOGITS[rows], LABELS[rows]) for rows in np.array_split(np.arange(900), 4)]
    found = group_gaps(lambda: iter(batches))
    np.testing.assert_allclose([each.se for each in found], [each.se for each in group_gaps(LOGITS, LABELS)], rtol=1e-9)


def test_the_table_has_the_worst_group_first_and_a_summary():
    logits = np.where((TOP == 2)[:, None], 6 * LOGITS, LOGITS / 1.6)
    found = group_gaps(logits, LABELS)
    worst = found[2]
    title, table, notes = str(found).split("\n\n")
    assert title == "Gap of each predicted class: confidence minus accuracy"
    lines = table.splitlines()
    assert lines[0].split() == ["class", "n", "confidence", "accuracy", "gap", "in", "points", "significant"]
    gap = f"+{100 * worst.gap:.1f} ± {100 * worst.se:.1f}"
    assert lines[2].split("  ")[0] == "2"
    assert gap in lines[2]
    assert lines[2].endswith("yes")
    assert " ".join(notes.split()).startswith(
        "1 of 4 gaps is significant (level 95 %, Holm's correction). "
        f"Mean absolute gap {100 * found.mean_abs_gap:.2f} points; bias-corrected {100 * found.mean_abs_gap_corrected:.2f} "
    )
    assert found.to_markdown().startswith("| class | n | confidence |")
    assert r"\toprule" in found.to_latex()
    assert "<table>" in found._repr_html_()


def test_many_groups_are_cut_when_printed():
    logits, labels = reference.drawn(2000, 30, temperature=1.0)
    text = str(group_gaps(logits, labels))
    assert "... and 10 more" in text
    assert "\nNone of 30 gaps is significant " in text


def test_everything_is_there_for_machines():
    found = group_gaps(LOGITS, LABELS, by="groups", groups=SITES)
    content = json.loads(found.to_json())
    assert content["by"] == "groups"
    assert content["groups"][1]["name"] == "b"
    assert content["groups"][1]["gap"] == found["b"].gap
    low, high = found.interval()
    assert content["mean_abs_gap_low"] == low <= content["mean_abs_gap_corrected"] <= high
    frame = found.to_pandas()
    assert frame.loc["c", "se"] == found["c"].se
    assert len(found) == 3


MESSAGES = {
    "`by` must be 'prediction' or 'groups', got 'class'.": {"by": "class"},
    "`level` must lie between 0 and 1, got 2.": {"level": 2},
    "`temperature` must be left out: `calibrator` already determines it.": {
        "temperature": 2.0,
        "calibrator": nishimori.from_temperature(2.0),
    },
    "`groups` must name the group of each sample with by='groups', got none. Use by='prediction' for the predicted classes.": {
        "by": "groups"
    },
    "`counts` must be False where `clusters` is given: copies of a sample belong to its cluster.": {
        "clusters": CLUSTERS,
        "counts": True,
    },
}


@pytest.mark.parametrize("message", MESSAGES)
def test_what_cannot_be_meant_is_refused(message):
    with pytest.raises(InputError) as caught:
        group_gaps(LOGITS, LABELS, **MESSAGES[message])
    assert str(caught.value) == message


def test_a_sketch_is_refused():
    with pytest.raises(InputError, match=r"^A Sketch has no sums per group\. Pass logits and labels instead\.$"):
        group_gaps(nishimori.Sketch().update(LOGITS, LABELS))
