"""Numbers as text: the digits of Python's repr, in C and without it."""

import numpy as np
import pytest

from nishimori._files.tables import decimals
from nishimori._files.tables.decimals import Place, rows_of_text

RNG = np.random.default_rng(0)
RANDOM = RNG.integers(0, 2**64, 100_000, dtype=np.uint64).view(np.float64)
NUMBERS = {
    "any bits": RANDOM[np.isfinite(RANDOM)],
    "subnormal numbers": RNG.integers(0, 2**52, 20_000, dtype=np.uint64).view(np.float64),
    "probabilities": np.exp(-40 * RNG.random(100_000)),
    "few digits": np.round(RNG.normal(size=50_000), 3),
    "powers of two": np.concatenate([s * 2.0 ** np.arange(-1074, 1024) for s in (1, -1, 1 - 2**-53, 1 + 2**-52)]),
    "powers of ten": np.array([float(f"{digit}e{power}") for power in range(-323, 309) for digit in (1, 5, 9)][:-2]),
    "whole numbers": np.concatenate([np.arange(-1000, 1000), 2.0**53 + np.arange(-500, 500), 10.0 ** np.arange(23)]),
    "ends": np.array([0.0, -0.0, 5e-324, 1.7976931348623157e308, 9999999999999998.0, 1e16, 1e-4, 9.999e-5, 0.1 + 0.2]),
}


@pytest.fixture(params=["C", "Python"])
def compiled(request, monkeypatch):
    """Both ways; the first where the library was compiled."""
    if request.param == "Python":
        monkeypatch.setattr(decimals, "_function", lambda: None)
    elif decimals._function() is None:
        pytest.skip("without a C compiler")


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("kind", NUMBERS)
def test_numbers_are_written_as_python_writes_them(kind):
    numbers = NUMBERS[kind]
    written = bytes(rows_of_text(len(numbers), [Place(b"", numbers)], b"\n")).decode().split("\n")
    assert written == [*map(repr, numbers.tolist()), ""]


@pytest.mark.usefixtures("compiled")
def test_rows_hold_numbers_and_texts_in_order():
    table = RNG.normal(size=(50, 4))
    texts = ["", "é", "a longer text"] * 16 + ["x", ""]
    places = [Place(b"{", table[:, 2]), Place(b": ", texts=[text.encode() for text in texts]), Place(b"", table[:, 0])]
    written = bytes(rows_of_text(50, places, b"}\r\n", ",")).decode()
    expected = [f"{{{row[2]!r}: {text}{row[0]!r}}}\r\n" for row, text in zip(table.tolist(), texts, strict=True)]
    assert written == "".join(line.replace(".", ",") for line in expected)


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_numbers_of_less_precision_are_written_as_python_reads_them(dtype):
    numbers = RNG.normal(size=1000).astype(dtype)
    written = bytes(rows_of_text(1000, [Place(b"", numbers)], b"\n")).decode().split()
    assert written == list(map(repr, numbers.tolist()))
