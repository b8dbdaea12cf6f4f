"""Files whose unpickling would run code: it would create a file."""

import pickle

import numpy as np
from optional import torch


class Bomb:
    """Unpickling this creates a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def save_bombs(folder, labels):
    """Save one as bomb.npz, bomb.npy, bomb.pt and modern.pt; the path of the file that must not appear."""
    trace = folder / "trace"
    np.savez(folder / "bomb.npz", logits=np.array([Bomb(trace)], dtype=object), labels=labels)
    np.save(folder / "bomb.npy", np.array([Bomb(trace)], dtype=object), allow_pickle=True)
    with (folder / "bomb.pt").open("wb") as file:
        pickle.dump({"logits": Bomb(trace)}, file)
    torch.save({"logits": Bomb(trace), "labels": torch.tensor(labels)}, folder / "modern.pt")
    return trace
