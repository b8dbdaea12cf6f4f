"""Labels of tokens that cannot be meant: of padding, shifted twice, and the model's own predictions."""

import numpy as np
import pytest
import torch
from torch import nn

from nishimori.errors import InputError, InputWarning
from nishimori.torch import calibrate, collect

V, N, LENGTH = 7, 40, 12


class Tokens(nn.Module):
    """Logits of the next token by the last one."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Embedding(V, V)
        with torch.no_grad():
            self.table.weight.mul_(3)

    def forward(self, input_ids, attention_mask=None):
        return self.table(input_ids)


MODEL = Tokens()


def written(n=N):
    """Sequences that are drawn from the model at T = 2."""
    torch.manual_seed(1)
    tokens = torch.randint(V, (n, LENGTH))
    for t in range(1, LENGTH):
        tokens[:, t] = torch.distributions.Categorical(logits=MODEL(tokens[:, t - 1]).detach() / 2).sample()
    mask = torch.ones_like(tokens)
    mask[: n // 2, LENGTH - 3 :] = 0
    return tokens, mask


TOKENS, MASK = written()
LABELS = torch.where(MASK == 1, TOKENS, -100)


def test_labels_of_padding_are_an_error_that_says_where_and_what_to_do():
    loader = [{"input_ids": TOKENS[:20], "attention_mask": torch.ones(20, LENGTH), "labels": TOKENS[:20]}]
    loader += [{"input_ids": TOKENS, "attention_mask": MASK, "labels": TOKENS}]
    message = r"not count where `attention_mask` is 0, got 60 positions of padding with labels in batch 1\. .*= -100`\."
    with pytest.raises(InputError, match=message):
        calibrate(MODEL, loader, shift_labels=True)
    with pytest.raises(InputError, match="padding with labels"):
        collect(MODEL, loader, shift_labels=True, forward=lambda model, batch: (model(batch["input_ids"]), batch["labels"]))
    good = [{"input_ids": TOKENS, "attention_mask": MASK, "labels": LABELS}]
    calibrated = calibrate(MODEL, good, shift_labels=True, method="ts")
    assert float(calibrated.temperature) == pytest.approx(2, rel=0.3)


def test_another_label_to_ignore_is_named():
    loader = [{"input_ids": TOKENS, "attention_mask": MASK, "labels": TOKENS}]
    with pytest.raises(InputError, match=r"labels\[attention_mask == 0\] = -1`"):
        calibrate(MODEL, loader, shift_labels=True, ignore_index=-1)


def test_labels_that_are_shifted_already_are_not_shifted_again():
    shifted = torch.cat([LABELS[:, 1:], torch.full((N, 1), -100)], dim=1)
    loader = [{"input_ids": TOKENS, "labels": shifted}]
    with pytest.raises(InputError, match="the tokens of input_ids one position on: they are shifted already"):
        calibrate(MODEL, loader, shift_labels=True)
    with pytest.raises(InputError, match=r"the tokens of batch\[0\] one position on"):
        calibrate(MODEL, [(TOKENS, shifted)], shift_labels=True)
    once = calibrate(MODEL, loader, method="ts")
    same = calibrate(MODEL, [{"input_ids": TOKENS, "labels": LABELS}], shift_labels=True, method="ts")
    assert float(once.temperature) == pytest.approx(float(same.temperature), rel=1e-6)


def test_the_models_own_predictions_are_noticed():
    greedy = MODEL(TOKENS).argmax(dim=-1)
    with pytest.warns(InputWarning, match="480 tokens is the one that the model finds most probable"):
        collect(MODEL, [{"input_ids": TOKENS, "labels": greedy}])
    other = greedy.clone()
    other[0, 0] = (other[0, 0] + 1) % V
    collect(MODEL, [{"input_ids": TOKENS, "labels": other}])  # one of them differs


def test_rows_of_a_classifier_may_all_be_right():
    x = torch.tensor(np.eye(3)[np.arange(300) % 3] * 9, dtype=torch.float32)
    collect(nn.Identity(), (x, torch.arange(300) % 3))
