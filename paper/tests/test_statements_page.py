"""What README and docs say about the paper's statements is what the artefact `statements` finds."""

import re
from pathlib import Path

import pytest

import nishimori
import nishimori_paper as paper
from nishimori import data
from nishimori_paper import _runs
from nishimori_paper.artefacts._statements import _figures, _networks, _noise, _regression, _validation
from nishimori_paper.artefacts._statements._statement import _filled
from statements_page import page, summary

ROOT = Path(__file__).parents[2]
NUMBER = r"-?\d+(?:\.\d+)?"
# Lines of probabilities, means with a sign and a standard error, and limits in brackets.
UNCERTAIN = re.compile(r"^- Chance:.*$|[+-]?\d+(?:\.\d+)?(?: %)? ± \d+(?:\.\d+)?|limit [+-]?\d+\.\d+", re.MULTILINE)


@pytest.fixture(scope="module")
def folder(computed):
    return computed("statements")


def text_of(name):
    """The page in one line."""
    return " ".join((ROOT / name).read_text(encoding="utf-8").split())


def assert_alike(found, written):
    """The same words and counts, and numbers within a quarter: at quick scale there are fewer points, draws and resamples.

    Standard errors and what follows from them (limits, probabilities, small means) vary more, and have other tests.
    """
    found, written = (re.sub(rf"under ({NUMBER})", r"\1", text) for text in (found, written))
    words = [re.sub(rf"[+-]?{NUMBER}(?:e-\d+)?", "#", text).splitlines() for text in (found, written)]
    assert words[0] == words[1]
    found, written = (re.sub(UNCERTAIN, "", text) for text in (found, written))
    for one, other in zip(*(re.findall(rf"({NUMBER})( %)?", text) for text in (found, written)), strict=True):
        is_count = "." not in other[0] and not other[1]
        allowed = 0 if is_count else 0.25 * abs(float(other[0]))
        assert abs(float(one[0]) - float(other[0])) <= allowed, f"{one} where the page says {other}"


@pytest.mark.parametrize(("write", "file"), [(page, "paper/STATEMENTS.md"), (summary, "docs/statements.md")])
def test_the_pages_of_statements_are_the_output_of_the_artefact(folder, write, file):
    statements = [finding.statement for finding in paper.check("statements", folder)]
    assert_alike(write(statements), (ROOT / file).read_text(encoding="utf-8"))


def test_the_page_says_of_what_a_statement_is_true():
    statement = paper.JudgedStatement("n", "4", "q", "c", "o", "contradicted", true_only_of="the paper's data")
    assert "- **contradicted**. True only of the paper's data.\n" in page([statement])


def test_pages_that_differ_in_a_word_or_a_number_are_not_alike():
    assert_alike("2.0 of 53, 53 %", "2.1 of 53, 54 %")
    for written in ("2.0 of 54, 53 %", "2.0 in 53, 53 %", "-2.0 of 53, 53 %", "2.0 of 53, 53 %, 53 %", "2.0 of 53, 90 %"):
        with pytest.raises((AssertionError, ValueError)):
            assert_alike("2.0 of 53, 53 %", written)


# Sentences of the pages, with the numbers of a group in place of the digits.
SENTENCES = {
    ("docs/adaptive.md", _validation): [
        "EC needs {ratio_low:.1f} to {ratio_high:.1f} times as many validation samples as TS on the bundled networks, in the "
        "median {ratio_median:.1f} times",
    ],
    ("docs/paper.md", _networks): [
        "stays at {ece_augmented_low:.1%} to {ece_augmented_high:.1%}, where clean validation images give "
        "{ece_clean_low:.1%} to {ece_clean_high:.1%} with the same two networks",
        "(at most {temperature_apart:.1%} apart; {temperature_apart_paper:.1%} in the paper's Table 1)",
        "lower than after TS on {n_lower} of the {n} networks",
        "the ECE after EC is lower by {lead:.2f} ±",
        "above the margin of −{margin:.2f}",
    ],
    ("docs/paper.md", _noise): [
        "lower than that of TS on all {n_lower} networks, by {reduction:.0%} on average for our eight",
        "higher than without calibration on {n_worse_ts} of {n} networks after TS and on {n_worse_ec} after EC",
        "the mean over its own table ({reduction_paper:.1%} ± {reduction_paper_error:.1%}), and here the reduction is "
        "{reduction:.0%} ±",
    ],
    ("docs/paper.md", _validation): [
        "{ratio_median:.1f} times as many for the same precision of T (median of {n_networks} networks)",
    ],
    ("docs/paper.md", _figures): [
        "({n_close_augmented} of {n_augmented} networks are within 0.1 of it)",
        "within 0.1 of it on {n_close} of {n_minima} networks",
    ],
    ("paper/RESULTS.md", _networks): ["not higher on {n_not_higher_rounded} of the {n}"],
    ("paper/RESULTS.md", _noise): [
        "on {n_worse_ts} of the {n} networks after TS and on {n_worse_ec} after EC",
    ],
    ("paper/RESULTS.md", _validation): [
        "{ratio_median:.1f} times as many as TS in the median of {n_networks} networks",
        "it needs {ratio_median:.1f} times as many, in the median of the {n_networks} bundled networks",
    ],
    ("docs/errata.md", _regression): ["tied, at most {brier_logit_most:.0e} apart"],
}


@pytest.mark.parametrize(("file", "module"), SENTENCES)
def test_numbers_in_readme_and_docs_are_those_of_the_artefact(folder, file, module):
    done = _runs.read(folder / "statements.json")["pieces"]
    numbers = dict(module.numbers(done))
    for sentence in SENTENCES[file, module]:
        shown = _filled(sentence, numbers).replace(" % to ", " to ").replace("e-0", "e-")
        assert shown in text_of(file), shown


def test_no_page_counts_statements():
    for file in ("README.md", "docs/paper.md", "docs/index.md", "docs/statements.md", "paper/STATEMENTS.md"):
        assert not re.search(r"\d+ (?:of \d+ )?(?:statements|statements)|Of \d+ statements", text_of(file)), file


def test_one_number_for_the_samples_that_ec_needs():
    """The ratio of the variances of the two temperatures is rounded in the same way wherever it is named."""
    for file in ("docs/adaptive.md", "docs/paper.md", "paper/RESULTS.md", "paper/STATEMENTS.md"):
        assert re.search(r"\b1\.8 times", text_of(file)), file
        assert not re.search(r"1\.(?:65|7|76) times", text_of(file)), file


def test_no_page_of_the_paper_counts_subjects_that_others_cannot_get():
    pages = [f"docs/{name}.md" for name in ("affine", "statements", "paper", "errata", "why_ec_and_ts_agree")]
    for file in (*pages, "paper/RESULTS.md", "paper/STATEMENTS.md"):
        assert not re.search(r"humanexp|37 subjects|of 37\b|four other CIFAR-10 networks", text_of(file)), file


def test_one_temperature_leaves_the_class_of_the_page_as_far_off_as_it_says():
    """The explanation averages over classes; it does not say that nothing else is wrong."""
    network = data.load("cifar10/resnet20")
    fitted = nishimori.ExpectationConsistency().fit(network.validation.logits, network.validation.labels)
    p = fitted.predict_proba(network.test.logits)
    bird = p.argmax(axis=1) == 2
    gap = 100 * (p.max(axis=1)[bird].mean() - (network.test.labels[bird] == 2).mean())
    text = text_of("docs/why_ec_and_ts_agree.md")
    assert f'by {gap:.0f} points for "bird"' in text
    assert "averaged over classes" in text
    assert "little else is wrong" not in text
    assert "uniformly random labels" in text
    assert "references.md#label-errors" in text


@pytest.mark.parametrize(
    "identifier",
    [
        *("2602.14862", "2502.15131", "2605.21552", "2407.08649", "2402.05806", "2506.23492", "2505.16690", "2103.14749"),
        *("10.2307/1913827", "10.23919/EUSIPCO54536.2021.9616219", "1612.01474", "1902.02476", "2002.10118"),
    ],
)
def test_the_list_of_references_has_each_work_with_its_use(identifier):
    entry = next(each for each in text_blocks("docs/references.md") if identifier in each)
    after = entry.split(f"{identifier})")[1]  # the link's end
    assert len(after.split()) > 5  # what it is for


def text_blocks(name):
    """The paragraphs of a page, each in one line."""
    return [" ".join(each.split()) for each in (ROOT / name).read_text(encoding="utf-8").split("\n\n")]
