"""Where regard looks for data and keeps what it may throw away, on every platform."""

import os
import sys
from pathlib import Path


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


def data_folders() -> tuple[Path, ...]:
    """Folders searched for a data set by name, first one first; they need not exist."""
    named = os.environ.get("REGARD_DATA")
    return (*([Path(named)] if named else []), cache_folder() / "data")
