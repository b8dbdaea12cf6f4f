"""What nishimori needs of scikit-learn besides its public functions, in one place.

The stub beside this file has the types of the base classes of estimators, which scikit-learn does not publish: type checkers
and editors know what ``get_params`` of a calibrator returns. The other names are not public: a release may move them.
"""

# ruff: noqa: F401 - imported from here

from importlib import import_module

from sklearn.base import BaseEstimator as _BaseEstimator
from sklearn.base import ClassifierMixin, MetaEstimatorMixin, OneToOneFeatureMixin, TransformerMixin
from sklearn.metrics._scorer import _BaseScorer as BaseScorer
from sklearn.utils._set_output import _get_container_adapter as container_adapter
from sklearn.utils.metaestimators import _safe_split as safe_split
from sklearn.utils.validation import _check_method_params as method_params_of_rows

_PUBLIC = ("nishimori", "nishimori.calibrators", "nishimori.multilabel")


class BaseEstimator(_BaseEstimator):
    """With a link to our documentation where scikit-learn shows an estimator as HTML."""

    _doc_link_module = "nishimori"
    _doc_link_template = "https://nishimori-project.github.io/nishimori/api/calibrators/#{path}"

    def _doc_link_url_param_generator(self) -> dict[str, str]:
        name = type(self).__name__
        place = next((place for place in _PUBLIC if name in import_module(place).__all__), _PUBLIC[0])
        return {"path": f"{place}.{name}"}
