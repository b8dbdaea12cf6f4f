"""JSON that anybody may have written: every fault is an error of one line, and takes neither much time nor memory."""

import json
from pathlib import Path
from typing import Any

from nishimori._support.disk import existing_file

# A million class names take 20 MB.
_LARGEST = 2**26

# Numbers that float64 tells apart have 17 digits; thousands of digits take long to read and to print.
_MOST_DIGITS = 30

# No file of ours has more than six levels.
_DEEPEST = 50
_DEEP = "it is nested too deeply"


class JsonError(Exception):
    """Why a text is not JSON that can be used; callers say what it should have been, and what to do."""


def read_json(path: Path) -> Any:
    """The content of a file, whose structure is still to be checked."""
    size = existing_file(path).stat().st_size
    if size > _LARGEST:
        raise JsonError(f"it has {size:,} bytes, more than the {_LARGEST:,} that are read")
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise JsonError("it is not text in UTF-8") from None
    return parse_json(text)


def parse_json(text: str) -> Any:
    """The content of a text."""
    try:
        content = json.loads(text, object_pairs_hook=_distinct, parse_int=_whole)
        _refuse_deep(content)
        json.dumps(content, ensure_ascii=False).encode()  # half of a surrogate pair is valid JSON, but not text
    except RecursionError:
        raise JsonError(_DEEP) from None
    except UnicodeEncodeError:
        raise JsonError("it holds half of a surrogate pair, which is not text") from None
    except json.JSONDecodeError as error:
        raise JsonError(f"it is not JSON ({error.msg}: line {error.lineno} column {error.colno})") from None
    return content


def _refuse_deep(content: Any) -> None:
    """Refuse what a recursive function could not walk through."""
    level = [content]
    for _ in range(_DEEPEST):
        inside = (part.values() if isinstance(part, dict) else part for part in level if isinstance(part, dict | list))
        level = [child for children in inside for child in children]
        if not level:
            return
    raise JsonError(_DEEP)


def _whole(text: str) -> int:
    if len(text) > _MOST_DIGITS:
        raise JsonError(f"it has a number of {len(text)} digits")
    return int(text)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in content if names.count(name) > 1)
        raise JsonError(f"the key {twice!r:.40} appears more than once")
    return content
