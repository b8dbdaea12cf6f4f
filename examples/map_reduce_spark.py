"""Temperatures of data in many parts with Spark: each part becomes a sketch of 36 kB, and the sketches add.

Run ``python map_reduce_spark.py [FOLDER]``, beside `map_reduce_pool.py`, which says what the parts are.
Needs ``pip install nishimori pyspark pandas pyarrow`` and Java 17 or newer. It starts Spark on this machine.
"""

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from pyspark import cloudpickle
from pyspark.sql import SparkSession

import map_reduce_pool
from map_reduce_pool import parts_in, show, sketch_of, sketch_of_part, total_of

cloudpickle.register_pickle_by_value(map_reduce_pool)  # workers get its functions and need no copy of the file


def sketch_of_partition(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """The map step for a partition of a Spark data frame, which comes in several frames."""
    rows = pd.concat(frames)
    if len(rows):
        sketch = sketch_of(np.stack(rows["logits"]), rows["labels"].to_numpy(), rows["documents"].to_numpy())
        yield pd.DataFrame({"sketch": [sketch]})


def frame_of_part(path: Path) -> pd.DataFrame:
    """The rows of a part; their logits are a column of arrays."""
    with np.load(path) as part:
        return pd.DataFrame({name: list(part[name]) for name in part.files})


os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers run the Python that has nishimori
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # this machine alone
spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.ui.enabled", "false")
    .config("spark.ui.showConsoleProgress", "false")
    .config("spark.sql.execution.arrow.pyspark.enabled", "true")
    .getOrCreate()
)
with tempfile.TemporaryDirectory() as folder:
    parts = parts_in(Path(folder))

    print("One task per file, which the worker reads:")
    paths = spark.sparkContext.parallelize(map(str, parts), len(parts))
    show(total_of(paths.map(sketch_of_part).collect()))  # in the order of the parts

    print("A data frame of rows:")
    rows = spark.createDataFrame(pd.concat(map(frame_of_part, parts)))  # or `spark.read.parquet`
    # `repartition` brings all rows of a document into one partition. Where rows are independent, it is not needed.
    sketches = rows.repartition(4, "documents").mapInPandas(sketch_of_partition, "sketch binary")
    show(total_of(row["sketch"] for row in sketches.collect()))
spark.stop()
