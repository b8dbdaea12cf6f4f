"""Calibrated logits as a data frame, where `set_output` or scikit-learn's configuration asks for one."""

from collections.abc import Callable
from numbers import Real
from typing import Any

from nishimori._support import arrays
from nishimori._support.arrays import Array, HostArray
from nishimori._support.sklearn import container_adapter


def in_data_frame(found: Array, X: Any, estimator: Any, names: Callable[[], HostArray]) -> Any:
    """``found``, what ``estimator`` makes of ``X``, in the kind of data frame that it is set to; as it is by default.

    scikit-learn's own wrapper asks the estimator for the names of the columns. It does not know that a flat array of binary
    scores gives one column, so ``names`` are passed here.
    """
    adapter = container_adapter("transform", estimator)
    if adapter is None:
        return found
    table = X.to_frame() if hasattr(X, "to_frame") else X  # scikit-learn 1.6 takes the index of tables only, not of one column
    host = arrays.on_host(found)
    rows = host if host.ndim < 3 else host.reshape(-1, host.shape[-1])
    return adapter.create_container(rows, table, columns=names())


def is_flat(X: Any) -> bool:
    """Whether ``X`` is one number per sample, as far as it can be told without reading it: files and loaders are not flat."""
    if isinstance(X, list | tuple):
        return bool(X) and isinstance(X[0], Real)
    return len(getattr(X, "shape", ())) == 1
