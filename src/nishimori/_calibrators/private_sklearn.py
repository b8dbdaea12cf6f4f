"""What nishimori needs of scikit-learn besides its public functions, in one place.

The base classes of estimators come with the types that scikit-learn does not publish: type checkers and editors read the
declarations, so that they know what ``get_params`` of a calibrator returns, and programs get scikit-learn's own classes. The
other names are not public: a release may move them.
"""

from typing import TYPE_CHECKING, Any, Self

from sklearn.utils._set_output import _get_container_adapter as container_adapter
from sklearn.utils.metaestimators import _safe_split as safe_split
from sklearn.utils.validation import _check_method_params as method_params_of_rows

if TYPE_CHECKING:

    class BaseEstimator:
        """What every estimator has."""

        def get_params(self, deep: bool = True) -> dict[str, Any]:
            """The parameters of the constructor."""

        def set_params(self, **params: Any) -> Self:
            """Change parameters of the constructor."""

        def get_metadata_routing(self) -> Any:
            """What ``fit`` and others want to be passed on to them."""

        def __sklearn_tags__(self) -> Any: ...
        def __getstate__(self) -> dict[str, Any]: ...
        def __setstate__(self, state: dict[str, Any]) -> None: ...

    class ClassifierMixin:
        """What classifiers have."""

    class MetaEstimatorMixin:
        """What estimators around another one have."""

    class TransformerMixin:
        """What transformers have."""

        def __init_subclass__(cls, auto_wrap_output_keys: tuple[str, ...] | None = ("transform",), **kwargs: Any) -> None: ...

        def fit_transform(self, X: Any, y: Any = None, *args: Any, **fit_params: Any) -> Any:
            """Fit to data, with what `fit` takes, and transform the same data."""

    class OneToOneFeatureMixin:
        """What transformers have that return one column per column."""

        def get_feature_names_out(self: Any, input_features: Any = None) -> Any:
            """The names of the columns that ``transform`` returns."""

else:
    from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, OneToOneFeatureMixin, TransformerMixin

__all__ = [
    "BaseEstimator",
    "ClassifierMixin",
    "MetaEstimatorMixin",
    "OneToOneFeatureMixin",
    "TransformerMixin",
    "container_adapter",
    "method_params_of_rows",
    "safe_split",
]
