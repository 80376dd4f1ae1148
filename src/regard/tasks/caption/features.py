"""What a frozen ImageNet encoder sees, computed once for each image and kept on disk.

Training a decoder on kept features costs no convolutions at all. The file is named by a digest
of the images and of the encoder, and written beside its place until it is whole.
"""

from __future__ import annotations

import errno
import hashlib
import math
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Float16, Int64
from torch import Tensor

from regard.data.images import Images
from regard.models.efficientnet import DIGEST, LAST, EfficientNet, load_pretrained, normalise
from regard.paths import cache_folder
from regard.progress import progress
from regard.run_folder.drafts import clear_drafts, drafts_of
from regard.tasks.image_data import SHARE, placed

SIZE = 224  # pixels: what the weights were trained with
AT_ONCE = {"cpu": 4, "cuda": 256}  # a CPU's caches hold few images

Features = Float16[np.ndarray, "n m width"]
V = TypeVar("V", np.ndarray, Tensor)


@dataclass(frozen=True, eq=False)
class KeptFeatures:
    """The features of every image of a split, and of its mirror image where that is asked for.

    They lie on a GPU if they take little of it, and are read from the mapped file otherwise.
    """

    versions: Sequence[Features] | Sequence[Float[Tensor, "n m width"]]  # plain, then mirrored

    @property
    def resident(self) -> bool:
        """Whether they lie on a GPU."""
        return isinstance(self.versions[0], Tensor)

    def pick(
        self, rows: Int64[Tensor, "b"], flipped: Bool[Tensor, "b"]
    ) -> Float[Tensor, "b m width"]:
        """Those of some images, or of their mirror images, where all of them lie on the GPU."""
        first, last = (version.index_select(0, rows) for version in self.ends(Tensor))
        return last.where(flipped[:, None, None], first)

    def take(
        self, rows: Int64[np.ndarray, "b"], flipped: Bool[np.ndarray, "b"], device: torch.device
    ) -> Float[Tensor, "b m width"]:
        """The same out of mapped files."""
        first, last = (np.asarray(version[rows]) for version in self.ends(np.ndarray))
        found = np.where(flipped[:, None, None], last, first)
        return torch.from_numpy(found).to(device, non_blocking=True)

    def rows(self, rows: slice, device: torch.device) -> Float[Tensor, "b m width"]:
        """Those of images that follow one another, as they are."""
        found = self.versions[0][rows]
        return torch.as_tensor(np.array(found) if isinstance(found, np.ndarray) else found).to(
            device
        )

    def ends(self, kind: type[V]) -> tuple[V, V]:
        """The plain and the mirrored version, or twice the only one."""
        first, last = self.versions[0], self.versions[-1]
        assert isinstance(first, kind) and isinstance(last, kind)
        return first, last


@lru_cache(maxsize=1)
def frozen_encoder() -> EfficientNet:
    return load_pretrained().fused().eval()


@lru_cache
def grid(depth: int = LAST) -> tuple[int, int]:
    """Rows and columns of the features of an image after stage `depth`."""
    return EfficientNet().grid(SIZE, SIZE, depth)


@lru_cache
def width(depth: int = LAST) -> int:
    return EfficientNet().width(depth)


def imagenet_inputs(images: Float[Tensor, "b 3 y x"]) -> Float[Tensor, "b 3 y x"]:
    """Pixels in 0 … 1 as the numbers that the weights were trained with."""
    return normalise(images * 255)


def kept_features(
    images: Images, device: torch.device, *, mirrored: bool, depth: int = LAST
) -> KeptFeatures:
    """From the cache where they are there, else computed and put there."""
    arrays = [kept(images, device, flipped, depth) for flipped in (False, True)[: 1 + mirrored]]
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        if sum(array.nbytes for array in arrays) < free / SHARE:
            return KeptFeatures([torch.from_numpy(np.array(one)).to(device) for one in arrays])
    return KeptFeatures(arrays)


def kept(images: Images, device: torch.device, mirrored: bool, depth: int) -> Features:
    key = f"{DIGEST} {SIZE} {depth} {mirrored} {images.digest()}"
    folder = cache_folder() / "features"
    path = folder / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.npy"
    shape = (len(images), math.prod(grid(depth)), width(depth))
    found = read(path, shape)
    if found is not None:
        return found
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Found out now: a mapped file that outgrows its disk ends the process without a word.
        if 2 * int(np.prod(shape)) > 0.9 * shutil.disk_usage(folder).free:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        clear_drafts(folder)
        with drafts_of(path) as (draft,):
            out = np.lib.format.open_memmap(draft, mode="w+", dtype=np.float16, shape=shape)
            compute(images, device, mirrored, depth, out)
            out.flush()
            del out
        found = read(path, shape)
        if found is not None:
            return found
    except OSError:
        pass  # read-only or full: they are computed all the same, only not kept
    memory = np.empty(shape, np.float16)
    compute(images, device, mirrored, depth, memory)
    return memory


def read(path: Path, shape: tuple[int, ...]) -> Features | None:
    """What is kept, or None if it is not there or not whole."""
    try:
        found = np.lib.format.open_memmap(path, mode="r")
    except (OSError, ValueError):
        return None
    return found if found.shape == shape and found.dtype == np.float16 else None


@torch.no_grad()
def compute(
    images: Images, device: torch.device, mirrored: bool, depth: int, out: Features
) -> None:
    net, pixels = frozen_encoder().to(device), placed(images, device)
    at_once = AT_ONCE.get(device.type, 16)
    words = "seeing images" + " mirrored" * mirrored
    with progress(words, len(images)) as advance:
        for start in range(0, len(images), at_once):
            stop = min(start + at_once, len(images))
            some = pixels(slice(start, stop)).float() / 255
            seen = net.features(imagenet_inputs(some.flip(-1) if mirrored else some), depth)
            out[start:stop] = seen.cpu().numpy().astype(np.float16)
            advance(stop - start)
