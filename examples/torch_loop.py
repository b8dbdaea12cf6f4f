"""A plain training loop that prints its temperature, and two ways to serve the calibrated network.

If T grows while the accuracy stays the same, the network is becoming overconfident.
Needs ``pip install 'nishimori[torch]'``.
"""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from nishimori import evaluate
from nishimori.torch import Calibrated, calibrate, collect


class TemperatureCallback:
    """Prints the temperatures found on a validation loader."""

    def __init__(self, loader):
        self.loader = loader

    def on_epoch_end(self, epoch, model):
        # Runs the network in eval mode and restores its mode afterwards.
        measured = calibrate(model, self.loader).temperatures
        print(f"epoch {epoch:3d}: accuracy {measured.accuracy:.1%}, T {measured.ec:.2f} by EC, {measured.ts:.2f} by TS")


torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
images, digits = (torch.as_tensor(a) for a in load_digits(return_X_y=True))
order = torch.randperm(len(digits))
data = TensorDataset(images[order].float(), digits[order])
train, val, test = (torch.utils.data.Subset(data, range(*ends)) for ends in ((0, 200), (200, 1000), (1000, len(data))))
val_loader, test_loader = DataLoader(val, batch_size=256), DataLoader(test, batch_size=256)


def network():
    """Two hidden layers, with dropout, which is off while a loader is read."""
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.1), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))


model = network().to(device)
optimiser = torch.optim.Adam(model.parameters(), lr=2e-3)
callback = TemperatureCallback(val_loader)
for epoch in range(1, 201):
    for x, y in DataLoader(train, batch_size=50, shuffle=True):
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(x.to(device)), y.to(device)).backward()
        optimiser.step()
    if epoch % 50 == 0:
        callback.on_epoch_end(epoch, model)

calibrated = calibrate(model, val_loader)
for name, each in (("before", model), ("after", calibrated)):
    card = evaluate(*collect(each, test_loader))
    print(f"{name}: ECE {card.ece:.2%}, NLL {card.nll:.3f}")

# Either serve the wrapper: T is in its state dict, with the weights.
torch.save(calibrated.state_dict(), "calibrated.pt")
served = Calibrated(network()).to(device)
served.load_state_dict(torch.load("calibrated.pt", weights_only=True))
print(f"loaded: T {served.temperature.item():.2f}")

# Or fold T into the last layer, and serve the network without the wrapper.
x, _ = next(iter(test_loader))
folded = served.fold(probe=x)
print(f"folded: {type(folded).__name__}, ECE {evaluate(*collect(folded, test_loader)).ece:.2%}")
