"""Pieces of the artefact `claims` made by hand: few rows with short numbers, so that every result can be worked out on paper.

`NUMBERS` are those results, by group. Values that come from the paper itself were worked out from its tables and coordinates.
"""

from nishimori_paper._names import resnet20_on

FRACTIONS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
MODELS = ("svhn/resnet20", "cifar10/resnet20", "cifar10/resnet56", "cifar10/densenet121")
MODELS += ("cifar100/resnet20-conv", "cifar100/resnet56-conv", "cifar100/vgg19", "cifar100/repvgg-a2")


def row(temperatures, ece, brier, error=0.2):
    """A row of a table: two temperatures; ECE and Brier score before, after TS and after EC; the error."""
    names = ("", "_ts", "_ec")
    return {
        **dict(zip(("temperature_ts", "temperature_ec"), temperatures, strict=True)),
        **{f"ece{name}": value for name, value in zip(names, ece, strict=True)},
        **{f"brier{name}": value for name, value in zip(names, brier, strict=True)},
        "error": error,
    }


def precision(variances, passes, confidence, accuracy, n_classes, difference=0.0):
    return {
        **dict(zip(("variance_ec", "variance_ts"), variances, strict=True)),
        **dict(zip(("n_passes_ec", "n_passes_ts"), passes, strict=True)),
        "confidence": confidence,
        "accuracy": accuracy,
        "n_classes": n_classes,
        "difference": difference,
        "difference_error": difference / 4,
    }


PRECISION = {
    "precision a": precision((2.0, 1.0), (2, 1), [1.0, 0.9, 0.51], 0.8, 2),
    "precision b": precision((3.0, 2.0), (2, 2), [0.95, 0.97, 0.25], 0.2, 4),  # rises once; the accuracy is below chance
    "precision c": precision((1.0, 2.0), (3, 1), [0.9, 0.8, 0.3], 0.95, 3),  # the accuracy is above every confidence
    "precision d": precision((1.6, 1.0), (1, 1), [1.0, 0.7, 0.3], 0.8, 3),
}

METHOD = {
    **PRECISION,
    "one network": {
        "ec_validation": 1.5,
        "ec_test": 1.6,
        "loss": 0.4,
        "confidence": {"0.5": 0.9, "1": 0.8, "2": 0.7},
        "accuracy": 0.75,
        "top_n": [0.2, 0.4, 0.9, 1.0],  # the first is below 1/4
    },
    "all right or all wrong": [None, "hot", None],  # one of three has no temperature
    "constant prediction": {"ece": 1e-15, "error": 0.8, "network_error": 0.1},
}

NETWORKS = {
    "real cifar10/resnet20-authors": {
        "clean": row((2.0, 1.9), (0.05, 0.010, 0.0104), (0.2, 0.19, 0.188)),  # EC higher, but not in printed digits
        "augmented": row((1.27, 1.4), (0.05, 0.03, 0.02), (0.2, 0.19, 0.19)),
        "confidence": 0.85,
        "lead_error": 0.0003,
    },
    "real cifar10/resnet56-authors": {
        "clean": row((1.5, 1.5), (0.05, 0.020, 0.030), (0.2, 0.21, 0.19)),  # TS raises the Brier score; EC the higher ECE
        "augmented": row((1.4, 1.4), (0.05, 0.04, 0.025), (0.2, 0.19, 0.19)),
        "confidence": 0.75,
        "lead_error": 0.004,
    },
    "real cifar100/vgg19": {
        "clean": row((0.9, 1.2), (0.05, 0.060, 0.020), (0.2, 0.19, 0.19)),  # TS raises the ECE
        "confidence": 0.9,
        "lead_error": 0.01,
    },
    "sizes": {
        "parameters": {"resnet20": 0.272, "resnet56": 0.853, "densenet121": 6.9},
        "svhn_train": 100,
        "svhn_validation": 20,
    },
}

CURVES = {
    "curves cifar10/densenet121": {
        "accuracy": 0.9,
        "clean": row((2.0, 2.3), (0.05, 0.02, 0.01), (0.2, 0.1, 0.1), error=0.12),
        "augmented": row((1.8, 1.5), (0.05, 0.03, 0.04), (0.2, 0.1, 0.1), error=0.12),
        "least_ece": [2.5, 0.004],
    },
    "curves cifar10/resnet20-authors": {
        # At a confidence of 0.5 the lines are at 0.5 and 0.55, at 0.1, 0.3 and 0.9 they meet; outside the second has no bins.
        "reliability": [
            *({"when": "before", "confidence": x, "accuracy": 0.0} for x in (0.0, 1.0)),
            *({"when": "TS", "confidence": x, "accuracy": x} for x in (0.0, 0.3, 0.5, 1.0)),
            *({"when": "EC", "confidence": x, "accuracy": y} for x, y in ((0.1, 0.1), (0.3, 0.3), (0.5, 0.55), (0.9, 0.9))),
        ],
    },
}
# The differences are 0, 1, ..., 8 %, the largest in the fifth; the accuracies rise except for the last.
SHARES = (0.0, 0.01, 0.02, 0.03, 0.08, 0.04, 0.05, 0.06, 0.07)
FIGURES = {
    **CURVES,
    **{
        f"fraction {fraction:g}": row(
            (1.0, 1.0), (0.05, 0.02, 0.02 + 0.001 * i), (0.2, 0.1, 0.1), error=0.5 - 0.05 * i if i < 8 else 0.32
        )
        for i, fraction in enumerate(FRACTIONS)
    },
    **{
        f"precision {resnet20_on(fraction)}": precision((1.0, 1.0), (1, 1), [1.0, 0.5], 0.8, 2, share)
        for fraction, share in zip(FRACTIONS, SHARES, strict=True)
    },
}


def noisy(ece_ts, ece_ec, augmented=None, temperatures=(2.0, 1.6), share=0.1):
    """Scores under noise; ``augmented`` are the two ECEs with augmented validation images."""
    result = {"noisy": share, "clean": row(temperatures, (0.1, ece_ts, ece_ec), (0.2, 0.1, 0.1))}
    if augmented is not None:
        result["augmented"] = row(temperatures, (0.1, *augmented), (0.2, 0.1, 0.1))
    return result


NOISE = {
    # Reductions of ours: 0.5, five times 0.1, 0.2 and -0.1, the mean is 1.1/8; the second is 0.3 with augmented images.
    "corrupted svhn/resnet20": noisy(0.04, 0.02),
    "corrupted cifar10/resnet20": noisy(0.04, 0.036, augmented=(0.1, 0.07)),
    **{f"corrupted {name}": noisy(0.04, 0.036) for name in MODELS[2:6]},
    "corrupted cifar100/vgg19": noisy(0.05, 0.04, share=0.2),
    "corrupted cifar100/repvgg-a2": noisy(0.04, 0.044),
    "corrupted svhn/resnet20-authors": noisy(0.1, 0.081, temperatures=(2.0, 2.2)),
}

BAYES = {
    "bayes logit": [{"confidence": 0.8, "accuracy": 0.9, "ece": 0.3, "ts": 1.1, "ec": 0.7, "error_nearby": 2e-6}],
    "bayes affine": [{"confidence": 0.7, "accuracy": 0.7, "ece": 0.1, "ts": 1.0, "ec": 1.0, "error_nearby": 1e-6}],
    "bayes constant": [{"confidence": 0.75, "accuracy": 0.7, "ece": 0.2}],
}
MAXIMISATION = {
    "evidence logit": [1.1, 0.95],
    "evidence affine": [1.0, 0.8],
    "EM a": {"temperature": 0.5, "temperature_em": 0.6, "temperature_em_error": 0.05},
    "EM b": {"temperature": 2.0, "temperature_em": 1.4, "temperature_em_error": 0.2},
}


def gaps(before, after, difference):
    """What is left of a gap, and the difference of the temperatures."""
    return {"rms_before": before, "rms_after": after, "difference": difference}


SIMILARITY = {
    "gaps a": {"clean": gaps(0.1, 0.01, -0.02), "noisy": gaps(0.2, 0.1, 0.3)},
    "gaps b": {"clean": gaps(0.2, 0.01, 0.01), "noisy": gaps(0.1, 0.04, -0.25)},
    "gaps c": {"clean": gaps(0.1, 0.0, 0.04), "noisy": gaps(0.1, 0.03, 0.2)},
}


def curve(temperatures, error, penalty, ece, brier_lead):
    """Rows at three values of α, the last two alike: (T_TS, T_EC), error, λ, (ECE, after TS, after EC), Brier score TS − EC."""
    return [
        {
            **dict(zip(("temperature_ts", "temperature_ec"), temperatures[i], strict=True)),
            "error": error[i],
            "penalty": penalty[i],
            **dict(zip(("ece", "ece_ts", "ece_ec"), ece[i], strict=True)),
            "brier_ts": 0.2 + brier_lead[i],
            "brier_ec": 0.2,
        }
        for i in (0, 1, 1)
    ]


SAME = ((1.0, 1.0), (1.0, 1.0))
REGRESSION = {
    "logit, 1e-4": curve(
        ((2.0, 2.02), (0.6, 0.606)), (0.3, 0.2), (1e-4, 1e-4), ((0.2, 0.02, 0.0199), (0.1, 0.02, 0.0198)), (1e-3, 0.0)
    ),
    "logit, λ_error": curve(SAME, (0.2, 0.1), (1.0, 1.0), ((0.1, 0.02, 0.0199), (0.05, 0.02, 0.0197)), (1e-3, 1e-3)),
    "logit, λ_loss": curve(SAME, (0.25, 0.1), (1.0, 1.0), ((0.1, 0.02, 0.0199), (0.05, 0.02, 0.0197)), (1e-3, 1e-3)),
    "affine, 1e-4": curve(
        ((2.0, 2.04), (2.0, 2.1)), (0.3, 0.2), (1e-4, 1e-4), ((0.2, 0.02, 0.019), (0.1, 0.02, 0.018)), (-2e-3, 1e-3)
    ),
    "affine, λ_error": curve(SAME, (0.28, 0.1), (0.5, 1.0), ((0.1, 0.02, 0.019), (0.05, 0.02, 0.019)), (1e-3, 1e-3)),
    "affine, λ_loss": curve(SAME, (0.28, 0.1), (1.0, 1.0), ((0.1, 0.02, 0.019), (0.05, 0.02, 0.019)), (1e-3, 1e-3)),
    "constant, 1e-4": curve(
        ((2.0, 2.08), (2.0, 2.4)), (0.3, 0.2), (1e-4, 1e-4), ((0.2, 0.02, 0.018), (0.1, 0.02, 0.0175)), (-1e-3, 1e-3)
    ),
    "constant, λ_error": curve(SAME, (0.2, 0.1), (1.0, 3.0), ((0.1, 0.02, 0.018), (0.09, 0.02, 0.018)), (1e-3, 1e-3)),
    "constant, λ_loss": curve(SAME, (0.2, 0.1), (1.0, 1.0), ((0.1, 0.02, 0.018), (0.08, 0.02, 0.0191)), (1e-3, 1e-3)),
    "well specified at λ_loss": [
        {"alpha": 1.0, "ts": 1.2, "ec": 0.9, "scale_ts": 0.3, "scale_ec": 0.4},
        {"alpha": 2.0, "ts": 1.3, "ec": 1.4, "scale_ts": 0.5, "scale_ec": 0.8},
    ],
    "solution": [
        {"temperature": 1.0, "ece": 0.04},
        {"temperature": 1.5, "ece": 0.03},
        {"temperature": 1.6, "ece": 0.02},
    ],
    "density": {"least_delta": -0.01, "least_delta_at": 0.99, "overconfident_below": 0.95, "half": 0.5},
}
REGRESSION["constant, 1e-4"][2]["temperature_ec"] = 2.6  # differences of 0.04, 0.2 and 0.3
