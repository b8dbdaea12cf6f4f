"""Columns of tables that do not say by themselves which of them are scores."""

import numpy as np
import reference
from optional import pd

LOGITS, LABELS = reference.drawn(200, 3, seed=3)
NAMES = ["cat", "dog", "fish"]
PLAIN = pd.DataFrame(LOGITS, columns=list("abc"))
SCORES = pd.DataFrame(LOGITS, columns=[f"z_{name}" for name in NAMES])
BINARY = np.where(np.arange(200) % 5, LOGITS[:, 0] > 0, LOGITS[:, 0] <= 0).astype(int)
WORDS = np.array(NAMES)[LABELS]
