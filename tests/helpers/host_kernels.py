"""The kernels of NumPy arrays, as parameters of tests."""

import pytest

from nishimori._kernels import native

WITH_NATIVE = pytest.mark.skipif(not native.is_available(), reason=f"needs the native kernel: {native.library().problem}")
NATIVE = pytest.param("native", marks=WITH_NATIVE)
HOST = ["numpy", NATIVE]
EVERY = [*HOST, "array_api"]
