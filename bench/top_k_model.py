"""A small language model with a vocabulary of thousands of words, for the study of top-k log-probabilities.

The text is the source of Python's standard library: one document per module. Words are identifiers, numbers, runs of spaces and
single other characters. Words outside the vocabulary are spelled, so that no token stands for several. The training text is
short and read many times, which makes the model overconfident on new modules. Needs ``pip install 'nishimori[torch]'``.
"""

import re
import sysconfig
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

VOCABULARY = 4096
LENGTH, BATCH, RATE, STEPS = 32, 16, 1e-2, 400
WORDS_PER_MODULE = 150  # of training text
N_TEST, TOKENS = 60, 200  # modules, and tokens that are predicted in each

_WORD = re.compile(r"[A-Za-z_]+|\d|\n[ ]*|[ ]+|.", re.DOTALL)


class Predicted(NamedTuple):
    """Log-probabilities (tokens, vocabulary), the tokens that came next, and the documents that they are from."""

    log_p: np.ndarray
    labels: np.ndarray
    documents: np.ndarray


class Tokens:
    """The most frequent words of some documents, and all characters."""

    def __init__(self, documents: list[str]) -> None:
        words = [word for document in documents for word in _WORD.findall(document)]
        characters = sorted({character for word in words for character in word})
        frequent = [word for word, _ in Counter(words).most_common(VOCABULARY) if len(word) > 1]
        self.names = ["", *characters, *frequent][:VOCABULARY]
        self._numbers = {name: i for i, name in enumerate(self.names)}

    def of(self, document: str) -> list[int]:
        """The tokens of a document; characters that the training text does not have are left out."""
        found = []
        for word in _WORD.findall(document):
            pieces = [word] if word in self._numbers else word
            found += [self._numbers[piece] for piece in pieces if piece in self._numbers]
        return found


class WordModel(nn.Module):
    """Logits of the next token after each token."""

    def __init__(self, size: int, width: int = 64) -> None:
        super().__init__()
        self.embedding = nn.Embedding(size, width)
        self.recurrent = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, size)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        return self.head(self.recurrent(self.embedding(text))[0])


def modules() -> tuple[list[str], list[str]]:
    """The sources of Python's modules in random order: for training and for validation."""
    paths = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    found = [text for path in paths if len(text := path.read_text(encoding="utf-8", errors="replace")) > 4000]
    order = np.random.default_rng(0).permutation(len(found))
    return [found[i] for i in order[N_TEST:]], [found[i] for i in order[:N_TEST]]


def trained(tokens: Tokens, documents: list[str], steps: int) -> WordModel:
    """A model that has read random sequences of the documents."""
    torch.manual_seed(0)
    text = torch.tensor([token for document in documents for token in tokens.of(document)[:WORDS_PER_MODULE]])
    model = WordModel(len(tokens.names))
    optimiser = torch.optim.Adam(model.parameters(), RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, total_steps=steps)
    for _ in range(steps):
        starts = torch.randint(len(text) - LENGTH, (BATCH,))
        sequences = text[starts[:, None] + torch.arange(LENGTH + 1)]
        loss = nn.functional.cross_entropy(model(sequences[:, :-1]).flatten(0, 1), sequences[:, 1:].flatten())
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
    return model


def predicted(steps: int = STEPS) -> Predicted:
    """What a new model says about the middle of each validation module."""
    train, held_out = modules()
    tokens = Tokens(train)
    model = trained(tokens, train, steps)
    texts = []
    for document in held_out:
        known = tokens.of(document)
        start = max(0, (len(known) - TOKENS) // 2)
        texts.append(known[start : start + TOKENS + 1])
    text = torch.tensor(texts)
    with torch.inference_mode():
        log_p = model(text[:, :-1]).log_softmax(-1).flatten(0, 1)
    return Predicted(log_p.numpy(), text[:, 1:].flatten().numpy(), np.repeat(np.arange(len(texts)), TOKENS))
