"""docs/shipped_models.md and bench/results/shipped.md, from templates and the numbers in paper/shipped_results.json.

python paper/tests/shipped_page.py

In the templates paper/shipped/page.md and details.md, {{py3langid/methods/ec/ece|.1%}} is a number of the final half, and
{{models}}, {{halves}}, {{scores}}, {{temperatures}}, {{mechanisms}} and {{domains}} are tables.
"""

import json
from pathlib import Path

from nishimori_paper.artefacts._shipped_measures import MASKED, METHODS, larger_error
from numbers_in_text import filled

PAPER = Path(__file__).resolve().parents[1]
PAGES = {
    "page.md": PAPER.parent / "docs" / "shipped_models.md",
    "details.md": PAPER.parent / "bench" / "results" / "shipped.md",
}
RAW = {"none": "", "ts": ", TS", "ec": ", EC"}
CHANGES = {
    "as shipped": "nothing",
    "absent classes removed": "classes that do not occur removed",
    "bias per class": "a bias per class (priors)",
    "absent removed, bias": "both",
    "temperature per class": "a temperature per class",
    "hard classes removed": "classes of which less than half are right removed",
    "doubtful labels removed": "labels that two other models contradict removed",
    "temperature by length": "a temperature for each range of lengths",
    "short third": "shortest third only",
    "middle third": "middle third only",
    "long third": "longest third only",
    "not divided by √bytes": "scores not divided by √bytes",
}


def results():
    """What paper/shipped/results.py has measured."""
    return json.loads((PAPER / "shipped_results.json").read_text(encoding="utf-8"))


def page(stored, template="page.md"):
    """The page in Markdown."""
    text = (PAPER / "shipped" / template).read_text(encoding="utf-8")
    final = stored["final"]
    for table in (models, scores, temperatures, mechanisms, domains):
        text = text.replace(f"{{{{{table.__name__}}}}}", "\n".join(table(final)))
    stored = {half: {name: with_differences(content) for name, content in found.items()} for half, found in stored.items()}
    text = text.replace("{{halves}}", "\n".join(halves(stored)))
    # Without a half, numbers are those of the final one.
    return filled(text, stored["final"] | stored)


def with_differences(content):
    """A model's numbers, with differences from TS in NLL and in errors, and shares of log T_TS/T_EC that go with a change."""
    if "mechanisms" not in content:
        return content
    nll = content["methods"]["ts"]["nll"]
    methods = {
        name: found and found | {"against_ts": with_ratio(found["against_ts"] | {"nll": found["nll"] - nll})}
        for name, found in content["methods"].items()
    }
    found = content["mechanisms"]
    changes = {"doubtful": "doubtful labels removed", "bias": "bias per class"}
    shares = {
        short: 1 - found[name]["difference"] / found["as shipped"]["difference"]
        for short, name in changes.items()
        if found.get(name)
    }
    difference = content["difference"]
    in_errors = abs(difference["difference"]) / larger_error(difference)
    return content | {"methods": methods, "shares": shares, "difference": difference | {"in_errors": in_errors}}


def with_ratio(against):
    """A difference of ECEs, with its size in standard errors by document."""
    return against | {"in_document_errors": abs(against["ece"]) / against["se"] if against["se"] else 0.0}


def errors(found, document, by_class, form):
    """Both standard errors, or the first where there are too few classes."""
    return " ± ".join(format(found[name], form) for name in (document, by_class) if found[name] is not None)


def title(content):
    """The model's short name."""
    return content["title"].partition(",")[0]


def with_mechanisms(final):
    """Those with scores of all methods."""
    return {name: content for name, content in final.items() if "mechanisms" in content}


def models(final):
    yield "| model | package | classes | occur here | documents | rows to fit and to test |"
    yield "|---|---|---|---|---|---|"
    for content in with_mechanisms(final).values():
        numbers = [content[name] for name in ("n_classes", "n_present", "documents")]
        sizes = f"{content['n_fit']}, {content['n_test']}"
        yield f"| {title(content)} | {content['package']} | {' | '.join(map(str, numbers))} | {sizes} |"


def halves(stored):
    yield "| model | half | ECE as shipped | TS | EC | EC − TS | log T_TS/T_EC | standard errors |"
    yield "|---|---|---|---|---|---|---|---|"
    for name, content in with_mechanisms(stored["final"]).items():
        for half in ("development", "final"):
            found = stored[half][name]
            methods, difference = found["methods"], found["difference"]
            against = methods["ec"]["against_ts"]
            values = [
                title(content) if half == "development" else "",
                half,
                *(f"{100 * methods[each]['ece']:.1f} %" for each in ("none", "ts", "ec")),
                f"{100 * against['ece']:+.1f} ± {100 * max(against['se'], against['se_class']):.1f}",
                f"{difference['difference']:+.3f} ± {larger_error(difference):.3f}",
                f"{difference['difference'] / larger_error(difference):+.1f}",
            ]
            yield f"| {' | '.join(values)} |".replace("-", "−")


def scores(final):
    yield "| model | method | accuracy | ECE (± document, ± class) | corrected | NLL | class gaps |"
    yield "|---|---|---|---|---|---|---|"
    for content in with_mechanisms(final).values():
        first = f"{title(content)}, {content['n_test']} rows"
        rows = [(METHODS[method], content["methods"][method]) for method in METHODS]
        rows += [(MASKED[method], content["masked"][method]) for method in MASKED]
        if "raw" in content:
            rows += [(f"not divided by √bytes{RAW[method]}", content["raw"][method]) for method in RAW]
        for name, found in rows:
            if found is None:
                yield f"| {first} | {name} | no solution | | | | |"
            else:
                yield f"| {first} | {name} | {score(found)} |"
            first = ""


def score(found):
    """Accuracy, ECE with both errors, corrected ECE, NLL and the root mean square of class gaps."""
    percent = {name: value and 100 * value for name, value in found.items() if name.startswith("ece")}
    ece = f"{percent['ece']:.1f} ± {errors(percent, 'ece_se', 'ece_se_class', '.1f')} %"
    corrected = "" if found["ece_corrected"] is None else f"{100 * found['ece_corrected']:.1f} %"
    gaps = "" if found["class_gap"] is None else f"{100 * found['class_gap']:.0f} %"
    return f"{100 * found['accuracy']:.1f} % | {ece} | {corrected} | {found['nll']:.3f} ± {found['nll_se']:.3f} | {gaps}"


def temperatures(final):
    yield (
        "| model | T_EC | T_TS | log T_TS/T_EC (± document, ± class) | standard errors | formula | covariance | rest "
        "| rms Δ before → after EC |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    for content in with_mechanisms(final).values():
        found = content["difference"]
        values = [
            title(content),
            f"{found['temperature_ec']:.2f}",
            f"{found['temperature_ts']:.2f}",
            f"{found['difference']:+.3f} ± {errors(found, 'difference_se_document', 'difference_se_class', '.3f')}",
            f"{found['difference'] / larger_error(found):+.1f}",
            *(f"{found[name]:+.3f}" for name in ("first_order", "covariance", "wrong_classes")),
            f"{100 * found['rms_before']:.1f} → {100 * found['rms_after']:.1f} %",
        ]
        yield f"| {' | '.join(values)} |".replace("-", "−")


def mechanisms(final):
    chosen = with_mechanisms(final)
    yield f"| what is changed | {' | '.join(title(content) for content in chosen.values())} |"
    yield f"|---|{'---|' * len(chosen)}"
    for change, name in CHANGES.items():
        cells = [content["mechanisms"].get(change) for content in chosen.values()]
        words = [
            "" if found is None else f"{found['difference']:+.3f} ± {larger_error(found):.3f}".replace("-", "−")
            for found in cells
        ]
        if any(words):
            yield f"| {name} | {' | '.join(words)} |"


def domains(final):
    yield "| model | fitted to | as shipped | TS | EC | NLL as shipped, TS, EC |"
    yield "|---|---|---|---|---|---|"
    for name, content in final.items():
        if name.endswith("-manuals"):
            for kind, words in (("methods", "messages"), ("own", "manuals")):
                found = [content[kind][method] for method in ("none", "ts", "ec")]
                eces = " | ".join(f"{100 * each['ece']:.1f} ± {100 * each['ece_se']:.1f} %" for each in found)
                yield f"| {title(content)} | {words} | {eces} | {', '.join(format(each['nll'], '.3f') for each in found)} |"


if __name__ == "__main__":
    for template, path in PAGES.items():
        path.write_text(page(results(), template), encoding="utf-8")
