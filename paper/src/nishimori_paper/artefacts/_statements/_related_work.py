"""Statements of the related work: vector and matrix scaling, and Bayesian methods, compared with TS.

Bayesian methods need training, or features of the training images. Their test losses and ECEs on ResNet20 and CIFAR-10 are in
``bayesian.toml``, which says how each was measured.
"""

import tomllib
from collections.abc import Callable, Mapping
from functools import partial
from importlib.resources import files
from typing import Any

from nishimori_paper._artefact import Pieces, Scale
from nishimori_paper.artefacts._rows import networks_of_tables
from nishimori_paper.artefacts._statements._chance import any_wrong_sign, in_words
from nishimori_paper.artefacts._statements._statement import Group, Numbers, Statement
from nishimori_paper.artefacts._table_baselines import baseline_scores, worse
from nishimori_paper.theory import bayes_optimal, optimal_penalty, state_evolution

_TEACHERS = ("logit", "affine", "constant")
_ALPHAS = (1.0, 3.0, 10.0, 20.0)
_AFFINE_MAPS = ("vector", "matrix")
# A loss and a Brier score that exceed those of the posterior by less, in relation to them, are competitive.
_COMPETITIVE = 0.01
_PREFIX = "baselines "
_BAYESIAN = ("dropout", "laplace", "ensemble")
# Of these, one network is all that is needed, as for TS.
_OF_ONE_NETWORK = ("dropout", "laplace")


def _pieces(scale: Scale) -> Mapping[str, Callable[[], Any]]:
    return {
        **{f"{_PREFIX}{name}": partial(baseline_scores, name, scale) for name in networks_of_tables()},
        **{f"posterior {teacher}": partial(_excess, teacher) for teacher in _TEACHERS},
        "bayesian methods": _of_networks,
    }


def _of_networks() -> dict[str, dict[str, float]]:
    """Test loss and ECE of Bayesian methods, and of TS instead."""
    content = tomllib.loads(files("nishimori_paper").joinpath("bayesian.toml").read_text(encoding="utf-8"))
    return {name: content[name] for name in _BAYESIAN}


def _excess(teacher: str) -> list[dict[str, float]]:
    """By what share loss and Brier score of logistic regression after TS exceed those of the posterior mean, at λ_loss."""
    rows = []
    for alpha in _ALPHAS:
        best = bayes_optimal(teacher, alpha)
        theory = state_evolution(teacher, alpha, optimal_penalty(teacher, alpha, minimise="loss"))
        T = theory.temperature_ts
        rows.append({"loss": theory.loss(T) / best.loss - 1, "brier": theory.brier(T) / best.brier - 1})
    return rows


def numbers(done: Pieces) -> Numbers:
    """The numbers that decide."""
    contents = {key.removeprefix(_PREFIX): value for key, value in done.items() if key.startswith(_PREFIX)}
    few, many = ({name: worse(contents, name, n_classes) for name in _AFFINE_MAPS} for n_classes in (10, 100))
    changes = [content[name] for content in contents.values() for name in _AFFINE_MAPS if content[name] is not None]
    excess = {teacher: max(max(row.values()) for row in done[f"posterior {teacher}"]) for teacher in _TEACHERS}
    networks = done["bayesian methods"]
    return {
        **{f"excess_{name}": networks[name]["nll_ts"] / networks[name]["nll"] - 1 for name in _BAYESIAN},
        **{f"ece_{name}": 100 * (networks[name]["ece_ts"] - networks[name]["ece"]) for name in _BAYESIAN},
        "n_few": few["vector"]["of"],
        "n_many": many["vector"]["of"],
        **{f"{name}_higher_few": few[name]["higher"] for name in _AFFINE_MAPS},
        **{f"{name}_higher_many": many[name]["higher"] for name in _AFFINE_MAPS},
        **{f"{name}_none_few": few[name]["none"] for name in _AFFINE_MAPS},
        **{f"{name}_none_many": many[name]["none"] for name in _AFFINE_MAPS},
        "order_fails": in_words(
            any_wrong_sign([abs(change["nll_change"]) for change in changes], [change["nll_change_se"] for change in changes])
        ),
        "excess_logit": excess["logit"],
        "excess_others": max(excess[teacher] for teacher in _TEACHERS if teacher != "logit"),
    }


def _is_worse(numbers: Numbers, which: str) -> bool:
    """Whether both maps have a higher loss than TS, or no optimum, on all networks with few or many classes."""
    return all(
        numbers[f"{name}_higher_{which}"] + numbers[f"{name}_none_{which}"] == numbers[f"n_{which}"] for name in _AFFINE_MAPS
    )


STATEMENTS = (
    Statement(
        "TS and Bayesian approaches",
        "1",
        "in some settings, TS is competitive with much more costly Bayesian approaches in terms of uncertainty quantification",
        "loss and Brier score after TS exceed those of the Bayes-optimal predictor by less than 1 %, for logistic regression "
        "with the penalty of least loss (theory; three teachers, α = 1 to 20), and on ResNet20 with CIFAR-10 the loss after TS "
        "exceeds by less than 1 % those of dropout (20 passes), of a Laplace approximation of the last layer, and of an "
        "ensemble of five networks",
        "theory: by {excess_logit:.4%} at most for the logit teacher, by up to {excess_others:.0%} for the others. Networks: "
        "the loss after TS is that of dropout {excess_dropout:+.1%}, of Laplace {excess_laplace:+.1%} (of four variants that "
        "of least test loss) and of the ensemble {excess_ensemble:+.0%}; the ECE is theirs {ece_dropout:+.2f}, "
        "{ece_laplace:+.2f} and {ece_ensemble:+.2f} points",
        lambda n: max(n["excess_logit"], n["excess_others"], *(n[f"excess_{name}"] for name in _BAYESIAN)) < _COMPETITIVE,
        "if the model is well specified, and on a network against what takes no other networks; five networks have the lower "
        "loss",
        lambda n: max(n["excess_logit"], *(n[f"excess_{name}"] for name in _OF_ONE_NETWORK)) < _COMPETITIVE,
    ),
    Statement(
        "vector and matrix scaling",
        "3",
        "Despite being more general, matrix and vector scaling have been observed [...] to perform worse than TS",
        "without penalties, as there, both have a higher test loss than TS, or no optimum, on every network",
        "10 classes: vector scaling has a higher loss on {vector_higher_few} of {n_few} networks and matrix scaling on "
        "{matrix_higher_few}. 100 classes: vector scaling on {vector_higher_many} of {n_many}, and matrix scaling has no "
        "optimum on {matrix_none_many}",
        lambda n: _is_worse(n, "few") and _is_worse(n, "many"),
        "with 100 classes, where 5,000 validation images are 50 per class. With 10 classes, or with penalties, they are "
        "better on these networks (table-baselines)",
        lambda n: _is_worse(n, "many"),
        chance="on other test images the order of some pair would be another with probability {order_fails}",
    ),
)

GROUP = Group(_pieces, numbers, STATEMENTS)
