"""Files of one type from Debian's binary packages: documents and sounds, which source packages have too rarely.

Packages are chosen by a hash of their names among those that have such files; a list with versions and checksums then decides.
"""

import gzip
import io
import lzma
import re
import subprocess
import tarfile
from concurrent.futures import ThreadPoolExecutor

from debian_sources import MIRROR, digest, fetch, fetch_archive

LARGEST_PACKAGE = 3_000_000  # bytes


def choose(folder, path, endings, n_packages):
    """Write the list at ``path``; packages that the mirror no longer has are struck off."""
    (folder / "archives").mkdir(exist_ok=True, parents=True)
    index = fetch(f"{MIRROR}/dists/bookworm/main/Contents-all.gz", folder / "Contents-all.gz")
    packages = fetch(f"{MIRROR}/dists/bookworm/main/binary-all/Packages.xz", folder / "Packages.xz")
    known = {}
    for entry in lzma.decompress(packages.read_bytes()).decode().split("\n\n"):
        fields = dict(re.findall(r"(?m)^([\w-]+): (.*)$", entry))
        if fields and int(fields["Size"]) <= LARGEST_PACKAGE:
            known[fields["Package"]] = " ".join(fields[key] for key in ("Package", "Version", "Filename", "SHA256"))
    having = set()
    for line in gzip.decompress(index.read_bytes()).decode(errors="replace").splitlines():
        name, _, owners = line.rpartition(" ")
        if name.rstrip().endswith(endings):
            having.update(owner.rsplit("/", 1)[-1] for owner in owners.split(","))
    lines = [known[package] for package in sorted(having & known.keys(), key=digest)[:n_packages]]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda line: fetch_archive(folder, line), lines))
    path.write_text("".join(line + "\n" for line, archive in zip(lines, found, strict=True) if archive))


def tree(archive):
    """The files of a package, as a tar archive."""
    content = subprocess.run(["dpkg-deb", "--fsys-tarfile", archive], capture_output=True, check=True).stdout
    return tarfile.open(fileobj=io.BytesIO(content))


def files(folder, path, endings, per_package):
    """Up to ``per_package`` files from each package of a list: (package, path, content), in a fixed order."""
    (folder / "archives").mkdir(exist_ok=True, parents=True)
    for line in path.read_text().splitlines():
        package = line.split()[0]
        with tree(fetch_archive(folder, line)) as tar:
            members = [member for member in tar.getmembers() if member.isfile() and member.name.endswith(endings)]
            for member in sorted(members, key=lambda member: digest(f"{package}/{member.name}"))[:per_package]:
                content = tar.extractfile(member).read()
                yield package, member.name, gzip.decompress(content) if member.name.endswith(".gz") else content
