"""The largest private memory of commands of ``nishimori`` that run one after another, in bytes."""

import sys

from watching import private_peak, run


def main(commands, kept=None):
    """``kept`` is the size up to which unpacked files stay in memory, the usual one by default."""
    from nishimori import cli
    from nishimori._files import spooled_scores

    if kept is not None:
        spooled_scores.KEPT = kept

    def work():
        for words in commands:
            sys.argv = ["nishimori", *words]
            try:
                cli.main()
            except SystemExit as end:
                if end.code:
                    raise

    return private_peak(work)


run(main)
