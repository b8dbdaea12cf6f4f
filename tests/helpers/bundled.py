"""Bundled networks, of which most come with nishimori-paper: a test that needs one of these is skipped where that is absent."""

from optional import Absent, is_installed

from nishimori import data


def network(name):
    """The network of that name, as `nishimori.data.load` gives it."""
    if name not in data.names() and not is_installed("nishimori_paper"):
        Absent("nishimori_paper").skip()
    return data.load(name)
