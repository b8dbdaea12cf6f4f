"""A Dask cluster of two processes: a worker that dies, workers smaller than the data, and what is moved between them."""

import os
import pickle
import signal
import sys

import cloudpickle
import dask.array as da
import numpy as np
import pytest
import reference
from distributed import Client, LocalCluster

import dask
import nishimori
from nishimori.errors import InputError

N_CHUNKS, ROWS, CLASSES = 16, 520, 8
LIMIT = 220_000_000  # bytes of a worker, of which Python and the libraries take about 100 MB


@pytest.fixture(scope="module")
def client():
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import the tests
    memory = {f"distributed.worker.memory.{name}": False for name in ("target", "spill", "pause")}
    with (
        pytest.MonkeyPatch.context() as patch,
        dask.config.set({**memory, "distributed.worker.memory.terminate": 0.98}),
    ):
        patch.setenv("NISHIMORI_KERNEL", "numpy")  # to compile the other one takes longer than all tests here
        with (
            LocalCluster(
                n_workers=2, processes=True, threads_per_worker=1, dashboard_address=":0", memory_limit=LIMIT
            ) as cluster,
            Client(cluster) as found,
        ):
            yield found
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


def drawn(number, classes=CLASSES):
    """The rows of one chunk."""
    rng = np.random.default_rng(number)
    logits = 3 * rng.normal(size=(ROWS, classes))
    return logits, (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)


def made(make, n_chunks=N_CHUNKS, rows=ROWS, classes=CLASSES, dtype=float):
    """Logits of which each chunk is made by a task, from its number."""
    numbers = da.from_array(np.arange(n_chunks), chunks=1)
    return numbers.map_blocks(
        lambda block: make(int(block[0])),
        chunks=((rows,) * n_chunks, (classes,)),
        new_axis=1,
        dtype=dtype,
        meta=np.empty((0, 0)),
    )


LABELS = np.concatenate([drawn(number)[1] for number in range(N_CHUNKS)])


def test_a_worker_killed_in_mid_fit_leaves_the_digits_unchanged(client, tmp_path):
    log = tmp_path / "chunks"

    def deadly(number):
        with log.open("a") as file:
            file.write(f"{number} {os.getpid()}\n")
        seen = [int(line.split()[0]) for line in log.read_text().splitlines()]
        if number == 9 and seen.count(9) == 2:  # in the second reading at the latest
            os.kill(os.getpid(), signal.SIGKILL)
        return drawn(number)[0]

    clusters = np.arange(len(LABELS)) // 10  # whose sums take a reading of their own
    calm = nishimori.temperatures(made(lambda number: drawn(number)[0]), LABELS, clusters=clusters)
    disturbed = nishimori.temperatures(made(deadly), LABELS, clusters=clusters)
    assert disturbed == calm
    logits = np.concatenate([drawn(number)[0] for number in range(N_CHUNKS)])
    assert calm.ec == pytest.approx(reference.ec_temperature(logits, LABELS), rel=1e-8)
    lines = [line.split() for line in log.read_text().splitlines()]
    numbers, processes = [int(number) for number, _ in lines], [process for _, process in lines]
    killed = [place for place, number in enumerate(numbers) if number == 9][1]
    assert len(set(processes[:killed])) == 2  # both have worked before
    assert len(numbers) - killed > 5  # there was more to do, which others have done
    assert processes[killed] not in processes[killed + 1 :]


def test_a_worker_killed_in_the_first_reading_of_many_classes_leaves_the_digits_unchanged(client, tmp_path):
    log = tmp_path / "chunks"

    def deadly(number):
        with log.open("a") as file:
            file.write(f"{number}\n")
        seen = log.read_text().split()
        if len(set(seen)) == N_CHUNKS and seen.count(str(number)) == 1:  # the chunk that no other task has needed before
            os.kill(os.getpid(), signal.SIGKILL)
        return drawn(number, 40)[0]

    logits, labels = map(np.concatenate, zip(*(drawn(number, 40) for number in range(N_CHUNKS)), strict=True))
    calm = nishimori.temperatures(made(lambda number: drawn(number, 40)[0], classes=40), labels)
    assert nishimori.temperatures(made(deadly, classes=40), labels) == calm
    assert calm.n_passes <= 2
    assert calm.ec == pytest.approx(reference.ec_temperature(logits, labels), rel=1e-8)
    assert calm.ts == pytest.approx(reference.ts_temperature(logits, labels), rel=1e-8)
    assert len(log.read_text().split()) > N_CHUNKS + N_CHUNKS / 4  # more than the sample and one reading


def test_data_four_times_as_large_as_all_workers_fit_through_them(client):
    rng = np.random.default_rng(1)
    few = 3 * rng.normal(size=(500, 40))
    labels = (few / 2 + rng.gumbel(size=few.shape)).argmax(axis=1)
    n_chunks, copies = 112, 100
    logits = made(lambda number: np.tile(few, (copies, 1)), n_chunks, 500 * copies, 40)  # 16 MB each
    assert logits.nbytes > 4 * 2 * LIMIT
    numbers = da.from_array(np.arange(n_chunks), chunks=1)
    sizes = ((500 * copies,) * n_chunks,)
    # Seven chunks of eight are padding, whose logits take memory and little time.
    padding = np.full(500, -100)
    theirs = numbers.map_blocks(
        lambda block: np.tile(padding if block[0] % 8 else labels, copies), chunks=sizes, dtype=int, meta=np.empty(0, int)
    )
    client.wait_for_workers(2)  # one may have been killed before
    before = client.run(os.getpid)
    found = nishimori.temperatures(logits, theirs, ignore_index=-100)
    assert client.run(os.getpid) == before  # none was ended for the memory that it took
    assert found.n_samples == 500 * copies * n_chunks // 8
    assert found.ec == pytest.approx(reference.ec_temperature(few, labels), rel=1e-8)
    assert found.ts == pytest.approx(reference.ts_temperature(few, labels), rel=1e-8)


def test_a_chunk_with_nan_is_named(client):
    def broken(number):
        logits = drawn(number)[0]
        if number in (7, 13):
            logits[17, 3] = np.nan
        return logits

    message = r"^Chunk 7 \(rows 3640 to 4159\): `logits` must not contain NaN or \+inf, got nan in row 3657, column 3\."
    with pytest.raises(InputError, match=message):
        nishimori.metrics.nll(made(broken), LABELS)


def test_only_sums_reach_the_client(client, monkeypatch):
    moved = []
    gather = Client.gather

    def noted(self, *args, **kwargs):
        found = gather(self, *args, **kwargs)
        moved.append(len(pickle.dumps(found)))
        return found

    monkeypatch.setattr(Client, "gather", noted)
    found = nishimori.temperatures(made(lambda number: drawn(number)[0].astype(np.float32), dtype=np.float32), LABELS)
    assert found.n_passes < len(moved) < 20
    assert max(moved) < 5000  # bytes, of 0.25 MB
    clusters = np.arange(len(LABELS)) // 100
    nishimori.temperatures(made(lambda number: drawn(number)[0]), LABELS, clusters=clusters)
    assert max(moved) < 10_000  # the names of 84 clusters, and a few sums for each of them
