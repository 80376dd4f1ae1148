"""`regard data`: what data there is, whether it is sound, how to get it, what it takes up."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple

from regard.cli.parse import POSITIONAL, parse
from regard.data.cache import Kept, kept
from regard.data.corpus import CORPORA, find_corpus, read_named, texts_in
from regard.data.fetch import PART, fetch
from regard.data.flickr import FLICKR8K_IMAGES
from regard.data.images import SPLITS
from regard.data.labelled import LABELLED, find_labelled, read_labelled
from regard.data.pairs import PAIRS, find_pairs, read_pairs
from regard.data.registry import EMBEDDED, KNOWN, find, home, named_place
from regard.data.tokens import tokens_folder
from regard.errors import UserError
from regard.paths import cache_folder, cached, data_folders

if TYPE_CHECKING:
    from regard.cli import Command


class Captioned(NamedTuple):
    """A set of images with captions that has a name."""

    title: str
    licence: str
    address: str = ""  # of those who hand it out; without one it is embedded


CAPTIONED = {
    "scenes": Captioned(
        "pictures of shapes, drawn as they are needed, with captions that are true",
        "Apache-2.0, as regard",
    ),
    "flickr8k": Captioned(
        "8000 photographs with five captions each",
        "none stated; for research",
        "https://forms.illinois.edu/sec/1713398",
    ),
}


@dataclass(frozen=True, kw_only=True)
class Options:
    """The flags of `regard data`."""

    action: Literal["list", "check", "fetch", "clean"] = field(default="list", metadata=POSITIONAL)
    """List what there is; check one, or your own; fetch one by name; clean the cache."""
    target: str = field(default="", metadata=POSITIONAL)
    """A name or a path to check, a name to fetch, a name whose download to delete."""
    text_column: str = ""
    """The column of a table to check that holds the texts, if its name does not tell."""
    label_column: str = ""
    """The column that holds the labels."""
    text_pair_column: str = ""
    """A column with a second text, if rows are pairs."""
    mirror: str = ""
    """Fetch from this address instead of the official one."""
    dry_run: bool = False
    """Only show what clean would free."""
    all: bool = False
    """List everything that check finds, where else it is a screenful."""


def read(command: Command, args: Sequence[str]) -> Callable[[], None]:
    """The call to be made."""
    return partial(data, parse(command, Options, args)[0])


def data(options: Options) -> None:
    """Show, check, fetch or free data."""
    action, target = options.action, options.target
    if action in ("check", "fetch") and not target:
        what = "NAME|PATH" if action == "check" else "|".join(KNOWN)
        raise UserError(f"regard data {action} needs one thing more: regard data {action} {what}")
    match action:
        case "list":
            show_sets()
        case "check":
            show_check(
                target,
                options.text_column,
                options.label_column,
                options.text_pair_column,
                options.all,
            )
        case "fetch":
            show_fetch(target, options.mirror)
        case "clean":
            show_clean(target, options.dry_run)


def show_sets() -> None:
    """One row for each set that has a name."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("name", "what", "licence", title="regard data", title_justify="left")
    table.add_column("where", overflow="fold")  # a path is of no use without its end
    for known in (*EMBEDDED.values(), *KNOWN.values()):
        place = "built in" if known.name in EMBEDDED else find(known)
        where = str(place) if place else f"not here: regard data fetch {known.name}"
        table.add_row(*map(Text, (known.name, known.title, known.licence, where)))
    for name, captioned in CAPTIONED.items():
        where = place_of(name)
        table.add_row(*map(Text, (name, captioned.title, captioned.licence, where)))
    for name, corpus in CORPORA.items():
        table.add_row(*map(Text, (name, corpus.title, corpus.licence, place_of_text(name))))
    for name, pairs in PAIRS.items():
        table.add_row(*map(Text, (name, pairs.title, pairs.licence, place_of_pairs(name))))
    for name, labelled in LABELLED.items():
        where = place_of_labelled(name)
        table.add_row(*map(Text, (name, labelled.title, labelled.licence, where)))
    console = Console()
    console.print(table)
    console.print(
        "Your own: a folder with one sub-folder a class, or a csv with path and label; or images "
        "beside captions.csv, with image and caption in each row; or a text file, or a folder of "
        "them; or two texts that are aligned line by line, own.en,own.de, or a tsv of two columns; "
        "or a csv with text and label in each row, or a folder with train.csv and the like."
    )


def place_of(name: str) -> str:
    """Where a set of captions is, or how it comes to be here."""
    if not CAPTIONED[name].address:
        return "built in"
    path = named_place(name)
    return str(path) if path else f"not here: regard data fetch {name} says how"


def place_of_text(name: str) -> str:
    """Where a text is and how large, or how it comes to be here."""
    if not CORPORA[name].places:
        return "built in"
    folder = find_corpus(name)
    if folder is None:
        return f"not here: regard data fetch {name} says how"
    size = sum(path.stat().st_size for path in texts_in(folder))
    return f"{folder}, {size / 1e6:.1f} MB"


def place_of_pairs(name: str) -> str:
    """Where parallel texts are, or how they come to be here."""
    if not PAIRS[name].places:
        return "built in"
    found = find_pairs(name)
    return f"not here: regard data fetch {name} says how" if found is None else str(found)


def place_of_labelled(name: str) -> str:
    """Where labelled texts are, or how they come to be here."""
    if not LABELLED[name].places:
        return "built in"
    found = find_labelled(name)
    return f"not here: regard data fetch {name} says how" if found is None else str(found)


def how_to_get(name: str) -> str:
    """What its authors hand out must be asked for, and is put where data are looked for."""
    return (
        f"ask for it at {CAPTIONED[name].address}, and put {FLICKR8K_IMAGES[0]} and Flickr8k_text "
        f"into {data_folders()[0] / name}"
    )


def show_check(
    target: str, text: str = "", label: str = "", pair: str = "", all: bool = False
) -> None:
    from regard.data.check import check
    from regard.data.grouped import grouped

    report = check(target, text=text, label=label, pair=pair)
    for word, sentences, most in (("wrong", report.problems, 24), ("note", report.notes, 12)):
        shown = sentences if all else grouped(sentences, most)
        for sentence in shown:
            print(f"{word}: {sentence}")
        if len(shown) < len(sentences) and word == "wrong":
            print(f"regard data check {shlex.quote(target)} --all lists every one")
    for sentence in report.sentences():
        print(sentence)
    if report.problems:
        count = len(report.problems)
        raise UserError(f"{target}: {count} {'thing is' if count == 1 else 'things are'} wrong")
    print("nothing is wrong")


def show_fetch(name: str, mirror: str) -> None:
    if name in PAIRS and PAIRS[name].places:
        read_pairs(name)  # which says how they come, if they are not here
        print(f"{name} is here already, in {find_pairs(name)}")
        return
    if name in LABELLED and LABELLED[name].places:
        read_labelled(name)
        print(f"{name} is here already, in {find_labelled(name)}")
        return
    if name in CORPORA and CORPORA[name].places:
        read_named(name)  # which says how it comes, if it is not here
        print(f"{name} is here already, in {find_corpus(name)}")
        return
    made = name in CAPTIONED and not CAPTIONED[name].address
    if made or any(name in embedded for embedded in (EMBEDDED, CORPORA, PAIRS, LABELLED)):
        whose = "Python" if name in CORPORA else "regard"
        print(f"{name} comes with {whose}; there is nothing to fetch")
        return
    if name in CAPTIONED:
        raise UserError(f"{name} cannot be fetched: {how_to_get(name)}")
    if name not in KNOWN:
        raise UserError(f"no data set {name!r} to fetch; there are {', '.join(KNOWN)}")
    known = KNOWN[name]
    images = fetch(known, base=mirror)
    count = sum(len(images[split]) for split in SPLITS)
    print(f"{name}: {count} images in {home(known)}")
    print(f"from {known.source}; licence: {known.licence}")


def show_clean(name: str, dry_run: bool) -> None:
    """Free what can be made again; a download only when it is named."""
    if name and name not in KNOWN:
        raise UserError(f"no download {name!r}; there are {', '.join(KNOWN)}")
    freed = 0
    made = (*kept(), *features(), *texts(), *unfinished())
    for thing in (*made, *(downloaded(name) if name else ())):
        print(f"{thing.bytes / 2**20:10.1f} MiB  {thing.path}")
        freed += thing.bytes
        if not dry_run:
            if thing.path.is_dir():
                shutil.rmtree(thing.path, ignore_errors=True)
            else:
                thing.path.unlink(missing_ok=True)
    print(f"{freed / 2**20:10.1f} MiB  {'would be freed' if dry_run else 'freed'}")


def features() -> list[Kept]:
    """What frozen encoders saw of images, which training keeps so as to look only once."""
    return [
        Kept(path, path.stat().st_size)
        for path in cached(cache_folder() / "features")
        if path.is_file()
    ]


def texts() -> list[Kept]:
    """Texts as numbers, what an interrupted run left of them, and what Python says of itself."""
    found = [
        Kept(folder, sum(path.stat().st_size for path in folder.iterdir() if path.is_file()))
        for folder in cached(tokens_folder())
        if folder.is_dir()
    ]
    files = cached(cache_folder() / "texts")
    return found + [Kept(path, path.stat().st_size) for path in files if path.is_file()]


def unfinished() -> list[Kept]:
    """Downloads that stopped half way."""
    return [
        Kept(path, path.stat().st_size)
        for known in KNOWN.values()
        for path in sorted(home(known).glob(f"*{PART}"))
    ]


def downloaded(name: str) -> list[Kept]:
    """The files of one set that were fetched, and no others that lie beside them."""
    known = KNOWN[name]
    paths = [home(known) / file.name for file in known.files]
    return [Kept(path, path.stat().st_size) for path in paths if path.is_file()]
