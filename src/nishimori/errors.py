"""Every error and warning that nishimori raises on purpose.

::

    NishimoriError (ValueError)
    ├── InputError            an argument is not what it must be
    ├── NoTemperatureError    no finite positive temperature satisfies the condition asked for
    ├── NotConvergedError     the search ended before the temperature was certain
    ├── MergeError            two partial results do not belong together
    └── FormatError           a file is damaged, foreign, or newer than this library

    FewErrorsWarning (UserWarning)    the temperature rests on a handful of samples

All are `ValueError`, so code written for scikit-learn catches them as it is.
"""


class NishimoriError(ValueError):
    """Base of every error below; catch this to catch them all."""


class InputError(NishimoriError):
    """An argument is not what it must be; the message names it and the remedy."""


class NoTemperatureError(NishimoriError):
    """No finite positive temperature satisfies the condition asked for.

    Attributes
    ----------
    end : {"cold", "hot", "flat"}
        Where the condition would be met, if anywhere: "cold" in the limit T → 0, "hot" in the limit T → ∞, "flat" at every
        temperature alike, because the logits of each row are equal.
    """

    def __init__(self, message: str, *, end: str) -> None:
        super().__init__(message)
        self.end = end

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (str(self), self.end))


def _rebuild(message: str, end: str) -> NoTemperatureError:
    # Keyword-only arguments do not survive the default pickling of exceptions.
    return NoTemperatureError(message, end=end)


class NotConvergedError(NishimoriError):
    """The search ended before the temperature was certain."""


class MergeError(NishimoriError):
    """Two partial results do not belong together."""


class FormatError(NishimoriError):
    """A file is damaged, is not one of ours, or was written by a newer nishimori."""


class FewErrorsWarning(UserWarning):
    """The temperature rests on fewer than ten wrong, or fewer than ten right, answers."""
