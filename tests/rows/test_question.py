"""One question, many kinds of data: who answers, and what is refused."""

import pickle
import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest
import reference

import nishimori
from nishimori._evaluation.bootstrap import _resample
from nishimori._evaluation.scorecard import scorecards
from nishimori._fit.search import find_roots
from nishimori._rows.question import Question, question
from nishimori._sums.census import Census, census
from nishimori.errors import InputError

LOGITS, LABELS = reference.drawn(300, 4)


def ask_mean(data, scale=1.0):
    """Give the mean of the rows."""
    return scale * sum(data.rows) / len(data.rows)


@dataclass
class OwnRows:
    """Rows that name no annex."""

    rows: tuple[float, ...] = (1.0, 2.0, 6.0)


@dataclass
class Ledger:
    """A kind of data without rows; an annex answers for it."""

    total: float = 12.0

    kind = "Ledger"
    annex = "ledgers"


class OldLedger(Ledger):
    """A kind of ledger."""


def asked_by(stage):
    """The question as a module of a stage asks it."""

    def of_rows(data, scale=1.0):
        """Give the mean of the rows."""
        return ask_mean(data, scale)

    of_rows.__module__ = f"nishimori._{stage}.means"
    return question("has no rows to average")(of_rows)


@pytest.fixture
def annex(tmp_path, monkeypatch):
    """The folder of an annex that has no answers yet."""
    folder = tmp_path / "ledgers"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    for name in [name for name in sys.modules if name.partition(".")[0] == "ledgers"]:
        del sys.modules[name]


@pytest.fixture
def mean(monkeypatch):
    """A question of the stage that evaluates, where an annex can import it."""
    mean = asked_by("evaluation")
    monkeypatch.setattr(sys.modules[__name__], "mean", mean, raising=False)
    return mean


ANSWER = f"""
from {__name__} import Ledger, mean

@mean.register(Ledger)
def _(data, scale=1.0):
    return scale * data.total
"""


def test_rows_of_ones_own_get_the_answer_of_rows(mean):
    assert mean(OwnRows()) == 3
    assert mean(OwnRows(), scale=2) == 6


def test_a_kind_without_an_answer_is_refused_in_one_sentence(annex, mean):
    with pytest.raises(InputError) as error:
        mean(Ledger())
    assert str(error.value) == "A Ledger has no rows to average. Pass logits and labels instead."


def test_a_kinds_answer_is_imported_when_it_is_first_asked(annex, mean):
    (annex / "evaluation.py").write_text(ANSWER)
    assert "ledgers.evaluation" not in sys.modules
    assert mean(Ledger(), scale=2) == 24
    assert "ledgers.evaluation" in sys.modules
    assert mean(OwnRows()) == 3


def test_a_subclass_of_a_kind_gets_its_answer(annex, mean):
    (annex / "evaluation.py").write_text(ANSWER)
    assert mean(OldLedger()) == 12


def test_the_module_that_answers_is_called_like_the_stage_that_asks(annex):
    (annex / "evaluation.py").write_text("raise AssertionError('another stage asks')")
    with pytest.raises(InputError, match="A Ledger has no rows to average"):
        asked_by("fit")(Ledger())


def test_a_broken_module_of_answers_is_not_taken_for_a_refusal(annex, mean):
    (annex / "evaluation.py").write_text("import no_such_package")
    with pytest.raises(ModuleNotFoundError, match="no_such_package"):
        mean(Ledger())


def test_a_kind_may_take_the_answer_of_rows(annex, mean):
    (annex / "evaluation.py").write_text(f"from {__name__} import Ledger, mean\nmean.register(Ledger)(mean.of_rows)\n")
    ledger = Ledger()
    ledger.rows = (1.0, 3.0)
    assert mean(ledger) == 2


def test_a_question_looks_like_the_function_it_decorates():
    assert census.__name__ == "census"
    assert census.__doc__ == census.of_rows.__doc__


@pytest.mark.parametrize("asked", [census, find_roots, scorecards, _resample], ids=lambda asked: asked.__name__)
def test_a_question_can_be_pickled(asked):
    assert isinstance(asked, Question)
    assert pickle.loads(pickle.dumps(asked)) is asked


def test_a_sketch_answers_what_it_can_and_refuses_the_rest():
    sketch = nishimori.Sketch().update(LOGITS, LABELS)
    counted = census(sketch)
    assert isinstance(counted, Census)
    assert counted.accuracy == np.mean(LOGITS.argmax(axis=1) == LABELS)
    with pytest.raises(InputError, match=r"^A Sketch has no rows to resample\. Pass logits and labels instead\.$"):
        nishimori.bootstrap(sketch)


def test_a_sketch_imports_the_answers_of_a_stage_only_when_that_stage_asks():
    code = (
        "import sys, nishimori\n"
        "sketch = nishimori.Sketch().update(30 * [[2.0, 0.0], [0.0, 2.0], [3.0, 1.0]], 30 * [0, 1, 1])\n"
        "assert not {'nishimori._sketch.fit', 'nishimori._sketch.evaluation'} & set(sys.modules)\n"
        "nishimori.temperatures(sketch)\n"
        "assert 'nishimori._sketch.fit' in sys.modules\n"
        "assert 'nishimori._sketch.evaluation' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
