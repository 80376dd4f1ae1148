"""Where regard looks for data and keeps what it may throw away, on every platform."""

import os
import re
import sys
from pathlib import Path

from regard.run_folder.drafts import DRAFT

# Names of what is kept: a digest, a digest of a kind, or a draft that was left behind.
ENTRY = re.compile(rf"[0-9a-f]{{32}}(\.npy)?|[a-z]+-[0-9a-f]+\.json|{DRAFT.pattern}")


def cache_folder() -> Path:
    """The user's cache for regard, made by whoever first writes there."""
    if named := os.environ.get("XDG_CACHE_HOME"):
        return Path(named) / "regard"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "regard"
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return (Path(local) if local else Path.home() / "AppData" / "Local") / "regard" / "cache"
    return Path.home() / ".cache" / "regard"


def cached(folder: Path) -> list[Path]:
    """What regard put into a folder of its cache, and nothing that others put there."""
    found = sorted(folder.iterdir()) if folder.is_dir() else []
    return [path for path in found if ENTRY.fullmatch(path.name) and not path.is_symlink()]


def data_folders() -> tuple[Path, ...]:
    """Folders searched for a data set by name, first one first; they need not exist."""
    named = os.environ.get("REGARD_DATA")
    return (*([Path(named)] if named else []), cache_folder() / "data")
