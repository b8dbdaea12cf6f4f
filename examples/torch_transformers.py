"""A callback for the Trainer of Hugging Face that calibrates the model when training ends.

The model is a tiny vision transformer without pretrained weights. Any other model that returns ``.logits`` works the same way.
Needs ``pip install 'nishimori[torch]' transformers accelerate``.
"""

import torch
import transformers
from sklearn.datasets import load_digits
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainingArguments, ViTConfig, ViTForImageClassification

from nishimori import evaluate
from nishimori.torch import calibrate, collect

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
transformers.set_seed(0)


class TemperatureCallback(TrainerCallback):
    """Stores the calibrated model as ``calibrated``; ``method`` is that of `nishimori.torch.calibrate`."""

    def __init__(self, method="adaptive"):
        self.method = method
        self.calibrated = None

    def on_train_end(self, *_, model, eval_dataloader, **__):
        self.calibrated = calibrate(model, eval_dataloader, method=self.method)


images, digits = load_digits(return_X_y=True)
order = torch.randperm(len(digits)).tolist()
samples = [
    {"pixel_values": torch.tensor(images[i]).float().reshape(1, 8, 8) / 16, "labels": torch.tensor(digits[i])} for i in order
]
train, val, test = samples[:300], samples[300:1000], samples[1000:]

config = ViTConfig(
    image_size=8,
    patch_size=2,
    num_channels=1,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=64,
    num_labels=10,
)
callback = TemperatureCallback()
trainer = Trainer(
    model=ViTForImageClassification(config),
    args=TrainingArguments(
        output_dir="trained",
        num_train_epochs=60,
        per_device_train_batch_size=50,
        per_device_eval_batch_size=350,
        learning_rate=2e-3,
        eval_strategy="epoch",
        logging_strategy="no",
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        dataloader_pin_memory=False,
    ),
    train_dataset=train,
    eval_dataset=val,
    callbacks=[callback],
)
trainer.remove_callback(PrinterCallback)
trainer.train()

print(callback.calibrated.extra_repr())
for name, each in (("before", trainer.model), ("after", callback.calibrated)):
    print(f"{name}: ECE {evaluate(*collect(each, trainer.get_test_dataloader(test))).ece:.2%}")

# The model itself, with T folded into its last layer, so that `save_pretrained` and pipelines need no change.
folded = callback.calibrated.fold(probe={"pixel_values": test[0]["pixel_values"][None]})
folded.save_pretrained("calibrated")
print(f"folded: ECE {evaluate(*collect(folded, trainer.get_test_dataloader(test))).ece:.2%}")
