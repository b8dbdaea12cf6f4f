"""Arguments that messages name are the options of the command that runs."""

import pytest

from nishimori.cli._run import option_text

OPTIONS = {
    "--force",
    "--input",
    "--classes",
    "--delimiter",
    "--decimal",
    "--param",
    "--bound",
    "--weights",
    "-o",
    "--floor",
    "--ignore-index",
}

WRITTEN = [
    (("floor",), "--floor"),
    (("floor", "auto"), "--floor auto"),
    (("bounds", {"ece": 0.02}), "--bound ece=0.02"),
    (("ignore_index", -100), "--ignore-index -100"),
    (("sample_weight",), "--weights"),
    (("path",), "-o"),
    (("overwrite", True), "--force"),
    (("input", "probabilities"), "--input probabilities"),
    (("classes", ["cat", "big dog"]), "--classes 'cat,big dog'"),
    (("classes", [-1, 1]), "--classes -1,1"),
    (("classes", ["a,b", "c"]), "--classes with new names: a comma separates names, so rename the columns"),
    (("delimiter", "\t"), "--delimiter tab"),
    (("delimiter", ";"), "--delimiter ';'"),
    (("decimal", ","), "--decimal ','"),
    (("shrink", False), "--param shrink=false"),
    (("penalty", None), "--param penalty=null"),
    (("penalty", "auto"), "--param penalty=auto"),
    (("penalty", 1), "--param penalty=1"),
    (("penalty", [0.5, 0]), "--param penalty=[0.5, 0]"),
    (("temperatures", (0.044, 230.0)), "--temperatures 0.044,230"),
    (("X",), "the file"),
    (("labels",), "the labels"),
    (("n_bins",), "`n_bins`"),
    (("n_bins", 3), "`n_bins=3`"),
]


@pytest.mark.parametrize(("argument", "text"), WRITTEN, ids=[text for _, text in WRITTEN])
def test_an_argument_is_written_as_the_option_that_the_command_has(argument, text):
    assert option_text(lambda: OPTIONS, *argument) == text
