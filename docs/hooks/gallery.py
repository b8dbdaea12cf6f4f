"""The gallery: a page for each example, with its code, what it prints and what it draws.

Examples run when the site is built, unless the tests or an earlier build have run the same files
(``tests/contract/example_runs.py``).
"""

import ast
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
sys.path += [str(ROOT / "tests" / name) for name in ("contract", "helpers")]

from example_runs import EXAMPLES, ExampleRuns, missing  # noqa: E402 - in a folder of its own

GROUPS = {
    "First steps": {
        "quickstart": "A real network",
        "scikit_learn": "A scikit-learn classifier",
        "binary_score": "A binary score",
        "pytorch": "Logits as PyTorch tensors",
    },
    "PyTorch training": {
        "torch_loop": "A plain training loop",
        "torch_lightning": "Lightning",
        "torch_transformers": "The Trainer of Hugging Face",
        "torch_distributed": "DistributedDataParallel",
        "segmentation": "Segmentation, with error bars by image",
    },
    "Language models": {
        "language_model": "Tokens, with error bars by document",
        "language_model_answers": "Whole answers and multiple choice",
        "torch_causal_lm": "A causal language model",
    },
    "Large data": {
        "map_reduce_pool": "A pool of processes",
        "map_reduce_ray": "Ray",
        "map_reduce_spark": "Spark",
        "rows_from_sqlite": "A database",
    },
    "Your own": {
        "margin_temperature": "A map and a calibrator of your own",
        "own_teacher": "A teacher of your own",
        "calarena": "The benchmark CalArena",
    },
}


def on_files(files: Files, config: Any, **_: Any) -> Files:
    """Add the pages and the pictures."""
    titles = {name: title for group in GROUPS.values() for name, title in group.items()}
    if sorted(titles) != [path.stem for path in EXAMPLES]:
        raise ValueError(f"docs/hooks/gallery.py must have every example once, got {sorted(titles)}")
    pictures = {}
    with ExampleRuns() as runs:
        for path in EXAMPLES:
            page, drawn = described(path, titles[path.stem], runs)
            files.append(File.generated(config, f"gallery/{path.stem}.md", content=page))
            for picture in drawn:
                files.append(File.generated(config, f"gallery/{picture.name}", abs_src_path=str(picture)))
                pictures[path.stem] = picture.name
    files.append(File.generated(config, "gallery/index.md", content=overview(pictures)))
    return files


def described(path: Path, title: str, runs: ExampleRuns) -> tuple[str, list[Path]]:
    """The page of an example, and its pictures."""
    source = path.read_text(encoding="utf-8")
    docstring, code = split(source)
    parts = ["---\nhide: [toc]\n---", f"# {title}", docstring]  # lines of code need the whole width
    absent, drawn = missing(source), []
    if absent:
        parts.append(f"*It was not run for this page: {', '.join(absent)} is not installed where the page was made.*")
    else:
        found = runs.outcome(path)
        drawn = [runs.folder(path) / name for name in found.pictures]
        parts += [f"![What the example draws]({picture.name})" for picture in drawn]
        how = f" For this page it was run for a shorter time than usual (`{found.shortened}`)." if found.shortened else ""
        parts += [f"It prints:{how}", f"```text\n{found.output.rstrip()}\n```"]
    parts += [f"## {path.name}", f"```python\n{code.strip()}\n```", "[All examples](index.md)"]
    return "\n\n".join(parts) + "\n", drawn


def split(source: str) -> tuple[str, str]:
    """The docstring of a script as Markdown, and the rest."""
    tree = ast.parse(source)
    docstring = (ast.get_docstring(tree) or "").replace("``", "`")
    first = tree.body[0]
    return docstring, "\n".join(source.splitlines()[first.end_lineno :])


def overview(pictures: dict[str, str]) -> str:
    """The page of cards."""
    parts = ["# Gallery", "Complete scripts from the folder `examples` of the repository, run when this site was made."]
    docstrings = {path.stem: split(path.read_text(encoding="utf-8"))[0] for path in EXAMPLES}
    for group, titles in GROUPS.items():
        cards = []
        for name, title in titles.items():
            summary = docstrings[name].partition("\n\n")[0].replace("\n", " ")
            picture = f"\n    ![]({pictures[name]})\n" if name in pictures else ""
            cards.append(f"-   **[{title}]({name}.md)**\n{picture}\n    {summary}\n")
        parts += [f"## {group}", '<div class="grid cards" markdown>\n\n' + "\n".join(cards) + "\n</div>"]
    return "\n\n".join(parts) + "\n"
