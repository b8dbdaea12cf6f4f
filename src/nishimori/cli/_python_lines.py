"""Lines of Python that give the numbers of a command again."""

from collections.abc import Sequence
from pathlib import Path

from nishimori._rows.tables.files import is_table
from nishimori._sums.sketch.archive import is_sketch_file
from nishimori.cli._data_sets import Told

_LAST = "print(calibrator.temperature_, card.ece, card.nll)"


def python_lines(sets: Sequence[Sequence[Path]], told: Told) -> str:
    """Load the files, fit the adaptive method to the validation data, and measure it on the test data."""
    named = list(zip(("val", "test"), sets, strict=False))
    loading, arguments = [], {}
    for variable, files in named:
        lines, arguments[variable] = _loaded(variable, files, told)
        loading += lines
    is_sketch = is_sketch_file(sets[0][0])
    options = {} if is_sketch else {"input": told.input, "classes": told.classes, "floor": told.floor}
    usual = {"input": "logits", "classes": None, "floor": None}
    said = "".join(f", {name}={value!r}" for name, value in options.items() if value != usual[name])
    ignored = "" if told.names.ignore_index is None else f", ignore_index={told.names.ignore_index}"
    fitted, extra = arguments["val"]
    measured, more = arguments[named[-1][0]]
    imports = ["import numpy as np"] if any("np.load" in each for each in (*loading, fitted, measured)) else []
    return "\n".join(
        [
            *imports,
            "import nishimori",
            "",
            *loading,
            f'calibrator = nishimori.calibrator("adaptive"{said}).fit({fitted}{extra}{ignored})',
            f"card = nishimori.evaluate({measured}{more}{ignored}, calibrator=calibrator)",
            _LAST,
        ]
    )


def _loaded(variable: str, files: Sequence[Path], told: Told) -> tuple[list[str], tuple[str, str]]:
    """Lines that read a data set, and how they are passed: scores and labels, and then weights and clusters by name."""
    path, names = files[0], told.names
    if is_sketch_file(path):
        return [f"{variable} = nishimori.Sketch.load({str(path)!r})"], (variable, "")
    if path.suffix.lower() == ".npz":
        parts = {"sample_weight": names.weights, "clusters": names.clusters}
        extra = "".join(f", {key}={variable}[{name!r}]" for key, name in parts.items() if name)
        scores = names.scores or names.array
        return [f"{variable} = np.load({str(path)!r})"], (f"{variable}[{scores!r}], {variable}[{names.labels!r}]", extra)
    if len(files) == 2:
        return [], (f"np.load({str(path)!r}), np.load({str(files[1])!r})", "")
    # Python has no words for columns to leave out, such as those of groups and names that these lines make no use of.
    plain = not (names.columns or names.ignore or names.scores or names.delimiter or names.decimal != ".")
    plain = plain and not (names.groups or names.ids)
    if (is_table(path) or path.is_dir()) and plain:
        parts = {"sample_weight": names.weights, "clusters": names.clusters}
        extra = "".join(f", {key}={name!r}" for key, name in parts.items() if name)
        return [], (f"{str(path)!r}, {names.labels!r}", extra)
    arrays = {"sample_weight": ("weights", names.weights), "clusters": ("clusters", names.clusters)}
    others = {key: what for key, (what, name) in arrays.items() if name}
    variables = ", ".join(f"{what}_{variable}" for what in ("X", "y", *others.values()))
    *before, last = ("scores", "labels", *others.values())
    note = f"# {variables}: the {', '.join(before)} and {last} of {path.name}, as arrays"
    extra = "".join(f", {key}={what}_{variable}" for key, what in others.items())
    return [note], (f"X_{variable}, y_{variable}", extra)
