"""The only module that knows array libraries by name, besides PyTorch, Triton and the reader of .pt files.

All other modules use an array and its `namespace`, and ask this module for what the array API standard does not define: which
inputs are arrays, whether a device supports float64, how to copy to the host, how to compute in half precision, and how many
rows to take at a time.
"""

import sys
from functools import lru_cache, reduce
from itertools import pairwise
from math import isnan, prod
from typing import Any

import array_api_compat
import numpy as np

Array = Any
"""An array of any library; its `namespace` says which."""

HostArray = np.ndarray[Any, Any]
"""A NumPy array."""

# Number of elements and of rows in a block. On a CPU, kernels cut it into pieces that fit the cache; a block is large enough to
# hide the cost of calls. Its rows are few enough for one number per row to stay in the cache, and for BLAS not to start threads
# (from 10,000 on), which wait for each other on a busy machine. On an accelerator 128 MiB of float64 are enough to hide the
# cost of launches.
_HOST_BLOCK = 2**20
_HOST_ROWS = 2**13
_DEVICE_BLOCK = 2**24

# With very many classes these blocks would be a few rows, whose calls cost as much as their arithmetic, and which are too few
# to give all processors of a GPU something to do. So there are at least this many rows in a block as long as it has no more
# than this many elements: of 151,936 classes 27 rows on a CPU (16 MiB of float32), and 441 on an accelerator (256 MiB).
_FEWEST_HOST_ROWS, _LARGEST_HOST_BLOCK = 32, 2**22
_FEWEST_DEVICE_ROWS, _LARGEST_DEVICE_BLOCK = 512, 2**26

# NumPy takes the maximum of many short rows ten times faster by columns.
_FEW_COLUMNS, _MANY_ROWS = 64, 64

_HALF = {"float16", "bfloat16"}

# NumPy has no bfloat16 of its own. Tensors of PyTorch are seen as numbers of 16 bits under this name.
_BFLOAT16 = np.dtype([("bfloat16", np.uint16)])


# Types with values that float64 rounds.
_WIDER = {"int64", "uint64", "longdouble", "float96", "float128"}


def as_array(x: Any) -> Array:
    """``x`` itself if it is an array of a known library (without its gradient), else ``x`` converted to NumPy."""
    if type(x) is np.ndarray:
        return x
    if array_api_compat.is_torch_array(x):
        return x.detach()
    # NumPy's subclasses (masked, matrix, memory-mapped) become plain arrays; masked entries were refused before.
    return x if is_array(x) and not isinstance(x, np.ndarray | np.generic) else np.asarray(x)


def namespace(x: Array) -> Any:
    """The array API functions of the library that ``x`` comes from."""
    # Most arrays are NumPy's, which follows the standard itself since 2.0 in all that is used here. Looking up the library
    # would take longer than the softmax of one row, and `array_api_compat.numpy` imports all of NumPy, with its Fortran tools.
    if type(x) is np.ndarray:
        return np
    if type(x) not in _namespaces:  # PyTorch's compiler follows a dictionary, and warns of `array_api_compat`'s own cache
        _namespaces[type(x)] = array_api_compat.array_namespace(x)
    return _namespaces[type(x)]


_namespaces: dict[type, Any] = {}


def dtype_name(x: Array) -> str:
    """``float32``, ``bfloat16``, ``int64``, ``bool``, ``complex64``, ``str``, ... in the same words for every library."""
    return _numpy_name(x.dtype) if isinstance(x, np.ndarray) else str(x.dtype).rpartition(".")[2]


@lru_cache(maxsize=64)  # turning a dtype into text takes as long as the softmax of one row
def _numpy_name(dtype: "np.dtype[Any]") -> str:
    return "bfloat16" if dtype == _BFLOAT16 else str(dtype.name)


def kind(x: Array) -> str:
    """``float``, ``int``, ``bool``, ``complex``, or ``other`` (text, dates, objects)."""
    return _kind(dtype_name(x))


@lru_cache(maxsize=64)
def _kind(name: str) -> str:
    if name.startswith("bool"):
        return "bool"
    name = name.lstrip("ub")  # uint8 and bfloat16 count with int and float
    return next((k for k in ("float", "int", "complex") if name.startswith(k)), "other")


def is_half(x: Array) -> bool:
    """Whether ``x`` is stored in 16 bits, too few to compute in."""
    return dtype_name(x) in _HALF


def smallest_normal(x: Array) -> float:
    """The smallest positive normal number of the dtype of ``x``."""
    if dtype_name(x) == "bfloat16":
        return float(np.finfo(np.float32).smallest_normal)  # same exponents as float32
    # Sums are in float64, where the smallest long double would be zero.
    return max(float(namespace(x).finfo(x.dtype).smallest_normal), float(np.finfo(np.float64).smallest_normal))


def epsilon(x: Array) -> float:
    """The spacing of the dtype of ``x`` at 1."""
    return 2.0**-7 if dtype_name(x) == "bfloat16" else float(namespace(x).finfo(x.dtype).eps)


def fits_double(x: Array) -> bool:
    """Whether float64 holds every value that the dtype of ``x`` has."""
    return dtype_name(x) not in _WIDER


def _has_double(x: Array) -> bool:
    if array_api_compat.is_torch_array(x):
        return bool(x.device.type != "mps")
    if array_api_compat.is_jax_array(x):
        return bool(sys.modules["jax"].config.jax_enable_x64)
    return True


def flushes(x: Array) -> bool:
    """Whether the library of ``x`` flushes subnormal numbers to zero."""
    return bool(array_api_compat.is_jax_array(x))


def in_double(x: Array) -> Array:
    """``x`` as float64 on its device, or as NumPy on the host if its library or device has no float64."""
    if not _has_double(x):
        return on_host(x).astype(np.float64)
    if isinstance(x, np.ndarray) and x.dtype == _BFLOAT16:
        x = in_single(x)
    xp = namespace(x)
    return xp.astype(x, xp.float64)


def minus_in_double(x: Array, by_row: Array) -> Array:
    """``x`` minus a number per row, both converted by `in_double`; NumPy needs no intermediate table."""
    if isinstance(x, np.ndarray):
        return np.subtract(x, by_row[:, None], dtype=np.float64)
    return in_double(x) - in_double(by_row)[:, None]


def in_single(x: Array) -> Array:
    """``x`` itself if it is float32 or float64, as float32 if it is half precision, else as float64.

    On the host if its library or device has no float64 to sum in.
    """
    x = numpy_view(x) if _has_double(x) else on_host(x)
    if dtype_name(x) in ("float32", "float64"):
        return x
    if not is_half(x):
        return in_double(x)
    if isinstance(x, np.ndarray) and dtype_name(x) == "bfloat16":
        # The upper half of a float32: a shift is many times faster than the conversion of `ml_dtypes`.
        return np.left_shift(x.view(np.uint16), 16, dtype=np.uint32).view(np.float32)
    xp = namespace(x)
    return xp.astype(x, xp.float32)


def is_on_cuda(x: Array) -> bool:
    """Whether ``x`` is a tensor of PyTorch on a CUDA device."""
    return bool(array_api_compat.is_torch_array(x) and x.device.type == "cuda")


def to_compute(x: Array) -> Array:
    """``x`` in the type that its results are computed in: its own, float32 for half precision, float64 for integers."""
    if is_half(x):
        return namespace(x).astype(x, namespace(x).float32)
    return x if kind(x) == "float" else in_double(x)


def to_dtype_of(result: Array, original: Array) -> Array:
    """``result`` in the dtype of ``original``, unless that is an integer type; in its own library, if that has this dtype."""
    if type(result) is not np.ndarray or dtype_name(original) == "bfloat16":
        return like(result, original)
    return result if kind(original) != "float" else result.astype(dtype_name(original), copy=False)


def like(result: Array, original: Array) -> Array:
    """``result`` in the library and dtype of ``original``, unless that is an integer type."""
    if type(result) is np.ndarray and type(original) is not np.ndarray:  # computed on the host
        result = on_device_of(result, original)
    if kind(original) != "float" or dtype_name(result) == dtype_name(original):
        return result
    return namespace(result).astype(result, original.dtype)


def on_host(x: Array) -> HostArray:
    """``x`` as a NumPy array; bfloat16 becomes float32, which holds all of its values."""
    if array_api_compat.is_torch_array(x):
        x = x.detach().cpu()
        return np.asarray(x.float() if dtype_name(x) == "bfloat16" else x)
    if array_api_compat.is_cupy_array(x):
        return np.asarray(x.get())
    host: HostArray = np.asarray(x)
    return in_single(host) if dtype_name(host) == "bfloat16" else host


def on_device_of(values: np.ndarray[Any, Any], x: Array) -> Array:
    """``values``, a NumPy array, as an array of the library and on the device of ``x``."""
    if isinstance(x, np.ndarray):
        return values
    # Some libraries share memory with NumPy and therefore need it writable.
    return namespace(x).asarray(values if values.flags.writeable else values.copy(), device=array_api_compat.device(x))


def ones(n: int) -> HostArray:
    """A float64 one for each of n rows, which together take no memory."""
    return np.broadcast_to(np.float64(1), (n,))


def are_ones(weights: Array) -> bool:
    """Whether these are `ones` or some of them, without looking at each."""
    return isinstance(weights, np.ndarray) and weights.strides == (0,) and len(weights) > 0 and bool(weights[0] == 1)


def rows_at(x: Array, index: Array) -> Array:
    """The rows of ``x`` with the numbers in ``index``, which is a NumPy array or on the device of ``x``."""
    if len(x.shape) > 2:  # NumPy's or PyTorch's
        return x[tuple(on_device_of(axis_index, x) for axis_index in np.unravel_index(on_host(index), x.shape[:-1]))]
    if isinstance(x, np.ndarray):
        return x[index]  # `take` would first copy all rows of a view
    return namespace(x).take(x, on_device_of(index, x) if isinstance(index, np.ndarray) else index, axis=0)


def merge_leading(x: Array) -> Array:
    """``x`` with all dimensions before the last merged, unless that would copy an array of NumPy or PyTorch."""
    if isinstance(x, np.ndarray) or array_api_compat.is_torch_array(x):
        strides = x.strides if isinstance(x, np.ndarray) else x.stride()
        # A dimension of length 1 has any stride.
        dims = [(n, step) for n, step in zip(x.shape[:-1], strides[:-1], strict=True) if n != 1]
        if any(outer != n * inner for (_, outer), (n, inner) in pairwise(dims)):
            return x
    return namespace(x).reshape(x, (prod(x.shape[:-1]), x.shape[-1]))


def rows_between(x: Array, start: int, stop: int) -> Array:
    """Consecutive rows of ``x``, where each position before the last dimension is a row; only these are copied."""
    if len(x.shape) < 3:
        return x[start:stop, ...]
    inner = prod(x.shape[1:-1])
    first, last = start // inner, -(-stop // inner)
    parts = [rows_between(x[i], max(start - i * inner, 0), min(stop - i * inner, inner)) for i in range(first, last)]
    return parts[0] if len(parts) == 1 else namespace(x).concat(parts)


def with_entries(x: Array, columns: Array, value: Any) -> Array:
    """The table ``x`` with ``value``, a number or one per row (n, 1), in one column of each row; it may be ``x`` itself."""
    if isinstance(x, np.ndarray):
        np.put_along_axis(x, columns[:, None], value, axis=1)
        return x
    xp = namespace(x)
    numbers = on_device_of(np.arange(x.shape[1]), x)
    return xp.where(numbers[None, :] == columns[:, None], xp.zeros_like(x) + value, x)


def largest(x: Array, n: int) -> Array:
    """The ``n`` largest entries of each row, in any order."""
    if isinstance(x, np.ndarray):
        return np.partition(x, x.shape[1] - n, axis=1)[:, -n:]
    if array_api_compat.is_torch_array(x):
        return x.topk(n, dim=1, sorted=False).values
    return namespace(x).sort(x, axis=1)[:, -n:]


def at_least(values: Array, least: float) -> Array:
    """The values, those below ``least`` raised to it; NaN stays."""
    xp = namespace(values)
    return xp.where(values < least, xp.full_like(values, least), values)


def row_max(x: Array) -> Array:
    """The largest entry of each row, of shape (n, 1)."""
    if type(x) is not np.ndarray:
        return namespace(x).max(x, axis=1, keepdims=True)
    if x.shape[1] <= _FEW_COLUMNS and x.shape[0] >= _MANY_ROWS:
        return reduce(np.maximum, x.T)[:, None]
    return x.max(axis=1, keepdims=True)  # for one row, twice as fast as `numpy.max`


def row_sum(x: Array) -> Array:
    """The sum of each row, of shape (n, 1)."""
    if type(x) is np.ndarray:
        return x.sum(axis=1, keepdims=True)
    return namespace(x).sum(x, axis=1, keepdims=True)


def row_mean(x: Array) -> Array:
    """The mean of each row, of shape (n, 1)."""
    if type(x) is np.ndarray:
        return x.sum(axis=1, keepdims=True) / x.shape[1]  # for one row, 10 µs faster than `numpy.mean`
    return namespace(x).mean(x, axis=1, keepdims=True)  # one operation of an exported graph


def transposed(x: Array) -> Array:
    """The transposed table; for NumPy, a copy with contiguous rows."""
    return np.ascontiguousarray(x.T) if isinstance(x, np.ndarray) else namespace(x).permute_dims(x, (1, 0))


def is_within(x: Array, largest: float) -> bool:
    """Whether all absolute values are at most ``largest``; False if one is NaN."""
    if isinstance(x, np.ndarray):
        return float(x.min()) >= -largest and float(x.max()) <= largest
    xp = namespace(x)
    # JAX 0.10 loses NaN in the largest of 100,000 numbers, but not in their sum.
    return float(xp.max(xp.abs(x))) <= largest and not isnan(float(xp.sum(x)))


def is_writable(x: Array) -> bool:
    """Whether the library of ``x`` can change the entries of an array that it has made."""
    return type(x) is np.ndarray or not array_api_compat.is_jax_array(x)


def numpy_view(x: Array) -> Array:
    """A tensor of PyTorch on the CPU as NumPy sees it, without a copy except of bfloat16; any other array as it is.

    PyTorch divides each operation among threads and waits for the last of them, which takes 20 times as long beside other busy
    programs when blocks are small.
    """
    if type(x) is np.ndarray or not array_api_compat.is_torch_array(x) or x.device.type != "cpu":
        return x
    return on_host(x)


def shared_numpy_view(x: Array) -> Array:
    """A CPU tensor as NumPy sees it, never a copy: bfloat16 as 16 bits, whose `dtype_name` is still ``bfloat16``."""
    if dtype_name(x) != "bfloat16" or not array_api_compat.is_torch_array(x) or x.device.type != "cpu":
        return numpy_view(x)
    return x.view(sys.modules["torch"].int16).numpy().view(_BFLOAT16)


@lru_cache(maxsize=2)
def half_values(name: str) -> HostArray:
    """The value of each of the 65,536 bit patterns, in float64; ``name`` is the name of the dtype."""
    bits = np.arange(2**16, dtype=np.uint16)
    values: HostArray = bits.view(np.float16) if name == "float16" else in_single(bits.view(_BFLOAT16))
    with np.errstate(invalid="ignore"):  # some kinds of NaN are reported when they are converted
        return values.astype(np.float64)


def with_rows(x: Array, n_rows: int) -> Array:
    """An array like ``x`` with ``n_rows`` rows, whose entries are not set."""
    return namespace(x).empty((n_rows, *x.shape[1:]), dtype=x.dtype, device=array_api_compat.device(x))


def rows_per_block(x: Array, n_classes: int, most_rows: int | None = None) -> int:
    """How many rows to take at a time, so that a block suits its device: the cache of a CPU, the launches of a GPU.

    On a CPU at most ``most_rows``, by default as many as suit a number per row.
    """
    device = "" if isinstance(x, np.ndarray) else str(array_api_compat.device(x)).lower()
    accelerated = any(name in device for name in ("cuda", "gpu", "tpu", "xpu", "mps"))
    if accelerated and _has_double(x):
        few = min(_FEWEST_DEVICE_ROWS, _LARGEST_DEVICE_BLOCK // n_classes)
        return max(1, few, _DEVICE_BLOCK // n_classes)
    few = min(_FEWEST_HOST_ROWS, _LARGEST_HOST_BLOCK // n_classes)
    return max(1, min(max(few, _HOST_BLOCK // n_classes), most_rows or _HOST_ROWS))


def hidden_entries(x: Any) -> str:
    """Why a conversion to NumPy would change what ``x`` means: it is "sparse", "masked" or "without values". Else empty."""
    if type(x) is np.ndarray:
        return ""
    if array_api_compat.is_torch_array(x):
        if x.layout != sys.modules["torch"].strided:
            return "sparse"
        return "without values" if x.is_meta or x.is_nested else ""
    if type(x).__module__.startswith("scipy.sparse"):  # which NumPy would wrap
        return "sparse"
    return "masked" if isinstance(x, np.ma.MaskedArray) and np.ma.is_masked(x) else ""  # imported when it is first named


def is_array(x: Any) -> bool:
    """Whether ``x`` belongs to an array library already."""
    return bool(array_api_compat.is_array_api_obj(x))


def is_lazy(x: Any) -> bool:
    """Whether ``x`` is a Dask array: chunks that are computed on demand, perhaps on other machines."""
    return bool(array_api_compat.is_dask_array(x))
