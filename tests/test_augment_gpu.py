"""Augmentation on a GPU: what it does on a CPU, and without a word to the host.

A file of its own, because the machine with the GPU may have no Pillow to compare with.
"""

import pytest
import torch

from regard.data.augment import Augment
from regard.data.config import AugmentConfig
from regard.data.randaugment import OPERATIONS, operate

pytestmark = pytest.mark.cuda

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


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def noise(*shape: int) -> torch.Tensor:
    """Random levels as numbers 0 … 1."""
    return torch.randint(256, shape, generator=seeded()) / 255


def test_on_a_gpu_operations_are_within_a_level_of_the_cpu():
    images, push = (
        noise(8 * len(OPERATIONS), 3, 24, 20),
        torch.rand(8 * len(OPERATIONS), generator=seeded()) * 2 - 1,
    )
    operation = torch.arange(len(OPERATIONS)).repeat(8)
    here = operate(images, operation, push, 0.3)
    there = operate(images.cuda(), operation.cuda(), push.cuda(), 0.3).cpu()
    apart = ((here - there) * 255).abs().round()
    assert apart.max() <= 1 and apart.mean() < 0.02


@pytest.mark.parametrize(
    "config", [EVERYTHING, AugmentConfig(crop_scale=0.3)], ids=["everything", "zoom"]
)
def test_on_a_gpu_a_captured_graph_draws_anew_at_every_replay(config):
    images, labels = noise(64, 3, 16, 16).cuda(), torch.arange(64).cuda()
    augment, generator = Augment(config), torch.Generator("cuda")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        augment(images, labels, generator)  # lets kernels load before the capture
    torch.cuda.synchronize()

    graph = torch.cuda.CUDAGraph()
    graph.register_generator_state(generator)
    with torch.cuda.graph(graph):
        seen = augment(images, labels, generator)
    replays = []
    for _ in range(2):
        graph.replay()
        replays.append(seen.images.clone())
    assert not torch.equal(*replays)
    assert replays[0].isfinite().all() and float(seen.targets(64).sum()) == pytest.approx(64)


def test_on_a_gpu_a_generator_of_the_cpu_is_refused():
    with pytest.raises(ValueError, match="on cuda:0, but the generator is on cpu"):
        Augment(AugmentConfig())(noise(1, 1, 4, 4).cuda(), torch.zeros(1).long().cuda(), seeded())
