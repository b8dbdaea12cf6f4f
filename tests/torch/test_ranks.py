"""Two real processes find what one process finds with the rows of both, to the last bit the same on each of them.

All calls are made by one job, `ranks_job.py`, because starting processes takes most of the time.
"""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import reference
from ranks_job import DOCUMENTS, MANY_CLASSES, SITES, SMALL, TEMPERATURE, WEIGHTS, cut

import nishimori

JOB = Path(__file__).parents[1] / "helpers" / "ranks_job.py"
LONGEST = 300  # seconds, on a slow machine that is busy; a rank that waits for another one in vain gives up after 120


def free_port():
    """A port that nobody uses, for the example, which finds the other rank there."""
    with socket.socket() as some:
        some.bind(("127.0.0.1", 0))
        return str(some.getsockname()[1])


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """What each of the two ranks wrote, and their standard errors."""
    folder = tmp_path_factory.mktemp("job")
    environment = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    command = [sys.executable, str(JOB)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    port = free_port()
    arguments = [[str(rank), str(folder), port] for rank in range(2)]
    processes = [subprocess.Popen([*command, *each], env=environment, **pipes) for each in arguments]
    try:
        notes = [each.communicate(timeout=LONGEST)[1] for each in processes]
    finally:
        for each in processes:
            each.kill()
    assert [each.returncode for each in processes] == [0, 0], notes
    return [json.loads((folder / f"{rank}.json").read_text(encoding="utf-8")) for rank in range(2)], notes


@pytest.fixture(scope="module")
def ranks(job):
    return job[0]


def numbers(values):
    return [float.fromhex(each) for each in values]


def test_every_rank_has_the_same_bits(ranks):
    own = {"rank_1", "not_in_group", "n_samples", "own_part", "alone", "interrupted"}  # which differ on purpose
    for part in ("fits", "parts", "without_rows", "sketches", "networks"):
        kept = [{name: each for name, each in found[part].items() if name not in own} for found in ranks]
        for found in kept:  # causes of errors are known only where they happened
            found.update({name: each[:2] for name, each in found.items() if isinstance(each, list) and "Error" in str(each[0])})
        assert kept[0] == kept[1], part


def test_scores_between_0_and_1_are_refused_by_both_ranks_unless_one_has_a_negative_score(ranks):
    for found in ranks:
        for refusal in found["parts"]["between_0_and_1"]:
            assert refusal[0] == "InputError"
            assert "`logits` must be declared as logits or probabilities, got numbers" in refusal[1]
    logits, labels = SMALL
    below = logits.copy()
    below[: cut(len(labels))] = reference.softmax(logits[: cut(len(labels))])
    _, ts, *_ = numbers(ranks[0]["parts"]["negative_on_rank_1"])
    assert ts == pytest.approx(reference.ts_temperature(below, labels), rel=1e-8)


@pytest.mark.parametrize("rows", ["arrays", "one_by_one", "loader"])
def test_temperatures_are_those_of_all_rows(ranks, rows):
    ec, ts, *errors = numbers(ranks[0]["fits"][rows])
    assert ec == pytest.approx(reference.ec_temperature(*SMALL), rel=1e-8)
    assert ts == pytest.approx(reference.ts_temperature(*SMALL), rel=1e-8)
    alone = nishimori.temperatures(*SMALL)
    # Loaders have no sample to start from, so that their last pass is at another temperature.
    assert [ec, ts] == pytest.approx([alone.ec, alone.ts], rel=2e-9 if rows == "loader" else 1e-12)
    assert errors == pytest.approx([alone.ec_se, alone.ts_se], rel=1e-4 if rows == "loader" else 1e-12)


def test_weights_count(ranks):
    ec, ts, *_ = numbers(ranks[0]["fits"]["weights"])
    assert ec == pytest.approx(reference.ec_temperature(*SMALL, WEIGHTS), rel=1e-8)
    assert ts == pytest.approx(reference.ts_temperature(*SMALL, WEIGHTS), rel=1e-8)


def test_a_search_starts_with_a_sample_of_every_rank(ranks):
    ec, ts, *_ = numbers(ranks[0]["fits"]["many_classes"])
    logits = MANY_CLASSES[0].astype(float)
    assert ec == pytest.approx(reference.ec_temperature(logits, MANY_CLASSES[1]), rel=1e-8)
    assert ts == pytest.approx(reference.ts_temperature(logits, MANY_CLASSES[1]), rel=1e-8)
    assert ranks[0]["fits"]["n_passes"] <= 3  # a search without a sample takes four


def test_the_number_of_rows_is_known_before_or_after_the_first_reading(ranks):
    assert ranks[0]["fits"]["n_rows"] == [900, 900, 3000, None]


def test_metrics_are_those_of_all_rows(ranks):
    card = {name: float.fromhex(each) for name, each in ranks[0]["fits"]["card"].items()}
    means = {name: each.mean() for name, each in reference.scores(*SMALL, TEMPERATURE).items()}
    claimed = reference.softmax(SMALL[0], TEMPERATURE).max(axis=1)
    right = reference.right(*SMALL)
    ece = reference.ece(claimed, right, np.linspace(0, 1, 16))
    assert card == pytest.approx({name: means[name] for name in ("accuracy", "confidence", "brier", "nll")} | {"ece": ece})
    quantiles = reference.ece(claimed, right, reference.quantile_edges(claimed, 15))
    assert float.fromhex(ranks[0]["fits"]["quantiles"]) == pytest.approx(quantiles)


def test_a_fit_of_several_parameters_is_that_of_all_rows(ranks):
    alone = nishimori.calibrator("vector").fit(*SMALL).map_.scale
    assert numbers(ranks[0]["fits"]["vector"]) == pytest.approx(alone.tolist(), rel=1e-8)


def test_frequencies_of_classes_are_those_of_all_rows(ranks):
    labels = SMALL[1]
    shares = np.bincount(labels, WEIGHTS) / WEIGHTS.sum()
    assert numbers(ranks[0]["fits"]["class_prior"]) == pytest.approx(shares.tolist(), rel=1e-12)
    added = np.log(0.2) - np.log(np.bincount(labels) / len(labels))
    assert numbers(ranks[0]["fits"]["shifted"]) == pytest.approx(added.tolist(), rel=1e-12)


def error_of_ec(temperature, clusters):
    """The standard error of T: sums of the gap over each cluster, squared, over the slope of the sum of all gaps in T."""
    logits, labels = SMALL
    gaps = reference.softmax(logits, temperature).max(axis=1) - reference.right(logits, labels)
    squares = sum(gaps[clusters == each].sum() ** 2 for each in np.unique(clusters))
    step = 1e-5
    near = [reference.ec_gap(logits, labels, temperature + sign * step) for sign in (1, -1)]
    return np.sqrt(squares) / len(labels) / abs((near[0] - near[1]) / (2 * step))


def test_a_cluster_may_be_on_several_ranks(ranks):
    here, there = set(DOCUMENTS[: cut(900)]), set(DOCUMENTS[cut(900) :])
    assert here & there
    ec, _, error, _ = numbers(ranks[0]["parts"]["documents"])
    assert error == pytest.approx(error_of_ec(ec, DOCUMENTS), rel=1e-6)


def test_a_rank_may_have_a_single_cluster(ranks):
    ec, _, error, _ = numbers(ranks[0]["parts"]["one_cluster_here"])
    clusters = np.where(np.arange(900) < 400, np.arange(900), 1000)
    assert error == pytest.approx(error_of_ec(ec, clusters), rel=1e-6)


def test_groups_of_all_ranks_are_known_by_their_names(ranks):
    assert ranks[0]["parts"]["site_temperatures"] == ["a", "b", "c"]
    gaps = reference.softmax(SMALL[0]).max(axis=1) - reference.right(*SMALL)
    wanted = {name: gaps[name == SITES].mean() for name in "abc"}
    assert {name: float.fromhex(each) for name, each in ranks[0]["parts"]["sites"].items()} == pytest.approx(wanted)


def test_some_of_the_ranks_may_work_together(ranks):
    logits, labels = (each[cut(900) :] for each in SMALL)
    assert numbers(ranks[1]["parts"]["rank_1"])[0] == pytest.approx(reference.ec_temperature(logits, labels), rel=1e-8)
    assert ranks[0]["parts"]["not_in_group"][1] == (
        "`group` must be a process group that this rank belongs to, got one of other ranks."
    )


@pytest.mark.parametrize("how", ["none", "empty", "weights", "ignored", "no_batches", "batches_of_weight_zero"])
def test_a_rank_without_rows_adds_nothing(ranks, how):
    logits, labels = (each[: cut(900)] for each in SMALL)
    ec, ts, *_ = numbers(ranks[1]["without_rows"][how])
    assert ec == pytest.approx(reference.ec_temperature(logits, labels), rel=1e-8)
    assert ts == pytest.approx(reference.ts_temperature(logits, labels), rel=1e-8)


def test_no_rows_on_any_rank_are_refused(ranks):
    text = "The data must have at least one row of positive weight, got none."
    assert [found["without_rows"]["nowhere"][:2] for found in ranks] == [["NoRowsError", text]] * 2


def test_sketches_of_all_ranks_add(ranks):
    assert [found["sketches"]["n_samples"] for found in ranks] == [[700, 700, 900], [200, 700, 900]]
    for name in ("total", "updated"):
        ec, ts, *_ = numbers(ranks[0]["sketches"][name])
        assert ec == pytest.approx(reference.ec_temperature(*SMALL), rel=1e-6)
        assert ts == pytest.approx(reference.ts_temperature(*SMALL), rel=1e-6)
    halves = [nishimori.Sketch().update(*(each[rows] for each in SMALL)) for rows in (slice(cut(900)), slice(cut(900), None))]
    state = np.concatenate(list((halves[0] + halves[1]).state.values()))
    np.testing.assert_allclose(numbers(ranks[0]["sketches"]["state"]), state, rtol=1e-12, atol=1e-12)


def test_the_sketch_of_all_ranks_has_the_part_of_each(ranks):
    own = [found["sketches"]["own_part"] for found in ranks]
    assert [len(each) for each in own] == [1, 1]
    assert [found["sketches"]["parts"] for found in ranks] == [own[0] + own[1]] * 2


def test_a_network_is_calibrated_with_the_samples_of_all_ranks(ranks):
    networks = ranks[0]["networks"]
    wanted = {"ec": reference.ec_temperature(*SMALL), "ts": reference.ts_temperature(*SMALL)}
    wanted["adaptive"] = nishimori.calibrator("adaptive").fit(*SMALL).temperature_
    assert {name: float.fromhex(networks[name]) for name in wanted} == pytest.approx(wanted, rel=1e-6)
    on_rank_0 = reference.ec_temperature(*(each[: cut(900)] for each in SMALL))
    assert numbers(networks["empty_loader"])[0] == pytest.approx(on_rank_0, rel=1e-8)


def test_a_rank_whose_labels_are_all_ignored_adds_nothing(ranks):
    wanted = reference.ec_temperature(*(each[: cut(900)] for each in SMALL))
    assert numbers(ranks[1]["networks"]["ignored"])[0] == pytest.approx(wanted, rel=1e-8)


def test_all_ranks_use_a_sketch_if_one_of_them_has_too_many_logits(ranks):
    ec, ts, *_ = numbers(ranks[1]["networks"]["sketched"])
    assert ec == pytest.approx(reference.ec_temperature(*SMALL), rel=1e-6)
    assert ts == pytest.approx(reference.ts_temperature(*SMALL), rel=1e-6)


def test_error_bars_of_a_network_are_those_of_documents(ranks):
    ec, _, error, _ = numbers(ranks[0]["networks"]["documents"])
    assert error == pytest.approx(error_of_ec(ec, DOCUMENTS), rel=1e-6)
    apart = np.char.add(DOCUMENTS, np.where(np.arange(900) < cut(900), " of rank 0", " of rank 1"))
    ec, _, error, _ = numbers(ranks[0]["networks"]["sketched_documents"])
    assert error == pytest.approx(error_of_ec(ec, apart), rel=1e-3)  # what a sketch promises of errors


def test_without_being_asked_a_network_is_calibrated_with_its_own_samples(ranks):
    for rank, rows in enumerate((slice(cut(900)), slice(cut(900), None))):
        wanted = reference.ec_temperature(*(each[rows] for each in SMALL))
        assert numbers(ranks[rank]["networks"]["alone"][0])[0] == pytest.approx(wanted, rel=1e-8)


def test_rank_0_is_warned_in_one_line_that_the_samples_of_other_ranks_are_not_used(ranks):
    said = [found["networks"]["alone"][1] for found in ranks]
    line = "Only the samples of rank 0 are used, not those of the other 1. To use all, pass `across_ranks=True` on every rank."
    assert said == [[line], []]


IMAGES = np.arange(900) // 20


@pytest.mark.parametrize("part", ["parts", "networks"])
def test_images_of_different_ranks_are_different_clusters(ranks, part):
    ec, _, error, _ = numbers(ranks[0][part]["images"])
    assert error == pytest.approx(error_of_ec(ec, IMAGES), rel=1e-6)
    assert abs(error / error_of_ec(ec, np.arange(900)) - 1) > 0.01
    assert ranks[1][part]["images_in_words"].startswith("900 samples in 45 images, ")


def test_pixels_of_ranks_may_be_independent_and_images_may_be_in_sketches(ranks):
    ec, _, error, _ = numbers(ranks[0]["parts"]["pixels"])
    assert error == pytest.approx(error_of_ec(ec, np.arange(900)), rel=1e-6)
    ec, _, error, _ = numbers(ranks[0]["networks"]["sketched_images"])
    assert error == pytest.approx(error_of_ec(ec, IMAGES), rel=1e-3)


NAN = (
    "Batch 7: `logits` must not contain NaN or +inf, got nan in row 3, column 2. Drop those rows or find where the model "
    "produced them; -inf is allowed and masks a class."
)
ERRORS = {
    "nan": f"Rank 1: {NAN}",
    "loader": "Rank 1: KeyError: 'image'",
    "both": f"Rank 0: {NAN}",
    "label": "Rank 1: `labels` must be from 0 to 4, got 5 in row 11. Check that every class has its column.",
    "classes": "`logits` must have the same number of classes on every rank, got (5, 4) on the ranks in order.",
    "clusters_missing": "Rank 1: `clusters` must be given on every rank that has rows, or on none, got none here.",
    "clusters_mixed": "`clusters` must hold values of one type, such as numbers or text.",
    "clusters_of_batches": (
        "Rank 0: `clusters` must be passed to `nishimori.torch.across_ranks` beside arrays or .npy files of logits and labels, "
        "got an object of type StreamRows. Their names are needed to find the rows of the same cluster on other ranks. For "
        "batches, add each batch to a Sketch, with all rows of a cluster in one batch, and pass the sketch to "
        "`nishimori.torch.reduced`."
    ),
    "clusters_of_source": (
        "Rank 0: `clusters` must be passed to `nishimori.torch.across_ranks` beside arrays or .npy files of logits and labels, "
        "got an object of type ArrayRows. Their names are needed to find the rows of the same cluster on other ranks. For "
        "batches, add each batch to a Sketch, with all rows of a cluster in one batch, and pass the sketch to "
        "`nishimori.torch.reduced`."
    ),
    "one_cluster": (
        "`clusters` must name at least two clusters, got one: a standard error is computed from the spread between clusters. "
        "Leave it out if samples are independent."
    ),
    "groups_mixed": "`groups` must hold values of one type, such as numbers or text.",
    "sketch": (
        "Rank 0: A Sketch has no rows to add to those of other ranks; `nishimori.torch.reduced` adds the sketches of all "
        "ranks. Pass logits and labels instead."
    ),
    "other_calls": (
        "Rank 1 has measured something else than rank 0. All ranks must call the same functions with the same arguments, in "
        "the same order."
    ),
    "rows": (
        "Rows on several ranks cannot be read one after the other: only their sums travel. Use the rows of one rank where this "
        "is needed, as by a bootstrap without clusters."
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_on_one_rank_is_raised_on_all_and_names_the_rank(ranks, name):
    assert [found["errors"][name][:2] for found in ranks] == [["InputError", ERRORS[name]]] * 2


def test_every_error_of_the_job_is_pinned(ranks):
    assert ranks[0]["errors"].keys() == ERRORS.keys()


def test_only_the_rank_that_failed_knows_the_original_error(ranks):
    causes = {name: [found["errors"][name][2] for found in ranks] for name in ("nan", "loader", "both")}
    assert causes == {
        "nan": ["NoneType", "InputError"],
        "loader": ["NoneType", "KeyError"],
        "both": ["InputError", "InputError"],
    }


def test_a_network_that_fails_on_one_rank_is_refused_on_all(ranks):
    texts = [found["networks"]["broken"][1] for found in ranks]
    assert texts[0] == texts[1]
    assert texts[0].startswith(
        "Rank 1: `model` must accept the batches of `loader`, got RuntimeError: no kernel for this input in batch 2. "
    )


ARGUMENTS = {
    "other_methods": (
        "All ranks must call `calibrate` with the same arguments, got ExpectationConsistency(), reread=False, "
        "ignore_index=-100, shift_labels=False, class_axis=-1 on rank 0; TemperatureScaling(), reread=False, "
        "ignore_index=-100, shift_labels=False, class_axis=-1 on rank 1."
    ),
    "wrong_limit": "Rank 0: `keep_up_to` must lie between 0 and inf, got -1.",
    "wrong_label": "Rank 1: `ignore_index` must be a whole number, such as -100, got 0.5.",
    "reread_documents": (
        "Rank 0: `clusters` with `reread=True` cannot be used across ranks. Leave out `reread`, or raise `keep_up_to`."
    ),
    "shared_documents": (
        "`clusters` must not be spread over ranks where logits take more than `keep_up_to`, got cluster 'document 0' on ranks "
        "0 and 1. Give all rows of a cluster to one rank, or raise `keep_up_to`."
    ),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments_that_are_wrong_on_one_rank_are_refused_on_all(ranks, name):
    assert [found["networks"][name][:2] for found in ranks] == [["InputError", ARGUMENTS[name]]] * 2


def test_a_method_that_is_not_known_on_one_rank_is_refused_on_all(ranks):
    texts = [found["networks"]["wrong_method"][1] for found in ranks]
    assert texts[0] == texts[1]
    assert texts[0].startswith("Rank 1: The method must be one of ec, ts, ")


def test_an_interrupt_on_one_rank_ends_the_wait_of_the_others(ranks):
    assert [found["networks"]["interrupted"] for found in ranks] == [
        ["InputError", "Rank 1: KeyboardInterrupt", "NoneType"],
        "KeyboardInterrupt",
    ]


def test_a_network_whose_calls_wait_for_other_ranks_is_refused(ranks):
    text = (
        "Rank 0: `model` must be the network inside of DistributedDataParallel, whose calls wait for ranks that may have "
        "fewer batches. Pass `model.module`."
    )
    assert [found["networks"]["wrapped"][:2] for found in ranks] == [["InputError", text]] * 2


@pytest.mark.parametrize(
    ("name", "kind", "text"),
    [
        (
            "other_range",
            "MergeError",
            "Sketches merge only if they have the same range of temperatures, got 0.04419 to 22.63 and 0.08839 to "
            "11.31. Make both in the same way.",
        ),
        ("other_classes", "MergeError", "Sketches merge only if they have the same classes, got 5 and 3."),
    ],
)
def test_sketches_of_different_kinds_are_refused(ranks, name, kind, text):
    assert [found["sketches"][name][:2] for found in ranks] == [[kind, text]] * 2


def test_only_the_first_rank_shows_progress(job):
    _, (first, second) = job
    assert "Reading" in first
    assert second == ""


def test_the_example_calibrates_one_network_on_two_ranks(job):
    (first, second), _ = job
    assert first["example"] == second["example"]
    assert first["example"]["n_samples"] == 801
