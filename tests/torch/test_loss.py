"""The loss beside calibrated logits is that of these logits, or None."""

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from nishimori.torch import Calibrated

transformers = pytest.importorskip("transformers")
SMALL = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}


def llama():
    config = transformers.LlamaConfig(vocab_size=30, num_key_value_heads=2, initializer_range=1.0, pad_token_id=0, **SMALL)
    return transformers.LlamaForCausalLM(config).eval()


def bert():
    config = transformers.BertConfig(vocab_size=30, num_labels=4, initializer_range=0.5, **SMALL)
    return transformers.BertForTokenClassification(config).eval()


@pytest.fixture(autouse=True)
def _same_weights():
    torch.manual_seed(0)


def test_the_loss_of_a_language_model_is_that_of_its_calibrated_logits():
    model, ids = llama(), torch.randint(3, 30, (4, 9))
    labels = ids.masked_fill(torch.arange(9) < 2, -100)
    output = Calibrated(model, 2.5)(input_ids=ids, labels=labels)
    expected = cross_entropy(output.logits[:, :-1].reshape(-1, 30), labels[:, 1:].reshape(-1))
    torch.testing.assert_close(output.loss, expected)
    assert float((output.loss - model(input_ids=ids, labels=labels).loss).detach().abs()) > 0.1
    folded = Calibrated(llama(), 2.5).fold(probe=ids)
    assert type(output) is type(folded(input_ids=ids, labels=labels))


def test_at_no_temperature_the_loss_is_the_networks_own():
    model, ids = llama(), torch.randint(3, 30, (4, 9))
    torch.testing.assert_close(Calibrated(model)(input_ids=ids, labels=ids).loss, model(input_ids=ids, labels=ids).loss)


def test_without_labels_there_is_none():
    assert Calibrated(llama(), 2.0)(input_ids=torch.randint(3, 30, (2, 5))).loss is None


def heads():
    """Networks that compute their losses in other ways, with the arguments of a call."""
    ids = torch.randint(3, 30, (4, 9))
    t5 = {"vocab_size": 30, "d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2, "decoder_start_token_id": 0}
    choices = transformers.BertConfig(vocab_size=30, initializer_range=0.5, **SMALL)
    yield bert(), {"input_ids": ids, "labels": torch.randint(4, (4, 9))}
    # Neither has a loss function of its own: what they inherit shifts labels.
    yield transformers.T5ForConditionalGeneration(transformers.T5Config(**t5)).eval(), {"input_ids": ids, "labels": ids}
    two = ids[:, None].repeat(1, 2, 1)
    two[:, 1] += 1
    yield transformers.BertForMultipleChoice(choices).eval(), {"input_ids": two % 30, "labels": torch.randint(2, (4,))}


@pytest.mark.parametrize("number", range(3))
def test_the_loss_is_the_cross_entropy_where_that_is_the_loss_of_the_network(number):
    model, arguments = list(heads())[number]
    output, labels = Calibrated(model, 3.0)(**arguments), arguments["labels"]
    plain = model(**arguments)
    expected = cross_entropy((plain.logits / 3).flatten(0, -2), labels.flatten())
    torch.testing.assert_close(output.loss, expected)
    assert abs(float((expected - plain.loss).detach())) > 0.01


def test_a_loss_in_half_precision_is_that_of_the_network_up_to_rounding():
    model, ids = llama(), torch.randint(3, 30, (4, 9))
    expected = Calibrated(model, 2.5)(input_ids=ids, labels=ids).loss.detach()
    found = Calibrated(model.to(torch.bfloat16), 2.5)(input_ids=ids, labels=ids).loss.detach()
    assert float(found) == pytest.approx(float(expected), rel=0.02)


def test_without_a_label_that_counts_the_loss_is_that_of_the_network():
    model, ids = llama(), torch.randint(3, 30, (4, 9))
    assert Calibrated(model, 2.5)(input_ids=ids, labels=torch.full_like(ids, -100)).loss.isnan()


class WithLoss(nn.Module):
    """Its loss has a penalty, which its loss function does not know."""

    def __init__(self, penalty):
        super().__init__()
        self.fc = nn.Linear(4, 3)
        self.penalty = penalty

    def loss_function(self, logits, labels):
        return cross_entropy(logits, labels)

    def forward(self, x, labels=None):
        logits = self.fc(x)
        return {"logits": logits, "loss": self.loss_function(logits, labels) + self.penalty}


@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_a_loss_that_its_function_does_not_give_is_left_out(penalty):
    x, y = torch.randn(20, 4), torch.arange(20) % 3
    output = Calibrated(WithLoss(penalty), 2.0)(x, labels=y)
    if penalty:
        assert output["loss"] is None
    else:
        torch.testing.assert_close(output["loss"], cross_entropy(output["logits"], y))


def test_a_loss_has_a_gradient():
    model = WithLoss(0.0)
    Calibrated(model, 2.0)(torch.randn(20, 4), labels=torch.arange(20) % 3)["loss"].backward()
    assert model.fc.weight.grad.abs().sum() > 0


def test_the_trainer_evaluates_a_calibrated_network(tmp_path):
    model, ids = llama(), torch.randint(3, 30, (8, 9))
    data = [{"input_ids": row, "labels": row} for row in ids]
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path), per_device_eval_batch_size=8, report_to=[], use_cpu=True
    )
    calibrated = Calibrated(model, 2.5)
    found = transformers.Trainer(model=calibrated, args=arguments).evaluate(data)
    expected = calibrated(input_ids=ids, labels=ids).loss
    assert found["eval_loss"] == pytest.approx(float(expected.detach()), rel=1e-5)
