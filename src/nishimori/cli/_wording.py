"""Messages of the library in the words of the shell: options in place of the Python arguments that they name."""

import ast
import re
import shlex
from collections.abc import Callable
from contextvars import ContextVar
from functools import partial

command_options: ContextVar[Callable[[], set[str]]] = ContextVar("command_options", default=set)
"""The options of the command that runs."""

# Errors and warnings of the library name Python arguments; in the shell these options stand for them.
_OPTIONS = {
    "`overwrite=True`": "--force",
    "`temperatures`": "--temperatures",
    "`input='logits'`": "--input logits",
    "`input='probabilities'`": "--input probabilities",
    "`input`": "--input",
    "`classes=[...]`": "--classes",
    "`classes`": "--classes",
    "`top_n`": "--top-n",
    "`n_bins`": "--n-bins",
    "`strategy`": "--strategy",
    "`methods`": "--methods",
    "`clusters`": "--clusters",
    "`groups`": "--groups",
    "`test_groups`": "--groups",
    "`counts`": "--counts",
    "`shrink=False`": "--param shrink=false",
    "`penalty=None`": "--param penalty=null",
    "`level`": "--level",
    "`max_ece`": "--max-ece",
    "`max_gap`": "--max-gap",
    "`max_error`": "--max-error",
    "`max_brier`": "--max-brier",
    "`max_nll`": "--max-nll",
    "`max_group_gap`": "--max-group-gap",
    "`min_samples`": "--min-samples",
    "`by`": "--by",
    "`target`": "--target",
    "`floor`": "--floor",
    "`floor='auto'`": "--floor auto",
    "`floor=`": "--floor",
    "`ignore_index`": "--ignore-index",
    "`columns`": "--columns",
    "`ignore`": "--ignore",
    "`delimiter=';'`": "--delimiter ';'",
    "`delimiter='\\t'`": "--delimiter tab",
    "`delimiter='|'`": "--delimiter '|'",
    "`delimiter=','`": "--delimiter ','",
    "`delimiter`": "--delimiter",
    "`decimal=','`": "--decimal ','",
    "`decimal='.'`": "--decimal '.'",
    "`decimal`": "--decimal",
    "`smooth_labels=True`": "--param smooth_labels=true",
    "`smooth_labels=False`": "--param smooth_labels=false",
    "`calibrator`": "--calibration",
    "`folder`": "-o",
    "`path`": "-o",
    "`data=`": "--data",
    "`train=True`": "--train",
    "`model`": "--model",
    "`fraction`": "--fraction",
    "`epochs`": "--epochs",
}

# What does not follow the name of a class, as in "Isotonic regression", which is the name of a method.
_NO_CLASS = r"(?![\w('`]| (?:regression|scaling|calibration)\b)"

# The scores, which Python passes as an argument, are in a file.
_FILES = {"`X` must": "The file must", "`X` holds": "the file holds"}


def with_options(message: str) -> str:
    """A message of the library, with the command's options in place of the arguments that it names."""
    known = command_options.get()()
    for option in {"--classes", "--columns"} & known:  # "Pass `classes=['a', 'b']`" with the names themselves
        message = re.sub(rf"`{option[2:]}=(\[['\"\d-].*?\])`", partial(_typed, option), message)
    if "--ignore-index" in known:
        message = re.sub(r"`ignore_index=(-?\d+)`", r"--ignore-index \1", message)
    for argument, option in _OPTIONS.items():
        if option.split()[0] in known:
            message = message.replace(argument, option)
    if "--method" in known:
        for name, option in _class_options().items():
            message = re.sub(rf"(?<![\w.`]){name}{_NO_CLASS}", option, message)
    for argument, words in _FILES.items():
        message = message.replace(argument, words)
    return message


def _class_options() -> dict[str, str]:
    """The option that asks for each class of calibrators."""
    from nishimori._methods.registry import by_class_name  # noqa: PLC0415 - only messages that name a method need it

    return {class_name: f"--method {name}" for class_name, name in by_class_name().items()}


def _typed(option: str, found: re.Match[str]) -> str:
    """An option with the texts or numbers of the Python list that was found, as it is typed."""
    names = [str(each) for each in ast.literal_eval(found[1])]
    if any("," in name or name != " ".join(name.split()) for name in names):  # which would be read as other names
        return f"{option} with new names: a comma separates names, so rename the columns"
    return f"{option} {shlex.quote(','.join(names))}"
