"""Read the top-k lists in the JSON answers of language model servers.

Both formats are read from plain dictionaries. What a server has sampled is never a label: it follows the probabilities,
whatever these are worth, so that the temperature would be the one of sampling. So the true tokens are passed beside the lists.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import log
from typing import Any, Literal, NamedTuple

import numpy as np

from nishimori._support.arrays import HostArray
from nishimori._support.numbers import one_of
from nishimori._top_k.top_k import _NOT_LISTED, TopK
from nishimori.errors import InputError

LogProbabilities = Literal["raw", "processed"]

_WHERE_LISTS_ARE = {
    "prompt_logprobs": "It is `prompt_logprobs` in the answer.",
    "content": "It is `choices[0].logprobs.content` in the answer of chat completions; older completions are not read.",
}

# If this many sampled tokens are all the labels, the labels are what was sampled.
_ALL_SAMPLED = 20


class LabelledLists(NamedTuple):
    """Top-k lists and the true class of each: pass both, as in ``temperatures(*listed)``."""

    top: TopK
    labels: HostArray


def from_vllm(
    prompt_logprobs: Sequence[Any], *, labels: Any, vocabulary_size: int, logprobs: LogProbabilities
) -> LabelledLists:
    """The lists in ``prompt_logprobs`` of vLLM; see `TopK.from_vllm`."""
    _refuse_processed(logprobs)
    lists: list[dict[int, float]] = []
    ranks: list[dict[int, Any]] = []
    true: list[int] = []
    for number, (answer, tokens) in enumerate(_sequences(prompt_logprobs, labels, "prompt_logprobs")):
        for position, (entries, label) in enumerate(zip(answer, tokens, strict=True)):
            if not entries:  # the first token of a prompt has nothing before it
                continue
            where = f"position {position} of sequence {number}"
            by_token = {int(token): entry for token, entry in _mapping(entries, "prompt_logprobs", where).items()}
            if int(label) not in by_token:
                raise InputError(
                    "labels",
                    "be the tokens of the prompt at the positions of `prompt_logprobs`, which always list them",
                    got=f"{int(label)}, which is not listed at {where}",
                    remedy="Are the labels shifted by one? Pass the token ids of the prompt as they are.",
                )
            lists.append({token: _number(entry, where) for token, entry in by_token.items()})
            ranks.append({token: _field(entry, "rank") for token, entry in by_token.items()})
            true.append(int(label))
    # The token of the prompt may follow the most probable ones, of which there are equally many in all lists.
    asked_for = min((_consecutive(own.values()) for own in ranks), default=0)
    added = [{token for token, rank in own.items() if isinstance(rank, int) and rank > asked_for > 0} for own in ranks]
    return _listed(lists, added, true, vocabulary_size, "prompt_logprobs")


def from_openai(
    content: Sequence[Any],
    *,
    labels: Any,
    tokenizer: "Mapping[str, int] | Callable[[str], int | None]",
    vocabulary_size: int,
    logprobs: LogProbabilities,
) -> LabelledLists:
    """The lists in ``choices[0].logprobs.content`` of OpenAI and servers like it; see `TopK.from_openai`."""
    _refuse_processed(logprobs)
    find: Callable[[Any], int | None] = tokenizer.get if isinstance(tokenizer, Mapping) else tokenizer
    lists: list[dict[int, float]] = []
    true: list[int] = []
    doubtful: list[bool] = []
    sampled: list[int | None] = []

    def token_id(token: Any, where: str) -> int:
        own_id = find(token)
        if own_id is None or isinstance(own_id, bool):
            raise InputError("tokenizer", "know every listed token", got=f"none for {token!r} at {where}")
        return int(own_id)

    for number, (answer, tokens) in enumerate(_sequences(content, labels, "content")):
        for position, (entry, label) in enumerate(zip(answer, tokens, strict=True)):
            where = f"position {position} of answer {number}"
            entry = _mapping(entry, "content", where)  # noqa: PLW2901 - checked
            others = entry.get("top_logprobs") or ()
            if not others:
                raise InputError("content", "have `top_logprobs`", got=f"none at {where}", remedy="Ask for `top_logprobs=20`.")
            own = {token_id(_field(other, "token"), where): _number(other, where) for other in others}
            if len(own) < len(others):
                raise InputError(
                    "content",
                    "list each token once",
                    got=f"one that the tokenizer gives the same id as another at {where}",
                    remedy="Some tokens are parts of a character, and look equal as text. Let the server return token ids, "
                    "such as `return_tokens_as_token_ids` of vLLM.",
                )
            drawn = find(entry.get("token"))
            lists.append(own)
            doubtful.append(_is_doubtful(own, drawn, where))
            true.append(token_id(label, where) if isinstance(label, str) else int(label))
            sampled.append(drawn)
    if len(true) >= _ALL_SAMPLED and sampled == true:
        raise InputError(
            "labels",
            "be the true tokens",
            got="the sampled ones in every row",
            remedy="What a model has sampled says nothing about its calibration: pass what is right.",
        )
    # All lists lose their last entry then: which of them end with a token of a lower rank is not known.
    added = [{min(own, key=own.__getitem__)} if any(doubtful) and len(own) > 1 else set() for own in lists]
    return _listed(lists, added, true, vocabulary_size, "content")


def _is_doubtful(own: dict[int, float], drawn: int | None, where: str) -> bool:
    """Whether the sampled token is the least probable of its list, so that it may have replaced the k-th token.

    vLLM lists the sampled token first, whatever its rank, and then the most probable ones, up to the number asked for.
    """
    if drawn not in own or min(own.values()) < own[drawn]:
        return False
    if len(own) == 1 and own[drawn] < log(1 / 2):  # another token may be more probable
        got = f"only the sampled one, which need not be the most probable one, at {where}"
        raise InputError("content", "list more than one token", got=got, remedy="Ask for `top_logprobs=20`.")
    return len(own) > 1


def _refuse_processed(logprobs: Any) -> None:
    """Refuse log-probabilities after temperature, penalties and filters."""
    if one_of("logprobs", logprobs, LogProbabilities) == "processed":
        raise InputError(
            "logprobs",
            "be 'raw', from the softmax over the whole vocabulary",
            got="'processed', after the temperature, penalties and filters of sampling",
            remedy="Ask the server for raw ones, such as `--logprobs-mode raw_logprobs` of vLLM.",
        )


def _sequences(answers: Any, labels: Any, name: str) -> list[tuple[Sequence[Any], Sequence[Any]]]:
    """Pairs of an answer and its labels; a single answer is a list of one."""
    if not isinstance(answers, Sequence) or isinstance(answers, str) or not len(answers):
        must = "be a list with an entry per token, or a list of such lists"
        raise InputError(name, must, got=f"{answers!r:.60}", remedy=_WHERE_LISTS_ARE[name])
    if labels is None or isinstance(labels, str) or not hasattr(labels, "__len__"):
        raise InputError("labels", "hold the true token of each entry", got=f"{labels!r:.60}")
    first = next((entry for entry in answers if entry is not None), None)
    several = isinstance(first, Sequence) and not isinstance(first, str)
    pairs = list(zip(answers, labels, strict=True)) if several and len(answers) == len(labels) else [(answers, labels)]
    for number, (answer, tokens) in enumerate(pairs):
        if len(answer) != len(tokens):
            got = f"{len(tokens)} for {len(answer)} entries of answer {number}"
            raise InputError("labels", f"have one token per entry of `{name}`", got=got)
    return pairs


def _mapping(entry: Any, name: str, where: str) -> Mapping[Any, Any]:
    """An entry that is a dictionary, or an object of a client that can become one."""
    dump = getattr(entry, "model_dump", None)
    entry = dump() if callable(dump) else entry
    if not isinstance(entry, Mapping):
        raise InputError(name, "hold dictionaries, as the server returns them", got=f"{entry!r:.60} at {where}")
    return entry


def _field(entry: Any, key: str) -> Any:
    """A value in a dictionary, or in an object of a client."""
    return entry.get(key) if isinstance(entry, Mapping) else getattr(entry, key, None)


def _number(entry: Any, where: str) -> float:
    value = _field(entry, "logprob")
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise InputError("The answer", "have a number as 'logprob' of each token", got=f"{value!r:.60} at {where}")
    return float(value)


def _consecutive(ranks: Iterable[Any]) -> int:
    """The rank up to which all tokens are listed; 0 if ranks are not known."""
    present = {rank for rank in ranks if isinstance(rank, int)}
    return next(rank for rank in range(len(present) + 1) if rank + 1 not in present)


def _listed(
    lists: list[dict[int, float]], added: list[set[int]], true: list[int], vocabulary_size: int, name: str
) -> LabelledLists:
    """The lists in one table; tokens ``added`` to the most probable ones are used for the label only."""
    if not lists:
        raise InputError(name, "hold at least one list", got="none")
    label_logs, kept = np.full(len(lists), np.nan), []
    for row, (entries, others, label) in enumerate(zip(lists, added, true, strict=True)):
        own = {token: log_p for token, log_p in entries.items() if log_p > _NOT_LISTED}
        if label in own:
            label_logs[row] = own[label]
        kept.append({token: log_p for token, log_p in own.items() if token not in others})
    k = max(map(len, kept))
    logs = np.full((len(kept), k), -np.inf)
    indices = np.tile(np.arange(k), (len(kept), 1))
    for row, own in enumerate(kept):
        order = sorted(own, key=lambda token: (-own[token], token))
        free = iter(set(range(k + len(own))) - set(own))  # a place that lists nothing still has an index of its own
        indices[row] = [*order, *(next(free) for _ in range(k - len(order)))]
        logs[row, : len(order)] = [own[token] for token in order]
    return LabelledLists(
        TopK(indices, logs, vocabulary_size, label_log_probabilities=label_logs), np.array(true, dtype=np.int64)
    )
