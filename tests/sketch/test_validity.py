"""A sketch is read only if rows can have its sums: every array of a file is damaged in turn."""

import json
from io import BytesIO

import numpy as np
import pytest
import reference
import shell

import nishimori
from nishimori import Sketch
from nishimori._sketch.contents import Contents
from nishimori.errors import FormatError, InputError, MergeError

LOGITS, LABELS = reference.drawn(300, 4)
RNG = np.random.default_rng(1)
WEIGHTS = RNG.uniform(0.5, 2.0, 300)


class Square(nishimori.Observable):
    """An observable whose mean may fall with β, so that its slope has no sign."""

    def values(self, logits):
        return np.where(np.isfinite(logits), logits, 0.0) ** 2


SKETCHES = {
    "plain": Sketch().update(LOGITS, LABELS),
    "weights": Sketch().update(LOGITS, LABELS, WEIGHTS),
    "clusters": Sketch().update(LOGITS, LABELS, WEIGHTS, np.arange(300) // 3),
    "an own observable": Sketch(("ec", "ts", Square())).update(LOGITS, LABELS),
}
PLAIN = SKETCHES["plain"]
SHAPES = Contents.shapes(2, 37)


def with_array(sketch, name, array):
    """The bytes of a sketch with another array in the place of one."""
    with np.load(BytesIO(sketch.to_bytes())) as file:
        content = dict(file)
    content[name] = array
    found = BytesIO()
    np.savez(found, **content)
    return found.getvalue()


def refuses(sketch, name, array):
    """Whether a sketch with this array is refused, and the text says that the sketch is damaged, and which array is."""
    try:
        Sketch.from_bytes(with_array(sketch, name, array), observables=sketch.observables)
    except FormatError as error:
        return str(error).startswith("`data` is a damaged sketch: `")
    return False


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", list(SHAPES))
@pytest.mark.parametrize("kind", list(SKETCHES))
def test_a_number_that_is_not_finite_is_refused_in_every_array(kind, name, bad):
    sums = SKETCHES[kind].state[name]
    for place in {0, len(sums) // 2, len(sums) - 1, *RNG.integers(len(sums), size=8).tolist()}:
        damaged = sums.copy()
        damaged[place] = bad
        assert refuses(SKETCHES[kind], name, damaged), place


def flipped(state, name, places):
    """The array with the signs of some numbers changed, one at a time, where they are not zero."""
    for place in places:
        if state[name][place] != 0:
            changed = state[name].copy()
            changed[place] *= -1
            yield place, changed


@pytest.mark.parametrize("kind", list(SKETCHES))
@pytest.mark.parametrize("name", ["counts", "weights"])
def test_a_negative_count_or_weight_is_refused(kind, name):
    for place, changed in flipped(SKETCHES[kind].state, name, range(len(SKETCHES[kind].state[name]))):
        assert refuses(SKETCHES[kind], name, changed), place


@pytest.mark.parametrize("kind", ["plain", "weights", "clusters"])
def test_a_sum_with_the_wrong_sign_is_refused_wherever_a_sign_is_known(kind):
    """Unknown are the signs of curvatures, of slopes at the ends, of products of two gaps, and of the slope of the Brier score.

    Those of gaps follow from the metrics: the confidence minus that of right answers, and the slope of the loss.
    """
    sketch = SKETCHES[kind]
    signs = {name: np.zeros(shape, dtype=bool) for name, shape in SHAPES.items()}
    signs["observed"][:] = True
    signs["moments"][:, :2, 1:-1] = signs["moments"][:, 1] = signs["moments"][:, 2, 1:-1] = True
    signs["products"][[0, 2]] = True
    signs["curves"][:, 0] = signs["curves"][0, 1] = signs["curves"][2, 1] = True
    signs["bins"][:] = True
    # Gaps of which rounding leaves the sign open, and parts of bins that are no larger than rounding.
    sizes = {name: np.abs(array).max() for name, array in sketch.state.items()}
    for name, known in signs.items():
        places = np.flatnonzero(known.ravel() & (np.abs(sketch.state[name]) > 1e-6 * sizes[name]))
        chosen = places if len(places) < 60 else RNG.choice(places, 60, replace=False)
        for place, changed in flipped(sketch.state, name, chosen.tolist()):
            assert refuses(sketch, name, changed), (name, np.unravel_index(place, SHAPES[name]))


@pytest.mark.parametrize("kind", ["plain", "weights", "clusters"])
@pytest.mark.parametrize(("which", "least"), [(1, 0.5), (2, np.log(2))], ids=["Brier score", "loss"])
def test_wrong_answers_have_a_least_brier_score_and_loss(kind, which, least):
    """The true class of a wrong answer has a probability of at most 1/2, at every T."""
    sketch = SKETCHES[kind]
    wrong = sketch.census.wrong
    curves = sketch.state["curves"].reshape(SHAPES["curves"])
    assert (curves[which, 0] > least * wrong).all()
    for node in (0, 18, -1):
        changed = curves.copy()
        changed[which, 0, node] = 0.99 * least * wrong
        assert refuses(sketch, "curves", changed.ravel()), node


@pytest.mark.parametrize("kind", ["plain", "weights", "clusters"])
def test_what_is_observed_of_ts_is_minus_its_gap_at_zero_temperature(kind):
    observed = SKETCHES[kind].state["observed"]
    observed[1] *= 1.001
    assert refuses(SKETCHES[kind], "observed", observed)


def test_ties_of_wrong_answers_have_just_the_least_brier_score_and_loss():
    made = Sketch().update(np.ones((50, 2)), np.ones(50, dtype=int), 10.0 ** np.linspace(-9, 9, 50))
    assert Sketch.from_bytes(made.to_bytes()).census.right == 0


@pytest.mark.parametrize("kind", list(SKETCHES))
def test_bins_that_do_not_sum_to_the_weights_are_refused(kind):
    bins = SKETCHES[kind].state["bins"].reshape(SHAPES["bins"])
    for which in range(3 if kind == "clusters" else 4):  # of the squares of a cluster, each bin has a part
        changed = bins.copy()
        node, place = np.argwhere(bins[which] > 0)[-1]
        changed[which, node, place] += 1e-3 * SKETCHES[kind].n_samples
        assert refuses(SKETCHES[kind], "bins", changed.ravel()), which


def test_a_bin_cannot_miss_more_than_it_holds():
    bins = PLAIN.state["bins"].reshape(SHAPES["bins"])
    changed = bins.copy()
    changed[4, 3] = 2 * changed[3, 3] + 1
    assert refuses(PLAIN, "bins", changed.ravel())


@pytest.mark.parametrize("name", ["products", "crossed"])
def test_products_that_no_two_gaps_have_are_refused(name):
    """Each is at most the geometric mean of two squares; a smaller change of a product cannot be noticed."""
    changed = PLAIN.state[name].reshape(SHAPES[name])
    squares = PLAIN.state["products"].reshape(SHAPES["products"])
    place = (1, 0, 20) if name == "products" else (0, 0, 3, 20)
    changed[place] = 2 * np.sqrt(squares[0, 0].max() * squares[2, 0].max())
    assert refuses(PLAIN, name, changed.ravel())


def test_a_change_that_other_rows_could_have_made_is_not_noticed():
    curvatures = PLAIN.state["moments"].reshape(SHAPES["moments"])
    curvatures[:, 3] *= -1
    assert not refuses(PLAIN, "moments", curvatures.ravel())
    assert not refuses(PLAIN, "crossed", np.full(PLAIN.state["crossed"].shape, np.nan))  # as older files have it


def test_an_empty_sketch_has_no_sums():
    for name, sums in Sketch().state.items():
        for bad in (1.0, -1.0, np.nan):
            changed = sums.copy()
            changed[-1] = bad
            assert refuses(Sketch(), name, changed), (name, bad)
    assert Sketch.from_bytes(Sketch().to_bytes()).n_samples == 0


@pytest.mark.parametrize("clusters", [None, np.arange(300) // 3])
def test_infinite_sums_of_a_masked_true_class_are_read_and_nothing_else_may_be_infinite(clusters):
    masked = np.where((np.arange(4) == LABELS[:, None]) & (np.arange(300)[:, None] == 7), -np.inf, LOGITS)
    made = Sketch().update(masked, LABELS, clusters=clusters)
    read = Sketch.from_bytes((made + made).to_bytes())
    assert nishimori.temperatures(read).ec == pytest.approx(nishimori.temperatures(masked, LABELS).ec, rel=1e-8)
    for name in ("weights", "bins", "counts"):
        sums = made.state[name]
        sums[-1] = np.inf
        assert refuses(made, name, sums)
    moments = made.state["moments"].reshape(SHAPES["moments"])
    moments[0, 0, 5] = np.inf  # of the confidence
    assert refuses(made, "moments", moments.ravel())


@pytest.mark.parametrize("seed", range(40))
def test_the_sums_of_any_rows_are_read(seed):
    """Of logits of every size, with ties, with weights from 1e-60 to 1e60, and with very few rows."""
    rng = np.random.default_rng(seed)
    n, scale = int(rng.choice([1, 2, 30, 400])), 10 ** rng.uniform(-9, 40)
    logits = np.round(rng.normal(size=(n, int(rng.choice([2, 3, 40])))), int(rng.integers(1, 9))) * scale
    labels = (logits / scale + rng.gumbel(size=logits.shape)).argmax(axis=1)
    weights = 10 ** rng.uniform(-10, 10, n) * 10 ** rng.uniform(-45, 45) if seed % 2 else None
    clusters = rng.integers(0, 3, n) if seed % 3 == 0 else None
    made = Sketch(temperatures=(1e-3, 1e3) if seed % 5 == 0 else (0.05, 20)).update(logits, labels, weights, clusters)
    assert Sketch.from_bytes(sum([made, made, made]).to_bytes()).n_samples == 3 * n


def test_sums_that_are_assigned_are_checked_too():
    for bad in (np.nan, -1.0):
        state = PLAIN.state
        state["weights"][0] = bad
        sketch = Sketch().update(LOGITS[:10], LABELS[:10])
        with pytest.raises(InputError, match=r"^`state` must hold the sums of rows. For these arrays, `weights` must be"):
            sketch.state = state
        assert sketch.n_samples == 10


def test_a_merge_that_leaves_the_range_of_numbers_fails_and_changes_nothing():
    sketches = []
    for seed in (0, 1):
        state = Sketch().update(*reference.drawn(300, 4, seed=seed)).state
        state["products"] *= 1.7e308 / state["products"].max()
        state["crossed"] *= 0
        sketches.append(Sketch())
        sketches[-1].state = state
    total, more = sketches
    before = total.state
    with (
        pytest.warns(RuntimeWarning, match="overflow"),
        pytest.raises(MergeError, match=r"^Sketches merge only if rows can have such sums: `products` must"),
    ):
        total.merge(more)
    assert all(np.array_equal(total.state[name], before[name]) for name in before)


@pytest.mark.parametrize("name", ["weights", "observed", "moments", "products", "crossed", "curves", "bins"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, "negative"])
def test_every_command_refuses_a_damaged_file_by_its_name_and_writes_nothing(tmp_path, name, bad):
    PLAIN.save(tmp_path / "total.npz")
    sums = PLAIN.state[name]
    if bad == "negative":
        sums = np.abs(sums) * -3 - 1 if name != "observed" else np.abs(sums) + 1
    else:
        sums[len(sums) // 2] = bad
    (tmp_path / "bad.npz").write_bytes(with_array(PLAIN, name, sums))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for line in (
        "merge total.npz bad.npz -o total.npz --force",
        "merge bad.npz total.npz -o new.npz",
        "merge bad.npz -o new.npz",
        "eval bad.npz",
        "diff total.npz bad.npz",
        "gate bad.npz --bound ece=0.1",
        "fit bad.npz -o c.json",
        "show bad.npz",
    ):
        ended = shell.nishimori(line, place=tmp_path)
        assert (ended.code, ended.out) == (1, ""), line
        assert ended.err.startswith("error: bad.npz is a damaged sketch: `"), line
        assert len(ended.err.splitlines()) == 1
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_header_that_was_changed_is_one_error(tmp_path):
    PLAIN.save(tmp_path / "s.npz")
    with np.load(tmp_path / "s.npz") as file:
        content = dict(file)
    about = json.loads(str(content["nishimori-sketch"]))
    for change in ({"n_forgotten_parts": -1}, {"n_forgotten_parts": 1}, {"n_forgotten_parts": "1"}):
        content["nishimori-sketch"] = np.array(json.dumps(about | change))
        np.savez(tmp_path / "s.npz", **content)
        with pytest.raises(FormatError, match=r"s\.npz is damaged, or not a sketch\."):
            Sketch.load(tmp_path / "s.npz")
