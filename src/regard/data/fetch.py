"""Downloads from the official source: resumed where they stopped, and checked before use."""

import hashlib
import http.client
import os
import urllib.error
import urllib.request
from pathlib import Path

from regard.data.images import ImageSet
from regard.data.registry import Known, Remote, home, how_to_get
from regard.errors import DataIssue
from regard.progress import progress

PART = ".part"  # ends the name of a file that is not complete
PIECE = 2**18  # bytes
TRIES = 3  # before a connection that keeps breaking is given up
TIMEOUT = 30  # seconds without an answer


def fetch(known: Known, *, base: str = "") -> ImageSet:
    """Download a set to the user's cache folder, and read it once to see that it is whole.

    `base` is the address of a mirror, used in place of the official one.
    """
    folder = home(known)
    address = (base or known.address).rstrip("/") + "/"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for remote in known.files:
            download(remote, address + remote.name, folder / remote.name)
    except Unreachable as trouble:
        raise DataIssue(
            f"{trouble}; without a network, {by_hand(known)}", kind="download"
        ) from None
    except OSError as trouble:
        raise DataIssue(
            f"{folder}: {trouble.strerror or trouble}", folder, kind="download"
        ) from None
    archive = folder / known.files[0].name
    return known.read(folder if known.holds(folder) else archive)


def by_hand(known: Known) -> str:
    """What to put where, in words."""
    return how_to_get(known).partition(", or ")[2]


class Unreachable(Exception):
    """The server did not answer, or not with the file."""


def download(remote: Remote, address: str, path: Path) -> None:
    """One file to its place; nothing to do if it is there already and right."""
    if path.is_file() and matches(remote, path):
        return
    part = path.with_name(path.name + PART)
    for left in reversed(range(TRIES)):
        had = size_of(part)
        try:
            receive(remote, address, part)
            break
        except (http.client.HTTPException, ConnectionError, TimeoutError) as trouble:
            # A try that brought something is followed by another, from where it stopped.
            if not left or size_of(part) == had:
                raise Unreachable(stopped(remote, address, part, trouble)) from None
        except urllib.error.HTTPError as trouble:
            raise Unreachable(f"{address} answers {trouble.code} {trouble.reason}") from None
        except urllib.error.URLError as trouble:
            raise Unreachable(stopped(remote, address, part, trouble.reason)) from None
    if not matches(remote, part):
        size = size_of(part)
        part.unlink()
        raise DataIssue(
            f"{address} is not the file it should be: {size} bytes of {remote.bytes}, or another "
            "checksum; it was deleted, so try again or use another mirror",
            kind="download",
        )
    os.replace(part, path)


def stopped(remote: Remote, address: str, part: Path, reason: object) -> str:
    size = size_of(part)
    far = f"stopped at {size} of {remote.bytes} bytes, and the same command goes on from there"
    return f"{address} {far if size else 'cannot be reached'} ({reason})"


def receive(remote: Remote, address: str, part: Path) -> None:
    """Ask for what is missing, and add it to the file."""
    had = size_of(part)
    if had > remote.bytes:
        part.unlink()
        had = 0
    if had == remote.bytes:
        return
    request = urllib.request.Request(address, headers={"User-Agent": "regard"})
    if had:
        request.add_header("Range", f"bytes={had}-")
    with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
        goes_on = answer.status == http.client.PARTIAL_CONTENT and answer.headers.get(
            "Content-Range", ""
        ).startswith(f"bytes {had}-")
        had = had if goes_on else 0  # a server may send the whole file all the same
        with (
            part.open("ab" if goes_on else "wb") as out,
            progress(remote.name, remote.bytes, done=had) as advance,
        ):
            # Never more than one byte too many, whatever the server sends.
            while piece := answer.read(min(PIECE, remote.bytes + 1 - had)):
                out.write(piece)
                had += len(piece)
                advance(len(piece))
    if had < remote.bytes:
        raise http.client.IncompleteRead(b"", remote.bytes - had)


def matches(remote: Remote, path: Path) -> bool:
    """Whether a file has the size and checksum that the authors publish."""
    if size_of(path) != remote.bytes:
        return False
    with path.open("rb") as stream:
        text = hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False))
    return text.hexdigest() == remote.md5


def size_of(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
