"""Calibrate a real network and measure the result, with logits that come with nishimori.

For a model of your own, replace the bundled logits and labels with yours. The picture needs ``pip install 'nishimori[plot]'``.
"""

from nishimori import AdaptiveConsistency, ExpectationConsistency, TemperatureScaling, data, evaluate, plot

network = data.load("cifar10/resnet20")
val, test = network.validation, network.test
print(f"{network.name}: {len(val.labels)} images to calibrate with, {len(test.labels)} to test")

before = evaluate(test.logits, test.labels)  # every metric, from one reading of the data
print(f"uncalibrated         accuracy {before.accuracy:.2%}  confidence {before.confidence:.2%}  ECE {before.ece:.2%}")
for calibrator in (AdaptiveConsistency(), ExpectationConsistency(), TemperatureScaling()):
    calibrator.fit(val.logits, val.labels)
    after = evaluate(test.logits, test.labels, calibrator=calibrator)
    print(f"{calibrator.method:8}  T = {calibrator.temperature_:.3f}", end="  ")
    print(f"accuracy {after.accuracy:.2%}  confidence {after.confidence:.2%}  ECE {after.ece:.2%}")

calibrator = AdaptiveConsistency().fit(val.logits, val.labels)
probabilities = calibrator.predict_proba(test.logits)
print(f"calibrated probabilities of the first image: {probabilities[0].round(3)}")

axes = plot.calibration(test.logits, test.labels, calibrator)  # before and after
axes.figure.savefig("quickstart.png")
