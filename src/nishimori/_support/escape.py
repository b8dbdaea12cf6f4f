"""Names from the data as text: one function per format, so that nothing in a name is taken for markup or a command.

Each function is called once, where the text of that format is put together, and never on text that another one has returned.
`printable` is the exception: its result is plain text, which can be escaped for a format and printed once more.
"""

import codecs
import html
import re
import unicodedata

# Control characters and halves of surrogate pairs, which no format has a use for.
_CONTROLS = ("Cc", "Cs")

# What a terminal acts on or does not show: those, invisible characters such as the ones that change the direction of text, and
# the ends of lines.
_UNPRINTABLE = (*_CONTROLS, "Cf", "Zl", "Zp")

# By these a name could rearrange the line that it is in. Words of right-to-left scripts do not need them.
_DIRECTIONS = {*map(chr, range(0x202A, 0x202F)), *map(chr, range(0x2066, 0x206A))}

# In Markdown a backslash makes these plain in every dialect.
_MARKED = re.compile(r"([\\`*_{}\[\]#])")

# Dialects disagree about a backslash before these, and about a backslash before a bar in a table. An entity is never markup.
_ENTITIES = {letter: f"&#{ord(letter)};" for letter in "|~$"}

# What begins a list where it begins a line.
_LISTED = re.compile(r"^([-+]|\d{1,9}[.)])(?=\s|$)")

# What LaTeX would take for a command or, at the beginning of a row, for an argument of the end of the last row. The usual
# fonts have other characters in the places of <, > and |.
_COMMANDS = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "[": "{[}",
    "]": "{]}",
    "*": "{*}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "±": r"$\pm$",
    "−": "$-$",
    "Δ": r"$\Delta$",
}

# What stands for a sign that an encoding does not have, where Unicode does not say it.
_PLAIN = {
    "−": "-",
    "–": "-",
    "—": "-",
    "±": "+/-",
    "×": "x",
    "·": "*",
    "≤": "<=",
    "≥": ">=",
    "≠": "!=",
    "→": "->",
    "∞": "inf",
    "√": "sqrt",
    "½": "1/2",
    "²": "^2",
    "α": "alpha",
    "β": "beta",
    "Δ": "Delta",
    "δ": "delta",
    "λ": "lambda",
    "σ": "sigma",
    "“": '"',
    "”": '"',
    "‘": "'",
    "’": "'",
}

PLAIN = "nishimori.plain"
"""The name of the encoding error handler that replaces signs and letters by plainer ones; see `encodable`."""

# What XML 1.0 does not allow, besides what `printable` escapes.
_NOT_XML = re.compile("[\ufffe\uffff]")


def printable(text: str) -> str:
    r"""The text with its control characters escaped, as in ``\x1b``, so that a name from a file cannot steer the terminal."""
    return _escape(_UNPRINTABLE, text)


def encodable(text: str, encoding: str | None) -> str:
    """The text in letters that an encoding has: "-0.03 +/- 0.08" in ASCII, and a question mark for what has no plain form."""
    return text if encoding is None else text.encode(encoding, PLAIN).decode(encoding)


def _in_plain_letters(error: UnicodeError) -> tuple[str, int]:
    """The replacement for characters that cannot be encoded, and the position to continue at."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(map(_plain_letter, error.object[error.start : error.end])), error.end


def _plain_letter(letter: str) -> str:
    """A plainer form of a sign, or a letter without accents."""
    parts = "".join(_PLAIN.get(part, part) for part in unicodedata.normalize("NFKD", _PLAIN.get(letter, letter)))
    return "".join(filter(str.isascii, parts)) or ("" if unicodedata.combining(letter) else "?")


codecs.register_error(PLAIN, _in_plain_letters)


def _escape(categories: tuple[str, ...], text: str) -> str:
    """The text with the characters of some categories, and those that change its direction, escaped."""
    return "".join(
        letter.encode("unicode_escape").decode()
        if unicodedata.category(letter) in categories or letter in _DIRECTIONS
        else letter
        for letter in text
    )


def _one_line(text: str) -> str:
    """The text in one line: white space as single blanks, and control characters escaped."""
    return _escape(_CONTROLS, " ".join(text.split()))


def template_text(text: str) -> str:
    """The text for a template of HTML that escapes markup itself; it may have several lines."""
    return "\n".join(_escape(_CONTROLS, line) for line in text.split("\n"))


def html_text(text: str) -> str:
    """The text for the content or a quoted attribute of an element of HTML."""
    return html.escape(text)


def html_line(text: str) -> str:
    """The text for a line or a cell of HTML; letters that are joined by invisible characters, such as emoji, stay together."""
    return html.escape(_one_line(text))


def markdown_text(text: str) -> str:
    """The text for a line or a cell of Markdown, in any dialect and also where the renderer allows HTML."""
    escaped = html.escape(_MARKED.sub(r"\\\1", _one_line(text)), quote=False)
    for letter, entity in _ENTITIES.items():
        escaped = escaped.replace(letter, entity)
    return _LISTED.sub(lambda match: f"{match[0][:-1]}\\{match[0][-1]}", escaped)


def markdown_code(text: str, language: str) -> str:
    """A block of code that no text can end early."""
    fence = "`" * (1 + max([2, *map(len, re.findall("`+", text))]))
    return f"{fence}{language}\n{text}\n{fence}"


def latex_text(text: str) -> str:
    """The text for a cell of a LaTeX table."""
    escaped = "".join(_COMMANDS.get(letter, letter) for letter in _one_line(text))
    return re.sub("-(?=-)", "-{}", escaped)  # which would be one long dash


def xml_text(text: str) -> str:
    """The text for an XML library, which escapes markup itself."""
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", printable(text))


def workflow_text(text: str) -> str:
    """The text for a workflow command of GitHub Actions, which the end of a line would end."""
    return printable(text).replace("%", "%25")
