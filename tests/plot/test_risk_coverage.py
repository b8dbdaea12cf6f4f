"""The picture of risk and coverage draws the numbers of the threshold."""

import numpy as np
import pytest
from matplotlib.figure import Figure
from stated import stated

import nishimori
from nishimori import claims
from nishimori.errors import InputError


def test_it_draws_the_curve_and_the_certified_point():
    found = nishimori.threshold(claims(*stated(5000)), max_risk=0.25)
    axes = Figure().subplots()
    ax = nishimori.plot.risk_coverage(found, ax=axes)
    assert ax is axes
    curve, bound, point = ax.get_lines()
    np.testing.assert_array_equal(np.column_stack(curve.get_data()), found.curve[:, 1:])
    assert set(bound.get_ydata()) == {0.25}
    assert (point.get_xdata()[0], point.get_ydata()[0]) == (found.coverage, found.risk)


def test_without_a_certificate_there_is_no_point():
    ax = nishimori.plot.risk_coverage(nishimori.threshold(claims(*stated(5000))), ax=Figure().subplots())
    assert len(ax.get_lines()) == 2
    with pytest.raises(InputError, match="`threshold` must be a Threshold"):
        nishimori.plot.risk_coverage(0.9)
