"""Calibrate a PyTorch network: fit on the tensors it produced, on whatever device they are, and serve with one division.

Needs ``pip install 'nishimori[torch]'``.
"""

import torch
from sklearn.datasets import load_digits
from torch import nn

from nishimori import ExpectationConsistency, metrics

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
images, digits = (torch.as_tensor(a) for a in load_digits(return_X_y=True))
order = torch.randperm(len(digits))
x, y = images[order].float().to(device), digits[order].to(device)
train, val, test = slice(0, 200), slice(200, 1000), slice(1000, None)

model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10)).to(device)
optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
for _ in range(600):
    optimiser.zero_grad()
    nn.functional.cross_entropy(model(x[train]), y[train]).backward()
    optimiser.step()

logits = model(x)  # still requires a gradient, which is no obstacle
calibrator = ExpectationConsistency().fit(logits[val], y[val])
print(f"T {calibrator.temperature_:.2f} in {calibrator.n_passes_} passes")
for name, temperature in (("before", 1.0), ("after", calibrator.temperature_)):
    print(f"{name}: ECE {metrics.ece(logits[test], y[test], temperature=temperature):.2%}")

served = torch.softmax(logits[test] / calibrator.temperature_, dim=1)
print(f"same probabilities: {torch.allclose(served, calibrator.predict_proba(logits[test]))}")
