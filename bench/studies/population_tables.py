"""The page about the population of networks and its picture, from its numbers.

python bench/studies/population_tables.py    # docs/images/population.png again, from paper/population_results.json
"""

import argparse
import json
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt

METHODS = ("none", "ts", "ec", "adaptive", "best", "vector", "vector+ec", "matrix", "matrix+ec")
SIGN = {"below": "<", "above": ">", "within": "within ±"}
UNITS = {"H3a": "points of ECE", "H3b": "points of ECE", "H4b": "points of ECE", "H5a": "points of ECE"}
UNITS |= {
    "H8a": "points of ECE",
    "H8b": "points of ECE",
    "H4a": "NLL",
    "H5b": "NLL",
    "H1": "log T",
    "H6a": "log T",
    "H6b": "log T",
}
UNITS |= {"H2a": "mean square", "H2b": "mean square", "H7": "mean square", "H6c": "r²"}


def page(found):
    """The page as Markdown."""
    parts = [
        "# A population of networks",
        "Written by `bench/studies/population_results.py` from networks that `bench/studies/population.py` has trained. "
        "What was trained, measured and tested was declared before in [paper/population.toml](../../paper/population.toml), "
        "which also says how "
        "errors are computed. It was amended once, before the first group of networks had finished: how the errors of H8 are "
        "computed, and a remark on augmentation before H6. All numbers are in `paper/population_results.json`. ECE in percent, "
        "15 bins of equal mass; 5,000 validation images, 10,000 test images. "
        f"{len(found['networks'])} networks of {len(found['kinds'])} kinds.",
        "## Hypotheses",
        "H6a, H6b and H6c are means over networks, as declared. Seeds of a kind are alike, so that these errors are too small: "
        "[After interpolation](#after-interpolation) has the mean over kinds.",
        tests(found),
        "## EC and TS",
        "The mean over kinds (mixed model, REML). Its standard error is that of the images, and of kinds and seeds, together.",
        means(found),
        kinds(found),
        f"The first-order formula of log T_TS/T_EC, fitted to the test images, is off by at most {found['formula'][0]:.4f}.",
        "## All methods",
        scores(found, "ece", 2),
        scores(found, "nll", 4),
        choices(found),
        "## Epochs",
        "Means over the networks of a kind. T is fitted to the test images. Gap: root mean square over margins, before → after "
        "EC, in percent.",
        epochs(found),
        "## After interpolation",
        grown(found),
        growth_over_kinds(found),
        "## Bayesian baselines",
        bayes(found),
        "## Gap by margin after EC",
        "In percent, in 15 bins of equal numbers of test images, from small to large margins, and the mean standard error.",
        margins(found),
    ]
    return "\n\n".join(each for each in parts if each) + "\n"


def table(head, rows):
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def with_error(value, error, digits):
    """A number and its standard error."""
    return f"{value:+.{digits}f} ± {error:.{digits}f}"


def tests(found):
    """One row per hypothesis."""
    rows = []
    for name, each in found["hypotheses"].items():
        if "estimate" not in each:
            rows.append([name, each["says"], "", "", "", "", each["verdict"]])
            continue
        value, error = each["estimate"]["value"], each["estimate"]["error"]
        shown = f"{value:+.3g} ± {error:.2g} {UNITS[name]}"
        rows.append(
            [
                name,
                each["says"],
                shown,
                f"{SIGN[each['compare']]} {each['bound']:.3g}",
                p(each["p"]),
                p(each["holm"]),
                each["verdict"],
            ]
        )
    return table(["", "says", "estimate", "predicted", "p", "p after Holm", "verdict"], rows)


def p(value):
    """A p-value."""
    return f"{value:.3f}" if value >= 0.001 else "< 0.001"


def means(found):
    """One row per mean over kinds."""
    rows = [
        [
            "log T_TS − log T_EC" if name == "log_ratio" else name,
            f"{each['value']:+.4f} ± {each['error']:.4f}",
            f"{each['low']:+.4f} to {each['high']:+.4f}",
            f"{each['error_of_images']:.4f}",
            f"{each['sd_between']:.4f}",
            f"{each['sd_within']:.4f}",
        ]
        for name, each in found["means"].items()
    ]
    return table(["", "mean over kinds", "95 %", "error of images", "sd between kinds", "sd of seeds"], rows)


def kinds(found):
    """One row per kind."""
    rows = []
    for kind, each in found["kinds"].items():
        value = {key: number["mean"] for key, number in each["values"].items()}
        last = [*each["epochs"].values()][-1]
        error = (
            each["values"]["log_ratio"]["error_of_images"] ** 2 + each["values"]["log_ratio"]["sd"] ** 2 / each["networks"]
        ) ** 0.5
        rows.append(
            [
                kind,
                each["networks"],
                f"{100 * each['error']:.1f}",
                f"{100 * last['training_accuracy']:.1f}",
                f"{2.718281828 ** value['log_ec']:.3f}",
                f"{2.718281828 ** value['log_ts']:.3f}",
                with_error(value["log_ratio"], error, 3),
                f"{100 * last['rms_before']:.1f} → {100 * last['rms_after']:.1f}",
                f"{100 * each['classes']:.1f}",
            ]
        )
    head = [
        "kind",
        "networks",
        "error %",
        "training accuracy %",
        "T_EC",
        "T_TS",
        "log T_TS/T_EC",
        "rms gap % before → after EC",
    ]
    return table([*head, "class gap after EC %"], rows)


def scores(found, what, digits):
    """ECE or NLL of every method, one row per kind."""
    rows = [
        [kind, *(f"{each['values'][f'{what} {name}']['mean']:.{digits}f}" for name in METHODS)]
        for kind, each in found["kinds"].items()
    ]
    return table([what.upper(), *METHODS], rows)


def choices(found):
    """What "best" chose."""
    every = [name for each in found["kinds"].values() for name in each["chosen"]]
    return "`best` chose " + ", ".join(f"{name} {every.count(name)} times" for name in sorted(set(every))) + "."


def epochs(found):
    """One row per kind and epoch."""
    rows = []
    for kind, each in found["kinds"].items():
        for epoch, row in each["epochs"].items():
            rows.append(
                [
                    kind,
                    epoch,
                    f"{100 * row['training_accuracy']:.1f}",
                    f"{100 * row['error']:.1f}",
                    f"{row['log_ec']:+.3f}",
                    f"{row['log_ts']:+.3f}",
                    f"{row['scale']:.2f}",
                    f"{100 * row['rms_before']:.1f} → {100 * row['rms_after']:.1f}",
                ]
            )
    return table(["kind", "epoch", "training accuracy %", "error %", "log T_EC", "log T_TS", "scale of logits", "gap"], rows)


def grown(found):
    """One row per network that interpolates before its last epoch."""
    rows = [
        [
            row["network"],
            row["from"],
            row["to"],
            *(f"{row[key]:+.3f}" for key in ("growth of T", "growth of scale")),
            f"{row['r2']:.3f}",
        ]
        for each in found["kinds"].values()
        for row in each["growth"]
    ]
    if not rows:
        return "No network classifies 99.5 % of its training images correctly before its last epoch."
    return table(["network", "from epoch", "to", "growth of log T_EC", "growth of log scale", "r² of the logits"], rows)


def growth_over_kinds(found):
    """The mean over kinds, and how T follows the scale of the logits."""
    each = found.get("growth")
    if not each:
        return None
    return (
        f"Over the {each['kinds']} kinds, log T_EC grows by {each['value']:+.3f} ± {each['error']:.3f} "
        f"(95 %: {each['low']:+.3f} to {each['high']:+.3f}). It follows the scale of the logits: correlation "
        f"{each['correlation']:.2f}, slope {each['slope']:.2f} over kinds. Every recipe has weight decay, of 1e-4 or 5e-4, so "
        "that logits cannot grow without limit; growth without weight decay was not tested."
    )


def bayes(found):
    """Scores of the ensemble, of dropout, and of single networks."""
    rows = []
    if "ensemble" in found:
        cells = [
            f"{found['ensemble'][f'{what} {name}']['value']:.{digits}f}" for what, digits in SCORES for name in METHODS[:3]
        ]
        rows.append(["five networks of c10-cosine, mean probability", *cells])
    for kind, title, prefix in (
        ("c10-cosine", "c10-cosine, mean of single networks", ""),
        ("c10-dropout", "c10-dropout, mean probability of 20 passes", "passes "),
        ("c10-dropout", "c10-dropout, one pass without dropout", ""),
    ):
        if kind in found["kinds"]:
            values = found["kinds"][kind]["values"]
            cells = [
                f"{values[f'{prefix}{what} {name}']['mean']:.{digits}f}" for what, digits in SCORES for name in METHODS[:3]
            ]
            rows.append([title, *cells])
    return table(["", *(f"{what.upper()} {name}" for what, _ in SCORES for name in ("as it is", "after TS", "after EC"))], rows)


SCORES = (("ece", 2), ("nll", 4))


def margins(found):
    """The gap in each bin, one row per kind."""
    rows = []
    for kind, each in found["kinds"].items():
        error = sum(row["gap_se"] for row in each["margins"]) / len(each["margins"])
        rows.append([kind, *(f"{100 * row['gap']:+.1f}" for row in each["margins"]), f"{100 * error:.1f}"])
    return table(["kind", *range(1, len(rows[0]) - 1), "error"], rows)


# The picture.

mpl.use("agg")


ROOT = Path(__file__).parents[2]
COLOURS = (*plt.get_cmap("tab10").colors, "black", "gold")


def draw(found, path):
    """Four panels: difference of the temperatures, gap by margin, T by epoch, T against the scale of the logits."""
    figure, axes = plt.subplots(2, 2, figsize=(11, 8.5), layout="constrained")
    kinds = found["kinds"]
    draw_ratios(axes[0, 0], kinds)
    draw_margins(axes[0, 1], kinds)
    draw_epochs(axes[1, 0], kinds)
    draw_growth(axes[1, 1], kinds)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def draw_ratios(axis, kinds):
    """Log T_TS/T_EC of each kind, with standard errors."""
    for i, each in enumerate(kinds.values()):
        row = each["values"]["log_ratio"]
        error = np.hypot(row["error_of_images"], row["sd"] / np.sqrt(each["networks"]))
        axis.errorbar(row["mean"], -i, xerr=error, fmt="o", color=colour(i), capsize=3)
    axis.axvspan(-0.05, 0.05, color="0.92")
    axis.axvline(0, color="0.5", lw=0.8)
    axis.set_yticks([-i for i in range(len(kinds))], list(kinds))
    axis.set_xlabel("log T_TS − log T_EC, with its standard error")
    axis.set_title("Difference of the two temperatures")


def draw_margins(axis, kinds):
    """Mean gap after EC in each bin."""
    for i, (kind, each) in enumerate(kinds.items()):
        n = len(each["margins"])
        axis.plot(
            range(1, n + 1), [100 * row["gap"] for row in each["margins"]], line(kind), color=colour(i), lw=1.4, label=kind
        )
    axis.axhline(0, color="0.5", lw=0.8)
    axis.set_xlabel("bin by margin, from small to large")
    axis.set_ylabel("confidence − accuracy, %")
    axis.set_title("What EC leaves of the gap")
    axis.legend(fontsize=7, ncols=2)


def draw_epochs(axis, kinds):
    """Log T_EC by epoch; circles where the networks interpolate."""
    for i, (kind, each) in enumerate(kinds.items()):
        x = [int(epoch) for epoch in each["epochs"]]
        y = [row["log_ec"] for row in each["epochs"].values()]
        axis.plot(x, y, line(kind), color=colour(i), lw=1.4)
        for epoch, row in each["epochs"].items():
            if row["training_accuracy"] >= 0.995:
                axis.plot(int(epoch), row["log_ec"], "o", color=colour(i))
    axis.set_xlabel("epoch")
    axis.set_ylabel("log T_EC (test images)")
    axis.set_title("Temperature in training (dots: 99.5 % of training images right)")


def draw_growth(axis, kinds):
    """Growth of T against growth of the logits, for networks that interpolate before their last epoch."""
    low, top = 0.0, 0.1
    for i, each in enumerate(kinds.values()):
        for row in each["growth"]:
            axis.plot(row["growth of scale"], row["growth of T"], "o", color=colour(i))
            low = min(low, row["growth of scale"], row["growth of T"])
            top = max(top, row["growth of scale"], row["growth of T"])
    axis.plot([low, top], [low, top], color="0.5", lw=0.8)
    axis.set_xlabel("growth of log scale of the test logits after interpolation")
    axis.set_ylabel("growth of log T_EC")
    axis.set_title("After interpolation (line: equal changes)")


def colour(i):
    """One colour per kind."""
    return COLOURS[i % len(COLOURS)]


def line(kind):
    """CIFAR-100 is dashed."""
    return "--" if kind.startswith("c100") else "-"


def main():
    """Read the numbers and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--numbers", type=Path, default=ROOT / "paper" / "population_results.json")
    parser.add_argument("--picture", type=Path, default=ROOT / "docs" / "images" / "population.png")
    chosen = parser.parse_args()
    draw(json.loads(chosen.numbers.read_text(encoding="utf-8")), chosen.picture)


if __name__ == "__main__":
    main()
