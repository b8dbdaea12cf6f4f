"""What nishimori needs of scikit-learn besides its public functions, in one place.

The stub beside this file has the types of the base classes of estimators, which scikit-learn does not publish: type checkers
and editors know what ``get_params`` of a calibrator returns. The other names are not public: a release may move them.
"""

# ruff: noqa: F401 - imported from here

from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, OneToOneFeatureMixin, TransformerMixin
from sklearn.metrics._scorer import _BaseScorer as BaseScorer
from sklearn.utils._set_output import _get_container_adapter as container_adapter
from sklearn.utils.metaestimators import _safe_split as safe_split
from sklearn.utils.validation import _check_method_params as method_params_of_rows
