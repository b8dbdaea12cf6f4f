"""The report as an object that users make, look at and save."""

import json
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self, Unpack

import nishimori
from nishimori._evaluation.compare import data_sets
from nishimori._evaluation.compared_methods import CHANGING, ONE_TEMPERATURE, Methods
from nishimori._fit.floors import MAY_BE_AUTO
from nishimori._methods.table import OF_CLAIMS
from nishimori._rows.options import DEFAULTS, RowOptions, takes_rows, with_options
from nishimori._rows.rows import Rows
from nishimori._support.disk import new_file
from nishimori._support.escape import html_text, printable
from nishimori._support.json import brief, to_plain
from nishimori._support.numbers import between, whole
from nishimori.errors import InputError
from nishimori.report._markdown import markdown
from nishimori.report._page import page
from nishimori.report._results import FORMAT, results_of
from nishimori.report._schema import present_results
from nishimori.report._top import lines

# More bins than this are not readable in a diagram, and make the file large.
_MOST_BINS = 100


class Report:
    """Everything about the calibration of a model on one page: what to do, temperatures, a slider over T, classes, errors.

    Parameters
    ----------
    logits, labels
        Validation data, as for `compare`. A sketch is accepted too; the page then says what it cannot tell.
    test_logits, test_labels, test_weight, test_clusters, test_groups
        What the page measures; by default the validation data, which flatters every method a little.
    ids : array of shape (n_samples,), optional
        Names of the samples that are measured, which are shown with the most confident errors beside the number of the row.
    methods : sequence, or mapping of names to methods
        Further methods for the tables of the page, as for `compare`: names, calibrators of your own, or temperatures.
    title : str
        What the page is about, such as the name of the model: part of its heading.
    metrics : sequence, optional
        What the table of methods shows besides, as for `evaluate`.
    bounds : dict of metrics to numbers, optional
        What the model must keep to be shipped, as for `gate`: the page then says whether it does, as it is and after the
        methods to use.
    level : float
        The level of all intervals.
    n_bins : int
        Bins of the reliability diagram and of the ECE, at most 100.
    **options
        What is said about the data: see `rows`.

    Examples
    --------
    >>> import nishimori
    >>> network = nishimori.data.load("cifar10/resnet20")
    >>> validation, test = network.validation, network.test
    >>> report = nishimori.Report(validation.logits, validation.labels, test.logits, test.labels, title="ResNet-20")
    >>> print(report)
    Overconfident by 6.9 points; after calibration 0.5.
    Use adaptive (T = 1.601 ± 0.039): NLL −13 %, ECE −6.0 points compared with no calibration; it changes no prediction.
    If predictions may change, use vector, the best of none, adaptive, ec, ts, class temperatures, bias and vector: error −3.1 points, NLL −29 %, ECE −6.1 points; it changes 9.8 % of the predictions. Its NLL is significantly lower than that of adaptive (p < 0.001).
    After adaptive class 2 is 57 % right at 80 % mean confidence; 9 of 10 predicted classes are off, after vector none of 10.
    """  # noqa: E501 - which is printed

    @takes_rows(**MAY_BE_AUTO)
    def __init__(
        self,
        logits: Any,
        labels: Any = None,
        test_logits: Any = None,
        test_labels: Any = None,
        *,
        methods: Methods = (),
        title: str = "",
        test_weight: Any = None,
        test_clusters: Any = None,
        test_groups: Any = None,
        ids: Any = None,
        metrics: Sequence[Any] | None = None,
        bounds: Mapping[Any, float] | None = None,
        level: float = 0.95,
        n_bins: int = 15,
        **options: Unpack[RowOptions],
    ) -> None:
        between("level", level, 0, 1)
        whole("n_bins", n_bins, 1, _MOST_BINS)
        about_test = (test_logits, test_labels, test_weight, test_clusters, test_groups)
        if test_logits is None and any(value is not None for value in about_test):
            raise InputError("test_logits", "be passed if other arguments describe test data", got="None")
        test_options = {"sample_weight": test_weight, "clusters": test_clusters, "groups": test_groups}
        validation, test, used = data_sets((logits, labels), (test_logits, test_labels), options, test_options)
        kind, classes = options.get("input") or validation.input, options.get("classes")
        meaning = {"input": kind, "classes": classes, "floor": used}
        wanted: dict[str, Any] = {"methods": methods, "metrics": metrics, "bounds": bounds}
        results = results_of(validation, test, meaning, ids=ids, level=float(level), n_bins=n_bins, **wanted)
        names = (_arguments(validation), _arguments(validation) if test is None else _arguments(test, "test_"))
        self._results: dict[str, Any] = to_plain(
            {"title": str(title), **results}
            | {
                "n_bins": n_bins,
                "provenance": {
                    "made_on": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
                    "library_version": nishimori.__version__,
                    "files": [],
                    "command": "",
                },
                "code": code_of(results["recommended"], *names, of_claims=validation.is_claims),
            }
        )

    @classmethod
    def from_dict(cls, results: Mapping[str, Any]) -> Self:
        """Restore a report from the result of `to_dict`, perhaps read from a JSON file.

        Results of earlier versions get the keys that reports have now, with None or nothing where they say nothing.

        Raises
        ------
        InputError
            If they are not those of a report.
        FormatError
            If they are damaged: the message names the place, such as ``slider.start``, and what must be there.
        """
        version = results.get("format") if isinstance(results, Mapping) else None
        if type(version) is not int or version != FORMAT:
            raise InputError("results", f"be the result of a report's `to_dict`, in format {FORMAT}", got=brief(results))
        report = cls.__new__(cls)
        report._results = to_plain(present_results(results))
        return report

    @property
    def verdict(self) -> str:
        """The lines at the top of the page: what is wrong, what to do, what stays wrong, and whether to ship."""
        return "\n".join(lines(self._results))

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain numbers, texts, lists and dictionaries; numbers that are not finite are None."""
        return dict(self._results)

    def to_json(self) -> str:
        """The report as one line of JSON."""
        return json.dumps(self._results, allow_nan=False)

    def to_markdown(self) -> str:
        """The verdict and all tables, for a pull request or a model card; long tables are cut to the worst rows."""
        return markdown(self._results)

    def to_html(self) -> str:
        """The page as one self-contained HTML file."""
        return page(self._results)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the report to a file.

        Parameters
        ----------
        path : str or path
            Where to: a page if it ends in .html, else .md or .json. An existing file is kept unless ``overwrite``.
        overwrite : bool
            Replace an existing file.
        """
        text = self._text(Path(path).suffix.lower())
        with new_file(path, overwrite=overwrite) as temporary:
            temporary.write_text(text, encoding="utf-8")

    def _text(self, ending: str) -> str:
        writer = {".html": self.to_html, ".htm": self.to_html, ".md": self.to_markdown, ".json": self.to_json}.get(ending)
        if writer is None:
            raise InputError("path", "end in .html, .md or .json", got=f"a name that ends in {ending!r}")
        return writer()

    def __str__(self) -> str:
        return "\n".join(map(printable, lines(self._results)))

    def __repr__(self) -> str:
        about = self._results["data"]
        return f"<Report on {about['n_measured']} {about['measured_on']} samples: {self._results['verdict']['status']}>"

    def _repr_html_(self) -> str:
        # A frame, because the page has a style sheet and scripts of its own.
        return (
            '<iframe title="Calibration report" style="width:100%;height:50rem;border:0" '
            f'srcdoc="{html_text(self.to_html())}"></iframe>'
        )


def code_of(
    recommended: str | None, fitted: str, measured: str, *opening: str, options: str = "", of_claims: bool = False
) -> str:
    """Python code that reproduces the numbers of the recommended method, or of adaptive if a name is not enough.

    ``fitted`` and ``measured`` are what they call the data, which ``opening`` lines open. ``options`` are of the calibrator.
    """
    named, usual = (OF_CLAIMS, "best") if of_claims else ((*ONE_TEMPERATURE, *CHANGING), "adaptive")
    method = recommended if recommended in named else usual
    lines = (
        *("import nishimori", "", *opening),
        f"calibrator = nishimori.calibrator({method!r}{options}).fit({fitted})",
        f"card = nishimori.evaluate({measured}, calibrator=calibrator)",
        f"print({'' if of_claims else 'calibrator.temperature_, '}card.ece, card.nll)",
    )
    return "\n".join(lines)


Report.__doc__ = with_options(Report.__doc__ or "", DEFAULTS)


def _arguments(data: Rows, prefix: str = "") -> str:
    """The name of some data in the code on the page."""
    scores, labels = data.arguments
    if data.is_claims:
        return f"nishimori.claims({prefix}{scores}, {prefix}{labels})"
    if labels is None:
        return f"{prefix}{scores}, None" if prefix else scores
    return f"{prefix}{scores}, {prefix}{labels}"
