"""One page that tells the whole story of a model's calibration: a dictionary of results, and HTML, Markdown and JSON of it."""

from nishimori.report._report import Report as Report

__all__ = ["Report"]


def __dir__() -> list[str]:
    return sorted(__all__)
