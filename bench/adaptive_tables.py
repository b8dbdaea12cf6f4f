"""Tables and pictures of the study of the method "adaptive", from the numbers that `bench/adaptive.py` has written."""

import numpy as np

METRICS = {"ece": 0, "nll": 1, "distance": 2}
KINDS = {"clean": "clean labels", "noisy": "Table 2's label noise", "half": "half of that noise"}
CLEAN_TEST = {"noisy, clean test": "Table 2's noise in the validation labels", "half, clean test": "half of that noise there"}
CRITERION, LARGE = 0.1, 400
NAMES = {"ec": "EC", "ts": "TS", "adaptive": "adaptive"}


class Numbers:
    """Means of one metric over random validation sets, as arrays with one row per network."""

    def __init__(self, found):
        self.found = found
        self.sizes = [str(n) for n in found["sizes"]]
        self.networks = list(found["networks"])
        first = found["networks"][self.networks[0]]["clean"][self.sizes[0]]
        self.methods = [name for name in first if name not in ("without", "t", "follow", "none")]
        self.forms = [name for name in self.methods if name not in NAMES]

    def of(self, method, labels, metric="ece", networks=None):
        """Array of shape (networks, sizes)."""
        return np.array(
            [
                [self.found["networks"][name][labels][n][method][METRICS[metric]] for n in self.sizes]
                for name in networks or self.networks
            ]
        )

    def of_teachers(self, method):
        """Mean ECE, of shape (teachers, sizes)."""
        return np.array([[each[n][method][0] for n in self.sizes] for each in self.found["teachers"].values()])

    def regret(self, method, labels, networks=None):
        """By how much the mean ECE exceeds that of the better one of EC and TS, for each size."""
        means = {name: self.of(name, labels, networks=networks).mean(axis=0) for name in (method, "ec", "ts")}
        return means[method] - np.minimum(means["ec"], means["ts"])

    def largest(self, method, labels):
        """The largest regret of one network, for each size."""
        better = np.minimum(self.of("ec", labels), self.of("ts", labels))
        return (self.of(method, labels) - better).max(axis=0)

    def follow(self, labels):
        """Cov(log T_TS, δ)/Var(δ), median over validation sets, of shape (networks, sizes)."""
        return np.array([[self.found["networks"][name][labels][n]["follow"] for n in self.sizes] for name in self.networks])

    def worst(self, method, networks=None):
        """The larger one of the regrets with clean and with noisy labels, for each size."""
        return np.maximum(*(self.regret(method, labels, networks) for labels in ("clean", "noisy")))

    def worst_of_teachers(self, method):
        """The largest regret of a teacher, for each size."""
        better = np.minimum(self.of_teachers("ec"), self.of_teachers("ts"))
        return (self.of_teachers(method) - better).max(axis=0)


def standard_error(values):
    """Of the mean over the first axis; zero for one value."""
    return values.std(axis=0, ddof=1) / len(values) ** 0.5 if len(values) > 1 else np.zeros(values.shape[1:])


def table(header, rows):
    """Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def scores_table(numbers, labels, metric, digits, unit=1.0):
    """Means of EC, TS and adaptive, and paired differences with standard errors over networks."""
    rows = []
    for name, title in NAMES.items():
        values = unit * numbers.of(name, labels, metric)
        bars = standard_error(values)
        rows.append([title, *(f"{v:.{digits}f} ± {s:.{digits}f}" for v, s in zip(values.mean(axis=0), bars, strict=True))])
    for other in ("ec", "ts"):
        paired = unit * (numbers.of("adaptive", labels, metric) - numbers.of(other, labels, metric))
        cells = zip(paired.mean(axis=0), standard_error(paired), strict=True)
        rows.append([f"adaptive - {NAMES[other]}", *(f"{v:+.{digits}f} ± {s:.{digits}f}" for v, s in cells)])
    return table(["n", *numbers.sizes], rows)


def regret_table(numbers):
    """The larger regret of clean and noisy labels, for each size."""
    rows = [[title, *(f"{v:.2f}" for v in numbers.worst(name))] for name, title in NAMES.items()]
    return table(["worst regret, points", *numbers.sizes], rows)


def largest_table(numbers):
    """The largest regret of one network, for each kind of labels and each size."""
    rows = [
        [f"{title}, {KINDS[labels]}", *(f"{v:.2f}" for v in numbers.largest(name, labels))]
        for labels in KINDS
        for name, title in NAMES.items()
    ]
    return table(["largest regret, points", *numbers.sizes], rows)


def clean_test_table(numbers):
    """On clean test labels: mean ECE without calibration and of each method, its regret, and the largest of one network."""
    rows = []
    for labels, title in ({"clean": "clean labels"} | CLEAN_TEST).items():
        for name, method in (NAMES | {"none": "no calibration"}).items():
            cells = zip(
                numbers.of(name, labels).mean(axis=0), numbers.regret(name, labels), numbers.largest(name, labels), strict=True
            )
            rows.append([f"{method}, {title}", *(f"{mean:.2f}, {signed(regret)} ({most:.2f})" for mean, regret, most in cells)])
    return table(["ECE, regret (largest regret)", *numbers.sizes], rows)


def signed(value):
    """Two digits and a sign."""
    return f"{value + 0.0:+.2f}"


def follow_table(numbers):
    """Cov(log T_TS, δ)/Var(δ): mean over networks, least and largest."""
    rows = []
    for labels, title in KINDS.items():
        found = numbers.follow(labels)
        cells = zip(found.mean(axis=0), found.min(axis=0), found.max(axis=0), strict=True)
        rows.append([title, *(f"{mean:+.2f} ({low:+.2f} to {high:+.2f})" for mean, low, high in cells)])
    return table(["labels", *numbers.sizes], rows)


def forms_table(numbers):
    """Each form and c: worst regret by size, its mean, and the same for the teachers."""
    header = ["share kept", "c", *(f"n = {n}" for n in numbers.sizes), "mean", "mean, teachers"]
    rows = []
    for name in numbers.forms:
        form, c = name.split(" | ")
        worst, other = numbers.worst(name), numbers.worst_of_teachers(name).mean()
        rows.append([form, c, *(f"{v:.2f}" for v in worst), f"{worst.mean():.3f}", f"{other:.3f}"])
    return table(header, rows)


def family(name):
    """Networks that are left out together."""
    data, _, model = name.partition("/")
    return "authors" if "authors" in model else "fractions" if "fraction" in model else data


def left_out(numbers, group):
    """Choose form and c without some networks, and use it on them: regret there, and what was chosen."""
    parts = sorted({group(name) for name in numbers.networks})
    held, chosen = {labels: [] for labels in KINDS}, []
    for part in parts:
        inside = [name for name in numbers.networks if group(name) == part]
        outside = [name for name in numbers.networks if group(name) != part]
        if not outside:
            return None
        best = min(numbers.forms, key=lambda form: numbers.worst(form, outside).mean())
        chosen.append(best)
        for labels, values in held.items():
            values.append(numbers.of(best, labels, networks=inside))
    result = {}
    for labels, values in held.items():
        better = np.minimum(*(numbers.of(name, labels).mean(axis=0) for name in ("ec", "ts")))
        result[labels] = np.concatenate(values).mean(axis=0) - better
    return result, chosen


def left_out_table(numbers):
    """Regrets on networks that form and c were not chosen on."""
    rows, told = [], []
    for title, group in {"one network": lambda name: name, "one family": family}.items():
        found = left_out(numbers, group)
        if found is None:
            continue
        regrets, chosen = found
        rows += [[title, KINDS[labels], *(f"{v:+.2f}" for v in values)] for labels, values in regrets.items()]
        counts = {name: chosen.count(name) for name in sorted(set(chosen))}
        told.append(f"{title}: " + ", ".join(f"{name.replace(' | ', ' with c = ')} ({n})" for name, n in counts.items()))
    return table(["left out", "labels", *numbers.sizes], rows), "; ".join(told)


def teachers_table(numbers):
    """Mean ECE of each teacher after EC, TS and adaptive."""
    rows = []
    for i, (name, each) in enumerate(numbers.found["teachers"].items()):
        cells = [" / ".join(f"{numbers.of_teachers(m)[i, j]:.2f}" for m in NAMES) for j in range(len(numbers.sizes))]
        missing = each[numbers.sizes[0]]["without"] / numbers.found["draws"]
        rows.append([name, *cells, f"{100 * missing:.0f} %"])
    for method, title in NAMES.items():
        worst = numbers.worst_of_teachers(method)
        rows.append([f"worst regret of {title}", *(f"{v:.2f}" for v in worst), ""])
    return table(["EC / TS / adaptive", *(f"n = {n}" for n in numbers.sizes), f"without T, n = {numbers.sizes[0]}"], rows)


def coverage_table(found):
    """Coverage of 95 % intervals."""
    rows = []
    for each in found["coverage"]:
        labels = KINDS[each["labels"]] if "/" in each["subject"] else ""
        cover = (f"{100 * share:.1f}" for share in each["coverage"])
        rows.append([each["subject"], labels, each["n"], f"{each['t']:+.1f}", each["sets"], *cover])
    header = [
        "network or teacher",
        "labels",
        "n",
        "median δ/sd",
        "sets",
        "percentile interval, %",
        "± 1.96 se, %",
        "EC alone, %",
    ]
    return table(header, rows)


def verdict(numbers):
    """Whether the criterion for the default is met."""
    large = [i for i, n in enumerate(numbers.sizes) if int(n) >= LARGE]
    small = [i for i, n in enumerate(numbers.sizes) if int(n) < LARGE]
    adaptive, ec, ts = (numbers.worst(name) for name in ("adaptive", "ec", "ts"))
    near = adaptive[large].max() <= CRITERION
    smaller = (adaptive[small] < np.minimum(ec, ts)[small]).all()
    return (
        f"From {LARGE} samples on, the mean ECE of adaptive is within {adaptive[large].max():.2f} points of the better one of "
        f"EC and TS ({CRITERION} are allowed): {'met' if near else 'not met'}. Below, its worst regret is "
        f"{'smaller' if smaller else 'not smaller'} than those of EC and TS at every size: {'met' if smaller else 'not met'}."
    )


def missing_line(numbers):
    """How many validation sets have not both temperatures."""
    parts = []
    for labels, title in KINDS.items():
        share = [
            np.mean([numbers.found["networks"][name][labels][n]["without"] for name in numbers.networks])
            / numbers.found["draws"]
            for n in numbers.sizes[:3]
        ]
        parts.append(
            f"{title}: " + ", ".join(f"{100 * v:.1f} % at n = {n}" for v, n in zip(share, numbers.sizes, strict=False))
        )
    return "; ".join(parts)


def report(found):
    """The tables as Markdown."""
    numbers = Numbers(found)
    left, told = left_out_table(numbers)
    covered = np.array([each["coverage"] for each in found["coverage"]])
    sections = [
        "# EC that adapts: the study",
        f"Written by `bench/adaptive.py`. {len(numbers.networks)} networks, {len(found['teachers'])} teachers, "
        f"{found['draws']:,} validation sets per cell, {found['cover']:,} per coverage. ECE in percent: 15 bins of equal "
        "mass, 5,000 test images. Errors are standard errors of means over networks, so they include the differences between "
        "networks; compare methods by the paired differences. Most networks are tested on the same images: what other images "
        "would change in all of them alike is not in these errors. Validation sets without both temperatures are left out: "
        f"{missing_line(numbers)}.",
        *(f"## Test ECE, {title}\n\n{scores_table(numbers, labels, 'ece', 2)}" for labels, title in KINDS.items()),
        f"## Worst regret over clean labels and Table 2's noise\n\n{regret_table(numbers)}\n\n{verdict(numbers)}",
        f"## Largest regret of one network\n\n{largest_table(numbers)}",
        "## Clean test labels\n\nTest labels are clean, and validation labels are clean or not. ECE in percent, mean over "
        "networks; by how much it exceeds that of the better one of EC and TS; and the same of the network where it is largest."
        f"\n\n{clean_test_table(numbers)}",
        *(f"## Test ECE, {title}\n\n{scores_table(numbers, labels, 'ece', 2)}" for labels, title in CLEAN_TEST.items()),
        "## How log T_TS and δ vary together\n\nCov(log T_TS, δ)/Var(δ), 0 if TS is efficient: mean over networks, and "
        f"the least and largest network, of medians over validation sets.\n\n{follow_table(numbers)}",
        *(f"## NLL, {title}\n\n{scores_table(numbers, labels, 'nll', 4)}" for labels, title in KINDS.items()),
        *(
            f"## Mean of 100·|log T − log T_EC of the population|, {title}\n\n"
            f"{scores_table(numbers, labels, 'distance', 2, 100.0)}"
            for labels, title in KINDS.items()
        ),
        "## Forms and c\n\nThe worst regret over clean and noisy labels, in points of ECE, with t² = δ²/Var(δ). The method "
        "adaptive is t²/(t² + c) with c = 1. Last: the largest regret of a teacher, mean over sizes.\n\n"
        f"{forms_table(numbers)}",
        "## Chosen without the networks that are reported\n\nRegret of the mean ECE, in points. Chosen when leaving out "
        f"{told}. Half of the noise was never used to choose.\n\n{left}",
        f"## Teachers\n\nECE in percent, exact and without bins.\n\n{teachers_table(numbers)}",
        "## Coverage of 95 % intervals for the T_EC of the population\n\nLowest and highest: percentile interval "
        f"{100 * covered[:, 0].min():.1f} to {100 * covered[:, 0].max():.1f} %, ± 1.96 standard errors "
        f"{100 * covered[:, 1].min():.1f} to {100 * covered[:, 1].max():.1f} %, EC alone {100 * covered[:, 2].min():.1f} to "
        f"{100 * covered[:, 2].max():.1f} %.\n\n{coverage_table(found)}",
    ]
    return "\n\n".join(sections) + "\n"
