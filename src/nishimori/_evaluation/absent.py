"""What a kind of data cannot tell, for those who show all the rest."""

from nishimori._rows.question import question
from nishimori._rows.rows import Rows


@question("has no report")
def absent_parts(data: Rows) -> list[dict[str, str]]:  # noqa: ARG001 - rows have all parts
    """List what a report does not have of these data, as ``what``, and ``why``."""
    return []
