"""The largest memory while the logits of some batches are collected, beyond what was in use before, in bytes."""

import torch
from watching import private_memory, private_peak, run

from nishimori.torch import collect


def main(n_batches, n_rows):
    z = torch.zeros(n_rows, 1_000)  # megabytes, which return to the system as soon as they are freed
    model = torch.nn.Identity()
    collect(model, [(z[:10], torch.zeros(10))])  # loads what is loaded once
    before = private_memory()
    return private_peak(lambda: collect(model, [(z, torch.zeros(n_rows))] * n_batches)) - before


run(main)
