"""How a run trains, as frozen dataclasses. No torch here: `--help` reads these fields."""

from dataclasses import dataclass, field
from typing import Literal

from regard.config import check_kinds
from regard.errors import FieldError

WARMUP = 0.1  # share of a run, where nothing else is given
SHORT = {"float32": "fp32", "bfloat16": "bf16"}  # precisions as they are written, and kept
MOST_THREADS = 1024  # starting more is likelier to end the process than to help it


@dataclass(frozen=True)
class OptimizerConfig:
    """How parameters are moved."""

    name: Literal["adamw", "muon"] = "adamw"
    """AdamW for all, or Muon for the matrices of linear layers and AdamW for the rest."""
    lr: float = 1e-3
    """Peak learning rate of AdamW."""
    muon_lr: float = 0.02
    """Peak learning rate of Muon."""
    pretrained_lr_scale: float = 1.0
    """Learning rate of pretrained parts, such as an encoder, as a multiple of the others' rate."""
    layer_decay: float = 1.0
    """Layer-wise decay in pretrained parts: rate of each block, as a share of the next block's."""
    weight_decay: float = 0.05
    """Weight decay, on matrices alone."""
    betas: tuple[float, float] = (0.9, 0.999)
    """Decay rates of AdamW's running means of gradients and of their squares."""

    def __post_init__(self) -> None:
        check_kinds(self)
        for name in ("lr", "muon_lr", "pretrained_lr_scale"):
            if not getattr(self, name) > 0:
                raise FieldError(f"{name}={getattr(self, name)}: a learning rate is above 0", name)
        if not 0 < self.layer_decay <= 1:
            raise FieldError(
                f"layer_decay={self.layer_decay}: a share that lies in 0 < … ≤ 1", "layer_decay"
            )
        if self.weight_decay < 0:
            raise FieldError(
                f"weight_decay={self.weight_decay}: it cannot be negative", "weight_decay"
            )
        if not all(0 <= beta < 1 for beta in self.betas):
            raise FieldError(f"betas={self.betas}: each lies in 0 ≤ … < 1", "betas")


@dataclass(frozen=True)
class LRScheduleConfig:
    """The course of the learning rate over a run."""

    name: Literal["cosine", "inverse_sqrt", "constant"] = "cosine"
    """Cosine decay, inverse square root (Vaswani et al. 2017) or constant; after a warm-up."""
    warmup_ratio: float | None = None
    """Linear warm-up, as a share of the run's steps; 0.1 unless `warmup_steps` is given."""
    warmup_steps: int | None = None
    """Linear warm-up in steps, in place of `warmup_ratio`."""
    min_lr_ratio: float = 0.0
    """Where the cosine ends, as a share of the full rate."""

    def __post_init__(self) -> None:
        check_kinds(self)
        if self.warmup_ratio is not None and self.warmup_steps is not None:
            raise FieldError(
                f"warmup_ratio={self.warmup_ratio} and warmup_steps={self.warmup_steps} are two "
                "lengths of one warmup; give one of them",
                "warmup_ratio",
            )
        if self.warmup_ratio is not None and not 0 <= self.warmup_ratio <= 1:
            raise FieldError(
                f"warmup_ratio={self.warmup_ratio}: a share of the run lies in 0 … 1; "
                "warmup_steps counts steps",
                "warmup_ratio",
            )
        if self.warmup_steps is not None and self.warmup_steps < 0:
            raise FieldError(
                f"warmup_steps={self.warmup_steps}: it cannot be negative", "warmup_steps"
            )
        if not 0 <= self.min_lr_ratio <= 1:
            raise FieldError(
                f"min_lr_ratio={self.min_lr_ratio}: a share lies in 0 … 1", "min_lr_ratio"
            )
        if self.name == "inverse_sqrt" and 0 in (self.warmup_ratio, self.warmup_steps):
            name = "warmup_steps" if self.warmup_ratio is None else "warmup_ratio"
            raise FieldError(
                f"name='inverse_sqrt' with {name}=0: its peak is where the warmup ends", name
            )

    def num_warmup_steps(self, steps: int) -> int:
        """The warmup of a run of `steps`, in steps."""
        if self.warmup_steps is not None:
            return self.warmup_steps
        return round((WARMUP if self.warmup_ratio is None else self.warmup_ratio) * steps)


@dataclass(frozen=True)
class TrainConfig:
    """How a model is trained, whatever the task."""

    epochs: int = 5
    """Passes over the training data."""
    grad_accum_steps: int = 1
    """Batches whose gradients are accumulated for each step, as if they were one large batch."""
    grad_clip: float = 1.0
    """Largest norm of the gradients; longer ones are shortened. 0 leaves them alone."""
    ema_decay: float = 0.0
    """Decay of an exponential moving average (EMA) of the weights; 0: no EMA."""
    keep_weights: Literal["best", "last"] = "best"
    """Whose weights to keep: the epoch best on validation, or the last, if validation is small."""
    eval_every: int = 1
    """Evaluate on validation every so many epochs, and always after the last."""
    patience: int = 0
    """Epochs without a better validation figure before stopping; 0 never stops early."""
    precision: Literal["auto", "fp32", "bf16", "float32", "bfloat16"] = "auto"
    """Arithmetic of the forward pass: fp32, bf16 (mixed precision; written out: float32, bfloat16),
    or auto, which takes bf16 on a GPU that has it."""
    compile: Literal["auto", "on", "off"] = "auto"
    """Whether torch compiles the model; auto: on a GPU, for runs long enough to earn it back."""
    cuda_graph: Literal["auto", "on", "off"] = "auto"
    """Whether a GPU records steps and replays them, to the same result; auto: if over 5% faster."""
    deterministic: bool = False
    """Only operations that give the same bits each time; on a CPU this is so anyway."""
    threads: Literal["auto"] | int = "auto"
    """Threads on a CPU; auto: one, unless all are faster by a fifth as the run begins. May decide
    the last bits of a result: the number that was taken is kept here, and reproduces the run."""
    checkpoint_seconds: float = 60.0
    """Seconds between states to resume from, beside those after epochs that are not too short."""
    seed: int = 0
    """Where all random numbers of the run start."""
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    """How parameters are moved."""
    lr_schedule: LRScheduleConfig = field(default_factory=LRScheduleConfig)
    """The course of the learning rate."""

    def __post_init__(self) -> None:
        check_kinds(self)
        object.__setattr__(self, "precision", SHORT.get(self.precision, self.precision))
        for name, least in (
            *(("epochs", 1), ("grad_accum_steps", 1), ("eval_every", 1)),
            *(("patience", 0), ("seed", 0)),
        ):
            if getattr(self, name) < least:
                raise FieldError(f"{name}={getattr(self, name)}: at least {least}", name)
        if self.threads != "auto" and not 1 <= self.threads <= MOST_THREADS:
            raise FieldError(
                f"threads={self.threads}: auto, or from 1 to {MOST_THREADS}", "threads"
            )
        if self.keep_weights == "last" and self.patience:
            raise FieldError(
                f"patience={self.patience} waits for a best epoch, and keep_weights='last'",
                "patience",
            )
        if not 0 <= self.ema_decay < 1:
            raise FieldError(f"ema_decay={self.ema_decay}: a share lies in 0 ≤ … < 1", "ema_decay")
        if self.grad_clip < 0:
            raise FieldError(f"grad_clip={self.grad_clip}: a norm cannot be negative", "grad_clip")
        if self.checkpoint_seconds < 0:
            raise FieldError(
                f"checkpoint_seconds={self.checkpoint_seconds}: time cannot be negative",
                "checkpoint_seconds",
            )
