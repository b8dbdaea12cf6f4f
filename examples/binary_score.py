"""Calibrate a binary model with one score z per sample.

Pass the scores as a flat array. It means the logits (0, z), so the probability of class 1 is sigmoid(z / T). The
picture needs ``pip install 'nishimori[plot]'``.
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from nishimori import Platt, TemperatureScaling, evaluate, metrics, plot

images, digits = load_digits(return_X_y=True)
x, y = StandardScaler().fit_transform(images), digits >= 5  # is the digit one of 5 to 9?
train_x, rest_x, train_y, rest_y = train_test_split(x, y, train_size=0.3, random_state=0)
val_x, test_x, val_y, test_y = train_test_split(rest_x, rest_y, train_size=0.5, random_state=0)

model = SGDClassifier(random_state=0).fit(train_x, train_y)  # a support vector machine: its scores are margins
val, test = model.decision_function(val_x), model.decision_function(test_x)

calibrator = TemperatureScaling().fit(val, val_y)
p = calibrator.predict_proba(test)
print(f"T {calibrator.temperature_:.2f}, probabilities {p.shape}, scaled scores {calibrator.transform(test).shape}")
print(f"P(y = 1) is the sigmoid of z / T: {np.allclose(p[:, 1], 1 / (1 + np.exp(-test / calibrator.temperature_)))}")
curves = {}
for name, temperature in (("before", 1.0), ("after", calibrator.temperature_)):
    ece = metrics.ece(test, test_y, of="positive", temperature=temperature)
    curves[name] = metrics.reliability(test, test_y, of="positive", temperature=temperature)
    print(f"{name}: ECE of P(y = 1) {ece:.2%}, NLL {metrics.nll(test, test_y, temperature=temperature):.3f}")

platt = Platt().fit(val, val_y)  # a slope and an intercept, which may change predictions
shown = ", ".join(f"{name} {value:.3f}" for name, value in platt.parameters_.items())
print(f"Platt scaling: {shown}, NLL {evaluate(test, test_y, calibrator=platt).nll:.3f}")

axes = plot.reliability_diagram(curves)
axes.figure.savefig("binary_score.png")
