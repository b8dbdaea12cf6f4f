"""Data on which every registered method can be fitted, whatever it is: two classes for those that need two."""

import reference

import nishimori


def traits_of(name):
    """What a method says about itself."""
    return nishimori.methods()[name].traits


def n_classes_of(name):
    return 2 if traits_of(name).n_classes == "two" else 4


def drawn_for(name, n=600, seed=0):
    """Logits and labels on which the method finds its parameters."""
    return reference.drawn(n, n_classes_of(name), seed=seed)
