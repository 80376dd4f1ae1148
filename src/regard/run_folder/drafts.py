"""Files and folders written whole or not at all: as a draft beside their place, then put there.

Whoever writes a draft holds a lock on it, which goes with the process. So the next one can tell a
draft that is being written from one that a killed process left behind, and clears the latter.
Nothing is written through a link that lies where a file should be: a folder that comes from
elsewhere could lead out of itself by one.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from regard.errors import UserError

DRAFT = re.compile(r"\.draft-\d+-[0-9a-f]{8}-.+")  # of a process by its number, and what it will be
PLAIN = getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
UNLINKED = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)  # nor wait for a pipe


def write_whole(path: Path, data: bytes) -> None:
    """Write beside, make sure it is on the disk, then put it in place in one step."""
    with drafts_of(path) as (draft,):
        draft.write_bytes(data)


@contextmanager
def drafts_of(*paths: Path) -> Iterator[list[Path]]:
    """Empty files to write to, which take these names together once all are written."""
    held: list[tuple[Path, BinaryIO]] = []
    try:
        held.extend(new_draft(path) for path in paths)
        yield [draft for draft, _ in held]
        for (draft, file), path in zip(held, paths, strict=True):
            os.fsync(file.fileno())
            if os.name == "nt":  # which renames nothing that is open
                file.close()
            os.replace(draft, path)
        for folder in {path.parent for path in paths}:
            sync(folder)
    finally:
        for draft, file in held:
            draft.unlink(missing_ok=True)
            file.close()


def new_draft(path: Path) -> tuple[Path, BinaryIO]:
    """A new file beside a place, held by this process."""
    while True:
        draft = name_for(path)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | PLAIN  # exclusive: never one that is there
        file = os.fdopen(os.open(draft, flags, 0o666), "r+b")
        if held_at(draft, file.fileno()):
            return draft, file
        file.close()


@contextmanager
def draft_folder(path: Path) -> Iterator[Path]:
    """A folder to fill beside a place, gone in the end unless it was given its name.

    What killed processes left in the folder around it is cleared first.
    """
    clear_drafts(path.parent)
    while True:
        draft = name_for(path)
        draft.mkdir(mode=0o700)
        if os.name == "nt":  # which locks no folders
            descriptor = None
            break
        with suppress(FileNotFoundError):
            descriptor = os.open(draft, os.O_RDONLY | PLAIN)
            if held_at(draft, descriptor):
                break
            os.close(descriptor)
    try:
        yield draft
    finally:
        shutil.rmtree(draft, ignore_errors=True)
        if descriptor is not None:
            os.close(descriptor)


def name_for(path: Path) -> Path:
    return path.with_name(f".draft-{os.getpid()}-{secrets.token_hex(4)}-{path.name}")


def held_at(draft: Path, descriptor: int) -> bool:
    """Take hold of a draft, unless another took it for one left behind while it had no lock yet."""
    if os.name != "nt":
        lock(descriptor)
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(draft))
    except FileNotFoundError:
        return False


def clear_drafts(folder: Path) -> None:
    """Take away what processes that are gone left half written in a folder."""
    try:
        names = [name for name in os.listdir(folder) if DRAFT.fullmatch(name)]
    except OSError:
        return
    for name in names:
        with suppress(OSError):
            clear_if_dead(folder / name)


def clear_if_dead(draft: Path) -> None:
    """Remove a draft that nobody holds."""
    if os.name == "nt" or draft.is_symlink():
        remove(draft)  # Windows does not remove what is open
        return
    descriptor = os.open(draft, os.O_RDONLY | UNLINKED | PLAIN)
    try:
        if lock(descriptor):
            remove(draft)
    finally:
        os.close(descriptor)


def remove(path: Path) -> None:
    """Remove a file, a folder with all that is in it, or a link and nothing behind it."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
    else:
        shutil.rmtree(path, ignore_errors=True)


def open_own(path: Path, flags: int) -> BinaryIO:
    """Open a file to write in place, unless it is a link or no file at all."""
    if path.is_symlink():
        raise UserError(link_words(path))
    try:
        descriptor = os.open(path, flags | UNLINKED | PLAIN, 0o666)
    except OSError:
        if path.is_symlink():  # since just now
            raise UserError(link_words(path)) from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise UserError(f"cannot write {path}: it is no file")
    return os.fdopen(descriptor, "r+b")


def link_words(path: Path) -> str:
    return f"{path} is a link, and a run is written nowhere but into its own folder: remove it"


def lock(descriptor: int, *, wait: bool = False) -> bool:
    """Take the lock of what is open, if nobody has it or gives it back; it goes with the process.

    A file system that has no locks gives none.
    """
    try:
        if os.name == "nt":
            import msvcrt

            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        return False
    return True


def sync(folder: Path) -> None:
    """Make sure a renamed entry survives a power cut; Windows has no such call."""
    if os.name != "nt":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def in_a_sentence(path: Path) -> Iterator[None]:
    """What the system refuses, in a sentence that names the path."""
    try:
        yield
    except OSError as trouble:
        raise UserError(f"cannot write {path}: {trouble.strerror or trouble}") from None
