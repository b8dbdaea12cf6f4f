"""Answers of servers, built to the schemas that these document: lists as from arrays, and labels that cannot be meant."""

from dataclasses import dataclass

import numpy as np
import pytest

import nishimori
from nishimori import TopK
from nishimori.errors import InputError

V, K, N = 40, 6, 600
RNG = np.random.default_rng(0)
LOGITS = 3 * RNG.normal(size=(N, V))
LABELS = (LOGITS / 2 + RNG.gumbel(size=LOGITS.shape)).argmax(axis=1)
LOGS = LOGITS - np.log(np.exp(LOGITS).sum(axis=1, keepdims=True))
TOP = np.argsort(-LOGS, axis=1)[:, :K]
RANKS = np.argsort(np.argsort(-LOGS, axis=1), axis=1) + 1
WORDS = [f"w{i}" for i in range(V)]
TOKENIZER = {word: i for i, word in enumerate(WORDS)}


def arrays(*, of_labels=True):
    own = LOGS[np.arange(N), LABELS] if of_labels else None
    return TopK(TOP, np.take_along_axis(LOGS, TOP, axis=1), V, label_log_probabilities=own)


def vllm(rows, *, extra=None):
    """``prompt_logprobs``: the first token has nothing before it; the token of the prompt is always listed."""
    answer = [None]
    for row in rows:
        tokens = [*TOP[row], LABELS[row] if extra is None else extra[row]]
        answer.append(
            {
                str(token): {"logprob": float(LOGS[row, token]), "rank": int(RANKS[row, token]), "decoded_token": WORDS[token]}
                for token in tokens
            }
        )
    return answer


def openai(rows):
    return [
        {
            "token": WORDS[TOP[row, 0]],
            "logprob": float(LOGS[row, TOP[row, 0]]),
            "bytes": None,
            "top_logprobs": [{"token": WORDS[t], "logprob": float(LOGS[row, t]), "bytes": None} for t in TOP[row]],
        }
        for row in rows
    ]


def test_vllms_prompts_give_the_temperature_of_the_arrays():
    top, labels = TopK.from_vllm(vllm(range(N)), labels=[3, *LABELS], vocabulary_size=V, logprobs="raw")
    np.testing.assert_array_equal(labels, LABELS)
    found, expected = nishimori.temperatures(top, labels), nishimori.temperatures(arrays(), LABELS)
    assert found.ec_bounds == pytest.approx(expected.ec_bounds)
    assert found.ts == pytest.approx(expected.ts) if expected.ts else found.ts_bounds == pytest.approx(expected.ts_bounds)


def test_several_sequences_are_read_as_one():
    halves = [vllm(range(300)), vllm(range(300, N))]
    given = [[0, *LABELS[:300]], [7, *LABELS[300:]]]
    top, labels = TopK.from_vllm(halves, labels=given, vocabulary_size=V, logprobs="raw")
    assert top.shape[0] == N
    alone, _ = TopK.from_vllm(vllm(range(N)), labels=[3, *LABELS], vocabulary_size=V, logprobs="raw")
    assert nishimori.temperatures(top, labels).ec_bounds == nishimori.temperatures(alone, labels).ec_bounds


def test_openais_answers_give_the_bounds_of_the_arrays():
    words = [WORDS[label] for label in LABELS]
    for tokenizer in (TOKENIZER, TOKENIZER.get):
        top, labels = TopK.from_openai(openai(range(N)), labels=words, tokenizer=tokenizer, vocabulary_size=V, logprobs="raw")
        found = nishimori.temperatures(top, labels)
        assert found.ec_bounds == pytest.approx(nishimori.temperatures(arrays(of_labels=False), LABELS).ec_bounds)


def test_ragged_lists_and_unlisted_logarithms_are_filled_up():
    answer = openai(range(N))
    for entry in answer[::3]:
        entry["top_logprobs"] = entry["top_logprobs"][:4]
    answer[1]["top_logprobs"][-1]["logprob"] = -9999.0
    top, labels = TopK.from_openai(answer, labels=LABELS, tokenizer=TOKENIZER, vocabulary_size=V, logprobs="raw")
    listed = (top.scores.array > -np.inf).sum(axis=1)
    assert set(listed[::3]) == {4}
    assert listed[1] == K - 1
    low, high = nishimori.temperatures(top, labels).ec_bounds
    inside = nishimori.temperatures(arrays(of_labels=False), LABELS).ec_bounds
    assert low <= inside.low <= inside.high <= high


def test_objects_of_a_client_are_read_as_their_dictionaries():
    class Entry:
        def __init__(self, values):
            self.values = values

        def model_dump(self):
            return self.values

    found, _ = TopK.from_openai(
        [Entry(each) for each in openai(range(50))], labels=LABELS[:50], tokenizer=TOKENIZER, vocabulary_size=V, logprobs="raw"
    )
    assert found.shape == (50, K)


@dataclass
class Logprob:
    """As vLLM's, which `LLM.generate` returns in place of dictionaries."""

    logprob: float
    rank: int | None = None
    decoded_token: str | None = None


def test_objects_of_vllm_are_read_as_its_dictionaries():
    answer = [{int(token): Logprob(**values) for token, values in entry.items()} for entry in vllm(range(N))[1:]]
    for first in (None, {}):  # vLLM's flat lists have an empty entry for the first token
        top, labels = TopK.from_vllm([first, *answer], labels=[3, *LABELS], vocabulary_size=V, logprobs="raw")
        expected = nishimori.temperatures(arrays(), LABELS)
        assert nishimori.temperatures(top, labels).ec_bounds == pytest.approx(expected.ec_bounds)


def test_a_sampled_token_in_place_of_the_last_listed_one_is_left_out():
    """The server of vLLM lists the sampled token first and then the most probable ones, k in all."""
    drawn = (LOGITS + np.random.default_rng(1).gumbel(size=LOGITS.shape)).argmax(axis=1)
    answer, doubtful = openai(range(N)), RANKS[np.arange(N), drawn] >= K
    assert 10 < doubtful.sum() < N / 2
    known = np.full(N, np.nan)  # of labels, where they are listed at all
    for row, entry in enumerate(answer):
        order = list(dict.fromkeys([drawn[row], *TOP[row]]))[:K]
        known[row] = LOGS[row, LABELS[row]] if LABELS[row] in order else np.nan
        entry["token"] = WORDS[drawn[row]]
        entry["top_logprobs"] = [{"token": WORDS[token], "logprob": float(LOGS[row, token])} for token in order]
    options = {"tokenizer": TOKENIZER, "vocabulary_size": V, "logprobs": "raw"}
    top, labels = TopK.from_openai(answer, labels=LABELS, **options)
    fewer = TOP[:, :-1]  # of all rows, because those whose sampled token has rank k look the same as those of larger ranks
    expected = TopK(fewer, np.take_along_axis(LOGS, fewer, axis=1), V, label_log_probabilities=known)
    expected = nishimori.temperatures(expected, LABELS)
    assert nishimori.temperatures(top, labels).ec_bounds == pytest.approx(expected.ec_bounds)


SAMPLED = {"labels": TOP[:, 0], "tokenizer": TOKENIZER, "vocabulary_size": V, "logprobs": "raw"}
REFUSED = {
    "sampled tokens": (lambda: TopK.from_openai(openai(range(N)), **SAMPLED), "be the true tokens, got the sampled ones"),
    "processed": (
        lambda: TopK.from_vllm(vllm(range(9)), labels=[0, *LABELS[:9]], vocabulary_size=V, logprobs="processed"),
        "'processed', after the temperature.*raw_logprobs",
    ),
    "neither": (
        lambda: TopK.from_vllm(vllm(range(9)), labels=[0, *LABELS[:9]], vocabulary_size=V, logprobs="both"),
        "`logprobs` must be 'raw' or 'processed'",
    ),
    "off by one": (
        lambda: TopK.from_vllm(vllm(range(9)), labels=[*LABELS[:9], 0], vocabulary_size=V, logprobs="raw"),
        "which is not listed at position 1 of sequence 0. Are the labels shifted by one",
    ),
    "too few labels": (
        lambda: TopK.from_vllm(vllm(range(9)), labels=LABELS[:9], vocabulary_size=V, logprobs="raw"),
        "one token per entry of `prompt_logprobs`, got 9 for 10 entries",
    ),
    "no labels": (lambda: TopK.from_vllm(vllm(range(9)), labels=None, vocabulary_size=V, logprobs="raw"), "`labels` must hold"),
    "an unknown token": (
        lambda: TopK.from_openai(openai(range(9)), **SAMPLED | {"tokenizer": {"w1": 1}, "labels": LABELS[:9]}),
        "`tokenizer` must know every listed token, got none for 'w",
    ),
    "no lists": (
        lambda: TopK.from_openai([{"token": "w1", "logprob": -1.0}], **SAMPLED | {"labels": [1]}),
        "`content` must have `top_logprobs`, got none at position 0 of answer 0",
    ),
    "one doubtful token": (
        lambda: TopK.from_openai(
            [{"token": "w1", "top_logprobs": [{"token": "w1", "logprob": -1.0}]}], **SAMPLED | {"labels": [1]}
        ),
        "list more than one token, got only the sampled one, .* at position 0 of answer 0. Ask for `top_logprobs=20`",
    ),
    "equal texts": (
        lambda: TopK.from_openai(openai(range(9)), **SAMPLED | {"tokenizer": lambda _: 1, "labels": LABELS[:9]}),
        "list each token once.*at position 0 of answer 0. Some tokens are parts of a character",
    ),
    "a whole answer": (
        lambda: TopK.from_openai({"choices": []}, **SAMPLED | {"labels": [1]}),
        r"It is `choices\[0\].logprobs.content` in the answer of chat completions; older completions are not read",
    ),
    "processed for openai": (
        lambda: TopK.from_openai(openai(range(9)), **SAMPLED | {"labels": LABELS[:9], "logprobs": "processed"}),
        "'processed', after the temperature",
    ),
    "not an answer": (lambda: TopK.from_openai([3.0], **SAMPLED | {"labels": [1]}), "hold dictionaries, as the server returns"),
    "no number": (
        lambda: TopK.from_vllm([{"1": {"rank": 1}}], labels=[1], vocabulary_size=V, logprobs="raw"),
        "have a number as 'logprob'",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_meant_is_refused(case):
    make, message = REFUSED[case]
    with pytest.raises(InputError, match=message):
        make()


def test_labels_and_what_the_logarithms_are_must_be_passed():
    options = {"labels": LABELS[:9], "vocabulary_size": V, "logprobs": "raw"}
    for missing in ("labels", "logprobs"):
        rest = {name: value for name, value in options.items() if name != missing}
        for read in (TopK.from_vllm, lambda answer, **others: TopK.from_openai(answer, tokenizer=TOKENIZER, **others)):
            with pytest.raises(TypeError, match=f"missing 1 required keyword-only argument: '{missing}'"):
                read([], **rest)
