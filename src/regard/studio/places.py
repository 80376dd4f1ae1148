"""Which data the page may name: sets by name, and what lies below folders the studio was given.

    places = Places(Path("runs"), (Path("photos"),))
    places.confined("classify", config, {"data": "photos/birds"})   # with the whole path
    places.confined("classify", config, {"data": "/etc"})           # a UserError

Links are followed before it is judged where a path leads. What is refused is refused in the same
words, whether it is there or not.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from regard.config import change
from regard.errors import ConfigError
from regard.paths import data_folders
from regard.tasks import find

# Fields of configurations that name a place, with the words they take beside it.
FIELDS: Mapping[str, tuple[str, ...]] = {
    "data": (),
    "encoder": ("vit", "imagenet"),
    "init_from": ("scratch", "minilm"),
}


@dataclass(frozen=True)
class Places:
    """The folder with the runs, and others that the studio was given with data in them."""

    root: Path
    data: tuple[Path, ...] = ()

    def confined(self, task: str, config: Any, changes: Mapping[str, Any]) -> Any:
        """The configuration with every place that the changes name as a whole path."""
        whole = {}
        for name, words in FIELDS.items():
            if name not in changes:
                continue
            given = str(getattr(config, name))
            known = (*words, *(names_of(task) if name == "data" else ()))
            if given in known:
                continue
            found = self.inside(given)
            if found is None and name == "data":
                found = own_set(given) or self.several(given)
            if found is None:
                raise ConfigError(self.refusal(name, given, known), key=name, value=given)
            whole[name] = found
        return change(config, whole) if whole else config

    def inside(self, given: str) -> str | None:
        """The whole path of what lies below one of the folders, or is one of them."""
        try:
            roots = [Path(os.path.realpath(each)) for each in (self.root, *self.data)]
            # As it would be typed in the terminal, or as it lies in one of the folders.
            for base in (Path(), *roots):
                path = Path(os.path.realpath(base / os.path.expanduser(given)))
                below = any(path.is_relative_to(each) for each in roots)
                if below and path != base and os.path.exists(path):
                    return str(path)
        except (OSError, ValueError, RuntimeError):  # no text for a path
            pass
        return None

    def several(self, given: str) -> str | None:
        """The whole paths of files that are parted by commas."""
        parts = [part.strip() for part in given.split(",")]
        found = [self.inside(part) for part in parts if part]
        return None if len(parts) < 2 or None in found else ",".join(filter(None, found))

    def refusal(self, name: str, given: str, known: tuple[str, ...]) -> str:
        folders = " and ".join(map(str, (self.root, *self.data)))
        what = "a data set by name" if name == "data" else "a start by name"
        return (
            f"{name}={given[:80]!r} is neither {what} ({', '.join(known)}) nor in a folder that "
            f"the studio was given ({folders}): start it with --data FOLDER to give it one more"
        )

    def words(self) -> str:
        """What a form says of the field for data."""
        folders = " or ".join(f"`{each}`" for each in (self.root, *self.data))
        return (
            f"From this page: a name, or what lies in {folders}; `regard studio --data FOLDER` "
            "adds a folder."
        )


def own_set(given: str) -> str | None:
    """A set of the user's own by its name in the folders where data are looked for."""
    try:
        if given in (".", "..") or given.startswith("~") or Path(given).name != given:
            return None
        found = (folder / given for folder in data_folders())
        return next((os.path.abspath(path) for path in found if os.path.exists(path)), None)
    except ValueError:
        return None


@cache
def names_of(task: str) -> tuple[str, ...]:
    """The data sets that a task knows by name: the catalogue that has the one it begins with."""
    default = find(task).load_config()().data
    return next((tuple(names) for names in catalogues() if default in names), (default,))


def catalogues() -> Iterator[Mapping[str, Any]]:
    from regard.cli.data import CAPTIONED
    from regard.data.corpus import CORPORA
    from regard.data.labelled import LABELLED
    from regard.data.pairs import PAIRS
    from regard.data.registry import EMBEDDED, KNOWN

    yield {**EMBEDDED, **KNOWN}
    yield from (CAPTIONED, CORPORA, PAIRS, LABELLED)
