"""Batches of images seen through affine maps, each image through its own."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import grid_sample


def resample(
    images: Float[Tensor, "b k y x"],
    matrix: Float[Tensor, "b 2 3"],
    fill: float | None = None,
) -> Float[Tensor, "b k y x"]:
    """The pixel at (x, y) looks at `matrix` · (x, y, 1) in the source, bilinearly.

    Both are in pixels from the top left corner, so pixel centres lie at halves. Within the
    image but less than half a pixel from its border, the border pixels are taken as they are;
    beyond the border one sees `fill`, or the nearest pixel when it is not given. This is
    Pillow's `Image.transform(AFFINE, resample=BILINEAR)`, before it rounds.
    """
    _, _, y, x = images.shape
    rows = torch.arange(y, device=images.device) + 0.5
    columns = torch.arange(x, device=images.device) + 0.5
    matrix = matrix.float()[..., None]  # b 2 3 1
    # b 2 y x: where each pixel looks, across and down
    at = (matrix[:, :, 1] * rows + matrix[:, :, 2])[..., None]
    at = at + (matrix[:, :, 0] * columns)[:, :, None]
    across, down = at.unbind(1)

    grid = torch.stack((across * (2 / x) - 1, down * (2 / y) - 1), -1)
    seen = grid_sample(images.float(), grid, padding_mode="border", align_corners=False)
    if fill is not None:
        outside = (across < 0) | (across >= x) | (down < 0) | (down >= y)
        seen.masked_fill_(outside[:, None], fill)
    return seen.to(images.dtype)
