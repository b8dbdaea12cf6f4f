from typing import Any, Self

BaseScorer: Any
container_adapter: Any
method_params_of_rows: Any
safe_split: Any

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
