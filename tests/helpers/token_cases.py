"""Tokens of a small language model: logits of three dimensions, and labels of which many are to be ignored."""

import numpy as np
import reference

SEQUENCES, TOKENS, CLASSES = 40, 15, 5
IGNORED = -100

_LOGITS, _DRAWN = reference.drawn(SEQUENCES * TOKENS, CLASSES)

LABELS = _DRAWN.reshape(SEQUENCES, TOKENS).copy()
LABELS[:, :4] = IGNORED  # prompts
LABELS[7] = IGNORED  # a sequence of padding
LABELS[np.random.default_rng(3).random(LABELS.shape) < 0.1] = IGNORED

COUNTED = LABELS != IGNORED

LOGITS = _LOGITS.reshape(SEQUENCES, TOKENS, CLASSES).copy()
LOGITS[~COUNTED] = [np.nan, np.inf, -np.inf, 1e300, 0.0]  # what is ignored may be anything
"""Logits, with values that would be refused wherever the label is to be ignored."""

WEIGHTS = np.random.default_rng(4).integers(1, 4, LABELS.shape).astype(float)
DOCUMENTS = np.arange(SEQUENCES) // 2

FLAT, TRUE = LOGITS[COUNTED], LABELS[COUNTED]
"""The rows that count, as flat arrays: what the formulas get."""
