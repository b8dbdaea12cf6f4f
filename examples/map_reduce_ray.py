"""Temperatures of data in many parts with Ray: each part becomes a sketch of 36 kB, and the sketches add.

Run ``python map_reduce_ray.py [FOLDER]``, beside `map_reduce_pool.py`, which says what the parts are.
Needs ``pip install nishimori 'ray[data]'``. It starts Ray on this machine; for a cluster, name it in ``ray.init("ray://...")``.
"""

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import ray

import map_reduce_pool
from map_reduce_pool import parts_in, show, sketch_of, sketch_of_part, total_of

ray.cloudpickle.register_pickle_by_value(map_reduce_pool)  # workers get its functions and need no copy of the file


def sketch_of_block(rows: dict[str, np.ndarray]) -> dict[str, list[bytes]]:
    """The map step for a block of a Ray data set."""
    return {"sketch": [sketch_of(rows["logits"], rows["labels"], rows["documents"])]}


def frame_of_part(path: Path) -> pd.DataFrame:
    """The rows of a part; their logits are a column of arrays."""
    with np.load(path) as part:
        return pd.DataFrame({name: list(part[name]) for name in part.files})


ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
ray.data.DataContext.get_current().enable_progress_bars = False
with tempfile.TemporaryDirectory() as folder:
    parts = parts_in(Path(folder))

    print("Tasks, one per file, which the worker reads:")
    task = ray.remote(sketch_of_part)
    show(total_of(ray.get([task.remote(path) for path in parts])))  # in the order of the parts

    print("A data set of rows:")
    rows = ray.data.from_pandas([frame_of_part(path) for path in parts])  # or `ray.data.read_parquet`
    # `keys` brings all rows of a document into one block, and `batch_size=None` takes whole blocks. Where rows are
    # independent, neither is needed.
    blocks = rows.repartition(4, keys=["documents"]).map_batches(sketch_of_block, batch_size=None)
    show(total_of(row["sketch"] for row in blocks.iter_rows()))
ray.shutdown()
