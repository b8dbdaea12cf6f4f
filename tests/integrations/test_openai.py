"""Answers that are built with the types of the `openai` package: `TopK.from_openai` takes what these types take and give."""

import numpy as np
import pytest

import nishimori
from nishimori import TopK
from nishimori.errors import InputError

chat = pytest.importorskip("openai.types.chat", reason="needs openai, which is not installed")
types = pytest.importorskip("openai.types", reason="needs openai, which is not installed")

V, K, N = 40, 20, 400
RNG = np.random.default_rng(0)
LOGITS = 3 * RNG.normal(size=(N, V))
LABELS = (LOGITS / 2 + RNG.gumbel(size=LOGITS.shape)).argmax(axis=1)
LOGS = LOGITS - np.log(np.exp(LOGITS).sum(axis=1, keepdims=True))
TOP = np.argsort(-LOGS, axis=1)[:, :K]
WORDS = [f" w{i}" for i in range(V)]
OPTIONS = {"tokenizer": WORDS.index, "vocabulary_size": V, "logprobs": "raw"}


def completion(rows):
    """A chat completion as the service sends it in JSON."""

    def listed(row, token):
        return {"token": WORDS[token], "bytes": list(WORDS[token].encode()), "logprob": float(LOGS[row, token])}

    content = [listed(row, TOP[row, 0]) | {"top_logprobs": [listed(row, token) for token in TOP[row]]} for row in rows]
    message = {"role": "assistant", "content": "...", "refusal": None}
    choice = {"index": 0, "finish_reason": "stop", "message": message, "logprobs": {"content": content, "refusal": None}}
    answer = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    return chat.ChatCompletion.model_validate(answer)


def expected():
    return nishimori.temperatures(TopK(TOP, np.take_along_axis(LOGS, TOP, axis=1), V), LABELS)


@pytest.mark.parametrize("form", ["objects", "dictionaries", "JSON"])
def test_a_chat_completion_gives_the_bounds_of_its_arrays(form):
    answer = completion(range(N))
    if form == "dictionaries":
        content = answer.model_dump()["choices"][0]["logprobs"]["content"]
    else:
        answer = chat.ChatCompletion.model_validate_json(answer.model_dump_json()) if form == "JSON" else answer
        content = answer.choices[0].logprobs.content
    top, labels = TopK.from_openai(content, labels=[WORDS[label] for label in LABELS], **OPTIONS)
    np.testing.assert_array_equal(labels, LABELS)
    assert nishimori.temperatures(top, labels).ec_bounds == pytest.approx(expected().ec_bounds)


def test_several_answers_are_read_as_one():
    contents = [completion(rows).choices[0].logprobs.content for rows in (range(150), range(150, N))]
    top, labels = TopK.from_openai(contents, labels=[LABELS[:150], LABELS[150:]], **OPTIONS)
    assert nishimori.temperatures(top, labels).ec_bounds == pytest.approx(expected().ec_bounds)


def test_older_completions_and_whole_answers_are_refused_with_where_the_lists_are():
    logprobs = {"tokens": ["a"], "token_logprobs": [-0.1], "top_logprobs": [{"a": -0.1, "b": -3.0}], "text_offset": [0]}
    choice = {"index": 0, "finish_reason": "stop", "text": "a", "logprobs": logprobs}
    answer = {"id": "1", "object": "text_completion", "created": 1, "model": "m", "choices": [choice]}
    old = types.Completion.model_validate(answer)
    for content in (old.choices[0].logprobs, old, completion(range(2)), completion(range(2)).model_dump()):
        with pytest.raises(InputError, match=r"choices\[0\].logprobs.content. in the answer of chat completions; older"):
            TopK.from_openai(content, labels=[1], **OPTIONS)
