"""The names of scikit-learn that are not public, in one place: a release may move them."""

from sklearn.utils._set_output import _get_container_adapter as container_adapter
from sklearn.utils.metaestimators import _safe_split as safe_split
from sklearn.utils.validation import _check_method_params as method_params_of_rows

__all__ = ["container_adapter", "method_params_of_rows", "safe_split"]
