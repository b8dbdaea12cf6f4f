"""The palette: every two colours differ clearly, with normal vision and with deuteranopia."""

from itertools import combinations

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from nishimori.plot._style import COLORS, HUES

# Simulation of full deuteranopia in linear RGB: G. M. Machado, M. M. Oliveira and L. A. F. Fernandes, IEEE Trans. Vis. Comput.
# Graph. 15 (2009) 1291, severity 1.0.
DEUTERANOPIA = [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
# The smallest difference allowed, in units of CIEDE2000. Orange and green of matplotlib's colour cycle are at 14.5.
CLEARLY = 15


@pytest.mark.parametrize("vision", [np.eye(3), np.array(DEUTERANOPIA)], ids=["normal", "deuteranopia"])
def test_every_two_colours_differ_clearly_for_every_reader(vision):
    for one, other in combinations([*HUES.values(), "#ffffff"], 2):
        assert difference(lab(one, vision), lab(other, vision)) > CLEARLY, (one, other)


def test_no_colour_has_two_meanings():
    assert len(set(COLORS.values())) == len(COLORS)


def test_orange_and_green_would_be_refused():
    orange, green = (lab(color, np.array(DEUTERANOPIA)) for color in ("#ff7f0e", "#2ca02c"))
    assert difference(orange, green) < CLEARLY


def test_the_difference_of_colours_is_that_of_the_published_table():
    """Pairs 1, 17 and 25 of G. Sharma, W. Wu and E. N. Dalal, Color Res. Appl. 30 (2005) 21."""
    assert difference((50.0, 2.6772, -79.7751), (50.0, 0.0, -82.7485)) == pytest.approx(2.0425, abs=1e-4)
    assert difference((50.0, 2.5, 0.0), (73.0, 25.0, -18.0)) == pytest.approx(27.1492, abs=1e-4)
    assert difference((60.2574, -34.0099, 36.2677), (60.4626, -34.1751, 39.4387)) == pytest.approx(1.2644, abs=1e-4)


def lab(color, vision):
    """CIE Lab of an sRGB colour (white point D65), as seen after ``vision`` in linear RGB."""
    rgb = np.array(to_rgb(color))
    linear = np.clip(vision @ np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4), 0, 1)
    to_xyz = np.array([[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]])
    t = to_xyz @ linear / to_xyz.sum(axis=1)
    x, y, z = np.where(t > (6 / 29) ** 3, np.cbrt(t), t / (3 * (6 / 29) ** 2) + 4 / 29)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def difference(one, other):
    """CIEDE2000, as Sharma, Wu and Dalal write it."""
    (L1, a1, b1), (L2, a2, b2) = one, other
    mean = (np.hypot(a1, b1) + np.hypot(a2, b2)) / 2
    stretch = 1.5 - 0.5 * np.sqrt(mean**7 / (mean**7 + 25**7))
    C1, C2 = np.hypot(stretch * a1, b1), np.hypot(stretch * a2, b2)
    h1, h2 = (np.degrees(np.arctan2(b, stretch * a)) % 360 for a, b in ((a1, b1), (a2, b2)))
    grey = C1 * C2 < 1e-12
    turn = 0.0 if grey else (h2 - h1 + 180) % 360 - 180
    hue = h1 + h2 if grey else h1 + turn / 2
    L, C = (L1 + L2) / 2, (C1 + C2) / 2
    cos = [np.cos(np.radians(angle)) for angle in (hue - 30, 2 * hue, 3 * hue + 6, 4 * hue - 63)]
    T = 1 + np.dot([-0.17, 0.24, 0.32, -0.20], cos)
    dL = (L2 - L1) / (1 + 0.015 * (L - 50) ** 2 / np.sqrt(20 + (L - 50) ** 2))
    dC = (C2 - C1) / (1 + 0.045 * C)
    dH = 2 * np.sqrt(C1 * C2) * np.sin(np.radians(turn / 2)) / (1 + 0.015 * C * T)
    away = ((hue % 360 - 275) / 25) ** 2
    rotation = -2 * np.sqrt(C**7 / (C**7 + 25**7)) * np.sin(np.radians(60 * np.exp(-away)))
    return float(np.sqrt(dL**2 + dC**2 + dH**2 + rotation * dC * dH))
