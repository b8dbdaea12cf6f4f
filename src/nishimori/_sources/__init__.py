"""Where batches come from, and come from again: arrays, streams, files, or any object with a source's methods.

Everything that nishimori fits or measures asks a `Source` for the sum of a pass over all rows, and for nothing else. So a new
kind of data is one class: it says how many classes there are and yields batches, and every fit and metric works on it.
"""

from nishimori._sources._arrays import ArraySource, clusters_of
from nishimori._sources._batches import Batches
from nishimori._sources._chunk import chunk_name
from nishimori._sources._completed import CompletedBatch, TopKSource
from nishimori._sources._cut import Cut, beside, handed
from nishimori._sources._device import DeviceSource
from nishimori._sources._files import Mapped, NpyFile
from nishimori._sources._folder import open_tables, parquet_files
from nishimori._sources._given import in_pieces, loaded, source, stored
from nishimori._sources._pieces import Meaning, Pieces, rows_per_piece
from nishimori._sources._source import (
    Reported,
    Source,
    Sum,
    applied,
    clusters_in,
    concluded,
    counts_of_clusters,
    floor_in,
    groups_in,
    has_clusters,
    is_fused,
    is_source,
    refuse_counted_clusters,
)
from nishimori._sources._stored import Chunked, Kept, Stored, StoredSource
from nishimori._sources._table import KEPT, Columns, TableSource, flat, row_values

__all__ = [
    "KEPT",
    "ArraySource",
    "Batches",
    "Chunked",
    "Columns",
    "CompletedBatch",
    "Cut",
    "DeviceSource",
    "Kept",
    "Mapped",
    "Meaning",
    "NpyFile",
    "Pieces",
    "Reported",
    "Source",
    "Stored",
    "StoredSource",
    "Sum",
    "TableSource",
    "TopKSource",
    "applied",
    "beside",
    "chunk_name",
    "clusters_in",
    "clusters_of",
    "concluded",
    "counts_of_clusters",
    "flat",
    "floor_in",
    "groups_in",
    "handed",
    "has_clusters",
    "in_pieces",
    "is_fused",
    "is_source",
    "loaded",
    "open_tables",
    "parquet_files",
    "refuse_counted_clusters",
    "row_values",
    "rows_per_piece",
    "source",
    "stored",
]
