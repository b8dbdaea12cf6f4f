"""A causal language model of Hugging Face, trained with its Trainer, calibrated by token, and sampled at its temperature.

The model is a tiny Llama without pretrained weights, and its tokens are bytes, so that nothing is downloaded. Any other causal
model works the same way. Needs ``pip install 'nishimori[torch]' transformers accelerate``.
"""

import sysconfig
from pathlib import Path

import torch
import transformers
from torch.utils.data import DataLoader
from transformers import LlamaConfig, LlamaForCausalLM, PrinterCallback, Trainer, TrainingArguments

from nishimori import evaluate
from nishimori.torch import calibrate, collect

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
transformers.set_seed(0)

LENGTH, PADDING = 64, 0


def line_of_text(line: bytes) -> dict[str, torch.Tensor]:
    """One sequence, with padding. Labels equal the inputs, because the model shifts them itself; padding has the label -100."""
    ids = torch.full((LENGTH,), PADDING)
    ids[: len(line)] = torch.tensor(list(line))
    is_text = torch.arange(LENGTH) < len(line)
    return {"input_ids": ids, "attention_mask": is_text.long(), "labels": torch.where(is_text, ids, -100)}


def sequences(modules: list[Path]) -> list[dict[str, torch.Tensor]]:
    """Some lines of each module of Python, and the number of the module as ``document``."""
    found = []
    for number, module in enumerate(modules):
        lines = [line for line in module.read_bytes().splitlines(keepends=True) if 20 < len(line) <= LENGTH]
        found += [line_of_text(line) | {"document": torch.tensor(number)} for line in lines[20:40]]
    return found


modules = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
order = torch.randperm(len(modules)).tolist()
train, val, test = (sequences([modules[i] for i in part]) for part in (order[:5], order[5:35], order[35:65]))

config = LlamaConfig(
    vocab_size=256,
    hidden_size=64,
    intermediate_size=128,
    num_hidden_layers=2,
    num_attention_heads=2,
    max_position_embeddings=LENGTH,
    pad_token_id=PADDING,
    bos_token_id=PADDING,
    eos_token_id=PADDING,
)
trainer = Trainer(
    model=LlamaForCausalLM(config),
    args=TrainingArguments(
        output_dir="trained",
        max_steps=150,
        per_device_train_batch_size=16,
        per_device_eval_batch_size=len(
            val
        ),  # one batch: Trainer averages the losses of batches, whatever their numbers of tokens
        learning_rate=4e-3,
        logging_strategy="no",
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        dataloader_pin_memory=False,
    ),
    train_dataset=train,
    eval_dataset=val,
)
trainer.remove_callback(PrinterCallback)
trainer.train()

# With "ec" clusters change the standard error and not T, so that both can be compared.
calibrated = calibrate(trainer.model, trainer.get_eval_dataloader(), method="ec", shift_labels=True, ignore_index=-100)
T = calibrated.temperature.item()

# The same with standard errors by document; Trainer's own loader drops fields that the model does not take.
by_document = calibrate(trainer.model, DataLoader(val, batch_size=100), method="ec", shift_labels=True, clusters="document")
print(f"T = {T:.3f} ± {calibrated.calibrator.temperature_se_:.3f} by token", end=", ")
print(f"± {by_document.calibrator.temperature_se_:.3f} by document, from {calibrated.temperatures.n_samples:,} tokens")

logits, labels = collect(trainer.model, trainer.get_eval_dataloader(), shift_labels=True)
nll, loss = evaluate(logits, labels).nll, trainer.evaluate()["eval_loss"]
print(f"NLL of nishimori {nll:.5f}, eval_loss of Trainer {loss:.5f}: the same tokens count")
assert abs(nll - loss) < 1e-4

logits, labels = collect(trainer.model, trainer.get_test_dataloader(test), shift_labels=True)
for name, temperature in (("before", 1.0), ("after", T)):
    card = evaluate(logits, labels, temperature=temperature)
    print(f"{name}: confidence {card.confidence:.3f}, accuracy {card.accuracy:.3f}, NLL {card.nll:.3f}, ECE {card.ece:.2%}")

# `top_k=0`, because by default `generate` samples among the 50 most likely tokens only.
prompt = torch.tensor([list(b"    def ")])
written = trainer.model.generate(
    prompt, attention_mask=torch.ones_like(prompt), do_sample=True, temperature=T, top_k=0, max_new_tokens=30
)
print(bytes(written[0].tolist()))
