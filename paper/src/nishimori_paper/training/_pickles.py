"""Pickled dictionaries of lists and arrays, read without unpickling.

A pickle is a list of instructions. An unpickler follows all of them, calls what they name, and gives them memory to fill. Here
only those that build numbers, text, tuples, lists and dictionaries are followed. A NumPy array stays the description of one
until it is asked for, and then becomes a view of the bytes in the file.
"""

import pickletools
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from nishimori._support.arrays import HostArray
from nishimori.errors import FormatError

_ARRAY, _DTYPE, _CLASS = object(), object(), object()
# Python 2 and NumPy 1 wrote the first name of the function that makes arrays.
_NEEDED = {
    "numpy.core.multiarray _reconstruct": _ARRAY,
    "numpy._core.multiarray _reconstruct": _ARRAY,
    "numpy ndarray": _CLASS,
    "numpy dtype": _DTYPE,
}
_NUMBERS = {f"{kind}{size}" for kind in "iuf" for size in (1, 2, 4, 8)} - {"f1"}

_NOTHING = {"PROTO", "FRAME"}
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
_NUMBERS_AND_TEXT = {
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
    *("STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
    *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
}
_PUT, _GET = {"PUT", "BINPUT", "LONG_BINPUT"}, {"GET", "BINGET", "LONG_BINGET"}
_LAST = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


@dataclass
class PickledArray:
    """The description of an array; it gets its state after it was made, as in the pickle."""

    state: Any = None

    def array(self) -> HostArray:
        """The array of numbers that is described."""
        _, shape, dtype, transposed, content = self.state
        code = dtype.code
        if code not in _NUMBERS or dtype.order not in ("|", "<", ">", "="):
            raise FormatError(f"it has an array of dtype {code!r}, not of numbers")
        numbers = np.dtype(dtype.order + code)
        data = content.encode("latin-1") if isinstance(content, str) else bytes(content)
        if prod(shape) * numbers.itemsize != len(data) or any(length < 0 for length in shape):
            raise FormatError(f"it has an array of shape {shape} with {len(data)} bytes")
        return np.frombuffer(data, numbers).reshape(shape, order="F" if transposed else "C")


@dataclass
class _PickledDtype:
    code: str
    state: Any = None

    @property
    def order(self) -> Any:
        return self.state[1]


def read(content: bytes) -> Any:
    """The content of a pickle; arrays are `PickledArray`. Anything else is refused."""
    machine = _Machine()
    for code, argument, _ in pickletools.genops(content):
        if code.name == "STOP":
            break
        machine.follow(code.name, argument)
    return machine.stack.pop()


class _Machine:
    """The values that the instructions have made so far."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}

    def follow(self, code: str, argument: Any) -> None:
        if code in _CONSTANTS:
            self.stack.append(_CONSTANTS[code])
        elif code in _NUMBERS_AND_TEXT:
            self.stack.append(argument)
        elif code in _PUT:
            self.memo[argument] = self.stack[-1]
        elif code in _GET:
            self.stack.append(self.memo[argument])
        elif code == "MEMOIZE":
            self.memo[len(self.memo)] = self.stack[-1]
        elif code == "MARK":
            self.marks.append(len(self.stack))
        elif code in _LAST:
            self.stack.append(tuple(self._above(len(self.stack) - _LAST[code])))
        elif code == "GLOBAL":
            self._name(argument)
        elif code == "STACK_GLOBAL":
            self._name(" ".join(self._above(len(self.stack) - 2)))
        elif code not in _NOTHING:
            self._container(code)

    def _container(self, code: str) -> None:
        match code:
            case "EMPTY_LIST":
                self.stack.append([])
            case "EMPTY_DICT":
                self.stack.append({})
            case "TUPLE":
                self.stack.append(tuple(self._above(self.marks.pop())))
            case "LIST":
                self.stack.append(self._above(self.marks.pop()))
            case "DICT":
                self.stack.append(_dict_of_pairs(self._above(self.marks.pop())))
            case "APPEND":
                (value,) = self._above(len(self.stack) - 1)
                _expect(self.stack[-1], list).append(value)
            case "APPENDS":
                values = self._above(self.marks.pop())
                _expect(self.stack[-1], list).extend(values)
            case "SETITEM":
                values = self._above(len(self.stack) - 2)
                _expect(self.stack[-1], dict).update(_dict_of_pairs(values))
            case "SETITEMS":
                values = self._above(self.marks.pop())
                _expect(self.stack[-1], dict).update(_dict_of_pairs(values))
            case "REDUCE":
                self.stack.append(_call_result(*self._above(len(self.stack) - 2)))
            case "BUILD":
                (state,) = self._above(len(self.stack) - 1)
                _expect(self.stack[-1], PickledArray | _PickledDtype).state = state
            case _:
                raise FormatError(f"it has the instruction {code}, which is not needed for numbers and text")

    def _above(self, height: int) -> list[Any]:
        """Remove everything above that height from the stack."""
        if not 0 <= height <= len(self.stack):
            raise FormatError("it takes more values than it has made")
        taken = self.stack[height:]
        del self.stack[height:]
        return taken

    def _name(self, name: str) -> None:
        if name not in _NEEDED:
            raise FormatError(f"it refers to {'.'.join(name.split())}, which no batch needs")
        self.stack.append(_NEEDED[name])


def _call_result(function: Any, arguments: Any) -> PickledArray | _PickledDtype:
    """The result of a call; only two functions are known, and both return descriptions."""
    if function is _ARRAY:
        return PickledArray()
    if function is _DTYPE and isinstance(arguments[0], str):
        return _PickledDtype(arguments[0])
    raise FormatError("it calls something that does not make an array")


def _dict_of_pairs(values: list[Any]) -> dict[str, Any]:
    keys = values[::2]
    if len(values) % 2 or not all(isinstance(key, str) for key in keys):
        raise FormatError("it has names that are not text")
    return dict(zip(keys, values[1::2], strict=True))


def _expect(value: Any, kind: Any) -> Any:
    if not isinstance(value, kind):
        raise FormatError("it changes a value that cannot be changed")
    return value
