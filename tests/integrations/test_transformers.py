"""`Trainer` reports of calibration what NumPy finds in its logits, and evaluates calibrated networks as any other."""

import json

import numpy as np
import pytest
import trainer_values
from optional import torch, transformers

import nishimori
from nishimori.errors import InputError, InputWarning

SMALL = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
NAMES = ("ece", "gap", "temperature")


@pytest.fixture(autouse=True)
def _same_weights():
    torch.manual_seed(0)


@pytest.fixture
def integration():
    transformers.Trainer  # noqa: B018 - skips without it
    import nishimori.integrations.transformers as module

    return module


def bert(n_classes=3):
    config = transformers.BertConfig(vocab_size=30, num_labels=n_classes, initializer_range=0.5, **SMALL)
    return transformers.BertForSequenceClassification(config).eval()


def llama():
    config = transformers.LlamaConfig(vocab_size=30, num_key_value_heads=2, initializer_range=1.0, pad_token_id=0, **SMALL)
    return transformers.LlamaForCausalLM(config).eval()


def sentences(model, n=70, temperature=2.0):
    """Rows whose labels are drawn from the network's own probabilities at a temperature."""
    ids = torch.randint(3, 30, (n, 7))
    with torch.no_grad():
        labels = torch.multinomial((model(input_ids=ids).logits / temperature).softmax(dim=-1), 1)[:, 0]
    return [{"input_ids": row, "labels": label} for row, label in zip(ids, labels, strict=True)]


def texts(model, n=24, length=9):
    """Sequences of different lengths whose next tokens are mostly drawn by the network, with a prompt and padding ignored."""
    ids = torch.randint(3, 30, (n, 1))
    for _ in range(length - 1):
        with torch.no_grad():
            p = (model(input_ids=ids).logits[:, -1] / 1.5).softmax(dim=-1)
        ids = torch.cat([ids, torch.multinomial(p, 1)], dim=1)
    lengths = torch.randint(5, length + 1, (n, 1))
    is_text = torch.arange(length) < lengths
    labels = ids.masked_fill((torch.arange(length) < 2) | ~is_text, -100)
    rows = zip(ids, is_text.long(), labels, strict=True)
    return [{"input_ids": row, "attention_mask": mask, "labels": label} for row, mask, label in rows]


def logits_and_labels(model, data, *, shifted=False):
    """The rows of a data set that count, as NumPy arrays."""
    batch = {name: torch.stack([row[name] for row in data]) for name in data[0]}
    labels = batch.pop("labels")
    with torch.no_grad():
        logits = model(**batch).logits
    if shifted:
        logits, labels = logits[:, :-1], labels[:, 1:]
    logits, labels = logits.reshape(-1, logits.shape[-1]), labels.reshape(-1)
    counted = labels != -100
    return logits[counted].double().numpy(), labels[counted].numpy()


def expected(model, data, prefix="eval", *, shifted=False):
    return pytest.approx(trainer_values.logged(*logits_and_labels(model, data, shifted=shifted), prefix), rel=1e-4)


def trainer(model, folder, *, data=None, **options):
    settings = {"per_device_eval_batch_size": 16, "report_to": "none", "use_cpu": True, "disable_tqdm": True}
    names = {"compute_metrics", "callbacks", "train_dataset", "compute_loss_func"}
    own = {name: options.pop(name) for name in names & set(options)}
    arguments = transformers.TrainingArguments(output_dir=str(folder), **settings | options)
    return transformers.Trainer(model=model, args=arguments, eval_dataset=data, **own)


def measured(metrics, prefix="eval"):
    return {f"{prefix}_{name}": metrics[f"{prefix}_{name}"] for name in NAMES}


def test_the_callback_returns_and_logs_the_values_of_each_evaluation(integration, tmp_path):
    model = bert()
    data = sentences(model)
    training = trainer(model, tmp_path, data=data)
    callback = integration.CalibrationCallback(training)
    training.add_callback(callback)
    for _ in range(2):  # the second one starts from nothing
        assert measured(training.evaluate()) == expected(model, data)
        assert measured(training.state.log_history[-1]) == expected(model, data)
    assert "eval_loss" in training.state.log_history[-2]
    card = nishimori.evaluate(callback.sketch)
    logits, labels = logits_and_labels(model, data)
    assert card.nll == pytest.approx(trainer_values.values_of(logits, labels)["nll"], rel=1e-5)
    assert card.n_samples == len(data)


def test_trackers_of_the_trainer_get_the_values(integration, tmp_path):
    seen = []

    class Tracker(transformers.TrainerCallback):
        def on_log(self, args, state, control, logs, **kwargs):
            seen.append(dict(logs))

    model = bert()
    training = trainer(model, tmp_path, data=sentences(model), callbacks=[Tracker()])
    training.add_callback(integration.CalibrationCallback(training))
    metrics = training.evaluate()
    assert measured(seen[-1]) == measured(metrics)
    json.dumps(training.state.log_history)


def test_the_best_checkpoint_may_be_that_of_the_lowest_ece(integration, tmp_path):
    model = bert()
    data = sentences(model, 40)
    options = {"max_steps": 3, "eval_strategy": "steps", "eval_steps": 1, "save_strategy": "best", "learning_rate": 0.05}
    best = {"metric_for_best_model": "eval_ece", "greater_is_better": False}
    training = trainer(model, tmp_path, data=data, train_dataset=data, **options, **best)
    training.add_callback(integration.CalibrationCallback(training))
    training.train()
    values = [logged["eval_ece"] for logged in training.state.log_history if "eval_ece" in logged]
    assert len(values) == 3
    assert training.state.best_metric == min(values)


def test_each_data_set_has_values_of_its_own(integration, tmp_path):
    model = bert()
    data = {"near": sentences(model), "far": sentences(model, temperature=4.0)}
    training = trainer(model, tmp_path, data=data)
    training.add_callback(integration.CalibrationCallback(training))
    metrics = training.evaluate()
    for name, rows in data.items():
        assert measured(metrics, f"eval_{name}") == expected(model, rows, f"eval_{name}")


def test_tokens_that_are_ignored_or_shifted_count_as_in_the_loss(integration, tmp_path):
    model = llama()
    data = texts(model)
    training = trainer(model, tmp_path, data=data)
    training.add_callback(integration.CalibrationCallback(training, shift_labels=True))
    assert measured(training.evaluate()) == expected(model, data, shifted=True)


def test_labels_that_are_not_shifted_are_warned_of(integration, tmp_path):
    model = llama()
    training = trainer(model, tmp_path, data=texts(model))
    training.add_callback(integration.CalibrationCallback(training))
    with pytest.warns(InputWarning, match="pass `shift_labels=True`"):
        training.evaluate()


def test_predictions_at_padding_on_the_left_are_warned_of(integration, tmp_path):
    model = llama()
    data = texts(model)
    for row in data:  # padding is now on the left, and the collator's labels are those of the text
        row |= {name: values.roll(int((row["attention_mask"] == 0).sum())) for name, values in row.items()}
        row["labels"] = torch.where(row["attention_mask"] == 1, row["input_ids"], -100)
    training = trainer(model, tmp_path, data=data)
    training.add_callback(integration.CalibrationCallback(training, shift_labels=True))
    with pytest.warns(InputWarning, match="was not measured in this evaluation.* tokens after padding with labels in batch 0"):
        training.evaluate()
    for row in data:
        row["labels"][1:][row["attention_mask"][:-1] == 0] = -100
    assert measured(training.evaluate()) == expected(model, data, shifted=True)


@pytest.mark.parametrize("by_batch", [True, False])
def test_the_metrics_give_the_same_as_compute_metrics(integration, tmp_path, by_batch):
    model = llama()
    data = texts(model)
    metrics = integration.ComputeCalibration(shift_labels=True)
    training = trainer(model, tmp_path, data=data, compute_metrics=metrics, batch_eval_metrics=by_batch)
    for _ in range(2):
        assert measured(training.evaluate()) == expected(model, data, shifted=True)
    assert measured(training.state.log_history[-1]) == measured(training.evaluate())
    assert metrics.sketch.n_samples == len(logits_and_labels(model, data, shifted=True)[1])


def test_only_sums_are_kept_between_batches(integration, tmp_path):
    model = bert()
    training = trainer(model, tmp_path, data=sentences(model), per_device_eval_batch_size=5)
    callback = integration.CalibrationCallback(training)
    kept = []

    class Watch(transformers.TrainerCallback):
        def on_prediction_step(self, *args, **kwargs):
            kept.append(len(callback._calls))

    training.add_callback(callback)
    training.add_callback(Watch())
    training.evaluate()
    assert kept == [0] * 14
    assert len(callback.sketch.to_bytes()) < 50_000


def test_predictions_have_values_where_there_are_labels(integration, tmp_path):
    model = bert()
    data = sentences(model)
    training = trainer(model, tmp_path)
    training.add_callback(integration.CalibrationCallback(training))
    assert measured(training.predict(data).metrics, "test") == expected(model, data, "test")
    without = training.predict([{"input_ids": row["input_ids"]} for row in data])
    assert not [name for name in without.metrics if "ece" in name]
    assert measured(training.evaluate(data)) == expected(model, data)


def test_an_interrupted_evaluation_and_other_calls_of_the_network_leave_nothing_behind(integration, tmp_path):
    model = bert()
    data = sentences(model)

    class Interruption(transformers.TrainerCallback):
        is_due = True

        def on_prediction_step(self, *args, **kwargs):
            if self.is_due:
                self.is_due = False
                raise KeyboardInterrupt

    training = trainer(model, tmp_path, data=data)
    training.add_callback(integration.CalibrationCallback(training))
    training.add_callback(Interruption())
    with pytest.raises(KeyboardInterrupt):
        training.evaluate()
    model(input_ids=torch.randint(3, 30, (50, 7)), labels=torch.zeros(50, dtype=torch.long))
    assert measured(training.evaluate()) == expected(model, data)


def test_a_new_network_of_each_training_is_followed(integration, tmp_path):
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path), max_steps=1, report_to="none", use_cpu=True, disable_tqdm=True, save_strategy="no"
    )
    data, models = sentences(bert()), []

    def make():
        models.append(bert())
        return models[-1]

    training = transformers.Trainer(model_init=make, args=arguments, train_dataset=data, eval_dataset=data)
    training.add_callback(integration.CalibrationCallback(training))
    training.train()
    found = training.evaluate()
    assert len(models) == 2
    assert found["eval_gap"] == pytest.approx(
        trainer_values.values_of(*logits_and_labels(models[-1].eval(), data))["gap"], rel=1e-4
    )


def test_what_cannot_be_measured_is_a_warning_and_no_value(integration, tmp_path):
    model = bert()
    data = sentences(model)
    training = trainer(model, tmp_path, data=data)
    training.add_callback(integration.CalibrationCallback(training))
    with torch.no_grad():
        model.classifier.bias.fill_(float("nan"))
    with pytest.warns(InputWarning, match="Calibration was not measured in this evaluation.*NaN"):
        metrics = training.evaluate()
    assert not [name for name in metrics if name.endswith(NAMES)]
    with torch.no_grad():
        model.classifier.bias.zero_()
    assert measured(training.evaluate()) == expected(model, data)


def test_logits_of_a_network_that_is_not_trained_may_lie_between_0_and_1_but_probabilities_are_warned_of(integration, tmp_path):
    model = bert()
    with torch.no_grad():
        model.classifier.weight.mul_(0.001)
        model.classifier.bias.copy_(torch.tensor([0.2, 0.3, 0.1]))
    data = sentences(model)
    training = trainer(model, tmp_path, data=data)
    training.add_callback(integration.CalibrationCallback(training))
    logits, labels = logits_and_labels(model, data)
    assert (logits > 0).all()
    assert training.evaluate()["eval_gap"] == pytest.approx(trainer_values.values_of(logits, labels)["gap"], abs=1e-5)
    model.register_forward_hook(lambda module, args, output: {**output, "logits": output.logits.softmax(dim=-1)}, prepend=True)
    with pytest.warns(InputWarning, match="Each row of `logits` sums to 1.*remove the softmax"):
        training.evaluate()


def test_labels_that_the_network_does_not_get_are_warned_of_and_the_metrics_measure_them(integration, tmp_path):
    model = bert()
    data = sentences(model)
    settings = {"data": data, "label_smoothing_factor": 0.1}
    training = trainer(model, tmp_path, **settings)
    training.add_callback(integration.CalibrationCallback(training))
    with pytest.warns(InputWarning, match="`labels` must reach the network.*compute_metrics=ComputeCalibration"):
        training.evaluate()
    other = trainer(model, tmp_path, compute_metrics=integration.ComputeCalibration(), batch_eval_metrics=True, **settings)
    assert measured(other.evaluate()) == expected(model, data)


def test_where_no_temperature_fits_it_is_left_out(integration, tmp_path):
    model = bert()
    data = sentences(model)
    with torch.no_grad():
        data = [{**row, "labels": model(input_ids=row["input_ids"][None]).logits.argmax()} for row in data]
    training = trainer(model, tmp_path, data=data)
    training.add_callback(integration.CalibrationCallback(training))
    metrics = training.evaluate()
    assert "eval_temperature" not in metrics
    assert metrics["eval_gap"] < 0


def test_the_temperature_is_that_of_the_method_and_one_that_needs_rows_is_refused(integration, tmp_path):
    model = bert()
    data = sentences(model)
    training = trainer(model, tmp_path, data=data)
    training.add_callback(integration.CalibrationCallback(training, method="ts"))
    found = nishimori.temperatures(*logits_and_labels(model, data))
    assert training.evaluate()["eval_temperature"] == pytest.approx(found.ts, rel=1e-4)
    with pytest.raises(InputError, match="`method` must be fitted to sums"):
        integration.ComputeCalibration(method="vector")


# A calibrated network as the model of a Trainer.


@pytest.mark.parametrize("make", [bert, llama])
def test_at_temperature_1_the_trainer_says_of_a_calibrated_network_what_it_says_of_the_network(make, tmp_path):
    from nishimori.torch import Calibrated

    model = make()
    data = sentences(model) if make is bert else texts(model)
    plain, calibrated = (trainer(each, tmp_path, data=data) for each in (model, Calibrated(model)))
    assert calibrated.label_names == plain.label_names == ["labels"]
    assert calibrated.evaluate()["eval_loss"] == pytest.approx(plain.evaluate()["eval_loss"], rel=1e-6)
    theirs, ours = plain.predict(data), calibrated.predict(data)
    np.testing.assert_allclose(ours.predictions, theirs.predictions, rtol=1e-6)
    np.testing.assert_array_equal(ours.label_ids, theirs.label_ids)
    assert ours.metrics["test_loss"] == pytest.approx(theirs.metrics["test_loss"], rel=1e-6)


def test_the_trainer_evaluates_a_calibrated_network_as_the_folded_one(integration, tmp_path):
    from nishimori.torch import Calibrated

    model = bert()
    data = sentences(model)
    training = trainer(Calibrated(model, 2.0), tmp_path, data=data)
    training.add_callback(integration.CalibrationCallback(training))
    found, predicted = training.evaluate(), training.predict(data).predictions
    logits, labels = logits_and_labels(model, data)
    assert measured(found) == pytest.approx(trainer_values.logged(logits, labels, "eval", 2.0), rel=1e-4)
    Calibrated(model, 2.0).fold(probe={name: data[0][name][None] for name in data[0] if name != "labels"})
    folded = trainer(model, tmp_path, data=data)
    assert found["eval_loss"] == pytest.approx(folded.evaluate()["eval_loss"], rel=1e-6)
    np.testing.assert_allclose(predicted, folded.predict(data).predictions, rtol=1e-5, atol=1e-6)


def test_a_batch_of_ignored_labels_alone_has_the_loss_of_the_network(tmp_path):
    from nishimori.torch import Calibrated

    model = llama()
    data = [{**row, "labels": torch.full_like(row["labels"], -100)} for row in texts(model)]
    assert np.isnan(trainer(Calibrated(model, 2.0), tmp_path, data=data).evaluate()["eval_loss"])
    assert np.isnan(trainer(model, tmp_path, data=data).evaluate()["eval_loss"])
