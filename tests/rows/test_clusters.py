"""Clusters of rows that are in files: the standard errors of the same rows in memory."""

import numpy as np
import pytest
import reference
from optional import zarr

import nishimori
from nishimori import bootstrap, temperatures
from nishimori.errors import FormatError, InputError

LOGITS, LABELS = reference.drawn(1200, 4)
RNG = np.random.default_rng(0)
CLUSTERS = RNG.integers(0, 80, 1200)
WEIGHTS = RNG.integers(0, 3, 1200).astype(float)
EXPECTED = temperatures(LOGITS, LABELS, sample_weight=WEIGHTS, clusters=CLUSTERS)
PLAIN = temperatures(LOGITS, LABELS, sample_weight=WEIGHTS)


def check(found):
    """The errors are those of clusters, which the data in memory have; without clusters they differ."""
    assert found.ec_se == pytest.approx(EXPECTED.ec_se, rel=1e-6)
    assert found.ts_se == pytest.approx(EXPECTED.ts_se, rel=1e-6)
    assert abs(PLAIN.ec_se / EXPECTED.ec_se - 1) > 0.01


@pytest.fixture
def arrays(tmp_path):
    for name, array in {"z": LOGITS, "y": LABELS, "w": WEIGHTS, "c": CLUSTERS}.items():
        np.save(tmp_path / f"{name}.npy", array)
    return tmp_path


def test_npy_files_and_memory_maps_have_clusters(arrays):
    paths = [arrays / f"{name}.npy" for name in "zywc"]
    check(temperatures(paths[0], LABELS, sample_weight=WEIGHTS, clusters=CLUSTERS))
    check(temperatures(str(paths[0]), str(paths[1]), sample_weight=str(paths[2]), clusters=str(paths[3])))
    mapped = np.load(paths[0], mmap_mode="r")
    check(temperatures(mapped, LABELS, sample_weight=WEIGHTS, clusters=CLUSTERS.astype(str)))
    check(temperatures(nishimori.rows(paths[0], LABELS, sample_weight=WEIGHTS, clusters=paths[3])))
    fitted = nishimori.TemperatureScaling().fit(mapped, LABELS, WEIGHTS, clusters=CLUSTERS)
    assert fitted.temperature_se_ == pytest.approx(EXPECTED.ts_se, rel=1e-4)


def test_arrays_in_chunks_have_clusters(tmp_path):
    stored = zarr.create_array(store=str(tmp_path / "z.zarr"), shape=LOGITS.shape, chunks=(100, 4), dtype=LOGITS.dtype)
    stored[:] = LOGITS
    check(temperatures(stored, LABELS, sample_weight=WEIGHTS, clusters=CLUSTERS))


def test_blocks_smaller_than_the_clusters_give_the_same_sums(arrays, monkeypatch):
    monkeypatch.setattr("nishimori._rows.stored_rows.rows_per_piece", lambda _: 37)
    check(temperatures(arrays / "z.npy", LABELS, sample_weight=WEIGHTS, clusters=CLUSTERS))
    resampled = bootstrap(arrays / "z.npy", LABELS, sample_weight=WEIGHTS, clusters=CLUSTERS, n_draws=10).temperatures
    whole = bootstrap(LOGITS, LABELS, sample_weight=WEIGHTS, clusters=CLUSTERS, n_draws=10).temperatures
    np.testing.assert_allclose(resampled, whole, rtol=1e-9)


def table(clusters=CLUSTERS):
    pandas = pytest.importorskip("pandas")
    made = pandas.DataFrame(LOGITS, columns=[f"z_{k}" for k in range(4)])
    return made.assign(labels=LABELS, weight=WEIGHTS, video=[f"video {each}" for each in clusters])


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl", "folder"])
def test_tables_have_a_column_of_clusters(tmp_path, ending):
    made, path = table(), tmp_path / f"t.{ending}"
    if ending == "csv":
        made.to_csv(path, index=False)
    elif ending == "jsonl":
        made.to_json(path, orient="records", lines=True, double_precision=15)
    else:
        pytest.importorskip("pyarrow")
        if ending == "folder":
            path.mkdir()
            made[500:].to_parquet(path / "b.parquet")
        made[: 500 if ending == "folder" else None].to_parquet(path / "a.parquet" if ending == "folder" else path)
    check(temperatures(path, "labels", sample_weight="weight", clusters="video"))
    check(temperatures(nishimori.rows(path, sample_weight="weight", clusters="video")))


def test_a_table_without_good_clusters_is_refused(tmp_path):
    path = tmp_path / "t.csv"
    made = table()
    made.to_csv(path, index=False)
    with pytest.raises(InputError, match=r"has no column .film., only .*. Name yours with `clusters`"):
        temperatures(path, sample_weight="weight", clusters="film")
    with pytest.raises(InputError, match=r"`clusters` must be the name of an array or column of .*t.csv, got a ndarray"):
        temperatures(path, clusters=CLUSTERS)
    made.loc[3, "video"] = ""
    made.to_csv(path, index=False)
    with pytest.raises(FormatError, match=r"t.csv, line 5, column 'video': a cluster is missing. Fill it in, or drop the row"):
        temperatures(path, sample_weight="weight", clusters="video")
    made.assign(video="one").to_csv(path, index=False)
    with pytest.raises(InputError, match="`clusters` must name at least two clusters, got one"):
        temperatures(path, sample_weight="weight", clusters="video")
    path = tmp_path / "t.jsonl"
    path.write_text('{"z_0": 1, "z_1": 0, "labels": 0, "video": {"a": 1}}\n')
    with pytest.raises(FormatError, match=r"column 'video': a cluster must be text or a number, got \{'a': 1\}"):
        temperatures(path, clusters="video")


def test_clusters_beside_batches_are_refused_and_the_message_says_where_they_belong():
    with pytest.raises(InputError, match=r"`logits` yields batches. Yield dictionaries .* Or add each batch to a Sketch, with"):
        temperatures(lambda: iter([(LOGITS, LABELS)]), clusters=CLUSTERS)
    with pytest.raises(InputError, match=r"`clusters` must be left out where `logits` is a Rows object\. Pass it when"):
        temperatures(nishimori.rows(lambda: iter([(LOGITS, LABELS)])), clusters=CLUSTERS)


def test_a_missing_cluster_is_named_by_its_row():
    pandas = pytest.importorskip("pandas")
    names = [f"video {each}" for each in CLUSTERS]
    for row in (0, 7):
        holes = [None if i == row else name for i, name in enumerate(names)]
        for clusters in (holes, np.array(holes, dtype=object), pandas.Series(holes, dtype=object)):
            message = rf"`clusters` must not be missing, got None in row {row}\. Give that row its cluster\."
            with pytest.raises(InputError, match=message):
                temperatures(LOGITS, LABELS, clusters=clusters)
    with pytest.raises(InputError, match=r"`clusters` must not be missing, got NaN in row 7\."):
        temperatures(LOGITS, LABELS, clusters=np.where(np.arange(1200) == 7, np.nan, CLUSTERS))
