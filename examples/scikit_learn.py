"""Calibrate a scikit-learn classifier and measure the result.

The calibrator takes the output of the model on validation data. Here these are log-probabilities, which are valid logits.
"""

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB

from nishimori import ExpectationConsistency, TemperatureScaling, evaluate

images, digits = load_digits(return_X_y=True)
train_x, rest_x, train_y, rest_y = train_test_split(images, digits, train_size=0.4, random_state=0)
val_x, test_x, val_y, test_y = train_test_split(rest_x, rest_y, train_size=0.5, random_state=0)

model = GaussianNB(var_smoothing=1e-3).fit(train_x, train_y)  # naive Bayes is often overconfident
val, test = model.predict_log_proba(val_x), model.predict_log_proba(test_x)

before = evaluate(test, test_y)
print(f"uncalibrated  ECE {before.ece:.2%}  NLL {before.nll:.3f}")
for calibrator in (ExpectationConsistency(), TemperatureScaling()):
    after = evaluate(test, test_y, calibrator=calibrator.fit(val, val_y))
    print(f"{calibrator.method.upper()}  T {after.temperature:.2f}  ECE {after.ece:.2%}  NLL {after.nll:.3f}")
