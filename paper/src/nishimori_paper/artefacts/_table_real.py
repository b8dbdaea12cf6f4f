"""Table 1: calibration of eight networks, with clean and with augmented validation images."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from nishimori_paper._artefact import Artefact, Finding, Pieces, Row, Scale
from nishimori_paper._measured import measured, network
from nishimori_paper.artefacts._rows import compared_rows, networks_of_tables, sheet_row, trained_networks
from nishimori_paper.artefacts._table_picture import draw_table


class TableReal(Artefact):
    """Error, temperatures, ECE and Brier score of eight networks, before and after TS and EC."""

    name = "table-real"
    where = "Section 4, Table 1"

    def networks(self) -> Sequence[str]:
        return trained_networks()

    def pieces(self, scale: Scale) -> Mapping[str, Callable[[], Any]]:
        return {name: partial(_piece, name, scale) for name in networks_of_tables()}

    def tables(self, done: Pieces) -> Mapping[str, Sequence[Row]]:
        return {"table": [sheet_row(name, content, {"se": "error bars"}) for name, content in done.items()]}

    def findings(self, done: Pieces) -> Sequence[Finding]:
        return compared_rows(done, self.name)

    def draw(self, done: Pieces, pyplot: Any) -> Any:
        return draw_table(done, self.name, pyplot)


def _piece(name: str, scale: Scale) -> dict[str, dict[str, float]]:
    return measured(network(name, scale), resamples=5 if scale.quick else 50, seed=scale.seed)
