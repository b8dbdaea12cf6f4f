"""Labels of tokens that cannot be meant: of padding, shifted twice, and the model's own predictions."""

import numpy as np
import pytest
import torch
from torch import nn

import nishimori
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


def left_padded(n=N, pad=3):
    """The same sequences, the first half of them with padding on the left: its labels are already -100."""
    tokens, mask = TOKENS.clone(), torch.ones_like(TOKENS)
    mask[: n // 2, :pad] = 0
    tokens[: n // 2, pad:], tokens[: n // 2, :pad] = TOKENS[: n // 2, :-pad], 0
    return {"input_ids": tokens, "attention_mask": mask, "labels": torch.where(mask == 1, tokens, -100)}


def pairs_of_tokens(batch):
    """Logits and labels by a loop over neighbours of which both are text."""
    ids, mask = batch["input_ids"].tolist(), batch["attention_mask"].tolist()
    table = MODEL.table.weight.detach().numpy()
    found = [
        (table[row[i]], row[i + 1])
        for row, is_text in zip(ids, mask, strict=True)
        for i in range(LENGTH - 1)
        if is_text[i] and is_text[i + 1]
    ]
    return np.array([logits for logits, _ in found]), np.array([label for _, label in found])


def test_tokens_that_padding_on_the_left_predicts_are_an_error_with_the_line_that_leaves_them_out():
    batch = left_padded()
    message = r"at the position before, which predicts them, got 20 tokens after padding with labels in batch 0\."
    with pytest.raises(InputError, match=message) as error:
        calibrate(MODEL, [batch], shift_labels=True)
    line = str(error.value).split("`")[-2]
    labels, attention_mask = batch["labels"], batch["attention_mask"]
    exec(line, {"labels": labels, "attention_mask": attention_mask})  # what the error says works
    logits, truth = pairs_of_tokens(batch)
    found = collect(MODEL, [batch], shift_labels=True)
    np.testing.assert_array_equal(found.logits, logits)
    np.testing.assert_array_equal(found.labels, truth)
    assert len(truth) == 20 * 11 + 20 * 8


def test_padding_on_the_right_needs_no_more():
    batch = {"input_ids": TOKENS, "attention_mask": MASK, "labels": LABELS}
    logits, truth = pairs_of_tokens(batch)
    found = collect(MODEL, [batch], shift_labels=True)
    np.testing.assert_array_equal(found.logits, logits)
    np.testing.assert_array_equal(found.labels, truth)


def test_labels_that_are_not_shifted_may_follow_padding():
    batch = left_padded()
    batch["labels"] = torch.where(batch["attention_mask"] == 1, (batch["input_ids"] + 1) % V, -100)
    found = collect(MODEL, [batch])
    assert len(found.labels) == 20 * 12 + 20 * 9
    batch["labels"][0, 0] = 1
    with pytest.raises(InputError, match="got 1 positions of padding with labels"):
        collect(MODEL, [batch])


DOCUMENTS = torch.arange(N) // 4


def with_documents():
    batch = {"input_ids": TOKENS, "attention_mask": MASK, "labels": LABELS, "document": DOCUMENTS}
    return collect(MODEL, [batch], shift_labels=True, clusters="document")


def test_what_was_collected_takes_the_place_of_logits_and_labels_with_its_documents():
    logits, labels = pairs_of_tokens({"input_ids": TOKENS, "attention_mask": MASK})
    documents = np.repeat(DOCUMENTS.numpy(), MASK[:, 1:].sum(dim=1).numpy())
    right = (logits.argmax(axis=1) == labels).astype(float)
    card = nishimori.evaluate(with_documents())
    assert card.accuracy == pytest.approx(right.mean())
    sums = np.bincount(documents, right - right.mean())
    assert card.accuracy_se == pytest.approx(np.sqrt((sums**2).sum()) / len(right), rel=1e-6)
    fitted = nishimori.ExpectationConsistency().fit(with_documents())
    again = nishimori.ExpectationConsistency().fit(logits, labels, clusters=documents)
    assert fitted.temperature_se_ == pytest.approx(again.temperature_se_, rel=1e-5)
    independent = nishimori.evaluate(with_documents(), clusters=False)
    assert independent.accuracy_se == pytest.approx(nishimori.evaluate(logits, labels).accuracy_se, rel=1e-6)


def test_what_was_collected_brings_its_groups_and_weights():
    weight = torch.arange(1.0, N + 1)[:, None].expand(N, LENGTH)
    batch = {"input_ids": TOKENS, "labels": TOKENS, "w": weight}
    found = collect(MODEL, [batch], shift_labels=True, sample_weight="w", groups_by_position=True)
    by_hand = nishimori.rows(found.logits, found.labels, sample_weight=weight[:, 1:].reshape(-1), groups=np.tile(range(11), N))
    rows = nishimori.rows(found)
    np.testing.assert_array_equal(rows.weights, by_hand.weights)
    np.testing.assert_array_equal(rows.groups.codes, by_hand.groups.codes)


@pytest.mark.parametrize("part", ["labels", "clusters"])
def test_what_was_collected_is_not_passed_a_second_time(part):
    found = with_documents()
    with pytest.raises(InputError, match=f"`{part}` must be left out where `logits` is a Collected, which has its own"):
        nishimori.evaluate(found, **{part: getattr(found, part)})
