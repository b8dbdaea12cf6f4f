"""The declaration of the population of networks, and the files in which their logits travel from a GPU to the analysis."""

import io
import json
import tomllib
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

DECLARATION = Path(__file__).parents[1] / "paper" / "population.toml"
PACK_BYTES = 15 << 20


@dataclass(frozen=True)
class Member:
    """One network of the population; networks of round 1 are trained first."""

    kind: str
    dataset: str
    seed: int
    round: int
    recipe: dict

    @property
    def name(self):
        return f"{self.kind}-{self.seed}"


def declaration(path=DECLARATION):
    """The declaration as a dictionary."""
    return tomllib.loads(Path(path).read_text(encoding="utf-8"))


def members(declared):
    """All networks, in the order in which they are trained."""
    found = [
        Member(kind["name"], kind["dataset"], seed, number, declared["training"] | kind.get("recipe", {}))
        for kind in declared["kinds"]
        for number, seeds in enumerate(kind["seeds"], 1)
        for seed in seeds
    ]
    return sorted(found, key=lambda each: each.round)


def halved(logits):
    """Logits in half precision, less the largest one of each row: exact where it matters, near the top."""
    below = np.asarray(logits, dtype=np.float32)
    below = below - below.max(axis=1, keepdims=True)
    assert below.min() > np.finfo(np.float16).min, "beyond the range of float16"
    return below.astype(np.float16)


def write(path, arrays, about):
    """Write a network's arrays and what is known about it; a file with this name is complete."""
    stream = io.BytesIO()
    np.savez_compressed(stream, about=np.frombuffer(json.dumps(about).encode(), np.uint8), **arrays)
    part = path.with_suffix(".part")
    part.write_bytes(stream.getvalue())
    part.replace(path)


def pack(folder, target):
    """Copy the networks' files in a folder to few archives of at most 15 MiB each (or one file, if that is larger)."""
    target.mkdir(parents=True, exist_ok=True)
    groups, size = [], PACK_BYTES
    for path in sorted(folder.glob("*.npz")):
        length = path.stat().st_size
        if size + length > PACK_BYTES:
            groups.append([])
            size = 0
        groups[-1].append(path)
        size += length
    for number, paths in enumerate(groups):
        with zipfile.ZipFile(target / f"{folder.name}-{number}.zip", "w", zipfile.ZIP_STORED) as archive:
            for path in paths:
                archive.write(path, path.name)
    return len(groups)


def read(folder):
    """By name, what is known about each network, and its arrays, from the files and archives in a folder."""
    found = {}
    for path in sorted(Path(folder).rglob("*.zip")):
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                found[Path(name).stem] = _content(io.BytesIO(archive.read(name)))
    for path in sorted(Path(folder).rglob("*.npz")):
        found[path.stem] = _content(path)
    return found


def _content(file):
    with np.load(file) as arrays:
        content = {key: arrays[key] for key in arrays.files}
    return json.loads(content.pop("about").tobytes()), content
