"""``nishimori paper list``, ``run`` and ``check``: the tables and figures of the paper."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import nishimori_paper as paper
from nishimori.cli._help import FLAG, JsonOption, epilog
from nishimori.cli._terminal import note, print_json, print_text
from nishimori_paper.cli import _training
from nishimori_paper.cli._rows import print_rows
from nishimori_paper.cli._training import DataOption, DeviceOption, ForceOption, SeedOption

if TYPE_CHECKING:
    from nishimori_paper import Finding, JudgedStatement

_CHECKED = {3: "check: a number differs unexplained, or a statement is contradicted"}

app = typer.Typer(
    help="Make the tables and figures of arXiv:2303.02644 and compare.",
    no_args_is_help=True,
    epilog=epilog("nishimori paper list", "nishimori paper check all --quick", codes=_CHECKED),
)


def _artefacts(incomplete: str) -> list[str]:
    """The tables and figures whose names begin with what was typed, for the completion of the shell."""
    return [name for name in (*paper.names(), "all") if name.startswith(incomplete)]


Names = Annotated[
    list[str],
    typer.Argument(
        help="Names from `nishimori paper list`, or all.", show_default=False, metavar="NAMES", autocompletion=_artefacts
    ),
]
QuickOption = Annotated[
    bool, typer.Option("--quick", help="Less work, for a first look: fewer seeds, dimensions and points.", metavar=FLAG)
]


@app.command("list", epilog=epilog("nishimori paper list"))
def list_(as_json: JsonOption = False) -> None:
    """List the tables and figures that can be run and checked."""
    rows = [{"name": name, "title": paper.artefact(name).title, "where": paper.artefact(name).where} for name in paper.names()]
    if as_json:
        print_json({"artefacts": rows})
    else:
        print_rows(rows)


@app.command(epilog=epilog("nishimori paper run table-real -o results", "nishimori paper run all --quick"))
def run(
    names: Names,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for pictures and numbers.", metavar="FOLDER")] = Path(
        "nishimori-paper"
    ),
    quick: QuickOption = False,
    seed: SeedOption = 0,
    train: Annotated[
        bool,
        typer.Option(
            "--train",
            help="First train the networks, into `networks` in the folder, instead of using the bundled logits.",
            metavar=FLAG,
        ),
    ] = False,
    data: DataOption = None,
    device: DeviceOption = None,
    as_json: JsonOption = False,
    force: ForceOption = False,
) -> None:
    """Compute tables and figures and write PNG, SVG, CSV and JSON.

    An interrupted run continues when it is repeated.
    """
    written = {}
    for name in _check_names(names):
        try:
            outcome = paper.run(
                name,
                output,
                quick=quick,
                seed=seed,
                overwrite=force,
                train=train,
                data=data,
                device=device,
                progress=True if train else None,  # training takes hours: its lines belong in a log, too
            )
        except KeyboardInterrupt:
            again = "repeat the command without --force" if force else "repeat the command"
            note(f"Interrupted. The finished part of {name} is in {output}; {again} to continue.")
            raise typer.Exit(130) from None
        left = f"wrote {len(outcome.files)} files to {output}" if outcome.fresh else f"already in {output}; --force starts over"
        note(f"{name}: {_counts(outcome.findings)}; {left}")
        written[name] = {"files": [str(path) for path in outcome.files], "findings": _counts(outcome.findings)}
    if as_json:
        print_json(written)


@app.command(epilog=epilog("nishimori paper check all --quick", "nishimori paper check statements", codes=_CHECKED))
def check(
    names: Names,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Folder of a finished run; without it, compute now.", show_default=False, metavar="FOLDER"
        ),
    ] = None,
    quick: QuickOption = False,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Compare numbers and statements with the paper."""
    findings_by_name: dict[str, Sequence[Finding]] = {}
    for name in _check_names(names):
        findings_by_name[name] = paper.check(name, output, quick=quick, seed=seed)
    if as_json:
        print_json({name: [_json_row(finding) for finding in findings] for name, findings in findings_by_name.items()})
    else:
        for name, findings in findings_by_name.items():
            print_text(name)
            print_rows([_row(finding) for finding in findings])
    for name, findings in findings_by_name.items():
        note(f"{name}: {_counts(findings)}")
        for reason in dict.fromkeys(finding.explanation for finding in findings if finding.verdict == "explained"):
            note(f"  explained: {reason} gives the paper's number")
    if any(finding.verdict in ("differs", "contradicted") for findings in findings_by_name.values() for finding in findings):
        raise typer.Exit(3)


for command, example in _training.EXAMPLES.items():
    app.command(epilog=epilog(example))(command)


def _check_names(names: Sequence[str]) -> Sequence[str]:
    chosen = paper.names() if "all" in names else list(dict.fromkeys(names))
    for name in chosen:
        paper.artefact(name)  # refused before any work is done
    return chosen


def _counts(findings: "Sequence[Finding]") -> str:
    verdicts = [finding.verdict for finding in findings]
    words = {
        "agrees": "agree",
        "explained": "explained",
        "differs": "differ",
        "too few seeds": "with too few seeds",
        "holds": "hold",
        "holds with a condition": "hold with a condition",
        "slip of the pen": "slips of the pen",
        "contradicted": "contradicted",
        "cannot be judged here": "cannot be judged here",
    }
    return ", ".join(f"{verdicts.count(verdict)} {word}" for verdict, word in words.items() if verdict in verdicts)


def _row(finding: "Finding") -> dict[str, Any]:
    return _number_row(finding) if finding.statement is None else _statement_row(finding.statement)


def _statement_row(statement: "JudgedStatement") -> dict[str, Any]:
    """The statement, the finding and the verdict, each with its details."""
    parts = [statement.ours, f"paper's data: {statement.paper_data}" if statement.paper_data else ""]
    verdict = [
        statement.verdict,
        statement.condition,
        f"true only of {statement.true_only_of}" if statement.true_only_of else "",
    ]
    return {
        "section": statement.section,
        "the_paper": f"“{statement.quotation}”",
        "taken_to_mean": statement.criterion,
        "found_here": "; ".join(filter(None, parts)),
        "verdict": ": ".join(filter(None, verdict)),
    }


def _number_row(finding: "Finding") -> dict[str, Any]:
    row: dict[str, Any] = {"what": finding.what, "ours": finding.ours, "paper": finding.paper}
    row["difference"] = finding.difference
    if finding.explanation is not None:
        row["paper_method"] = finding.paper_method
    return row | {"tolerance": finding.tolerance, "verdict": finding.verdict}


def _json_row(finding: "Finding") -> dict[str, Any]:
    """A finding as JSON, until 0.3 also with the former name of ``paper_method``."""
    row = _number_row(finding)
    if finding.statement is not None:
        return row | asdict(finding.statement)
    return row | {"in_their_way": row["paper_method"]} if "paper_method" in row else row
