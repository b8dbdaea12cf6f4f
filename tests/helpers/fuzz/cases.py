"""One case: a format and a number give a mutated file and the command that reads it, always the same ones."""

from dataclasses import dataclass
from random import Random

from fuzz.arrays import ARRAYS
from fuzz.columns import TABLES
from fuzz.damage import DAMAGE, Mutation
from fuzz.documents import DOCUMENTS
from fuzz.networks import NETWORKS
from fuzz.samples import Sample
from fuzz.texts import TEXTS

MUTATIONS: dict[str, tuple[Mutation, ...]] = {
    ending: (*DAMAGE, *own) for ending, own in (ARRAYS | TEXTS | DOCUMENTS | TABLES | NETWORKS).items()
}
_OUTPUTS = ("npz", "npz", "npy", "csv")


@dataclass(frozen=True)
class Case:
    """What is tried: files, the command that reads them, and the format of what it writes.

    With ``overwrite`` a file of that name is there before; it must survive a command that fails.
    """

    ending: str
    seed: int
    mutation: str
    sample: Sample
    command: str
    output: str
    overwrite: bool

    @property
    def repeat(self) -> str:
        """The command line that tries this case again."""
        return f"python tests/helpers/fuzz/run.py --format {self.ending} --seed {self.seed}"


def case(ending: str, seed: int, pool: list[Sample]) -> Case:
    """Case number ``seed`` of a format, from its valid samples; mutations take turns, so that a few hundred have each often."""
    mutations = MUTATIONS[ending]
    mutation = mutations[seed % len(mutations)]
    rng = Random(f"{ending} {seed}")
    original = rng.choice(pool)
    # Only fit is compared with a second reader, so it comes most often for text.
    commands = ("apply", "eval") if ending == "json" else ("fit", "fit", "eval", "apply")
    return Case(
        ending=ending,
        seed=seed,
        mutation=getattr(mutation, "__name__", "mutation"),
        command=rng.choice(commands),
        output=rng.choice(_OUTPUTS),
        overwrite=rng.random() < 0.5,
        sample=mutation(rng, original, pool),
    )
