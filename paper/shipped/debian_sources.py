"""Files of known types from Debian's source packages: which packages, and what each file is.

The type of a file follows from its name: ``.py`` is Python because the build of a released package treats it so. Names
that several languages share are used only where the package or the whole file decides (`KINDS`); names that say nothing of
the content, such as ``.txt``, are not used. A package is chosen by a hash of its name among those that have files of a type,
so nobody's taste enters. ``source_packages.txt`` has the choice with versions and checksums, and from there on it decides:

    python debian_sources.py CACHE

chooses anew. A source package is the document: its files share authors and licence headers, and are never in two parts.
"""

import bz2
import gzip
import hashlib
import io
import lzma
import os
import pickle
import re
import sys
import tarfile
import urllib.error
import urllib.request
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

MIRROR = os.environ.get("DEBIAN_MIRROR", "")  # the address that /etc/apt/sources.list has
RELEASE = "Debian 12 (bookworm), main"
LARGEST_PACKAGE = 2_000_000  # bytes of the archive: what is larger says no more about a type and takes long to fetch
PACKAGES_PER_KIND = 80  # at first; a package whose archive the mirror no longer has is struck off, which leaves about half
MOST_FILES = 8  # of a kind from one package
LIST = Path(__file__).with_name("source_packages.txt")

# Kind: pattern of the file's name, pattern of the package or None, pattern that must occur in the file or None.
KINDS = {
    "asm": (r"\.(s|S|asm)$", None, rb"(?mi)^\s*\.?(text|globa?l|section|mov|ldr|push|jmp|ret)\b"),
    "awk": (r"\.awk$", None, None),
    "batch": (r"\.bat$", None, None),
    "bibtex": (r"\.bib$", None, rb"(?m)^\s*@\w+\s*[{(]"),
    "bmp": (r"\.bmp$", None, rb"\ABM"),
    "bzip": (r"\.bz2$", None, rb"\ABZh"),
    "c": (r"\.c$", None, rb"[;{]"),
    "clojure": (r"\.clj$", None, None),
    "cmake": (r"(\.cmake|^CMakeLists\.txt)$", None, None),
    "cobol": (r"\.(cbl|cob)$", None, rb"(?i)division"),
    "coffeescript": (r"\.coffee$", None, None),
    "cpp": (r"\.(cc|cpp|cxx)$", None, rb"[;{]"),
    "cs": (r"\.cs$", None, rb"[;{]"),
    "css": (r"\.css$", None, None),
    "csv": (r"\.csv$", None, rb"[,;]"),
    "dart": (r"\.dart$", None, None),
    "diff": (r"\.(diff|patch)$", None, rb"(?m)^(\+\+\+|@@|\*\*\*) "),
    "dockerfile": (r"^Dockerfile$", None, rb"(?m)^FROM "),
    "dtd": (r"\.dtd$", None, rb"<!"),
    "elf": (r"\.(so|o|elf)$", None, rb"\A\x7fELF"),
    "elixir": (r"\.exs?$", None, rb"(?m)^\s*(def|use|import|config|test|\[)"),
    "erlang": (r"\.erl$", None, rb"(?m)^-\w+"),
    "flac": (r"\.flac$", None, rb"\AfLaC"),
    "fortran": (r"\.(f|f90|F90|for)$", None, rb"(?i)\b(subroutine|program|module|function)\b"),
    "gif": (r"\.gif$", None, rb"\AGIF8"),
    "go": (r"\.go$", None, rb"(?m)^package "),
    "gradle": (r"\.gradle$", None, None),
    "groovy": (r"\.groovy$", None, None),
    "gzip": (r"\.gz$", None, rb"\A\x1f\x8b"),
    "haskell": (r"\.hs$", None, None),
    "html": (r"\.html?$", None, rb"(?i)<(html|body|p|div|a|head|table)\b"),
    "ico": (r"\.ico$", None, rb"\A\x00\x00\x01\x00"),
    "ini": (r"\.ini$", None, rb"(?m)^\["),
    "ipynb": (r"\.ipynb$", None, rb"\"cells\""),
    "jar": (r"\.jar$", None, rb"\APK"),
    "java": (r"\.java$", None, rb"[;{]"),
    "javabytecode": (r"\.class$", None, rb"\A\xca\xfe\xba\xbe"),
    "javascript": (r"\.js$", None, None),
    "jpeg": (r"\.jpe?g$", None, rb"\A\xff\xd8"),
    "json": (r"\.json$", None, rb"\A\s*[\[{]"),
    "julia": (r"\.jl$", None, rb"(?m)^\s*(end|using|function|module|import)\b"),
    "kotlin": (r"\.kt$", None, None),
    "latex": (r"\.tex$", None, rb"\\(documentclass|begin|section|chapter|usepackage|def|newcommand)"),
    "lisp": (r"\.lisp$", None, rb"(?m)^\("),
    "lua": (r"\.lua$", None, None),
    "m4": (r"\.m4$", None, None),
    "makefile": (r"(\.mk|^Makefile|^makefile|^GNUmakefile)$", None, None),
    "markdown": (r"\.md$", None, None),
    "matlab": (r"\.m$", r"^octave-", None),
    "midi": (r"\.midi?$", None, rb"\AMThd"),
    "mp3": (r"\.mp3$", None, rb"\A(ID3|\xff[\xe2-\xff])"),
    "objectivec": (r"\.(m|mm)$", r"(?i)gnustep|\.app$|\.framework$|objc|cocoa", rb"@(implementation|interface|end)"),
    "ocaml": (r"\.ml$", r"ocaml|coq|why3|haxe|camlp|unison|lwt", None),
    "ogg": (r"\.og[ga]$", None, rb"\AOggS"),
    "otf": (r"\.otf$", None, rb"\AOTTO"),
    "pascal": (r"\.pas$", None, rb"(?i)\b(unit|program|begin)\b"),
    "pdf": (r"\.pdf$", None, rb"\A%PDF"),
    "perl": (r"\.(pm|pl)$", r"-perl$", rb"(?m)^\s*(use|package|sub|my|our)\b"),
    "php": (r"\.php$", None, rb"<\?php"),
    "png": (r"\.png$", None, rb"\A\x89PNG"),
    "po": (r"\.po$", None, rb"(?m)^msgid"),
    "postscript": (r"\.(ps|eps)$", None, rb"\A%!"),
    "powershell": (r"\.ps1$", None, None),
    "prolog": (r"\.(pl|pro|plt)$", r"prolog|logtalk|^eye$|pl-|ppl|yap", rb"(?m)(:-|\.\s*$)"),
    "proto": (r"\.proto$", None, rb"\b(message|service|enum|syntax)\b"),
    "python": (r"\.py$", None, None),
    "r": (r"\.R$", None, None),
    "rdf": (r"\.rdf$", None, rb"(?i)<rdf"),
    "rst": (r"\.rst$", None, None),
    "rtf": (r"\.rtf$", None, rb"\A\{\\rtf"),
    "ruby": (r"\.rb$", None, None),
    "rust": (r"\.rs$", None, None),
    "scala": (r"\.scala$", None, None),
    "scss": (r"\.scss$", None, None),
    "shell": (r"\.sh$", None, None),
    "sql": (r"\.sql$", None, rb"(?i)\b(select|create|insert|drop|alter|update)\b"),
    "sqlite": (r"\.(sqlite3?|db)$", None, rb"\ASQLite format 3"),
    "svg": (r"\.svg$", None, rb"<svg"),
    "swift": (r"\.swift$", None, None),
    "tar": (r"\.tar$", None, rb"ustar"),
    "tcl": (r"\.tcl$", None, None),
    "textproto": (r"\.(textproto|pbtxt|prototxt)$", None, None),
    "tga": (r"\.tga$", None, None),
    "tiff": (r"\.tiff?$", None, rb"\A(II\*\x00|MM\x00\*)"),
    "toml": (r"\.toml$", None, None),
    "ttf": (r"\.ttf$", None, rb"\A(\x00\x01\x00\x00|true)"),
    "typescript": (r"\.ts$", None, rb"\A(?!\s*<)(?s:.*)\b(import|export|const|let|function|declare|interface)\b"),
    "vba": (r"\.(vba|bas|frm)$", None, rb"(?im)^(attribute vb_|option explicit|private sub|public sub|sub \w+\s*\()"),
    "verilog": (r"\.v$", None, rb"\bendmodule\b"),
    "vhdl": (r"\.vhdl?$", None, rb"(?i)\b(entity|architecture|package)\b"),
    "vue": (r"\.vue$", None, rb"<(template|script)"),
    "wav": (r"\.wav$", None, rb"\ARIFF"),
    "webp": (r"\.webp$", None, rb"\ARIFF....WEBP"),
    "woff": (r"\.woff$", None, rb"\AwOFF"),
    "woff2": (r"\.woff2$", None, rb"\AwOF2"),
    "xml": (r"\.xml$", None, rb"\A(\xef\xbb\xbf)?\s*<"),
    "xz": (r"\.xz$", None, rb"\A\xfd7zXZ"),
    "yaml": (r"\.ya?ml$", None, rb"(?m)^[\w\"' -]+:"),
    "zig": (r"\.zig$", None, None),
    "zip": (r"\.zip$", None, rb"\APK\x03\x04"),
}
WHOLE_NAMES = {"CMakeLists.txt", "Dockerfile", "Makefile", "makefile", "GNUmakefile"}
# Templates are written in two languages; what a test expects is often not what its name says.
DECEPTIVE = re.compile(r"(?i)template|expected|fixture|testdata|test-data|golden")
PATTERNS = {
    kind: (re.compile(name), package and re.compile(package), content and re.compile(content))
    for kind, (name, package, content) in KINDS.items()
}


def digest(text):
    """A number that orders names at random, the same on every machine."""
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def kinds_by_name(name):
    """Kinds that a file of this name could be."""
    return tuple(kind for kind, (pattern, _, _) in PATTERNS.items() if pattern.search(name))


def kind_of(path, package):
    """The kind that a file's name tells, or None where none or two fit, or where the folder tells that the name may deceive."""
    name = path.rsplit("/", 1)[-1]
    # Only endings and a few whole names matter: the same question is not asked ten million times.
    name = name if name in WHOLE_NAMES else "x." + name.rpartition(".")[2] if "." in name else ""
    fits = [kind for kind in kinds_by_name(name) if PATTERNS[kind][1] is None or PATTERNS[kind][1].search(package)]
    return fits[0] if len(fits) == 1 and not DECEPTIVE.search(path) else None


def fetch(url, path):
    """Download once."""
    if not path.exists():
        if not MIRROR:
            sys.exit("Set DEBIAN_MIRROR to the address of a mirror of Debian, as in /etc/apt/sources.list.")
        part = path.with_suffix(".part")
        with urllib.request.urlopen(url, timeout=120) as answer:  # noqa: S310  one mirror, which the user names
            part.write_bytes(answer.read())
        part.rename(path)
    return path


def archives(folder):
    """Of each source package: version, path of its upstream archive in the pool, checksum, size."""
    found = {}
    text = lzma.decompress(
        fetch(f"{MIRROR}/dists/bookworm/main/source/Sources.xz", folder / "Sources.xz").read_bytes()
    ).decode()
    for entry in text.split("\n\n"):
        fields = dict(re.findall(r"(?m)^([\w-]+):[ ]?((?:.*)(?:\n .*)*)", entry))
        for line in fields.get("Checksums-Sha256", "").splitlines():
            checksum, size, name = line.split() if len(line.split()) == 3 else ("", 0, "")
            if re.search(r"(\.orig|_[^-]*)\.tar\.(gz|xz|bz2)$", name) and int(size) <= LARGEST_PACKAGE:
                found[fields["Package"]] = (fields["Version"], f"{fields['Directory']}/{name}", checksum, int(size))
    return found


def choose(folder):
    """Write ``source_packages.txt``: packages in the order of their hashes until each kind has enough, the rarest first."""
    known = archives(folder)
    having = defaultdict(set)
    index = fetch(f"{MIRROR}/dists/bookworm/main/Contents-source.gz", folder / "Contents-source.gz")
    for line in gzip.decompress(index.read_bytes()).decode(errors="replace").splitlines():
        path, _, packages = line.rpartition("\t")
        for package in packages.split(","):
            kind = kind_of(path, package) if package in known else None
            if kind:
                having[kind].add(package)
    chosen = set()
    for kind in sorted(having, key=lambda kind: (len(having[kind]), kind)):
        order = sorted(having[kind], key=digest)
        missing = PACKAGES_PER_KIND - len(having[kind] & chosen)
        chosen.update([package for package in order if package not in chosen][: max(missing, 0)])
    lines = [f"{package} {' '.join(known[package][:3])}" for package in sorted(chosen)]
    LIST.write_text("\n".join(lines) + "\n")


def fetch_archive(folder, line):
    """The archive of one line of the list, checked; None where the mirror has it no longer."""
    package, _, path, checksum = line.split()
    archive = folder / "archives" / f"{package}.{path.rsplit('.', 1)[-1]}"
    try:
        fetch(f"{MIRROR}/{path}", archive)
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return None
        raise
    assert hashlib.sha256(archive.read_bytes()).hexdigest() == checksum, package
    return archive


def fetch_all(folder):
    """Download every archive of the list: (package, archive)."""
    (folder / "archives").mkdir(exist_ok=True, parents=True)
    lines = LIST.read_text().splitlines()
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda line: fetch_archive(folder, line), lines))
    return [(line.split()[0], archive) for line, archive in zip(lines, found, strict=True) if archive]


def files_of(package, archive):
    """Files of one package, by kind: up to `MOST_FILES` of each, in the order of hashes of their paths, as (path, content)."""
    whole = io.BytesIO({".gz": gzip, ".xz": lzma, ".bz2": bz2}[archive.suffix].decompress(archive.read_bytes()))
    found = defaultdict(list)
    with tarfile.open(fileobj=whole) as tar:
        members = [member for member in tar.getmembers() if member.isfile() and 0 < member.size < 1_000_000]
        kinds = {member: kind for member in members if (kind := kind_of(member.name, package))}
        for member in sorted(kinds, key=lambda member: digest(f"{package}/{member.name}")):
            kind = kinds[member]
            if len(found[kind]) < MOST_FILES:
                content = tar.extractfile(member).read()
                pattern = PATTERNS[kind][2]
                # A word that confirms the kind stands early in a file; searching megabytes for it takes long.
                if pattern is None or pattern.search(content[:50_000]):
                    found[kind].append((member.name, content))
    return found


def files(folder, kinds, per_package):
    """Up to ``per_package`` files of each of ``kinds`` from each package: (kind, package, path, content), in a fixed order."""
    (folder / "files").mkdir(exist_ok=True)
    for package, archive in fetch_all(folder):
        kept = folder / "files" / f"{package}.pickle"  # three models read the same files
        if not kept.exists():
            kept.write_bytes(pickle.dumps(dict(files_of(package, archive))))
        found = pickle.loads(kept.read_bytes())  # noqa: S301  written above
        for kind in sorted(set(found) & set(kinds)):
            for path, content in found[kind][:per_package]:
                yield kind, package, path, content


if __name__ == "__main__":
    choose(Path(sys.argv[1]))
    available = {package for package, _ in fetch_all(Path(sys.argv[1]))}
    LIST.write_text("".join(line for line in LIST.read_text().splitlines(keepends=True) if line.split()[0] in available))
