"""The page of tables about shift and noise and its picture, from the numbers in paper/shift_results.json."""

import matplotlib as mpl
from matplotlib import pyplot as plt

from nishimori.plot._style import COLORS, MARKERS
from shift_measures import NOISES

METHODS = {"ec": "EC", "ts": "TS", "adaptive": "adaptive"}
SOURCES = {"clean": "clean", "matching": "same corruption", "mixed": "other corruptions"}


def page(found):
    """The page as Markdown."""
    parts = [
        "# Shift and noise",
        "Written by `bench/studies/shift.py`; all numbers are in `paper/shift_results.json`. Three networks "
        "of the paper's authors (CIFAR-10 ResNet20 and ResNet56, SVHN ResNet20 with rebuilt images), "
        f"{found['images']:,} images each of the public test sets, of which a random half is for validation and the other for "
        f"the test; {found['splits']} such splits. Eight corruptions with the constants of CIFAR-10-C (Hendrycks and "
        "Dietterich, arXiv:1903.12261) in severities 1, 3 and 5. Four kinds of label noise, at 5, 10, 20, 30 and 40 %: a label "
        f"becomes {'; '.join(NOISES.values())}. ECE with 15 bins of equal width.",
        "A cell is a network with a corruption (or none) and a kind and rate of noise (or none). In a cell a method is *worse* "
        "if its score exceeds that of no calibration by more than the standard deviation of the difference over splits. ± is a "
        f"standard error, of splits and networks together. In {found['without temperature']:.1%} of the fits there is no "
        "temperature, because accuracy is not above chance: these count as no calibration.",
        "## When calibrating hurts",
        hurts(found),
        "## Mean confidence and accuracy",
        "Mean of |confidence − accuracy| over cells, in points.",
        gaps(found),
        "## Regret",
        "What is lost, on average, against the best temperature for the test set itself: for the ECE the temperature of least "
        "ECE, for the NLL that of least NLL.",
        regrets(found),
        "## EC or TS",
        "ECE after EC minus ECE after TS, in points, and in how many cells it is lower or higher by more than the standard "
        "deviation over splits.",
        versus(found),
        "## How much noise is too much",
        "The share of wrong validation labels, in percent, at which ECE or NLL on clean test images is as large as without "
        f"calibration, ± its standard deviation over {found['break even']['splits']} splits, which is about the standard error "
        "for one validation and one test set of this size. Interpolated between shares from 0 to 20 % in steps of 1 %. Rule: "
        "the share at which uniform noise takes as much from the accuracy as the network is overconfident by.",
        break_even(found),
        "## The paper's noise in the validation labels only",
        "Random labels in a tenth of the classes, the true one included; ECE on clean test labels, in percent ± standard "
        "deviation over splits.",
        papers_noise(found),
        "## By corruption",
        "ECE in percent without calibration, and after EC / TS, by the images that T was fitted to; means over the three "
        "networks.",
        conditions(found),
    ]
    return "\n\n".join(parts) + "\n"


def table(head, rows):
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def signed(value, digits):
    """A number with its sign, a true minus included; zero has none."""
    text = f"{value:+.{digits}f}"
    return text[1:] if float(text) == 0 else text.replace("-", "−")


def change(row, digits):
    """A mean change and its standard error."""
    return f"{signed(row['change'], digits)} ± {row['se']:.{digits}f}"


def hurts(found):
    """Shares of cells in which a method is worse than no calibration, and mean changes."""
    head = ["validation data", "test data", "cells", "ECE before"]
    for title in METHODS.values():
        head += [f"{title}: worse in ECE, NLL", "ECE", "NLL"]
    rows = []
    for each in found["situations"].values():
        row = [each["validation"], each["test"], each["cells"], f"{each['none']['ece']:.1f}"]
        for method in METHODS:
            ece, nll = each[method]["ece"], each[method]["nll"]
            row += [f"{ece['worse']:.0%}, {nll['worse']:.0%}", change(ece, 1), change(nll, 3)]
        rows.append(row)
    return table(head, rows)


def gaps(found):
    """Distances of confidence and accuracy."""
    head = ["validation data", "test data", "none", *METHODS.values()]
    rows = [
        [
            each["validation"],
            each["test"],
            f"{each['none']['gap']:.1f}",
            *(f"{each[name]['gap']['mean']:.1f}" for name in METHODS),
        ]
        for each in found["situations"].values()
    ]
    return table(head, rows)


def regrets(found):
    """Distances to the oracle."""
    head = ["validation data", "test data", "ECE: oracle", "none", *METHODS.values(), "NLL: oracle", "none", *METHODS.values()]
    rows = []
    for each in found["situations"].values():
        row = [each["validation"], each["test"]]
        for measure, digits in (("ece", 1), ("nll", 3)):
            best = each["oracle"][measure]
            row += [f"{best:.{digits}f}", signed(each["none"][measure] - best, digits)]
            row += [signed(each[name][measure]["regret"], digits) for name in METHODS]
        rows.append(row)
    return table(head, rows)


def versus(found):
    """EC against TS."""
    rows = [
        [
            each["validation"],
            each["test"],
            change(each["ec − ts"], 1),
            f"{each['ec − ts']['lower']:.0%}",
            f"{each['ec − ts']['higher']:.0%}",
        ]
        for each in found["situations"].values()
    ]
    return table(["validation data", "test data", "EC − TS", "EC lower", "EC higher"], rows)


def break_even(found):
    """Shares of wrong labels."""
    rows = [
        [
            name,
            NOISES[noise],
            *(share(each[method][measure]) for measure in ("ece", "nll") for method in METHODS),
            f"{100 * noises['rule']:.1f}",
        ]
        for name, noises in found["break even"]["networks"].items()
        for noise, each in noises.items()
        if noise != "rule"
    ]
    ece, *others = METHODS.values()
    return table(["network", "wrong labels are", f"ECE: {ece}", *others, f"NLL: {ece}", *others, "rule"], rows)


def share(row):
    """A share in percent with its standard deviation."""
    return f"{100 * row['share']:.1f} ± {100 * row['sd']:.1f}"


def papers_noise(found):
    """ECE of each network."""
    rows = []
    for name, each in found["networks"].items():
        for label, ece in each["ece"].items():
            T = each["temperature"][label]
            scores = [f"{ece[column]['mean']:.1f} ± {ece[column]['sd']:.1f}" for column in ("none", *METHODS)]
            rows.append([name, label, *(f"{T[method]:.2f}" for method in METHODS), *scores])
    return table(
        ["network", "validation labels", *(f"T, {each}" for each in METHODS.values()), "ECE, none", *METHODS.values()], rows
    )


def conditions(found):
    """ECE under each corruption."""
    rows = []
    for condition, each in found["by condition"].items():
        row = [condition, f"{each['error']:.1f}", f"{each['clean']['none']['mean']:.1f}"]
        row += [" / ".join(f"{each[source][method]['mean']:.1f}" for method in ("ec", "ts")) for source in SOURCES]
        rows.append(row)
    return table(["corruption", "error", "none", *(f"T from {each}" for each in SOURCES.values())], rows)


# What the page "When calibrating hurts" says about a situation, in its order.
ADVICE = {
    "nothing": "Calibrate; EC and TS are equally good.",
    "validation noise, little": "Hurts once wrong labels cost more accuracy than the network is overconfident by.",
    "validation noise, much": "Do not calibrate on such labels.",
    "test noise, little": "Wrong test labels look like overconfidence; calibration still helps.",
    "noise in both, much": "Looks like a success, but on clean labels it is the failure two rows above.",
    "test corrupted": "T is too small, but still better than T = 1.",
    "both corrupted": "Best: validation images like those to come.",
    "mixture": "Half-way for strong corruptions, too much for mild ones.",
    "validation corrupted": "Harmless if mild, worse than nothing if strong.",
    "clean with noise, little": "Two errors cancel in part: noise raises T, and the corruption needs a larger T.",
    "matching with noise, much": "The right images do not make up for wrong labels.",
}


def advice(found):
    """The table of the page: how often calibration hurts, the mean ECE before and after, and a sentence."""
    head = ["validation → test", "hurts: EC, TS", "ECE: before, EC, TS", "in a sentence"]
    rows = []
    for name, sentence in ADVICE.items():
        each = found["situations"][name]
        hurts = ", ".join(f"{100 * each[method]['ece']['worse']:.0f} %" for method in ("ec", "ts"))
        scores = ", ".join(f"{each[method]['ece']['mean']:.1f}" for method in ("ec", "ts"))
        data = f"{each['validation']} → {each['test']}"
        rows.append([data, hurts, f"{each['none']['ece']:.1f}, {scores}", sentence])
    return table(head, rows)


# The picture.

mpl.use("agg")


# Label, style, and how far beside the others it is drawn, in parts of the axis.
LINES = {"none": ("no calibration", "before", 0.0), "ec": ("EC", "ec", -0.008), "ts": ("TS", "ts", 0.008)}
PANELS = {
    "clean": "T from clean images",
    "matching": "from the same corruption",
    "mixed": "from other corruptions",
    "corrupted": "from corrupted, test clean",
}


def draw(found, path):
    """Upper row: noise in the validation labels. Lower row: corrupted images. Each row has one axis of ECE."""
    with mpl.rc_context({"font.size": 11, "axes.titlesize": 11}):
        figure = plt.figure(figsize=(10.5, 6.8), layout="constrained")
        upper, lower = figure.subfigures(2, 1, hspace=0.02)
        by_rate, by_severity = found["curves"]["by_rate"], found["curves"]["by_severity"]
        row(
            upper,
            {NOISES[name]: rows for name, rows in by_rate.items()},
            [0, 10, 20, 30, 40],
            100,
            "noisy validation labels, %",
        )
        row(lower, {PANELS[name]: rows for name, rows in by_severity.items()}, [0, 1, 3, 5], 1, "severity of the corruption")
        upper.suptitle("Wrong validation labels, clean test data: a wrong label is …", fontweight="bold", fontsize=12)
        lower.suptitle("Corrupted images, clean labels", fontweight="bold", fontsize=12)
        upper.axes[0].legend(frameon=False, loc="upper left")
        figure.savefig(path, dpi=110)
        plt.close(figure)


def row(figure, panels, ticks, factor, label):
    """Panels beside each other with the same axes."""
    axes = figure.subplots(1, len(panels), sharey=True)
    for axis, (title, rows) in zip(axes, panels.items(), strict=True):
        lines(axis, [factor * float(each) for each in rows], list(rows.values()))
        axis.set(title=title, xticks=ticks, xlabel=label)
        axis.set_ylim(bottom=0)
        axis.grid(axis="y", color="0.9", lw=0.8)
        axis.set_axisbelow(True)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("test ECE, %")


def lines(axis, x, rows):
    """One line per method, with standard errors."""
    for method, (label, style, beside) in LINES.items():
        axis.errorbar(
            [each + beside * x[-1] for each in x],
            [each[method]["mean"] for each in rows],
            [each[method]["se"] for each in rows],
            color=COLORS[style],
            marker=MARKERS[style],
            ms=4.5,
            lw=1.5,
            elinewidth=1,
            capsize=2,
            label=label,
        )
