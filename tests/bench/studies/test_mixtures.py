"""The study of mixtures: its squared-error variant is a minimum, and its tables have a row per network."""

import numpy as np
import pytest
import reference


@pytest.fixture
def mixtures():
    import mixtures

    return mixtures


def test_the_mixture_of_least_squares_has_the_least_squares(mixtures):
    logits, labels = reference.drawn(400, 3)
    labels[:60] = np.arange(60) % 3
    found = mixtures.mixture_by_squares(logits, labels)

    def squares(temperature, weights):
        p = weights[0] * reference.softmax(logits, temperature) + weights[1] * reference.softmax(logits) + weights[2] / 3
        return ((p - np.eye(3)[labels]) ** 2).sum(axis=1).mean()

    least = squares(found.temperature, found.weights)
    corners = [found.weights + 0.05 * (corner - found.weights) for corner in np.eye(3)]
    assert all(squares(found.temperature, each) > least - 1e-9 for each in corners)
    # The temperature is found first, alone.
    alone = [squares(found.temperature * factor, (1, 0, 0)) for factor in (0.9, 1.0, 1.1)]
    assert min(alone) == alone[1]


def test_a_page_has_a_row_per_network_and_the_published_row_only_with_its_data(mixtures):
    lines = [["| a | 1 |", "| a | 2 |"], ["| b | 3 |", "| b | 4 |"]]
    assert [line for line in mixtures.page(lines, []).splitlines() if line.startswith(("| a", "| b"))] == [
        *("| a | 1 |", "| b | 3 |"),
        *("| a | 2 |", "| b | 4 |"),
    ]
    assert "DenseNet-40" not in mixtures.page(lines, [])
    assert mixtures.page(lines, ["| c | 5 |"]).endswith("| c | 5 |\n")
