"""How a run trains, as frozen dataclasses. No torch here: `--help` reads these fields."""

from dataclasses import dataclass, field
from typing import Literal

from regard.config import check_kinds
from regard.errors import FieldError

MOST_THREADS = 1024  # starting more is likelier to end the process than to help it


@dataclass(frozen=True)
class OptimiserConfig:
    """How parameters are moved."""

    kind: Literal["adamw", "muon"] = "adamw"
    """AdamW for all, or Muon for the matrices of linear layers and AdamW for the rest."""
    rate: float = 1e-3
    """Learning rate of AdamW at full height."""
    matrix_rate: float = 0.02
    """Learning rate of Muon at full height."""
    trained: float = 1.0
    """Rate of what comes trained already, such as an encoder, as a share of the others' rate."""
    fade: float = 1.0
    """Of what comes trained, the rate of each block as a share of the rate of the next one."""
    decay: float = 0.05
    """Weight decay, on matrices alone."""
    betas: tuple[float, float] = (0.9, 0.999)
    """How long AdamW remembers gradients and their squares."""

    def __post_init__(self) -> None:
        check_kinds(self)
        for name in ("rate", "matrix_rate", "trained"):
            if not getattr(self, name) > 0:
                raise FieldError(f"{name}={getattr(self, name)}: a learning rate is above 0", name)
        if not 0 < self.fade <= 1:
            raise FieldError(f"fade={self.fade}: a share that lies in 0 < … ≤ 1", "fade")
        if self.decay < 0:
            raise FieldError(f"decay={self.decay}: it cannot be negative", "decay")
        if not all(0 <= beta < 1 for beta in self.betas):
            raise FieldError(f"betas={self.betas}: each lies in 0 ≤ … < 1", "betas")


@dataclass(frozen=True)
class ScheduleConfig:
    """The course of the learning rate over a run."""

    kind: Literal["cosine", "2017", "constant"] = "cosine"
    """Half a cosine down, the inverse square root of 2017, or level; each after a warm-up."""
    warmup: float = 0.1
    """Steps of linear warm-up: a share of the run below 1, a number of steps from 1 on."""
    floor: float = 0.0
    """Where the cosine ends, as a share of the full rate."""

    def __post_init__(self) -> None:
        check_kinds(self)
        if self.warmup < 0:
            raise FieldError(f"warmup={self.warmup}: it cannot be negative", "warmup")
        if not 0 <= self.floor <= 1:
            raise FieldError(f"floor={self.floor}: a share lies in 0 … 1", "floor")
        if self.kind == "2017" and self.warmup == 0:
            raise FieldError(
                "kind='2017' with warmup=0: its peak is where the warm-up ends", "warmup"
            )

    def warmup_steps(self, steps: int) -> int:
        """The warm-up of a run of `steps`, in steps."""
        return round(self.warmup * steps) if self.warmup < 1 else round(self.warmup)


@dataclass(frozen=True)
class TrainConfig:
    """How a model is trained, whatever the task."""

    epochs: int = 5
    """Passes over the training data."""
    accumulate: int = 1
    """Batches whose gradients are summed before a step: the step of one batch as large as all."""
    clip: float = 1.0
    """Largest norm of the gradients; longer ones are shortened. 0 leaves them alone."""
    average: float = 0.0
    """Share that a running mean of the weights keeps at each step; 0 keeps no mean."""
    keep: Literal["best", "last"] = "best"
    """Which epoch's weights are kept: the best on validation, or the last, if that is too small."""
    measure: int = 1
    """Epochs from one measuring on validation to the next; the last is measured whatever it is."""
    patience: int = 0
    """Epochs without a better validation figure before stopping; 0 never stops early."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Arithmetic of the forward pass; auto takes bfloat16 on a GPU that has it."""
    compile: Literal["auto", "on", "off"] = "auto"
    """Whether torch compiles the model; auto: on a GPU, for runs long enough to earn it back."""
    capture: Literal["auto", "on", "off"] = "auto"
    """Whether a GPU records steps and replays them, to the same result; auto: if over 5% faster."""
    deterministic: bool = False
    """Only operations that give the same bits each time; on a CPU this is so anyway."""
    threads: Literal["auto"] | int = "auto"
    """Threads on a CPU; auto: one, unless all are faster by a fifth as the run begins. May decide
    the last bits of a result: the number that was taken is kept here, and reproduces the run."""
    save_seconds: float = 60.0
    """Seconds between states to resume from, beside those after epochs that are not too short."""
    seed: int = 0
    """Where all random numbers of the run start."""
    optimiser: OptimiserConfig = field(default_factory=OptimiserConfig)
    """How parameters are moved."""
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    """The course of the learning rate."""

    def __post_init__(self) -> None:
        check_kinds(self)
        for name, least in (
            *(("epochs", 1), ("accumulate", 1), ("measure", 1)),
            *(("patience", 0), ("seed", 0)),
        ):
            if getattr(self, name) < least:
                raise FieldError(f"{name}={getattr(self, name)}: at least {least}", name)
        if self.threads != "auto" and not 1 <= self.threads <= MOST_THREADS:
            raise FieldError(
                f"threads={self.threads}: auto, or from 1 to {MOST_THREADS}", "threads"
            )
        if self.keep == "last" and self.patience:
            raise FieldError(
                f"patience={self.patience} waits for a best epoch, and keep='last'", "patience"
            )
        if not 0 <= self.average < 1:
            raise FieldError(f"average={self.average}: a share lies in 0 ≤ … < 1", "average")
        if self.clip < 0:
            raise FieldError(f"clip={self.clip}: a norm cannot be negative", "clip")
        if self.save_seconds < 0:
            raise FieldError(
                f"save_seconds={self.save_seconds}: time cannot be negative", "save_seconds"
            )
