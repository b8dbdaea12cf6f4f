"""Write a map and a calibrator of your own: a temperature that depends on how far the two largest logits are apart.

T = exp(a + b·m), where m is the margin of a row: its largest logit minus the second largest. With b = 0 this is one
temperature. The parameters enter non-linearly. `nishimori.calibrators.SeveralParameters` finds those of the lowest
cross-entropy, with their standard errors, from `start` and `map_for` alone.

The picture needs ``pip install matplotlib``. The shell uses the same file from the folder that it is in:

    nishimori fit val.npz -o c.json --method margin_temperature:MarginScaling
    nishimori --import margin_temperature apply c.json test.npz -o probabilities.npz
    nishimori compare val.npz test.npz --methods none,ts,margin_temperature:MarginScaling
"""

import array_api_compat
import numpy as np

import nishimori


class MarginTemperature(nishimori.Map):
    """Division of each row by exp(a + b·margin)."""

    keeps_predictions = True

    def __init__(self, a, b):
        self.a, self.b = a, b

    def apply(self, logits, groups=None):  # noqa: ARG002 - all groups are treated alike
        """Written once, for NumPy, PyTorch and every other array library."""
        xp = array_api_compat.array_namespace(logits)
        columns = xp.cumulative_sum(xp.ones_like(logits), axis=1) - 1
        others = xp.where(columns == xp.argmax(logits, axis=1, keepdims=True), -xp.inf, logits)
        margin = xp.max(logits, axis=1, keepdims=True) - xp.max(others, axis=1, keepdims=True)
        return logits / xp.exp(self.a + self.b * margin)

    @property
    def parameters(self):
        """What the constructor takes, and what files hold."""
        return {"a": self.a, "b": self.b}


class MarginScaling(nishimori.calibrators.SeveralParameters):
    """Divide logits by a temperature that depends on the margin of the two largest ones."""

    traits = {"keeps_predictions": True, "streams": True, "from_sketch": False, "error_bars": True}  # noqa: RUF012

    def __init__(self, *, input="logits", classes=None, floor=None):
        self.input, self.classes, self.floor = input, classes, floor

    def start(self, n_classes, temperature):  # noqa: ARG002 - the same for any number
        """One temperature, from which the search starts."""
        return {"a": np.log(temperature), "b": 0.0}

    def map_for(self, parameters, n_classes):  # noqa: ARG002 - the same for any number
        """The map with these parameters."""
        return MarginTemperature(**parameters)


nishimori.register("margin_temperature", MarginTemperature)
nishimori.register("margin", MarginScaling)

if __name__ == "__main__":
    import matplotlib.pyplot as plt

    network = nishimori.data.load("cifar10/resnet20")
    validation, test = ((each.logits, each.labels) for each in (network.validation, network.test))
    fitted = MarginScaling().fit(*validation)
    for name, value in fitted.parameters_.items():
        print(f"{name} = {value:.3f} ± {fitted.parameters_se_[name]:.3f}")
    print(nishimori.compare(*validation, *test, methods=("none", "ts", fitted)))
    margin = np.linspace(0, 15)
    figure, axes = plt.subplots(layout="constrained")
    axes.plot(margin, np.exp(fitted.parameters_["a"] + fitted.parameters_["b"] * margin), label="margin")
    axes.axhline(nishimori.temperatures(*validation).ts, color="gray", linestyle=":", label="one temperature")
    axes.set(xlabel="margin of the two largest logits", ylabel="temperature T")
    axes.legend()
    figure.savefig("margin_temperature.png")
    fitted.save("margin.json", overwrite=True)
    print(nishimori.evaluate(*test, calibrator=nishimori.load("margin.json")).ece)
