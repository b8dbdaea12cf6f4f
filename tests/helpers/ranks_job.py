"""One rank of a job of two real processes: `python ranks_job.py RANK FOLDER PORT` writes what it found to FOLDER/RANK.json.

Rank 0 has the first rows of each data set and rank 1 the last ones. Floats are written by `float.hex`, so that all bits count.
"""

import json
import os
import runpy
import sys
import warnings
from datetime import timedelta
from pathlib import Path

import numpy as np
import reference
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import nishimori
from nishimori._rows.entry import open_rows
from nishimori.torch import _ranks, across_ranks, calibrate, reduced

SMALL = reference.drawn(900, 5)
MANY_CLASSES = tuple(np.asarray(each, kind) for each, kind in zip(reference.drawn(3000, 40), (np.float32, int), strict=True))
WEIGHTS = np.random.default_rng(1).uniform(0.5, 2.0, 900)
DOCUMENTS = np.array([f"document {i}" for i in np.random.default_rng(2).integers(0, 60, 900)])
SITES = np.array(["a", "b", "c"])[np.arange(900) // 300]  # rank 1 has only "c"
TEMPERATURE = 1.3


def cut(n):
    """How many rows rank 0 has: most of them."""
    return n * 7 // 9


def own(rank, *arrays):
    """The part of each array that is on this rank."""
    return tuple(each[: cut(len(each))] if rank == 0 else each[cut(len(each)) :] for each in arrays)


def images(rank):
    """The same rows as images of 4 by 5 pixels, with the classes second: 35 on rank 0, and 10 on rank 1."""
    logits, labels = own(rank, *SMALL)
    return np.ascontiguousarray(np.moveaxis(logits.reshape(-1, 4, 5, 5), -1, 1)), labels.reshape(-1, 4, 5)


def bits(found):
    """Both temperatures and their errors."""
    return [float(each).hex() for each in (found.ec, found.ts, found.ec_se, found.ts_se)]


def batches(rank, change=lambda number, logits, labels: (logits, labels), n=None):
    """A function that yields batches of 20 rows: 35 on rank 0, and 10 on rank 1."""
    logits, labels = own(rank, *SMALL)

    def made():
        for number, start in enumerate(range(0, len(labels), 20)):
            if n is None or number < n:
                yield change(number, logits[start : start + 20].copy(), labels[start : start + 20].copy())

    return made


def refused(call):
    """The error of a call: its type, its text, and the type of its cause."""
    try:
        call()
    except nishimori.errors.NishimoriError as error:
        return [type(error).__name__, str(error), type(error.__cause__).__name__]
    return None


def fits(rank):
    """What is found with rows of all kinds on both ranks."""
    mine = own(rank, *SMALL)
    rows, loader = across_ranks(*mine), across_ranks(batches(rank))
    tensors = across_ranks(*map(torch.tensor, own(rank, *MANY_CLASSES)))
    found = nishimori.temperatures(tensors)
    card = nishimori.evaluate(rows, temperature=TEMPERATURE)
    _ranks._AT_ONCE, before = 0, _ranks._AT_ONCE
    one_by_one = nishimori.temperatures(across_ranks(*mine))
    _ranks._AT_ONCE = before
    weighted = across_ranks(*mine, sample_weight=own(rank, WEIGHTS)[0])
    shifted = nishimori.calibrator("ts").fit(loader).with_prevalence(np.full(5, 0.2))
    return {
        "arrays": bits(nishimori.temperatures(rows)),
        "one_by_one": bits(one_by_one),
        "loader": bits(nishimori.temperatures(loader)),
        "n_rows": [rows.n_rows, loader.n_rows, tensors.n_rows, across_ranks(batches(rank)).n_rows],
        "many_classes": bits(found),
        "n_passes": found.n_passes,
        "weights": bits(nishimori.temperatures(weighted)),
        "card": {name: getattr(card, name).hex() for name in ("accuracy", "confidence", "ece", "brier", "nll")},
        "quantiles": nishimori.metrics.ece(rows, temperature=TEMPERATURE, strategy="quantile").hex(),
        "class_prior": [each.hex() for each in nishimori.calibrator("ts").fit(weighted).class_prior_.tolist()],
        "shifted": [each.hex() for each in shifted.map_.bias.tolist()],
        "vector": [each.hex() for each in nishimori.calibrator("vector").fit(rows).map_.scale.tolist()],
    }


def parts(rank):
    """Rows that belong together, and groups; a document is on both ranks."""
    mine = own(rank, *SMALL)
    rows = across_ranks(*mine, clusters=own(rank, DOCUMENTS)[0])
    one_here = np.where(np.arange(len(mine[1])) < (400 if rank == 0 else 0), np.arange(len(mine[1])), 1000)
    sites = across_ranks(*mine, groups=own(rank, SITES)[0])
    gaps = nishimori.group_gaps(sites, by="groups")
    group = dist.new_group([1])
    shares = np.exp(mine[0]) / np.exp(mine[0]).sum(axis=1, keepdims=True)
    below = np.where(rank == 1, mine[0], shares)
    sketch = nishimori.Sketch().update(shares, mine[1])
    return {
        "between_0_and_1": [
            refused(lambda: nishimori.temperatures(across_ranks(shares, mine[1]))),
            refused(lambda: nishimori.temperatures(across_ranks(lambda: [(shares, mine[1])]))),
            refused(lambda: nishimori.temperatures(reduced(sketch))),
        ],
        "negative_on_rank_1": bits(nishimori.temperatures(across_ranks(below, mine[1]))),
        "documents": bits(nishimori.temperatures(rows)),
        "images": bits(nishimori.temperatures(across_ranks(*images(rank), class_axis=1))),
        "images_in_words": str(nishimori.temperatures(across_ranks(*images(rank), class_axis=1))),
        "pixels": bits(nishimori.temperatures(across_ranks(*images(rank), class_axis=1, clusters=False))),
        "one_cluster_here": bits(nishimori.temperatures(across_ranks(*mine, clusters=one_here))),
        "sites": {each.name: each.gap.hex() for each in gaps},
        "site_temperatures": nishimori.GroupConsistency(by="groups").fit(sites).map_.groups,
        "rank_1": None if rank == 0 else bits(nishimori.temperatures(across_ranks(*mine, group=group))),
        "not_in_group": refused(lambda: across_ranks(*mine, group=group)) if rank == 0 else None,
    }


def without_rows(rank):
    """Temperatures where rank 1 has nothing to add, in every way in which that can be."""
    logits, labels = own(0, *SMALL)
    zeros = np.zeros(len(labels))
    nothing = {
        "none": ((), {}),
        "empty": ((logits[:0], labels[:0]), {}),
        "weights": ((logits, labels), {"sample_weight": zeros}),
        "ignored": ((logits, np.full(len(labels), -100)), {"ignore_index": -100}),
        "no_batches": ((list,), {}),
        "batches_of_weight_zero": ((lambda: [(logits, labels, zeros)],), {}),
    }
    found = {}
    for name, (arguments, options) in nothing.items():
        rows = across_ranks(logits, labels) if rank == 0 else across_ranks(*arguments, **options)
        found[name] = bits(nishimori.temperatures(rows))
    found["nowhere"] = refused(across_ranks)
    return found


def sketches(rank):
    mine = own(rank, *SMALL)
    sketch = nishimori.Sketch()
    if rank == 0:
        sketch.update(*mine)
    some = reduced(sketch)
    sketch = sketch.update(*mine) if rank else sketch
    total = reduced(sketch)
    other = nishimori.Sketch(temperatures=(0.1, 10)) if rank else nishimori.Sketch()
    fewer = nishimori.Sketch().update(*(mine if rank == 0 else reference.drawn(50, 3)))
    return {
        "n_samples": [sketch.n_samples, some.n_samples, total.n_samples],
        "total": bits(nishimori.temperatures(total)),
        "updated": bits(nishimori.temperatures(nishimori.Sketch().update(across_ranks(*mine)))),
        "parts": [each.hex() for each in total._parts.ids],
        "own_part": [each.hex() for each in sketch._end_part().ids],
        "state": [each.hex() for each in np.concatenate(list(total.state.values())).tolist()],
        "other_range": refused(lambda: reduced(other)),
        "other_classes": refused(lambda: reduced(fewer)),
    }


class Strict(torch.nn.Module):
    """Returns its input, unless some entry is negative zero."""

    def forward(self, x):
        if (torch.signbit(x) & (x == 0)).any():
            raise RuntimeError("no kernel for this input")
        return x


class Interrupted(torch.nn.Module):
    """As if the user pressed Ctrl-C on this rank."""

    def forward(self, x):
        raise KeyboardInterrupt


def interrupted(call):
    """The error of a call that is interrupted on one rank."""
    try:
        return refused(call)
    except KeyboardInterrupt:
        return "KeyboardInterrupt"


def three(model, batch):
    return {"logits": model(batch["x"]), "labels": batch["y"], "clusters": batch["clusters"]}


def alone(call):
    """What a call finds that uses the samples of one rank, and what it warns of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = bits(call().temperatures)
    return found, [str(each.message) for each in caught]


def networks(rank):
    """`calibrate` with a copy of the network on each rank."""
    logits, labels = map(torch.tensor, own(rank, *SMALL))
    loader = [(logits[i : i + 50], labels[i : i + 50]) for i in range(0, len(labels), 50)]
    broken = [*loader[:2], (torch.full((3, 5), -0.0), labels[:3])] if rank else loader
    ignored = [(logits, torch.full_like(labels, -100))]
    names = own(rank, DOCUMENTS)[0]
    documents = [{"x": logits, "y": labels, "clusters": names}]
    sorted_ = [{"x": logits, "y": labels, "clusters": names + f" of rank {rank}"}]
    identity, pixels = torch.nn.Identity(), [tuple(map(torch.tensor, images(rank)))]
    return {
        method: float(calibrate(identity, loader, method=method, across_ranks=True).temperature).hex()
        for method in ("adaptive", "ec", "ts")
    } | {
        "found": bits(calibrate(identity, loader, across_ranks=True).temperatures),
        "empty_loader": bits(calibrate(identity, loader if rank == 0 else [], across_ranks=True).temperatures),
        "sketched": bits(
            calibrate(identity, loader, keep_up_to=20_000, across_ranks=True).temperatures
        ),  # only rank 0 has more
        "documents": bits(calibrate(identity, documents, forward=three, across_ranks=True).temperatures),
        "sketched_documents": bits(
            calibrate(identity, sorted_, forward=three, keep_up_to=20_000, across_ranks=True).temperatures
        ),
        "ignored": bits(calibrate(identity, loader if rank == 0 else ignored, across_ranks=True).temperatures),
        "images": bits(calibrate(identity, pixels, class_axis=1, across_ranks=True).temperatures),
        "sketched_images": bits(calibrate(identity, pixels, class_axis=1, keep_up_to=0, across_ranks=True).temperatures),
        "images_in_words": str(calibrate(identity, pixels, class_axis=1, across_ranks=True).temperatures),
        "alone": alone(lambda: calibrate(identity, loader)),
        "wrapped": refused(
            lambda: calibrate(DistributedDataParallel(torch.nn.Linear(5, 5).double()), loader, across_ranks=True)
        ),
        "broken": refused(lambda: calibrate(Strict(), broken, across_ranks=True)),
        "shared_documents": refused(
            lambda: calibrate(identity, documents, forward=three, keep_up_to=20_000, across_ranks=True)
        ),
        "reread_documents": refused(
            lambda: calibrate(identity, documents, forward=three, keep_up_to=0, reread=True, across_ranks=True)
        ),
        "other_methods": refused(lambda: calibrate(identity, loader, method="ec" if rank == 0 else "ts", across_ranks=True)),
        "wrong_limit": refused(lambda: calibrate(identity, loader, keep_up_to=-1 if rank == 0 else 1e9, across_ranks=True)),
        "wrong_method": refused(lambda: calibrate(identity, loader, method="exact" if rank else "ec", across_ranks=True)),
        "wrong_label": refused(lambda: calibrate(identity, loader, ignore_index=0.5 if rank else -100, across_ranks=True)),
        "interrupted": interrupted(lambda: calibrate(Interrupted() if rank else identity, loader, across_ranks=True)),
    }


def nan_in_batch_7(number, logits, labels):
    logits[3, 2] = np.nan if number == 7 else logits[3, 2]
    return logits, labels


def fails_in_batch_7(number, logits, labels):
    if number == 7:
        raise KeyError("image")
    return logits, labels


def errors(rank):
    """Errors on one rank, each followed by a reading that works on both."""
    mine = own(rank, *SMALL)
    here = {"clusters": own(rank, DOCUMENTS)[0]} if rank == 0 else {}
    outside = np.where(np.arange(len(mine[1])) == 11, 5, mine[1]) if rank else mine[1]
    sites = {"groups": own(rank, SITES)[0] if rank == 0 else np.arange(len(mine[1]))}
    rows = across_ranks(*mine)
    calls = {
        "nan": lambda: nishimori.temperatures(across_ranks(batches(rank, nan_in_batch_7) if rank else batches(0))),
        "loader": lambda: nishimori.temperatures(across_ranks(batches(rank, fails_in_batch_7) if rank else batches(0))),
        "both": lambda: nishimori.temperatures(across_ranks(batches(rank, nan_in_batch_7))),
        "label": lambda: across_ranks(mine[0], outside),
        "classes": lambda: across_ranks(mine[0][:, : 5 - rank], mine[1] % 3),
        "clusters_missing": lambda: across_ranks(*mine, **here),
        "clusters_mixed": lambda: across_ranks(*mine, clusters=mine[1] if rank else own(0, DOCUMENTS)[0]),
        "clusters_of_batches": lambda: across_ranks(batches(rank), clusters=DOCUMENTS),
        "clusters_of_source": lambda: across_ranks(open_rows(*mine, clusters=own(rank, DOCUMENTS)[0])),
        "one_cluster": lambda: across_ranks(*mine, clusters=np.zeros(len(mine[1]))),
        "groups_mixed": lambda: across_ranks(*mine, **sites),
        "sketch": lambda: across_ranks(nishimori.Sketch()),
        "other_calls": lambda: nishimori.metrics.brier(rows) if rank else nishimori.metrics.nll(rows),
        "rows": lambda: list(rows),
    }
    found = {}
    for name, call in calls.items():
        found[name] = refused(call)
        nishimori.metrics.accuracy(rows)
    return found


def example(rank, port):
    """The temperature that the example finds on this rank, when it is started as by `torchrun`."""
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "RANK": str(rank), "WORLD_SIZE": "2"}
    os.environ["TORCHELASTIC_RUN_ID"] = "test"
    found = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "torch_distributed.py"))
    return {
        "temperature": float(found["calibrated"].temperature).hex(),
        "n_samples": found["calibrated"].temperatures.n_samples,
    }


def main(rank, folder, port):
    warnings.simplefilter("error")
    store = f"file://{folder}/store"
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2, timeout=timedelta(seconds=120))
    found = {each.__name__: each(rank) for each in (fits, parts, without_rows, sketches, networks, errors)}
    shown = nishimori.rows(batches(rank), progress=True)
    nishimori.metrics.accuracy(across_ranks(shown))
    dist.destroy_process_group()
    found["example"] = example(rank, port)
    (folder / f"{rank}.json").write_text(json.dumps(found), encoding="utf-8")
    # Without Python's own shutdown: Gloo's threads may still hold tensors of the last exchange, and one that lets go of such a
    # tensor while Python shuts down can end the process with SIGABRT (pytorch/pytorch#179291), as rank 1 once did.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
