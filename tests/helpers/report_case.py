"""Data for the tests of the report: classes and groups whose names a careless page would run or break on."""

import numpy as np
import reference

from nishimori import Report

CLASSES = ["<script>window.broken = 1</script>", 'say "hi" & <b>bye</b>', "Zürich 東京 🦊", "x" * 300]
GROUPS = ["</script><img src=x onerror='window.broken = 2'>", "north | *south*", "`east`"]


def rows(n=1200, seed=0):
    """Validation and test data, each with logits, labels, classes as text, groups and ids; the model is overconfident."""
    logits, codes = reference.drawn(n, 4, seed=seed)
    rng = np.random.default_rng(seed + 1)
    groups = np.array(GROUPS)[rng.integers(3, size=n)]
    ids = np.array([f"<i>{i}</i>" for i in range(n)])
    half = n // 2
    return [
        {"logits": logits[part], "codes": codes[part], "groups": groups[part], "ids": ids[part]}
        for part in (slice(half), slice(half, None))
    ]


def rare(seed, n=3000):
    """A flat logit, and labels of which about 5 % are 1: class 1 gets too much, but confidence is accuracy on average."""
    rng = np.random.default_rng(seed)
    truth = 2.5 * rng.normal(size=n) - 5
    return truth + 1.4 + 0.18 * (truth + 5), (rng.random(n) < 1 / (1 + np.exp(-truth))).astype(int)


def texts(codes):
    """The names of classes."""
    return np.array(CLASSES)[codes]


def report(validation, test, title):
    """The report of all of it, with texts as labels, groups and ids."""
    return Report(
        validation["logits"],
        texts(validation["codes"]),
        test["logits"],
        texts(test["codes"]),
        classes=CLASSES,
        groups=validation["groups"],
        test_groups=test["groups"],
        ids=test["ids"],
        title=title,
    )
