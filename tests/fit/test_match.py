"""Standard errors of temperatures: the sandwich formula on the sums of a fit, against a second formula and against draws."""

import numpy as np
import pytest
import reference
from host_kernels import EVERY

import nishimori
from nishimori import ExpectationConsistency, TemperatureScaling, temperatures
from nishimori._fit.roots import Root
from nishimori._fit.search import Search, match
from nishimori._rows.entry import open_rows
from nishimori._sums.observables import Confidence, Energy
from nishimori.calibrators import Matched
from nishimori.errors import InputError

METHODS = {"ec": ExpectationConsistency, "ts": TemperatureScaling}


class Rank(nishimori.Observable):
    """Minus the rank of each class; the top class has rank 0."""

    def values(self, logits):
        return -(logits[:, :, None] < logits[:, None, :]).sum(axis=2).astype(float)


def gaps(method, logits, labels, T, top_n=1):
    """The gap of each row at T, from the definition."""
    p = reference.softmax(logits, T)
    rows = np.arange(len(labels))
    if method == "ec":
        order = np.argsort(-logits, axis=1, kind="stable")[:, :top_n]
        return np.take_along_axis(p, order, axis=1).sum(axis=1) - (order == labels[:, None]).any(axis=1)
    values = logits if method == "ts" else Rank().values(logits)
    return (p * values).sum(axis=1) - values[rows, labels]


def sandwich(method, logits, labels, weights, T, top_n=1):
    """The standard error of T: the gaps at T, and their slope in log T by differences."""
    step = 1e-4
    up, down = (weights @ gaps(method, logits, labels, T * np.exp(sign * step), top_n) for sign in (1, -1))
    spread = np.sqrt((weights**2 * gaps(method, logits, labels, T, top_n) ** 2).sum())
    return T * spread / abs((up - down) / (2 * step))


@pytest.mark.parametrize("kernel", EVERY)
@pytest.mark.parametrize(("n", "k"), [(300, 2), (3000, 5), (9000, 10), (3000, 40)])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_error_is_that_of_the_estimating_equation(n, k, weighted, kernel, monkeypatch):
    monkeypatch.setenv("NISHIMORI_KERNEL", kernel)
    logits, labels = reference.drawn(n, k)
    weights = np.random.default_rng(1).uniform(0.5, 3, n) if weighted else np.ones(n)
    found = temperatures(logits, labels, sample_weight=weights if weighted else None)
    for method, T, se in (("ec", found.ec, found.ec_se), ("ts", found.ts, found.ts_se)):
        assert se == pytest.approx(sandwich(method, logits, labels, weights, T), rel=1e-5)
        calibrator = METHODS[method]().fit(logits, labels, weights if weighted else None)
        assert calibrator.temperature_se_ == pytest.approx(se, rel=1e-5)
        assert calibrator.fit_info_.temperature_se == calibrator.temperature_se_


def precise_sandwich(method, logits, labels, weights, T, power=2):
    """The standard error of T from gaps and slopes without differences, in extended precision, from Σ wᵖ·g²."""
    z, w, T = np.asarray(logits, np.longdouble), np.asarray(weights, np.longdouble), np.longdouble(T)
    rows, top = np.arange(len(z)), z.argmax(axis=1)
    d = z - z.max(axis=1, keepdims=True)
    p = np.exp(d / T) / np.exp(d / T).sum(axis=1, keepdims=True)
    mean = (p * d).sum(axis=1)
    gap, slope = mean - d[rows, labels], (p * (d - mean[:, None]) ** 2).sum(axis=1)
    if method == "ec":
        others = np.where(np.arange(z.shape[1]) == top[:, None], 0, p).sum(axis=1)
        gap, slope = np.where(top == labels, -others, p[rows, top]), -p[rows, top] * mean
    return float(T**2 * np.sqrt((w**power * gap**2).sum()) / (w * slope).sum())


@pytest.mark.parametrize("counts", [False, True])
def test_the_error_is_right_where_one_row_decides(counts):
    """Weights over 24 decades: the gap of the heaviest row is almost zero at the root, and was not where it was measured."""
    errors = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        n, k = rng.integers(5, 25), rng.integers(2, 7)
        logits = 3 * rng.normal(size=(n, k))
        labels = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)
        weights = 10 ** rng.uniform(-12, 12, n)
        found = match(open_rows(logits, labels, weights, counts=counts), Confidence(), Energy())
        for i, (method, root) in enumerate(zip(METHODS, found.roots, strict=True)):
            if isinstance(root, Root):
                expected = precise_sandwich(method, logits, labels, weights, np.exp(-root.x), power=1 if counts else 2)
                errors.append(abs(found.standard_error(i) / expected - 1))
    assert len(errors) > 80
    assert max(errors) < 2e-4


def test_ordinary_data_are_not_read_again_for_the_error():
    """The squares of gaps are carried to the root, unless one row decides."""
    logits, labels = reference.drawn(3000, 6)
    weights = np.random.default_rng(0).exponential(size=3000)
    for w in (np.ones(3000), weights):
        data = open_rows(logits, labels, w)
        observables = Confidence(), Energy()
        assert match(data, *observables).n_passes == Search(data, observables, Confidence(), "").run().n_passes
    rng = np.random.default_rng(60)
    n, k = rng.integers(5, 25), rng.integers(2, 7)
    logits = 3 * rng.normal(size=(n, k))
    labels = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)
    data = open_rows(logits, labels, 10 ** rng.uniform(-12, 12, n))
    near = [match(data, Energy()).roots[0].x + 1e-3]
    assert match(data, Energy(), starts=near).n_passes == Search(data, (Energy(),), Confidence(), "").run(near).n_passes + 1


def test_top_n_and_own_observables_have_an_error():
    logits, labels = reference.drawn(2000, 6)
    ones = np.ones(2000)
    top = ExpectationConsistency(top_n=2).fit(logits, labels)
    assert top.temperature_se_ == pytest.approx(sandwich("ec", logits, labels, ones, top.temperature_, 2), rel=1e-5)
    own = Matched(Rank()).fit(logits, labels)
    assert own.temperature_se_ == pytest.approx(sandwich("rank", logits, labels, ones, own.temperature_), rel=1e-5)


def test_the_error_of_one_temperature_does_not_depend_on_the_other():
    logits, labels = reference.drawn(400, 4)
    top = logits.argmax(axis=1)
    labels[:40] = np.argsort(logits[:40], axis=1)[:, -2]
    sure = np.argsort(logits, axis=1)[:, -2]  # the second class is always true: TS exists, EC does not
    found = temperatures(logits, sure)
    assert found.ec is None
    assert found.ts_se == pytest.approx(sandwich("ts", logits, sure, np.ones(400), found.ts), rel=1e-5)
    far = np.where(np.arange(400) % 3 == 0, labels, top)  # both exist, far from each other: their searches end apart
    logits[::50, 0] *= 30
    found = temperatures(logits, far)
    assert abs(np.log(found.ec / found.ts)) > 0.4
    assert found.ec_se == pytest.approx(sandwich("ec", logits, far, np.ones(400), found.ec), rel=1e-5)
    assert found.ts_se == pytest.approx(sandwich("ts", logits, far, np.ones(400), found.ts), rel=1e-5)


def test_half_of_the_weights_and_two_of_each_row_change_the_error_as_they_should():
    logits, labels = reference.drawn(2000, 6)
    error = temperatures(logits, labels).ec_se
    assert temperatures(logits, labels, sample_weight=np.full(2000, 0.5)).ec_se == pytest.approx(error, rel=1e-6)
    twice = temperatures(np.concatenate([logits] * 2), np.concatenate([labels] * 2)).ec_se
    assert twice == pytest.approx(error / np.sqrt(2), rel=1e-3)


@pytest.mark.parametrize("method", ["ec", "ts"])
def test_intervals_cover_the_temperature_that_labels_were_drawn_at(method):
    rng = np.random.default_rng(0)
    inside = 0
    for _ in range(400):
        logits = 3 * rng.normal(size=(600, 4))
        labels = (logits / 1.7 + rng.gumbel(size=logits.shape)).argmax(axis=1)
        low, high = METHODS[method]().fit(logits, labels).confidence_interval()
        inside += low < 1.7 < high
    assert 0.92 < inside / 400 < 0.98  # 0.95, and three standard errors of 400 draws


def test_an_interval_lies_around_log_T_and_grows_with_its_level():
    calibrator = ExpectationConsistency().fit(*reference.drawn(1000, 5))
    T, se = calibrator.temperature_, calibrator.temperature_se_
    found = calibrator.confidence_interval(0.95)
    assert found.low * found.high == pytest.approx(T**2)
    assert np.log(found.high / T) == pytest.approx(1.959964 * se / T, rel=1e-6)
    assert calibrator.confidence_interval(0.5).high < found.high < calibrator.confidence_interval(0.99).high
    assert calibrator.confidence_interval(0) == pytest.approx((T, T))
    assert calibrator.confidence_interval(1) == (0, np.inf)
    for level in (-0.1, 95, "high", None):
        with pytest.raises(InputError, match="`level` must"):
            calibrator.confidence_interval(level)


def pairwise_sandwich(method, logits, labels, clusters, weights, T):
    """The standard error of T where rows of a cluster are not independent: the products of all pairs of rows in it."""
    g = weights * gaps(method, logits, labels, T)
    pairs = np.outer(g, g)[clusters[:, None] == clusters[None, :]].sum()
    return sandwich(method, logits, labels, weights, T) * np.sqrt(pairs / (g @ g))


@pytest.mark.parametrize("names", ["numbers", "text", "in order"])
@pytest.mark.parametrize("weighted", [False, True])
def test_rows_of_a_cluster_vary_together(names, weighted):
    logits, labels = reference.drawn(900, 5)
    labels[:450] = logits[:450].argmax(axis=1)  # a half in which all is right: clusters from it are correlated
    rng = np.random.default_rng(3)
    clusters = np.concatenate([rng.integers(0, 30, 450), rng.integers(30, 60, 450)])
    order = np.arange(900) if names == "in order" else rng.permutation(900)
    logits, labels, clusters = logits[order], labels[order], clusters[order]
    weights = rng.uniform(0.5, 3, 900) if weighted else np.ones(900)
    given = np.char.add("video ", clusters.astype(str)) if names == "text" else clusters
    found = temperatures(logits, labels, sample_weight=weights if weighted else None, clusters=given)
    plain = temperatures(logits, labels, sample_weight=weights if weighted else None)
    assert (found.ec, found.ts) == (plain.ec, plain.ts)
    for method, T, se in (("ec", found.ec, found.ec_se), ("ts", found.ts, found.ts_se)):
        assert se == pytest.approx(pairwise_sandwich(method, logits, labels, clusters, weights, T), rel=0.01)
        fitted = METHODS[method]().fit(logits, labels, weights if weighted else None, clusters=given)
        assert fitted.temperature_se_ == pytest.approx(se, rel=0.01)
    assert found.ec_se > 1.5 * plain.ec_se


def test_clusters_of_one_row_each_are_no_clusters():
    logits, labels = reference.drawn(2000, 6)
    weights = np.random.default_rng(1).uniform(0.5, 3, 2000)
    found = temperatures(logits, labels, sample_weight=weights, clusters=np.random.default_rng(2).permutation(2000))
    plain = temperatures(logits, labels, sample_weight=weights)
    assert found.ec_se == pytest.approx(plain.ec_se, rel=1e-12)
    assert found.ts_se == pytest.approx(plain.ts_se, rel=1e-12)


@pytest.mark.parametrize("copies", [2, 5])
def test_copies_that_are_a_cluster_add_nothing(copies):
    logits, labels = reference.drawn(500, 4)
    once = temperatures(logits, labels)
    again = temperatures(np.tile(logits, (copies, 1)), np.tile(labels, copies), clusters=np.tile(np.arange(500), copies))
    assert again.ec_se == pytest.approx(once.ec_se, rel=1e-3)
    apart = temperatures(np.tile(logits, (copies, 1)), np.tile(labels, copies))
    assert again.ec_se == pytest.approx(np.sqrt(copies) * apart.ec_se, rel=1e-3)


def test_top_n_and_own_observables_have_errors_of_clusters():
    logits, labels = reference.drawn(600, 6)
    clusters = np.arange(600) // 4
    ones = np.ones(600)
    own = Matched(Rank()).fit(logits, labels, clusters=clusters)
    assert own.temperature_se_ == pytest.approx(
        pairwise_sandwich("rank", logits, labels, clusters, ones, own.temperature_), rel=0.01
    )
    top = ExpectationConsistency(top_n=2).fit(logits, labels, clusters=clusters)
    g = gaps("ec", logits, labels, top.temperature_, 2)
    sums = np.array([g[clusters == each].sum() for each in range(150)])
    ratio = np.sqrt(sums @ sums / (g @ g))
    assert top.temperature_se_ == pytest.approx(ratio * sandwich("ec", logits, labels, ones, top.temperature_, 2), rel=0.01)


def test_one_cluster_is_refused_and_few_are_warned_of():
    logits, labels = reference.drawn(300, 4)
    with pytest.raises(InputError, match="`clusters` must name at least two clusters, got one: a standard error"):
        temperatures(logits, labels, clusters=np.zeros(300))
    # A cluster whose rows have no weight does not count.
    with pytest.raises(InputError, match="at least two clusters"):
        temperatures(logits, labels, clusters=np.arange(300) < 3, sample_weight=np.arange(300) >= 3)
    with pytest.warns(
        nishimori.errors.InputWarning, match="from 9 clusters are too small on average and unreliable. Use at least 40"
    ):
        temperatures(logits, labels, clusters=np.arange(300) % 9)
    temperatures(logits, labels, clusters=np.arange(300) % 10)


def test_counts_stand_for_copies_of_rows():
    logits, labels = reference.drawn(800, 5)
    counts = np.random.default_rng(4).integers(0, 4, 800)
    found = temperatures(logits, labels, sample_weight=counts, counts=True)
    copied = temperatures(np.repeat(logits, counts, axis=0), np.repeat(labels, counts))
    assert found.ec_se == pytest.approx(copied.ec_se, rel=0.01)
    assert found.ts_se == pytest.approx(copied.ts_se, rel=0.01)
    fitted = TemperatureScaling().fit(logits, labels, counts, counts=True)
    assert fitted.temperature_se_ == pytest.approx(copied.ts_se, rel=0.01)
    assert temperatures(logits, labels, sample_weight=counts).ec_se > 1.1 * found.ec_se
    with pytest.raises(InputError, match="`counts` must be False where `clusters` is given: copies of a sample belong to"):
        temperatures(logits, labels, sample_weight=counts, clusters=np.arange(800), counts=True)


@pytest.mark.parametrize("kind", ["rows", "weights", "clusters", "counts"])
@pytest.mark.parametrize(("n", "k"), [(400, 2), (1500, 6), (600, 120)])
def test_a_sketch_has_the_errors_of_its_rows(n, k, kind):
    logits, labels = reference.drawn(n, k)
    rng = np.random.default_rng(1)
    weights = np.ones(n) if kind == "rows" else rng.integers(1, 5, n).astype(float)
    clusters = np.arange(n) if kind != "clusters" else rng.integers(0, n // 10, n)
    half = clusters < np.median(clusters)
    given = clusters if kind == "clusters" else None
    sketch = nishimori.Sketch()
    for rows in (half, ~half):
        sketch.update(logits[rows], labels[rows], weights[rows], None if given is None else given[rows])
    found = temperatures(sketch, counts=kind == "counts")
    for method, T, se in (("ec", found.ec, found.ec_se), ("ts", found.ts, found.ts_se)):
        expected = pairwise_sandwich(method, logits, labels, clusters, weights, T)
        if kind == "counts":
            copies = [np.repeat(each, weights.astype(int), axis=0) for each in (logits, labels)]
            expected = sandwich(method, *copies, np.ones(len(copies[0])), T)
        assert se == pytest.approx(expected, rel=1e-3)
        calibrator = METHODS[method]().fit(sketch, counts=kind == "counts")
        assert calibrator.temperature_se_ == se
        assert np.log(calibrator.confidence_interval().high / T) == pytest.approx(1.959964 * se / T, rel=1e-6)


@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_a_sketch_knows_how_both_temperatures_vary_together(noise):
    logits, labels = reference.drawn(3000, 8)
    random = np.random.default_rng(5).random(3000) < noise
    labels[random] = np.arange(random.sum()) % 8
    matched = match(nishimori.Sketch().update(logits, labels), Confidence(), Energy())
    covariance = matched.covariance()
    moves = []
    for method, log_T in zip(("ec", "ts"), [-root.x for root in matched.roots], strict=True):
        up, down = (gaps(method, logits, labels, np.exp(log_T + step)).sum() for step in (1e-4, -1e-4))
        moves.append(gaps(method, logits, labels, np.exp(log_T)) / ((up - down) / 2e-4))
    difference = moves[0] - moves[1]
    found = covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1]
    assert found == pytest.approx(difference @ difference, rel=0.03)
    assert covariance[0, 1] == pytest.approx(moves[0] @ moves[1], rel=0.02)


def test_a_sketch_of_one_cluster_has_no_errors_and_one_of_few_warns():
    logits, labels = reference.drawn(1000, 5)
    sketch = nishimori.Sketch().update(logits, labels, clusters=np.zeros(1000))
    assert temperatures(sketch).ec_se is None
    calibrator = ExpectationConsistency().fit(sketch)
    assert calibrator.temperature_se_ is None
    with pytest.raises(InputError, match="needs the standard error of T, which is not known from a sketch of one cluster, nor"):
        calibrator.confidence_interval()
    for seed in (1, 2):
        sketch.update(*reference.drawn(1000, 5, seed=seed), clusters=np.zeros(1000))
    with pytest.warns(nishimori.errors.InputWarning, match="Standard errors from 3 clusters are too small on average") as told:
        assert temperatures(sketch).ec_se is not None
    assert [each.filename for each in told] == [__file__]  # a line of the user, and not of the library
    with pytest.raises(InputError, match="`counts` must be False where `clusters` is given"):
        temperatures(sketch, counts=True)


def test_a_file_keeps_the_error(tmp_path):
    calibrator = TemperatureScaling().fit(*reference.drawn(1000, 5))
    calibrator.save(tmp_path / "ts.json")
    loaded = nishimori.load(tmp_path / "ts.json")
    assert loaded.temperature_se_ == calibrator.temperature_se_ > 0
    assert loaded.confidence_interval() == calibrator.confidence_interval()


def test_a_temperature_that_does_not_exist_has_no_error():
    logits, labels = reference.drawn(1000, 5)
    logits[0, labels[0]] = -np.inf  # the loss is infinite at every T
    found = temperatures(logits, labels)
    assert found.ts is None
    assert found.ts_se is None
    assert found.ec_se > 0
