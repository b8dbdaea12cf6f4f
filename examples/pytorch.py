"""Calibrate with the tensors that a PyTorch network produced, on whatever device they are, and serve with one division.

`torch_loop.py` starts from a network and a loader instead. Needs ``pip install 'nishimori[torch]'``.
"""

import torch

from nishimori import ExpectationConsistency, data, metrics

device = "cuda" if torch.cuda.is_available() else "cpu"
network = data.load("cifar10/resnet20")
val_logits, val_labels, test_logits, test_labels = (
    torch.as_tensor(array, device=device) for part in (network.validation, network.test) for array in (part.logits, part.labels)
)
val_logits.requires_grad_()  # as logits straight from a network do, which is no obstacle

calibrator = ExpectationConsistency().fit(val_logits, val_labels)
print(f"T = {calibrator.temperature_:.3f} in {calibrator.n_passes_} passes")
for name, temperature in (("before", 1.0), ("after", calibrator.temperature_)):
    print(f"{name}: ECE {metrics.ece(test_logits, test_labels, temperature=temperature):.2%}")

half = calibrator.predict_proba(test_logits.bfloat16())
print(f"probabilities come back as the logits came: {half.dtype} on {half.device.type}")
served = torch.softmax(test_logits / calibrator.temperature_, dim=1)
print(f"same as one division: {torch.allclose(served, calibrator.predict_proba(test_logits))}")
