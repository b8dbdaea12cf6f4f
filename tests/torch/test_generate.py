"""`generate` with the processor samples from the calibrated probabilities, all of them, and without it it does not."""

import copy

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

import nishimori
from nishimori.errors import InputError
from nishimori.maps import Affine, GroupTemperatures
from nishimori.torch import Calibrated, logits_processor

transformers = pytest.importorskip("transformers")
VOCABULARY, N = 120, 20_000


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        initializer_range=1.0,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    return transformers.LlamaForCausalLM(config).eval()


def sampled(model, **options):
    """How often each token comes after one prompt."""
    ids = torch.tensor([[3, 7, 5]]).repeat(N, 1)
    torch.manual_seed(1)
    tokens = model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=1, do_sample=True, **options)
    return np.bincount(tokens[:, -1].numpy(), minlength=VOCABULARY)


def p_value(counts, p):
    """That of a χ² test, rare tokens together."""
    order = np.argsort(p)
    rare = order[np.cumsum(p[order]) * N < 20]
    kept = np.setdiff1d(np.arange(len(p)), rare)
    seen, expected = np.append(counts[kept], counts[rare].sum()), np.append(p[kept], p[rare].sum()) * N
    return chisquare(seen[expected > 0], expected[expected > 0]).pvalue


def probabilities(model, map_):
    with torch.no_grad():
        logits = model(torch.tensor([[3, 7, 5]])).logits[0, -1]
    return torch.softmax(Calibrated(torch.nn.Identity(), map_).mapped(logits[None])[0].double(), dim=-1).numpy()


@pytest.mark.parametrize("kind", ["temperature", "affine"])
def test_tokens_are_drawn_from_the_calibrated_probabilities(model, kind):
    map_ = 3.0 if kind == "temperature" else Affine(0.4, np.linspace(-1, 1, VOCABULARY))
    calibrated = Calibrated(model, map_)
    p = probabilities(model, map_)
    counts = sampled(calibrated.model, top_k=0, logits_processor=[calibrated.logits_processor()])
    assert p_value(counts, p) > 0.01
    assert p_value(sampled(model, top_k=0), p) < 1e-6
    with_top_50 = sampled(model, logits_processor=[calibrated.logits_processor()])
    assert (with_top_50 > 0).sum() <= 50 < (counts > 0).sum()


def test_generate_keeps_50_tokens_and_the_models_own_filters_unless_they_are_switched_off(model):
    """What the page about servers says of `generate`."""
    ids = torch.tensor([[3, 7, 5]])
    with torch.no_grad():
        logits = model(ids).logits[0, -1]
    own = copy.deepcopy(model.generation_config)
    own.top_p, own.do_sample = 0.5, True
    returned = {"output_scores": True, "output_logits": True, "return_dict_in_generate": True, "max_new_tokens": 1}

    def scores(**options):
        answer = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=True, **returned, **options)
        torch.testing.assert_close(answer.logits[0][0], logits)  # raw, whatever is set
        return answer.scores[0][0]

    at_two = scores(temperature=2.0)
    assert at_two.isfinite().sum() == 50
    kept = at_two.isfinite()
    torch.testing.assert_close(at_two[kept], logits[kept] / 2)
    torch.testing.assert_close(scores(temperature=2.0, top_k=0), logits / 2)
    assert scores(temperature=2.0, top_k=0, generation_config=own).isfinite().sum() < VOCABULARY
    torch.testing.assert_close(scores(temperature=2.0, top_k=0, top_p=1.0, generation_config=own), logits / 2)


def test_a_saved_calibration_is_enough(tmp_path):
    rng = np.random.default_rng(0)
    logits = 3 * rng.normal(size=(500, 4))
    labels = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)
    nishimori.calibrator("ts").fit(logits, labels).save(tmp_path / "c.json")
    fitted = nishimori.load(tmp_path / "c.json")
    scores = torch.tensor([[4.0, 2.0, 0.0, -torch.inf]], dtype=torch.float16)
    found = logits_processor(fitted)(torch.tensor([[1]]), scores)
    assert found.dtype == torch.float16
    torch.testing.assert_close(found, (scores.float() / fitted.temperature_).half())


def test_groups_are_refused_and_generate_says_what_to_do(model):
    with pytest.raises(InputError, match="not have a temperature per group"):
        logits_processor(GroupTemperatures(("a", "b"), [1.0, 2.0], 1.5))
    with pytest.raises(AttributeError, match=r"top_k=0, logits_processor=\[calibrated\.logits_processor\(\)\]"):
        Calibrated(model, 2.0).generate(torch.tensor([[3]]))
