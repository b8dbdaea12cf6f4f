"""Corrupted images, compared with SciPy, Pillow, the standard library and moments."""

import colorsys
import io
from itertools import product

import numpy as np
import pytest
from scipy import ndimage, stats

from nishimori.errors import InputError
from nishimori_paper.training._corruptions import cloud, corrupt, defocus_kernel, names

pytest.importorskip("PIL")
from PIL import Image


@pytest.fixture(scope="module")
def photographs():
    """Smooth random images with all values from 0 to 255."""
    rng = np.random.default_rng(0)
    z = ndimage.gaussian_filter(rng.normal(size=(40, 32, 32, 3)), (0, 2, 2, 0.5), mode="wrap")
    z -= z.min(axis=(1, 2, 3), keepdims=True)
    return (255 * z / z.max(axis=(1, 2, 3), keepdims=True)).astype(np.uint8)


def flat(value, n=60):
    return np.full((n, 32, 32, 3), value, dtype=np.uint8)


@pytest.mark.parametrize("kind", names())
def test_severity_changes_images_more_and_more_and_the_seed_decides(kind, photographs):
    found = [corrupt(photographs, kind, severity, seed=3) for severity in (1, 3, 5)]
    away = [np.abs(each.astype(float) - photographs).mean() for each in found]
    assert 0.3 < away[0] < away[1] < away[2] < 80
    assert (corrupt(photographs, kind, 3, seed=3) == found[1]).all()
    is_random = kind in ("gaussian noise", "impulse noise", "fog")
    assert (corrupt(photographs, kind, 3, seed=4) != found[1]).any() == is_random


# The constants of make_cifar_c.py in github.com/hendrycks/robustness.


@pytest.mark.parametrize(("severity", "scale"), list(enumerate((0.04, 0.06, 0.08, 0.09, 0.10), 1)))
def test_gaussian_noise_has_its_moments(severity, scale):
    found = corrupt(flat(128), "gaussian noise", severity).astype(float)
    # Cutting off instead of rounding takes half a unit, and adds the variance of a uniform number.
    assert found.mean() == pytest.approx(127.5, abs=5 * 255 * scale / np.sqrt(found.size))
    assert found.std() == pytest.approx(np.sqrt((255 * scale) ** 2 + 1 / 12), rel=0.01)
    assert abs(stats.kurtosis(found.ravel())) < 0.05
    assert abs(np.corrcoef(found[..., 0].ravel(), found[..., 1].ravel())[0, 1]) < 0.02


@pytest.mark.parametrize(("severity", "share"), list(enumerate((0.01, 0.02, 0.03, 0.05, 0.07), 1)))
def test_impulse_noise_is_half_black_and_half_white(severity, share):
    found = corrupt(flat(100), "impulse noise", severity)
    assert set(np.unique(found)) == {0, 100, 255}
    assert (found == 0).mean() == pytest.approx(share / 2, rel=0.1)
    assert (found == 255).mean() == pytest.approx(share / 2, rel=0.1)


@pytest.mark.parametrize(("severity", "radius", "sigma"), [(1, 0.3, 0.4), (3, 0.5, 0.6), (4, 1, 0.2), (5, 1.5, 0.1)])
def test_defocus_blur_is_a_convolution_with_a_smoothed_disk(severity, radius, sigma, photographs):
    disk = np.array([[float(i * i + j * j <= radius * radius) for j in range(-4, 5)] for i in range(-4, 5)])
    kernel = ndimage.gaussian_filter(disk / disk.sum(), sigma, radius=1, mode="constant")
    found = corrupt(photographs, "defocus blur", severity)
    expected = ndimage.correlate(photographs.astype(float), kernel[None, :, :, None], mode="mirror")
    assert np.abs(found + 0.5 - expected).max() < 0.51
    assert defocus_kernel(radius, sigma).sum() == pytest.approx(1)


@pytest.mark.parametrize(("severity", "more"), list(enumerate((0.05, 0.1, 0.15, 0.2, 0.3), 1)))
def test_brightness_raises_the_value_and_keeps_hue_and_saturation(severity, more, photographs):
    some = photographs[:1, :6, :6].copy()
    some[0, 0, 0] = 0
    padded = flat(0, 1)
    padded[:, :6, :6] = some
    found = corrupt(padded, "brightness", severity)[0]
    for i, j in product(range(6), range(6)):
        h, s, v = colorsys.rgb_to_hsv(*(some[0, i, j] / 255))
        expected = 255 * np.array(colorsys.hsv_to_rgb(h, s, min(v + more, 1)))
        assert np.abs(found[i, j] + 0.5 - expected).max() < 0.51


@pytest.mark.parametrize(("severity", "share"), list(enumerate((0.75, 0.5, 0.4, 0.3, 0.15), 1)))
def test_contrast_shrinks_the_distance_to_the_mean_colour(severity, share, photographs):
    found = corrupt(photographs, "contrast", severity).astype(float)
    expected = np.stack([each.mean(axis=(0, 1)) + share * (each - each.mean(axis=(0, 1))) for each in photographs])
    assert np.abs(found + 0.5 - expected).max() < 0.51


@pytest.mark.parametrize(("severity", "share"), list(enumerate((0.95, 0.9, 0.85, 0.75, 0.65), 1)))
def test_pixelate_is_pillows_box_filter(severity, share, photographs):
    found = corrupt(photographs, "pixelate", severity).astype(int)
    side = int(32 * share)
    resized = [
        Image.fromarray(each).resize((side, side), Image.Resampling.BOX).resize((32, 32), Image.Resampling.BOX)
        for each in photographs
    ]
    assert np.abs(found - np.stack(resized)).max() == 0


@pytest.mark.parametrize(("severity", "quality"), list(enumerate((80, 65, 58, 50, 40), 1)))
def test_jpeg_has_the_tables_of_its_quality(severity, quality, photographs):
    def decoded(image):
        stream = io.BytesIO()
        Image.fromarray(image).save(stream, "JPEG", quality=quality)
        return np.asarray(Image.open(io.BytesIO(stream.getvalue())))

    np.testing.assert_array_equal(corrupt(photographs[:2], "jpeg", severity), [decoded(each) for each in photographs[:2]])


# Fog.


def test_clouds_are_periodic_and_rougher_with_a_smaller_decay():
    rough, smooth = (cloud(300, decay, np.random.default_rng(1)) for decay in (1.75, 3))
    for each in (rough, smooth):
        np.testing.assert_allclose(each.min(axis=(1, 2)), 0)
        np.testing.assert_allclose(each.max(axis=(1, 2)), 1)

    def step(each, axis):
        return np.abs(np.roll(each, -1, axis) - each).mean(axis=0)

    for axis in (1, 2):
        assert step(rough, axis).mean() > 1.2 * step(smooth, axis).mean()
        steps = np.moveaxis(step(smooth, axis), axis - 1, 0).mean(axis=1)
        assert steps[-1] < 1.3 * steps[:-1].mean()  # the last pixel and the first are neighbours


def test_clouds_are_means_of_neighbours_without_noise():
    class Silent:
        """Random numbers at the first scale only."""

        calls = 0

        def uniform(self, low, high, shape):
            self.calls += 1
            assert (low, high) == pytest.approx((-high, high))
            self.highs = [*getattr(self, "highs", []), high]
            return np.arange(np.prod(shape)).reshape(shape) + self.calls if self.calls <= 3 else np.zeros(shape)

    drawn = Silent()
    (found,) = cloud(1, 2.5, drawn)
    np.testing.assert_allclose(drawn.highs, np.repeat(2.5 ** (-2.0 * np.arange(5)), 3))
    # Corners of the coarsest square, its centre, and the middles of its sides; then means.
    value = {(0, 0): 0.0, (16, 16): 1.0, (0, 16): (0 + 0 + 1 + 1) / 4 + 2, (16, 0): (0 + 0 + 1 + 1) / 4 + 3}
    value[8, 8] = np.mean([value[0, 0], value[16, 0], value[0, 16], value[16, 16]])
    value[8, 24] = value[8, 8]
    value[8, 16] = np.mean([value[0, 16], value[16, 16], value[8, 8], value[8, 24]])
    value[0, 8] = np.mean([value[0, 0], value[0, 16], value[8, 8], value[8, 8]])
    lowest, highest = min(value.values()), max(value.values())
    for (i, j), expected in value.items():
        assert found[i, j] == pytest.approx((expected - lowest) / (highest - lowest)), (i, j)


@pytest.mark.parametrize(("severity", "thickness"), [(1, 0.2), (3, 0.75), (5, 1.5)])
def test_fog_adds_clouds_and_keeps_the_brightest_value(severity, thickness):
    black = corrupt(flat(100), "fog", severity).astype(float) / 255
    bright = 100 / 255
    low, high = (bright * (bright + extra) / (bright + thickness) for extra in (0, thickness))
    assert black.min() == pytest.approx(low, abs=1 / 255)
    assert black.max() == pytest.approx(high, abs=1 / 255)


# Refusals.


def test_unknown_kinds_severities_and_shapes_are_refused():
    with pytest.raises(InputError, match="be one of gaussian noise, impulse noise"):
        corrupt(flat(0), "snow", 1)
    for severity in (0, 6):
        with pytest.raises(InputError, match="from 1 to 5"):
            corrupt(flat(0), "fog", severity)
    with pytest.raises(InputError, match="uint8 of shape"):
        corrupt(flat(0).astype(float), "fog", 1)
    with pytest.raises(InputError, match="uint8 of shape"):
        corrupt(flat(0)[:, :16], "fog", 1)
