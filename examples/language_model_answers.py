"""Whole answers of the language model of `language_model.py`, and multiple choice, calibrated by document.

The model completes words: it sees the first letter, writes the most likely bytes up to the end of the word, and is right if the
text goes on like this. Then it chooses between the text that comes next and texts from other places.
Needs ``pip install 'nishimori[torch]'``.
"""

import argparse
import re
import warnings
from typing import NamedTuple

import numpy as np
import torch
from sklearn.metrics import roc_auc_score

from language_model import ByteModel, Options, middle, modules, predicted, trained
from nishimori import Calibrator, Platt, calibrator, evaluate, metrics, sequences, temperatures
from nishimori.errors import FewErrorsWarning, NoTemperatureError
from nishimori.sequences import Answers

LONGEST = 16  # bytes of an answer
IS_WORD = torch.tensor([bytes([byte]).isalnum() or byte == ord("_") for byte in range(256)])


class Places(NamedTuple):
    """Places in documents: the model's state there, the bytes that follow, and the number of the document."""

    state: torch.Tensor
    following: torch.Tensor
    documents: np.ndarray


@torch.inference_mode()
def places(model: ByteModel, documents: list[bytes], read: int, pattern: bytes) -> Places:
    """The places that ``pattern`` finds in ``read`` bytes of each document, after at least 100 of them."""
    states, following, numbers = [], [], []
    for number, document in enumerate(documents):
        text = middle(document, read)
        found = [each.end() for each in re.finditer(pattern, bytes(text.tolist())) if 100 < each.end() < read - LONGEST]
        starts = torch.tensor(found)
        states.append(model.recurrent(model.embedding(text[None]))[0][0][starts - 1])
        following.append(text[starts[:, None] + torch.arange(LONGEST)])
        numbers += [number] * len(found)
    return Places(torch.cat(states), torch.cat(following), np.array(numbers))


@torch.inference_mode()
def completed(model: ByteModel, where: Places, temperatures: tuple[float, ...]) -> tuple[list[Answers], np.ndarray]:
    """The most likely bytes up to the end of a word, with probabilities at each temperature, and whether they are right."""
    state, logs, written = where.state, [], []
    for _ in range(LONGEST):
        logits = model.head(state)
        best = logits.argmax(dim=1)
        logs.append([(logits / T).log_softmax(dim=1).gather(1, best[:, None])[:, 0] for T in temperatures])
        written.append(best)
        state = model.recurrent(model.embedding(best[:, None]), state[None])[0][:, 0]
    answer = torch.stack(written, dim=1)
    ends = (~IS_WORD[answer]).int().cumsum(dim=1)
    mask = (ends == 0) | ((ends == 1) & ~IS_WORD[answer])  # up to and with the first byte that is not part of a word
    right = ((answer == where.following) | ~mask).all(dim=1)
    return [sequences.answers(torch.stack(each, dim=1), mask=mask) for each in zip(*logs, strict=True)], right.numpy()


@torch.inference_mode()
def offered(model: ByteModel, where: Places) -> tuple[Answers, np.ndarray, np.ndarray]:
    """Two to five texts of 4 to 16 bytes for each place: log-probabilities, questions, and whether each is the true text."""
    rng = np.random.default_rng(0)
    number = rng.integers(2, 6, len(where.documents))
    question = np.repeat(np.arange(len(number)), number)
    right = np.r_[True, question[1:] != question[:-1]]
    text = where.following[torch.tensor(np.where(right, question, rng.integers(len(number), size=len(question))))]
    state = where.state[torch.tensor(question)]
    later = model.recurrent(model.embedding(text[:, :-1]), state[None])[0]
    log_p = model.head(torch.cat([state[:, None], later], dim=1)).log_softmax(dim=2).gather(2, text[:, :, None])[:, :, 0]
    mask = np.arange(LONGEST) < rng.integers(4, LONGEST + 1, (len(question), 1))
    return sequences.answers(log_p, mask=mask), question, right


def shown(scores: np.ndarray, right: np.ndarray, fitted: Calibrator | None) -> str:
    """Mean probability of "right", loss and ECE after calibration."""
    p = 1 / (1 + np.exp(-scores)) if fitted is None else fitted.predict_proba(scores)[:, 1]
    nll, ece = metrics.nll(p, right, input="probabilities"), metrics.ece(p, right, of="positive", input="probabilities")
    return f"{p.mean():.3f}   {nll:.3f}  {ece:.3f}"


def report_answers(model: ByteModel, val_modules: list[bytes], test_modules: list[bytes], read: int) -> None:
    """Print how well products and means of probabilities tell right answers from wrong ones, before and after calibration."""
    token_T = temperatures(*predicted(model, val_modules)).ec
    val, test = (places(model, each, read, rb"\b\w") for each in (val_modules, test_modules))
    ((fit, fit_T), fit_right), ((new, new_T), right) = (completed(model, each, (1.0, token_T)) for each in (val, test))
    print(f"\n{len(right)} test answers of {new.n_tokens.mean():.1f} bytes on average: {right.mean():.1%} are right")
    print("score              AUROC  method  mean p  NLL    ECE    parameters")
    for name, fit_log_p, log_p in (
        ("product", fit.log_probabilities, new.log_probabilities),
        (f"product, T = {token_T:.2f}", fit_T.log_probabilities, new_T.log_probabilities),
        ("mean", fit.means, new.means),
    ):
        fit_scores, scores = sequences.log_odds(fit_log_p), sequences.log_odds(log_p)
        start = f"{name:17}  {roc_auc_score(right, scores):.3f}"
        print(start, "none  ", shown(scores, right, None), sep="  ")
        for method in ("ec", "ts"):
            try:
                fitted = calibrator(method).fit(fit_scores, fit_right, clusters=val.documents)
            except NoTemperatureError:
                print(start, f"{method:6}", "no temperature fits", sep="  ")
            else:
                found = f"T = {fitted.temperature_:.2f} ± {fitted.temperature_se_:.2f}"
                print(start, f"{method:6}", shown(scores, right, fitted), found, sep="  ")
        platt = Platt().fit(fit_scores, fit_right)
        found = "slope {slope:.2f}, intercept {intercept:.2f}".format(**platt.parameters_)
        print(start, "platt ", shown(scores, right, platt), found, sep="  ")
    for low, high in ((1, 3), (4, 6), (7, LONGEST)):
        some = (new.n_tokens >= low) & (new.n_tokens <= high)
        p, mean = np.exp(new.log_probabilities[some]).mean(), np.exp(new.means[some]).mean()
        print(f"{low} to {high} bytes: {some.sum()} answers, {right[some].mean():.1%} right, product {p:.3f}, mean {mean:.3f}")


def report_choices(model: ByteModel, val_modules: list[bytes], test_modules: list[bytes], read: int) -> None:
    """Print accuracy and calibration of multiple choice, from sums and from means of log-probabilities."""
    val, test = (places(model, each, read, rb"(?s).{20}") for each in (val_modules, test_modules))
    print(f"\n{len(test.documents)} test questions with 2 to 5 choices each")
    print("score    method  T             accuracy  confidence  NLL    ECE")
    for name in ("log_probabilities", "means"):
        parts = []
        for where in (val, test):
            texts, question, right = offered(model, where)
            table = sequences.choices(getattr(texts, name), question)
            parts.append((table.logits, table.labels(right)))
        found = temperatures(*parts[0], clusters=val.documents)
        for method, T, se in (("none", 1.0, 0.0), ("ec", found.ec, found.ec_se), ("ts", found.ts, found.ts_se)):
            card = evaluate(*parts[1], temperature=T, clusters=test.documents)
            shown = "product" if name == "log_probabilities" else "mean"
            print(f"{shown:7}  {method:6}  {T:5.2f} ± {se:4.2f}  {card.accuracy:.3f}     {card.confidence:.3f}", end="       ")
            print(f"{card.nll:.3f}  {card.ece:.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=200, help="training steps")
    parser.add_argument("--read", type=int, default=400, help="bytes of each validation and test module")
    given = parser.parse_args()
    train, *others = modules()
    model = trained(train, Options(given.steps))
    with warnings.catch_warnings():
        # Means of log-probabilities hardly tell if an answer or a choice is right: T is uncertain, as its standard error says.
        warnings.simplefilter("ignore", FewErrorsWarning)
        report_answers(model, *others, given.read)
        report_choices(model, *others, given.read)
