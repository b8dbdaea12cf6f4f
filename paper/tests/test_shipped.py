"""Models that people ship: the files, what is measured of them, and the page."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.special import log_softmax, softmax

import nishimori
import nishimori_paper as paper
from nishimori.errors import InputError
from nishimori_paper import shipped
from nishimori_paper.artefacts import _shipped_measures as measures

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def model():
    return shipped.load("py3langid")


@pytest.fixture
def script(monkeypatch):
    """A function that imports a script of paper/shipped."""
    monkeypatch.syspath_prepend(str(ROOT / "paper" / "shipped"))
    return importlib.import_module


def generated(n=600, k=5, seed=0):
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n, k)) * 3
    labels = (softmax(logits / 2, axis=1).cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    documents = rng.integers(40, size=n)
    fields = {"doubtful": rng.random(n) < 0.1, "lengths": rng.integers(5, 100, size=n), "split": documents % 4}
    about = {"package": "p", "version": "1", "title": "t"}
    classes = np.array(list("abcdefghijklmnopqrstuvwxyz"[:k]))
    return shipped.ShippedModel("generated", "t", logits, labels, documents, classes, provenance=about, **fields)


# Files.


@pytest.mark.parametrize("name", shipped.names())
def test_no_document_is_in_two_parts_and_nothing_is_text(name):
    found = shipped.load(name)
    for document in np.unique(found.documents):
        assert len(np.unique(found.split[found.documents == document])) == 1
    assert set(np.unique(found.split)) == {0, 1, 2, 3}
    assert (found.logits.max(axis=1) == 0).all()
    assert found.logits.shape == (len(found.labels), len(found.classes))
    assert {"package", "version", "licence", "data", "rows"} <= set(found.provenance)
    sizes = [len(found.part(half, use).labels) for half in ("development", "final") for use in ("fit", "test")]
    assert sum(sizes) == len(found.labels)


def test_the_terms_of_every_model_are_beside_its_logits():
    terms = (Path(shipped.__file__).parent / "LICENSES.md").read_text(encoding="utf-8").splitlines()
    for name in shipped.names():
        about = shipped.load(name).provenance
        (line,) = (each for each in terms if f"`{name}`" in each.partition(" | ")[0] and each.startswith("|"))
        assert f"{about['package'].removesuffix(' (PyPI)').removesuffix(' (npm)')} {about['version']}" in line
        licence = (
            about["licence"]
            .replace("CC BY-SA", "Creative Commons Attribution-ShareAlike")
            .replace("MIT; the model:", "code MIT; the model")
        )
        assert line.endswith(f"| {licence} |")


def test_unknown_names_and_parts_are_refused(model):
    with pytest.raises(InputError, match="py3langid"):
        shipped.load("lid.176")
    with pytest.raises(InputError, match="development or final"):
        model.part("validation")
    with pytest.raises(InputError, match="include all labels"):
        model.only(np.arange(3))


def test_only_some_classes_keep_labels_and_logits(model):
    present = np.unique(model.labels)
    less = model.only(present)
    assert (less.classes[less.labels] == model.classes[model.labels]).all()
    rows = np.arange(len(less.labels))
    np.testing.assert_array_equal(less.logits[rows, less.labels], model.logits[rows, model.labels])


def test_a_written_file_is_read_back(script, tmp_path, monkeypatch):
    write = script("logits_file").write
    rng = np.random.default_rng(1)
    logits, names = 9 * rng.normal(size=(8, 3)), [f"document {i // 2}" for i in range(8)]
    about = dict.fromkeys(("title", "package", "version", "licence", "data", "rows"), "x")
    args = (logits, [0, 1, 2, 0, 1, 2, 0, 1], names, ["a", "b", "c"])
    write(tmp_path / "one.npz", *args, None, about, lengths=np.arange(8))
    monkeypatch.setattr(shipped, "files", lambda _: tmp_path)
    found = shipped.load("one")
    np.testing.assert_allclose(found.logits, logits - logits.max(axis=1, keepdims=True), atol=0.26)
    near = logits - logits.max(axis=1, keepdims=True) > -8
    np.testing.assert_allclose(found.logits[near], (logits - logits.max(axis=1, keepdims=True))[near], atol=1 / 63)
    assert len(np.unique(found.documents)) == 4
    assert found.doubtful is None
    with pytest.raises(AssertionError, match="one part only"):
        write(tmp_path / "two.npz", *args, [0, 1] * 4, about)
    with pytest.raises(AssertionError, match="licence"):
        write(tmp_path / "two.npz", *args, None, {each: "x" for each in about if each != "licence"})


# Rows of text.


def test_locales_name_languages(script):
    texts = script("texts")
    expected = {"de": "de", "pt_BR": "pt", "zh_TW": "zh", "nb": "no", "nb_NO": "no", "nn": "nn", "fil": "tl"}
    assert {each: texts.language_of(each) for each in expected} == expected
    for each in ("sr@latin", "en_GB", "en@shaw", "C", "pa_PK"):
        assert texts.language_of(each) is None


def test_what_programs_insert_is_taken_out(script):
    texts = script("texts")
    assert texts.cleaned(
        "Datei <b>%s</b> in {0} nicht _gefunden: %(name)s, 12 &amp; $HOME/.x/y"
    ) == "Datei in nicht gefunden: ,".replace(" ,", "")
    assert texts.cut("eins zwei", "de") is None
    assert texts.cut("eins zwei drei", "de") == "eins zwei drei"
    assert texts.cut(" ".join("abcdefghijklmnopqrstuvwxyz"), "de") == " ".join("abcdefghijklmnopqrst")
    assert texts.cut("文件不存在", "zh") is None
    assert texts.cut("文" * 70, "zh") == "文" * 60


def test_what_is_not_in_the_language_is_left_out(script):
    texts = script("texts")
    assert texts.in_script("Файл не найден", "ru")
    assert not texts.in_script("File not found", "ru")
    assert not texts.in_script("Файл не найден", "de")
    assert texts.translated("Datei nicht gefunden", "File not found")
    assert not texts.translated("File nicht found", "File not found")
    assert texts.legible("Schlüssel")
    assert not texts.legible("SchlÃ¼ssel")


def test_a_sample_has_each_text_once_and_few_of_a_document(script, monkeypatch):
    texts = script("texts")
    rows = [("de", f"doc {i % 10}", f"Text Nummer {i % 150}") for i in range(400)] + [
        ("xx", "doc", f"a b {i}") for i in range(99)
    ]
    found = texts.sample(rows, 84)
    assert {each[0] for each in found} == {"de"}  # the other has one document
    assert len(found) == 84
    assert len({each[2] for each in found}) == 84
    assert max(np.unique([each[1] for each in found], return_counts=True)[1]) <= texts.PER_DOCUMENT
    assert found == texts.sample(rows[::-1], 84)


# What is measured.


def test_scores_are_those_of_a_computation_by_hand():
    data = generated()
    log_p = log_softmax(data.logits / 1.5, axis=1)
    found = measures.scores_of(log_p, data)
    confidence, right = np.exp(log_p.max(axis=1)), data.logits.argmax(axis=1) == data.labels
    assert found["nll"] == pytest.approx(-log_p[np.arange(600), data.labels].mean())
    bins = np.array_split(np.argsort(confidence, kind="stable"), 15)
    by_hand = sum(abs((confidence - right)[part].sum()) for part in bins) / 600
    assert found["ece"] == pytest.approx(by_hand, abs=1e-12)
    gaps = measures.confidence_gaps(log_p, data.labels)
    assert measures.ece_of_weights(gaps, None)[0] == pytest.approx(by_hand, abs=1e-12)
    sums = np.array([(confidence - right)[data.documents == each].sum() for each in np.unique(data.documents)])
    centred = sums - np.bincount(data.documents) / 600 * sums.sum()
    assert found["gap_se"] == pytest.approx(np.sqrt((centred**2).sum()) / 600, rel=0.05)


def test_resampled_documents_are_repeated_rows():
    data = generated(n=200)
    gaps = measures.confidence_gaps(log_softmax(data.logits, axis=1), data.labels)
    draws = measures.ece_of_weights(gaps, data.documents)
    names = np.unique(data.documents)
    counts = np.random.default_rng(0).multinomial(len(names), np.full(len(names), 1 / len(names)), size=500)[3]
    bins = np.empty(200, dtype=int)
    for i, part in enumerate(np.array_split(np.argsort(gaps[0], kind="stable"), 15)):
        bins[part] = i
    rows = np.concatenate(
        [np.repeat(np.flatnonzero(data.documents == name), times) for name, times in zip(names, counts, strict=True)]
    )
    by_hand = sum(abs(gaps[1][rows][bins[rows] == i].sum()) for i in range(15)) / len(rows)
    assert draws[3] == pytest.approx(by_hand)


@pytest.mark.parametrize(("k", "has_error"), [(5, False), (25, True)])
def test_scores_of_few_classes_have_no_error_by_class_and_differences_have_one_of_any_number(k, has_error):
    data = generated(n=500, k=k)
    one, other = (measures.confidence_gaps(log_softmax(data.logits / T, axis=1), data.labels) for T in (1, 2))
    found = measures.ece_difference(one, other, data)
    assert found["se"] > 0
    assert found["se_class"] > 0
    assert found["se_class"] != found["se"]
    assert (measures.scores_of(log_softmax(data.logits, axis=1), data)["ece_se_class"] is not None) is has_error


@pytest.mark.parametrize("method", ["bias", measures.BIAS_BY_TS])
def test_a_row_with_biases_is_named_after_what_fixes_its_temperature(method):
    data = generated(n=1500)
    shifted = measures.replace(data, logits=data.logits + np.array([2.0, 0, 0, 0, -2.0]))
    p = measures.new_calibrator(method).fit(shifted.logits, shifted.labels).predict_proba(shifted.logits)
    gap = p.max(axis=1).mean() - (p.argmax(axis=1) == shifted.labels).mean()
    name, _, rest = measures.METHODS[method].partition(" ")
    assert rest == "and bias per class"
    assert name == ("EC" if abs(gap) < 1e-6 else "TS")


def test_ec_with_biases_that_has_no_solution_has_no_numbers():
    model = shipped.load("voice_activity")
    found = measures.scores(model.part("final", "fit"), model.part("final", "test"), ("bias", measures.BIAS_BY_TS))
    assert found["bias"] is None
    assert found[measures.BIAS_BY_TS]["ece"] > 0


def test_vs_code_takes_answers_that_lead_by_a_fifth():
    p = np.array([[0.6, 0.3, 0.1], [0.5, 0.35, 0.15], [0.3, 0.6, 0.1], [0.19, 0.1, 0.71]])
    data = generated(n=4, k=3)
    some = measures.replace(data, logits=np.log(p), labels=np.array([0, 0, 0, 2]))
    assert measures.answered(some) == {"share": 0.75, "accuracy": pytest.approx(2 / 3)}


def test_the_difference_of_temperatures_has_the_error_of_a_jackknife_over_documents():
    data = generated(n=1500)
    found = measures.temperature_difference(data)
    fits = [nishimori.calibrator(name).fit(data.logits, data.labels).temperature_ for name in ("ts", "ec")]
    assert found["difference"] == pytest.approx(np.log(fits[0] / fits[1]), abs=1e-6)
    left = []
    for document in np.unique(data.documents):
        some = data.take(data.documents != document)
        ec, ts = measures.roots(measures.Distances.from_logits(some.logits, some.labels))
        left.append(ec - ts)
    n = len(left)
    assert found["difference_se_document"] == pytest.approx(np.sqrt((n - 1) / n * np.sum((left - np.mean(left)) ** 2)), rel=0.1)
    alone = measures.clustered_error(np.arange(50.0), np.arange(50))
    assert alone == pytest.approx(np.std(np.arange(50.0), ddof=1) / np.sqrt(50))


def test_what_is_mended_is_learned_on_the_other_part():
    data = generated(n=1200)
    fit, test = data.take(data.documents % 2 == 0), data.take(data.documents % 2 == 1)
    shifted = [measures.replace(each, logits=each.logits + np.array([3.0, 0, 0, 0, 0])) for each in (fit, test)]
    found = measures.mechanisms(*shifted, np.arange(5))
    plain = measures.mechanisms(fit, test, np.arange(5))
    # A wrong prior makes the model overconfident; biases mend it.
    assert found["as shipped"]["accuracy"] < found["bias per class"]["accuracy"]
    assert found["bias per class"]["accuracy"] == pytest.approx(plain["as shipped"]["accuracy"], abs=0.02)
    expected = nishimori.calibrator("bias").fit(fit.logits, fit.labels).predict_log_proba(test.logits)
    np.testing.assert_allclose(measures.biased(fit, test).logits, expected)
    assert plain["doubtful labels removed"]["n"] == (~data.doubtful).sum()
    assert sum(plain[f"{each} third"]["n"] for each in ("short", "middle", "long")) == 1200
    # Each range of lengths has its own temperature: pooled, none is left.
    lengths = [measures.replace(each, logits=each.logits * (each.lengths[:, None] / 50)) for each in (fit, test)]
    assert measures.temperature_difference(measures.crossed(*lengths, measures.by_length))["temperature_ec"] == pytest.approx(
        1, abs=0.1
    )


def test_hard_classes_are_those_of_the_other_part():
    data = generated()
    wrong = measures.replace(data, labels=np.where(data.labels == 2, 3, data.labels))
    less = measures.without_hard(wrong, data)
    accuracy = [np.mean(data.logits.argmax(axis=1)[wrong.labels == k] == k) for k in (0, 1, 3, 4)]
    expected = {k for k, share in zip((0, 1, 3, 4), accuracy, strict=True) if share >= 0.5} | {2}
    assert set(np.unique(less.labels)) == expected


# Artefacts and page.


def test_artefacts_compare_models_with_networks(computed):
    folder = computed("table-shipped", "figure-shipped")
    found = paper.check("table-shipped", folder)
    assert [each.what.partition(":")[0] for each in found] == [
        each for each in shipped.names() if not each.endswith("-manuals")
    ]
    (one,) = paper.check("figure-shipped", folder)
    assert "of" in one.ours
    for name in ("table-shipped", "figure-shipped"):
        assert (folder / f"{name}.png").stat().st_size > 20_000


def test_the_page_has_the_numbers_that_were_measured():
    import shipped_page

    for template, path in shipped_page.PAGES.items():
        page = path.read_text(encoding="utf-8")
        assert page == shipped_page.page(shipped_page.results(), template)
        assert "{{" not in page
    # Of the bundled logits: temperatures are cheap to compute again.
    stored = shipped_page.results()["final"]
    for name in (each for each in shipped.names() if not each.endswith("-manuals")):
        fit = shipped.load(name).part("final", "fit")
        assert len(fit.labels) == stored[name]["n_fit"]
        T = nishimori.TemperatureScaling().fit(fit.logits, fit.labels).temperature_
        assert stored[name]["methods"]["ts"]["temperature"] == pytest.approx(T, rel=1e-4)
    assert sys.modules["shipped_page"].PAPER == ROOT / "paper"


def test_in_the_final_half_no_difference_of_eces_is_beyond_two_standard_errors():
    import shipped_page

    stored = shipped_page.with_mechanisms(shipped_page.results()["final"])
    against = {name: each["methods"]["ec"]["against_ts"] for name, each in stored.items()}
    assert all(abs(each["ece"]) < 2 * max(each["se"], each["se_class"]) for each in against.values())
    # By document alone one would be.
    assert [name for name, each in against.items() if abs(each["ece"]) > 2 * each["se"]] == ["voice_activity"]


def test_by_class_the_difference_of_temperatures_of_a_model_with_few_classes_is_less_certain(monkeypatch):
    """The error by class that the table leaves out, as the page says."""
    from nishimori_paper.artefacts import _shipped_measures

    monkeypatch.setattr(_shipped_measures, "_FEWEST_CLASSES", 2)
    model = shipped.load("page_orientation")
    found = {}
    for half in ("development", "final"):
        rows = _shipped_measures.joined(model.part(half, "fit"), model.part(half, "test"))
        each = _shipped_measures.temperature_difference(rows)
        found[half] = f"{each['difference'] / each['difference_se_class']:.1f}".replace("-", "−")
    page = (ROOT / "bench" / "results" / "shipped.md").read_text(encoding="utf-8")
    assert f"{found['final']} standard errors from 0 (final half; development {found['development']})" in page


def test_numbers_of_the_bundled_logits_are_those_on_the_pages():
    import shipped_page

    stored = shipped_page.results()["final"]
    for name in shipped_page.with_mechanisms(stored):
        test = shipped.load(name).part("final", "test")
        p = softmax(test.logits.astype(np.float64), axis=1)
        right = p.argmax(axis=1) == test.labels
        found = stored[name]["methods"]["none"]
        assert (found["accuracy"], found["confidence"]) == pytest.approx((right.mean(), p.max(axis=1).mean()), abs=1e-6)
        if name == "source_code":
            second, first = np.sort(p, axis=1)[:, -2:].T
            told = first - second >= 0.2
            assert stored[name]["answered"] == pytest.approx({"share": told.mean(), "accuracy": right[told].mean()}, abs=1e-6)
    lingua = stored["lingua"]["methods"]
    sentence = (
        f"lingua, which names the language of short texts, is right on {lingua['none']['accuracy']:.0%} of "
        f"{stored['lingua']['n_test']:,} messages that programs show but reports {lingua['none']['confidence']:.0%} "
        f"confidence; one temperature lowers its ECE, the average gap between them, from {lingua['none']['ece']:.1%} to "
        f"{lingua['adaptive']['ece']:.1%}"
    )
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert sentence.replace("%", " %") in readme


def test_the_page_of_findings_has_the_numbers_that_were_measured():
    import findings_page

    page = findings_page.PAGE.read_text(encoding="utf-8")
    assert page == findings_page.page(findings_page.results())
    assert "{{" not in page
