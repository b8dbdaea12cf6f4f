"""Calibrations from files of either kind: of classes that exclude each other, and of independent labels."""

import os
from pathlib import Path

from nishimori._calibrators.calibrator import Calibrator
from nishimori._calibrators.methods import restore_calibrator
from nishimori._calibrators.multilabel.estimator import MultilabelCalibrator
from nishimori._calibrators.multilabel.label_record import LabelRecord
from nishimori._methods.record import Record, content_of


def load(path: str | os.PathLike[str]) -> Calibrator | MultilabelCalibrator:
    """The calibrator that `save` wrote to ``path``, ready to use.

    If its method is neither registered nor installed here, the map is all there is: a `FixedMap` that knows the method's
    name. A file cannot name code: only methods that are registered or installed are looked up. A file of a
    `MultilabelCalibrator` becomes one again.

    Raises
    ------
    FormatError
        If the file is damaged, is not a calibration, or was written by a newer format than this library reads.
    """
    content = content_of(Path(path))
    record = LabelRecord.from_content(content, Path(path))
    if record is None:
        return restore_calibrator(Record.from_content(content, Path(path)), path)
    return MultilabelCalibrator.from_record(record)
