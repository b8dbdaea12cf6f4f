"""Networks that return tuples and dictionaries: where the logits are is said once, for everything."""

import collections
import pickle

import pytest
import torch
from torch import nn

from nishimori.errors import InputError
from nishimori.torch import Calibrated, calibrate, collect

torch.manual_seed(0)
X = torch.randn(600, 5)
Both = collections.namedtuple("Both", "features scores")


class Plain(nn.Module):
    """Logits, whose labels are drawn at T = 2."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.head_a, self.head_b = nn.Linear(5, 7), nn.Linear(5, 3)
        with torch.no_grad():
            self.head_b.weight.mul_(6)

    def forward(self, x):
        return self.head_b(x)


class InTuple(Plain):
    def forward(self, x):
        return self.head_a(x), self.head_b(x)


class InDict(Plain):
    def forward(self, x):
        return {"aux": self.head_a(x), "out": self.head_b(x)}


class InNamed(Plain):
    def forward(self, x):
        return Both(self.head_a(x), self.head_b(x))


class Nested(Plain):
    def forward(self, x):
        return [{"aux": self.head_a(x)}, {"out": self.head_b(x)}]


def second(output):
    return output[1]["out"]


Y = torch.distributions.Categorical(logits=Plain()(X).detach() / 2).sample()
KINDS = {
    "tuple": (InTuple, 1),
    "last": (InTuple, -1),
    "dict": (InDict, "out"),
    "named": (InNamed, 1),
    "nested": (Nested, second),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_place_of_the_logits_holds_for_everything(kind):
    network, pick = KINDS[kind]
    plain = calibrate(Plain(), (X, Y), method="ts")
    calibrated = calibrate(network(), (X, Y), method="ts", output=pick)
    assert float(calibrated.temperature) == pytest.approx(float(plain.temperature), rel=1e-6)
    torch.testing.assert_close(calibrated.predict_proba(X), plain.predict_proba(X))
    torch.testing.assert_close(calibrated.predict(X), plain.predict(X))
    found = calibrated(X)
    if callable(pick):
        torch.testing.assert_close(found, plain(X))
    else:
        assert type(found) is type(network()(X))
        torch.testing.assert_close(found[pick], plain(X))
        other = "aux" if kind == "dict" else 0
        torch.testing.assert_close(found[other], network()(X)[other])
    torch.testing.assert_close(collect(network(), (X, Y), output=pick).logits, Plain()(X).detach())
    folded = calibrated.fold("head_b")  # which the kept inputs check
    torch.testing.assert_close(folded.head_b(X), plain(X))


def test_a_wrong_layer_is_noticed_and_calibrating_again_remembers_the_place():
    calibrated = calibrate(InTuple(), (X, Y), method="ts", output=1)
    with pytest.raises(InputError, match="differ from the calibrated logits"):
        calibrated.fold("head_a")
    again = calibrate(calibrated, (X, Y), method="ec")
    assert again.predict_proba(X).shape == (600, 3)
    assert pickle.loads(pickle.dumps(again)).predict_proba(X[:2]).shape == (2, 3)


def test_the_state_dict_is_that_of_a_network_without():
    saved = calibrate(InDict(), (X, Y), method="ts", output="out").state_dict()
    loaded = Calibrated(InDict(), output="out")
    loaded.load_state_dict(saved)
    torch.testing.assert_close(loaded.predict_proba(X), calibrate(Plain(), (X, Y), method="ts").predict_proba(X))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"output": "logit"}, "`output` must pick the logits in what the model returns, got 'logit'"),
        ({"output": 3}, "`output` must pick the logits in what the model returns, got 3"),
        ({"output": 1.5}, "`output` must be a key, an index or a function"),
        ({"output": lambda found: found.nothing.at.all}, "model|output"),
        (
            {"output": 1, "forward": lambda model, batch: (model(batch[0])[1], batch[1])},
            "be left out where `forward` is passed",
        ),
    ],
)
def test_what_picks_no_logits_is_refused(options, message):
    network = InDict() if options["output"] == "logit" else InTuple()
    with pytest.raises(InputError, match=message):
        calibrate(network, (X, Y), **options)
