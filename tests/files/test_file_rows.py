"""Files of every kind: what is read of them and what is kept, and which file, row or line an error is about."""

import json
import re
from contextlib import nullcontext

import numpy as np
import pytest
import reference
import shell
from array_files import saved as saved_arrays
from bombs import save_bombs
from optional import pd, safetensors, torch

import nishimori
from nishimori import ExpectationConsistency
from nishimori._files import file_rows
from nishimori._files.tables.columns import constant_or_whole
from nishimori.errors import FormatError, InputError

LOGITS, LABELS = reference.drawn(900, 5)
T = reference.ec_temperature(LOGITS, LABELS)
SCORES = pd.DataFrame(LOGITS, columns=[f"z_{k}" for k in range(5)])
FRAME = SCORES.assign(labels=LABELS)


def saved(folder, frame=FRAME, name="t.parquet"):
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    frame.to_parquet(path, index=False) if name.endswith("parquet") else frame.to_csv(path, index=False)
    return path


@pytest.mark.parametrize("name", ["t.parquet", "T.CSV"])
def test_a_table_brings_its_labels(tmp_path, name):
    path = saved(tmp_path, name=name)
    assert ExpectationConsistency().fit(path).temperature_ == pytest.approx(T, rel=1e-8)
    assert nishimori.temperatures(str(path)).ec == pytest.approx(T, rel=1e-8)
    assert nishimori.evaluate(path).nll == pytest.approx(reference.nll(LOGITS, LABELS), rel=1e-12)


def test_names_in_place_of_labels_and_weights_are_those_of_columns(tmp_path):
    weights = np.random.default_rng(0).integers(0, 3, 900)
    path = saved(tmp_path, SCORES.assign(truth=LABELS, w=weights))
    found = nishimori.temperatures(path, "truth", sample_weight="w")
    assert found.ec == pytest.approx(reference.ec_temperature(LOGITS, LABELS, weights), rel=1e-8)


def test_a_folder_is_one_table_in_the_order_of_the_names(tmp_path):
    (tmp_path / "data" / "2024").mkdir(parents=True)
    saved(tmp_path / "data", FRAME[:100], "a.parquet")
    saved(tmp_path / "data", FRAME[100:650], "b.parquet")
    saved(tmp_path / "data", FRAME[650:], "2024/c.parquet")
    (tmp_path / "data" / "_SUCCESS").touch()
    saved(tmp_path / "data", FRAME, "_incomplete.parquet")
    found = nishimori.temperatures(tmp_path / "data")
    assert (found.n_samples, found.ec) == (900, pytest.approx(T, rel=1e-8))


def test_a_column_of_lists_holds_all_scores(tmp_path):
    path = saved(tmp_path, pd.DataFrame({"id": range(900), "logits": list(LOGITS), "labels": LABELS}))
    assert nishimori.temperatures(path).ec == pytest.approx(T, rel=1e-8)


def test_columns_can_be_named(tmp_path):
    path = saved(tmp_path, FRAME.assign(id=range(900)))
    for columns in (["z_*"], "z_*", list(SCORES)):
        assert nishimori.temperatures(nishimori.rows(path, columns=columns)).ec == pytest.approx(T, rel=1e-8)


@pytest.mark.parametrize("name", ["t.parquet", "t.csv"])
@pytest.mark.parametrize("spelled", [str, float], ids=["text", "numbers"])
def test_labels_may_be_spelled_in_any_way_that_classes_are(tmp_path, name, spelled):
    path = saved(tmp_path, SCORES.assign(labels=[spelled(each + 3) for each in LABELS]), name)
    found = ExpectationConsistency(classes=[3, 4, 5, 6, 7]).fit(path)
    assert found.temperature_ == pytest.approx(T, rel=1e-8)
    assert found.classes_.tolist() == [3, 4, 5, 6, 7]


@pytest.mark.parametrize(
    ("limit", "part", "readings"), [(2**29, 0.5, 0), (20_000, 0.5, 0), (20_000, 0, 3)], ids=["memory", "file", "no room"]
)
def test_a_table_is_parsed_once_if_there_is_room_for_its_numbers(tmp_path, monkeypatch, limit, part, readings):
    monkeypatch.setattr("nishimori._files.spooled_scores.KEPT", limit)
    monkeypatch.setattr("nishimori._files.spooled_scores._PART", part)
    monkeypatch.setattr("nishimori._files.tables.lines.LARGEST_CHUNK", 12_000)
    data, opened = nishimori.rows(saved(tmp_path, name="t.csv")), []
    table = file_rows.open_table
    monkeypatch.setattr(file_rows, "open_table", lambda path, **given: opened.append(path) or table(path, **given))
    cards = [nishimori.evaluate(data) for _ in range(3)]
    assert len(opened) == readings
    assert {card.nll for card in cards} == {cards[0].nll}


def test_an_error_names_file_row_and_column(tmp_path):
    broken = FRAME.copy()
    broken.loc[617, "z_2"] = np.inf
    (tmp_path / "parts").mkdir()
    saved(tmp_path / "parts", FRAME, "a.parquet")
    saved(tmp_path / "parts", broken, "b.parquet")
    said = r"b\.parquet: `logits` must not contain NaN or \+inf, got inf in row 617 \(counted from 0\), column 'z_2'"
    with pytest.raises(InputError, match=said):
        nishimori.temperatures(tmp_path / "parts")
    with pytest.raises(InputError, match=r"t\.csv: `X` must not contain NaN or \+inf, got inf in line 619, column 'z_2'"):
        ExpectationConsistency().fit(saved(tmp_path, broken, "t.csv"))
    broken = FRAME.assign(labels=np.where(np.arange(900) == 5, 7, LABELS))
    with pytest.raises(InputError, match=r"t\.csv: The labels in 'labels' \(`labels`\) must be from 0 to 4, got 7 in line 7\."):
        nishimori.temperatures(saved(tmp_path, broken, "t.csv"))


def test_missing_scores_and_labels_are_refused_unless_they_do_not_count(tmp_path):
    broken = FRAME.assign(w=1.0)
    broken.loc[5, ["z_2", "w"]] = np.nan, 0
    broken.loc[7, ["labels", "w"]] = np.nan, 0
    assert nishimori.evaluate(saved(tmp_path, broken), sample_weight="w").n_samples == 898
    broken.loc[5, "w"] = 1
    with pytest.raises(FormatError, match=r"t\.parquet, row 5, counted from 0, column 'z_2': a score is missing\. Fill it in"):
        nishimori.evaluate(saved(tmp_path, broken), sample_weight="w")
    broken.loc[5, "w"], broken.loc[7, "w"] = 0, 1
    with pytest.raises(FormatError, match=r"t\.parquet, row 7, counted from 0, column 'labels': a label is missing\."):
        nishimori.evaluate(saved(tmp_path, broken), sample_weight="w")


def test_other_columns_in_another_file_are_refused(tmp_path):
    (tmp_path / "parts").mkdir()
    first = saved(tmp_path / "parts", FRAME, "a.parquet")
    saved(tmp_path / "parts", FRAME.rename(columns={"z_3": "z3"}), "b.parquet")
    with pytest.raises(FormatError) as caught:
        nishimori.temperatures(tmp_path / "parts")
    assert str(caught.value) == (
        f"{tmp_path / 'parts' / 'b.parquet'} must have the columns of {first}, got 'z3' in place of 'z_3'."
    )


def test_files_without_rows_are_common_in_folders(tmp_path):
    (tmp_path / "parts").mkdir()
    saved(tmp_path / "parts", FRAME[:0], "a.parquet")
    with pytest.raises(FormatError, match=r"parts has no rows in any of its \.parquet files\.$"):
        nishimori.temperatures(tmp_path / "parts")
    saved(tmp_path / "parts", FRAME, "b.parquet")
    assert nishimori.temperatures(tmp_path / "parts").n_samples == 900


def test_a_truncated_file_is_named(tmp_path):
    path = saved(tmp_path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(FormatError, match=r"t\.parquet is not a readable \.parquet file"):
        nishimori.temperatures(path)


@pytest.mark.parametrize(
    ("frame", "given", "message"),
    [
        (SCORES, {}, "has no column 'labels', only 'z_0', 'z_1', 'z_2', 'z_3', 'z_4'. Name yours with `labels`."),
        (FRAME, {"sample_weight": "w"}, "has no column 'w', only 'z_0', 'z_1', 'z_2', 'z_3', 'z_4', 'labels'. Name yours with"),
        (FRAME.assign(id=1), {}, "If the scores are all columns except 'id', pass `nishimori.rows(..., ignore=['id'])`."),
        (SCORES.assign(labels=[[1]] * 900), {}, "has lists in column 'labels', but a label is one value."),
        (FRAME, {"labels": LABELS}, "`labels` must be the name of an array or column of "),
    ],
)
def test_columns_that_are_not_there_or_in_doubt_are_refused(tmp_path, frame, given, message):
    with pytest.raises(InputError) as caught:
        nishimori.temperatures(saved(tmp_path, frame), **given)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("argument", "names", "got"),
    [
        ("columns", [], "an empty list"),
        ("columns", 5, "5"),
        ("columns", ("z_0", 1), "1"),
        ("ignore", [None], "None"),
        ("ignore", 2, "2"),
    ],
)
def test_what_names_no_columns_is_refused(tmp_path, argument, names, got):
    with pytest.raises(InputError) as error:
        nishimori.rows(saved(tmp_path), **{argument: names})
    assert str(error.value) == f"`{argument}` must be the name of a column, or a list of names, got {got}."


@pytest.mark.parametrize("names", [np.array(["z_1", "z_3"]), SCORES.columns[[1, 3]]], ids=["array", "columns of a frame"])
def test_names_of_columns_may_be_an_array(tmp_path, names):
    batches = list(nishimori.rows(saved(tmp_path, FRAME.assign(labels=LABELS % 2)), columns=names))
    np.testing.assert_array_equal(np.concatenate([batch.logits for batch in batches]), LOGITS[:, [1, 3]])


def test_a_folder_without_tables_is_refused(tmp_path):
    with pytest.raises(
        FormatError,
        match=r"is a folder without tables\. Name a file, or a folder of files such as \.csv, \.jsonl or \.parquet\.$",
    ):
        nishimori.temperatures(tmp_path)


WEIGHTS = np.random.default_rng(0).integers(0, 3, 900).astype(float)
PARTS = {"w": WEIGHTS, "doc": np.arange(900) // 9, "site": np.array(["north", "south", "east"])[np.arange(900) % 3]}
BOTH = {"logits": LOGITS, "labels": LABELS}
KINDS = ["t.npz", "t.pt", "t.safetensors", "t.csv", "t.tsv", "t.jsonl", "t.parquet", "t.feather", "parts"]


def with_parts(folder, name, parts=None):
    """A file with scores and labels, and with weights, clusters and groups unless other parts are given."""
    path = folder / name
    if name in ("t.npz", "t.pt", "t.safetensors"):
        parts = PARTS | {"site": np.arange(900) % 3} if parts is None else parts  # tensors hold no text
        return saved_arrays(path, logits=LOGITS, labels=LABELS, **parts)
    frame = FRAME.assign(**PARTS if parts is None else parts)
    if name == "parts":
        path.mkdir()
        frame[:400].to_parquet(path / "a.parquet")
        frame[400:].to_parquet(path / "b.parquet")
    elif name == "t.jsonl":  # of which pandas would write fewer digits
        path.write_text("".join(json.dumps(row) + "\n" for row in frame.to_dict("records")))
    else:
        shell.save_table(frame, path)
    return path


@pytest.mark.parametrize("name", KINDS)
def test_every_file_gives_the_numbers_of_the_arrays_in_it(tmp_path, name):
    path = with_parts(tmp_path, name)
    given = {"sample_weight": WEIGHTS, "clusters": PARTS["doc"]}
    found = nishimori.rows(path, sample_weight="w", clusters="doc", groups="site")
    assert found.groups.names in ((0, 1, 2), ("east", "north", "south"))
    # Searches that start from other samples end within 1e-9 of the root.
    fitted, known = ExpectationConsistency().fit(found), ExpectationConsistency().fit(LOGITS, LABELS, **given)
    assert fitted.temperature_ == pytest.approx(known.temperature_, rel=2e-9)
    assert fitted.temperature_se_ == pytest.approx(known.temperature_se_, rel=1e-6)
    card = nishimori.evaluate(path, "labels", sample_weight="w", clusters="doc", groups="site")
    expected = nishimori.evaluate(LOGITS, LABELS, **given)
    for number in ("nll", "nll_se", "ece", "brier", "n_samples"):
        assert getattr(card, number) == getattr(expected, number)


@pytest.mark.parametrize("name", KINDS)
def test_every_file_can_be_passed_in_place_of_logits(tmp_path, name):
    path = with_parts(tmp_path, name, {})
    known = ExpectationConsistency().fit(LOGITS, LABELS)
    assert ExpectationConsistency().fit(path).temperature_ == pytest.approx(known.temperature_, rel=2e-9)
    assert nishimori.metrics.ece(str(path), "labels") == nishimori.metrics.ece(LOGITS, LABELS)


@pytest.mark.parametrize("name", ["t.npz", "t.parquet"])
def test_files_that_are_not_kept_give_the_same_to_rounding(tmp_path, name, monkeypatch):
    monkeypatch.setattr("nishimori._files.spooled_scores.KEPT", 1000)
    found = nishimori.temperatures(with_parts(tmp_path, name, {"w": WEIGHTS}), sample_weight="w")
    assert found.ec == pytest.approx(reference.ec_temperature(LOGITS, LABELS, WEIGHTS), rel=1e-8)


@pytest.mark.parametrize("name", ["t.npz", "t.pt", "t.safetensors"])
def test_arrays_of_other_names_are_found_by_their_names(tmp_path, name):
    path = saved_arrays(tmp_path / name, z=LOGITS, truth=LABELS)
    for columns in ("z", ["z"]):
        assert nishimori.temperatures(nishimori.rows(path, "truth", columns=columns)).ec == pytest.approx(T, rel=1e-8)
    probabilities = reference.softmax(LOGITS)
    path = saved_arrays(tmp_path / f"p{name}", probabilities=probabilities, labels=LABELS)
    found = nishimori.evaluate(path, input="probabilities")
    assert found.nll == nishimori.evaluate(probabilities, LABELS, input="probabilities").nll


@pytest.mark.parametrize("name", ["t.npz", "t.pt", "t.safetensors"])
@pytest.mark.parametrize(
    ("arrays", "given", "said"),
    [
        ({"z": LOGITS, "labels": LABELS}, {}, "has no array 'logits', only 'labels', 'z'. Name yours with `nishimori.rows("),
        (
            {"logits": LOGITS, "y": LABELS},
            {},
            "array 'labels', only 'logits', 'y'. If its labels are 'y', pass `labels='y'`.",
        ),
        ({"logits": LOGITS, "n": LABELS}, {}, "has no array 'labels', only 'logits', 'n'. Name yours with `labels`."),
        (BOTH, {"sample_weight": "w"}, "has no array 'w', only 'labels', 'logits'. Name yours with `sample_weight`."),
        (BOTH, {"sample_weight": WEIGHTS}, "`sample_weight` must be the name of an array or column"),
        ({"probabilities": reference.softmax(LOGITS), "labels": LABELS}, {}, "or pass `input='probabilities'`."),
    ],
)
def test_a_name_that_is_not_in_a_file_of_arrays_is_answered_with_those_that_are(tmp_path, name, arrays, given, said):
    path = saved_arrays(tmp_path / name, **arrays)
    with pytest.raises(InputError) as caught:
        nishimori.evaluate(path, **given)
    listed = re.search("only (.*?)\\. ", str(caught.value))
    text = str(caught.value).replace(listed[1], ", ".join(sorted(listed[1].split(", ")))) if listed else str(caught.value)
    assert said in text


def test_the_labels_are_called_as_the_function_calls_them(tmp_path):
    path = saved_arrays(tmp_path / "t.npz", logits=LOGITS, target=LABELS)
    with pytest.raises(InputError, match=r"If its labels are 'target', pass `y='target'`\.$"):
        ExpectationConsistency().fit(path)
    assert ExpectationConsistency().fit(path, y="target").temperature_ == pytest.approx(T, rel=1e-8)


@pytest.mark.parametrize("name", ["t.parquet", "t.csv.gz"])
def test_a_small_table_of_very_many_rows_is_refused_before_all_are_read(tmp_path, monkeypatch, name):
    monkeypatch.setattr(file_rows, "_HARMLESS_ROWS", 50_000)
    monkeypatch.setattr("nishimori._files.tables.columnar._CELLS", 600)
    frame = pd.DataFrame({"z_0": [0.5], "z_1": [1.5], "labels": [0]}).loc[[0] * 200_000]
    path = tmp_path / name
    frame.to_parquet(path, index=False) if name.endswith("parquet") else frame.to_csv(path, index=False)
    with pytest.raises(
        FormatError, match=r"has more than 20 rows for each of its bytes, more than real scores do\. If it is right"
    ):
        nishimori.rows(path)
    assert nishimori.rows(path, max_rows=200_000).n_rows == 200_000
    with pytest.raises(
        FormatError, match=r"has more than 199999 rows\. If that is right, raise `nishimori\.rows\(\.\.\., max_rows="
    ):
        nishimori.rows(path, max_rows=199_999)
    monkeypatch.setattr(file_rows, "_HARMLESS_ROWS", 200_000)
    assert nishimori.rows(path).n_rows == 200_000
    with pytest.raises(InputError, match="`max_rows` must be a whole number of at least 1, got 0"):
        nishimori.rows(path, max_rows=0)


def test_the_shell_reads_as_many_rows_as_it_is_told(tmp_path):
    path, options = saved(tmp_path, name="t.csv"), "-o c.json --max-rows"
    assert shell.nishimori(f"fit {path.name} {options} 900", place=tmp_path).code == 0
    ended = shell.nishimori(f"fit {path.name} {options} 899 --force", place=tmp_path)
    assert ended.err == "error: t.csv has more than 899 rows. If that is right, raise --max-rows.\n"


@pytest.mark.parametrize("suffix", file_rows.SUFFIXES)
def test_a_damaged_file_is_a_format_error_that_names_it(tmp_path, suffix):
    path = tmp_path / f"damaged{suffix}"
    path.write_bytes(b"\x80\x02 this is not data \xff\xfe")
    with pytest.raises(FormatError, match=f"damaged{suffix}"):
        nishimori.evaluate(path, path if suffix == ".npy" else "labels")


@pytest.mark.parametrize("name", KINDS[:-1])
def test_a_truncated_file_is_a_format_error(tmp_path, name):
    path = with_parts(tmp_path, name)
    whole = path.read_bytes()
    path.write_bytes(whole[:-20] if name in ("t.csv", "t.tsv") else whole[: len(whole) // 2])
    with pytest.raises(FormatError, match=name):
        nishimori.rows(path, sample_weight="w", clusters="doc", groups="site")


@pytest.mark.parametrize("suffix", file_rows.SUFFIXES)
def test_a_missing_file_is_said_to_be_missing(tmp_path, suffix):
    with pytest.raises(FileNotFoundError, match=f"There is no file .*nowhere{suffix}"):
        nishimori.evaluate(tmp_path / f"nowhere{suffix}", "labels")


def test_nothing_is_ever_unpickled(tmp_path):
    trace = save_bombs(tmp_path, LABELS)
    for name in ("bomb.npz", "bomb.pt", "modern.pt"):
        with pytest.raises(FormatError, match=name):
            nishimori.evaluate(tmp_path / name)
    with pytest.raises(FormatError, match=r"bomb\.npy holds pickled Python objects"):
        nishimori.evaluate(tmp_path / "bomb.npy", LABELS)
    assert not trace.exists()


def test_what_else_a_file_holds_does_not_matter(tmp_path):
    np.savez(tmp_path / "t.npz", logits=LOGITS, labels=LABELS, notes=np.array([{"any": "thing"}], dtype=object))
    torch.save({"logits": torch.tensor(LOGITS), "labels": torch.tensor(LABELS), "epoch": 3}, tmp_path / "t.pt")
    for name in ("t.npz", "t.pt"):
        assert nishimori.temperatures(tmp_path / name).ec == pytest.approx(T, rel=1e-8)
    with pytest.raises(FormatError, match=r"'epoch' in .* must be a tensor, got a int"):
        nishimori.rows(tmp_path / "t.pt", columns="epoch")


def test_bfloat16_safetensors_are_read(tmp_path):
    stored = {"logits": torch.tensor(LOGITS).bfloat16(), "labels": torch.tensor(LABELS)}
    safetensors.torch.save_file(stored, tmp_path / "t.safetensors")
    found = nishimori.rows(tmp_path / "t.safetensors")
    np.testing.assert_array_equal(np.asarray(found.stored), stored["logits"].float().numpy())


def test_a_pair_of_npy_files_is_scores_then_labels(tmp_path):
    np.save(tmp_path / "z.npy", LOGITS)
    np.save(tmp_path / "y.npy", np.array(["c3", "c4", "c5", "c6", "c7"])[LABELS])
    found = nishimori.evaluate(tmp_path / "z.npy", tmp_path / "y.npy", classes=["c3", "c4", "c5", "c6", "c7"])
    assert found.nll == pytest.approx(reference.nll(LOGITS, LABELS), rel=1e-12)
    np.save(tmp_path / "y.npy", LABELS + 3.0)
    assert nishimori.evaluate(tmp_path / "z.npy", tmp_path / "y.npy", classes=[3, 4, 5, 6, 7]).nll == found.nll


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"columns": ["a", "b"]}, "`columns` is for tables such as .csv, but .* holds arrays. Name the array with"),
        ({"ignore": ["id"]}, r"`ignore` is for tables such as .csv, but .* holds arrays. Leave it out\.$"),
        ({"delimiter": ";"}, r"`delimiter` is for tables such as .csv, but .* holds arrays. Leave it out\.$"),
        ({"decimal": ","}, r"`decimal` is for tables such as .csv, but .* holds arrays. Leave it out\.$"),
    ],
)
def test_what_is_said_of_tables_is_refused_for_arrays(tmp_path, given, said):
    np.savez(tmp_path / "t.npz", logits=LOGITS, labels=LABELS)
    with pytest.raises(InputError, match=said):
        nishimori.rows(tmp_path / "t.npz", **given)
    with pytest.raises(InputError, match="must be left out where `logits` is a ndarray: it is for files"):
        nishimori.rows(LOGITS, LABELS, **given)
    with pytest.raises(InputError, match=r"must be left out where `logits` is a Rows object\. Pass it when you make"):
        nishimori.rows(nishimori.rows(LOGITS, LABELS), **given)


def test_names_of_arrays_are_not_for_npy_files(tmp_path):
    np.save(tmp_path / "z.npy", LOGITS)
    with pytest.raises(InputError, match=r"`sample_weight` must be left out for \.npy files, which hold one unnamed array"):
        nishimori.evaluate(tmp_path / "z.npy", LABELS, sample_weight="w")


def test_text_may_have_other_marks_and_columns_to_leave_out(tmp_path):
    FRAME.assign(id=range(900)).to_csv(tmp_path / "t.csv", index=False, sep=";", decimal=",")
    data = nishimori.rows(tmp_path / "t.csv", ignore=["id"], delimiter=";", decimal=",")
    assert nishimori.temperatures(data).ec == pytest.approx(nishimori.temperatures(LOGITS, LABELS).ec, rel=2e-9)


def test_marks_of_text_are_refused_for_a_folder(tmp_path):
    saved(tmp_path / "parts", FRAME, "a.parquet")
    with pytest.raises(InputError, match=r"`delimiter` and `decimal` must be left out for .*parts.*: only .csv and .tsv files"):
        nishimori.rows(tmp_path / "parts", decimal=",")


def test_columns_are_taken_in_the_order_asked_for(tmp_path):
    path = saved(tmp_path, FRAME.assign(labels=LABELS % 2))
    np.testing.assert_array_equal(np.asarray(nishimori.rows(path, columns=["z_2", "z_0"]).stored), LOGITS[:, [2, 0]])


@pytest.mark.parametrize("columns", ["z_1", ["z_1"]])
def test_a_single_score_column_is_a_binary_score(tmp_path, columns):
    found = nishimori.rows(saved(tmp_path, FRAME.assign(labels=LABELS % 2)), columns=columns)
    assert (found.n_classes, found.contents.columns, found.contents.column) == (2, None, "z_1")
    np.testing.assert_array_equal(np.asarray(found.stored), LOGITS[:, 1])


def test_one_column_with_the_name_of_the_scores_is_a_binary_score(tmp_path):
    frame = pd.DataFrame({"logits": LOGITS[:, 1], "labels": LABELS % 2})
    np.testing.assert_array_equal(np.asarray(nishimori.rows(saved(tmp_path, frame)).stored), LOGITS[:, 1])


def test_quoted_names_commas_and_text_labels_survive_csv(tmp_path):
    (tmp_path / "t.csv").write_text('"a, b",c,labels\n1.5,-2,"a, b"\n0,-inf,c\n', encoding="utf-8")
    found = nishimori.rows(tmp_path / "t.csv", classes=["a, b", "c"])
    assert found.contents.columns == ["a, b", "c"]
    assert found.labels.tolist() == [0, 1]
    np.testing.assert_array_equal(np.asarray(found.stored), [[1.5, -2], [0, -np.inf]])


def test_rows_of_weight_zero_are_not_checked(tmp_path):
    (tmp_path / "t.csv").write_text("z_a,z_b,labels,w\n1,2,0,1\n,nan,,0\n2,1,1,2\n")
    assert nishimori.rows(tmp_path / "t.csv", sample_weight="w").weights.tolist() == [1, 0, 2]
    with pytest.raises(FormatError, match="line 3, column 'z_a': a score is missing"):
        nishimori.rows(tmp_path / "t.csv", ignore=["w"])


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("1,2,0,1\n1,2,,1\n", "line 3, column 'labels': a label is missing. Fill it in, or drop the row."),
        ("1,2,0,1\n1,,0,1\n", "line 3, column 'z_b': a score is missing. Fill it in, or drop the row."),
        ("1,2,0,1\n1,nan,0,1\n", "line 3, column 'z_b': got 'nan' for a score."),
        ("1,2,0,1\n1,2,0,\n", "line 3, column 'w': a weight is missing."),
        ("1,2,0,1\n1,2,0,x\n", "line 3, column 'w': 'x' is not a number."),
    ],
)
def test_a_missing_value_is_refused_with_its_line(rows, message, tmp_path):
    (tmp_path / "t.csv").write_text(f"z_a,z_b,labels,w\n{rows}")
    with pytest.raises(FormatError) as refused:
        nishimori.rows(tmp_path / "t.csv", sample_weight="w")
    assert message in str(refused.value)


@pytest.mark.parametrize("label", [None, float("nan"), [1], {"a": 1}])
def test_a_label_that_cannot_be_one_is_refused_with_its_line(label, tmp_path):
    rows = [{"z": [1.0, 2.0], "labels": 0}, {"z": [1.0, 2.0], "labels": label}]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(FormatError, match=r"line 2, column 'labels': a label (is missing|must be text or a number, got)"):
        nishimori.rows(tmp_path / "t.jsonl", columns="z")


def test_a_label_of_400_digits_is_refused_with_its_line(tmp_path):
    rows = [{"z_a": 0.5 + k / 7, "z_b": 0.5, "id": 10**400, "labels": k % 2} for k in range(20)]
    rows[7]["labels"] = 10**400
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(FormatError, match=r"t\.jsonl, line 8, column 'labels': the integer is too large\."):
        nishimori.rows(path, columns=["z_*"])
    (tmp_path / "t.csv").write_text("z_a,z_b,labels\n" + "".join(f"{row['z_a']},0.5,{row['labels']}\n" for row in rows))
    with pytest.raises(InputError, match=r"t\.csv: The labels .* must be integers from 0 to 1, got inf in line 9\. Correct"):
        nishimori.rows(tmp_path / "t.csv")
    with pytest.raises(InputError, match="does not say which columns are scores"):
        nishimori.rows(path)
    with pytest.raises(InputError, match="has no column 'y', only"):
        nishimori.rows(path, "y")


def test_reading_a_table_is_reported(tmp_path, monkeypatch, capsys):
    path = saved(tmp_path, name="t.csv")
    monkeypatch.setattr("nishimori._files.tables.lines.LARGEST_CHUNK", path.stat().st_size // 3)
    told = []
    monkeypatch.setattr(file_rows, "show_progress", lambda _: nullcontext(lambda *each: told.append(each)))
    nishimori.rows(path)
    assert [each for each in told if each[0] == "Reading" and each[2] is None] == told
    rows = [rows for _, rows, _ in told]
    assert 250 < rows[0] < 350 < rows[1] < 650 < rows[2] == 900


@pytest.mark.parametrize("cut", [1, 2, 5])
def test_three_rows_stand_for_all_of_them(cut):
    rows = np.stack(
        [np.arange(6.0), [1.5] * 6, [0.5, *[2.0] * 5], [*[2.0] * 5, 0.5], [np.nan, *[0.0] * 5], LOGITS[:6, 0]], axis=1
    )
    few = file_rows.witnesses(np.concatenate([file_rows.witnesses(rows[:cut]), rows[cut:]]))
    assert len(few) == 3
    assert constant_or_whole(few).tolist() == constant_or_whole(rows).tolist() == [True, True, False, False, True, False]


def test_a_pattern_of_names_is_not_expanded_in_python_and_the_error_says_what_to_do(tmp_path):
    with pytest.raises(
        FileNotFoundError, match=r"There is no file .*part-\*\.npz\. In Python, patterns are not expanded: update a"
    ):
        nishimori.evaluate(tmp_path / "part-*.npz", "labels")
