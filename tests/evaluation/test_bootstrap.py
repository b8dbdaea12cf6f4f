"""The bootstrap: each resample against a fit to its weights, and its spread against the sandwich and against resampling."""

import itertools

import bundled
import numpy as np
import pytest
import reference
from scipy.stats import poisson

import nishimori
from nishimori import ExpectationConsistency, TemperatureScaling, bootstrap
from nishimori._sums.resampling import weights_of
from nishimori.errors import InputError

METHODS = {"ec": ExpectationConsistency, "ts": TemperatureScaling}


class Logit(nishimori.Observable):
    """The logit, whose match is temperature scaling."""

    def values(self, logits):
        return logits


def weights(n, n_draws, seed=0):
    """How often each of ``n`` rows is in each resample."""
    runs = [weights_of(run, np.arange(n_draws), seed) for run in range(-(-n // 512))]
    return np.concatenate(runs, axis=1)[:, :n]


def test_weights_are_those_of_poisson_and_differ_from_run_to_run():
    drawn = np.stack([weights_of(run, np.arange(200), 7) for run in range(8)])
    shares = np.bincount(drawn.astype(int).ravel(), minlength=12) / drawn.size
    np.testing.assert_allclose(shares, poisson.pmf(np.arange(len(shares)), 1), atol=4 * np.sqrt(0.25 / drawn.size))
    assert drawn.var() == pytest.approx(1, abs=0.01)
    correlations = np.corrcoef(drawn.reshape(8, -1))[~np.eye(8, dtype=bool)]
    assert np.abs(correlations).max() < 5 / np.sqrt(drawn[0].size)
    assert np.abs(np.corrcoef(drawn[0])[~np.eye(200, dtype=bool)]).max() < 6 / np.sqrt(512)
    assert (weights_of(3, [5, 1], 7) == drawn[3][[5, 1]]).all()
    assert (weights_of(3, [5, 1], 8) != drawn[3][[5, 1]]).any()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("method", "top_n"), [("ec", 1), ("ec", 2), ("ts", 1), (Logit(), 1)], ids=str)
def test_each_resample_has_the_temperature_of_its_weighted_rows(method, top_n, weighted):
    logits, labels = reference.drawn(700, 4)
    own = np.random.default_rng(1).uniform(0.2, 3, 700) if weighted else np.ones(700)
    found = bootstrap(logits, labels, method=method, top_n=top_n, n_draws=12, sample_weight=own if weighted else None, seed=3)
    fit = reference.ts_temperature if method != "ec" else reference.ec_temperature
    options = {"top_n": 2} if top_n == 2 else {}
    expected = [fit(logits, labels, own * each, **options) for each in weights(700, 12, seed=3)]
    np.testing.assert_allclose(found.temperatures, expected, rtol=1e-7)
    assert found.temperature == pytest.approx(fit(logits, labels, own, **options), rel=1e-8)
    assert found.n_without == 0


@pytest.mark.parametrize("method", ["ec", "ts"])
@pytest.mark.parametrize("name", ["cifar10/resnet20", "cifar100/vgg19", "drawn", "noisy"])
def test_the_spread_agrees_with_the_sandwich_from_a_thousand_samples_on(name, method):
    if "/" in name:
        held = bundled.network(name).validation
        logits, labels = held.logits[:1500], held.labels[:1500]
    else:
        logits, labels = reference.drawn(1000, 6)
        if name == "noisy":
            labels[:200] = np.arange(200) % 6
    found, fitted = bootstrap(logits, labels, method=method), METHODS[method]().fit(logits, labels)
    assert found.se == pytest.approx(fitted.temperature_se_, rel=0.1)
    assert found.interval() == pytest.approx(fitted.confidence_interval(), rel=0.2 * found.se / found.temperature)


def test_the_spread_is_that_of_rows_drawn_with_replacement_and_fitted_again():
    logits, labels = reference.drawn(300, 3)
    rng = np.random.default_rng(5)
    draws = (rng.integers(0, 300, 300) for _ in range(400))
    again = np.array([reference.ec_temperature(logits[rows], labels[rows]) for rows in draws])
    found = bootstrap(logits, labels)
    assert found.se / found.temperature == pytest.approx(np.log(again).std(), rel=0.12)  # three standard errors of 400 draws
    assert found.interval(0.8) == pytest.approx(np.quantile(again, [0.1, 0.9]), rel=0.05)


def test_neither_threads_nor_blocks_nor_the_number_of_draws_change_a_resample():
    logits, labels = reference.drawn(1300, 4)
    found = bootstrap(logits, labels, n_draws=40, n_jobs=1).temperatures
    assert (bootstrap(logits, labels, n_draws=40, n_jobs=3).temperatures == found).all()
    assert (bootstrap(logits, labels, n_draws=20, n_jobs=1).temperatures == found[:20]).all()
    assert (bootstrap(logits, labels, n_draws=40, seed=1).temperatures != found).all()
    cuts = [0, 5, 600, 601, 1300]
    pieces = [(logits[a:b], labels[a:b]) for a, b in itertools.pairwise(cuts)]
    blocks = bootstrap(nishimori.rows(lambda: iter(pieces), progress=False), n_draws=40).temperatures
    np.testing.assert_allclose(blocks, found, rtol=1e-9)


def test_clusters_are_resampled_as_a_whole():
    logits, labels = reference.drawn(240, 3)
    codes = np.random.default_rng(2).integers(0, 60, 240)
    found = bootstrap(logits, labels, clusters=np.char.add("video ", codes.astype(str)), n_draws=10)
    _, order = np.unique(codes.astype(str), return_inverse=True)
    expected = [reference.ec_temperature(logits, labels, each[order]) for each in weights(60, 10)]
    np.testing.assert_allclose(found.temperatures, expected, rtol=1e-7)


def test_the_spread_of_clusters_agrees_with_the_sandwich_of_clusters():
    logits, labels = (np.repeat(each, 3, axis=0) for each in reference.drawn(1000, 4))
    codes = np.repeat(np.arange(1000), 3)
    found, fitted = bootstrap(logits, labels, clusters=codes), ExpectationConsistency().fit(logits, labels, clusters=codes)
    assert found.se == pytest.approx(fitted.temperature_se_, rel=0.1)
    assert found.se > 1.5 * bootstrap(logits, labels).se


def test_resamples_without_a_temperature_are_counted_and_left_out():
    logits, labels = reference.drawn(200, 3, 1.0)
    wrong = np.flatnonzero(logits.argmax(axis=1) != labels)[2:]
    labels[wrong] = logits[wrong].argmax(axis=1)  # two wrong answers are left
    with pytest.warns(nishimori.errors.FewErrorsWarning):
        found = bootstrap(logits, labels, n_draws=500)
    drawn = weights(200, 500)
    has_wrong = (drawn * (logits.argmax(axis=1) != labels)).sum(axis=1) > 0
    assert found.n_without == (~has_wrong).sum() > 30
    expected = [reference.ec_temperature(logits, labels, each) for each in drawn[has_wrong][:20]]
    np.testing.assert_allclose(found.temperatures[:20], expected, rtol=1e-7)
    assert f"n_draws={500 - found.n_without}, n_without={found.n_without})" in repr(found)
    assert f"{found.n_without} further resamples had no solution." in str(found)


def test_temperatures_far_from_that_of_the_data_are_found():
    logits, labels = reference.drawn(60, 3, temperature=5.0)
    with pytest.warns(nishimori.errors.FewErrorsWarning, match="less than two standard errors above chance"):
        found = bootstrap(logits, labels, n_draws=150)
    expected = np.full(150, np.nan)
    for i, each in enumerate(weights(60, 150)):
        if reference.ec_gap(logits, labels, 1e9, each) < 0:  # accuracy is above chance
            expected[i] = reference.ec_temperature(logits, labels, each)
    exists = np.isfinite(expected)
    assert found.n_without == (~exists).sum() > 0
    np.testing.assert_allclose(found.temperatures, expected[exists], rtol=1e-6)
    assert found.temperatures.max() > 8 * found.temperature


def test_what_holds_the_rows_does_not_matter():
    torch = pytest.importorskip("torch")
    logits, labels = reference.drawn(600, 4)
    found = bootstrap(logits, labels, n_draws=20).temperatures
    p = reference.softmax(logits)
    np.testing.assert_allclose(
        bootstrap(p, labels, input="probabilities", floor=None, n_draws=20).temperatures, found, rtol=1e-7
    )
    np.testing.assert_allclose(bootstrap(torch.tensor(logits), labels, n_draws=20).temperatures, found, rtol=1e-7)
    masked = np.concatenate([logits, np.full((600, 1), -np.inf)], axis=1)
    np.testing.assert_allclose(bootstrap(masked, labels, n_draws=20).temperatures, found, rtol=1e-7)
    padded = np.concatenate([np.zeros((5, 4)), logits]), np.concatenate([np.zeros(5, int), labels])
    ignored = bootstrap(*padded, sample_weight=np.arange(605) >= 5, n_draws=20).temperatures
    np.testing.assert_allclose(ignored, found, rtol=1e-7)


def test_an_interval_holds_its_share_of_the_resamples():
    found = bootstrap(*reference.drawn(500, 3), n_draws=1000)
    for level in (0.5, 0.9):
        low, high = found.interval(level)
        assert np.mean((found.temperatures > low) & (found.temperatures < high)) == pytest.approx(level, abs=0.002)
    assert found.interval(1) == (found.temperatures.min(), found.temperatures.max())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_draws": 9}, "`n_draws` must be a whole number of at least 10, got 9"),
        ({"seed": -1}, "`seed` must be a whole number of at least 0, got -1"),
        ({"n_jobs": 0}, "`n_jobs` must be a whole number of at least 1, got 0"),
        ({"method": "tss"}, "The method must be one of .* got 'tss'. Did you mean 'ts'?"),
        ({"top_n": 5}, "`top_n` must be a whole number from 1 to 2, one less than the number of classes, got 5"),
        ({"method": "ts", "top_n": 2}, r"`top_n` must be 1 for the method 'ts': only 'ec' has it\."),
        ({"method": Logit(), "top_n": 3}, r"`top_n` must be 1 for the method .*: only 'ec' has it\."),
    ],
)
def test_bad_arguments_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        bootstrap(*reference.drawn(100, 3), **options)


class Halved(nishimori.Calibrator):
    """A calibrator that matches nothing."""

    def __init__(self, *, input="logits", classes=None, floor=None):
        self.input, self.classes, self.floor = input, classes, floor

    def fit(self, X, y=None, sample_weight=None):
        raise NotImplementedError


class OneScale(nishimori.calibrators.SeveralParameters):
    """Temperature scaling as a calibrator that is fitted again to each resample, with the inverse temperature by name."""

    def __init__(self, *, input="logits", classes=None, floor=None):
        self.input, self.classes, self.floor = input, classes, floor

    def start(self, n_classes, temperature):
        return {"scale": 1 / temperature}

    def map_for(self, parameters, n_classes):
        return nishimori.maps.Temperature(1 / parameters["scale"])


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_a_calibrator_is_fitted_again_to_each_resample(n_jobs):
    logits, labels = reference.drawn(700, 4)
    own = np.random.default_rng(1).uniform(0.2, 3, 700)
    found = bootstrap(logits, labels, method=OneScale(), n_draws=12, sample_weight=own, seed=3, n_jobs=n_jobs)
    expected = [1 / reference.ts_temperature(logits, labels, own * each) for each in weights(700, 12, seed=3)]
    np.testing.assert_allclose(found.draws["scale"], expected, rtol=1e-7)
    assert found.parameters["scale"] == pytest.approx(1 / reference.ts_temperature(logits, labels, own), rel=1e-8)
    assert (found.temperature, found.temperatures, found.se, found.n_without) == (None, None, None, 0)
    assert found.errors["scale"] == pytest.approx(np.std(expected, ddof=1), rel=1e-6)
    assert found.interval(0.8, "scale") == pytest.approx(np.quantile(expected, [0.1, 0.9]), rel=1e-6)
    assert repr(found) == "Bootstrap(parameters=('scale',), n_draws=12)"


def test_clusters_are_resampled_as_a_whole_where_a_calibrator_is_fitted_again():
    logits, labels = reference.drawn(240, 3)
    codes = np.random.default_rng(2).integers(0, 60, 240)
    found = bootstrap(logits, labels, method=OneScale(), clusters=codes, n_draws=10)
    _, order = np.unique(codes, return_inverse=True)
    expected = [1 / reference.ts_temperature(logits, labels, each[order]) for each in weights(60, 10)]
    np.testing.assert_allclose(found.draws["scale"], expected, rtol=1e-7)


def test_copies_of_a_row_are_samples_of_their_own():
    logits, labels = reference.drawn(500, 4)
    times = weights(500, 10)[4].astype(int)
    found = bootstrap(logits, labels, method="adaptive", n_draws=10).temperatures[4]
    copies = nishimori.AdaptiveConsistency().fit(np.repeat(logits, times, axis=0), np.repeat(labels, times))
    assert found == pytest.approx(copies.temperature_, rel=1e-7)
    codes = np.arange(500) // 2
    times = weights(250, 10)[4].astype(int)
    rows = np.concatenate([np.flatnonzero(codes == c) for c in np.repeat(np.arange(250), times)])
    found = bootstrap(logits, labels, method="adaptive", clusters=codes, n_draws=10).temperatures[4]
    copies = nishimori.AdaptiveConsistency().fit(logits[rows], labels[rows], clusters=np.arange(len(rows)) // 2)
    assert found == pytest.approx(copies.temperature_, rel=1e-7)


@pytest.mark.parametrize("method", ["vector", "group", "bias", "dirichlet"])
def test_any_method_can_be_resampled(method):
    logits, labels = reference.drawn(400, 3)
    found = bootstrap(logits, labels, method=method, n_draws=10)
    assert found.n_draws == 10
    for name in found.parameters:
        assert found.draws[name].shape == (10, *np.shape(found.parameters[name]))
        assert np.shape(found.interval(0.5, name).low) == np.shape(found.parameters[name])


def test_a_method_with_other_parameters_in_each_resample_is_refused():
    logits, labels = reference.drawn(300, 3)
    with pytest.raises(InputError, match=r"^`method` must have a map whose"):
        bootstrap(logits, labels, method="isotonic", n_draws=10)
    with pytest.raises(InputError, match=r"^`parameter` must be one of temperature, got 'scale'"):
        bootstrap(logits, labels).interval(0.9, "scale")


def test_a_sketch_has_no_rows_to_resample():
    sketch = nishimori.Sketch().update(*reference.drawn(100, 3))
    with pytest.raises(InputError, match=r"^A Sketch has no rows to resample"):
        bootstrap(sketch)


def test_a_level_beyond_one_is_refused():
    with pytest.raises(InputError, match="`level` must lie between 0 and 1, got 95"):
        bootstrap(*reference.drawn(100, 3), n_draws=10).interval(95)


def test_rows_whose_weights_are_counts_are_refused():
    data = nishimori.rows(*reference.drawn(200, 3), sample_weight=np.full(200, 2.0), counts=True)
    with pytest.raises(InputError, match=r"^`logits` must not be rows with weights that are counts: resamples are drawn from"):
        bootstrap(data, n_draws=20)


def _with_zeros():
    """Probabilities of 20 neighbours of three classes, of which some true ones are 0."""
    rng = np.random.default_rng(0)
    p = rng.dirichlet([2.0, 1.0, 0.5], size=800)
    labels = (rng.random((800, 1)) > p.cumsum(axis=1)).sum(axis=1)
    counts = np.stack([rng.multinomial(20, each) for each in p])
    assert ((counts / 20)[np.arange(800), labels] == 0).any()
    return counts / 20, labels


@pytest.mark.parametrize("method", ["ec", "ts", "bias"])
def test_the_floor_is_chosen_once_from_the_data_as_by_a_fit(method):
    p, labels = _with_zeros()
    floor = nishimori.temperatures(p, labels, input="probabilities").floor
    asked = [{}, {"floor": "auto"}, {"floor": floor}]
    found = [bootstrap(p, labels, method=method, input="probabilities", n_draws=10, **each) for each in asked]
    fitted = nishimori.calibrator(method, input="probabilities").fit(p, labels)
    expected = {"temperature": fitted.temperature_} if method != "bias" else fitted.map_.parameters
    for each in found:
        for name, value in each.parameters.items():
            np.testing.assert_allclose(value, expected[name], rtol=1e-6)
            np.testing.assert_array_equal(each.draws[name], found[-1].draws[name])
    raised = bootstrap(np.log(np.maximum(p, floor)), labels, method=method, n_draws=10)
    for name, value in raised.draws.items():
        np.testing.assert_allclose(found[0].draws[name], value, rtol=1e-6)


@pytest.mark.filterwarnings("ignore::nishimori.errors.InputWarning")
@pytest.mark.parametrize("method", ["ts", "bias"])
@pytest.mark.parametrize("floor", [0.02, None])
def test_the_floor_of_a_calibrator_holds(method, floor):
    p, labels = _with_zeros()
    own = nishimori.calibrator(method, input="probabilities", floor=floor)
    found = bootstrap(p, labels, method=own, n_draws=10)
    said = bootstrap(p, labels, method=method, input="probabilities", floor=floor, n_draws=10)
    for name, value in found.draws.items():
        np.testing.assert_array_equal(value, said.draws[name])
    other = bootstrap(p, labels, method=method, input="probabilities", n_draws=10)
    assert any(not np.array_equal(value, other.draws[name]) for name, value in found.draws.items())
    if floor is not None:
        with pytest.raises(InputError, match="passed once"):
            bootstrap(p, labels, method=own, floor=0.01)
