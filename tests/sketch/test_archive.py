"""Sketches in files and as bytes: small, versioned, and never trusted."""

import json
import pickle

import numpy as np
import pytest
import reference

import nishimori
from nishimori import Sketch, temperatures
from nishimori.calibrators import Matched
from nishimori.errors import FormatError, InputError

LOGITS, LABELS = reference.drawn(300, 4)
SKETCH = Sketch().update(LOGITS, LABELS)


class Power(nishimori.Observable):
    def __init__(self, exponent):
        self.exponent = exponent

    def values(self, logits):
        return np.sign(logits) * np.abs(logits) ** self.exponent


@pytest.fixture
def path(tmp_path):
    SKETCH.save(tmp_path / "s.npz")
    return tmp_path / "s.npz"


def rewritten(path, header=None, **arrays):
    """The same file with another header or other arrays; None removes one."""
    with np.load(path) as file:
        content = dict(file)
    about = json.loads(str(content["nishimori-sketch"]))
    content["nishimori-sketch"] = np.array(json.dumps(about | (header or {})))
    np.savez(path, **{name: array for name, array in (content | arrays).items() if array is not None})


def test_a_file_gives_the_sketch_back_and_is_small(path):
    loaded = Sketch.load(path)
    assert all(np.array_equal(loaded.state[name], SKETCH.state[name]) for name in SKETCH.state)
    assert temperatures(loaded) == temperatures(SKETCH)
    assert (loaded + SKETCH).n_samples == 600
    assert path.stat().st_size < 100_000


def test_everything_that_says_what_the_rows_are_is_kept(tmp_path):
    names = ["a", "b", "c", "d"]
    p = reference.softmax(LOGITS)
    made = Sketch(("ts",), temperatures=(0.2, 5), input="probabilities", classes=names, floor=1e-4)
    made.update(p, np.array(names)[LABELS]).save(tmp_path / "p.npz")
    loaded = Sketch.load(tmp_path / "p.npz")
    assert (loaded.input, loaded.classes, loaded.floor) == ("probabilities", names, 1e-4)
    assert (loaded.temperatures, loaded.observables) == (made.temperatures, made.observables)
    loaded.update(p, np.array(names)[LABELS])
    assert loaded.n_samples == 600


def test_an_observable_of_ones_own_has_to_be_passed_again(tmp_path):
    made = Sketch(("ec", Power(1.5))).update(LOGITS, LABELS)
    made.save(tmp_path / "own.npz")
    wanted = "is a sketch of ec, Power(exponent=1.5). Pass these as `observables`, in this order."
    for given in (None, ("ec",), ("ec", Power(2.0)), (Power(1.5), "ec")):
        with pytest.raises(InputError) as refused:
            Sketch.load(tmp_path / "own.npz", observables=given)
        assert str(refused.value).endswith(wanted)
    loaded = Sketch.load(tmp_path / "own.npz", observables=("ec", Power(1.5)))
    fitted = Matched(Power(1.5)).fit(loaded)
    assert fitted.temperature_ == pytest.approx(Matched(Power(1.5)).fit(LOGITS, LABELS).temperature_, rel=1e-8)


def test_bytes_are_the_content_of_the_file_and_give_the_sketch_back(path):
    data = SKETCH.to_bytes()
    assert path.read_bytes() == data
    for given in (data, bytearray(data), memoryview(data)):
        read = Sketch.from_bytes(given)
        assert (read.observables, read.temperatures) == (SKETCH.observables, SKETCH.temperatures)
        assert all(np.array_equal(read.state[name], SKETCH.state[name]) for name in SKETCH.state)


def test_bytes_keep_what_the_rows_are_and_an_observable_of_ones_own_has_to_be_passed_again():
    names = ["a", "b", "c", "d"]
    made = Sketch(("ec", Power(1.5)), temperatures=(0.2, 5), classes=names).update(LOGITS, np.array(names)[LABELS])
    with pytest.raises(InputError) as refused:
        Sketch.from_bytes(made.to_bytes())
    assert str(refused.value) == "`data` is a sketch of ec, Power(exponent=1.5). Pass these as `observables`, in this order."
    read = Sketch.from_bytes(made.to_bytes(), observables=("ec", Power(1.5)))
    assert (read.input, read.classes, read.temperatures) == ("logits", names, made.temperatures)
    assert (read + made).n_samples == 600


@pytest.mark.parametrize("given", ["s.npz", None, np.zeros(3)], ids=["a path", "nothing", "an array"])
def test_only_bytes_are_read_as_bytes(given):
    with pytest.raises(InputError) as refused:
        Sketch.from_bytes(given)
    assert str(refused.value) == f"`data` must be bytes, got {type(given).__name__}. Pass what `Sketch.to_bytes` returned."


def test_a_pickled_sketch_is_the_same_sketch_and_can_be_updated():
    made = Sketch(("ec", Power(1.5)), classes=["a", "b", "c", "d"]).update(LOGITS, np.array(["a", "b", "c", "d"])[LABELS])
    copied = pickle.loads(pickle.dumps(made))
    assert all(np.array_equal(copied.state[name], made.state[name]) for name in made.state)
    assert copied.update(LOGITS, np.array(["a", "b", "c", "d"])[LABELS]).n_samples == 600
    assert (made.n_samples, (copied + made).n_samples) == (300, 900)


def test_a_pickle_is_as_small_as_the_file(path):
    assert len(pickle.dumps(SKETCH)) < 1.1 * path.stat().st_size


def test_a_file_that_exists_is_kept(path):
    before = path.read_bytes()
    with pytest.raises(FileExistsError, match="Pass `overwrite=True` to replace it"):
        Sketch().save(path)
    assert path.read_bytes() == before
    Sketch().save(path, overwrite=True)
    assert Sketch.load(path).n_samples == 0


def test_a_name_that_does_not_end_in_npz_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"`path` must end in \.npz, got"):
        SKETCH.save(tmp_path / "sketch.json")
    assert not list(tmp_path.iterdir())


def test_a_file_of_a_newer_format_says_so(path):
    rewritten(path, {"version": 5})
    with pytest.raises(FormatError) as refused:
        Sketch.load(path)
    assert str(refused.value) == (
        f"{path} was written by a newer version of nishimori (format 5, and this one reads up to 4). Update nishimori."
    )


@pytest.mark.parametrize(("version", "grid"), [(1, [-18, 18]), (2, [-18, 18, 4])])
def test_files_of_older_formats_can_be_read_and_merged(path, version, grid):
    """They have no products of gaps at different nodes, so that the correlation of both temperatures is that halfway."""
    rewritten(path, {"version": version, "grid": grid}, crossed=None)
    loaded = Sketch.load(path)
    assert loaded.temperatures == SKETCH.temperatures
    for sketch in (loaded, loaded + SKETCH, SKETCH + loaded):
        found, wanted = temperatures(sketch), temperatures(SKETCH)
        assert (found.ec, found.ts) == pytest.approx((wanted.ec, wanted.ts), rel=1e-12)
        found = nishimori.AdaptiveConsistency().fit(sketch).temperature_
        rows = 1 + (sketch is not loaded)
        exact = nishimori.AdaptiveConsistency().fit(np.tile(LOGITS, (rows, 1)), np.tile(LABELS, rows)).temperature_
        assert found == pytest.approx(exact, rel=1e-3)
    Sketch.from_bytes((loaded + SKETCH).to_bytes())


def damage_counts(array, place):
    counts = SKETCH.state["counts"]
    counts[place] = array
    return counts


@pytest.mark.parametrize(
    "change",
    [
        lambda path: path.write_bytes(path.read_bytes()[:5000]),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"no archive"),
        lambda path: np.savez(path, logits=LOGITS, labels=LABELS),
        lambda path: rewritten(path, moments=None),
        lambda path: rewritten(path, moments=np.zeros(3)),
        lambda path: rewritten(path, more=np.zeros(3)),
        lambda path: rewritten(path, moments=np.full(2 * 4 * 39, "a")),
        lambda path: rewritten(path, counts=damage_counts(np.nan, 0)),
        lambda path: rewritten(path, counts=damage_counts(-1, 0)),
        lambda path: rewritten(path, counts=damage_counts(1, -1)),
        lambda path: rewritten(path, {"grid": [0, 10**9]}),
        lambda path: rewritten(path, {"grid": ["a", 1]}),
        lambda path: rewritten(path, {"observables": "ec"}),
        lambda path: rewritten(path, {"observables": []}),
        lambda path: rewritten(path, {"input": "words"}),
        lambda path: rewritten(path, {"version": None}),
        lambda path: rewritten(path, {"classes": ["a", "a"]}),
        lambda path: np.savez(path, **{"nishimori-sketch": np.array("{")}),
        lambda path: np.savez(path, **{"nishimori-sketch": np.array({"a": 1}, dtype=object)}),
        lambda path: np.savez_compressed(path, **{"nishimori-sketch": np.array("{}")}, moments=np.zeros(2**24)),
    ],
)
def test_a_damaged_file_is_one_error_that_names_it(path, change):
    change(path)
    with pytest.raises(FormatError) as refused:
        Sketch.load(path)
    assert str(refused.value).startswith(str(path))
    with pytest.raises(FormatError) as refused_bytes:
        Sketch.from_bytes(path.read_bytes())
    shell = ", or in the shell with `nishimori sketch`"
    assert str(refused_bytes.value) == str(refused.value).replace(str(path), "`data`").replace("save", "to_bytes").replace(
        shell, ""
    )


def test_a_file_far_larger_than_a_sketch_is_not_read(path):
    np.savez_compressed(path, **{"nishimori-sketch": np.array("{}")}, moments=np.zeros(2**24))
    with pytest.raises(
        FormatError, match=r"is not a sketch: it has 134,[\d,]+ bytes, but a sketch has a few million at most\."
    ):
        Sketch.load(path)


def test_a_missing_file_and_a_folder_are_said_to_be_that(tmp_path):
    with pytest.raises(FileNotFoundError, match="There is no file"):
        Sketch.load(tmp_path / "none.npz")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        Sketch.load(tmp_path)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"observables": []}, "observables must be a list that is not empty, got []"),
        ({"grid": [0.5, 18, 4]}, "grid[0] must be a whole number from -9999 to 9999, got 0.5"),
        ({"input": "words"}, "input must be one of 'logits', 'probabilities', got 'words'"),
        ({"floor": "low"}, "floor must be a finite number, got 'low'"),
        ({"version": None}, "version must be a whole number of at least 1, got None"),
    ],
)
def test_a_header_with_a_wrong_entry_is_an_error_that_names_the_entry(path, change, fault):
    rewritten(path, change)
    with pytest.raises(FormatError) as refused:
        Sketch.load(path)
    assert str(refused.value).startswith(f"{path} is a damaged sketch: {fault}. Make it again with")
