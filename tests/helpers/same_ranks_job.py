"""One of two ranks, of which ``kind`` says what is the same and what is not: python same_ranks_job.py RANK FOLDER KIND."""

import json
import os
import sys
import warnings
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

from nishimori.torch import calibrate


def main(rank, folder, kind):
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/{kind}", rank=rank, world_size=2, timeout=timedelta(seconds=100)
    )
    torch.manual_seed(0)
    x = 3 * torch.randn(800, 4)
    y = torch.distributions.Categorical(logits=x / 2).sample()
    network = nn.Linear(4, 4)
    with torch.no_grad():
        network.weight.copy_(torch.eye(4))
        network.bias.zero_()
        if kind == "weights" and rank == 1:
            network.weight[0].copy_(network.weight[0].flip(0))  # the same numbers in another order
    part = slice(None) if kind == "rows" else slice(400 * rank, 400 * rank + 400)
    sketches = {"keep_up_to": 0} if kind == "sketches" else {}
    part = slice(None) if kind == "sketches" else part
    found = {"error": "", "T": None}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found["T"] = float(calibrate(network, (x[part], y[part]), method="ts", across_ranks=True, **sketches).temperature)
        except ValueError as error:
            found["error"] = str(error)
    found["warnings"] = [str(each.message) for each in caught]
    dist.destroy_process_group()
    (folder / f"{kind}{rank}.json").write_text(json.dumps(found), encoding="utf-8")
    sys.stdout.flush()
    os._exit(0)  # see ranks_job.py


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
