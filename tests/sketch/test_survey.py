"""What a sketch keeps: sums over rows and over clusters, compared with the definitions."""

import numpy as np
import pytest
import reference
from host_kernels import HOST

from nishimori import Sketch
from nishimori._kernels import native
from nishimori._sketch import survey

N = 900
LOGITS, LABELS = reference.drawn(N, 4)
WEIGHTS = np.random.default_rng(1).uniform(0.5, 2.0, N)
CLUSTERS = np.random.default_rng(2).integers(0, 60, N)
BETAS = 2.0 ** (np.arange(-18, 19) / 4)
NODES = [0, 7, 18, 25, 36]
ROWS = np.arange(N)


def gaps(beta):
    """Confidence minus right, and mean logit minus the true one, for each row."""
    p = reference.softmax(LOGITS, 1 / beta)
    z = LOGITS - LOGITS.max(axis=1, keepdims=True)
    return p.max(axis=1) - (LOGITS.argmax(axis=1) == LABELS), (p * z).sum(axis=1) - z[ROWS, LABELS]


def arrays(sketch):
    shapes = {
        "moments": (2, 4, 39),
        "products": (3, 2, 39),
        "crossed": (1, 2, 8, 37),
        "curves": (3, 2, 37),
        "bins": (5, 37, 15),
    }
    return {name: array.reshape(shapes.get(name, -1)) for name, array in sketch.state.items()}


@pytest.fixture(autouse=True, params=HOST)
def kernel(request, monkeypatch):
    """One adds up over rows by itself, and the other leaves that to NumPy."""
    monkeypatch.setenv("NISHIMORI_KERNEL", request.param)


@pytest.fixture(params=["one block", "many blocks"])
def blocks(request, monkeypatch):
    if request.param == "many blocks":
        monkeypatch.setattr(native, "_BLOCK", 64)
        monkeypatch.setattr(survey, "_ROWS", 16)


@pytest.mark.parametrize("node", NODES)
def test_gaps_slopes_and_curvatures_are_summed_at_each_node(node):
    held = arrays(Sketch().update(LOGITS, LABELS, WEIGHTS))
    beta, step = BETAS[node], 1e-4 * BETAS[node]
    below, here, above = (np.array([WEIGHTS @ gap for gap in gaps(b)]) for b in (beta - step, beta, beta + step))
    value, _, slope, curvature = held["moments"][:, :, 1 + node].T
    np.testing.assert_allclose(value, here, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(slope, (above - below) / (2 * step), rtol=1e-5)
    np.testing.assert_allclose(curvature, (above - 2 * here + below) / step**2, rtol=1e-3, atol=1e-3 / beta**2)


def test_both_ends_are_uniform_and_at_the_maximum():
    held = arrays(Sketch().update(LOGITS, LABELS))
    right = (LOGITS.argmax(axis=1) == LABELS).sum()
    np.testing.assert_allclose(held["moments"][0, 0, [0, -1]], [N / 4 - right, N - right])
    z = LOGITS - LOGITS.max(axis=1, keepdims=True)
    np.testing.assert_allclose(
        held["moments"][1, 0, [0, -1]], [(z.mean(axis=1) - z[ROWS, LABELS]).sum(), -z[ROWS, LABELS].sum()]
    )


@pytest.mark.usefixtures("blocks")
def test_products_of_gaps_have_weights_and_squared_weights():
    held = arrays(Sketch().update(LOGITS, LABELS, WEIGHTS))
    assert held["weights"] == pytest.approx([WEIGHTS.sum(), (WEIGHTS**2).sum(), N])
    for node in NODES:
        ec, ts = gaps(BETAS[node])
        wanted = [[w @ (a * b) for w in (WEIGHTS, WEIGHTS**2)] for a, b in ((ec, ec), (ec, ts), (ts, ts))]
        np.testing.assert_allclose(held["products"][:, :, 1 + node], wanted, rtol=1e-9)


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("clusters", [None, CLUSTERS], ids=["rows", "clusters"])
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["ones", "weights"])
def test_products_of_gaps_at_different_nodes_have_weights_and_squared_weights(clusters, weights):
    held = arrays(Sketch().update(LOGITS, LABELS, weights, clusters))["crossed"]
    w = np.ones(N) if weights is None else weights
    codes = ROWS if clusters is None else clusters
    groups = np.array([codes == each for each in np.unique(codes)], dtype=float)
    for place, offset in enumerate((-4, -3, -2, -1, 1, 2, 3, 4)):
        for node in NODES:
            wanted = [0.0, 0.0]
            if 0 <= node + offset < len(BETAS):
                ec, ts = gaps(BETAS[node])[0], gaps(BETAS[node + offset])[1]
                wanted = [w @ (ec * ts), (groups @ (w * ec)) @ (groups @ (w * ts))]
            np.testing.assert_allclose(held[0, :, place, node], wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("names", ["numbers in any order", "numbers in order", "text"])
def test_the_squared_sum_of_a_cluster_replaces_the_squares_of_its_rows(names):
    clusters = {"text": CLUSTERS.astype(str), "numbers in order": np.sort(CLUSTERS)}.get(names, CLUSTERS)
    held = arrays(Sketch().update(LOGITS, LABELS, WEIGHTS, clusters))
    groups = [clusters == each for each in np.unique(clusters)]
    squares = sum(WEIGHTS[group].sum() ** 2 for group in groups)
    assert held["weights"] == pytest.approx([WEIGHTS.sum(), squares, len(groups)])
    for node in NODES:
        ec, ts = gaps(BETAS[node])
        for pair, (a, b) in enumerate(((ec, ec), (ec, ts), (ts, ts))):
            wanted = sum((WEIGHTS * a)[group].sum() * (WEIGHTS * b)[group].sum() for group in groups)
            assert held["products"][pair, 0, 1 + node] == pytest.approx(WEIGHTS @ (a * b), rel=1e-9)
            assert held["products"][pair, 1, 1 + node] == pytest.approx(wanted, rel=1e-9, abs=1e-9)


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("clusters", [None, CLUSTERS], ids=["rows", "clusters"])
def test_bins_hold_weight_confidence_correct_and_squares(clusters):
    held = arrays(Sketch().update(LOGITS, LABELS, WEIGHTS, clusters))
    codes = ROWS if clusters is None else clusters
    for node in NODES:
        confidence = reference.softmax(LOGITS, 1 / BETAS[node]).max(axis=1)
        right = LOGITS.argmax(axis=1) == LABELS
        bins = np.clip(np.ceil(confidence * 15 - 1e-12).astype(int) - 1, 0, 14)
        for number in range(15):
            inside = bins == number
            w, c, y = WEIGHTS[inside], confidence[inside], right[inside]
            groups = [codes[inside] == each for each in np.unique(codes[inside])]
            squares = sum(w[g].sum() ** 2 for g in groups), sum((w * (c - y))[g].sum() ** 2 for g in groups)
            wanted = [w.sum(), w @ c, w @ y, *squares]
            np.testing.assert_allclose(held["bins"][:, node, number], wanted, rtol=1e-9, atol=1e-10)


def test_clusters_do_not_change_what_is_fitted_or_measured():
    plain, grouped = (Sketch().update(LOGITS, LABELS, WEIGHTS, clusters) for clusters in (None, CLUSTERS))
    for name in ("counts", "observed", "moments", "curves"):
        np.testing.assert_allclose(grouped.state[name], plain.state[name], rtol=1e-12, atol=1e-9)


def test_clusters_of_rows_without_weight_do_not_count():
    weights = np.where(CLUSTERS < 20, 0.0, WEIGHTS)
    held = arrays(Sketch().update(LOGITS, LABELS, weights, CLUSTERS))
    assert held["weights"][2] == len(np.unique(CLUSTERS[CLUSTERS >= 20]))


def test_the_loss_of_sure_rows_keeps_its_digits():
    held = arrays(Sketch().update(np.array([[0.0, -60.0], [0.0, -50.0]]), [0, 0]))
    assert held["curves"][2, 0, 18] == pytest.approx(np.exp(-60.0) + np.exp(-50.0), rel=1e-12, abs=0)


@pytest.mark.parametrize("node", NODES)
def test_the_slopes_of_the_metrics_are_their_derivatives(node):
    held = arrays(Sketch().update(LOGITS, LABELS, WEIGHTS))
    step = 1e-4 * BETAS[node]

    def metrics(beta):
        T, w = 1 / beta, WEIGHTS
        confidence = reference.softmax(LOGITS, T).max(axis=1)
        losses = (each(LOGITS, LABELS, T, w) for each in (reference.brier, reference.nll))
        return np.array([np.average(confidence, weights=w), *losses]) * w.sum()

    np.testing.assert_allclose(held["curves"][:, 0, node], metrics(BETAS[node]), rtol=1e-9)
    slopes = (metrics(BETAS[node] + step) - metrics(BETAS[node] - step)) / (2 * step)
    np.testing.assert_allclose(held["curves"][:, 1, node], slopes, rtol=1e-4)


def test_rows_of_weight_zero_may_hold_anything():
    weights = np.where(CLUSTERS < 20, 0.0, WEIGHTS)
    spoiled = np.where(weights[:, None] > 0, LOGITS, np.nan)
    kept = weights > 0
    found = Sketch().update(spoiled, LABELS, weights).state
    same = Sketch().update(LOGITS[kept], LABELS[kept], weights[kept]).state
    for name, sums in found.items():
        np.testing.assert_allclose(sums, same[name], rtol=1e-11, atol=1e-9)
