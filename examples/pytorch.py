"""Calibrate the logits of a PyTorch network as tensors, on any device, and serve with one division.

`torch_loop.py` starts from a network and a loader instead. Needs ``pip install 'nishimori[torch]'``.
"""

import torch

from nishimori import AdaptiveConsistency, data, evaluate

device = "cuda" if torch.cuda.is_available() else "cpu"
network = data.load("cifar10/resnet20")
val_logits, val_labels, test_logits, test_labels = (
    torch.as_tensor(array, device=device) for part in (network.validation, network.test) for array in (part.logits, part.labels)
)
val_logits.requires_grad_()  # logits straight from a network require gradients too

calibrator = AdaptiveConsistency().fit(val_logits, val_labels)
print(f"T = {calibrator.temperature_:.3f} in {calibrator.n_passes_} passes")
for name, temperature in (("before", 1.0), ("after", calibrator.temperature_)):
    card = evaluate(test_logits, test_labels, temperature=temperature)
    print(f"{name}: ECE {card.ece:.2%}, NLL {card.nll:.3f}")

half = calibrator.predict_proba(test_logits.bfloat16())
print(f"probabilities have the dtype and device of the logits: {half.dtype} on {half.device.type}")
served = torch.softmax(test_logits / calibrator.temperature_, dim=1)
print(f"the same as one division: {torch.allclose(served, calibrator.predict_proba(test_logits))}")
