"""Logits of guesslang, as VS Code ships it (``@vscode/vscode-languagedetection``), on pieces of ten lines.

    python source_code.py CACHE NPM_PACKAGE

``CACHE`` is a folder for what is downloaded, ``NPM_PACKAGE`` the unpacked npm package. A row is ten consecutive lines from a
file, as somebody pastes them into a new tab of the editor: that is what the detector is for. Blank lines at both ends are
dropped; a piece of fewer than 20 characters is not looked at, as the package itself does.
"""

import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import debian_sources
import logits_file
import numpy as np

LINES = 10
PER_PACKAGE = 5
PER_LANGUAGE = 120
PROCESSES = 4
OUTPUT = Path(__file__).parents[1] / "src/nishimori_paper/shipped/source_code.npz"

# The model's name of the language of each kind of file. Gradle's build files are Groovy; binary kinds have no class here.
LANGUAGES = {
    "asm": "asm", "batch": "bat", "c": "c", "cobol": "cbl", "clojure": "clj", "cmake": "cmake", "coffeescript": "coffee",
    "cpp": "cpp", "cs": "cs", "css": "css", "csv": "csv", "dart": "dart", "dockerfile": "dockerfile", "erlang": "erl",
    "elixir": "ex", "fortran": "f90", "go": "go", "gradle": "groovy", "groovy": "groovy", "haskell": "hs", "html": "html",
    "ini": "ini", "java": "java", "julia": "jl", "javascript": "js", "json": "json", "kotlin": "kt", "lisp": "lisp",
    "lua": "lua", "makefile": "makefile", "matlab": "matlab", "markdown": "md", "ocaml": "ml", "objectivec": "mm",
    "pascal": "pas", "php": "php", "perl": "pm", "prolog": "prolog", "powershell": "ps1", "python": "py", "r": "r",
    "ruby": "rb", "rust": "rs", "scala": "scala", "shell": "sh", "sql": "sql", "swift": "swift", "latex": "tex",
    "toml": "toml", "typescript": "ts", "verilog": "v", "vba": "vba", "xml": "xml", "yaml": "yaml",
}  # fmt: skip


def without_code_blocks(text):
    """A Markdown text without its examples in other languages."""
    return re.sub(r"(?m)^(    |\t).*\n", "", re.sub(r"(?ms)^ *(```|~~~).*?^ *\1.*?$", "", text))


def pieces(folder):
    """Rows: (language, package, text). A piece that has occurred before is left out, so that no two parts share one."""
    found, seen = [], set()
    for kind, package, path, content in debian_sources.files(folder, LANGUAGES, PER_PACKAGE):
        try:
            whole = content.decode("utf-8").replace("\r\n", "\n")
        except UnicodeDecodeError:
            continue
        lines = (without_code_blocks(whole) if kind == "markdown" else whole).split("\n")
        start = int(debian_sources.digest(f"{path} starts at"), 16) % max(len(lines) - LINES + 1, 1)
        text = "\n".join(lines[start : start + LINES]).strip("\n")[:2000]
        if len(text) >= 20 and text not in seen:
            seen.add(text)
            found.append((LANGUAGES[kind], package, path, text))
    found.sort(key=lambda piece: debian_sources.digest("/".join(piece[1:3])))
    counts, kept = dict.fromkeys(LANGUAGES.values(), 0), []
    for piece in found:
        counts[piece[0]] += 1
        if counts[piece[0]] <= PER_LANGUAGE:
            kept.append(piece)
    return kept


def logits_of(texts, package):
    """Classes and logits from the model, which runs in Node: about 20 ms for a text."""
    command = ["node", str(Path(__file__).with_suffix(".mjs")), str(Path(package).resolve())]

    def ask(part):
        told = "".join(json.dumps(text) + "\n" for text in part)
        return subprocess.run(command, input=told, capture_output=True, text=True, check=True).stdout.splitlines()

    with ThreadPoolExecutor(PROCESSES) as pool:
        answers = list(pool.map(ask, (list(part) for part in np.array_split(np.array(texts, dtype=object), PROCESSES))))
    return json.loads(answers[0][0]), np.array([json.loads(line) for answer in answers for line in answer[1:]])


def main(folder, package):
    """Compute and write the file."""
    rows = pieces(Path(folder))
    classes, logits = logits_of([text for *_, text in rows], package)
    logits_file.write(
        OUTPUT,
        logits,
        [classes.index(language) for language, *_ in rows],
        [package for _, package, *_ in rows],
        classes,
        None,
        {
            "title": "guesslang in VS Code, programming languages",
            "package": "@vscode/vscode-languagedetection (npm)",
            "version": json.loads((Path(package) / "package.json").read_text())["version"],
            "licence": "MIT",
            "data": f"Upstream archives of source packages of {debian_sources.RELEASE}, by a hash of the name; versions in "
            "paper/shipped/source_packages.txt",
            "rows": f"{LINES} consecutive lines at a random place of a file, at most 2000 characters; the language follows "
            "from the file's name (code blocks are taken out of Markdown first). Logits: the input of the model's softmax. "
            f"At most {PER_PACKAGE} files of a language from a package and {PER_LANGUAGE} of a language",
            "document": "source package",
            "note": "The model is that of guesslang (Y. Somda), which VS Code ships. The class dm (DreamMaker) does not occur",
        },
    )
    return rows, classes, logits


if __name__ == "__main__":
    main(*sys.argv[1:3])
