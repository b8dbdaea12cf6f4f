"""Print tables from rows that are dictionaries."""

from collections.abc import Mapping, Sequence
from typing import Any

from nishimori._support.tables import Tabular
from nishimori.cli._terminal import print_tabular


def print_rows(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print any table: a column for each key with a value in at least one row; numbers to six digits."""
    shown = [name for name in max(rows, key=len) if any(row.get(name) is not None for row in rows)]
    cells = [[_cell(row.get(name)) for name in shown] for row in rows]
    print_tabular(Tabular([name.replace("_", " ") for name in shown], cells))


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
