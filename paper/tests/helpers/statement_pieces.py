"""Pieces of the artefact `statements` made by hand: few rows with short numbers, so that every result can be worked out on
paper.

`NUMBERS` are those results, by group. Values that come from the paper itself were worked out from its tables and coordinates.
"""

from nishimori_paper._names import resnet20_on

AUTHORS_AND_VGG = ("cifar10/resnet20-authors", "cifar10/resnet56-authors", "cifar100/vgg19")
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
        "difference_error": difference / 4 or 0.001,
        "ratio_error": 0.1 if n_classes == 2 else 0.05,
    }


PRECISION = {
    "precision a": precision((2.0, 1.0), (2, 1), [1.0, 0.9, 0.51], 0.8, 2),
    "precision b": precision((3.0, 2.0), (2, 2), [0.95, 0.97, 0.25], 0.2, 4),  # rises once; the accuracy is below chance
    "precision c": precision((1.0, 2.0), (3, 1), [0.9, 0.8, 0.3], 0.95, 3),  # the accuracy is above every confidence
    "precision d": precision((1.6, 1.0), (1, 1), [1.0, 0.7, 0.3], 0.8, 3),
}

# Mean ECEs after TS and after EC, with 100 and with 1,000 samples: EC − TS is 0.2 and 0.4 points, then −0.1 and 0.1.
SUBSETS = {
    "subsets a": {"before": 0.08, "100": [0.020, 0.022], "1000": [0.010, 0.009]},
    "subsets b": {"before": 0.05, "100": [0.030, 0.034], "1000": [0.010, 0.011]},
}
VALIDATION = {**PRECISION, **SUBSETS}

METHOD = {
    **PRECISION,
    "one network": {
        "ec_validation": 1.5,
        "ec_augmented": 1.4,
        "ec_test": 1.6,
        "loss": 0.4,
        "log_likelihood": -0.4,
        "n_validation": 10,
        "literal": [None, 0.8, 0.5, 0.3],
        "confidence": {"0.5": 0.9, "1": 0.8, "2": 0.7},
        "accuracy": 0.75,
        "top_n": [0.2, 0.4, 0.9, 1.0],  # the first is below 1/4
    },
    "all right or all wrong": [None, "hot", None],  # one of three has no temperature
    "constant prediction": {"ece": 1e-15, "error": 0.8, "network_error": 0.1},
}


def spread(mean, size):
    """Two draws around a number, with this standard deviation."""
    half = size / 2**0.5
    return [mean - half, mean + half]


def real(clean, lead_error, confidence, augmented=None, gain_error=0.02):
    """A network of Table 1: rows, and draws of differences with given standard errors."""
    columns = ("lead", "brier_lead", "ece_gain_ts", "ece_gain_ec", "brier_gain_ts", "brier_gain_ec")
    errors = {"clean errors of a fit": {"temperature_ts": 0.2, "temperature_ec": 0.3}}
    if augmented is not None:
        errors["augmented errors of a fit"] = {"temperature_ts": 0.4, "temperature_ec": 0.1}
    return {
        "clean": clean,
        **({} if augmented is None else {"augmented": augmented}),
        "confidence": confidence,
        "confidence_error": 0.1,
        "temperature_errors": errors,
        "draws": {each: spread(0.3, lead_error if each == "lead" else gain_error) for each in columns},
    }


NETWORKS = {
    "real cifar10/resnet20-authors": real(
        row((2.0, 1.9), (0.05, 0.010, 0.0104), (0.2, 0.19, 0.188)),  # EC higher, but not in printed digits
        0.003,
        0.85,
        row((1.27, 1.4), (0.05, 0.03, 0.02), (0.2, 0.19, 0.19)),
    ),
    "real cifar10/resnet56-authors": real(
        row((1.5, 1.5), (0.05, 0.020, 0.030), (0.2, 0.21, 0.19)),  # TS raises the Brier score; EC the higher ECE
        0.004,
        0.75,
        row((1.4, 1.4), (0.05, 0.04, 0.025), (0.2, 0.19, 0.19)),
    ),
    "real cifar100/vgg19": real(row((0.9, 1.2), (0.05, 0.060, 0.020), (0.2, 0.19, 0.19)), 0.01, 0.9),  # TS raises the ECE
    **{f"precision {name}": precision((1.0, 1.0), (1, 1), [1.0, 0.5], 0.8, 2, 0.2) for name in AUTHORS_AND_VGG},
    **SUBSETS,
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
        f"fraction {fraction:g}": {
            **row((1.0, 1.0), (0.05, 0.02, 0.02 + 0.001 * i), (0.2, 0.1, 0.1), error=0.5 - 0.05 * i if i < 8 else 0.32),
            "draws": {"lead": spread(0.0, 0.002)},
        }
        for i, fraction in enumerate(FRACTIONS)
    },
    "precision cifar10/resnet20-authors": precision((1.0, 1.0), (1, 1), [1.0, 0.5], 0.8, 2, 0.04),
    # The nearer temperature is 0.05, 0.2 and 0.1 away from the T of the least ECE; with augmented images 0.3 and 0.15.
    "minimum cifar10/resnet20": {
        "clean": {"ts": 1.5, "ec": 1.55},
        "augmented": {"ts": 1.2, "ec": 1.3},
        "least": 1.6,
        "error": 0.1,
    },
    "minimum svhn/resnet20": {"clean": {"ts": 1.8, "ec": 1.9}, "least": 1.6, "error": 0.2},
    "minimum cifar100/vgg19": {
        "clean": {"ts": 2.1, "ec": 1.5},
        "augmented": {"ts": 2.15, "ec": 1.4},
        "least": 2.0,
        "error": 0.05,
    },
    **{
        f"precision {resnet20_on(fraction)}": precision((1.0, 1.0), (1, 1), [1.0, 0.5], 0.8, 2, share)
        for fraction, share in zip(FRACTIONS, SHARES, strict=True)
    },
}


def noisy(ece_ts, ece_ec, augmented=None, temperatures=(2.0, 1.6), share=0.1):
    """Scores under noise; ``augmented`` are the two ECEs with augmented validation images."""
    result = {
        "noisy": share,
        "clean": row(temperatures, (0.1, ece_ts, ece_ec), (0.2, 0.1, 0.1)),
        "clean error bars of images": {"ece_difference": 0.1 * ece_ts},
        "clean errors of a fit": {"temperature_ts": 0.03 * temperatures[0], "temperature_ec": 0.04 * temperatures[0]},
        "validation only": {"ece": 0.03, "ece_ts": 1.25 * ece_ts, "ece_ec": ece_ec},
    }
    if augmented is not None:
        result["augmented"] = row(temperatures, (0.1, *augmented), (0.2, 0.1, 0.1))
        result["augmented error bars of images"] = {"ece_difference": 0.5 * augmented[0]}
    return result


NOISE = {
    # Reductions of ours: 0.5, five times 0.1, 0.2 and -0.1, the mean is 1.1/8; the second is 0.3 with augmented images.
    "corrupted svhn/resnet20": noisy(0.04, 0.02),
    "corrupted cifar10/resnet20": noisy(0.04, 0.036, augmented=(0.1, 0.07)),
    **{f"corrupted {name}": noisy(0.04, 0.036) for name in MODELS[2:6]},
    "corrupted cifar100/vgg19": noisy(0.05, 0.04, share=0.2),
    "corrupted cifar100/repvgg-a2": noisy(0.04, 0.044),
    "corrupted svhn/resnet20-authors": noisy(0.1, 0.081, temperatures=(2.0, 2.2)),
    # With clean labels the temperatures differ by 1 % on average over these nine; another network is not in the table.
    **{f"precision {name}": precision((1.0, 1.0), (1, 1), [1.0, 0.5], 0.8, 2, 0.01) for name in MODELS[1:]},
    "precision svhn/resnet20": precision((1.0, 1.0), (1, 1), [1.0, 0.5], 0.8, 2, 0.02),
    "precision svhn/resnet20-authors": precision((1.0, 1.0), (1, 1), [1.0, 0.5], 0.8, 2, 0.0),
    "precision cifar10/resnet56-authors": precision((1.0, 1.0), (1, 1), [1.0, 0.5], 0.8, 2, 0.5),
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
    "gaps a/1": {"clean": gaps(0.1, 0.01, -0.35), "noisy": gaps(0.2, 0.1, 0.3)},
    "gaps a/2": {"clean": gaps(0.2, 0.01, 0.01), "noisy": gaps(0.1, 0.04, -0.25)},
    "gaps b/1": {"clean": gaps(0.1, 0.0, 0.04), "noisy": gaps(0.1, 0.03, 0.2)},
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


# Loss and Brier score of three methods on networks with 10 and 100 classes; None has no optimum.
def loss_change(change, error=0.01):
    return {"nll_change": change, "nll_change_se": error}


RELATED_WORK = {
    "baselines cifar10/resnet20": {"vector": loss_change(-0.02), "matrix": loss_change(0.01)},
    "baselines svhn/resnet20": {"vector": loss_change(-0.01), "matrix": loss_change(-0.03)},
    "baselines cifar100/vgg19": {"vector": loss_change(0.02), "matrix": None},
    "posterior logit": [{"loss": 0.001, "brier": 0.002}, {"loss": 0.003, "brier": 0.001}],
    "posterior affine": [{"loss": 0.01, "brier": 0.02}, {"loss": 0.005, "brier": 0.01}],
    "posterior constant": [{"loss": 0.04, "brier": 0.05}],
    "bayesian methods": {
        "dropout": {"nll": 0.5, "nll_ts": 0.4, "ece": 0.02, "ece_ts": 0.01},
        "laplace": {"nll": 0.4, "nll_ts": 0.5, "ece": 0.01, "ece_ts": 0.03},
        "ensemble": {"nll": 0.4, "nll_ts": 0.6, "ece": 0.01, "ece_ts": 0.005},
    },
}


SAME = ((1.0, 1.0), (1.0, 1.0))
REGRESSION = {
    "logit, 1e-4": curve(
        ((2.0, 2.02), (0.6, 0.606)), (0.3, 0.2), (1e-4, 1e-4), ((0.2, 0.02, 0.0199), (0.1, 0.02, 0.0198)), (1e-3, 0.0)
    ),
    # Brier scores that are just tied, and just not; that which differs most is lower after TS.
    "logit, λ_error": curve(SAME, (0.2, 0.1), (1.0, 1.0), ((0.1, 0.02, 0.0199), (0.05, 0.02, 0.0197)), (1e-3, 0.95e-8)),
    "logit, λ_loss": curve(SAME, (0.25, 0.1), (1.0, 1.0), ((0.1, 0.02, 0.0199), (0.05, 0.02, 0.0197)), (-1.5e-3, 1.05e-8)),
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
