"""From what people have to checked batches of rows: arrays, labels, streams, files, tables, loaders, Dask, top-k lists.

Everything that nishimori fits or measures asks a `Rows` for the sum of a pass over all rows, and for nothing else. So a new
kind of data is one class: it says how many classes there are and yields batches, and every fit and metric works on it.
"""
