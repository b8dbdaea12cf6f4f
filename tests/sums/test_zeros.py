"""True classes of probability zero decide the loss: every verdict that rests on them says so first, with the remedy."""

import html
import json
import warnings

import numpy as np
import pytest
import reference
import shell

import nishimori
from nishimori.errors import InputWarning

LOGITS, LABELS = reference.drawn(431, 3, seed=1)


def with_zero(logits, labels):
    """Probabilities of which one, at the true class of a wrong answer, is zero."""
    p = reference.softmax(logits)
    (row, *_) = np.flatnonzero(p.argmax(axis=1) != labels)
    p[row, labels[row]] = 0
    return p / p.sum(axis=1, keepdims=True)


P = with_zero(LOGITS, LABELS)
CLEAN = reference.softmax(LOGITS)
FIT = (
    "The true class has probability 0 in {}, which decides {}: 0 is replaced by the smallest positive number of its dtype, "
    "which is arbitrary. Pass `floor='auto'`, or as `floor` the lowest probability that you consider possible."
)
MEASURE = FIT.replace("Pass `floor='auto'`, or as `floor`", "Pass as `floor`").format("1 of 431 samples", "the NLL")


@pytest.fixture(autouse=True)
def told():
    """Zeros are a warning, too, which other tests are about."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)
        yield


def compared(*rows, **options):
    return nishimori.compare(*rows, input="probabilities", methods=("none", "ts", "ec"), **{"floor": None, **options})


def test_one_zero_moves_the_temperature_by_more_than_any_error_bar_tells():
    # What makes the sentences necessary: without the zero T is 2, with it the data do not determine it.
    clean, zero = (nishimori.temperatures(p, LABELS, input="probabilities", floor=None) for p in (CLEAN, P))
    assert clean.ts == pytest.approx(2, rel=0.2)
    assert zero.ts is None
    assert "The true class has probability 0 in 1 of 431 samples, which decide it." in zero.why_no_ts
    floored = nishimori.temperatures(P, LABELS, input="probabilities")
    assert floored.ts == pytest.approx(2, rel=0.4)


def test_the_first_verdict_of_a_comparison_names_zeros_in_the_validation_data():
    found = compared(P, LABELS)
    where, sentence = found.verdicts[:2]
    assert where == "All methods were measured on the data that they were fitted to, which flatters them."
    assert sentence == found.caveat == FIT.format("1 of 431 validation samples", "the T of ts and adaptive and every NLL")
    assert " ".join(str(found).split("\n\n")[-1].split()).startswith(f"{where} {sentence} ")


def test_the_first_verdict_of_a_comparison_says_which_data_have_zeros_and_what_they_decide():
    both = compared(P, LABELS, P[::-1], LABELS[::-1])
    sets = "1 of 431 validation samples and 1 of 431 test samples"
    assert both.verdicts[0] == FIT.format(sets, "the T of ts and adaptive and every NLL")
    assert compared(P, LABELS, CLEAN, LABELS).verdicts[0] == FIT.format(
        "1 of 431 validation samples", "the T of ts and adaptive"
    )
    assert compared(CLEAN, LABELS, P, LABELS).verdicts[0] == FIT.format("1 of 431 test samples", "every NLL")


@pytest.mark.parametrize("floor", [1e-4, "auto"])
def test_with_a_floor_no_verdict_speaks_of_zeros(floor):
    assert not any("has probability 0 in" in each for each in compared(P, LABELS, floor=floor).verdicts)
    assert compared(CLEAN, LABELS).caveat == ""


def test_a_printed_scorecard_begins_with_zeros():
    card = nishimori.evaluate(P, LABELS, input="probabilities")
    assert card.n_at_zeros == 1
    assert " ".join(str(card).split("\n\n")[0].split()) == card.caveat == MEASURE
    for fine in (
        nishimori.evaluate(P, LABELS, input="probabilities", floor=1e-4),
        nishimori.evaluate(CLEAN, LABELS, input="probabilities"),
    ):
        assert (fine.n_at_zeros, fine.caveat) == (0, "")
        assert str(fine).startswith("431 samples, T = 1\n")


def test_a_sketch_remembers_zeros():
    sketch = nishimori.Sketch(input="probabilities", floor=None).update(P, LABELS)
    assert nishimori.evaluate(sketch).caveat == MEASURE


def test_the_check_of_the_nll_begins_with_zeros_and_others_do_not_depend_on_them():
    found = nishimori.gate(P, LABELS, input="probabilities", bounds={"nll": 0.5, "brier": 1.0, "ece": 0.5})
    nll = found["nll"]
    assert nll.message.startswith(f"{MEASURE} NLL ")
    assert str(nll).startswith(f"{nll.verdict}: {MEASURE} NLL ")
    assert MEASURE in " ".join(str(found).split())
    assert all(MEASURE not in found[name].message for name in ("brier", "ece"))
    for text in (found.to_markdown(), found.to_junit(), found.to_github(), found.to_json()):
        assert "The true class has probability 0 in 1 of 431 samples" in text
    floored = nishimori.gate(P, LABELS, input="probabilities", bounds={"nll": 2.0}, floor=1e-4)
    assert floored["nll"].message.startswith("NLL ")


def test_the_report_begins_with_zeros():
    report = nishimori.Report(P, LABELS, input="probabilities", floor=None)
    sentence = FIT.format("1 of 431 validation samples", "the T of ts and adaptive and every NLL")
    flatters = "All methods were measured on the data that they were fitted to, which flatters them."
    first, second = report.verdict.splitlines()[:2]
    assert first.startswith("Some true labels got probability 0. Overconfident by ")
    assert second == f"{flatters} {sentence}"
    assert html.unescape(report.to_html()).count(f'<p class="warning">{second}</p>') == 1
    assert report.to_dict()["verdict"]["sentences"][:2] == [flatters, sentence]
    floored = nishimori.Report(P, LABELS, input="probabilities")
    first, second = floored.verdict.splitlines()[:2]
    assert first.startswith("Overconfident by ")
    assert second == flatters


@pytest.fixture
def place(tmp_path):
    np.savez(tmp_path / "v.npz", probabilities=P, labels=LABELS)
    return tmp_path


def test_the_shell_says_so_first_and_names_its_options(place):
    measured = shell.nishimori("eval v.npz --input probabilities", place=place)
    assert " ".join(measured.out.split()).startswith(MEASURE.replace("`floor`", "--floor"))
    compare = shell.nishimori("compare v.npz --methods none,ts,ec --input probabilities --floor none", place=place)
    text = " ".join(compare.out.split())
    sentence = FIT.format("1 of 431 validation samples", "the T of ts and adaptive and every NLL")
    sentence = sentence.replace("`floor='auto'`", "--floor auto").replace("`floor`", "--floor")
    assert sentence in text
    assert text.index(sentence) < text.index("use ec (T = ")
    told = json.loads(
        shell.nishimori("compare v.npz --methods none,ts,ec --input probabilities --floor none --json", place=place).out
    )
    assert told["verdicts"][0].startswith("All methods were measured on the data")
    assert told["verdicts"][1].startswith("The true class has probability 0")
