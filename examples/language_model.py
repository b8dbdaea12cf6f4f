"""A small language model of bytes, calibrated before and after, with error bars by document.

The text is the source of Python's standard library: one document per module. Modules for training, validation and test are
disjoint. The training text is short and read many times, so that the model is overconfident on new modules. With more text it
is less so: ``--bytes-per-module 100000 --steps 3000``. Needs ``pip install 'nishimori[torch]'``.
"""

import argparse
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn

from nishimori import evaluate, group_gaps, temperatures

LENGTH, BATCH, RATE = 64, 16, 1e-2  # bytes per training sequence, sequences per step, largest learning rate
TOKENS = 350  # bytes that are predicted in each validation and test module


@dataclass(frozen=True)
class Options:
    """How long to train, on how much text, and how large a model."""

    steps: int = 500
    bytes_per_module: int = 1000
    width: int = 160


class ByteModel(nn.Module):
    """Logits of the next byte after each byte: (documents, tokens) to (documents, tokens, 256)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(256, 64)
        self.recurrent = nn.GRU(64, width, batch_first=True)
        self.head = nn.Linear(width, 256)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        return self.head(self.recurrent(self.embedding(text))[0])


def modules() -> tuple[list[bytes], list[bytes], list[bytes]]:
    """The sources of Python's modules in random order: for training, for validation and for the test."""
    paths = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    found = [source for source in (path.read_bytes() for path in paths) if len(source) > 4000]
    order = torch.randperm(len(found), generator=torch.Generator().manual_seed(0))
    found = [found[i] for i in order]
    n = min(60, (len(found) - 20) // 2)  # newer versions of Python have fewer modules
    return found[2 * n :], found[:n], found[n : 2 * n]


def middle(document: bytes, size: int) -> torch.Tensor:
    """At most ``size`` bytes from the middle of a document: beginnings are alike, with licences and imports."""
    start = max(0, (len(document) - size) // 2)
    return torch.tensor(list(document[start : start + size]))


def trained(documents: list[bytes], options: Options) -> ByteModel:
    """A model trained on random sequences of the middle of each document."""
    torch.manual_seed(0)
    text = torch.cat([middle(document, options.bytes_per_module) for document in documents])
    model = ByteModel(options.width)
    optimiser = torch.optim.Adam(model.parameters(), RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, total_steps=options.steps)
    losses = []
    for _ in range(options.steps):
        starts = torch.randint(len(text) - LENGTH, (BATCH,))
        sequences = text[starts[:, None] + torch.arange(LENGTH + 1)]
        loss = nn.functional.cross_entropy(model(sequences[:, :-1]).flatten(0, 1), sequences[:, 1:].flatten())
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        losses.append(loss.item())
    rounds, loss = options.steps * LENGTH * BATCH / len(text), np.mean(losses[-50:])
    print(f"{len(documents)} training modules with {len(text):,} bytes, read {rounds:.1f} times: loss {loss:.3f} per byte")
    return model


def predicted(model: ByteModel, documents: list[bytes]) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits (documents, tokens, 256), and the byte that really came next."""
    text = torch.stack([middle(document, TOKENS + 1) for document in documents])
    with torch.inference_mode():
        return model(text[:, :-1]), text[:, 1:]


def main(options: Options, save: Path | None) -> None:
    """Train, calibrate on the validation modules, and measure on the test modules."""
    train, val, test = modules()
    model = trained(train, options)

    logits, labels = predicted(model, val)
    by_token = temperatures(logits, labels)
    by_document = temperatures(logits, labels, clusters=np.arange(len(val)))  # one entry per sequence
    print(f"\n{len(val)} validation modules, {labels.numel():,} tokens")
    print("method  T      ± by token  ± by document")
    for name in ("ec", "ts"):
        T, small, large = getattr(by_token, name), getattr(by_token, f"{name}_se"), getattr(by_document, f"{name}_se")
        print(f"{name}      {T:.3f}  {small:.3f}       {large:.3f}, {large / small:.1f} times as large")

    logits, labels = predicted(model, test)
    documents = np.arange(len(test))
    print(f"\n{len(test)} test modules, {labels.numel():,} tokens, errors by document")
    print("        accuracy       confidence     NLL            ECE            documents that are off by more than noise")
    for name, T in (("before", 1.0), ("ec", by_token.ec), ("ts", by_token.ts)):
        card = evaluate(logits, labels, temperature=T, clusters=documents)
        gaps = group_gaps(logits, labels, temperature=T, by="groups", groups=documents)
        print(f"{name:6}  {card.accuracy:.3f} ± {card.accuracy_se:.3f}", end="  ")
        print(f"{card.confidence:.3f} ± {card.confidence_se:.3f}  {card.nll:.3f} ± {card.nll_se:.3f}", end="  ")
        print(f"{card.ece:.3f} ± {card.ece_se:.3f}  {len(gaps.off)} of {len(gaps)}, mean gap {gaps.mean_abs_gap:.3f}")

    if save:
        rows, truth = logits.flatten(0, 1).half(), labels.flatten()
        np.savez(save, logits=rows.numpy(), labels=truth.numpy(), documents=np.repeat(documents, TOKENS))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=Options.steps, help="training steps")
    parser.add_argument("--bytes-per-module", type=int, default=Options.bytes_per_module, help="bytes of each training module")
    parser.add_argument("--width", type=int, default=Options.width, help="units of the recurrent layer")
    parser.add_argument("--save", type=Path, help="a new .npz file for the test logits")
    given = parser.parse_args()
    main(Options(given.steps, given.bytes_per_module, given.width), given.save)
