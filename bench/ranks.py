"""What it costs to share sums among ranks, with NCCL if there is a GPU and with gloo otherwise.

    python bench/ranks.py                            # one rank
    torchrun --nproc-per-node=8 bench/ranks.py       # eight of them

Each rank has the same number of random rows. The first rank prints T with all its bits, and the shortest of several times: of
making the source, of a fit to all ranks, of a fit to the rows of one rank alone, and of an exchange of nothing.
"""

import argparse
import os
from time import perf_counter

import torch
import torch.distributed as dist

import nishimori
from nishimori.torch import across_ranks, calibrate, reduced
from nishimori.torch._exchange import Exchange


def fastest(call, times):
    """The result of a call, and its shortest time in milliseconds."""
    found, best = call(), float("inf")
    for _ in range(times):
        dist.barrier()
        start = perf_counter()
        found = call()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        best = min(best, perf_counter() - start)
    return found, 1e3 * best


def rows_of(rank, n_rows, n_classes, device):
    """Logits and labels that are drawn at T = 2."""
    random = torch.Generator(device).manual_seed(rank)
    logits = 3 * torch.randn(n_rows, n_classes, generator=random, device=device)
    gumbel = -torch.log(-torch.log(torch.rand(n_rows, n_classes, generator=random, device=device).clamp_min(1e-30)))
    return logits, (logits / 2 + gumbel).argmax(dim=1)


def started(device):
    """The rank of this process, in a job of one rank if nobody started a larger one."""
    backend = "nccl" if device == "cuda" else "gloo"
    if dist.is_torchelastic_launched():
        if device == "cuda":
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group(backend)
    else:
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    return dist.get_rank()


def refusal(rows, labels):
    """The error for NaN on the last rank, which every rank must raise."""
    if dist.get_rank() == dist.get_world_size() - 1:
        rows = rows.clone()
        rows[7, 3] = float("nan")
    try:
        nishimori.temperatures(across_ranks(rows, labels))
    except nishimori.errors.InputError as error:
        return str(error)
    return None


def main():
    """Measure, and print on the first rank."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--times", type=int, default=5)
    asked = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    rank = started(device)
    logits, labels = rows_of(rank, asked.rows, asked.classes, device)
    rows, making = fastest(lambda: across_ranks(logits, labels), asked.times)
    found, fitting = fastest(lambda: nishimori.temperatures(rows), asked.times)
    alone, local = fastest(lambda: nishimori.temperatures(logits, labels), asked.times)
    sketch = nishimori.Sketch().update(logits[:20_000], labels[:20_000])
    total, reducing = fastest(lambda: reduced(sketch), asked.times)
    ranks = Exchange()
    _, exchanging = fastest(lambda: list(ranks.values(lambda: None)), 100)
    network = calibrate(torch.nn.Identity(), [(logits[:20_000], labels[:20_000])], method="ec", across_ranks=True)
    everywhere = list(ranks.values(lambda: (found.ec.hex(), found.ts.hex(), network.temperature.item())))
    error = refusal(logits, labels)
    if rank == 0:
        print(f"{dist.get_backend()}, {ranks.size} rank(s), {asked.rows:,} x {asked.classes:,} on each, {device}")
        print(f"T of EC {found.ec.hex()}, of TS {found.ts.hex()}")
        print(f"{found.n_passes} readings of {found.n_samples:,} samples")
        print(f"the same bits on every rank: {len(set(everywhere)) == 1}")
        differences = [abs(one / joint - 1) for one, joint in ((alone.ec, found.ec), (alone.ts, found.ts))]
        print(f"one rank alone: T of EC differs by {differences[0]:.1e}, of TS by {differences[1]:.1e}")
        print(f"sketch of {total.n_samples:,} samples; calibrated network: T = {network.temperature.item():.6f}")
        print(f"NaN on the last rank: {error}")
        print(f"source {making:.2f} ms, fit {fitting:.2f} ms, fit of one rank alone {local:.2f} ms")
        print(f"reduced sketch {reducing:.2f} ms, exchange of nothing {exchanging:.3f} ms")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
