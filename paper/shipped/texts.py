"""Short pieces of text in known languages, from Debian packages: messages of programs, and paragraphs of manuals.

A language is that of the catalogue or manual. No model takes part in the choice of a row; what is left out is left out because
of the locale's name, the script or the English original.
"""

import hashlib
import html
import re
import struct
import subprocess
import unicodedata
from collections import defaultdict
from functools import cache
from pathlib import Path

WORDS = (3, 20)
# Chinese, Japanese, Thai, Lao, Khmer, Burmese and Tibetan scripts have no spaces between words: characters are counted.
CHARACTERS = (6, 60)
NO_SPACES = {"zh", "ja", "th", "lo", "km", "my", "dz", "bo"}
PER_DOCUMENT = 12
FEWEST_DOCUMENTS, FEWEST_ROWS = 8, 60

# Locales that name one language for all models. Serbian has two scripts: its Latin catalogues (sr@latin) are left out with all
# other locales with a modifier (valencia, cyrillic, shaw), because not every model has both. So are English variants: English
# rows are the original messages.
SAME = {"nb": "no", "nb_NO": "no", "fil": "tl", "kmr": "ku"}
LEFT_OUT = {"mo", "ro_MD", "pa_PK", "az_IR", "de_CH", "en", "C", "LINGUAS"}
# Catalogues of names of places.
NAMES = ("timezones", "locations")
# The script in which most letters must be written, as the first word of a character's Unicode name; Latin without an entry.
SCRIPTS = {
    "ARABIC": "ar fa ur ps ug ckb sd",
    "CYRILLIC": "ru uk be bg sr mk kk ky mn tg tt ba cv ce",
    "GREEK": "el",
    "HEBREW": "he yi",
    "ARMENIAN": "hy",
    "GEORGIAN": "ka",
    "DEVANAGARI": "hi mr ne mai sa kok",
    "BENGALI": "bn as",
    "GURMUKHI": "pa",
    "GUJARATI": "gu",
    "ORIYA": "or",
    "TAMIL": "ta",
    "TELUGU": "te",
    "KANNADA": "kn",
    "MALAYALAM": "ml",
    "SINHALA": "si",
    "THAI": "th",
    "LAO": "lo",
    "KHMER": "km",
    "MYANMAR": "my",
    "TIBETAN": "dz bo",
    "ETHIOPIC": "am ti",
    "HANGUL": "ko",
    "CJK": "zh",
    "HIRAGANA KATAKANA CJK": "ja",
    "THAANA": "dv",
}
SCRIPT_OF = {language: set(script.split()) for script, all_ in SCRIPTS.items() for language in all_.split()}

NOISE = re.compile(
    r"https?://\S+|\S+@\S+\.\S+"  # addresses
    r"|<[^<>]*>|&[a-zA-Z]+;|&#\d+;"  # mark-up
    r"|%\([^)]*\)[a-zA-Z]|%[-+ #0-9.*$'lhqjzt]*[a-zA-Z%]|\{[^{}]*\}|\$\{?\w+\}?|\\[nt]"  # what programs insert
    r"|(?<!\w)--?[a-zA-Z][-\w=]*|\S*/\S*/\S*|\S+\.(?:h|c|py|xml|html|conf|txt|so|mo|po)\b"  # options and file names
)


def language_of(locale):
    """The language code of a locale's name, or None for one that is left out."""
    if "@" in locale or locale in LEFT_OUT or locale.startswith("en"):
        return None
    return SAME.get(locale) or SAME.get(locale.partition("_")[0], locale.partition("_")[0])


def cleaned(text):
    """The text without what programs insert, mark-up, marks of keyboard shortcuts, and words without letters."""
    text = unicodedata.normalize("NFC", NOISE.sub(" ", html.unescape(text)))
    text = re.sub(r"\([_&]\w\)", "", text).replace("_", "").replace("&", "")
    words = [each for each in text.split() if any(map(str.isalpha, each))]
    return " ".join(words)


def cut(text, language, most=None):
    """At most the first 20 words of a text, 60 characters without spaces; None if it is too short."""
    if language in NO_SPACES:
        least, limit = CHARACTERS
        limit = limit if most is None else max(least, round(limit * most / WORDS[1]))
        piece = text[:limit]
        return piece if sum(map(str.isalpha, piece)) >= least else None
    least, limit = WORDS
    words = text.split()[: most or limit]
    return " ".join(words) if len(words) >= least else None


def in_script(text, language):
    """Whether most letters are of the script of the language."""
    wanted = SCRIPT_OF.get(language, {"LATIN"})
    letters = [script(each) for each in text if each.isalpha()]
    return 2 * sum(each in wanted for each in letters) > len(letters)


@cache
def script(letter):
    """The first word of a letter's Unicode name."""
    return unicodedata.name(letter, "?").split()[0]


def legible(text):
    """Whether the text is not UTF-8 that somebody has read as Latin-1 and written again."""
    try:
        return text.encode("latin-1").decode("utf-8") == text
    except UnicodeError:
        return True


def translated(text, original):
    """Whether less than half of the words are those of the English original."""
    english = set(original.casefold().split())
    words = text.casefold().split()
    return 2 * sum(each in english for each in words) < len(words)


def messages(path):
    """Pairs (original, translation) of a compiled catalogue, of the GNU format."""
    data = Path(path).read_bytes()
    order = "<" if data[:4] == b"\xde\x12\x04\x95" else ">"
    _, n, originals, translations = struct.unpack(f"{order}4I", data[4:20])
    found = []
    for i in range(n):
        pair = []
        for table in (originals, translations):
            length, start = struct.unpack(f"{order}2I", data[table + 8 * i : table + 8 * i + 8])
            pair.append(data[start : start + length])
        found.append(pair)
    header = next((b for a, b in found if not a), b"").decode("latin-1")
    charset = re.search(r"charset=([-\w]+)", header)
    name = charset.group(1) if charset else "utf-8"
    # Of a message with plural forms the first form; a context comes before the byte 4.
    return [
        tuple(each.split(b"\0")[0].split(b"\4")[-1].decode(name, "replace") for each in pair)
        for pair in found
        if pair[0] and pair[1]
    ]


def unpack(packages, folder, pattern):
    """Files of Debian packages that match a pattern, once."""
    for package in sorted(Path(packages).glob("*.deb")):
        target = Path(folder) / package.stem
        if target.exists():
            continue
        target.mkdir(parents=True)
        tar = subprocess.run(["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE, check=True)
        # tar has status 2 where nothing matches.
        subprocess.run(
            ["tar", "-x", "-C", target, "--wildcards", *pattern], input=tar.stdout, stderr=subprocess.DEVNULL, check=False
        )


def rows_of_messages(folder):
    """(language, document, text): messages of all catalogues under a folder; a document is a catalogue."""
    for path in sorted(Path(folder).rglob("LC_MESSAGES/*.mo")):
        locale, domain = path.parts[-3], path.stem
        language = language_of(locale)
        if language is None or any(each in domain for each in NAMES):
            continue
        # A few times more than are kept of a catalogue; which, a hash says.
        for original, translation in sorted(messages(path), key=lambda each: digest(locale, *each))[: 5 * PER_DOCUMENT]:
            if "redits" in original or "Launchpad" in translation:
                continue  # names of translators
            first = cut(cleaned(original), "en")
            if first is not None and locale in ("de", "fr", "es", "sv", "uk", "zh_CN"):
                yield "en", f"{domain}/en", first
            if translation == original:
                continue
            text = cut(cleaned(translation), language)
            if text is not None and legible(text) and in_script(text, language) and translated(text, cleaned(original)):
                yield language, f"{domain}/{locale}", text


def paragraphs(path):
    """The paragraphs of a page of a manual in HTML or Mallard."""
    data = path.read_text(encoding="utf-8", errors="replace")
    return [
        " ".join(re.sub(r"<[^<>]*>", "", each).split()) for each in re.findall(r"<p(?:\s[^>]*)?>(.*?)</p>", data, re.DOTALL)
    ]


def rows_of_manuals(folder):
    """(language, document, text): the first 3 to 20 words of paragraphs, as many as a hash says; a document is a page."""
    pages = [(each, each.parts[-3], each.stem) for each in Path(folder).rglob("share/help/*/*/*.page")]
    pages += [(each, each.parts[-2], each.stem) for each in Path(folder).rglob("installation-guide-amd64/*/*.html")]
    english = {each for path, locale, _ in pages if locale in ("C", "en") for each in paragraphs(path)}
    for path, locale, page in sorted(pages):
        language = "en" if locale in ("C", "en") else language_of(locale)
        if language is None:
            continue
        for paragraph in paragraphs(path):
            if language != "en" and paragraph in english:
                continue
            most = WORDS[0] + digest(paragraph)[0] % (WORDS[1] - WORDS[0] + 1)
            text = cut(cleaned(paragraph), language, most)
            if text is not None and in_script(text, language):
                yield language, f"{path.parts[-4]}/{page}/{locale}", text


def digest(*words):
    """A hash of words: it stands for chance, so that a second run chooses the same rows."""
    return hashlib.sha256("\n".join(words).encode()).digest()


def sample(rows, per_language):
    """One row for each language and text; at most so many of a document and of a language; no language with few documents."""
    once = {}
    for language, document, text in sorted(set(rows), key=lambda each: digest(*each)):
        once.setdefault((language, text.casefold()), (language, document, text))
    languages, of_document = defaultdict(list), defaultdict(int)
    for row in once.values():
        of_document[row[1]] += 1
        if of_document[row[1]] <= PER_DOCUMENT:
            languages[row[0]].append(row)
    return [
        row
        for language, found in sorted(languages.items())
        if len(found) >= FEWEST_ROWS and len({each[1] for each in found}) >= FEWEST_DOCUMENTS
        for row in found[:per_language]
    ]
