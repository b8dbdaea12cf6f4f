"""Maps beyond one temperature: what they do to logits, in predictions and measurements, in every kind of data, and on disk."""

import json
import pickle

import numpy as np
import pytest
import reference
from optional import array_api_strict, jnp, pd, torch

import nishimori
from nishimori.errors import InputError, InputWarning
from nishimori.maps import Affine, ClassTemperatures, GroupTemperatures, LogAffine, Mixture, Tempered
from nishimori.maps.kinds import from_parameters

N, K = 700, 4
LOGITS, LABELS = reference.drawn(N, K, seed=5)
WEIGHTS = np.random.default_rng(2).integers(0, 3, N).astype(float)
GROUPS = np.array(["north", "south", "west"])[np.random.default_rng(1).integers(0, 3, N)]
BY_CLASS = np.array([0.5, 1.0, 2.0, 3.0])
BY_GROUP = {"north": 0.7, "south": 1.9, "west": 1.3}
MATRIX = 0.5 * np.eye(K) + 0.05 * np.random.default_rng(3).normal(size=(K, K))
BIAS = np.array([0.4, -0.2, 0.9, -1.1])

MAPS = {
    "class": ClassTemperatures(BY_CLASS),
    "group": GroupTemperatures(tuple(BY_GROUP), list(BY_GROUP.values()), 1.1),
    "number": Affine(0.6, BIAS),
    "diagonal": Affine([0.4, 0.5, 0.6, 0.7], BIAS),
    "matrix": Affine(MATRIX, BIAS),
    "fallback": Affine(MATRIX, BIAS, 2.0),
    "log": LogAffine(MATRIX, BIAS),
    "log, fallback": LogAffine(MATRIX, BIAS, 2.0),
    "mixture": Mixture(2.0, [0.6, 0.3, 0.1]),
    "mixture, tempered": Tempered(Mixture(2.0, [0.6, 0.3, 0.1]), 1.7),
}


def expected(name, logits=LOGITS):
    """The calibrated logits of each row, row by row."""
    rows = []
    for z, group in zip(np.asarray(logits, dtype=float), GROUPS, strict=True):
        x = z - z.mean()
        scale = {"number": 0.6 * np.eye(K), "diagonal": np.diag([0.4, 0.5, 0.6, 0.7])}.get(name, MATRIX)
        u = scale @ (np.log(reference.softmax(z[None])[0]) if name.startswith("log") else x) + BIAS
        if name.endswith("fallback") and u.argmax() != z.argmax():
            u = x / 2.0
        mixed = np.log(0.6 * reference.softmax(z[None], 2.0)[0] + 0.3 * reference.softmax(z[None])[0] + 0.1 / K)
        others = {"class": z / BY_CLASS[z.argmax()], "group": z / BY_GROUP[group], "mixture": mixed}
        rows.append((others | {"mixture, tempered": mixed / 1.7}).get(name, u))
    return np.array(rows)


def with_groups(name):
    return {"groups": GROUPS} if name == "group" else {}


def differences(u):
    return u - u[:, :1]


@pytest.mark.parametrize("name", MAPS)
def test_predictions_are_those_of_the_formula(name):
    fixed, u = nishimori.calibrators.FixedMap(MAPS[name]).fit(LOGITS, LABELS), expected(name)
    given = with_groups(name)
    np.testing.assert_allclose(fixed.predict_proba(LOGITS, **given), reference.softmax(u), rtol=1e-12)
    np.testing.assert_allclose(fixed.predict_log_proba(LOGITS, **given), np.log(reference.softmax(u)), rtol=1e-10, atol=1e-15)
    np.testing.assert_allclose(differences(fixed.transform(LOGITS, **given)), differences(u), atol=1e-12)
    np.testing.assert_array_equal(fixed.predict(LOGITS, **given), u.argmax(axis=1))
    assert fixed.temperature_ is None


@pytest.mark.parametrize("name", MAPS)
def test_what_keeps_predictions_says_so(name):
    kept = (expected(name).argmax(axis=1) == LOGITS.argmax(axis=1)).all()
    assert (
        MAPS[name].keeps_predictions
        == kept
        == (name in ("class", "group", "fallback", "log, fallback", "mixture", "mixture, tempered"))
    )


@pytest.mark.parametrize("name", MAPS)
def test_measurements_are_those_of_the_formula(name):
    fixed, u = nishimori.calibrators.FixedMap(MAPS[name]).fit(LOGITS, LABELS), expected(name)
    card = nishimori.evaluate(LOGITS, LABELS, calibrator=fixed, sample_weight=WEIGHTS, **with_groups(name))
    assert card.nll == pytest.approx(reference.nll(u, LABELS, weights=WEIGHTS), rel=1e-12)
    assert card.brier == pytest.approx(reference.brier(u, LABELS, weights=WEIGHTS), rel=1e-12)
    assert card.accuracy == pytest.approx(np.average(reference.right(u, LABELS), weights=WEIGHTS))
    found = nishimori.compare(LOGITS, LABELS, methods={"none": 1.0, "map": fixed}, **with_groups(name))["map"]
    change = reference.nll(u, LABELS) - reference.nll(LOGITS, LABELS)
    assert found.differences["nll"].value == pytest.approx(change, rel=1e-9)


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("convert", [torch.tensor, jnp.asarray, array_api_strict.asarray], ids=["torch", "jax", "strict"])
def test_maps_keep_library_and_dtype(name, convert):
    given = convert(LOGITS.astype(np.float32))
    found = nishimori.calibrators.FixedMap(MAPS[name]).fit(LOGITS, LABELS).predict_proba(given, **with_groups(name))
    assert type(found) is type(given)
    assert found.dtype == given.dtype
    np.testing.assert_allclose(np.asarray(found), reference.softmax(expected(name)), rtol=2e-5, atol=1e-7)


@pytest.mark.parametrize("name", MAPS)
def test_a_constant_per_row_costs_no_digits(name):
    shifted = (LOGITS.astype(np.float32) + np.float32(2**14)).astype(np.float32)
    found = nishimori.calibrators.FixedMap(MAPS[name]).fit(LOGITS, LABELS).predict_proba(shifted, **with_groups(name))
    np.testing.assert_allclose(found, reference.softmax(expected(name, shifted)), rtol=1e-5)


@pytest.mark.parametrize("name", MAPS)
def test_a_saved_map_predicts_the_same(name, tmp_path):
    fixed = nishimori.calibrators.FixedMap(MAPS[name]).fit(LOGITS, LABELS)
    fixed.save(tmp_path / "c.json")
    loaded = nishimori.load(tmp_path / "c.json")
    given = with_groups(name)
    np.testing.assert_array_equal(loaded.predict_proba(LOGITS, **given), fixed.predict_proba(LOGITS, **given))
    sent = pickle.loads(pickle.dumps(fixed))
    np.testing.assert_array_equal(sent.predict_proba(LOGITS, **given), fixed.predict_proba(LOGITS, **given))
    version = {"log": 4, "log, fallback": 4, "mixture": 4, "mixture, tempered": 5}.get(name, 3)
    assert json.loads((tmp_path / "c.json").read_text())["format_version"] == version


def test_a_binary_score_stays_flat():
    score = LOGITS[:, 1] - LOGITS[:, 0]
    table = np.stack([np.zeros(N), score], axis=1)
    fixed = nishimori.calibrators.FixedMap(Affine(0.5, [0.3, -0.3])).fit(score, LABELS % 2)
    np.testing.assert_allclose(fixed.transform(score), 0.5 * score - 0.6, atol=1e-12)
    np.testing.assert_allclose(fixed.predict_proba(score), reference.softmax(0.5 * table + [0.3, -0.3]), rtol=1e-12)
    p = 0.6 * reference.softmax(table, 2.0) + 0.3 * reference.softmax(table) + 0.1 / 2
    mixture = nishimori.calibrators.FixedMap(MAPS["mixture"]).fit(score, LABELS % 2)
    np.testing.assert_allclose(mixture.transform(score), np.log(p[:, 1] / p[:, 0]), atol=1e-12)
    by_class = nishimori.calibrators.FixedMap(ClassTemperatures([2.0, 4.0])).fit(score, LABELS % 2)
    np.testing.assert_allclose(by_class.transform(score), score / np.where(score > 0, 4.0, 2.0), rtol=1e-12)


def test_masked_classes_stay_masked_or_are_refused():
    masked = LOGITS.copy()
    masked[::3, 2] = -np.inf
    p = nishimori.calibrators.FixedMap(MAPS["class"]).fit(LOGITS, LABELS).predict_proba(masked)
    assert (p[::3, 2] == 0).all()
    p = nishimori.calibrators.FixedMap(MAPS["mixture"]).fit(LOGITS, LABELS).predict_proba(masked)
    expected = (
        0.6 * reference.softmax(masked, 2.0) + 0.3 * reference.softmax(masked) + 0.1 / np.isfinite(masked).sum(axis=1)[:, None]
    )
    np.testing.assert_allclose(p, np.where(np.isfinite(masked), expected, 0), rtol=1e-12)
    for name in ("number", "log"):
        with pytest.raises(InputError, match=r"must not have masked classes \(-inf\).*Use a method with temperatures only"):
            nishimori.calibrators.FixedMap(MAPS[name]).fit(LOGITS, LABELS).predict_proba(masked)


def test_groups_that_were_not_seen_get_the_common_temperature_and_a_warning():
    fixed = nishimori.calibrators.FixedMap(MAPS["group"]).fit(LOGITS, LABELS)
    with pytest.warns(InputWarning, match=r"The group 'east' was not seen .*: the common T = 1\.1 is used\."):
        found = fixed.predict_proba(LOGITS, groups=np.where(GROUPS == "west", "east", GROUPS))
    west = GROUPS == "west"
    np.testing.assert_allclose(found[west], reference.softmax(LOGITS[west], 1.1), rtol=1e-12)
    with pytest.warns(InputWarning, match=r"7 groups \(0, 1, 2, 3, 4, 5, 6\) were not seen"):
        nishimori.evaluate(LOGITS, LABELS, calibrator=fixed, groups=np.arange(N) % 7)


def test_predictions_that_stay_need_no_groups():
    fixed = nishimori.calibrators.FixedMap(MAPS["group"]).fit(LOGITS, LABELS)
    np.testing.assert_array_equal(fixed.predict(LOGITS), LOGITS.argmax(axis=1))


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (None, r"`groups` must name the group of each sample: the calibrator has a temperature for each group\."),
        (GROUPS[:-1], r"`groups` must have shape \(700,\), one group per sample, got \(699,\)\."),
        ([None, *GROUPS[1:]], r"`groups` must not be missing, got None in row 0\. Give that row its group\."),
        (
            [*GROUPS[:5], float("nan"), *GROUPS[6:]],
            r"`groups` must not be missing, got NaN in row 5\. Give that row its group\.",
        ),
        (np.array([*GROUPS[:5], float("nan"), *GROUPS[6:]], dtype=object), r"`groups` must not be missing, got NaN in row 5\."),
        (pd.Series(GROUPS).astype("string").where(np.arange(N) != 6), r"`groups` must not be missing, got NaN in row 6\."),
        (np.where(np.arange(N) == 3, np.nan, 1.0), r"`groups` must not be missing, got NaN in row 3\."),
    ],
)
def test_groups_that_cannot_be_are_refused(groups, message):
    fixed = nishimori.calibrators.FixedMap(MAPS["group"]).fit(LOGITS, LABELS)
    with pytest.raises(InputError, match=message):
        fixed.predict_proba(LOGITS, groups=groups)
    with pytest.raises(InputError, match=message):
        nishimori.evaluate(LOGITS, LABELS, calibrator=fixed, groups=groups)


def test_the_name_of_a_column_is_refused_where_the_data_are_not_a_file():
    frame = pd.DataFrame(LOGITS, columns=["ant", "bee", "cat", "dog"]).assign(site=GROUPS)
    message = (
        r"^`groups` must be the group of each sample, got the text 'site'\. Names of columns are for files; for a data frame, "
        r"pass the column itself, such as `frame\['site'\]`, and the scores without it\.$"
    )
    with pytest.raises(InputError, match=message):
        nishimori.GroupConsistency(by="groups").fit(frame, LABELS, groups="site")
    with pytest.raises(InputError, match=message):
        nishimori.calibrators.FixedMap(MAPS["group"]).fit(LOGITS, LABELS).predict_proba(LOGITS, groups="site")


def test_groups_where_there_are_none_are_refused():
    with pytest.raises(InputError, match=r"`groups` must be left out: this calibrator treats all groups alike\."):
        nishimori.from_temperature(2.0).predict_proba(LOGITS, groups=GROUPS)


@pytest.mark.parametrize("block", [None, 64])
def test_every_source_has_groups(tmp_path, monkeypatch, block):
    if block is not None:  # rows of weight zero lie in many blocks
        monkeypatch.setattr("nishimori._support.arrays._HOST_ROWS", block)
    fixed = nishimori.calibrators.FixedMap(MAPS["group"]).fit(LOGITS, LABELS)
    nll = reference.nll(expected("group"), LABELS, weights=WEIGHTS)
    for name, array in {"z": LOGITS, "y": LABELS, "w": WEIGHTS, "g": GROUPS}.items():
        np.save(tmp_path / f"{name}.npy", array)
    path = {name: str(tmp_path / f"{name}.npy") for name in "zywg"}
    table = pd.DataFrame(LOGITS, columns=[f"z_{i}" for i in range(K)]).assign(labels=LABELS, w=WEIGHTS, site=GROUPS)
    table.to_parquet(tmp_path / "t.parquet")
    table.to_csv(tmp_path / "t.csv", index=False)
    given = {"sample_weight": "w", "groups": "site"}
    measured = [
        nishimori.evaluate(path["z"], path["y"], calibrator=fixed, sample_weight=path["w"], groups=path["g"]),
        nishimori.evaluate(np.load(path["z"], mmap_mode="r"), LABELS, calibrator=fixed, sample_weight=WEIGHTS, groups=GROUPS),
        nishimori.evaluate(nishimori.rows(path["z"], LABELS, sample_weight=WEIGHTS, groups=path["g"]), calibrator=fixed),
        nishimori.evaluate(tmp_path / "t.parquet", calibrator=fixed, **given),
        nishimori.evaluate(nishimori.rows(tmp_path / "t.csv", **given), calibrator=fixed),
        nishimori.evaluate(torch.tensor(LOGITS), LABELS, calibrator=fixed, sample_weight=WEIGHTS, groups=list(GROUPS)),
    ]
    for card in measured:
        assert card.nll == pytest.approx(nll, rel=1e-12)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize(("names", "known"), [([7, 12], (7, 12)), (["007", "012"], ("007", "012")), (["a", "7"], ("7", "a"))])
def test_whole_numbers_in_files_are_numbers(tmp_path, ending, names, known):
    table = pd.DataFrame(LOGITS[:4], columns=[f"z_{i}" for i in range(K)]).assign(labels=LABELS[:4], site=2 * names)
    path = tmp_path / f"t.{ending}"
    table.to_csv(path, index=False) if ending == "csv" else table.to_parquet(path)
    assert nishimori.rows(path, groups="site").groups.names == known


def test_groups_that_files_cannot_give_are_refused(tmp_path):
    table = pd.DataFrame(LOGITS[:4], columns=[f"z_{i}" for i in range(K)]).assign(labels=LABELS[:4], site=["a", "", "b", "b"])
    table.to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(InputError, match=r"has no column 'place', only .*Name yours with `groups`"):
        nishimori.rows(tmp_path / "t.csv", groups="place")
    with pytest.raises(nishimori.errors.FormatError, match=r"a group is missing\. Fill it in, or drop the row\."):
        nishimori.rows(tmp_path / "t.csv", groups="site")
    with pytest.raises(InputError, match=r"`groups` must be left out where `logits` yields batches"):
        nishimori.evaluate(iter([(LOGITS, LABELS)]), calibrator=nishimori.from_temperature(1.0), groups=GROUPS)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ClassTemperatures([1.0]), r"`temperatures` must have one number per class, got 1\."),
        (lambda: ClassTemperatures([1.0, -1.0]), r"`temperatures` must be a finite positive number, got -1\.0\."),
        (lambda: ClassTemperatures([[1.0, 2.0]]), r"`temperatures` must be a flat list, got shape \(1, 2\)\."),
        (lambda: ClassTemperatures(["a", "b"]), r"`temperatures` must hold finite numbers"),
        (lambda: GroupTemperatures(["a", "a"], [1, 2], 1.0), r"`groups` must name each group once"),
        (lambda: GroupTemperatures(["a", None], [1, 2], 1.0), r"`groups` must be a list of text or numbers"),
        (lambda: GroupTemperatures("ab", [1, 2], 1.0), r"`groups` must be a list of text or numbers"),
        (lambda: GroupTemperatures(["a"], [1, 2], 1.0), r"one number per group, got 1 groups and 2 temperatures"),
        (lambda: GroupTemperatures(["a"], [1], 0), r"`common` must be a finite positive number, got 0\."),
        (lambda: Affine(1.0, [1.0]), r"`bias` must have one number per class, got shape \(1,\)\."),
        (lambda: Affine(1.0, [np.nan, 0.0]), r"`bias` must hold finite numbers"),
        (
            lambda: Affine([1.0, 2.0, 3.0], [0.0, 0.0]),
            r"`scale` must be a number, or have shape \(2,\) or \(2, 2\), got \(3,\)",
        ),
        (lambda: Affine(1.0, [0.0, 0.0], -1), r"`fallback` must be a finite positive number, got -1\."),
        (lambda: LogAffine(np.eye(3), [0.0, 0.0]), r"`matrix` must have shape \(2, 2\), got \(3, 3\)\."),
        (lambda: LogAffine([[1.0]], [0.0]), r"`bias` must have one number per class, got shape \(1,\)\."),
        (lambda: LogAffine(np.eye(2), [0.0, 0.0], 0), r"`fallback` must be a finite positive number, got 0\."),
        (lambda: MAPS["log"].apply(LOGITS[:, :3]), r"`logits` must have 4 classes, as the map has, got 3\."),
        (lambda: Mixture(0.0, [1, 0, 0]), r"`temperature` must be a finite positive number, got 0\.0\."),
        (lambda: Mixture(1.0, [0.5, 0.5]), r"`weights` must be three numbers from 0 to 1 whose sum is 1, got \[0\.5, 0\.5\]\."),
        (lambda: Mixture(1.0, [1.5, -0.5, 0.0]), r"`weights` must be three numbers from 0 to 1 whose sum is 1"),
        (lambda: Mixture(1.0, [0.5, 0.4, 0.0]), r"`weights` must be three numbers from 0 to 1 whose sum is 1"),
        (lambda: MAPS["number"].apply(LOGITS[:, :3]), r"`logits` must have 4 classes, as the map has, got 3\."),
        (
            lambda: nishimori.calibrators.FixedMap(MAPS["class"]).fit(LOGITS[:, :3], LABELS % 3),
            r"`X` must have 4 classes, as the map has",
        ),
    ],
)
def test_what_cannot_be_a_map_is_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        ("class_temperatures", {"temperatures": 2.0}),
        ("class_temperatures", {"temperatures": [1.0, "2"]}),
        ("group_temperatures", {"groups": ["a"], "temperatures": [1.0], "common": "1"}),
        ("group_temperatures", {"groups": ["a"], "temperatures": [1.0]}),
        ("affine", {"scale": [[1.0], [2.0, 3.0]], "bias": [0.0, 0.0], "fallback": None}),
        ("affine", {"scale": 1.0, "bias": [0.0, 10**400], "fallback": None}),
        ("affine", {"scale": True, "bias": [0.0, 0.0], "fallback": None}),
        ("affine", {"scale": 1.0, "bias": [0.0, 0.0], "fallback": "2"}),
        ("log_affine", {"matrix": [[1.0, 0.0], [0.0]], "bias": [0.0, 0.0], "fallback": None}),
        ("log_affine", {"matrix": [[1.0, 0.0], [0.0, 1.0]], "bias": [0.0, 0.0], "fallback": "2"}),
        ("mixture", {"temperature": "2", "weights": [1.0, 0.0, 0.0]}),
        ("mixture", {"temperature": 2.0, "weights": 1.0}),
    ],
)
def test_what_describes_no_map_is_refused(kind, parameters):
    with pytest.raises(InputError, match="must"):
        from_parameters(kind, parameters)


def test_a_file_whose_map_has_other_classes_is_damaged(tmp_path):
    nishimori.calibrators.FixedMap(MAPS["class"]).fit(LOGITS, LABELS).save(tmp_path / "c.json")
    content = json.loads((tmp_path / "c.json").read_text())
    content["provenance"]["n_classes"] = 3
    (tmp_path / "c.json").write_text(json.dumps(content))
    with pytest.raises(
        nishimori.errors.FormatError, match=r"provenance\.n_classes must be 4, like the map, got 3\. Fit and save again\."
    ):
        nishimori.load(tmp_path / "c.json")


def test_a_row_of_numbers_takes_one_line_of_a_file_and_names_stay_as_they_are(tmp_path):
    names = ["[ 1, 2 ]", "[1\\n2]", "a [ 3 ]", "x"]
    fixed = nishimori.calibrators.FixedMap(MAPS["matrix"], classes=names).fit(LOGITS, np.array(names)[LABELS])
    fixed.save(tmp_path / "c.json")
    lines = (tmp_path / "c.json").read_text().splitlines()
    (row,) = (line for line in lines if repr(float(MATRIX[0, 0])) in line)
    assert json.loads(row.rstrip(",")) == MATRIX[0].tolist()
    assert nishimori.load(tmp_path / "c.json").classes_.tolist() == names


def test_map_parameters_cannot_be_changed():
    with pytest.raises(ValueError, match="read-only"):
        MAPS["class"].temperatures[0] = 9.0
