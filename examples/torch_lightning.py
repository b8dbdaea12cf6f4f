"""A Lightning callback that calibrates the module when training ends.

Needs ``pip install 'nishimori[torch]' lightning``.
"""

import logging
import warnings

import lightning
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from nishimori import evaluate
from nishimori.torch import calibrate, collect

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
warnings.filterwarnings("ignore", module="lightning")  # advice on workers and logging, which this example does not need


class TemperatureCallback(lightning.Callback):
    """Stores the calibrated module as ``calibrated``; ``method`` is that of `nishimori.torch.calibrate`."""

    def __init__(self, method="adaptive"):
        self.method = method
        self.calibrated = None

    def on_fit_end(self, trainer, pl_module):
        self.calibrated = calibrate(pl_module, trainer.val_dataloaders, method=self.method)


class Digits(lightning.LightningModule):
    """A classifier of digits with two hidden layers."""

    def __init__(self):
        super().__init__()
        self.network = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))

    def forward(self, x):
        return self.network(x)

    def training_step(self, batch, _):
        x, y = batch
        return nn.functional.cross_entropy(self(x), y)

    def validation_step(self, batch, _):
        x, y = batch
        self.log("loss", nn.functional.cross_entropy(self(x), y))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


lightning.seed_everything(0, verbose=False)
images, digits = (torch.as_tensor(a) for a in load_digits(return_X_y=True))
order = torch.randperm(len(digits))
x, y = images[order].float(), digits[order]
train, val, test = (
    DataLoader(TensorDataset(x[rows], y[rows]), batch_size=50) for rows in (slice(0, 200), slice(200, 1000), slice(1000, None))
)

callback = TemperatureCallback()
trainer = lightning.Trainer(
    max_epochs=200,
    callbacks=[callback],
    check_val_every_n_epoch=100,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
module = Digits()
trainer.fit(module, train, val)

print(callback.calibrated.extra_repr())
for name, each in (("before", module), ("after", callback.calibrated)):
    print(f"{name}: ECE {evaluate(*collect(each, test)).ece:.2%}")
