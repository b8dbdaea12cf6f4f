"""The data options of every function: their names, what they mean, and how functions take or refuse them.

Every public function that takes data takes the same keywords; `fit` of calibrators takes some of them, because their parameters
say the rest. Each is documented in `RowOptions`, checked where the rows are opened, and filled into signature and docstring of
the function by `takes_rows`, so that ``help`` shows all of them. A function that cannot honour one of them says so, and it is
refused by name.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from inspect import Parameter, cleandoc, signature
from textwrap import wrap
from typing import Any, ParamSpec, TypedDict, TypeVar

from nishimori._rows.labels import Classes
from nishimori._rows.scores import Floor, Input
from nishimori.errors import InputError

# Of the texts in docstrings, which are indented.
_WIDTH = 112

P = ParamSpec("P")
R = TypeVar("R")


class RowOptions(TypedDict, total=False):
    """The keywords of every function that takes data, as their docstrings describe them.

    Parameters
    ----------
    sample_weight : array of the shape of ``labels``, optional
        A weight of w counts a sample w times as much. Where samples are tokens, also one weight per sequence. For a file, the
        name of its array or column.
    counts : bool
        Whether a weight of w stands for w independent samples. By default it is one sample that counts w times as much.
    clusters : array of the shape of ``labels``, optional
        Which samples belong together, for standard errors, such as the tokens of a document: a number or text for each
        sample, or for each sequence of tokens. For a file, the name of its array or column. With ``class_axis``, by default
        the pixels of an image, which is an entry of the first dimension; False takes pixels as independent.
    groups : array of the shape of ``labels``, optional
        The group of each sample, where results or calibrators differ by group. For a file, the name of its array or column.
    input : {"logits", "probabilities"}, optional
        What ``logits`` holds. Log-probabilities are logits; probabilities are used through their logarithms. By default
        logits, but numbers that all lie between 0 and 1 are refused until you say what they are.
    classes : sequence, optional
        The label of each column in order; by default labels are the column numbers 0, 1, ...
    floor : float, optional
        Smaller probabilities are raised to this; by default only exact zeros are raised, to the smallest number of their
        dtype.
    ignore_index : int, optional
        Samples with this label do not count, such as tokens of padding with the label -100. Their logits may be anything.
    shift_labels : bool
        Whether the label of a position is found at the next one, as in the ``labels`` of causal language models. The last
        position of each sequence then has no label.
    class_axis : int
        Which dimension of ``logits`` holds the classes, such as 1 for segmentation in PyTorch's order (n, classes,
        height, width). The labels have the other dimensions.
    member_axis : int, optional
        Which dimension of ``logits`` is that of the members of an ensemble, or of dropout masks, such as 0 for (members, n,
        classes), or for (members, n) with binary scores. The logarithm of the mean of their softmaxes takes the place of the
        logits. A temperature that is fitted to it belongs to this number of members.
    """

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
    member_axis: int | None


DEFAULTS: dict[str, Any] = dict.fromkeys(RowOptions.__annotations__) | {
    "counts": False,
    "shift_labels": False,
    "class_axis": -1,
}

# What the docstring says of each keyword: its kind and its text. Python may be told to keep no docstrings.
_ENTRIES = {
    name: (kind, " ".join(text.split()))
    for name, kind, text in re.findall(r"^(\w+) : (.*)\n((?: +.*\n?)+)", cleandoc(RowOptions.__doc__ or ""), re.MULTILINE)
}

ERROR_BARS_ONLY = "it only affects standard errors, which this function does not compute"
NO_GROUPS = "this function treats all groups alike"

ONE_NUMBER = {"counts": ERROR_BARS_ONLY, "clusters": ERROR_BARS_ONLY, "groups": NO_GROUPS}
"""The options that functions without standard errors refuse, and why."""


def takes_rows(
    *,
    refuses: Mapping[str, str] | None = None,
    words: Mapping[str, str | tuple[str, str]] | None = None,
    defaults: Mapping[str, Any] | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Fill the row options into the signature and the docstring of a function, and refuse the options that it does not support.

    Parameters
    ----------
    refuses : mapping of str to str
        Options that the function does not support, and why.
    words : mapping of str to str, or to (str, str)
        What the docstring says about an option in place of the usual text, or in place of its kind and its text.
    defaults : mapping of str to object
        Defaults that the function has in place of the usual ones.
    """
    refused = dict(refuses or {})
    honoured = {name: default for name, default in (DEFAULTS | dict(defaults or {})).items() if name not in refused}

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        own_signature = signature(function)
        own = [parameter for parameter in own_signature.parameters.values() if parameter.kind is not Parameter.VAR_KEYWORD]
        names = {parameter.name for parameter in own} | set(honoured)

        @wraps(function)
        def wrapper(*arguments: P.args, **options: P.kwargs) -> R:
            for name, value in options.items():
                if name in refused:
                    if value is not None and value is not DEFAULTS[name] and not (name == "clusters" and value is False):
                        raise InputError(name, f"be left out of `{function.__name__}`: {refused[name]}")
                elif name not in names:
                    raise TypeError(f"{function.__qualname__}() got an unexpected keyword argument {name!r}")
            if "clusters" in refused and options.get("class_axis", -1) != -1:
                options["clusters"] = False  # nothing here is made of them, and one image is enough
            return function(*arguments, **options)

        added = [Parameter(name, Parameter.KEYWORD_ONLY, default=default) for name, default in honoured.items()]
        wrapper.__signature__ = own_signature.replace(parameters=[*own, *added])  # type: ignore[attr-defined]
        wrapper.__doc__ = with_options(function.__doc__ or "", honoured, words)
        return wrapper

    return decorate


def with_options(docstring: str, names: Iterable[str], words: Mapping[str, str | tuple[str, str]] | None = None) -> str:
    """A docstring whose entry ``**options`` is replaced by one entry per option; ``words`` are as for `takes_rows`."""
    lines = []
    for name in (name for name in names if name in _ENTRIES):
        kind, text = _ENTRIES[name]
        other = (words or {}).get(name, text)
        kind, text = (kind, other) if isinstance(other, str) else other
        lines += [f"{name} : {kind}", *(f"    {line}" for line in wrap(text, _WIDTH, break_on_hyphens=False))]
    plain = cleandoc(docstring)
    return re.sub(r"^\*\*options\n(?:[ ]+.*\n?)*", lambda _: "\n".join(lines) + "\n", plain, count=1, flags=re.MULTILINE)
