"""Where the compiled library is that comes with nishimori: the kernels in C, and the writing of numbers as text."""

import sys
from pathlib import Path

_NAMES = {"win32": "nishimori.dll", "darwin": "libnishimori.dylib"}

LIBRARY = Path(__file__).parents[1] / "_kernels" / _NAMES.get(sys.platform, "libnishimori.so")
"""The file, which is not there if there was no compiler."""
