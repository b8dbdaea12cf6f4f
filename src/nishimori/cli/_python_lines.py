"""Lines of Python that give the numbers of a command again."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nishimori._files.tables.columns import Roles, match_columns
from nishimori._files.tables.files import is_table, open_table
from nishimori._rows.scores import Floor, is_auto
from nishimori._sketch.archive import is_sketch_file

_LAST = "print(calibrator.temperature_, card.ece, card.nll)"


def python_lines(sets: Sequence[Sequence[Path]], roles: Roles, method: str, *, floor: Floor, counts: bool) -> str:
    """Open the files, fit a method to the validation data, and measure it on the test data."""
    named = list(zip(("val", "test"), sets, strict=False))
    none = ", floor=None" if floor is None and roles.input == "probabilities" else ""
    return "\n".join(
        [
            "import nishimori",
            "",
            *(
                f"{variable} = {_call(files, roles, None if is_auto(floor) else floor, counts=counts)}"
                for variable, files in named
            ),
            f"calibrator = nishimori.calibrator({method!r}{none}).fit(val)",
            f"card = nishimori.evaluate({named[-1][0]}, calibrator=calibrator)",
            _LAST,
        ]
    )


def _call(files: Sequence[Path], roles: Roles, floor: Floor, *, counts: bool) -> str:
    """The call that opens a data set."""
    path = files[0]
    if is_sketch_file(path):
        return f"nishimori.Sketch.load({str(path)!r})"
    labels = str(files[1]) if len(files) == 2 else roles.labels
    said: dict[str, Any] = {
        "sample_weight": roles.weights,
        "counts": counts or None,
        "clusters": roles.clusters,
        "groups": roles.groups,
        "input": roles.input if roles.input_is_said else None,
        "classes": roles.classes,
        "floor": floor,
        "ignore_index": roles.ignore_index,
        "columns": list(roles.columns) if isinstance(roles.columns, tuple) else roles.columns,
        "ignore": [*roles.ignore, *_names_of_samples(path, roles)] or None,
        "delimiter": roles.delimiter,
        "decimal": None if roles.decimal == "." else roles.decimal,
    }
    given = "".join(f", {name}={value!r}" for name, value in said.items() if value is not None)
    return f"nishimori.rows({str(path)!r}, {labels!r}{given})"


def _names_of_samples(path: Path, roles: Roles) -> list[str]:
    """The column of --ids, which these lines make no use of, if the table has it and nothing says yet that it is no score."""
    if roles.ids is None or not (is_table(path) or path.is_dir()):
        return []
    with open_table(path, delimiter=roles.delimiter, decimal=roles.decimal) as table:
        ignored = match_columns(roles.ignore, table.names, argument="ignore", where=str(path))
        return [roles.ids] if roles.ids in table.names and roles.ids not in ignored else []
