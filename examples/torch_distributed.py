"""Train a network with DistributedDataParallel and calibrate it with the validation samples of all processes.

Run it with ``torchrun --nproc-per-node=2 torch_distributed.py``, on as many processes and machines as you have. Without
`torchrun` it is a job of one process. Needs ``pip install 'nishimori[torch]'``.
"""

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Subset, TensorDataset

from nishimori import evaluate, temperatures
from nishimori.torch import across_ranks, calibrate, collect

# "nccl" where each process has its own GPU, after torch.cuda.set_device(...)
alone = {} if dist.is_torchelastic_launched() else {"store": dist.HashStore(), "rank": 0, "world_size": 1}
dist.init_process_group("gloo", **alone)
rank, n_ranks = dist.get_rank(), dist.get_world_size()

torch.manual_seed(0)  # the same on all ranks, which therefore divide the samples in the same way
images, digits = (torch.as_tensor(a) for a in load_digits(return_X_y=True))
order = torch.randperm(len(digits))
data = TensorDataset(images[order].float(), digits[order])


def part(start, stop):
    """Every n-th sample, beginning with the rank. A DistributedSampler would repeat some, to give all ranks the same number."""
    return DataLoader(Subset(data, range(start + rank, stop, n_ranks)), batch_size=64)


model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)))
optimiser = torch.optim.Adam(model.parameters(), lr=2e-3)
for _ in range(40):
    for x, y in part(0, 200):
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimiser.step()

# The network itself, without its wrapper, because ranks may have different numbers of batches here.
calibrated = calibrate(model.module, part(200, 1001), across_ranks=True)
rows = across_ranks(*collect(calibrated, part(1001, len(data))))
card, found = evaluate(rows), temperatures(rows)
if rank == 0:  # all ranks have the same numbers
    print(f"{n_ranks} ranks: T = {calibrated.temperature.item():.3f} from {calibrated.temperatures.n_samples} samples")
    print(f"test set: ECE {card.ece:.2%}, NLL {card.nll:.3f}, and T = {found.ec:.2f} ± {found.ec_se:.2f} is left")
dist.destroy_process_group()
