"""Temperatures of data in many parts: each part becomes a sketch of 36 kB, and the sketches add.

Run ``python map_reduce_pool.py [FOLDER]``. Each part is an .npz file with logits, labels and documents, and all rows of a
document must be in one part, because error bars are made of the spread between documents. Without a FOLDER, small parts are
drawn. `map_reduce_ray.py` and `map_reduce_spark.py` do the same with other engines.
"""

import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

from nishimori import Sketch, evaluate, temperatures


def sketch_of(logits, labels, documents) -> bytes:
    """The map step: many rows in, 36 kB out."""
    return Sketch().update(logits, labels, clusters=documents).to_bytes()


def sketch_of_part(path) -> bytes:
    """The same for a part in a file, which is read by the process that works on it."""
    with np.load(path) as part:
        return sketch_of(part["logits"], part["labels"], part["documents"])


def total_of(sketches) -> Sketch:
    """The reduce step: the sketch of all rows."""
    return sum(map(Sketch.from_bytes, sketches))


def show(total: Sketch) -> None:
    """Both temperatures with their standard errors, and the metrics before and after."""
    found = temperatures(total)
    print(f"{total.n_samples} tokens of {total.n_clusters} documents")
    print(f"T of EC {found.ec:.4f} ± {found.ec_se:.4f}, T of TS {found.ts:.4f} ± {found.ts_se:.4f}")
    for T in (1.0, found.ec):
        card = evaluate(total, temperature=T)
        print(f"T = {T:.4f}: accuracy {card.accuracy:.2%}, confidence {card.confidence:.2%}", end=", ")
        print(f"ECE {card.ece:.2%}, Brier score {card.brier:.4f}, loss {card.nll:.4f}")


def draw(folder: Path, *, n_parts: int = 4, n_documents: int = 50, n_tokens: int = 40, n_classes: int = 20) -> None:
    """Parts whose labels are drawn at T = 2 on average; each document has a temperature of its own."""
    for number in range(n_parts):
        rng = np.random.default_rng(number)
        documents = np.repeat(number * n_documents + np.arange(n_documents), n_tokens)
        logits = 3 * rng.normal(size=(len(documents), n_classes)).astype(np.float32)
        own = np.repeat(rng.uniform(1.5, 2.5, n_documents), n_tokens)
        labels = (logits / own[:, None] + rng.gumbel(size=logits.shape)).argmax(axis=1)
        np.savez(folder / f"part-{number}.npz", logits=logits, labels=labels, documents=documents)


def parts_in(folder: Path) -> list[Path]:
    """The parts in the FOLDER that was named; or else small ones, which are drawn into ``folder``."""
    if len(sys.argv) > 1:
        folder = Path(sys.argv[1])
    else:
        draw(folder)
    return sorted(folder.glob("*.npz"))  # in the same order each time, so that the digits are the same


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(2) as pool:
        show(total_of(pool.map(sketch_of_part, parts_in(Path(folder)))))
