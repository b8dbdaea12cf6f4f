"""Turn a user's data (arrays, stored arrays, streams; labels and options) into checked batches of rows.

Everything that nishimori fits or measures asks a `Rows` for the sum of a pass over all rows, and a search for a sample to start
from. So a new kind of data is one class: it says how many classes there are and yields batches, and every fit and metric works
on it.
"""
