"""Logits of magika (214 types of content) on the first 512 bytes of files.

    python file_types.py CACHE

A row is the first 512 bytes of a file, one sector, as a scanner or a recovery tool sees it that reads no further. magika
looks at the first and the last 1024 bytes, so it gets the whole piece. The package's own functions make the features; the
graph is cut before its softmax.
"""

import io
import json
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import debian_sources
import logits_file
import magika
import numpy as np
import onnx
import onnx.utils
import onnxruntime
from magika import Magika
from magika.types.seekable import Seekable

BYTES = 512
PER_PACKAGE = 3
PER_TYPE = 55
OUTPUT = Path(__file__).parents[1] / "src/nishimori_paper/shipped/file_types.npz"
MODEL = Path(magika.__file__).parent / "models/standard_v3_3"
LOGITS = "jax2tf_get_logits_/pjit_get_logits_/MagikaV2/Dense_1/AddV2:0"

# Kinds of files that magika calls otherwise; kinds that it does not know are left out.
RENAMED = {"bibtex": "bib"}


def pieces(folder, classes):
    """Rows: (type, package, path, bytes). A piece that has occurred before is left out, so that no two parts share one."""
    types = {kind: RENAMED.get(kind, kind) for kind in debian_sources.KINDS if RENAMED.get(kind, kind) in classes}
    found, seen = [], set()
    for kind, package, path, content in debian_sources.files(folder, types, PER_PACKAGE):
        piece = content[:BYTES]
        if len(piece.strip()) >= 16 and piece not in seen:
            seen.add(piece)
            found.append((types[kind], package, path, piece))
    found.sort(key=lambda piece: debian_sources.digest("/".join(piece[1:3])))
    counts, kept = dict.fromkeys(classes, 0), []
    for row in found:
        counts[row[0]] += 1
        if counts[row[0]] <= PER_TYPE:
            kept.append(row)
    return kept


def logits_of(contents):
    """The input of the softmax for each content: magika's own features, its graph cut."""
    config = json.loads((MODEL / "config.min.json").read_text())
    options = {
        key: config[key] for key in ("beg_size", "mid_size", "end_size", "padding_token", "block_size", "use_inputs_at_offsets")
    }
    features = [Magika._extract_features_from_seekable(Seekable(io.BytesIO(content)), **options) for content in contents]
    inputs = np.array([list(each.beg) + list(each.mid) + list(each.end) for each in features], dtype=np.int32)
    with tempfile.TemporaryDirectory() as folder:
        cut = str(Path(folder) / "logits.onnx")
        onnx.utils.extract_model(str(MODEL / "model.onnx"), cut, ["bytes"], [LOGITS])
        session = onnxruntime.InferenceSession(cut, providers=["CPUExecutionProvider"])
        return np.concatenate([session.run(None, {"bytes": inputs[i : i + 64]})[0] for i in range(0, len(inputs), 64)])


def main(folder):
    """Compute and write the file."""
    classes = json.loads((MODEL / "config.min.json").read_text())["target_labels_space"]
    rows = pieces(Path(folder), set(classes))
    logits = logits_of([content for *_, content in rows])
    # The cut graph is the package's model: its public answer has the same top score.
    asked = Magika().identify_bytes(rows[0][-1])
    top = np.exp(logits[0] - logits[0].max())
    assert abs(asked.score - 1 / top.sum()) < 1e-4
    assert asked.dl.label == classes[int(logits[0].argmax())]
    logits_file.write(
        OUTPUT,
        logits,
        [classes.index(name) for name, *_ in rows],
        [package for _, package, *_ in rows],
        classes,
        None,
        {
            "title": "magika, file types",
            "package": "magika (PyPI)",
            "version": version("magika"),
            "licence": "Apache-2.0",
            "data": f"Upstream archives of source packages of {debian_sources.RELEASE}, by a hash of the name; versions in "
            "paper/shipped/source_packages.txt",
            "rows": f"The first {BYTES} bytes of a file; the type follows from the file's name, for most types confirmed "
            "by a magic number or a keyword. Logits: the input of the model's softmax (standard_v3_3). At most "
            f"{PER_PACKAGE} files of a type from a package and {PER_TYPE} of a type",
            "document": "source package",
        },
    )
    return rows, classes, logits


if __name__ == "__main__":
    main(sys.argv[1])
