"""Calibration in a model with an exact solution: logistic regression and Bayesian inference in high dimension.

Samples x ~ N(0, I/d) are labelled by a teacher, P(y = +1 | x) = σ*(w*·x / T*), and n = αd of them are used for training. For
d → ∞ every metric of the classifier, and both its temperatures, follow from a few numbers that solve a few equations.
"""

from nishimori_paper.theory._bayes import BayesOptimal, BayesTemperatures, bayes_optimal, bayes_temperatures
from nishimori_paper.theory._expectation_maximisation import ExpectationMaximisation, expectation_maximisation
from nishimori_paper.theory._experiments import Estimate, Experiments
from nishimori_paper.theory._gamp import Gamp, gamp
from nishimori_paper.theory._linear_score import AtomDensity, LinearScore, Overlaps
from nishimori_paper.theory._logistic_regression import logistic_regression
from nishimori_paper.theory._optimal_penalty import optimal_penalty
from nishimori_paper.theory._plan import Plan, plan
from nishimori_paper.theory._posterior import Posterior
from nishimori_paper.theory._separability import separability
from nishimori_paper.theory._simulation import simulate, simulate_bayes, simulate_em
from nishimori_paper.theory._state_evolution import StateEvolution, plain_iterations, state_evolution, sweep
from nishimori_paper.theory._teachers import TEACHERS, Affine, Atom, Averages, Constant, Logit, Probit, Teacher

__all__ = [
    "TEACHERS",
    "Affine",
    "Atom",
    "AtomDensity",
    "Averages",
    "BayesOptimal",
    "BayesTemperatures",
    "Constant",
    "Estimate",
    "ExpectationMaximisation",
    "Experiments",
    "Gamp",
    "LinearScore",
    "Logit",
    "Overlaps",
    "Plan",
    "Posterior",
    "Probit",
    "StateEvolution",
    "Teacher",
    "bayes_optimal",
    "bayes_temperatures",
    "expectation_maximisation",
    "gamp",
    "logistic_regression",
    "optimal_penalty",
    "plain_iterations",
    "plan",
    "separability",
    "simulate",
    "simulate_bayes",
    "simulate_em",
    "state_evolution",
    "sweep",
]
