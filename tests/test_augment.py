"""Augmentation does what Pillow does, keeps labels honest, and leaves alone what it should."""

import math
import subprocess
import sys
from functools import cache

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps
from scipy import stats
from torch import Tensor
from torch.nn.functional import pad
from torch.utils._python_dispatch import TorchDispatchMode

from golden import expect_error
from regard.data.augment import (
    ERASED,
    Augment,
    Box,
    crop,
    cutmix,
    draw,
    draw_aspect,
    draw_beta,
    draw_box,
    erase,
    flip,
    inside,
    mixup,
    zoom,
)
from regard.data.config import AugmentConfig
from regard.data.randaugment import (
    BLENDS,
    GEOMETRIC,
    OPERATIONS,
    TABLES,
    draw_operations,
    operate,
    part_of,
    randaugment,
)
from regard.data.resample import resample
from regard.data.synthetic.digits import load_digits
from regard.errors import FieldError

EVERYTHING = AugmentConfig(
    crop_padding=2,
    hflip=True,
    randaugment_ops=2,
    random_erasing=0.5,
    mixup_alpha=0.8,
    cutmix_alpha=1.0,
    mix_prob=0.7,
    fill=0.5,
)
FILL = 77


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def noise(*shape: int) -> Tensor:
    """Random levels as numbers 0 … 1."""
    return torch.randint(256, shape, generator=seeded()) / 255


@cache
def pictures() -> dict[str, Tensor]:
    """Coloured and grey, square and not, noisy, smooth, faint, plain, tiny, and real."""
    down, across = torch.meshgrid(torch.arange(19), torch.arange(24), indexing="ij")
    smooth = torch.stack((down * 13, across * 10, down * 5 + across * 6)) / 255
    return {
        "colour": noise(3, 3, 16, 16),
        "grey": noise(2, 1, 12, 9),
        "wide": noise(2, 3, 11, 21),
        "smooth": smooth[None],
        "faint": (100 + torch.randint(40, (2, 3, 40, 30), generator=seeded())) / 255,
        "plain": torch.full((1, 3, 8, 8), 128 / 255),
        "tiny": noise(2, 3, 2, 5),
        "digits": torch.from_numpy(load_digits(10).images),
    }


def by_pillow(name: str, image: Image.Image, push: float) -> Image.Image:
    """One operation as Pillow has it."""
    x, y = image.size
    colour = FILL if image.mode == "L" else (FILL,) * 3
    maps = {
        "shear x": (1, 0.3 * push, 0, 0, 1, 0),
        "shear y": (1, 0, 0, 0.3 * push, 1, 0),
        "translate x": (1, 0, 150 / 331 * x * push, 0, 1, 0),
        "translate y": (1, 0, 0, 0, 1, 150 / 331 * y * push),
    }
    enhancements = {
        "contrast": ImageEnhance.Contrast,
        "brightness": ImageEnhance.Brightness,
        "colour": ImageEnhance.Color,
        "sharpness": ImageEnhance.Sharpness,
    }
    if name in maps:
        how = {"resample": Image.Resampling.BILINEAR, "fillcolor": colour}
        return image.transform(image.size, Image.Transform.AFFINE, maps[name], **how)
    if name in enhancements:
        return enhancements[name](image).enhance(1 + 0.9 * push)
    return {
        "identity": lambda: image,
        "rotate": lambda: image.rotate(
            30 * push, resample=Image.Resampling.BILINEAR, fillcolor=colour
        ),
        "autocontrast": lambda: ImageOps.autocontrast(image),
        "equalize": lambda: ImageOps.equalize(image),
        "solarize": lambda: ImageOps.solarize(image, 256 * (1 - abs(push))),
        "posterize": lambda: ImageOps.posterize(image, 8 - round(4 * abs(push))),
    }[name]()


def to_pillow(image: Tensor) -> Image.Image:
    levels = (image * 255).round().byte().numpy()
    return Image.fromarray(levels[0] if len(levels) == 1 else levels.transpose(1, 2, 0))


def from_pillow(image: Image.Image) -> Tensor:
    levels = torch.from_numpy(np.array(image)).float()
    return levels[None] if levels.ndim == 2 else levels.permute(2, 0, 1)


# Pillow rounds down from doubles (geometric, autocontrast), or from floats (enhancements) that
# some machines compute in one step and some in two. A number that is almost whole may so end on
# either side of it: one level apart, and only for the few pixels that this is the share of. A
# table for a small image has few entries, so one of them is many of its pixels. The other
# operations are whole numbers throughout, hence exact.
ONE_LEVEL_APART = {
    **dict.fromkeys(GEOMETRIC, 0.02),
    **dict.fromkeys(("contrast", "brightness", "colour", "sharpness"), 0.02),
    "autocontrast": 0.1,
}


@pytest.mark.parametrize("picture", pictures())
@pytest.mark.parametrize("name", OPERATIONS)
def test_each_operation_does_what_pillow_does_border_included(name, picture):
    images = pictures()[picture]
    operation = torch.full((len(images),), OPERATIONS.index(name))
    apart = []
    for push in (-1.0, -0.3, 0.0, 0.12, 0.8):
        ours = operate(images, operation, torch.full((len(images),), push), FILL / 255) * 255
        theirs = [from_pillow(by_pillow(name, to_pillow(image), push)) for image in images]
        apart.append((ours - torch.stack(theirs)).abs().round())
    assert torch.stack(apart).max() <= (name in ONE_LEVEL_APART)
    assert torch.stack(apart).mean() <= ONE_LEVEL_APART.get(name, 0)


def test_there_are_fourteen_operations_in_three_kinds_and_doing_nothing():
    assert len(set(OPERATIONS)) == 14
    assert {*GEOMETRIC, *TABLES, *BLENDS, "identity"} == set(OPERATIONS)


def test_without_strength_only_autocontrast_and_equalize_change_anything():
    images = noise(14, 3, 40, 40) * 0.5
    images = (images * 255).round() / 255
    after = operate(images, torch.arange(14), torch.zeros(14))
    changed = [name for name, a, b in zip(OPERATIONS, images, after, strict=True) if (a != b).any()]
    assert changed == ["autocontrast", "equalize"]


@pytest.mark.parametrize("count", [1, 2, 13, 14, 15, 40])
def test_sorted_by_kind_the_operations_do_what_they_do_unsorted(count):
    images = noise(count, 3, 12, 10)
    draws = [draw_operations(count, 0.6, seeded(seed)) for seed in range(3)]
    plain = images
    for order, operation, push in draws:
        back = order.argsort()
        plain = operate(plain, operation[back], push[back], 0.3)
    torch.testing.assert_close(randaugment(images, draws, 0.3), plain, rtol=0, atol=0)


def test_every_kind_is_where_the_sorted_batch_is_searched_for_it():
    for count in range(1, 60):
        for seed in range(20):
            operation = draw_operations(count, 1.0, seeded(seed)).operation
            assert operation.min() >= 0 and operation.max() < len(OPERATIONS)
            for kind in (GEOMETRIC, TABLES, BLENDS):
                wanted = torch.zeros(count, dtype=torch.bool)
                for name in kind:
                    wanted |= operation == OPERATIONS.index(name)
                wanted[part_of(kind, count)] = False
                assert not wanted.any()


def test_operations_are_drawn_evenly_for_every_image_and_in_both_directions():
    count, rounds, generator = 9, 3000, seeded()
    seen, up = torch.zeros(count, len(OPERATIONS)), 0.0
    for _ in range(rounds):
        order, operation, push = draw_operations(count, 0.4, generator)
        seen[order, operation] += 1
        up += (push > 0).float().mean().item() / rounds
        assert torch.bincount(operation, minlength=14).max() <= math.ceil(count / 14)
    torch.testing.assert_close(push.abs(), torch.full((count,), 0.4))
    assert stats.chisquare(seen.flatten().numpy()).pvalue > 1e-3
    assert abs(up - 0.5) < 0.02


@pytest.mark.parametrize("edge", ["constant", "reflect"])
def test_a_crop_is_a_window_of_the_padded_image(edge):
    images, reach = noise(5, 3, 6, 9), 4
    top, left = torch.tensor([-4, 0, 3, 4, -1]), torch.tensor([4, 0, -4, 2, -3])
    how = {"value": 0.25} if edge == "constant" else {"mode": "reflect"}
    padded = pad(images, (reach,) * 4, **how)
    for got, image, y, x in zip(
        crop(images, top, left, edge, 0.25), padded, top, left, strict=True
    ):
        assert torch.equal(got, image[:, reach + y : reach + y + 6, reach + x : reach + x + 9])


def test_crops_are_off_centre_by_every_amount_equally_often():
    dot = torch.zeros(1, 1, 5, 5)
    dot[..., 2, 2] = 1
    augment, labels = Augment(AugmentConfig(crop_padding=2)), torch.zeros(5000, dtype=torch.int64)
    seen = augment(dot.repeat(5000, 1, 1, 1), labels, seeded()).images
    assert (seen.sum((1, 2, 3)) == 1).all()
    assert stats.chisquare(seen.sum((0, 1)).flatten().numpy()).pvalue > 1e-3


def test_chosen_images_are_mirrored_and_half_are_chosen():
    images = noise(4, 3, 5, 6)
    mirrored = flip(images, torch.tensor([True, False, True, False]))
    assert torch.equal(mirrored[::2], images[::2].flip(-1))
    assert torch.equal(mirrored[1::2], images[1::2])

    arrow = torch.tensor([0.0, 1.0]).expand(2000, 1, 1, 2)
    labels = torch.zeros(2000, dtype=torch.int64)
    seen = Augment(AugmentConfig(hflip=True))(arrow, labels, seeded()).images
    assert abs(seen[..., 0].mean() - 0.5) < 0.04


def test_a_zoom_shows_the_box_as_pillow_enlarges_it():
    images = noise(3, 3, 12, 10)
    box = Box(*torch.tensor([[0.0, 3, 5], [0, 4, 0], [12, 5, 7], [10, 6, 3]]))
    ours = zoom(images, box) * 255
    for got, image, top, left, height, width in zip(ours, images, *box, strict=True):
        extent = (left, top, left + width, top + height)
        theirs = to_pillow(image).transform(
            (10, 12), Image.Transform.EXTENT, tuple(map(float, extent)), Image.Resampling.BILINEAR
        )
        # Pillow rounds down to whole levels; a zoom does not round.
        difference = got - from_pillow(theirs)
        assert difference.min() > -0.01 and difference.max() < 1.01
    torch.testing.assert_close(ours[0], images[0] * 255, rtol=0, atol=1e-3)


@pytest.mark.parametrize("shift", [0.5, -0.5, 1.0, -1.0, 3.5])
def test_exactly_on_the_border_one_sees_what_pillow_shows(shift):
    images = noise(1, 1, 6, 7)
    for matrix in ((1.0, 0, shift, 0, 1, 0), (1.0, 0, 0, 0, 1, shift)):
        ours = resample(images, torch.tensor(matrix).view(1, 2, 3), FILL / 255)[0] * 255
        how = {"resample": Image.Resampling.BILINEAR, "fillcolor": FILL}
        theirs = to_pillow(images[0]).transform((7, 6), Image.Transform.AFFINE, matrix, **how)
        assert torch.equal((ours + 0.01).floor(), from_pillow(theirs))


def test_without_a_fill_one_sees_the_nearest_pixel_beyond_the_border():
    images, far = noise(1, 2, 4, 5), torch.tensor([[[1.0, 0, 50], [0, 1, -50]]])
    corner = images[..., :1, -1:].expand_as(images)
    torch.testing.assert_close(resample(images, far), corner)
    torch.testing.assert_close(resample(images, far, 0.5), torch.full_like(images, 0.5))


@pytest.mark.parametrize(("y", "x"), [(32, 32), (8, 8), (9, 40)])
def test_a_box_lies_inside_and_covers_the_share_asked_for(y, x):
    generator = seeded()
    share = draw(4000, generator)
    box = draw_box(share, draw_aspect(4000, generator, 4.0), y, x, generator)
    for start, side, end in ((box.top, box.height, y), (box.left, box.width, x)):
        assert start.min() == 0 and (start + side).max() == end
    covered = inside(box, y, x).float().mean((1, 2, 3))
    assert ((covered - share).abs() * (x * y) <= box.height / 2 + 1e-3).all()
    torch.testing.assert_close(covered, box.height * box.width / (x * y))


def test_a_box_is_as_likely_in_every_place_and_tall_as_often_as_wide():
    generator = seeded()
    quarter = torch.full((6000,), 0.25)
    box = draw_box(quarter, torch.ones(6000), 8, 8, generator)
    assert (box.height == 4).all() and (box.width == 4).all()
    places = torch.bincount((box.top * 5 + box.left).long(), minlength=25)
    assert stats.chisquare(places.numpy()).pvalue > 1e-3

    aspect = draw_aspect(6000, generator, 3.0)
    assert aspect.min() > 1 / 3.001 and aspect.max() < 3.001
    assert abs((aspect > 1).float().mean() - 0.5) < 0.03


def test_a_box_of_no_share_is_empty_and_of_all_is_everything():
    box = draw_box(torch.tensor([0.0, 1.0]), torch.tensor([3.0, 3.0]), 7, 5, seeded())
    empty, full = inside(box, 7, 5)
    assert not empty.any() and full.all()


def test_erased_boxes_show_the_fill_and_the_rest_is_untouched():
    images = noise(4, 3, 6, 6)
    box = Box(*torch.tensor([[0.0, 2, 5, 0], [1, 0, 5, 0], [3, 4, 1, 0], [2, 6, 1, 6]]))
    erased, where = erase(images, box, 0.25), inside(box, 6, 6).expand_as(images)
    assert (erased[where] == 0.25).all() and torch.equal(erased[~where], images[~where])
    assert where.sum((1, 2, 3)).tolist() == [3 * 6, 3 * 24, 3 * 1, 0]


def test_as_many_images_are_erased_as_asked_and_as_much_of_them():
    labels = torch.zeros(4000, dtype=torch.int64)
    white = torch.ones(4000, 1, 16, 16)
    share = 1 - Augment(AugmentConfig(random_erasing=0.3))(white, labels, seeded()).images.mean(
        (1, 2, 3)
    )
    hit = share[share > 0]
    assert abs(len(hit) / 4000 - 0.3) < 0.03
    assert hit.min() > ERASED[0] / 2 and hit.max() < ERASED[1] + 0.04
    assert abs(hit.mean() - sum(ERASED) / 2) < 0.01


@pytest.mark.parametrize("alpha", [0.05, 0.2, 0.5, 0.8, 1.0, 3.0])
def test_weights_have_the_beta_distribution(alpha):
    drawn = draw_beta(20_000, alpha, seeded()).double()
    assert drawn.isfinite().all() and drawn.min() >= 0 and drawn.max() <= 1
    # Float32 cannot tell the last few millionths before 1 apart; Beta(0.05, 0.05) lives there.
    inner = drawn[(drawn > 1e-3) & (drawn < 1 - 1e-3)]
    true = stats.beta(alpha, alpha)
    mass = true.cdf(1 - 1e-3) - true.cdf(1e-3)
    assert abs(len(inner) / 20_000 - mass) < 0.02
    assert (
        stats.kstest(inner.numpy(), lambda x: (true.cdf(x) - true.cdf(1e-3)) / mass).pvalue > 1e-3
    )


def test_mixup_and_cutmix_by_hand():
    images = torch.arange(3.0)[:, None, None, None].expand(3, 1, 2, 4) / 2
    labels, partner = torch.tensor([5, 6, 7]), torch.tensor([2, 1, 0])
    seen = mixup(images, labels, partner, torch.tensor([0.25, 0.5, 1.0]))
    assert seen.images[:, 0, 0, 0].tolist() == [0.75, 0.5, 1.0]
    assert seen.others.tolist() == [7, 6, 5] and seen.weight.tolist() == [0.25, 0.5, 1.0]

    box = Box(*torch.tensor([[0.0, 0, 1], [1, 0, 0], [2, 1, 1], [3, 4, 1]]))
    seen = cutmix(images, labels, partner, box)
    assert seen.images[0, 0].tolist() == [[0, 1, 1, 1], [0, 1, 1, 1]]
    assert seen.weight.tolist() == [0.25, 0.5, 0.875]


@pytest.mark.parametrize(
    "config",
    [
        AugmentConfig(mixup_alpha=0.4),
        AugmentConfig(cutmix_alpha=1.0),
        AugmentConfig(mixup_alpha=0.8, cutmix_alpha=1.0, mix_prob=0.6),
    ],
    ids="{0.mixup_alpha} {0.cutmix_alpha} {0.mix_prob}".format,
)
def test_labels_weigh_what_their_images_do_and_no_mass_is_lost(config):
    labels = torch.randint(10, (500,), generator=seeded())
    shade = (torch.arange(10) / 9)[labels]
    images = shade[:, None, None, None].expand(-1, 3, 8, 6)
    mixed = Augment(config)(images, labels, seeded())

    assert torch.equal(mixed.labels, labels)
    assert sorted(mixed.others.tolist()) == sorted(labels.tolist())
    targets = mixed.targets(10)
    torch.testing.assert_close(targets.sum(1), torch.ones(500))
    torch.testing.assert_close(mixed.images.mean((1, 2, 3)), targets @ (torch.arange(10) / 9))
    assert targets.min() >= 0 and abs((mixed.weight < 1).float().mean() - config.mix_prob) < 0.1


def test_with_both_an_image_is_mixed_one_way_or_the_other():
    labels = torch.arange(400) % 2
    images = labels.float()[:, None, None, None].expand(-1, 1, 6, 6)
    mixed = Augment(AugmentConfig(mixup_alpha=1.0, cutmix_alpha=1.0))(images, labels, seeded())
    seen = mixed.images[labels != mixed.others]
    through = ((seen > 0) & (seen < 1)).flatten(1)  # pixels that show both
    assert ((through.all(1)) | (~through.any(1))).all()
    assert 0.35 < through.all(1).float().mean() < 0.65


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_the_same_seed_gives_the_same_batch_and_another_seed_another(channels):
    images, labels = noise(16, channels, 12, 9), torch.arange(16)
    before, state = images.clone(), torch.get_rng_state()
    first, again, other = (Augment(EVERYTHING)(images, labels, seeded(s)) for s in (1, 1, 2))
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first.images, other.images)
    assert first.images.shape == images.shape
    assert first.images.min() >= 0 and first.images.max() <= 1
    assert torch.equal(images, before), "the caller's images were changed"
    assert torch.equal(state, torch.get_rng_state()), "the global generator was used"


class Calls(TorchDispatchMode):
    """The names of the operations that torch runs."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.overloadpacket.__name__
        if name == "index" and any(i is not None and i.dtype == torch.bool for i in args[1]):
            name = "nonzero"  # which is how torch looks up a mask
        self.names.add(name)
        return function(*args, **kwargs or {})


@pytest.mark.parametrize("config", [EVERYTHING, AugmentConfig(crop_scale=0.3, mixup_alpha=0.2)])
def test_nothing_is_read_back_to_the_host_or_sent_from_it(config):
    images, labels = noise(16, 3, 12, 9), torch.arange(16)
    with Calls() as calls:
        Augment(config)(images, labels, seeded()).targets(16)
    assert {"rand", "grid_sampler_2d"} <= calls.names
    back = {"_local_scalar_dense", "nonzero", "masked_select", "_unique2", "is_nonzero", "equal"}
    assert not calls.names & {*back, "lift_fresh", "lift_fresh_copy"}  # the last: torch.tensor(…)


def test_a_generator_goes_on_from_batch_to_batch():
    generator, images, labels = seeded(), noise(8, 3, 8, 8), torch.arange(8)
    first, second = (Augment(EVERYTHING)(images, labels, generator).images for _ in range(2))
    assert not torch.equal(first, second)


def test_nothing_asked_is_nothing_done():
    images, labels, generator = noise(4, 3, 8, 8), torch.arange(4), seeded()
    state = generator.get_state()
    seen = Augment(AugmentConfig())(images, labels, generator)
    assert seen.images is images and torch.equal(generator.get_state(), state)
    assert torch.equal(seen.targets(4), torch.eye(4))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_images_keep_their_kind_of_float(dtype):
    images, labels = noise(8, 3, 8, 8).to(dtype), torch.arange(8)
    for config in (EVERYTHING, AugmentConfig(crop_scale=0.3)):
        assert Augment(config)(images, labels, seeded()).images.dtype == dtype


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"crop_padding": 4, "crop_scale": 0.5}, "crop_padding"),
        ({"randaugment_ops": 2, "randaugment_magnitude": 0.0}, "randaugment_ops"),
        ({"randaugment_magnitude": 31.0}, "randaugment_magnitude"),
        ({"mixup_alpha": 0.2, "mix_prob": 0.0}, "mixup_alpha"),
        ({"cutmix_alpha": 1.0, "mix_prob": 0.0}, "cutmix_alpha"),
        ({"crop_padding": -1}, "crop_padding"),
        ({"mixup_alpha": math.inf}, "mixup_alpha"),
        ({"cutmix_alpha": math.nan}, "cutmix_alpha"),
        ({"random_erasing": 1.5}, "random_erasing"),
        ({"crop_scale": 0.0}, "crop_scale"),
    ],
)
def test_contradictions_are_refused_by_the_names_of_their_fields(fields, name):
    with expect_error(FieldError, field=name):
        AugmentConfig(**fields)


def test_a_reflection_wider_than_the_image_is_refused():
    augment = Augment(AugmentConfig(crop_padding=4, padding_mode="reflect"))
    with expect_error(ValueError):
        augment(noise(1, 1, 4, 9), torch.zeros(1, dtype=torch.int64), seeded())


def test_bytes_are_refused(in_a_plain_process):
    said = in_a_plain_process("""
import torch
from regard.data.augment import Augment, AugmentConfig
try:
    images = torch.zeros(2, 3, 4, 4, dtype=torch.uint8)
    Augment(AugmentConfig())(images, torch.arange(2), torch.Generator())
except ValueError as error:
    print(error)
""")
    assert "images are torch.uint8; make them floats" in said


def test_the_configuration_needs_no_torch():
    code = "import sys, regard.data.config; sys.exit('torch' in sys.modules)"
    assert subprocess.run((sys.executable, "-c", code)).returncode == 0
