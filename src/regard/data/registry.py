"""Data sets by name, where they are found, whose they are; and a reader for your own.

    images = read_images("digits")          # or "fashion-mnist", "cifar10", "photos/", "photos.csv"

A name, also of a set of your own, is looked for in `$REGARD_DATA`, then in the user's cache folder.
"""

import difflib
import os
import re
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

import numpy as np

from regard.data import cifar, idx
from regard.data.images import SPLITS, ArrayImages, FileImages, ImageSet, Split
from regard.data.listing import Item, Listing, list_images
from regard.data.splits import TEST, VALIDATION, divide
from regard.errors import DataIssue, UserError
from regard.paths import data_folders

DEBIAN = Path("/usr/share/datasets")
LABELS = 20  # by so many first labels, idx files are told apart
ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/{1,2}[^/]")  # of two letters or more: C:/ is a path


@dataclass(frozen=True)
class Remote:
    """A file on the official server, with the checksum that its authors publish."""

    name: str
    bytes: int
    md5: str


@dataclass(frozen=True)
class Known:
    """A data set that has a name here."""

    name: str
    title: str
    licence: str
    source: str
    read: Callable[[Path], ImageSet]
    holds: Callable[[Path], bool]  # whether a folder or a file is this set
    places: tuple[str, ...] = ()  # under each folder that is searched; the first is where it is put
    labels: tuple[int, ...] = ()  # of its first images for training, by which its files are known
    address: str = ""  # what comes before the names of the files
    files: tuple[Remote, ...] = ()


def read_images(data: str | Path, *, learning: bool = True) -> ImageSet:
    """A data set by its name, or your own by its path; one class is enough without `learning`."""
    if isinstance(data, str) and data in EMBEDDED:
        return EMBEDDED[data].read(Path())
    if isinstance(data, str) and data in KNOWN:
        known = KNOWN[data]
        if path := find(known):
            return known.read(path)
        raise DataIssue(
            f"{data} is not on this machine: {how_to_get(known)}{beside(data)}", kind="absent"
        )
    return read_path(resolve(data), learning)


def resolve(data: str | Path) -> Path:
    """Your own set: a path, or the name of one in the folders that are searched."""
    refuse_address(data)
    path = Path(data).expanduser()
    if path.is_absolute() or is_path(data) or os.path.exists(path):
        return path
    return named_place(str(data)) or path


def named_place(name: str) -> Path | None:
    """Where a set of this name lies in the folders that are searched, and nowhere else."""
    there = (folder / name for folder in data_folders())
    return next((path for path in there if os.path.exists(path)), None)


def is_path(data: str | Path) -> bool:
    """Whether data are said with a separator, as ./mnist is: then no name is meant."""
    return len(Path(data).parts) != 1 or any(sign in str(data) for sign in {"/", os.sep})


def as_typed(data: str | Path) -> str:
    """Data as a flag would name them: a `Path` is a path, also where a set has its name."""
    if isinstance(data, str) or is_path(data):
        return str(data)
    return os.path.join(os.curdir, data)


def refuse_address(data: str | Path) -> None:
    """Nothing is read over the network, except by `regard data fetch`."""
    if isinstance(data, str) and ADDRESS.match(data):
        raise DataIssue(
            f"{data} is an address, and data are read from files: download it, and give the path "
            "of what you have then",
            kind="address",
        )


def beside(name: str) -> str:
    """For the end of a sentence: that a name is not the file or folder that is called the same."""
    if not os.path.exists(name):
        return ""
    what = "folder" if os.path.isdir(name) else "file"
    return f"; {name} is the name of a data set: for the {what} of that name here, write ./{name}"


def lasting(data: str, names: Container[str]) -> str:
    """The same data, said so that it stays true in any folder: a path is made absolute."""
    return data if data in names or not os.path.exists(data) else os.path.abspath(data)


def read_path(path: Path, learning: bool = True) -> ImageSet:
    """Whatever lies there: CIFAR-10, files in idx, a folder of classes, or a csv."""
    if cifar.holds_cifar(path):
        return read_cifar10(path)
    if idx.holds_idx(path):
        known = known_by_labels(path)
        return read_own_idx(path) if known is None else known.read(path)
    try:
        listing = list_images(path, learning=learning)
    except UserError as trouble:
        raise trouble.reworded(f"{trouble}{nearest(str(path))}") from None
    if listing.problems:
        more = len(listing.problems) - 1
        others = f" (and {more} more; `regard data check {path}` lists them)" if more else ""
        raise DataIssue(listing.problems[0] + others, listing.problems[0])
    return from_listing(path, listing)


def nearest(name: str) -> str:
    """A guess at which name was meant, for the end of a sentence."""
    names = (*EMBEDDED, *KNOWN)
    guess = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    if guess:
        return f"; did you mean {guess[0]!r}?"
    return "" if any(sign in name for sign in "/\\.") else f"; by name there are {', '.join(names)}"


def find(known: Known) -> Path | None:
    """The first place that holds a set."""
    return next((path for path in candidates(known) if known.holds(path)), None)


def candidates(known: Known) -> Iterator[Path]:
    """Where a set may lie, most wanted first."""
    for folder in (*data_folders(), DEBIAN):
        for place in known.places:
            yield folder / place
            # torchvision's folder inside ours, the official archive or what it unpacks to
            for inside in ("raw", *cifar.FOLDERS, *cifar.ARCHIVES):
                yield folder / place / inside


def how_to_get(known: Known) -> str:
    """What to do when a set is not there, in words."""
    names = ", ".join(file.name for file in known.files)
    return (
        f"run `regard data fetch {known.name}`, or put {names} from {known.address} "
        f"into {home(known)}"
    )


def home(known: Known) -> Path:
    """Where a downloaded set is put."""
    return data_folders()[-1] / known.places[0]


def from_listing(path: Path, listing: Listing) -> ImageSet:
    """Your own images; a split that is missing is held out of those for training."""
    given: dict[str, list[Item]] = {split: [] for split in SPLITS}
    for item in listing.items:
        given[item.split or "train"].append(item)
    train = given["train"]
    number = {name: label for label, name in enumerate(listing.classes)}
    rows = divide(
        np.array([number[item.label] for item in train], np.int64),
        [item.key for item in train],
        validation=0.0 if given["validation"] else VALIDATION,
        test=0.0 if given["test"] else TEST,
    )

    def files(items: list[Item]) -> Split:
        labels = np.array([number[item.label] for item in items], np.int64)
        return Split(FileImages(tuple(item.path for item in items)), labels)

    return ImageSet(
        path.resolve().name,
        listing.classes,
        train=files([train[row] for row in rows.train]),
        validation=files(given["validation"] or [train[row] for row in rows.validation]),
        test=files(given["test"] or [train[row] for row in rows.test]),
        source=str(path.resolve()),
    )


def read_digits(_: Path) -> ImageSet:
    from regard.data.synthetic.digits import read_digits

    return read_digits()


def read_mnist(folder: Path) -> ImageSet:
    return read_idx_set(KNOWN["mnist"], tuple("0123456789"), folder)


def read_fashion_mnist(folder: Path) -> ImageSet:
    names = "T-shirt/top,Trouser,Pullover,Dress,Coat,Sandal,Shirt,Sneaker,Bag,Ankle boot"
    return read_idx_set(KNOWN["fashion-mnist"], tuple(names.split(",")), folder)


def known_by_labels(folder: Path) -> Known | None:
    """Which set the idx files in a folder are: by their labels, or by what the folder is called."""
    labels = idx.first_labels(folder, LABELS)
    sets = [known for known in KNOWN.values() if known.labels]
    for known in sets:
        if known.labels == labels:
            return known
    names = {part.name for part in (folder.resolve(), folder.resolve().parent)}
    return next((known for known in sets if names & {*known.places}), None)


def read_own_idx(folder: Path) -> ImageSet:
    """Idx files of nobody's known set: classes are the labels that training has."""
    train, test = (idx.read_idx(folder, split) for split in ("train", "test"))
    labels, numbers = np.unique(train.labels, return_inverse=True)
    if strange := sorted({*test.labels.tolist()} - {*labels.tolist()}):
        raise DataIssue(
            f"{folder}: test has label {strange[0]}, which no image for training has",
            folder,
            kind="label",
        )
    if len(labels) == 1:
        raise DataIssue(
            f"{folder} has one class only, {labels[0]}; there is nothing to tell apart",
            folder,
            kind="one-class",
        )
    found = with_validation(
        folder.resolve().name,
        tuple(map(str, labels)),
        replace(train, labels=numbers.astype(np.int64)),
        replace(test, labels=np.searchsorted(labels, test.labels).astype(np.int64)),
    )
    return replace(found, source=str(folder.resolve()))


def read_idx_set(known: Known, classes: tuple[str, ...], folder: Path) -> ImageSet:
    train, test = (idx.read_idx(folder, split, len(classes)) for split in ("train", "test"))
    return official(known, classes, train, test)


def read_cifar10(path: Path) -> ImageSet:
    splits = cifar.read_cifar(path, cifar.ROWS)
    return official(KNOWN["cifar10"], cifar.CLASSES, splits["train"], splits["test"])


def official(known: Known, classes: tuple[str, ...], train: Split, test: Split) -> ImageSet:
    """A set with a name, that comes as train and test."""
    found = with_validation(known.name, classes, train, test)
    return replace(found, licence=known.licence, source=known.source)


def with_validation(name: str, classes: tuple[str, ...], train: Split, test: Split) -> ImageSet:
    """Train and test as they come; a tenth of each class of train is for validation."""
    rows = divide(train.labels, validation=VALIDATION, test=0.0)
    learnt, held = (
        Split(ArrayImages(train.images.take(part)), train.labels[part])
        for part in (rows.train, rows.validation)
    )
    return ImageSet(name, classes, train=learnt, validation=held, test=test)


EMBEDDED: Mapping[str, Known] = MappingProxyType(
    {
        "digits": Known(
            "digits",
            "1797 handwritten digits, 8 × 8, grey",
            "CC BY 4.0",
            "UCI ML repository, Optical Recognition of Handwritten Digits; in scikit-learn",
            read_digits,
            lambda _: True,
        )
    }
)

KNOWN: Mapping[str, Known] = MappingProxyType(
    {
        "mnist": Known(
            "mnist",
            "70000 handwritten digits, 28 × 28, grey",
            "CC BY-SA 3.0, as its mirrors say",
            "LeCun, Cortes and Burges, http://yann.lecun.com/exdb/mnist",
            read_mnist,
            idx.holds_idx,
            ("mnist", "MNIST"),
            (5, 0, 4, 1, 9, 2, 1, 3, 1, 4, 3, 5, 3, 6, 1, 7, 2, 8, 6, 9),
            # The authors' own page hands out no files any more; this mirror has the same ones.
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            (
                Remote("train-images-idx3-ubyte.gz", 9912422, "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
                Remote("train-labels-idx1-ubyte.gz", 28881, "d53e105ee54ea40749a09fcbcd1e9432"),
                Remote("t10k-images-idx3-ubyte.gz", 1648877, "9fb629c4189551a2d022fa330f9573f3"),
                Remote("t10k-labels-idx1-ubyte.gz", 4542, "ec29112dd5afa0611ce80d1b7f02629c"),
            ),
        ),
        "fashion-mnist": Known(
            "fashion-mnist",
            "70000 pictures of clothes, 28 × 28, grey",
            "MIT",
            "Zalando SE, https://github.com/zalandoresearch/fashion-mnist",
            read_fashion_mnist,
            idx.holds_idx,
            ("fashion-mnist", "fashion_mnist", "FashionMNIST"),
            (9, 0, 0, 3, 0, 2, 7, 2, 5, 5, 0, 9, 5, 5, 7, 9, 1, 0, 6, 4),
            "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
            (
                Remote("train-images-idx3-ubyte.gz", 26421880, "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
                Remote("train-labels-idx1-ubyte.gz", 29515, "25c81989df183df01b3e8a0aad5dffbe"),
                Remote("t10k-images-idx3-ubyte.gz", 4422102, "bef4ecab320f06d8554ea6380940ec79"),
                Remote("t10k-labels-idx1-ubyte.gz", 5148, "bb300cfdad3c16e7a12a480ee83cd310"),
            ),
        ),
        "cifar10": Known(
            "cifar10",
            "60000 photographs in ten classes, 32 × 32, colour",
            "none stated; cite Krizhevsky, 2009",
            "https://www.cs.toronto.edu/~kriz/cifar.html",
            read_cifar10,
            cifar.holds_cifar,
            ("cifar10", "cifar-10", "CIFAR10", "CIFAR-10", *cifar.FOLDERS, *cifar.ARCHIVES),
            (),
            "https://www.cs.toronto.edu/~kriz/",
            (Remote("cifar-10-binary.tar.gz", 170052171, "c32a1d4ab5d03f1284b67883e8d87530"),),
        ),
    }
)
