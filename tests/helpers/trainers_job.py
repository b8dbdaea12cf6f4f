"""One of two processes that evaluate together: `python trainers_job.py FOLDER`, with the variables that `torchrun` sets.

Each writes what its trainers found to FOLDER/RANK.json. 11 samples in batches of 2 leave a last batch that is filled up.
"""

import json
import os
import sys
import warnings
from pathlib import Path

import numpy as np
import reference
import torch
import torch.distributed as dist
from torch import nn

N, PER_BATCH = 11, 2
LOGITS, LABELS = (each[:N] for each in reference.drawn(40, 3, temperature=3.0, seed=3))


class Network(nn.Module):
    """Returns its inputs as logits."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x, labels=None):
        logits = self.scale * x
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


def of_transformers(folder, spoil):
    """What `Trainer` reports; ``spoil`` makes a logit of the second process NaN."""
    from transformers import Trainer, TrainingArguments

    from nishimori.integrations.transformers import CalibrationCallback, ComputeCalibration

    logits = np.where((np.arange(N) == 3)[:, None], np.nan, LOGITS) if spoil else LOGITS
    data = [{"x": torch.tensor(x), "labels": int(y)} for x, y in zip(logits, LABELS, strict=True)]
    options = {"use_cpu": True, "report_to": "none", "disable_tqdm": True, "per_device_eval_batch_size": PER_BATCH}
    found = {}
    for name in ("callback", "metrics"):
        by_batch = {"batch_eval_metrics": True} if name == "metrics" else {}
        arguments = TrainingArguments(output_dir=str(folder), **options, **by_batch)
        metrics = ComputeCalibration() if by_batch else None
        trainer = Trainer(model=Network(), args=arguments, eval_dataset=data, compute_metrics=metrics)
        if not by_batch:
            trainer.add_callback(CalibrationCallback(trainer))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found[name] = trainer.evaluate()
        found[f"{name}_warnings"] = [str(each.message) for each in caught if "Calibration was not" in str(each.message)]
    return found


def of_torchmetrics(rank):
    """What the metric computes; the first process has most of the rows, and of the second data set all."""
    from nishimori.integrations.torchmetrics import CalibrationMetric

    found = {}
    for name, cut in (("some", 8), ("one", N)):
        metric = CalibrationMetric(ignore_index=-1)
        mine = slice(cut) if rank == 0 else slice(cut, None)
        if len(LABELS[mine]):
            metric.update(torch.tensor(LOGITS[mine]), torch.tensor(LABELS[mine]))
        else:
            metric.update(torch.zeros(2, 3), torch.tensor([-1, -1]))
        found[name] = {key: value.item() for key, value in metric.compute().items()}
        found[f"{name}_own"] = metric.sketch.n_samples
        with metric.sync_context():
            found[f"{name}_all"] = metric.sketch.n_samples
    return found


def of_lightning():
    """What Lightning logs, whose sampler gives both processes six samples: one is there twice."""
    import lightning

    from nishimori.integrations.lightning import CalibrationMonitor

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.network = Network()

        def validation_step(self, batch, batch_idx):
            return self.network(*batch)

    data = [(torch.tensor(x), int(y)) for x, y in zip(LOGITS, LABELS, strict=True)]
    loader = torch.utils.data.DataLoader(data, batch_size=PER_BATCH)
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": False}
    warnings.simplefilter("ignore")
    trainer = lightning.Trainer(accelerator="cpu", devices=2, strategy="ddp", callbacks=[CalibrationMonitor()], **quiet)
    (found,) = trainer.validate(Module(), loader, verbose=False)
    return found


if __name__ == "__main__":
    where, process = Path(sys.argv[1]), int(os.environ["RANK"])
    result = {"transformers": of_transformers(where, spoil=False), "spoilt": of_transformers(where, spoil=True)}
    result["torchmetrics"], result["lightning"] = of_torchmetrics(process), of_lightning()
    (where / f"{process}.json").write_text(json.dumps(result), encoding="utf-8")
    dist.destroy_process_group()
