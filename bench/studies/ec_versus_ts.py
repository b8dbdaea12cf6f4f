"""Expectation consistency against temperature scaling on the bundled networks: fitted to validation, scored on test images.

    python bench/studies/ec_versus_ts.py    # one line per network, then how often each method is better

The difference of the two ECEs gets two standard errors, both from a paired bootstrap. The first resamples the test images and
keeps T: it compares these two temperatures. The second resamples validation and test images and fits T again: it compares the
two methods. Neither covers another training of the network.
"""

import argparse

import numpy as np

from nishimori import data, metrics, temperatures
from nishimori.data import Labelled, Network

REPEATS = 500


def ece(part: Labelled, temperature: float, counts: np.ndarray | None = None) -> float:
    """ECE with 15 quantile bins; ``counts`` says how often each image was drawn."""
    return metrics.ece(part.logits, part.labels, strategy="quantile", temperature=temperature, sample_weight=counts)


def both(part: Labelled, counts: np.ndarray | None = None) -> tuple[float, float]:
    """The temperatures of EC and TS."""
    found = temperatures(part.logits, part.labels, sample_weight=counts)
    assert found.ec is not None
    assert found.ts is not None
    return found.ec, found.ts


def spread(network: Network, ec: float, ts: float, seed: int) -> tuple[float, float]:
    """Standard errors of ECE after TS minus ECE after EC: with T kept, and with T fitted again."""
    rng = np.random.default_rng(seed)
    kept, again = [], []
    for _ in range(REPEATS):
        val, test = (
            np.bincount(rng.integers(n, size=n), minlength=n)
            for n in (len(network.validation.labels), len(network.test.labels))
        )
        kept.append(ece(network.test, ts, test) - ece(network.test, ec, test))
        new_ec, new_ts = both(network.validation, val)
        again.append(ece(network.test, new_ts, test) - ece(network.test, new_ec, test))
    return float(np.std(kept, ddof=1)), float(np.std(again, ddof=1))


def main() -> None:
    """Print one line per network: before, EC, TS."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    print("T of EC and TS; ECE (15 quantile bins), Brier score and NLL on test images, each before, after EC, after TS")
    table = []
    for seed, name in enumerate(data.names()):
        network = data.load(name)
        scales = (1.0, *both(network.validation))
        before, ec, ts = (ece(network.test, scale) for scale in scales)
        kept, again = spread(network, *scales[1:], seed)
        table.append((before, ec, ts, kept, again))
        others = (
            metric(network.test.logits, network.test.labels, temperature=scale)
            for metric in (metrics.brier, metrics.nll)
            for scale in scales
        )
        print(
            f"{name:30} T {scales[1]:.3f} {scales[2]:.3f}  ECE % {100 * before:5.2f} {100 * ec:5.2f} {100 * ts:5.2f}",
            f"(TS - EC {100 * (ts - ec):+.3f} ± {100 * kept:.3f}, with T fitted again ± {100 * again:.3f})  Brier, NLL",
            *(f"{x:.4f}" for x in others),
            flush=True,
        )
    show(np.array(table))


def show(table: np.ndarray) -> None:
    """Print how often each method is better, and by how much."""
    before, ec, ts, kept, again = table.T
    gain = ts - ec
    print(f"\n{len(table)} networks; lower ECE: EC {np.sum(gain > 0)}, TS {np.sum(gain < 0)}")
    for label, error in (("T kept", kept), ("T fitted again", again)):
        print(f"by more than two standard errors ({label}): EC {np.sum(gain > 2 * error)}, TS {np.sum(-gain > 2 * error)}")
    print(f"mean ECE %: before {100 * before.mean():.2f}, after EC {100 * ec.mean():.2f}, after TS {100 * ts.mean():.2f}")
    for label, after in (("EC", ec), ("TS", ts)):
        ratio = after / before
        print(f"ECE after {label} / before: from {ratio.min():.2f} to {ratio.max():.2f}, median {np.median(ratio):.2f}")
    print(f"ECE after TS - after EC, in points of percent: from {100 * gain.min():+.3f} to {100 * gain.max():+.3f}")


if __name__ == "__main__":
    main()
