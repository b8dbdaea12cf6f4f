"""Folding T into the last layer of each of the paper's networks divides its logits by T."""

import pytest
import torch
from small_networks import DTYPES, built, deviation, logits

from nishimori.torch import fold_temperature
from nishimori_paper import models

# In float16 the logits of the deepest networks overflow before training.
PAPER = [
    pytest.param(name, dtype, id=f"{name}-{dtype}")
    for name in models.names()
    for dtype in (torch.float32, torch.float16, torch.bfloat16)
    if not (dtype == torch.float16 and name.startswith("resnet110"))
]


@pytest.mark.parametrize(("name", "dtype"), PAPER)
def test_the_papers_networks_fold(name, dtype):
    # A CPU takes seconds for each image of 32 x 32 pixels in 16 bits; only one network needs as many.
    n, side = (4, 32) if dtype == torch.float32 else (1, 32 if name == "vgg19" else 8)
    probe = torch.randn(n, 3, side, side, generator=torch.Generator().manual_seed(0))
    network = built(lambda: models.build(name, n_classes=10), dtype)
    before = logits(network, probe, dtype)
    assert before.isfinite().all()
    fold_temperature(network, 1.7, probe=probe.to(dtype))
    assert deviation(logits(network, probe, dtype), before / 1.7) <= DTYPES[dtype]
