"""A sketch remembers its parts: what is in already is noticed, wherever it comes from."""

import copy
import json
import os
import pickle
import shutil
import warnings
from io import BytesIO

import numpy as np
import pytest
import reference
import shell

import nishimori
from nishimori import Sketch
from nishimori._sketch import parts
from nishimori.errors import FormatError, InputWarning, MergeError

LOGITS, LABELS = reference.drawn(900, 4)


def part(start, stop):
    return Sketch().update(LOGITS[start:stop], LABELS[start:stop])


MONDAY, TUESDAY, WEDNESDAY = part(0, 300), part(300, 500), part(500, 900)


def ids(sketch):
    return Sketch.from_bytes(sketch.to_bytes())._parts.ids


def older(data):
    """The bytes of a sketch as format 3 has them, without ids."""
    with np.load(BytesIO(data)) as file:
        content = dict(file)
    about = json.loads(str(content["nishimori-sketch"]))
    del about["n_forgotten_parts"], content["parts"]
    content["nishimori-sketch"] = np.array(json.dumps(about | {"version": 3}))
    found = BytesIO()
    np.savez(found, **content)
    return found.getvalue()


def test_the_same_rows_have_the_same_id_and_other_rows_another():
    assert ids(part(0, 300)) == ids(MONDAY)
    assert len({*ids(MONDAY), *ids(TUESDAY), *ids(WEDNESDAY)}) == 3
    assert ids(Sketch().update(LOGITS[:300], LABELS[:300], np.full(300, 2.0))) != ids(MONDAY)


def test_the_id_of_a_file_without_ids_is_that_of_its_sums():
    assert ids(Sketch.from_bytes(older(MONDAY.to_bytes()))) == ids(MONDAY)


def test_the_same_rows_in_other_blocks_may_have_another_id():
    again = Sketch().update(LOGITS[:100], LABELS[:100]).update(LOGITS[100:300], LABELS[100:300])
    np.testing.assert_allclose(again.state["moments"], MONDAY.state["moments"], rtol=1e-9, atol=1e-9)
    assert ids(again) != ids(MONDAY)


def test_the_digest_is_that_of_all_parts_in_any_order(monkeypatch):
    both = MONDAY + TUESDAY
    assert both.digest == (part(300, 500) + part(0, 300)).digest == Sketch.from_bytes(both.to_bytes()).digest
    assert len({each.digest for each in (MONDAY, TUESDAY, both, both + MONDAY)}) == 4
    assert Sketch().digest is None
    monkeypatch.setattr(parts, "MOST", 1)
    assert (MONDAY + TUESDAY).digest is None, "a part was forgotten"


def test_to_ask_for_the_digest_does_not_end_a_part():
    sketch = part(0, 100)
    first = sketch.digest
    sketch.update(LOGITS[100:300], LABELS[100:300])
    assert sketch.n_parts == 1
    assert sketch.digest != first


def test_a_fit_to_a_sketch_is_recognised_where_it_is_measured_on_it():
    fitted = nishimori.ExpectationConsistency().fit(part(0, 300))
    assert fitted.data_digest_ == MONDAY.digest
    with pytest.warns(InputWarning, match="was fitted to the rows that are measured here"):
        nishimori.evaluate(MONDAY, calibrator=fitted)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nishimori.evaluate(TUESDAY, calibrator=fitted)


def test_no_rows_are_no_part():
    empty = Sketch().update(LOGITS[:5], LABELS[:5], np.zeros(5))
    assert (empty.n_parts, ids(empty)) == (0, ())
    assert ids(Sketch() + MONDAY + empty) == ids(MONDAY)
    assert Sketch().merge(Sketch()).merge(Sketch()).n_parts == 0


@pytest.mark.parametrize(
    "seen",
    [Sketch.to_bytes, pickle.dumps, copy.copy, lambda sketch: sketch + TUESDAY, lambda sketch: Sketch().merge(sketch)],
    ids=["bytes", "pickle", "copy", "sum", "merge"],
)
def test_a_part_ends_where_the_sketch_is_sent_and_what_follows_is_another(seen):
    sketch = part(0, 300)
    seen(sketch)
    sketch.update(LOGITS[300:500], LABELS[300:500])
    assert sketch.n_parts == 2
    assert ids(sketch) == (*ids(MONDAY), *ids(TUESDAY))


def test_a_part_goes_on_while_nobody_has_seen_it():
    sketch = part(0, 300)
    repr(sketch), str(sketch), sketch.n_parts, sketch.state, nishimori.temperatures(sketch)
    assert sketch.update(LOGITS[300:500], LABELS[300:500]).n_parts == 1


def test_a_checkpoint_of_a_sketch_that_went_on_is_noticed(tmp_path):
    sketch = part(0, 300)
    sketch.save(tmp_path / "first.npz")
    sketch.update(LOGITS[300:500], LABELS[300:500]).save(tmp_path / "second.npz")
    with pytest.raises(MergeError, match="got a sketch with 1 of 1 parts already there"):
        Sketch.load(tmp_path / "second.npz").merge(Sketch.load(tmp_path / "first.npz"))


def test_sums_keep_all_ids_in_order_and_never_refuse():
    assert ids(sum([MONDAY, TUESDAY, WEDNESDAY])) == (*ids(MONDAY), *ids(TUESDAY), *ids(WEDNESDAY))
    twice = MONDAY + MONDAY
    assert (twice.n_samples, twice.n_parts) == (600, 2)


def test_merge_refuses_a_part_that_is_in_already_and_changes_nothing():
    total = MONDAY + TUESDAY
    before = total.to_bytes()
    for more in (TUESDAY, TUESDAY + WEDNESDAY, total):
        with pytest.raises(MergeError, match=r"Leave it out, or pass `allow_repeated=True` if these are other samples\.$"):
            total.merge(more)
    assert total.to_bytes() == before
    assert total.merge(TUESDAY, allow_repeated=True).n_samples == 700
    assert total.n_parts == 3


def test_sums_that_are_assigned_are_one_part():
    sketch = Sketch()
    sketch.state = (MONDAY + TUESDAY).state
    assert (sketch.n_parts, len(ids(sketch))) == (1, 1)
    sketch.state = MONDAY.state
    assert ids(sketch) == ids(MONDAY)


def test_the_oldest_ids_go_and_the_sketch_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(parts, "MOST", 2)
    total = MONDAY + TUESDAY
    assert "forgotten" not in repr(total) + str(total._display)
    total.merge(WEDNESDAY)
    total = Sketch.from_bytes(total.to_bytes())
    assert (total.n_parts, total.n_forgotten_parts) == (3, 1)
    assert total._parts.ids == (*ids(TUESDAY), *ids(WEDNESDAY))
    assert repr(total) == "Sketch(n_samples=900, observables=('ec', 'ts'), n_forgotten_parts=1)"
    assert "forgotten parts" in str(total)
    total.save(tmp_path / "total.npz")
    told = json.loads(shell.nishimori("show total.npz --json", place=tmp_path).out)
    assert (told["n_parts"], told["n_forgotten_parts"]) == (3, 1)
    total.merge(MONDAY)  # not noticed
    with pytest.raises(MergeError):
        total.merge(WEDNESDAY)


def test_a_hundred_thousand_ids_are_kept_and_the_file_can_be_read(monkeypatch):
    many = tuple(number.to_bytes(16, "little") for number in range(parts.MOST))
    sketch = Sketch()
    sketch.state = MONDAY.state | {name: MONDAY.state[name] * 1000 for name in MONDAY.state}
    sketch._parts = parts.Parts(many) + sketch._parts
    read = Sketch.from_bytes(sketch.to_bytes())
    assert (read.n_parts, read.n_forgotten_parts) == (parts.MOST + 1, 1)
    assert read._parts.ids == (*many[1:], *sketch._parts.ids[-1:])


@pytest.mark.parametrize(
    "wrong",
    [
        np.zeros((1, 15), np.uint8),
        np.zeros(16, np.uint8),
        np.zeros((1, 16)),
        np.zeros((0, 16), np.uint8),
        np.zeros((301, 16), np.uint8),
    ],
)
def test_ids_that_a_sketch_cannot_have_are_damage(wrong):
    with np.load(BytesIO(MONDAY.to_bytes())) as file:
        content = dict(file)
    found = BytesIO()
    np.savez(found, **(content | {"parts": wrong}))
    with pytest.raises(FormatError, match=r"^`data` is damaged, or not a sketch\."):
        Sketch.from_bytes(found.getvalue())


@pytest.fixture
def place(tmp_path):
    MONDAY.save(tmp_path / "mon.npz")
    TUESDAY.save(tmp_path / "tue.npz")
    (MONDAY + TUESDAY).save(tmp_path / "both.npz")
    shutil.copy(tmp_path / "tue.npz", tmp_path / "copy.npz")
    os.link(tmp_path / "tue.npz", tmp_path / "link.npz")
    (tmp_path / "old.npz").write_bytes(older(TUESDAY.to_bytes()))
    return tmp_path


@pytest.mark.parametrize(
    ("files", "repeated", "of"),
    [
        ("tue.npz tue.npz", "tue.npz", "1 of 1"),
        ("tue.npz link.npz", "link.npz", "1 of 1"),
        ("tue.npz mon.npz copy.npz", "copy.npz", "1 of 1"),
        ("both.npz old.npz", "old.npz", "1 of 1"),
        ("old.npz tue.npz", "tue.npz", "1 of 1"),
        ("mon.npz tue.npz both.npz", "both.npz", "2 of 2"),
        ("mon.npz both.npz", "both.npz", "1 of 2"),
    ],
)
def test_a_file_that_is_in_already_is_refused_by_its_name(place, files, repeated, of):
    ended = shell.nishimori(f"merge {files} -o all.npz", place=place)
    assert (ended.code, ended.out) == (1, "")
    assert ended.err == (
        f"error: {repeated} cannot be merged with the files before it. A part is added only once, got a sketch with {of} parts "
        "already there. Leave it out, or pass --allow-repeated if these are other samples.\n"
    )
    assert not (place / "all.npz").exists()
    assert shell.nishimori(f"merge {files} -o all.npz --allow-repeated", place=place).code == 0


def test_a_job_that_is_run_again_leaves_the_running_total_as_it_was(place):
    shutil.copy(place / "mon.npz", place / "total.npz")
    line = "merge total.npz tue.npz -o total.npz --force"
    assert shell.nishimori(line, place=place).code == 0
    total = (place / "total.npz").read_bytes()
    ended = shell.nishimori(line, place=place)
    assert ended.code == 1
    assert ended.err.startswith("error: tue.npz cannot be merged with the files before it. A part is added only once, ")
    assert (place / "total.npz").read_bytes() == total
    assert json.loads(shell.nishimori("show total.npz --json", place=place).out)["n_parts"] == 2


def test_each_file_of_a_sketch_in_the_shell_is_a_part(place):
    for name, rows in (("a", slice(0, 300)), ("b", slice(300, 500))):
        np.savez(place / f"{name}.npz", logits=LOGITS[rows], labels=LABELS[rows])
    made = json.loads(shell.nishimori("sketch a.npz b.npz -o s.npz --json", place=place).out)
    assert made["n_parts"] == 2
    assert ids(Sketch.load(place / "s.npz")) == (*ids(MONDAY), *ids(TUESDAY))
    assert shell.nishimori("merge s.npz tue.npz -o all.npz", place=place).code == 1
