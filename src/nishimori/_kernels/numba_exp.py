"""What Numba lacks for the loops of its kernel: instructions with vectors, and an exponential that vectors can compute."""

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic, overload

# Sums may be added in any order and a product may be fused with a sum. Infinities are data (masked classes) and stay exact.
REORDER = {"reassoc", "contract", "nsz"}


def _digest() -> str:
    """A name for the present state of all compiled files."""
    files = sorted(Path(__file__).parent.glob("_numba_*.py"))
    return sha256(b"".join(each.read_bytes() for each in files)).hexdigest()[:8]


# Numba's cache on disk notices a change of the file that a function is in, but not of other files whose functions it calls.
# The cache goes by the name of the function, so the names follow the content of all files.
_STATE = _digest()


def compiled_function(**options: Any) -> Callable[[Any], Any]:
    """`numba.njit` without the global lock, cached on disk where some folder can be written."""
    options = {"nogil": True, "error_model": "numpy", **options}  # Python's check for division by zero prevents vectors

    def compiled(function: Any) -> Any:
        function.__qualname__ += f"_{_STATE}"
        try:
            return njit(cache=True, **options)(function)
        except RuntimeError:  # neither the folder of this file nor the user's cache folder can be written
            return njit(**options)(function)

    return compiled


def _llvm(name: str, n_arguments: int, *flags: str) -> Any:
    """A function of ``n_arguments`` floats that is one LLVM instruction."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = context.get_value_type(signature.return_type)
        full_name = f"llvm.{name}.f{signature.return_type.bitwidth}"
        known = builder.module.globals.get(full_name)
        function = known or ir.Function(builder.module, ir.FunctionType(kind, [kind] * n_arguments), full_name)
        return builder.call(function, arguments, fastmath=flags)

    return codegen


def _fma(typing: Any, a: Any, b: Any, c: Any) -> Any:  # noqa: ARG001
    """``a * b + c``, with one rounding where the processor can."""
    return a(a, a, a), _llvm("fmuladd", 3)


def _larger(typing: Any, a: Any, b: Any) -> Any:  # noqa: ARG001
    """The larger of two numbers. A plain comparison would be compiled so that NaN is respected, which prevents vectors."""
    return a(a, a), _llvm("maxnum", 2, "nnan", "nsz")


def _vector_loops(typing: Any) -> Any:  # noqa: ARG001
    """Let the calling function use vectors of 512 bits, and compile it once.

    LLVM prefers 256 bits on most processors that have both. Copies inside other functions would be compiled again, and slower.
    """

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        # llvmlite knows no attributes with values, but writes what the set holds.
        set.add(builder.function.attributes, '"prefer-vector-width"="512"')
        builder.function.attributes.add("noinline")
        return context.get_dummy_value()

    return types.none(), codegen


fma: Any = intrinsic(_fma)
larger: Any = intrinsic(_larger)
vector_loops: Any = intrinsic(_vector_loops)


# --- exp -------------------------------------------------------------------------------------------------------------------
# exp(β d) = 2^(n + r) with n an integer and |r| <= 1/2. Adding 1.5·2^23 (float32) or 1.5·2^52 (float64) to a number rounds it
# to an integer, which then stands in the low bits; shifted to the place of the exponent, those bits are a power of two.
# The integer is n + offset, so that n = -offset gives the bits of zero and the weight is exactly 0. Smaller n are prevented by
# the caller. With the usual offset (127, 1023) the smallest weights would be subnormal, which takes 100 times as long:
# the offset is smaller by 2, and the polynomial is that of 4·2^r.

OFFSET = {np.dtype(np.float32): 125, np.dtype(np.float64): 1021}
_ROUND32 = np.float32(1.5 * 2**23 + 125)
_ROUND64 = np.float64(1.5 * 2**52 + 1021)

# Fits of 4·2^r, lowest power first. The first is a least-squares fit of the relative error in which each coefficient was
# rounded to float32 before the next was fitted, so that the mean error over every quarter of the interval stays below 1e-9.
_POLY32 = tuple(map(np.float32, (4.0, 2.7725887, 0.96090585, 0.22201471, 0.03847491, 0.005354798, 0.00061002915)))
_POLY64 = (
    4.0,
    2.772588722239781,
    0.9609060278364039,
    0.2220164346592864,
    0.03847251643042755,
    0.005333423258566774,
    0.000616141217669442,
    6.101093531934448e-05,
    5.286177035168676e-06,
    4.0712249783383095e-07,
    2.8290343797076894e-08,
    1.7819842392746074e-09,
)


def exp2(y: float, high: float, low: float) -> float:
    """``2**(y * (high + low))`` for compiled functions, where the exponent lies between -offset and 0."""
    raise NotImplementedError


# Not fused or reordered: n would be lost in the sum that rounds it.
@overload(exp2, jit_options={"fastmath": False})
def _exp_of_type(y: Any, high: Any, low: Any) -> Any:  # noqa: ARG001
    return _exp32 if y == types.float32 else _exp64


def _exp32(y: Any, high: Any, low: Any) -> Any:
    shifted = fma(y, high, _ROUND32)
    n = shifted - _ROUND32
    r = fma(y, low, fma(y, high, -n))
    p = _POLY32[6]
    p = fma(p, r, _POLY32[5])
    p = fma(p, r, _POLY32[4])
    p = fma(p, r, _POLY32[3])
    p = fma(p, r, _POLY32[2])
    p = fma(p, r, _POLY32[1])
    p = fma(p, r, _POLY32[0])
    return p * np.int32(np.float32(shifted).view(np.int32) << 23).view(np.float32)


def _exp64(y: Any, high: Any, low: Any) -> Any:
    shifted = fma(y, high, _ROUND64)
    n = shifted - _ROUND64
    r = fma(y, low, fma(y, high, -n))
    p = _POLY64[11]
    p = fma(p, r, _POLY64[10])
    p = fma(p, r, _POLY64[9])
    p = fma(p, r, _POLY64[8])
    p = fma(p, r, _POLY64[7])
    p = fma(p, r, _POLY64[6])
    p = fma(p, r, _POLY64[5])
    p = fma(p, r, _POLY64[4])
    p = fma(p, r, _POLY64[3])
    p = fma(p, r, _POLY64[2])
    p = fma(p, r, _POLY64[1])
    p = fma(p, r, _POLY64[0])
    return p * np.int64(np.float64(shifted).view(np.int64) << 52).view(np.float64)
