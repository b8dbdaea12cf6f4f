"""Arrays of Dask of which some rows do not count: ignored labels, shifted labels and weights of zero."""

import dask.array as da
import numpy as np
import pytest
import reference

import dask
import nishimori
from nishimori._rows.entry import open_rows
from nishimori.errors import InputError, InputWarning, NoRowsError

LOGITS, LABELS = reference.drawn(900, 5)


@pytest.fixture(autouse=True)
def synchronous():
    """Everything in this thread."""
    with dask.config.set(scheduler="synchronous"):
        yield


def in_chunks():
    return da.from_array(LOGITS, chunks=(200, 5))


def test_a_cluster_whose_only_labels_are_shifted_away_does_not_count():
    logits, labels = reference.drawn(40, 5)
    table, tokens = logits.reshape(8, 5, 5), labels.reshape(8, 5).copy()
    tokens[4:, 1:] = -100  # the label of the first token is that of no position
    clusters = np.repeat([0, 1], 4)
    for given in (table, da.from_array(table, chunks=(2, 5, 5))):
        with pytest.raises(InputError, match=r"^`clusters` must name at least two clusters, got one"):
            open_rows(given, tokens, clusters=clusters, ignore_index=-100, shift_labels=True)


def test_a_cluster_whose_labels_become_those_of_earlier_positions_counts():
    logits, labels = reference.drawn(40, 5)
    tokens = np.full((8, 5), -100)
    tokens[:, 4] = labels.reshape(8, 5)[:, 4]
    clusters = np.tile(np.arange(5), (8, 1))  # all labels are those of position 3 after the shift
    with pytest.raises(InputError, match=r"^`clusters` must name at least two clusters, got one"):
        open_rows(
            da.from_array(logits.reshape(8, 5, 5), chunks=(2, 5, 5)),
            tokens,
            clusters=clusters,
            ignore_index=-100,
            shift_labels=True,
        )
    with pytest.warns(InputWarning, match="^Standard errors from 8 clusters") as told:
        open_rows(
            da.from_array(logits.reshape(8, 5, 5), chunks=(2, 5, 5)),
            tokens,
            clusters=np.arange(8)[:, None] + 10 * (clusters == 4),
            ignore_index=-100,
            shift_labels=True,
        )
    assert [each.filename for each in told] == [__file__]


def test_a_sketch_is_unchanged_by_data_of_which_no_row_counts(tmp_path):
    padding = np.full(900, -100)
    np.save(tmp_path / "logits.npy", LOGITS)
    for logits in (LOGITS, in_chunks(), tmp_path / "logits.npy"):
        assert nishimori.Sketch().update(logits, padding, ignore_index=-100).n_samples == 0
        assert nishimori.Sketch().update(logits, LABELS, np.zeros(900)).n_samples == 0
    assert nishimori.Sketch().update([(LOGITS, padding)], ignore_index=-100).n_samples == 0
    tokens = nishimori.rows(
        da.from_array(LOGITS.reshape(9, 100, 5), chunks=(3, 100, 5)), padding.reshape(9, 100), ignore_index=-100
    )
    assert nishimori.Sketch().update(tokens).n_samples == 0
    with pytest.raises(NoRowsError):
        nishimori.Sketch().update(list)


def test_clusters_whose_rows_all_weigh_nothing_do_not_count_and_need_no_name():
    weights = np.where(np.arange(900) < 100, 0.0, 1.0)
    clusters = np.where(weights == 0, np.nan, np.arange(900) // 20)
    of_array, of_chunks = (open_rows(given, LABELS, weights, clusters=clusters) for given in (LOGITS, in_chunks()))
    assert of_array.clusters.number == of_chunks.clusters.number == 40
    found, expected = (nishimori.temperatures(rows) for rows in (of_chunks, of_array))
    assert found.ec_se == pytest.approx(expected.ec_se, rel=1e-9)


@pytest.mark.parametrize("clusters", [None, np.arange(900) // 9])
def test_labels_of_which_all_are_ignored_are_named(clusters):
    with pytest.raises(
        NoRowsError, match=r"^`labels` must hold at least one label that is not `ignore_index`, got only -100\.$"
    ):
        nishimori.temperatures(in_chunks(), np.full(900, -100), clusters=clusters, ignore_index=-100)
    with pytest.raises(NoRowsError, match=r"^The data must have at least one row of positive weight, got none\.$"):
        nishimori.temperatures(in_chunks(), LABELS, sample_weight=np.zeros(900), clusters=clusters)
