"""Sample files of lm-evaluation-harness: multiple choice as logits and labels. Neither the harness nor a model is needed.

    lm_eval --model hf --model_args pretrained=MODEL --tasks arc_easy --log_samples --output_path out

    from nishimori.integrations import lm_eval
    logits, labels = lm_eval.read("out/MODEL/samples_arc_easy_TIME.jsonl")

The functions that take files, and the shell, read such a file themselves: ``nishimori.rows("samples_arc_easy_TIME.jsonl")``.
"""

from os import PathLike
from pathlib import Path

from nishimori._files.lm_eval import LabelOf, Metric, Samples, read_samples

__all__ = ["Samples", "read"]


def read(
    path: str | PathLike[str], *, metric: Metric = "acc", filter: str | None = None, labels: LabelOf | None = None
) -> Samples:
    """Read the log-likelihoods and the right choices of a multiple-choice task.

    Parameters
    ----------
    path : path
        A file ``samples_TASK_TIME.jsonl``, which ``lm_eval --log_samples`` has written.
    metric : {"acc", "acc_norm", "acc_bytes"}
        Which accuracy of the harness the logits belong to: log-likelihoods ("acc"), or log-likelihoods per character
        ("acc_norm") or byte ("acc_bytes") of the choice, which do not favour short choices.
    filter : str, optional
        Which filter to read, where a task has several.
    labels : callable, optional
        A function from the object of a line to the number of its right choice, counted from 0. It is needed where ``target`` is
        not the number or the text of one choice, such as in Winogrande.

    Returns
    -------
    Samples
        ``logits`` and ``labels``. Where a question has fewer choices, its last logits are -inf, which masks a class.

    Notes
    -----
    Labels are checked: for each line, the choice with the largest logit must be right or wrong as the file's ``acc`` (and
    ``metric``) says. A target of several right choices is refused, unless ``labels`` chooses one.

    Examples
    --------
    >>> import json
    >>> import tempfile
    >>> from pathlib import Path
    >>> from nishimori.integrations import lm_eval
    >>> sample = {
    ...     "doc_id": 0,
    ...     "target": "1",
    ...     "arguments": {"gen_args_0": {"arg_0": "1 + 1 =", "arg_1": " 3"}, "gen_args_1": {"arg_0": "1 + 1 =", "arg_1": " 2"}},
    ...     "filtered_resps": [["-2.5", "False"], ["-1.25", "False"]],
    ...     "filter": "none",
    ...     "acc": 1.0,
    ... }
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "samples_sums.jsonl")
    ...     _ = path.write_text(json.dumps(sample))
    ...     print(lm_eval.read(path))
    Samples(logits=array([[-2.5 , -1.25]]), labels=array([1]))
    """
    return read_samples(Path(path), metric=metric, filter=filter, labels=labels).samples
