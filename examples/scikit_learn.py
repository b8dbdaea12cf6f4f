"""Calibrate a scikit-learn classifier by cross-validation, and measure the result on test data.

No validation set is needed: each sample is scored by a classifier that was not trained on it. The picture needs
``pip install 'nishimori[plot]'``.
"""

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB

from nishimori import CalibratedClassifier, evaluate, plot

images, digits = load_digits(return_X_y=True)
train_x, test_x, train_y, test_y = train_test_split(images, digits, train_size=0.7, random_state=0)

curves = {}
model = GaussianNB(var_smoothing=1e-3)  # naive Bayes is often overconfident
for method in ("none", "ec", "ts", "matrix"):
    calibrated = CalibratedClassifier(model, method).fit(train_x, train_y)
    # Without calibration, probabilities that round to 0 count as 2e-308.
    card = evaluate(calibrated.predict_proba(test_x), test_y, input="probabilities")
    curves[method] = card.reliability
    print(f"{method:6}  accuracy {card.accuracy:.3f}  confidence {card.confidence:.3f}  ECE {card.ece:.2%}  NLL {card.nll:.3f}")

axes = plot.reliability_diagram({name: curves[name] for name in ("none", "matrix")})
axes.figure.savefig("scikit_learn.png")
