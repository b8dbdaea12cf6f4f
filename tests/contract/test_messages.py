"""Every refusal of bad input, word for word: it names the argument, what it got, and the remedy."""

from pathlib import Path

import numpy as np
import pytest
import reference
from optional import pd, torch
from scipy import sparse

import nishimori
from nishimori.errors import InputError, NoTemperatureError

X, y = reference.drawn(60, 3)


def put(array, where, value):
    """A copy with one entry replaced."""
    array = np.array(array, dtype=np.result_type(array, type(value)))
    array[where] = value
    return array


EC, TS = nishimori.ExpectationConsistency, nishimori.TemperatureScaling
FixedTemperature = nishimori.calibrators.FixedTemperature
from_temperature, temperatures = nishimori.from_temperature, nishimori.temperatures
NAMES = ["ant", "bee", "cat"]
P = reference.softmax(X)

REFUSED = [
    # scores
    (
        lambda: EC().fit(X, y).predict_proba("val.npz"),
        "`X` must be an array of scores, got 'val.npz'. If that is a file, load it first.",
    ),
    (
        lambda: temperatures({"logits": X}, y),
        "`logits` must be an array of scores, got a dict of ['logits']. Pass one of its arrays.",
    ),
    (
        lambda: temperatures(X),
        "`labels` must be the true class of each sample, got None: pass it.",
    ),
    (
        lambda: EC().fit(X.reshape(5, 12, 3), y[:59]),
        "`y` must be one label per sample, shape (5, 12), got shape (59,). Pass one label per position of `X`, "
        "whose last dimension is that of the classes.",
    ),
    (
        lambda: EC().fit(X.reshape(5, 3, 12), y.reshape(5, 12)),
        "`y` must be one label per sample, shape (5, 3), got shape (5, 12). Put the classes last: pass `X` with "
        "its dimension 1 moved to the end, as `movedim(1, -1)` does.",
    ),
    (
        lambda: EC().fit(X.reshape(5, 36, 1), y),
        "`X` must have shape (n_samples, n_classes), or (..., n_classes), one column per class, got 1 feature(s) "
        "(shape=(5, 36, 1)) while a minimum of 2 is required. If it is the score of the positive class, pass it "
        "as `X.reshape(-1)`.",
    ),
    (
        lambda: EC().fit(X.reshape(5, 12, 3)[:, :0], y[:0]),
        "`X` must have shape (n_samples, n_classes), or (..., n_classes), got 0 sample(s) (shape=(5, 0, 3)) while "
        "a minimum of 1 is required.",
    ),
    (
        lambda: EC().fit(put(X, (17, 2), np.nan).reshape(5, 12, 3), y),
        "`X` must not contain NaN or +inf, got nan in row (1, 5), column 2. Drop those rows or find where the "
        "model produced them; -inf is allowed and masks a class.",
    ),
    (
        lambda: EC().fit(X.reshape(5, 12, 3), put(y, 17, 1.5)),
        "`y` must be integers from 0 to 2, got 1.5: labels are classes, not continuous values. Check that scores "
        "and labels are not swapped.",
    ),
    (
        lambda: EC().fit(X.reshape(5, 12, 3), put(y, 17, np.nan).reshape(5, 12)),
        "`y` must be integers from 0 to 2, got nan in row (1, 5). Correct the label, or drop such samples.",
    ),
    (
        lambda: EC().fit(X.reshape(5, 12, 3), put(y, 17, 3).reshape(5, 12)),
        "`y` must be from 0 to 2, got 3 in row (1, 5). Check that every class has its column.",
    ),
    (
        lambda: EC().fit(X.reshape(5, 12, 3), y, put(np.ones(60), 17, -1).reshape(5, 12)),
        "`sample_weight` must be finite and not negative, got -1 in row (1, 5). A weight counts copies of a "
        "sample: give 0 to samples that must not count.",
    ),
    (
        lambda: EC().fit(X.reshape(5, 12, 3), y, clusters=put(y, 17, np.nan).reshape(5, 12)),
        "`clusters` must not be missing, got NaN in row (1, 5). Give that row its cluster.",
    ),
    (
        lambda: EC().fit(X, y, ignore_index=0.5),
        "`ignore_index` must be a whole number, such as -100, got 0.5.",
    ),
    (
        lambda: EC().fit(X, np.full(60, -100), ignore_index=-100),
        "`y` must hold at least one label that is not `ignore_index`, got only -100.",
    ),
    (
        lambda: EC().fit(X, y).predict_proba(X.reshape(5, 6, 6)),
        "`X` must have 3 columns, one per class, got shape (5, 6, 6).",
    ),
    (
        lambda: EC().fit(X, y).predict_proba(np.zeros((2, 3, 4, 5))),
        "`X` must have 3 columns, one per class, got shape (2, 3, 4, 5). If the classes are in another dimension, move it "
        "last: `numpy.moveaxis(X, 1, -1)`.",
    ),
    (
        lambda: EC().fit(X, y).predict_proba(np.zeros((3, 2, 4))),
        "`X` must have 3 columns, one per class, got shape (3, 2, 4). If the classes are in another dimension, move it "
        "last: `numpy.moveaxis(X, 0, -1)`.",
    ),
    (
        lambda: EC().fit(["a.npz", Path("b.npz")], y),
        "`X` must be an array of scores, got paths of files. To fit or evaluate several files, update a Sketch with each: "
        "`for path in paths: sketch.update(path)`.",
    ),
    (
        lambda: EC().fit(["0.5", "1.5"], [0, 1]),
        "`X` must hold numbers, got text. Convert it first, for example with `X.astype(float)`.",
    ),
    (
        lambda: EC().fit(3.0, y),
        "`X` must have shape (n_samples, n_classes), or (n_samples,) for a binary score, got shape (). Reshape "
        "your data: for one sample pass `[X]`.",
    ),
    (
        lambda: EC().fit(X[:0], y[:0]),
        "`X` must have shape (n_samples, n_classes), or (n_samples,) for a binary score, got 0 sample(s) "
        "(shape=(0, 3)) while a minimum of 1 is required.",
    ),
    (
        lambda: EC().fit([], []),
        "`X` must have shape (n_samples, n_classes), or (n_samples,) for a binary score, got 0 sample(s) "
        "(shape=(0,)) while a minimum of 1 is required.",
    ),
    (
        lambda: EC().fit(X[:, :0], y),
        "`X` must have shape (n_samples, n_classes), or (n_samples,) for a binary score, one column per class, "
        "got 0 feature(s) (shape=(60, 0)) while a minimum of 2 is required.",
    ),
    (
        lambda: EC().fit(X[:, :1], y),
        "`X` must have shape (n_samples, n_classes), or (n_samples,) for a binary score, one column per class, "
        "got 1 feature(s) (shape=(60, 1)) while a minimum of 2 is required. If it is the score of the positive "
        "class, pass it as `X[:, 0]`.",
    ),
    (
        lambda: EC().fit(put(X, (4, 1), np.nan), y),
        "`X` must not contain NaN or +inf, got nan in row 4, column 1. Drop those rows or find where the model "
        "produced them; -inf is allowed and masks a class.",
    ),
    (
        lambda: EC().fit(put(X, (59, 2), np.inf), y),
        "`X` must not contain NaN or +inf, got inf in row 59, column 2. Drop those rows or find where the model "
        "produced them; -inf is allowed and masks a class.",
    ),
    (
        lambda: EC().fit(torch.tensor(put(X, (4, 1), np.nan)), y),
        "`X` must not contain NaN or +inf, got nan in row 4, column 1. Drop those rows or find where the model "
        "produced them; -inf is allowed and masks a class.",
    ),
    (
        lambda: temperatures(put(X, (4, 1), np.nan), y),
        "`logits` must not contain NaN or +inf, got nan in row 4, column 1. Drop those rows or find where the "
        "model produced them; -inf is allowed and masks a class.",
    ),
    (
        lambda: from_temperature(2.0).predict_proba([[np.nan, 0.0]]),
        "`X` must not contain NaN or +inf, got nan in row 0, column 0. Drop those rows or find where the model "
        "produced them; -inf is allowed and masks a class.",
    ),
    (
        lambda: EC().fit(put(X, 7, -np.inf), y),
        "`X` must leave each sample at least one class, got only -inf in row 7. Unmask its classes or drop it.",
    ),
    (
        lambda: EC().fit(put(X[:, 0], 7, -np.inf), y > 0),
        "`X` must be finite where one score stands for two classes, got -inf in row 7. Clip the scores, or pass two columns.",
    ),
    (
        lambda: EC().fit(X + 1j, y),
        "`X` must be real, got complex128. Complex data not supported: pass `X.real`.",
    ),
    (
        lambda: EC().fit([["a", "b"]] * 60, y),
        "`X` must hold numbers, got text. Convert it first, for example with `X.astype(float)`.",
    ),
    (
        lambda: EC().fit(np.array([[1.0, "b"]] * 60, dtype=object), y),
        "`X` must hold numbers, but one could not be read: could not convert string to float: 'b'.",
    ),
    (
        lambda: EC().fit(np.zeros((60, 2), "datetime64[s]"), y),
        "`X` must hold numbers, got an array of type datetime64[s]. Convert it first, for example with `X.astype(float)`.",
    ),
    (
        lambda: EC().fit([[1.0, 2.0], [1.0]], [0, 1]),
        "`X` must be a rectangular array of numbers, got rows of different lengths.",
    ),
    (
        lambda: EC().fit(sparse.csr_array(X), y),
        "`X` must be a dense array, got a sparse one. Pass `X.toarray()` or `X.to_dense()`.",
    ),
    (
        lambda: EC().fit(np.ma.masked_array(X, X > 5), y),
        "`X` must not hide entries, got a NumPy masked array. Pass `X.filled(value)`.",
    ),
    # labels
    (
        lambda: EC().fit(y, X),
        "`y` must be one label per sample, shape (60,), got shape (60, 3). Swap the two arguments: scores come first.",
    ),
    (
        lambda: temperatures(y, X),
        "`labels` must be one label per sample, shape (60,), got shape (60, 3). Swap the two arguments: scores come first.",
    ),
    (
        lambda: EC().fit(y > 0, X[:, 0]),
        "`y` must be integers from 0 to 1, got 0.377191: labels are classes, not continuous values. Check that "
        "scores and labels are not swapped.",
    ),
    (
        lambda: EC().fit(X, None),
        "`y` must be the true class of each sample, got None: this requires y to be passed, but the target y is None.",
    ),
    (
        lambda: EC().fit(X, np.eye(3)[y]),
        "`y` must be one label per sample, shape (60,), got shape (60, 3), which looks one-hot. Pass `y.argmax(axis=1)`.",
    ),
    (
        lambda: EC().fit(X, y[:, None]),
        "`y` must be one label per sample, shape (60,), got shape (60, 1). Pass `y.ravel()`.",
    ),
    (
        lambda: EC().fit(X, np.zeros((60, 7))),
        "`y` must be one label per sample, shape (60,), got shape (60, 7).",
    ),
    (
        lambda: EC().fit(X[:2], [[1], [1, 2]]),
        "`y` must be a flat list of labels, got rows of different lengths.",
    ),
    (
        lambda: EC().fit(X, y[:59]),
        "`y` must be one label per sample, shape (60,), got shape (59,).",
    ),
    (
        lambda: EC().fit(X.T, y),
        "`y` must be one label per sample, shape (3,), got shape (60,).",
    ),
    (
        lambda: EC().fit(X, put(y, 5, 3)),
        "`y` must be from 0 to 2, got 3 in row 5. Check that every class has its column.",
    ),
    (
        lambda: EC().fit(X, put(y, 5, -100)),
        "`y` must be from 0 to 2, got -100 in row 5. To leave out all samples with this label, pass `ignore_index=-100`.",
    ),
    (
        lambda: EC().fit(X, y - 1),
        "`y` must be from 0 to 2, got -1 in row 1. If it is a class, number the classes from 0. To leave out all "
        "samples with this label, pass `ignore_index=-1`.",
    ),
    (
        lambda: EC().fit(X[:, :2], 2 * (y > 0) - 1),
        "`y` must be from 0 to 1, got -1 in row 1. For the labels -1 and 1 pass `classes=[-1, 1]`.",
    ),
    (
        lambda: EC().fit(X[:, :2], 0 * y - 1),
        "`y` must be from 0 to 1, got -1 in row 0. If it is a class, number the classes from 0. To leave out all "
        "samples with this label, pass `ignore_index=-1`.",
    ),
    (
        lambda: EC().fit(X, y + 1),
        "`y` must be from 0 to 2, got 3 in row 0. Labels start at 0: subtract 1.",
    ),
    (
        lambda: EC().fit(X, put(y, 5, 0.5)),
        "`y` must be integers from 0 to 2, got 0.5: labels are classes, not continuous values. Check that scores "
        "and labels are not swapped.",
    ),
    (
        lambda: EC().fit(X, put(y, 5, np.nan)),
        "`y` must be integers from 0 to 2, got nan in row 5. Correct the label, or drop such samples.",
    ),
    (
        lambda: EC().fit(X, np.array(NAMES)[y]),
        "`y` must be integers from 0 to 2, got 'cat' in row 0. For other labels pass the label of each column in "
        "order as `classes`.",
    ),
    (
        lambda: EC().fit(X, y + 1j),
        "`y` must be integers from 0 to 2, got (2+1j) in row 0. For other labels pass the label of each column in "
        "order as `classes`.",
    ),
    (
        lambda: TS().fit(put(X, (0, y[0]), -np.inf), y),
        "`y` must not name a masked class for temperature scaling, got 1 samples whose true class has logit -inf: "
        "their loss is infinite at every T. Unmask the class, drop those samples, or use the method 'ec', which "
        "counts them as misses.",
    ),
    # classes
    (
        lambda: EC(classes=NAMES).fit(X, ["eel"] * 60),
        "`y` must be among `classes`, got 'eel' in 60 samples, the first in row 0. Add it to `classes` if it has "
        "a column, or drop those samples.",
    ),
    (
        lambda: EC(classes=NAMES).fit(X, put(np.array(NAMES, object)[y], 7, "eel")),
        "`y` must be among `classes`, got 'eel' in row 7. Add it to `classes` if it has a column, or drop those samples.",
    ),
    (
        lambda: EC(classes=NAMES).fit(X, ["eel", "fly"] * 30),
        "`y` must be among `classes`, got 'eel' and 'fly' in 60 samples, the first in row 0. Add them to "
        "`classes` if they have columns, or drop those samples.",
    ),
    (
        lambda: EC(classes=NAMES).fit(X, [*NAMES, "a", "b", "c", "d", "e"] * 7 + ["cat"] * 4),
        "`y` must be among `classes`, got 'a', 'b', 'c' and 2 more in 35 samples, the first in row 3. Add them to "
        "`classes` if they have columns, or drop those samples.",
    ),
    (
        lambda: EC(classes=NAMES[:2]).fit(X, y),
        "`classes` must name 3 classes, one per column in order, got 2.",
    ),
    (
        lambda: EC(classes=["ant", "bee", "ant"]).fit(X, y),
        "`classes` must name each class once, got 'ant' more than once.",
    ),
    (
        lambda: EC(classes=np.eye(3)).fit(X, y),
        "`classes` must be a flat list with the label of each column in order, got a nested one.",
    ),
    (
        lambda: EC(classes=NAMES[::-1]).fit(pd.DataFrame(X, columns=NAMES), np.array(NAMES[::-1])[y]),
        "`classes` must be in the order of the columns, got ['cat', 'bee', 'ant'] for the columns ['ant', 'bee', "
        "'cat']. Pass `classes=['ant', 'bee', 'cat']`.",
    ),
    # weights
    (
        lambda: EC().fit(X, y, put(np.ones(60), 5, -0.5)),
        "`sample_weight` must be finite and not negative, got -0.5 in row 5. A weight counts copies of a sample: "
        "give 0 to samples that must not count.",
    ),
    (
        lambda: EC().fit(X, y, put(np.ones(60), 5, np.nan)),
        "`sample_weight` must be finite and not negative, got nan in row 5. A weight counts copies of a sample: "
        "give 0 to samples that must not count.",
    ),
    (
        lambda: EC().fit(X, y, np.zeros(60)),
        "`sample_weight` must be positive for some sample, got only zeros.",
    ),
    (
        lambda: EC().fit(X, y, np.ones(59)),
        "`sample_weight` must have shape (60,), one weight per sample, got (59,).",
    ),
    (
        lambda: EC().fit(X, y, np.ones((60, 3))),
        "`sample_weight` must have shape (60,), one weight per sample, got (60, 3).",
    ),
    (
        lambda: EC().fit(X, y, 2.0),
        "`sample_weight` must have shape (60,), one weight per sample, got ().",
    ),
    (
        lambda: EC().fit(X, y, ["heavy"] * 60),
        "`sample_weight` must hold one number per sample, but one could not be read: could not convert string to "
        "float: np.str_('heavy').",
    ),
    # probabilities
    (
        lambda: EC(input="probabilities").fit(put(P, 5, 0.25), y),
        "`X` must sum to 1 over classes, got 0.75 in row 5. If these are logits, pass `input='logits'`. If each "
        "class has its own sigmoid, use nishimori.multilabel.MultilabelCalibrator.",
    ),
    (
        lambda: EC(input="probabilities").fit(put(P, (5, 1), -0.5), y),
        "`X` must be between 0 and 1, got -0.5 in row 5, column 1. If these are logits, pass `input='logits'`.",
    ),
    (
        lambda: EC(input="probabilities").fit(put(P, (5, 1), 1.5), y),
        "`X` must be between 0 and 1, got 1.5 in row 5, column 1. If these are logits, pass `input='logits'`.",
    ),
    (
        lambda: EC(input="probabilities").fit(put(P, (5, 1), np.nan), y),
        "`X` must not contain NaN, got nan in row 5, column 1. Drop those rows or find where the model produced them.",
    ),
    (
        lambda: TS(input="probabilities").fit(put(P[:, 0], 5, 1.0005), y > 0),
        "`X` must be between 0 and 1, got 1.0005 in row 5. If these are logits, pass `input='logits'`.",
    ),
    # parameters
    (
        lambda: EC(input="scores").fit(X, y),
        "`input` must be 'logits' or 'probabilities', got 'scores'.",
    ),
    (
        lambda: EC(top_n=0).fit(X, y),
        "`top_n` must be a whole number from 1 to 2, one less than the number of classes, got 0.",
    ),
    (
        lambda: EC(top_n=3).fit(X, y),
        "`top_n` must be a whole number from 1 to 2, one less than the number of classes, got 3.",
    ),
    (
        lambda: EC(top_n=1.0).fit(X, y),
        "`top_n` must be a whole number from 1 to 2, one less than the number of classes, got 1.0.",
    ),
    (
        lambda: EC(top_n=True).fit(X, y),
        "`top_n` must be a whole number from 1 to 2, one less than the number of classes, got True.",
    ),
    (
        lambda: FixedTemperature(-1.0).fit(X, y),
        "`temperature` must be a finite positive number, got -1.0.",
    ),
    # prediction
    (
        lambda: EC().fit(X, y).predict(X[:, :2]),
        "X has 2 features, but ExpectationConsistency is expecting 3 features as input. Pass scores of the same model.",
    ),
    (
        lambda: EC().fit(pd.DataFrame(X, columns=NAMES), y).predict(pd.DataFrame(X, columns=NAMES[::-1])),
        "The feature names should match those that were passed during fit. Feature names must be in the same "
        "order as they were in fit. A wrong class order would assign probabilities to the wrong classes. Pass "
        "`X[list(calibrator.feature_names_in_)]`.",
    ),
]


@pytest.mark.parametrize(("call", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_bad_input_is_refused_in_these_words(call, message):
    with pytest.raises(InputError) as error:
        call()
    assert " ".join(str(error.value).split()) == message


NO_TEMPERATURE = [
    (
        lambda: EC().fit(X, X.argmax(axis=1)),
        "No temperature fits: all 60 samples are classified correctly, so mean confidence could reach accuracy "
        "only at T = 0. Use a larger validation set.",
    ),
    (
        lambda: EC(top_n=2).fit(X, X.argmax(axis=1)),
        "No temperature fits: all 60 samples are classified within their top 2, so the mean top-2 probability "
        "could reach accuracy only at T = 0. Use a larger validation set, or a smaller `top_n`.",
    ),
    (
        lambda: TS().fit(X, X.argmax(axis=1)),
        "No temperature fits: the true class has the largest logit in all 60 samples, so the loss falls all the "
        "way to T = 0. Use a larger validation set.",
    ),
    (
        lambda: EC().fit(X, X.argmin(axis=1)),
        "No temperature fits: accuracy 0 is not above chance (0.3333), and mean confidence stays above chance at "
        "every T. Check that the labels and the columns of the logits use the same class order.",
    ),
    (
        lambda: EC(top_n=2).fit(X, X.argmin(axis=1)),
        "No temperature fits: top-2 accuracy 0 is not above chance (0.6667), and the mean top-2 probability stays "
        "above chance at every T. Check that the labels and the columns of the logits use the same class order.",
    ),
    (
        lambda: TS().fit([[4.0, 1.0, 1.0]], [1]),
        "No temperature fits: the logit of the true class is on average 1 below the mean logit of its row, so the "
        "loss falls all the way to T = ∞: the model does no better than chance. Check that the labels and the "
        "columns of the logits use the same class order.",
    ),
    (
        lambda: EC().fit(np.ones((60, 3)), y),
        "No temperature fits: every row's unmasked logits are equal, so T has no effect. Check the model's output.",
    ),
    (
        lambda: EC().fit([[1, 1, 0], [1, 1, 0]], [0, 2]),
        "No temperature fits: accuracy 0.5 is not below 0.5, which mean confidence approaches as T → 0: equal "
        "largest logits share their probability at every temperature. Pass logits before they were rounded or "
        "quantised.",
    ),
]


@pytest.mark.parametrize(("call", "message"), NO_TEMPERATURE, ids=[message for _, message in NO_TEMPERATURE])
def test_a_missing_temperature_is_explained_in_these_words(call, message):
    with pytest.raises(NoTemperatureError) as error:
        call()
    assert str(error.value) == message


# What the message must hold, whatever its words: the argument by its name in the signature, and what it was.
NAMED = [
    (lambda: EC().fit(X, put(y, 5, np.inf)), "`y`", "inf"),
    (lambda: EC().fit(X, put(y, 5, 1e300)), "`y`", "1e+300"),
    (lambda: EC().fit(X, np.ma.masked_array(y, y == 1)), "`y`", "masked array"),
    (lambda: EC().fit(X, y, np.ma.masked_array(np.ones(60), y == 1)), "`sample_weight`", "masked array"),
    (lambda: EC().fit(X, sparse.csr_array(y[None, :])), "`y`", "sparse"),
    (lambda: EC().fit(torch.tensor(X).to_sparse(), y), "`X`", "sparse"),
    (lambda: EC().fit(X, y, np.ones(60) + 1j), "`sample_weight`", "complex"),
    (lambda: EC().fit(None, y), "`X`", "None"),
    (lambda: EC(classes=3).fit(X, y), "`classes`", "3"),
    (lambda: EC(classes=set(NAMES)).fit(X, np.array(NAMES)[y]), "`classes`", "set"),
    (lambda: EC(classes={0: "ant", 1: "bee", 2: "cat"}).fit(X, y), "`classes`", "dict"),
    (lambda: EC(classes="abc").fit(X, y), "`classes`", "'abc'"),
    (lambda: EC().fit(X, [0, None, "x"] * 20), "`y`", "None"),
    (lambda: EC().fit(X, y, [[1.0], [1.0, 2.0]]), "`sample_weight`", "could not be read"),
    (lambda: EC().fit(X, y, np.full(60, 1e-200)), "`sample_weight`", "1e-200"),
    (lambda: EC().fit(put(X, (3, 1), -1e300), y), "`X`", "-1e+300 in row 3, column 1"),
    (lambda: temperatures(X, put(y, 5, -100)), "`labels`", "-100"),
    (lambda: from_temperature(2.0, classes=["ant"]), "`classes`", "1"),
    (lambda: from_temperature(-1.0), "`T`", "-1.0"),
    (lambda: from_temperature(1.0, input="scores"), "`input`", "'scores'"),
    (lambda: EC().fit(X, y).predict(X[:, 0]), "`X`", "(60,)"),
]


@pytest.mark.parametrize(("call", "argument", "value"), NAMED, ids=[f"{argument} {value}" for _, argument, value in NAMED])
def test_the_refusal_names_the_argument_and_what_it_was(call, argument, value):
    with pytest.raises(InputError) as error:
        call()
    assert argument in str(error.value)
    assert value in str(error.value)
