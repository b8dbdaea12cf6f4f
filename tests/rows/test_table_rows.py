"""Tables: which columns count, what is kept, and which file, row or line an error is about."""

import numpy as np
import pytest
import reference
from optional import pd

import nishimori
from nishimori import ExpectationConsistency
from nishimori.errors import FormatError, InputError

LOGITS, LABELS = reference.drawn(900, 5)
T = reference.ec_temperature(LOGITS, LABELS)
SCORES = pd.DataFrame(LOGITS, columns=[f"z_{k}" for k in range(5)])
FRAME = SCORES.assign(labels=LABELS)


def saved(folder, frame=FRAME, name="t.parquet"):
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    frame.to_parquet(path) if name.endswith("parquet") else frame.to_csv(path, index=False)
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


@pytest.mark.parametrize(("limit", "readings"), [(2**29, 1), (20_000, 3)])
def test_a_table_is_parsed_once_if_its_numbers_fit(tmp_path, monkeypatch, limit, readings):
    monkeypatch.setattr("nishimori._rows.table_rows.KEPT", limit)
    monkeypatch.setattr("nishimori._rows.tables.text.CELLS", 600)
    data, opened = nishimori.rows(saved(tmp_path, name="t.csv")), []
    table = nishimori._rows.table_rows.open_tables
    monkeypatch.setattr("nishimori._rows.table_rows.open_tables", lambda path: opened.append(path) or table(path))
    cards = [nishimori.evaluate(data) for _ in range(3)]
    assert len(opened) == readings
    assert {card.nll for card in cards} == {cards[0].nll}


def test_an_error_names_file_row_and_column(tmp_path):
    broken = FRAME.copy()
    broken.loc[617, "z_2"] = np.inf
    (tmp_path / "parts").mkdir()
    saved(tmp_path / "parts", FRAME, "a.parquet")
    saved(tmp_path / "parts", broken, "b.parquet")
    with pytest.raises(
        InputError, match=r"b\.parquet: `logits` must not contain NaN or \+inf, got inf in row 617, column 'z_2'"
    ):
        nishimori.temperatures(tmp_path / "parts")
    with pytest.raises(InputError, match=r"t\.csv: `X` must not contain NaN or \+inf, got inf in line 619, column 'z_2'"):
        ExpectationConsistency().fit(saved(tmp_path, broken, "t.csv"))
    broken = FRAME.assign(labels=np.where(np.arange(900) == 5, 7, LABELS))
    with pytest.raises(InputError, match=r"t\.csv: `labels` must be from 0 to 4, got 7 in line 7\."):
        nishimori.temperatures(saved(tmp_path, broken, "t.csv"))


def test_missing_scores_and_labels_are_refused_unless_they_do_not_count(tmp_path):
    broken = FRAME.assign(w=1.0)
    broken.loc[5, ["z_2", "w"]] = np.nan, 0
    broken.loc[7, ["labels", "w"]] = np.nan, 0
    assert nishimori.evaluate(saved(tmp_path, broken), sample_weight="w").n_samples == 898
    broken.loc[5, "w"] = 1
    with pytest.raises(InputError, match=r"t\.parquet: `logits` must not contain NaN or \+inf, got nan in row 5, column 'z_2'"):
        nishimori.evaluate(saved(tmp_path, broken), sample_weight="w")
    broken.loc[5, "w"], broken.loc[7, "w"] = 0, 1
    with pytest.raises(InputError, match="got nan: a label is missing in row 7"):
        nishimori.evaluate(saved(tmp_path, broken), sample_weight="w")


def test_other_columns_in_another_file_are_refused(tmp_path):
    (tmp_path / "parts").mkdir()
    first = saved(tmp_path / "parts", FRAME, "a.parquet")
    saved(tmp_path / "parts", FRAME.rename(columns={"z_3": "z3"}), "b.parquet")
    with pytest.raises(FormatError) as caught:
        nishimori.temperatures(tmp_path / "parts")
    assert str(caught.value) == (
        f"{tmp_path / 'parts' / 'b.parquet'} must have the columns of {first}, 'z_0', 'z_1', 'z_2', 'z_3', 'z_4', 'labels', "
        "got 'z_0', 'z_1', 'z_2', 'z3', 'z_4', 'labels'."
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
        (FRAME.assign(id=1), {}, "does not say which columns are scores: 'z_0', 'z_1', 'z_2', 'z_3', 'z_4', 'id'. Name them:"),
        (SCORES.assign(labels=[[1]] * 900), {}, "has lists in column 'labels', and labels must be one value per row."),
        (FRAME, {"labels": LABELS}, "`labels` must be the name of a column of "),
    ],
)
def test_columns_that_are_not_there_or_in_doubt_are_refused(tmp_path, frame, given, message):
    with pytest.raises(InputError) as caught:
        nishimori.temperatures(saved(tmp_path, frame), **given)
    assert message in str(caught.value)


def test_a_folder_without_tables_is_refused(tmp_path):
    with pytest.raises(
        FormatError, match=r"is a folder without \.parquet files\. Name a file, or a folder of Parquet files\.$"
    ):
        nishimori.temperatures(tmp_path)
