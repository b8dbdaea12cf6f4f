"""Define your own teacher: a logit teacher whose labels are flipped with probability 0.1.

The example compares theory and simulation of logistic regression trained on these labels, and prints the calibration error
before and after temperature scaling and expectation consistency. It needs ``pip install nishimori-paper``.
"""

from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit

from nishimori_paper.theory import Teacher, simulate, state_evolution


@dataclass(frozen=True)
class Noisy(Teacher):
    """A logit teacher whose labels are flipped with probability 0.1."""

    def probability(self, z):
        """σ*(z): between 0.1 and 0.9."""
        return 0.1 + 0.8 * expit(z)


teacher = Noisy(temperature=0.3)
limit = state_evolution(teacher, alpha=5.0, penalty=0.01)
found = simulate(teacher, alpha=5.0, penalty=0.01, d=200, seeds=10, progress=False)

print("               d → ∞    d = 200")
for name in ("error", "temperature_ts", "temperature_ec"):
    print(f"{name:14} {getattr(limit, name):7.3f}   {found[name].mean:.3f} ± {found[name].standard_error:.3f}")
for label, T in (("before", 1.0), ("after TS", limit.temperature_ts), ("after EC", limit.temperature_ec)):
    print(f"ECE {label:8}  {limit.ece(T):.2%}")

temperatures = np.geomspace(0.5, 10, 60)
figure, axes = plt.subplots(layout="constrained")
axes.semilogx(temperatures, [100 * limit.ece(T) for T in temperatures])
for label, T in (("TS", limit.temperature_ts), ("EC", limit.temperature_ec)):
    axes.plot(T, 100 * limit.ece(T), "o", label=f"T of {label}")
axes.set(xlabel="temperature T", ylabel="ECE of the limit d → ∞, in percent")
axes.legend()
figure.savefig("own_teacher.png")
