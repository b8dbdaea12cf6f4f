"""Causal language models of Hugging Face, tiny and random: their batches, labels, last layer and `generate`."""

import numpy as np
import pytest
import reference
import torch
from torch.utils.data import DataLoader

from nishimori.errors import InputError
from nishimori.torch import Calibrated, calibrate, collect, fold_temperature

transformers = pytest.importorskip("transformers")
VOCABULARY, PADDING = 30, 0
LENGTHS = [4, 9, 3, 12, 7, 7, 5, 10] * 2


def llama():
    return transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=16,
            intermediate_size=32,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=2,
            initializer_range=1.0,
            pad_token_id=PADDING,
            bos_token_id=1,
            eos_token_id=2,
        )
    )


def gpt2():
    return transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            vocab_size=VOCABULARY,
            n_positions=32,
            n_embd=16,
            n_layer=1,
            n_head=2,
            initializer_range=0.5,
            loss_type="ForCausalLM",
            pad_token_id=PADDING,
            bos_token_id=1,
            eos_token_id=2,
        )
    )


MODELS = pytest.mark.parametrize("make", [llama, gpt2])


def built(make):
    torch.manual_seed(0)
    return make().train()


def documents(model):
    """Sequences that the model itself writes at T = 2, so that it is overconfident on them."""
    model.eval()
    generator = torch.Generator().manual_seed(0)
    found = []
    for number, length in enumerate(LENGTHS):
        ids = [3]
        while len(ids) < length:
            with torch.no_grad():
                logits = model(input_ids=torch.tensor([ids])).logits[0, -1]
            logits[PADDING] = -torch.inf  # the collator takes every such token for padding
            ids.append(int((logits / 2).softmax(dim=0).multinomial(1, generator=generator)))
        found.append({"input_ids": ids, "document": number})
    model.train()
    return found


def collator():
    tokenizers = pytest.importorskip("tokenizers")
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"<pad>": PADDING, "a": 3}, unk_token="a"))
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>")
    return transformers.DataCollatorForLanguageModeling(tokenizer, mlm=False)


def by_collator(model, samples, tmp_path):
    return DataLoader(samples, batch_size=4, collate_fn=collator())


def by_trainer(model, samples, tmp_path):
    arguments = transformers.TrainingArguments(
        output_dir=tmp_path,
        per_device_eval_batch_size=4,
        report_to=[],
        remove_unused_columns=False,  # keeps the documents
        use_cpu=True,
        dataloader_pin_memory=False,
    )
    return transformers.Trainer(
        model=model, args=arguments, eval_dataset=samples, data_collator=collator()
    ).get_eval_dataloader()


def one_by_one(model, samples):
    """Logits and labels, sequence by sequence and without padding."""
    model.eval()
    rows, truth = [], []
    for sample in samples:
        ids = torch.tensor(sample["input_ids"])
        with torch.no_grad():
            rows.append(model(input_ids=ids[None]).logits[0, :-1])
        truth.append(ids[1:])
    model.train()
    return torch.cat(rows).double().numpy(), torch.cat(truth).numpy()


@pytest.mark.parametrize(("make", "loader"), [(llama, by_collator), (gpt2, by_collator), (llama, by_trainer)])
def test_loaders_of_hugging_face_give_the_temperature_of_single_sequences(make, loader, tmp_path):
    model = built(make)
    samples = documents(model)
    rows, truth = one_by_one(model, samples)
    found = calibrate(model, loader(model, samples, tmp_path), method="ts", clusters="document", shift_labels=True)
    assert found.temperatures.n_samples == len(truth) == sum(LENGTHS) - len(LENGTHS)
    assert found.temperature.item() == pytest.approx(reference.ts_temperature(rows, truth), rel=1e-4)
    assert model.training


@MODELS
def test_shifted_labels_are_those_of_the_loss_of_the_model(make):
    model = built(make)
    for batch in by_collator(model, [{"input_ids": each["input_ids"]} for each in documents(model)], None):
        logits, labels = collect(model, [batch], shift_labels=True)
        with torch.no_grad():
            loss = model.eval()(**batch).loss
        assert torch.nn.functional.cross_entropy(logits, labels).item() == pytest.approx(loss.item(), rel=1e-5)


def test_a_calibrated_model_returns_probabilities_of_each_token():
    model = built(llama).eval()
    ids = torch.randint(3, VOCABULARY, (2, 5))
    calibrated = Calibrated(model, 1.7)
    with torch.no_grad():
        logits = model(ids).logits.double().numpy()
    expected = reference.softmax(logits.reshape(-1, VOCABULARY), 1.7).reshape(logits.shape)
    np.testing.assert_allclose(calibrated.predict_proba(ids), expected, atol=1e-5)
    np.testing.assert_array_equal(calibrated.predict(ids), logits.argmax(axis=-1))


def test_the_temperature_is_folded_into_the_last_layer():
    model = built(llama).eval()
    ids = torch.randint(3, VOCABULARY, (2, 5))
    with torch.no_grad():
        expected = model(ids).logits / 1.7
        folded = Calibrated(model, 1.7).fold(probe={"input_ids": ids})
        torch.testing.assert_close(folded(ids).logits, expected)


def test_a_last_layer_that_shares_its_weights_is_refused():
    with pytest.raises(InputError, match="must not share the weight of its last layer, got one tensor for `transformer"):
        fold_temperature(built(gpt2), 1.7)


def test_the_lines_of_the_message_untie_the_last_layer():
    model = built(gpt2).eval()
    with pytest.raises(InputError) as refused:
        fold_temperature(model, 1.7)
    lines = str(refused.value).partition("its own copy: `")[2].partition("`")[0]
    assert lines.endswith("model.config.tie_word_embeddings = False")
    ids = torch.tensor([[3, 7, 5]])
    expected = model(ids).logits.detach() / 1.7
    exec(lines, {"model": model, "torch": torch})
    fold_temperature(model, 1.7, probe={"input_ids": ids})
    torch.testing.assert_close(model(ids).logits, expected)


def generated(network, **options):
    ids = torch.tensor([[3, 7, 5], [8, 9, 4]])
    return network.generate(
        input_ids=ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=1,
        do_sample=True,
        top_k=0,
        output_scores=True,
        return_dict_in_generate=True,
        **options,
    ).scores[0]


def test_generate_divides_by_the_same_temperature():
    model = built(llama).eval()
    calibrated = Calibrated(model, 1.7)
    with torch.no_grad():
        expected = calibrated(torch.tensor([[3, 7, 5], [8, 9, 4]])).logits[:, -1]
    torch.testing.assert_close(generated(calibrated.model, temperature=float(calibrated.temperature)), expected)
    with pytest.raises(AttributeError, match=r"`generate` is a method of the wrapped network"):
        generated(calibrated, temperature=1.7)
    torch.testing.assert_close(generated(calibrated.model, temperature=1.0), 1.7 * expected)
