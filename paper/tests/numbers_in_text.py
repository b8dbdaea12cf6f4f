"""Texts whose numbers are filled in from results: {{population/hypotheses/H1/estimate/value|+.3f}} is one number."""

import re


def filled(text, stored):
    """The text with every number in its place."""
    return re.sub(r"\{\{([^{}|]+)\|([^{}]+)\}\}", lambda found: written(value_at(stored, found[1]), found[2]), text)


def value_at(stored, path):
    """What lies at a path such as ``final/py3langid/methods``."""
    for each in path.split("/"):
        stored = stored[each]
    return stored


def written(value, form):
    """A number in Python's format, with a minus sign and a space before the percent sign."""
    return format(value, form).replace("%", " %").replace("-", "−")
