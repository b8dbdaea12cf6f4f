"""Flip every verdict and comparison behind the statements, one at a time, and see whether the tests notice.

    python paper/tests/flip_statements.py              # all flips; a survivor is a defect of the tests
    python paper/tests/flip_statements.py --only _noise --list

A flip inverts a comparison, exchanges minimum and maximum, `and` and `or`, `all` and `any`, True and False, or two verdicts;
removes a minus, a `not` or an `abs`; or moves a threshold (a number in a comparison, or a constant that is compared with) up
or down, by a tenth or by 1.
The source on disk stays as it is: each flip is compiled in a process of its own, which then runs the tests.
"""

import argparse
import ast
import copy
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "paper" / "src" / "nishimori_paper"
FILES = (SOURCE / "_judged_statement.py", *sorted((SOURCE / "artefacts" / "_statements").glob("*.py")))
ARTEFACTS = ROOT / "paper" / "tests" / "artefacts"
# Tests of pieces made by hand, which need no fixtures; and those that draw or compute, for flips that the former do not see.
QUICK = ("test_statement_numbers", "test_statement_verdicts", "test_statement_chances")
# By module: file, and words in the names of the tests that run its work.
SLOW = {
    "_bayes": ("test_statement_pieces", "bayesian"),
    "_minimum": ("test_statement_pieces", "minimum or curves_of"),
    "_maximisation": ("test_statement_pieces", "evidence or maximisation"),
    "_method": ("test_statement_pieces", "facts or right or frequencies"),
    "_networks": ("test_statement_pieces", "resnet20 or sizes"),
    "_precision": ("test_statement_pieces", "variances or difference or precision or bundled"),
    "_regression": ("test_statement_pieces", "density or best_loss"),
    "_related_work": ("test_statement_pieces", "posterior or bayesian_methods"),
    "_resamples": ("test_statement_pieces", "resamples"),
    "_subsets": ("test_statement_pieces", "subsets"),
}
# What every child needs, except nishimori_paper, which may be changed.
IMPORTS = (
    *("matplotlib.pyplot", "pytest", "scipy.integrate", "scipy.optimize", "sklearn.base"),
    *(f"nishimori.{name}" for name in ("data", "metrics", "_calibrators.methods", "plot")),
)

PAIRS = ((ast.Lt, ast.GtE), (ast.Gt, ast.LtE), (ast.Eq, ast.NotEq), (ast.In, ast.NotIn), (ast.Is, ast.IsNot))
COMPARISONS = dict(PAIRS) | {other: one for one, other in PAIRS}
NAMES = {"min": "max", "max": "min", "all": "any", "any": "all", "argmin": "argmax", "argmax": "argmin"}
VERDICTS = {
    "holds": "contradicted",
    "contradicted": "holds",
    "holds with a condition": "contradicted",
    "slip of the pen": "contradicted",
    "cannot be judged here": "holds",
    "our data": "the paper's data",
    "the paper's data": "our data",
}


@dataclass(frozen=True)
class Flip:
    """A change of one expression: where it is, what it was and is, and the changed module."""

    file: Path
    line: int
    before: str
    after: str
    tree: ast.Module

    def __str__(self) -> str:
        return f"{self.file.name}:{self.line}: {self.before}  ->  {self.after}"


def flips(file: Path) -> Iterator[Flip]:
    """Every flip of a file."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    compared = {id(each) for node in ast.walk(tree) if isinstance(node, ast.Compare) for each in ast.walk(node)}
    names = {node.id for node in ast.walk(tree) if id(node) in compared and isinstance(node, ast.Name)}
    constants = {id(node.value) for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in names}
    settings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.keyword)}  # such as strict=True
    types = {id(each) for node in tree.body if _is_type(node) for each in ast.walk(node)}
    for number, node in enumerate(ast.walk(tree)):
        if id(node) not in types and not (isinstance(node, ast.Constant) and id(node) in settings):
            threshold = id(node) in compared or id(node) in constants
            for i in range(len(_changes(node, threshold))):
                changed = copy.deepcopy(tree)
                target = list(ast.walk(changed))[number]
                before = ast.unparse(target)
                new = _changes(target, threshold)[i]
                _replace(changed, target, new)
                yield Flip(file, node.lineno, before, ast.unparse(new), ast.fix_missing_locations(changed))


def _is_type(node: ast.stmt) -> bool:
    """Whether a statement only names a type, such as the words that a verdict can be."""
    return isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript)


def _changes(node: ast.AST, threshold: bool) -> list[ast.expr]:
    """What ``node`` becomes, for each way to flip it."""
    if isinstance(node, ast.Compare):
        return [_with(node, ops=[*node.ops[:i], COMPARISONS[type(op)](), *node.ops[i + 1 :]]) for i, op in enumerate(node.ops)]
    if isinstance(node, ast.BoolOp):
        return [_with(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub | ast.Invert):
        return [node.operand]
    if isinstance(node, ast.Name) and node.id in NAMES:
        return [_with(node, id=NAMES[node.id])]
    if isinstance(node, ast.Attribute) and node.attr in NAMES:
        return [_with(node, attr=NAMES[node.attr])]
    if isinstance(node, ast.Call) and ast.unparse(node.func) in ("abs", "np.abs"):
        return [node.args[0]]
    return _other_constants(node, threshold) if isinstance(node, ast.Constant) else []


def _other_constants(node: ast.Constant, threshold: bool) -> list[ast.expr]:
    value = node.value
    if isinstance(value, bool):
        return [ast.Constant(not value)]
    if isinstance(value, str) and value in VERDICTS:
        return [ast.Constant(VERDICTS[value])]
    if isinstance(value, float) and threshold and value:
        return [ast.Constant(0.9 * value), ast.Constant(1.1 * value)]
    if isinstance(value, int) and threshold:
        return [ast.Constant(value - 1), ast.Constant(value + 1)]
    return []


def _with(node: ast.AST, **fields: object) -> ast.expr:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    assert isinstance(changed, ast.expr)
    return changed


def _replace(tree: ast.Module, old: ast.AST, new: ast.expr) -> None:
    class Replace(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> ast.AST:
            return ast.copy_location(new, node) if node is old else self.generic_visit(node)

    Replace().visit(tree)


class Finder:
    """Imports one module from a changed tree."""

    def __init__(self, flip: Flip) -> None:
        inside = flip.file.relative_to(SOURCE.parent).with_suffix("").parts
        self.name = ".".join(inside).removesuffix(".__init__")
        self.flip = flip

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> object:
        if name != self.name:
            return None
        flip = self.flip

        class Loader(SourceFileLoader):
            def get_code(self, fullname: str) -> object:
                return compile(flip.tree, str(flip.file), "exec")

        folder = [str(flip.file.parent)] if flip.file.name == "__init__.py" else None
        return importlib.util.spec_from_file_location(
            name, flip.file, loader=Loader(name, str(flip.file)), submodule_search_locations=folder
        )


def in_a_child(flip: Flip | None, run: Callable[[], bool]) -> bool:
    """What ``run`` says in a process of its own, where the flip is in place; False if it fails."""
    child = os.fork()
    if child == 0:
        with Path(os.devnull).open("w") as nowhere:
            os.dup2(nowhere.fileno(), 1)
            os.dup2(nowhere.fileno(), 2)
        if flip is not None:
            sys.meta_path.insert(0, Finder(flip))
        try:
            os._exit(0 if run() else 1)
        except BaseException:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def quick_tests_pass() -> bool:
    """Call the quick tests directly: for hundreds of flips, starting pytest takes longer than they do."""
    for name in QUICK:
        module = importlib.import_module(name)
        for test in (value for key, value in vars(module).items() if key.startswith("test_")):
            for arguments in _arguments(test):
                test(**arguments)
    return True


def _arguments(test: Any) -> Iterator[dict[str, Any]]:
    marks = getattr(test, "pytestmark", [])
    if not marks:
        yield {}
    for mark in marks:
        names, values = mark.args
        for value in values:
            yield {names: value} if isinstance(names, str) else dict(zip(names, value, strict=True))


def slow_tests_pass(module: str) -> bool:
    """Run the slow tests of a module with pytest."""
    file, words = SLOW[module]
    return (
        importlib.import_module("pytest").main(["-x", "-q", "-p", "no:cacheprovider", f"{ARTEFACTS / file}.py", "-k", words])
        == 0
    )


def caught(flip: Flip, *, quick: bool) -> bool:
    """Whether some test fails with the flip in place."""
    if not in_a_child(flip, quick_tests_pass):
        return True
    module = flip.file.stem
    return not quick and module in SLOW and not in_a_child(flip, partial(slow_tests_pass, module))


def pass_without_flips(modules: set[str]) -> bool:
    """Whether the quick tests and the slow ones of some modules pass, and there are some, as long as nothing is flipped."""
    return in_a_child(None, quick_tests_pass) and all(in_a_child(None, partial(slow_tests_pass, each)) for each in modules)


def import_once() -> None:
    """Import in this process what every child needs."""
    # Without these plugins and their imports a child starts in a third of the time.
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    sys.path[:0] = [str(ROOT / "tests" / "helpers"), str(ROOT / "paper" / "tests" / "helpers"), str(ARTEFACTS)]
    for name in IMPORTS:
        importlib.import_module(name)
    assert "nishimori_paper" not in sys.modules


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    """Print the survivors; the exit code is 1 if there are any, and 2 if the tests fail without a flip."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", help="name of a module, such as _noise")
    parser.add_argument("--limit", type=int, help="so many flips, the first ones")
    parser.add_argument("--quick", action="store_true", help="run only the quick tests, which do not see every flip")
    parser.add_argument("--list", action="store_true", help="print the flips and run nothing")
    asked = parser.parse_args()
    chosen = [flip for file in FILES if asked.only in (None, file.stem) for flip in flips(file)][: asked.limit]
    if asked.list:
        _say("\n".join(map(str, chosen)))
        return 0
    import_once()
    modules = set() if asked.quick else {flip.file.stem for flip in chosen} & set(SLOW)
    if not pass_without_flips(modules):
        _say("The tests fail without any flip.")
        return 2
    survivors = []
    for flip in chosen:
        if not caught(flip, quick=asked.quick):
            survivors.append(flip)
            _say(f"survives: {flip}")
    _say(f"{len(chosen)} flips, {len(chosen) - len(survivors)} caught, {len(survivors)} survived")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
