"""A small run whose every random number matters, to be stopped anywhere and resumed."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from regard.training.config import OptimizerConfig, TrainConfig

CONFIG = TrainConfig(
    epochs=3, ema_decay=0.9, checkpoint_seconds=0.0, optimizer=OptimizerConfig(lr=1e-2)
)


class Points:
    """Points to be told apart by the sign of their product, shuffled anew in each epoch."""

    def __init__(self, count: int = 96, batch: int = 8) -> None:
        draw = torch.Generator().manual_seed(7)
        self.x = torch.randn(count, 2, generator=draw)
        self.y = (self.x.prod(-1) > 0).long()
        self.batch = batch

    def __len__(self) -> int:
        return -(-len(self.x) // self.batch)

    def epoch(self, number: int, start: int) -> Iterator[tuple[Tensor, Tensor]]:
        order = torch.randperm(len(self.x), generator=torch.Generator().manual_seed(number))
        for at in range(start, len(self)):
            rows = order[at * self.batch : (at + 1) * self.batch]
            yield self.x[rows], self.y[rows]


def model(dropout: float = 0.2) -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Linear(2, 16), nn.GELU(), nn.Dropout(dropout), nn.LayerNorm(16), nn.Linear(16, 2)
    )


def objective(net: nn.Module, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, int]:
    x, y = batch
    noise = torch.randn_like(x) * 0.01  # augmentation, from the run's own random numbers
    return nn.functional.cross_entropy(net(x + noise), y, reduction="sum"), len(x)


def measure(net: nn.Module) -> dict[str, float]:
    points = Points()
    return {"accuracy": float((net(points.x).argmax(-1) == points.y).float().mean())}
