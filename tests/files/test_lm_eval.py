"""Samples that lm-evaluation-harness wrote: logits and labels, and what the harness itself has counted."""

import json
from pathlib import Path

import numpy as np
import pytest
import shell

import nishimori
from nishimori.errors import FormatError, InputError
from nishimori.integrations import lm_eval

# Written by lm_eval 0.4.13: see make.py there.
FOLDER = Path(__file__).with_name("lm_eval")
SUMS, WORDS, BLANKS = (FOLDER / f"samples_{name}.jsonl" for name in ("sums", "words", "blanks"))

# What the harness printed for them.
ACCURACIES = [
    (SUMS, {"acc": 3 / 12, "acc_norm": 4 / 12, "acc_bytes": 4 / 12}),
    (WORDS, {"acc": 2 / 6, "acc_norm": 2 / 6, "acc_bytes": 4 / 6}),
]


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def write(tmp_path):
    """A function that writes the lines of a file again, each changed."""

    def write(path, change=lambda _: None, name="samples_changed.jsonl", only=None):
        contents = lines(path)
        for number, content in enumerate(contents):
            if only is None or number == only:
                change(content)
        target = tmp_path / name
        target.write_text("".join(json.dumps(content) + "\n" for content in contents), encoding="utf-8")
        return target

    return write


def two(first, second, target, **others):
    """A line of a question with two choices."""
    arguments = {f"gen_args_{i}": {"arg_0": "?", "arg_1": f" {text}"} for i, text in enumerate(("3", "1"))}
    responses = [[str(first), "False"], [str(second), "False"]]
    return {"doc_id": 0, "target": target, "arguments": arguments, "filtered_resps": responses, "filter": "none"} | others


def file_of(tmp_path, *contents):
    path = tmp_path / "samples_made.jsonl"
    path.write_text("".join(json.dumps(content) + "\n" for content in contents), encoding="utf-8")
    return path


def test_log_likelihoods_are_the_logits_and_missing_choices_are_masked():
    logits, labels = lm_eval.read(SUMS)
    contents = lines(SUMS)
    for row, content, label in zip(logits, contents, labels, strict=True):
        own = [float(score) for score, _ in content["filtered_resps"]]
        assert row.tolist() == own + [-np.inf] * (5 - len(own))
        assert content["doc"]["choices"][label] == content["doc"]["answer"]
    assert {len(content["filtered_resps"]) for content in contents} == {2, 3, 4, 5}


@pytest.mark.parametrize(("path", "accuracies"), ACCURACIES)
@pytest.mark.parametrize("metric", ["acc", "acc_norm", "acc_bytes"])
def test_the_accuracy_is_the_one_that_the_harness_printed(path, accuracies, metric):
    logits, labels = lm_eval.read(path, metric=metric)
    assert np.mean(logits.argmax(axis=1) == labels) == pytest.approx(accuracies[metric])


def test_length_normalised_scores_are_per_character_or_byte_of_the_choice():
    sums, _ = lm_eval.read(WORDS)
    for metric, lengths in (("acc_norm", [2, 6]), ("acc_bytes", [2, 8])):  # "no" and "yes, 是"
        np.testing.assert_allclose(lm_eval.read(WORDS, metric=metric).logits, sums / lengths, rtol=1e-15)


def test_targets_may_be_numbers_texts_or_lists_of_one(write):
    expected = lm_eval.read(WORDS).labels
    spellings = {
        "number": lambda content: content["doc"]["answer"],
        "list": lambda content: f"[{content['doc']['answer']}]",
        "text": lambda content: content["doc"]["choices"][content["doc"]["answer"]],
        "bool": lambda content: str(bool(content["doc"]["answer"])),
    }
    for name, spell in spellings.items():
        path = write(WORDS, lambda content, spell=spell: content.update(target=spell(content)), f"samples_{name}.jsonl")
        np.testing.assert_array_equal(lm_eval.read(path).labels, expected)


def test_the_recorded_accuracy_decides_whether_a_target_is_a_number_or_a_text(tmp_path):
    # The choices are 3 and 1: the target 1 is the number of the second one, and its text.
    other = two(-1, -2, "0")  # of which only the number can be meant
    assert lm_eval.read(file_of(tmp_path, two(-1, -2, "1", acc=0.0), other)).labels.tolist() == [1, 0]
    with pytest.raises(InputError, match=r"line 1: choice 1 cannot be right: the model prefers choice 0, and 'acc' is 1"):
        lm_eval.read(file_of(tmp_path, two(-1, -2, "1", acc=1.0), other))


def test_targets_that_can_be_read_in_two_ways_are_refused(tmp_path):
    def change(content):
        content["arguments"] = {f"gen_args_{i}": {"arg_0": "?", "arg_1": f" {text}"} for i, text in enumerate("10")}

    content = two(-1, -2, "1")
    change(content)  # the choices are 1 and 0, and no accuracy is recorded
    with pytest.raises(InputError, match=r"line 1: the target '1' is the number of one choice and the text of another. Pass a"):
        lm_eval.read(file_of(tmp_path, content))
    assert lm_eval.read(file_of(tmp_path, content | {"acc": 1.0})).labels.tolist() == [0]
    assert lm_eval.read(file_of(tmp_path, content | {"acc": 0.0})).labels.tolist() == [1]


def test_choices_that_differ_in_the_context_need_labels():
    with pytest.raises(InputError, match=r"line 1: its choices differ in the context.*labels=lambda sample: sample"):
        lm_eval.read(BLANKS)
    logits, labels = lm_eval.read(BLANKS, labels=lambda sample: int(sample["doc"]["answer"]) - 1)
    assert labels.tolist() == [0, 1, 0, 1]
    assert np.mean(logits.argmax(axis=1) == labels) == 0.5
    with pytest.raises(InputError, match="cannot be right"):
        lm_eval.read(BLANKS, labels=lambda sample: 2 - int(sample["doc"]["answer"]))
    with pytest.raises(InputError, match="`labels` returns 2, but the choices are 0 to 1"):
        lm_eval.read(BLANKS, labels=lambda _: 2)


def test_a_question_with_several_right_choices_has_no_label_unless_the_caller_chooses(write):
    path = write(WORDS, lambda content: content.update(target="[0, 1]", acc=1.0))
    with pytest.raises(InputError, match=r"line 1: the target \[0, 1\] is 2 choices, but a label is one"):
        lm_eval.read(path)
    assert lm_eval.read(path, labels=lambda _: 1).labels.tolist() == [1] * 6


def test_each_question_counts_once_where_a_task_has_filters(tmp_path):
    first, again = two(-1, -2, "0", acc=1.0, filter="first"), two(-3, -2, "0", acc=0.0, filter="again")
    path = file_of(tmp_path, first, again)
    with pytest.raises(InputError, match=r"`filter` must name one of the filters that .* has, 'first', 'again'"):
        lm_eval.read(path)
    assert lm_eval.read(path, filter="again").logits.tolist() == [[-3, -2]]
    with pytest.raises(FormatError, match="has no samples of the filter 'none'"):
        lm_eval.read(path, filter="none")


def test_scores_without_the_question_which_mutual_information_needs_are_left_out(tmp_path):
    content = two(-1, -2, "0", acc=1.0, acc_mutual_info=0.0)
    content["filtered_resps"] += [["-5", "False"], ["-9", "False"]]
    content["arguments"] |= {f"gen_args_{2 + i}": {"arg_0": "", "arg_1": f" {text}"} for i, text in enumerate(("3", "1"))}
    assert lm_eval.read(file_of(tmp_path, content)).logits.tolist() == [[-1, -2]]


def test_files_of_older_versions_with_numbers_and_lists_are_read(tmp_path):
    old = two(-1, -2, 0, acc=1.0) | {"filtered_resps": [[-1.0, False], [-2.0, False]], "arguments": [["?", " 3"], ["?", " 1"]]}
    logits, labels = lm_eval.read(file_of(tmp_path, old))
    assert (logits.tolist(), labels.tolist()) == ([[-1, -2]], [0])


REFUSED = {
    "generated text": ({"filtered_resps": ["four"]}, "line 1: must have a log-likelihood per choice, got 'four'"),
    "one": ({"filtered_resps": [["-1", "False"]]}, "line 1: one log-likelihood instead of one per choice"),
    "no number": ({"filtered_resps": [["-1", "False"], ["nan", "False"]]}, "must be a number, got 'nan'"),
    "a letter": ({"target": "A"}, "the target 'A' is neither the number nor the text of one of its choices, '3', '1'"),
    "too large": ({"target": "2"}, "the target '2' is neither the number nor the text"),
    "a share": ({"target": "0", "acc": 0.43}, "'acc' is 0.43 instead of 0 or 1, so the task does not have a single"),
    "requests": ({"arguments": {}}, "2 log-likelihoods for 0 `arguments`"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_multiple_choice_is_refused_with_its_line(case, tmp_path):
    change, message = REFUSED[case]
    with pytest.raises((FormatError, InputError), match=message):
        lm_eval.read(file_of(tmp_path, two(-1, -2, "0") | change))


def test_what_the_harness_did_not_write_is_refused(tmp_path):
    path = tmp_path / "table.jsonl"
    path.write_text('{"logits": [1, 2], "labels": 0}\n', encoding="utf-8")
    with pytest.raises(FormatError, match="line 1: not a sample of lm-evaluation-harness, which has 'arguments', 'doc_id'"):
        lm_eval.read(path)
    with pytest.raises(InputError, match="`metric` must be 'acc', 'acc_norm' or 'acc_bytes', got 'f1'"):
        lm_eval.read(SUMS, metric="f1")
    with pytest.raises(InputError, match="`labels` must be a function"):
        lm_eval.read(SUMS, labels=[0])
    empty = two(-1, -2, "0")
    empty["arguments"]["gen_args_0"]["arg_1"] = " "
    with pytest.raises(InputError, match=r"`metric` must be 'acc', got 'acc_norm'.*line 1: a choice is empty"):
        lm_eval.read(file_of(tmp_path, empty), metric="acc_norm")


def test_functions_that_take_files_read_samples_by_themselves(write):
    logits, labels = lm_eval.read(SUMS)
    found, expected = nishimori.evaluate(str(SUMS)), nishimori.evaluate(logits, labels)
    assert (found.accuracy, found.nll) == (expected.accuracy, pytest.approx(expected.nll))
    rows = nishimori.rows(SUMS)
    assert (rows.n_rows, rows.n_classes) == (12, 5)
    with pytest.raises(InputError, match=r"must be left out for .* which holds samples of lm-evaluation-harness"):
        nishimori.rows(SUMS, groups="filter")
    with pytest.raises(InputError, match="log-likelihoods and targets"):
        nishimori.rows(SUMS, "target")
    path = write(SUMS, lambda content: content.update(filtered_resps=[["-inf", "False"]] * 2, acc=None), only=0)
    with pytest.raises(InputError, match=r"samples_changed.jsonl: .* in line 1"):
        nishimori.evaluate(str(path))


def drawn(path, n_lines, n_choices):
    """Write questions whose right choices are drawn at T = 2."""
    rng = np.random.default_rng(n_choices)
    logits = -4 * rng.random((n_lines, n_choices))
    labels = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)
    requests = {f"gen_args_{i}": {"arg_0": "?", "arg_1": f" choice {i}"} for i in range(n_choices)}
    contents = [
        two(0, 0, str(label)) | {"arguments": requests, "filtered_resps": [[str(score), "False"] for score in row]}
        for row, label in zip(logits.tolist(), labels, strict=True)
    ]
    path.write_text("".join(json.dumps(content) + "\n" for content in contents), encoding="utf-8")
    return np.pad(logits, ((0, 0), (0, 4 - n_choices)), constant_values=-np.inf), labels


def test_the_shell_fits_to_several_files_of_samples_and_cannot_add_columns_to_them(tmp_path):
    first, second = drawn(tmp_path / "samples_a.jsonl", 300, 4), drawn(tmp_path / "samples_b.jsonl", 200, 2)
    code, _, err = shell.nishimori("fit samples_a.jsonl samples_b.jsonl -o c.json --method ec --json", place=tmp_path)
    assert code == 0, err
    logits, labels = (np.concatenate(parts) for parts in zip(first, second, strict=True))
    assert nishimori.load(tmp_path / "c.json").temperature_ == pytest.approx(nishimori.temperatures(logits, labels).ec)
    code, out, err = shell.nishimori("eval samples_b.jsonl --calibration c.json --json", place=tmp_path)  # of fewer choices
    assert code == 0, err
    after = nishimori.evaluate(*second, calibrator=nishimori.load(tmp_path / "c.json"))
    assert json.loads(out)["after"]["nll"] == pytest.approx(after.nll)
    code, _, err = shell.nishimori("apply c.json samples_a.jsonl -o out.jsonl", place=tmp_path)
    assert code == 1
    assert "holds samples of lm-evaluation-harness, to which no columns can be added. Read it in Python with" in err
