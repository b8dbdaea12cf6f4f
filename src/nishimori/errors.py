"""Every error and warning that nishimori raises on purpose.

::

    NishimoriError (ValueError)
    ├── InputError            an argument is not what it must be
    │   └── NoRowsError       there is no row of positive weight
    ├── NoTemperatureError    no finite positive temperature satisfies the condition asked for
    ├── NotConvergedError     a search ended before its result was precise enough
    ├── MergeError            two sums cannot be added, because they are of different things
    └── FormatError           a file is damaged, of another kind, or newer than this library

    InputWarning (UserWarning)        the data can be used, but may not be what was meant
    FewErrorsWarning (UserWarning)    few samples decide the temperature, so it is uncertain

All errors are `ValueError`, so code that catches scikit-learn's errors catches them too.
"""


class NishimoriError(ValueError):
    """Base class of all errors below."""


class InputError(NishimoriError):
    """An argument is not what it must be; the message names it and says what to do."""


class NoRowsError(InputError):
    """The data have no row of positive weight."""


class NoTemperatureError(NishimoriError):
    """No finite positive temperature satisfies the condition asked for.

    Attributes
    ----------
    end : {"cold", "hot", "flat"}
        Where the condition would hold: "cold" only in the limit T → 0, "hot" only in the limit T → ∞. "flat": T has no effect,
        because all logits of each row are equal.
    """

    def __init__(self, message: str, *, end: str) -> None:
        super().__init__(message)
        self.end = end

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (str(self), self.end))


def _rebuild(message: str, end: str) -> NoTemperatureError:
    # The default pickling of exceptions loses keyword-only arguments.
    return NoTemperatureError(message, end=end)


class NotConvergedError(NishimoriError):
    """A search ended before its result was precise enough."""


class MergeError(NishimoriError):
    """Two sums cannot be added, because they are of different things."""


class FormatError(NishimoriError):
    """A file is damaged, is of another kind, or was written by a newer version of nishimori."""


class FewErrorsWarning(UserWarning):
    """The temperature is uncertain: fewer than ten wrong or right answers decide it, or they are hardly better than chance."""


class InputWarning(UserWarning):
    """The data can be used but may not be what was meant, such as logits that look like probabilities."""
