"""To be imported before nishimori by a process in which nishimori-paper shall be as if it were not installed."""

import importlib.metadata
import sys
from importlib.metadata import EntryPoints

_all = importlib.metadata.entry_points


def _others(**chosen):
    return EntryPoints(each for each in _all(**chosen) if not each.value.startswith("nishimori_paper"))


importlib.metadata.entry_points = _others
sys.modules["nishimori_paper"] = None  # any import of it now fails
