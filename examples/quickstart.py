"""Calibrate a real network and see what changes, from logits that come with nishimori.

With a model of your own, put its logits and the true classes in the place of the bundled ones.
"""

from nishimori import ExpectationConsistency, TemperatureScaling, data, metrics

network = data.load("cifar10/resnet20")
val, test = network.validation, network.test
print(f"{network.name}: {len(val.labels)} images to calibrate with, {len(test.labels)} to test")

before = metrics.ece(test.logits, test.labels)
print(f"uncalibrated   ECE {before:.2%}  NLL {metrics.nll(test.logits, test.labels):.3f}")
for calibrator in (ExpectationConsistency(), TemperatureScaling()):
    p = calibrator.fit(val.logits, val.labels).predict_proba(test.logits)
    ece, nll = (metric(p, test.labels, input="probabilities") for metric in (metrics.ece, metrics.nll))
    print(f"{calibrator.method.upper()}  T = {calibrator.temperature_:.3f}  ECE {ece:.2%}  NLL {nll:.3f}")
