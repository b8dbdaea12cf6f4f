"""Register methods, maps and metrics that users write, under a name."""

from typing import Any

from nishimori._calibrators.methods import register_method
from nishimori._evaluation.metrics.metric import Metric
from nishimori._evaluation.metrics.table import register_metric
from nishimori.maps.kinds import register_map
from nishimori.maps.map import Map


def register(name: str, target: Any) -> None:
    """Register your own method, map or metric under a name in this process, so that it works like a built-in one.

    Parameters
    ----------
    name : str
        A new name. That of a method is for `calibrator` and the shell's ``--method``. That of a map is what files hold. That of
        a metric is its own attribute ``name``.
    target : Observable, Metric, or subclass of Observable, Calibrator or Map
        An observable is matched by one temperature. A class of calibrators is called with the parameters that `calibrator` is
        given. The constructor of a map takes what its `parameters` hold as keywords, which are plain numbers, texts, and lists
        of them; calibrators with such a map can be saved, and loaded in every process that has registered it, so register it in
        the module that defines it.

    Notes
    -----
    A package adds what it has to every process with entry points in the groups ``nishimori.methods``, ``nishimori.maps`` and
    ``nishimori.metrics``. A file cannot name code: nothing is imported because a file says so.

    Examples
    --------
    >>> import nishimori
    >>> class Logit(nishimori.Observable):
    ...     def values(self, logits):
    ...         return logits
    >>> nishimori.register("logit", Logit())
    >>> nishimori.calibrator("logit").method
    'logit'
    >>> class Hesitation(nishimori.Metric):
    ...     name = "hesitation"
    ...     def of_rows(self, predictions):
    ...         return 1 - predictions.confidence
    >>> nishimori.register("hesitation", Hesitation())
    >>> round(nishimori.metrics.hesitation([[2.0, 0.0]], [0]), 3)
    0.119
    >>> class Cubic(nishimori.Map):
    ...     def __init__(self, scale, cubic):
    ...         self.scale, self.cubic = scale, cubic
    ...     def apply(self, logits, groups=None):
    ...         return self.scale * logits + self.cubic * logits**3
    ...     @property
    ...     def parameters(self):
    ...         return {"scale": self.scale, "cubic": self.cubic}
    >>> nishimori.register("cubic", Cubic)
    >>> fixed = nishimori.calibrators.FixedMap(Cubic(0.5, 0.1)).fit([[4.0, 0.0], [0.0, 4.0]], [0, 0])
    >>> fixed.transform([[2.0, 0.0]]).round(3)
    array([[1.8, 0. ]])
    """
    if isinstance(target, Map) or (isinstance(target, type) and issubclass(target, Map)):
        # An instance in place of the class is refused there.
        register_map(name, target)
    elif isinstance(target, Metric):
        register_metric(name, target)
    else:
        register_method(name, target)
