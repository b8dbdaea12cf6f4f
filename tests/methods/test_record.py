"""A saved calibration reads back as it was, and a file that is none is refused with what to do."""

import json
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import reference
from optional import pd

import nishimori
from nishimori import ExpectationConsistency, TemperatureScaling, from_temperature, load
from nishimori._methods.record import Provenance
from nishimori.calibrators import FixedTemperature
from nishimori.errors import FormatError, InputError

LOGITS, LABELS = reference.drawn(300, 3)
PROBABILITIES = reference.softmax(LOGITS)
ANIMALS = np.array(["ant", "bee", "κάτι"])
TABLE = pd.DataFrame(LOGITS, columns=ANIMALS)
MIXED = np.array([1, "two", 2.5], dtype=object)

SAVED = {
    "ec": (ExpectationConsistency().fit(LOGITS, LABELS), LOGITS),
    "ec top 2": (ExpectationConsistency(top_n=2).fit(LOGITS, LABELS), LOGITS),
    "ts": (TemperatureScaling().fit(LOGITS, LABELS), LOGITS),
    "ts of probabilities": (TemperatureScaling(input="probabilities", floor=None).fit(PROBABILITIES, LABELS), PROBABILITIES),
    "text classes": (ExpectationConsistency(classes=ANIMALS).fit(LOGITS, ANIMALS[LABELS]), LOGITS),
    "integer classes": (TemperatureScaling(classes=[7, 3, 5]).fit(LOGITS, np.array([7, 3, 5])[LABELS]), LOGITS),
    "float classes": (TemperatureScaling(classes=[0.5, 0.1, 1]).fit(LOGITS, np.array([0.5, 0.1, 1])[LABELS]), LOGITS),
    "boolean classes": (TemperatureScaling(classes=[False, True]).fit(LOGITS[:, :2], LOGITS[:, 1] + LABELS > 1), LOGITS[:, :2]),
    "mixed classes": (ExpectationConsistency(classes=list(MIXED)).fit(LOGITS, MIXED[LABELS]), LOGITS),
    "columns": (ExpectationConsistency().fit(TABLE, LABELS), TABLE),
    "columns and classes": (TemperatureScaling(classes=ANIMALS).fit(TABLE, ANIMALS[LABELS]), TABLE),
    "flat scores": (TemperatureScaling().fit(LOGITS[:, 0], LABELS == 0), LOGITS[:, 0]),
    "a fitted fixed one": (FixedTemperature(3.0).fit(TABLE, LABELS), TABLE),
    "a known temperature": (from_temperature(0.1 + 0.2), LOGITS),
    "a known temperature and classes": (from_temperature(2, classes=ANIMALS, input="probabilities"), PROBABILITIES),
}


@pytest.mark.parametrize(("saved", "X"), SAVED.values(), ids=SAVED)
def test_a_saved_calibrator_loads_as_it_was(saved, X, tmp_path):
    saved.save(tmp_path / "calibration.json")
    loaded = load(str(tmp_path / "calibration.json"))
    assert type(loaded) is type(saved)
    assert loaded.temperature_ == saved.temperature_
    np.testing.assert_array_equal(loaded.predict_proba(X), saved.predict_proba(X))
    np.testing.assert_array_equal(loaded.predict(X), saved.predict(X))
    for name in ("n_features_in_", "n_samples_"):
        assert getattr(loaded, name, None) == getattr(saved, name, None)
    for name in ("classes_", "feature_names_in_"):
        assert list(getattr(loaded, name, [])) == list(getattr(saved, name, []))
        assert [type(each) for each in getattr(loaded, name, [])] == [type(each) for each in getattr(saved, name, [])]
    for key, value in saved.get_params().items():
        assert np.array_equal(loaded.get_params()[key], value) or (key == "classes" and list(loaded.classes) == list(value))


def test_what_is_loaded_can_be_saved_again_to_the_same_text(tmp_path):
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    SAVED["columns and classes"][0].save(first)
    load(first).save(second)
    assert first.read_text() == second.read_text()


def test_the_file_is_json_that_says_everything(tmp_path):
    ExpectationConsistency(top_n=2, classes=list(ANIMALS)).fit(TABLE, ANIMALS[LABELS]).save(tmp_path / "c.json")
    content = json.loads((tmp_path / "c.json").read_text(encoding="utf-8"))
    temperature = content["map"]["parameters"].pop("temperature")
    assert temperature == pytest.approx(reference.ec_temperature(LOGITS, LABELS, top_n=2), rel=1e-8)
    residual = content["provenance"].pop("residual")
    assert abs(reference.ec_gap(LOGITS, LABELS, temperature, top_n=2)) <= abs(residual) + 1e-15 < 1e-9
    assert 0 < content["provenance"].pop("temperature_se") < temperature
    assert len(content["provenance"].pop("data_digest")) == 32
    assert content["provenance"].pop("class_prior") == pytest.approx((np.bincount(LABELS) / 300).tolist())
    assert content == {
        "format": "nishimori-calibration",
        "format_version": 2,
        "map": {"kind": "temperature", "parameters": {}},
        "input": "logits",
        "floor": None,
        "provenance": {
            "method": "ec",
            "params": {"smooth_labels": False, "top_n": 2},
            "classes": list(ANIMALS),
            "columns": list(ANIMALS),
            "label_column": None,
            "score_column": None,
            "group_column": None,
            "n_classes": 3,
            "n_samples": 300,
            "estimates": None,
            "is_flat": False,
            "of_claims": False,
            "members": None,
            "class_off": None,
            "library_version": nishimori.__version__,
        },
    }


FIRST_VERSION = """{"format": "nishimori-calibration", "format_version": 1, "temperature": 1.5, "method": "ts", "top_n": 1,
"input": "logits", "classes": ["a", "b"], "columns": null, "n_classes": 2, "n_samples": 100, "library_version": "0.1.0"}"""
SECOND_VERSION = """{"format": "nishimori-calibration", "format_version": 2,
"map": {"kind": "temperature", "parameters": {"temperature": 1.5}}, "input": "logits",
"provenance": {"method": "ts", "params": {}, "classes": ["a", "b"], "columns": null, "n_classes": 2, "n_samples": 100,
"residual": 1e-12, "library_version": "0.2.0"}}"""


@pytest.mark.parametrize("text", [FIRST_VERSION, SECOND_VERSION], ids=["first", "second"])
def test_a_file_of_every_version_is_readable(text, tmp_path):
    (tmp_path / "old.json").write_text(text)
    loaded = load(tmp_path / "old.json")
    assert (type(loaded), loaded.temperature_, loaded.classes_.tolist()) == (TemperatureScaling, 1.5, ["a", "b"])


def test_top_n_of_the_first_version_is_kept(tmp_path):
    content = json.loads(FIRST_VERSION) | {"method": "ec", "top_n": 2, "n_classes": 3, "classes": None}
    (tmp_path / "old.json").write_text(json.dumps(content))
    assert load(tmp_path / "old.json").top_n == 2


class Gap(nishimori.Observable):
    """The logit, by another name."""

    def values(self, logits):
        return logits


def test_a_method_that_is_not_registered_loads_as_a_fixed_map_that_knows_its_name(tmp_path):
    saved = nishimori.calibrators.Matched(Gap()).fit(TABLE, LABELS)
    saved.save(tmp_path / "c.json")
    loaded = load(tmp_path / "c.json")
    assert type(loaded) is nishimori.calibrators.FixedMap
    assert loaded.method == saved.method == f"{__name__}:Gap"
    assert loaded.temperature_ == saved.temperature_
    np.testing.assert_array_equal(loaded.predict_proba(TABLE), saved.predict_proba(TABLE))
    loaded.save(tmp_path / "again.json")
    assert load(tmp_path / "again.json").method == saved.method


def test_loading_never_imports_what_a_file_names(tmp_path):
    (tmp_path / "evil.py").write_text("raise SystemExit('imported')")
    content = json.loads(SECOND_VERSION)
    content["provenance"]["method"] = "evil:Name"
    (tmp_path / "c.json").write_text(json.dumps(content))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(tmp_path)
        assert load(tmp_path / "c.json").method == "evil:Name"


def test_loaded_columns_are_still_checked(tmp_path):
    SAVED["columns"][0].save(tmp_path / "c.json")
    with pytest.raises(InputError, match="feature names should match"):
        load(tmp_path / "c.json").predict_proba(TABLE[ANIMALS[::-1]])


def test_an_existing_file_is_kept_unless_overwriting_is_asked_for(tmp_path):
    path = tmp_path / "calibration.json"
    from_temperature(1.0).save(path)
    with pytest.raises(FileExistsError) as error:
        from_temperature(2.0).save(path)
    assert str(error.value) == f"{path} exists. Pass `overwrite=True` to replace it."
    assert load(path).temperature_ == 1.0
    from_temperature(2.0).save(path, overwrite=True)
    assert load(path).temperature_ == 2.0
    assert list(tmp_path.iterdir()) == [path]


def test_a_save_that_fails_leaves_neither_a_part_nor_a_changed_file(tmp_path, monkeypatch):
    path = tmp_path / "calibration.json"
    from_temperature(1.0).save(path)
    before = path.read_text()

    def full(*_, **__):
        raise OSError("disk full")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="disk full"):
        from_temperature(2.0).save(path, overwrite=True)
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_text() == before


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"There is no folder .*nowhere to write c.json to. Create it first."):
        from_temperature(1.0).save(tmp_path / "nowhere" / "c.json")


def test_classes_that_json_cannot_hold_are_refused_when_saving(tmp_path):
    calibrator = from_temperature(1.0, classes=[b"a", b"b"])
    with pytest.raises(InputError, match="must be text or numbers to be saved as JSON"):
        calibrator.save(tmp_path / "c.json")
    assert not list(tmp_path.iterdir())


NOT_OURS = "is not a calibration file: "
AGAIN = "Fit and save again."
REFUSED = {
    "nothing": ("", NOT_OURS + "it is not JSON (Expecting value: line 1 column 1). " + AGAIN),
    "half a file": (
        FIRST_VERSION[:60],
        NOT_OURS + "it is not JSON (Unterminated string starting at: line 1 column 58). " + AGAIN,
    ),
    "an array": ("[1, 2]", NOT_OURS + 'it has no "format": "nishimori-calibration". ' + AGAIN),
    "another format": ('{"format": "other"}', NOT_OURS + 'it has no "format": "nishimori-calibration". ' + AGAIN),
}


@pytest.mark.parametrize(("text", "message"), REFUSED.values(), ids=REFUSED)
def test_a_file_that_is_no_calibration_is_refused(text, message, tmp_path):
    (tmp_path / "c.json").write_text(text)
    with pytest.raises(FormatError) as error:
        load(tmp_path / "c.json")
    assert str(error.value) == f"{tmp_path / 'c.json'} {message}"


def test_bytes_that_are_no_text_are_refused(tmp_path):
    (tmp_path / "c.json").write_bytes(b"\x80\x04\x95")
    with pytest.raises(FormatError, match=r"is not a calibration file: .* Fit and save again\."):
        load(tmp_path / "c.json")


# A number beyond float64, which JSON can hold.
HUGE = pytest.param("temperature", -(10**25), id="temperature-huge")
TEMPERATURES = [("temperature", each) for each in (0, -1.5, "1.5", True, None, float("nan"), float("inf"))]
ALWAYS = [
    ("input", "scores"),
    ("classes", ["a"]),
    ("classes", ["a", "a"]),
    ("classes", [["a"], ["b"]]),
    ("classes", "ab"),
    ("columns", ["a"]),
    ("columns", [1, 2]),
    ("columns", ["b", "a"]),
    ("n_classes", 1),
    ("n_samples", 0),
    ("n_samples", 1.5),
    ("library_version", 1),
]
IN_FIRST = [*TEMPERATURES, HUGE, *ALWAYS, ("method", "other"), ("top_n", 0), ("top_n", 1.5), ("top_n", 2)]
IN_SECOND = [
    *(("map", each) for each in ([], {"kind": ["other"], "parameters": {}}, {"kind": "temperature", "parameters": []})),
    *(("map", {"kind": each, "parameters": {"temperature": 1.0}}) for each in ([], {}, None, 3)),
    *(("map", {"kind": "temperature", "parameters": {"temperature": value}}) for _, value in TEMPERATURES),
    *ALWAYS,
    ("provenance", []),
    ("method", 3),
    ("method", ""),
    ("params", []),
    ("params", {"top_n": 3}),
    ("params", {"a": {"b": 1}}),
    ("residual", "0"),
    ("temperature_se", 0),
    ("temperature_se", -0.1),
    ("temperature_se", "0.1"),
    ("estimates", []),
    ("is_flat", 1),
    ("is_flat", "yes"),
    ("estimates", {"log_ec": "0"}),
    ("estimates", {"log_ec": 1e301}),
]


@pytest.mark.parametrize("top_n", [-5, 0, 2, "x", 1.5])
def test_a_top_n_that_cannot_be_is_damage_in_the_second_version_too(top_n, tmp_path):
    content = json.loads(SECOND_VERSION)
    content["provenance"] |= {"method": "ec", "params": {"top_n": top_n}}
    said = f"is damaged: provenance.params must be parameters of 'ec', got {{'top_n': {top_n!r}}}"
    assert said in refusal(content, tmp_path / "c.json")


def refusal(content, path):
    path.write_text(json.dumps(content))
    with pytest.raises(FormatError) as error:
        load(path)
    return str(error.value)


@pytest.mark.parametrize(("field", "value"), IN_FIRST)
def test_a_field_with_an_impossible_value_is_named(field, value, tmp_path):
    message = refusal(json.loads(FIRST_VERSION) | {field: value}, tmp_path / "c.json")
    moved = ("classes", "columns", "n_samples", "library_version")  # which later versions have in the provenance
    shown = "map" if field == "temperature" else f"provenance.{field}" if field in moved else field
    assert message.startswith(f"{tmp_path / 'c.json'} is damaged: {shown} must be ")
    assert message.endswith(AGAIN)


@pytest.mark.parametrize(("field", "value"), IN_SECOND)
def test_a_field_of_the_second_version_with_an_impossible_value_is_named(field, value, tmp_path):
    content = json.loads(SECOND_VERSION)
    shown = field if field in content else f"provenance.{field}"
    (content if field in content else content["provenance"])[field] = value
    message = refusal(content, tmp_path / "c.json")
    assert message.startswith(f"{tmp_path / 'c.json'} is damaged: {shown} must be ")
    assert message.endswith(AGAIN)


@pytest.mark.parametrize("field", sorted(json.loads(FIRST_VERSION).keys() - {"format", "format_version"}))
def test_a_missing_field_is_named(field, tmp_path):
    content = json.loads(FIRST_VERSION)
    del content[field]
    assert refusal(content, tmp_path / "c.json") == f"{tmp_path / 'c.json'} is damaged: {field} is missing. Fit and save again."


@pytest.mark.parametrize("part", [None, "map", "provenance"])
def test_a_missing_field_of_the_second_version_is_named(part, tmp_path):
    fields = json.loads(SECOND_VERSION) if part is None else json.loads(SECOND_VERSION)[part]
    for field in fields.keys() - {"format", "format_version"}:
        content = json.loads(SECOND_VERSION)
        del (content if part is None else content[part])[field]
        message = refusal(content, tmp_path / "c.json")
        place = field if part is None else f"{part}.{field}"
        assert message == f"{tmp_path / 'c.json'} is damaged: {place} is missing. Fit and save again."


@pytest.mark.parametrize("version", [None, "1", 0, 1.5])
def test_a_version_that_is_none_is_damage(version, tmp_path):
    (tmp_path / "c.json").write_text(json.dumps(json.loads(FIRST_VERSION) | {"format_version": version}))
    with pytest.raises(FormatError) as error:
        load(tmp_path / "c.json")
    assert str(error.value) == (
        f"{tmp_path / 'c.json'} is damaged: format_version must be a whole number of at least 1, got {version!r}. "
        "Fit and save again."
    )


def test_a_newer_version_is_refused_with_how_to_upgrade(tmp_path):
    newer = json.loads(SECOND_VERSION) | {"format_version": 7}
    newer["provenance"]["library_version"] = "9.0"
    (tmp_path / "c.json").write_text(json.dumps(newer))
    with pytest.raises(FormatError) as error:
        load(tmp_path / "c.json")
    assert str(error.value) == (
        f"{tmp_path / 'c.json'} has format version 7, written by nishimori 9.0; this one reads up to 6. "
        "Run `pip install --upgrade nishimori`."
    )


def test_fields_that_a_later_library_adds_are_passed_over(tmp_path):
    (tmp_path / "c.json").write_text(json.dumps(json.loads(FIRST_VERSION) | {"note": "hello"}))
    assert load(tmp_path / "c.json").temperature_ == 1.5


NONSENSE = {
    "deep": ("[" * 100_000, "it is nested too deeply"),
    "deep object": ('{"a":' * 100_000, "it is nested too deeply"),
    "fairly deep": ("[" * 200 + "]" * 200, "it is nested too deeply"),
    "digits": ('{"format": ' + "9" * 5000 + "}", "it has a number of 5000 digits"),
    "surrogate": ('{"format": "\\ud800"}', "it holds half of a surrogate pair, which is not text"),
    "twice": ('{"format": 1, "format": 2}', "the key 'format' appears more than once"),
    "nothing": ("", "it is not JSON (Expecting value"),
    "binary": ("\udcff\udcfe", "it is not text in UTF-8"),
}


@pytest.mark.parametrize(("text", "why"), NONSENSE.values(), ids=NONSENSE)
def test_text_that_no_calibration_can_be_is_refused(tmp_path, text, why):
    (tmp_path / "c.json").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(FormatError) as raised:
        nishimori.load(tmp_path / "c.json")
    assert str(raised.value).startswith(f"{tmp_path / 'c.json'} is not a calibration file: {why}")
    assert str(raised.value).endswith(". Fit and save again.")


def test_a_file_too_large_for_a_calibration_is_not_read(tmp_path):
    with (tmp_path / "c.json").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(FormatError, match="it has 1,099,511,627,776 bytes, more than the 67,108,864 that are read"):
        nishimori.load(tmp_path / "c.json")


ANYTHING = [None, True, [], {}, "x", -1, 0, 1.5, 10**400, [[]], ["a", "a"], {"a": 1}]
FIELDS = ["format_version", "map", "input", "floor", "provenance"]
WITHIN = [each.name for each in fields(Provenance)]


@pytest.mark.parametrize("value", ANYTHING, ids=lambda value: repr(value)[:12])
@pytest.mark.parametrize("field", [*FIELDS, *(f"provenance.{name}" for name in WITHIN), "map.kind", "map.parameters"])
def test_any_value_in_any_field_is_used_or_refused_in_one_line(tmp_path, field, value):
    content = json.loads(SECOND_VERSION)
    *outer, name = field.split(".")
    (content[outer[0]] if outer else content)[name] = value
    (tmp_path / "c.json").write_text(json.dumps(content))
    try:
        found = nishimori.load(tmp_path / "c.json").predict_proba([[1.5, 0.0]])
    except FormatError as error:
        found = str(error)
    if isinstance(found, str):
        assert 20 < len(found) < 400 + len(str(tmp_path)) and "\n" not in found  # noqa: PT018 - one claim
    else:
        np.testing.assert_allclose(found, reference.softmax([[1.0, 0.0]]), rtol=1e-12)


def test_more_classes_than_any_model_has_are_refused_without_listing_them(tmp_path):
    content = json.loads(SECOND_VERSION)
    content["provenance"].update(n_classes=500_000_000, classes=None)
    said = "is damaged: provenance.n_classes must be a whole number from 2 to 1.67772e+07, got 500000000. "
    assert said in refusal(content, tmp_path / "c.json")


def test_a_file_that_calls_the_adaptive_method_auto_is_read(tmp_path):
    logits, labels = reference.drawn(400, 4)
    nishimori.AdaptiveConsistency().fit(logits, labels).save(tmp_path / "c.json")
    text = (tmp_path / "c.json").read_text(encoding="utf-8")
    assert '"method": "adaptive"' in text
    (tmp_path / "c.json").write_text(text.replace('"method": "adaptive"', '"method": "auto"'), encoding="utf-8")
    found = nishimori.load(tmp_path / "c.json")
    assert (type(found), found.method) == (nishimori.AdaptiveConsistency, "adaptive")
