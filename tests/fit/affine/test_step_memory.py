"""The memory of L-BFGS: it knows the curvature along the steps that were taken, also after penalties have changed."""

import numpy as np
import pytest

from nishimori._fit.affine.step_memory import StepMemory

RNG = np.random.default_rng(0)
TABLE = RNG.normal(size=(6, 9))
CURVATURE = TABLE @ TABLE.T + np.eye(6)


def filled(number):
    """A memory of random steps in a quadratic loss without penalties, and the steps."""
    memory, steps = StepMemory(np.zeros(6)), RNG.normal(size=(number, 6))
    for step in steps:
        memory.add(step, CURVATURE @ step)
    return memory, steps


def test_the_last_step_follows_from_its_change_of_the_gradient():
    memory, steps = filled(3)
    found = memory.step_from(CURVATURE @ steps[-1], lambda gradient: 0.1 * gradient)
    np.testing.assert_allclose(found, -steps[-1], rtol=1e-4)


def test_a_changed_penalty_is_known_along_the_steps():
    memory, steps = filled(3)
    penalties = np.array([0.0, 5.0, 5.0, 2.0, 2.0, 30.0])
    memory.set_penalties(penalties)
    found = memory.step_from((CURVATURE + np.diag(penalties)) @ steps[-1], lambda gradient: 0.1 * gradient)
    np.testing.assert_allclose(found, -steps[-1], rtol=1e-4)


def test_searching_along_its_steps_finds_the_minimum_of_a_quadratic_loss():
    memory, target = StepMemory(np.zeros(6)), RNG.normal(size=6)
    theta = np.zeros(6)
    for _ in range(12):
        gradient = CURVATURE @ (theta - target)
        step = memory.step_from(gradient, lambda each: each / np.diag(CURVATURE))
        step *= -(gradient @ step) / (step @ CURVATURE @ step)
        memory.add(step, CURVATURE @ step)
        theta = theta + step
        if np.abs(theta - target).max() < 1e-5:
            break
    np.testing.assert_allclose(theta, target, atol=1e-5)


def test_a_step_along_which_the_gradient_does_not_change_is_not_kept():
    memory = StepMemory(np.zeros(2))
    memory.add(np.array([1.0, 0.0]), np.array([0.0, 1.0]))
    assert memory.step_from(np.array([3.0, 4.0]), lambda gradient: gradient) == pytest.approx([-3, -4])
