"""The keywords about data that every function takes: their names, what they mean, and how functions take or refuse them.

Every public function that takes data takes the same keywords; `fit` of calibrators takes some of them, because their parameters
say the rest. Each is documented here, checked where the rows are opened, and filled into signature and docstring of the
function by `takes_rows`, so that ``help`` shows all of them. A function that cannot honour one of them says so, and it is
refused by name.
"""

import re
from collections.abc import Callable, Mapping
from functools import wraps
from inspect import Parameter, cleandoc, signature
from textwrap import wrap
from typing import Any, NamedTuple, ParamSpec, TypedDict, TypeVar

from nishimori._rows.labels import Classes
from nishimori._rows.scores import Floor, Input
from nishimori.errors import InputError

# Of the texts in docstrings, which are indented.
_WIDTH = 112

P = ParamSpec("P")
R = TypeVar("R")


class RowOptions(TypedDict, total=False):
    """The keywords of every function that takes data."""

    sample_weight: Any
    counts: bool
    clusters: Any
    groups: Any
    input: Input | None
    classes: Classes
    floor: Floor
    ignore_index: int | None
    shift_labels: bool
    class_axis: int


class Option(NamedTuple):
    """A keyword: its default, and what docstrings say about it."""

    default: Any
    kind: str
    text: str


OPTIONS = {
    "sample_weight": Option(
        None,
        "array of the shape of ``labels``, optional",
        "A weight of w counts a sample w times as much. Where samples are tokens, also one weight per sequence. For a file, "
        "the name of its array or column.",
    ),
    "counts": Option(
        False,
        "bool",
        "Whether a weight of w stands for w independent samples. By default it is one sample that counts w times as much.",
    ),
    "clusters": Option(
        None,
        "array of the shape of ``labels``, optional",
        "Which samples belong together, for standard errors, such as the tokens of a document: a number or text for each "
        "sample, or for each sequence of tokens. For a file, the name of its array or column.",
    ),
    "groups": Option(
        None,
        "array of the shape of ``labels``, optional",
        "The group of each sample, where results or calibrators differ by group. For a file, the name of its array or column.",
    ),
    "input": Option(
        None,
        '{"logits", "probabilities"}, optional',
        "What ``logits`` holds. Log-probabilities are logits; probabilities are used through their logarithms. By default "
        "logits, but numbers that all lie between 0 and 1 are refused until you say what they are.",
    ),
    "classes": Option(
        None,
        "sequence, optional",
        "The label of each column in order; by default labels are the column numbers 0, 1, ...",
    ),
    "floor": Option(
        None,
        "float, optional",
        "Smaller probabilities are raised to this; by default only exact zeros are raised, to the smallest number of their "
        "dtype.",
    ),
    "ignore_index": Option(
        None,
        "int, optional",
        "Samples with this label do not count, such as tokens of padding with the label -100. Their logits may be anything.",
    ),
    "shift_labels": Option(
        False,
        "bool",
        "Whether the label of a position is found at the next one, as in the ``labels`` of causal language models. The last "
        "position of each sequence then has no label.",
    ),
    "class_axis": Option(
        -1,
        "int",
        "Which dimension of ``logits`` is that of the classes, such as 1 for segmentation in PyTorch's order (n, classes, "
        "height, width). The labels have the other dimensions.",
    ),
}


ERROR_BARS_ONLY = "it changes standard errors, of which this function gives none"
NO_GROUPS = "this function treats all groups alike"

ONE_NUMBER = {"counts": ERROR_BARS_ONLY, "clusters": ERROR_BARS_ONLY, "groups": NO_GROUPS}
"""What functions that return a number without a standard error refuse, and why."""


def takes_rows(
    *,
    refuses: Mapping[str, str] | None = None,
    words: Mapping[str, str] | None = None,
    defaults: Mapping[str, Any] | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Fill the row options into the signature and the docstring of a function, and refuse those that it cannot honour.

    Parameters
    ----------
    refuses : mapping of str to str
        Options that the function cannot honour, and why.
    words : mapping of str to str
        What the docstring says about an option in place of the usual text.
    defaults : mapping of str to object
        Defaults that the function has in place of the usual ones.
    """
    refused, own_words = dict(refuses or {}), dict(words or {})
    other = dict(defaults or {})
    honoured = {
        name: option._replace(default=other.get(name, option.default))
        for name, option in OPTIONS.items()
        if name not in refused
    }

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        own_signature = signature(function)
        own = [parameter for parameter in own_signature.parameters.values() if parameter.kind is not Parameter.VAR_KEYWORD]
        names = {parameter.name for parameter in own} | set(honoured)

        @wraps(function)
        def wrapper(*arguments: P.args, **options: P.kwargs) -> R:
            for name, value in options.items():
                if name in refused:
                    if value is not None and value is not OPTIONS[name].default:
                        raise InputError(name, f"be left out of `{function.__name__}`: {refused[name]}")
                elif name not in names:
                    raise TypeError(f"{function.__qualname__}() got an unexpected keyword argument {name!r}")
            return function(*arguments, **options)

        added = [Parameter(name, Parameter.KEYWORD_ONLY, default=option.default) for name, option in honoured.items()]
        wrapper.__signature__ = own_signature.replace(parameters=[*own, *added])  # type: ignore[attr-defined]
        described = {name: option._replace(text=own_words.get(name, option.text)) for name, option in honoured.items()}
        wrapper.__doc__ = with_options(function.__doc__ or "", described)
        return wrapper

    return decorate


def with_options(docstring: str, options: Mapping[str, Option]) -> str:
    """A docstring whose entry ``**options`` is replaced by one entry per option."""
    lines = []
    for name, option in options.items():
        lines += [f"{name} : {option.kind}", *(f"    {line}" for line in wrap(option.text, _WIDTH, break_on_hyphens=False))]
    plain = cleandoc(docstring)
    return re.sub(r"^\*\*options\n(?:[ ]+.*\n?)*", lambda _: "\n".join(lines) + "\n", plain, count=1, flags=re.MULTILINE)
