"""Packages that only some tests need: ``from optional import torch`` instead of ``import torch``.

Where the package is absent, a stand-in takes its place. A test that calls it is skipped, and so is one that gets it as a
parameter, such as ``torch.float32`` in a list of dtypes, or that ends with an ImportError of that package. The other tests run.
"""

import os
import re
from importlib import import_module
from importlib.machinery import PathFinder

import pytest

# The packages beyond nishimori's own dependencies that tests use, by the names of their modules. requirements/test.txt installs
# these, and the Makefile the second distribution of this repository, so no test may be skipped for lack of one of them in
# continuous integration,
REQUIRED = {
    "accelerate",
    "array_api_strict",
    "axe_playwright_python",
    "calibration",
    "check_wheel_contents",
    "dask",
    "distributed",
    "jax",
    "jinja2",
    "lightning",
    "matplotlib",
    "mkdocs",
    "ml_dtypes",
    "mpmath",
    "nishimori_paper",
    "onnx",
    "onnxruntime",
    "onnxscript",
    "pandas",
    "PIL",
    "playwright",
    "polars",
    "pyarrow",
    "safetensors",
    "skl2onnx",
    "tokenizers",
    "torch",
    "torchmetrics",
    "transformers",
    "vl_convert",
    "yaml",
    "zarr",
}
# but not these.
NOT_REQUIRED = {"crepes", "datasets", "evaluate", "lightgbm", "mapie", "mlflow", "openai", "peft", "pyspark", "ray", "shap"}
NOT_REQUIRED |= {"tensorboard", "triton", "wandb", "xgboost"}

# The usual short names, what nishimori itself offers with a package only, and the modules that `import pyarrow` leaves out.
SHORT = {"da": "dask.array", "jnp": "jax.numpy", "nishimori_torch": "nishimori.torch", "pa": "pyarrow", "pd": "pandas"}
SUBMODULES = {"pyarrow": ["feather", "parquet"], "safetensors": ["numpy", "torch"]}


def is_installed(package: str) -> bool:
    # On the path: tests of what is said where a package is missing hide it from `import`.
    return PathFinder.find_spec(package) is not None


def packages_in(reason: str) -> list[str]:
    """Optional packages that the reason of a skip names."""
    return [name for name in REQUIRED | NOT_REQUIRED if re.search(rf"\b{name}\b", reason, re.IGNORECASE)]


class Absent:
    """Stands for a package that is not installed, and for what modules take from it or make with it while they are imported."""

    def __init__(self, name: str):
        self._name = name

    def __repr__(self) -> str:
        return self._name

    def __getattr__(self, name: str) -> "Absent":
        if name.startswith("__"):  # what Python, NumPy and pytest ask of any object
            raise AttributeError(name)
        if name == "dtype" and "PYTEST_CURRENT_TEST" in os.environ:  # what NumPy asks of what is to be a dtype
            self.skip()
        return Absent(f"{self._name}.{name}")

    def __call__(self, *_args, **_options) -> "Absent":
        if "PYTEST_CURRENT_TEST" in os.environ:
            self.skip()
        return self

    __getitem__ = __add__ = __sub__ = __mul__ = __truediv__ = __pow__ = __call__

    def __bool__(self) -> bool:
        return True

    def __mro_entries__(self, _bases) -> tuple[type]:
        return (type(self._name, (), {"__new__": lambda _cls, *_args, **_options: self()}),)

    @property
    def package(self) -> str:
        return self._name.partition(".")[0]

    @property
    def reason(self) -> str:
        return f"needs {self.package}, which is not installed"

    def skip(self, *_args, **_options):
        """Skip the test that runs, or the module that is being imported."""
        pytest.skip(self.reason, allow_module_level=True)

    # What needs an array, a number, a class or a context manager asks this of it.
    __array__ = __enter__ = __float__ = __index__ = __instancecheck__ = __iter__ = __len__ = skip


def skip_for(message: str) -> None:
    """Skip a test if this is what nishimori or Python says where a package is not installed."""
    for ours, pythons in re.findall(r"needs (\w+), which is not installed|No module named '(\w+)", message):
        if not is_installed(ours or pythons):
            Absent(ours or pythons).skip()


def absent_in(value: object) -> Absent | None:
    """The first stand-in in the parameters of a test."""
    if isinstance(value, dict | list | tuple | set):
        found = map(absent_in, value.values() if isinstance(value, dict) else value)
        return next((each for each in found if each is not None), None)
    return value if type(value) is Absent else None


def cast(values, dtype):
    """``values.astype(dtype)`` for a dtype of an optional package."""
    return dtype if type(dtype) is Absent else values.astype(dtype)


def __getattr__(name: str):
    full = SHORT.get(name, name)
    package = full.removeprefix("nishimori.").partition(".")[0]
    if package not in REQUIRED | NOT_REQUIRED:
        raise AttributeError(f"{name!r} is not in the tables of tests/helpers/optional.py")
    if not is_installed(package):
        return Absent(full.removeprefix("nishimori."))
    for each in SUBMODULES.get(package, []):
        if each not in REQUIRED or is_installed(each):  # safetensors.torch needs torch
            import_module(f"{package}.{each}")
    return import_module(full)
