"""Calibrate from a database: rows of your own, with groups and clusters, that are never all in memory.

Any object that gives its batches again each time it is iterated over can be passed in place of logits and labels. A batch is a
dictionary. Here it is the result of a query with sqlite3: answers of a model for patients of two hospitals. The samples of one
patient are not independent, so patients are clusters, and each hospital gets a temperature of its own. The picture needs
``pip install 'nishimori[plot]'``.
"""

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from tempfile import TemporaryDirectory

import numpy as np

import nishimori
from nishimori import plot

CLASSES = 3


@dataclass(frozen=True)
class Answers:
    """The answers in a database, 1,000 at a time."""

    path: str

    def __iter__(self):
        """One reading; the connection is closed at its end."""
        with closing(sqlite3.connect(self.path)) as database:
            cursor = database.execute("SELECT z_0, z_1, z_2, label, hospital, patient FROM answers ORDER BY rowid")
            while rows := cursor.fetchmany(1000):
                *columns, labels, hospitals, patients = zip(*rows, strict=True)
                yield {
                    "logits": np.column_stack(columns),
                    "labels": np.array(labels),
                    "groups": hospitals,
                    "clusters": patients,
                }


def draw(path, n_patients=600, seed=0):
    """Write a database of five answers per patient, which are overconfident in the north and nearly right in the south."""
    rng = np.random.default_rng(seed)
    patients = np.repeat(np.arange(n_patients), 5)
    north = patients % 2 == 0
    logits = 3 * rng.normal(size=(len(patients), CLASSES))
    labels = (logits / np.where(north, 2.5, 1.2)[:, None] + rng.gumbel(size=logits.shape)).argmax(axis=1)
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE answers (z_0 REAL, z_1 REAL, z_2 REAL, label INT, hospital TEXT, patient INT)")
        hospitals = np.where(north, "north", "south").tolist()
        answers = zip(*logits.T.tolist(), labels.tolist(), hospitals, patients.tolist(), strict=True)
        database.executemany("INSERT INTO answers VALUES (?, ?, ?, ?, ?, ?)", answers)
        database.commit()


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        draw(f"{folder}/answers.db")
        draw(f"{folder}/later.db", seed=1)
        answers, later = (nishimori.rows(Answers(f"{folder}/{name}.db")) for name in ("answers", "later"))
        found = nishimori.temperatures(answers)
        print(f"{found.n_samples} answers, T = {found.ec:.2f} ± {found.ec_se:.2f}")
        by_hospital = nishimori.GroupConsistency(by="groups").fit(answers)
        for name, T in zip(by_hospital.map_.groups, by_hospital.map_.temperatures, strict=True):
            print(f"{name}: T = {T:.2f}")
        print(nishimori.compare(answers, test_logits=later, methods=("none", "ec", by_hospital)))

        one = nishimori.ExpectationConsistency().fit(answers)
        fitted = {"one temperature": one, "one per hospital": by_hospital}
        gaps = {name: nishimori.group_gaps(later, by="groups", calibrator=each) for name, each in fitted.items()}
        plot.group_gaps(gaps).figure.savefig("rows_from_sqlite.png")
