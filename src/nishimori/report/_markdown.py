"""The dictionary as Markdown, for pull requests and model cards."""

from collections.abc import Mapping
from typing import Any

import nishimori.report._content as content
import nishimori.report._top as top
from nishimori._support.escape import markdown_code, markdown_text
from nishimori._support.tables import Tabular
from nishimori.report._content import format_measurement, interval, level

# Rows of a table of classes or groups: more are in the JSON.
_ROWS = 20


def markdown(results: Mapping[str, Any]) -> str:
    """The whole text."""
    headline, *others = top.lines(results)
    about, glance = results["data"], top.before_and_after(results)
    risk, confusions = content.about_risk(results), content.confusions(results)
    parts = [
        f"# {markdown_text(content.heading(results))}",
        f"**{markdown_text(headline)}** {markdown_text(results['verdict']['summary'])}",
        "\n".join(f"- {markdown_text(line)}" for line in others),
        Tabular(("", *glance["heads"]), [(name, *map(_with_small, cells)) for name, cells in glance["rows"]]).markdown(),
        f"{content.about_data(results)}. "
        f"± is one standard error; intervals have a level of {level(results['level'])}. {content.about_brier(results)}",
        *([] if about["of_claims"] else ["## Temperatures", _temperatures(results).markdown()]),
        "## Before and after",
        *_metrics("method", content.method_table(results)),
        *_metrics("minus no calibration", content.difference_table(results)),
        "\n".join(f"- {markdown_text(sentence)}" for sentence in results["verdict"]["sentences"]),
        *(part for table in content.gap_tables(results) for part in _gaps(table)),
        *(["## What you can do with it", trust] if (trust := content.about_threshold(results)) else []),
        *(["## Errors", risk] if risk else []),
        *([Tabular(content.CONFUSION_HEADS, confusions).markdown()] if confusions else []),
        *_mistakes(results),
        *_absent(results),
        "## How this was made",
        "\n".join(f"- {markdown_text(name)}: {markdown_text(value)}" for name, value in content.provenance(results)),
        markdown_code(results["code"], "python"),
    ]
    return "\n\n".join(parts) + "\n"


def _with_small(cell: tuple[str, str, str]) -> str:
    text, small, _ = cell
    return f"{text} ({small})" if small else text


def _temperatures(results: Mapping[str, Any]) -> Tabular:
    rows = []
    for row in results["temperatures"]:
        T = row["temperature"]
        value = "none" if T is None else format_measurement(T, row["temperature_se"])
        rows.append((row["title"], value, row["why"] or "" if T is None else interval(row, "temperature", "number")))
    return Tabular(("method", "T", "interval"), rows)


def _metrics(head: str, table: Mapping[str, Any]) -> list[str]:
    """The table of methods or of their differences, if there are any."""
    rows = [(row["title"], *(" ".join(filter(None, cell)) for cell in row["cells"])) for row in table["rows"] if row["cells"]]
    return [Tabular((head, *table["heads"]), rows).markdown()] if rows else []


def _gaps(table: Mapping[str, Any]) -> list[str]:
    rows = [
        [cell["text"] + cell.get("error", "") + " off" * cell.get("off", False) for cell in row]
        for row in table["rows"][:_ROWS]
    ]
    left = len(table["rows"]) - len(rows)
    return [
        f"## {table['title']}",
        markdown_text(table["text"]),
        Tabular(table["heads"], rows).markdown(),
        *([f"... and {left} more"] if left > 0 else []),
    ]


def _mistakes(results: Mapping[str, Any]) -> list[str]:
    if (table := content.mistakes(results)) is None:
        return []
    rows = [[cell["text"] for cell in row] for row in table["rows"]]
    return ["## Most confident errors", Tabular([head["name"] for head in table["heads"]], rows).markdown()]


def _absent(results: Mapping[str, Any]) -> list[str]:
    if not results["absent"]:
        return []
    lines = (f"{part['what']}: {part['why']}." for part in results["absent"])
    return ["## What is not here", "\n".join(f"- {markdown_text(line)}" for line in lines)]
