"""The embedded scenes as images with captions, drawn anew each time, over 1,000 a second."""

from __future__ import annotations

import numpy as np

from regard.data.captions import CaptionSet, CaptionSplit
from regard.data.images import ArrayImages
from regard.data.synthetic.scene_captions import captions
from regard.data.synthetic.scene_drawing import draw
from regard.data.synthetic.scenes import CANVAS, scene
from regard.progress import progress

HELD = 1_000  # scenes to choose by, and to test on


def scene_set(train: int, *, held: int = HELD, size: int = CANVAS) -> CaptionSet:
    """So many scenes to train on; row i of a split is `scene(i, split)`."""

    def split(name: str, count: int) -> CaptionSplit:
        pixels = np.empty((count, 3, size, size), np.uint8)
        texts = []
        with progress(f"drawing scenes for {name}", count) as advance:
            for row in range(count):
                one = scene(row, name)
                pixels[row] = draw(one, size)
                texts.append(tuple(captions(one)))
                advance(1)
        # The scenes are a function of their numbers: hashing the pixels would tell nothing more.
        return CaptionSplit(ArrayImages(pixels, f"scenes {name} {count} {size}"), tuple(texts))

    return CaptionSet(
        "scenes",
        train=split("train", train),
        validation=split("validation", held),
        test=split("test", held),
        licence="Apache-2.0",
        source="drawn by regard",
    )
