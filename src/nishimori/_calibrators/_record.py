"""A calibration on disk: one small JSON object that any language can read.

Version 1 has the fields of `Record` and two more, ``format`` and ``format_version``. Later versions may add fields and keep
reading this one; a file of a version this library does not know is refused.
"""

import json
import os
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, get_args

from nishimori._disk import existing_file, new_file
from nishimori._labels import refuse_permuted
from nishimori._scores import Input
from nishimori.errors import FormatError, InputError

FORMAT = "nishimori-calibration"
VERSION = 1

Method = Literal["ec", "ts", "fixed"]


@dataclass(frozen=True)
class Record:
    """What a calibrator needs to be itself again."""

    temperature: float
    method: Method
    top_n: int
    input: Input
    classes: list[Any] | None
    columns: list[str] | None
    n_classes: int | None
    n_samples: int | None
    library_version: str

    def write(self, path: str | os.PathLike[str], *, overwrite: bool) -> None:
        """Store as JSON; never a partial file."""
        if self.classes is not None and not all(isinstance(c, str | int | float | bool) for c in self.classes):
            raise InputError("`classes` must be text or numbers to be saved as JSON. Rename them, or pickle the calibrator.")
        content = {"format": FORMAT, "format_version": VERSION} | asdict(self)
        with new_file(path, overwrite=overwrite) as temporary:
            temporary.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> "Record":
        """Load and check; raises `FormatError` with what to do."""
        path = existing_file(path)
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (UnicodeDecodeError, json.JSONDecodeError) as error:
            what = "it is not text" if isinstance(error, UnicodeDecodeError) else str(error)
            raise FormatError(f"{path} is not a calibration file: {what}. Fit and save again.") from None
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise FormatError(f'{path} is not a calibration file: it has no "format": "{FORMAT}". Fit and save again.')
        version = content.get("format_version")
        if not isinstance(version, int) or version < 1:
            raise FormatError(f"{path} is damaged: its format_version is {version!r}. Fit and save again.")
        if version > VERSION:
            raise FormatError(
                f"{path} has format version {version}, written by nishimori {content.get('library_version', '?')}; "
                f"this one reads up to {VERSION}. Run `pip install --upgrade nishimori`."
            )
        return cls._checked(content, path)

    @classmethod
    def _checked(cls, content: dict[str, Any], path: Path) -> "Record":
        missing = [field.name for field in fields(cls) if field.name not in content]
        if missing:
            raise FormatError(f"{path} is damaged: {', '.join(missing)} missing. Fit and save again.")
        record = cls(**{field.name: content[field.name] for field in fields(cls)})
        for name, right in record._checks().items():
            if not right:
                raise FormatError(f"{path} is damaged: {name} is {content[name]!r}. Fit and save again.")
        return record

    def _permuted(self) -> bool:
        try:
            refuse_permuted(self.columns, self.classes)
        except InputError:
            return True
        return False

    def _checks(self) -> dict[str, bool]:
        def count(value: object, least: int) -> bool:
            return type(value) is int and value >= least

        def listed(value: object, kinds: type | tuple[type, ...]) -> bool:
            return value is None or (isinstance(value, list) and all(isinstance(item, kinds) for item in value))

        return {
            "temperature": type(self.temperature) in (int, float) and 0 < self.temperature < 1e300,
            "method": self.method in get_args(Method),
            "n_classes": self.n_classes is None or count(self.n_classes, 2),
            "top_n": count(self.top_n, 1) and (self.n_classes is None or self.top_n < self.n_classes),
            "input": self.input in get_args(Input),
            "n_samples": self.n_samples is None or count(self.n_samples, 1),
            "classes": listed(self.classes, (str, int, float))
            and (self.classes is None or len(self.classes) == self.n_classes == len(set(self.classes))),
            "columns": listed(self.columns, str)
            and (self.columns is None or len(self.columns) == self.n_classes == len(set(self.columns)))
            and not self._permuted(),
            "library_version": isinstance(self.library_version, str),
        }
