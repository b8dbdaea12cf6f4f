"""The blocks of the page about trainers and trackers run, in their order, and give what the page says."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import reference
from optional import datasets, evaluate, lightning, mlflow, torch, transformers, wandb
from readme import blocks
from trainer_values import logged, values_of

import nishimori

PAGE = Path(__file__).parents[2] / "docs" / "trainers.md"
LOGITS, LABELS = reference.drawn(300, 4)


def block(part):
    """The one block that holds a text."""
    (text,) = (each.text for each in blocks(PAGE) if part in each.text)
    return text


def ran(part, **names):
    """The names after that block."""
    exec(block(part), names)
    return names


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


class Network(torch.nn.Module):
    """Returns its inputs as logits."""

    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(()))

    def forward(self, x, labels=None):
        logits = self.scale * x
        loss = None if labels is None else torch.nn.functional.cross_entropy(logits, labels)
        return {"loss": loss, "logits": logits}


def of_hugging_face(**options):
    data = [{"x": torch.tensor(z), "labels": int(y)} for z, y in zip(LOGITS, LABELS, strict=True)]
    settings = {"output_dir": "output", "use_cpu": True, "report_to": "none", "disable_tqdm": True} | options
    arguments = transformers.TrainingArguments(**settings)
    return {"Trainer": transformers.Trainer, "arguments": arguments, "model": Network(), "data": data}


def of_tensors():
    pairs = [(torch.tensor(z), int(y)) for z, y in zip(LOGITS, LABELS, strict=True)]
    return {"network": torch.nn.Identity(), "loader": torch.utils.data.DataLoader(pairs, batch_size=100)}


def last(trainer):
    """What a Trainer has logged last of calibration."""
    kept = [each for each in trainer.state.log_history if "eval_ece" in each][-1]
    return {name: kept[name] for name in kept if name.startswith("eval_") and name[5:] in ("ece", "gap", "temperature")}


EXPECTED = pytest.approx(logged(LOGITS, LABELS, "eval"), rel=1e-5)


def test_the_callback_and_the_metrics_of_hugging_face_log_the_same(folder):
    names = of_hugging_face()
    assert last(ran("add_callback(callback)", **names)["trainer"]) == EXPECTED
    assert last(ran("compute_metrics=ComputeCalibration()", **names)["trainer"]) == EXPECTED


def test_a_calibrated_network_is_evaluated_by_the_trainer(folder):
    names = of_hugging_face()
    names = ran("add_callback(callback)", **names)
    names = ran("Trainer(model=calibrated", **names, test_data=names["data"])
    assert float(names["calibrated"].temperature) == pytest.approx(values_of(LOGITS, LABELS)["temperature"], rel=1e-5)


def test_lightning_validates_and_predicts(folder):
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False, "accelerator": "cpu"}

    class Quiet(lightning.Trainer):
        def __init__(self, **options):
            super().__init__(**options, **quiet)

    usual, lightning.Trainer = lightning.Trainer, Quiet
    try:
        names = ran("class Classifier", **of_tensors())
    finally:
        lightning.Trainer = usual
    found = {name: value.item() for name, value in names["trainer"].callback_metrics.items()}
    assert found == pytest.approx(logged(LOGITS, LABELS, "val"), rel=1e-5)
    p = torch.cat(ran("CalibratedModule(calibrate", **names)["probabilities"]).numpy()
    T = values_of(LOGITS, LABELS)["temperature"]
    np.testing.assert_allclose(p, reference.softmax(LOGITS, T), rtol=1e-4)


def test_the_metric_of_torchmetrics_has_the_values(folder):
    found = ran("CalibrationMetric()  # input", **of_tensors())["values"]
    assert {name: value.item() for name, value in found.items()} == pytest.approx(values_of(LOGITS, LABELS), rel=1e-5)


def evaluated(**options):
    """The callback of a Trainer that has evaluated, and reports to a tracker."""
    return ran("add_callback(callback)", **of_hugging_face(**options))["callback"]


def test_mlflow_has_the_metrics_the_sketch_and_the_report_and_what_the_trainer_reports(folder, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (folder / "runs").as_uri())  # as a server would be
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.end_run()  # skips without it
    callback = evaluated(report_to="mlflow")
    mlflow.end_run()
    ran("mlflow.start_run()", callback=callback)
    metrics = {path.name: float(path.read_text().split()[1]) for path in (folder / "runs").rglob("metrics/*")}
    expected = values_of(LOGITS, LABELS)
    assert metrics["eval_ece"] == metrics["ece"] == pytest.approx(expected["ece"], rel=1e-5)
    assert metrics["eval_temperature"] == pytest.approx(expected["temperature"], rel=1e-5)
    kept = {path.name: path for path in (folder / "runs").rglob("artifacts/*")}
    assert set(kept) == {"report.html", "sketch.npz"}
    assert nishimori.evaluate(nishimori.Sketch.load(kept["sketch.npz"])).nll == pytest.approx(expected["nll"], rel=1e-5)


def test_wandb_has_the_metrics_and_the_sketch_and_what_the_trainer_reports(folder, monkeypatch):
    for name, value in {"MODE": "offline", "SILENT": "true", "DIR": str(folder)}.items():
        monkeypatch.setenv(f"WANDB_{name}", value)
    wandb.finish()  # skips without it
    callback = evaluated(report_to="wandb")
    expected = values_of(LOGITS, LABELS)
    assert wandb.run.summary["eval/temperature"] == pytest.approx(expected["temperature"], rel=1e-5)
    wandb.finish()
    callback.sketch.save("kept.npz")
    shutil.rmtree("wandb")
    # In a process of its own, at whose end all is written.
    first = "import types, nishimori; callback = types.SimpleNamespace(sketch=nishimori.Sketch.load('kept.npz'))\n"
    subprocess.run([sys.executable, "-c", first + block("wandb.init(")], check=True, capture_output=True)
    (raw,) = (path.read_bytes() for path in folder.rglob("run-*.wandb"))
    log = b"".join(raw[start + 7 : start + 2**15] for start in range(0, len(raw), 2**15))  # each block begins with a header
    assert b"ece_corrected" in log
    assert b"sketch.npz" in log


def test_a_metric_of_evaluate_needs_no_network(folder, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(evaluate.config, "HF_METRICS_CACHE", str(folder))
    found = ran("evaluate.Metric", logits=LOGITS, labels=LABELS, datasets=datasets)["values"]
    assert {name: found[name] for name in ("ece", "gap", "nll")} == pytest.approx(
        {name: values_of(LOGITS, LABELS)[name] for name in ("ece", "gap", "nll")}, rel=1e-9
    )


@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")  # of which peft asks transformers
def test_the_trainer_takes_adapters_of_peft(folder):
    from optional import peft

    from nishimori.torch import Calibrated

    small = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    model = transformers.BertForSequenceClassification(transformers.BertConfig(vocab_size=30, num_labels=3, **small))
    adapted = peft.get_peft_model(model, peft.LoraConfig(target_modules=["query"])).eval()
    rows = [{"input_ids": list(range(3, 9)), "labels": i % 3, "other": 1} for i in range(6)]
    data = datasets.Dataset.from_list(rows)  # of which Trainer takes the columns that the network knows
    arguments = of_hugging_face()["arguments"]
    plain, calibrated = (
        transformers.Trainer(model=each, args=arguments).evaluate(data) for each in (adapted, Calibrated(adapted))
    )
    assert calibrated["eval_loss"] == pytest.approx(plain["eval_loss"], rel=1e-6)
