"""A report about a model's calibration: a dictionary of results, written as HTML, Markdown or JSON."""

from nishimori.report._report import Report as Report

__all__ = ["Report"]


def __dir__() -> list[str]:
    return sorted(__all__)
