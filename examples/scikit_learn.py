"""Calibrate a scikit-learn classifier and see what changes.

The calibrator stands behind the model: it takes what the model says about validation data, here log-probabilities, which are
valid logits.
"""

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB

from nishimori import ExpectationConsistency, TemperatureScaling, metrics

images, digits = load_digits(return_X_y=True)
train_x, rest_x, train_y, rest_y = train_test_split(images, digits, train_size=0.4, random_state=0)
val_x, test_x, val_y, test_y = train_test_split(rest_x, rest_y, train_size=0.5, random_state=0)

model = GaussianNB(var_smoothing=1e-3).fit(train_x, train_y)  # naive Bayes is famous for being too sure
val, test = model.predict_log_proba(val_x), model.predict_log_proba(test_x)

print(f"uncalibrated  ECE {metrics.ece(test, test_y):.2%}  NLL {metrics.nll(test, test_y):.3f}")
for calibrator in (ExpectationConsistency(), TemperatureScaling()):
    p = calibrator.fit(val, val_y).predict_proba(test)
    ece, nll = (metric(p, test_y, input="probabilities") for metric in (metrics.ece, metrics.nll))
    print(f"{calibrator.method.upper()}  T {calibrator.temperature_:.2f}  ECE {ece:.2%}  NLL {nll:.3f}")
