"""`regard count`: what a model or a part of one costs, in closed form beside measured."""

from __future__ import annotations

import json as encoder
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.cli.parse import POSITIONAL, REPEATED, Device, after, parse
from regard.config import change
from regard.count.counted import closed_form, count_one, too_large
from regard.count.formulas import Sizes
from regard.count.subjects import PARTS, SUBJECTS, find, name_of, sizes_for
from regard.count.sweep import tabulate
from regard.errors import UserError, nearest
from regard.models import MODELS
from regard.runs.recipe import recipes
from regard.tasks import TASKS

if TYPE_CHECKING:
    from regard.cli import Command
    from regard.training.step_cost import Estimate


@dataclass(frozen=True, kw_only=True)
class Options:
    """The flags of `regard count`."""

    subject: str = field(metadata=POSITIONAL)
    """A model, a part of one, or the folder of a run."""
    batch_size: int = 1
    """Texts or images at once."""
    tokens: int | None = None
    """Words of each text; an image has its patches."""
    encoder_tokens: int | None = None
    """Tokens of what else is read, such as a sentence to be translated."""
    cached: bool = False
    """Also one more token, behind the keys and values of the others."""
    vary: tuple[str, ...] = field(default=(), metadata=REPEATED)
    """A table over values of a field or size, such as width=64,128,256; repeatable."""
    steps: int | None = None
    """Also estimate a training run of so many steps here, from one layer of each kind."""
    verify: bool = False
    """With --steps, make some real steps too, and say how far off the estimate is."""
    device: Device = "auto"
    """Where to measure; auto takes a GPU if there is one."""
    recipe: str | None = None
    """Take the model of this recipe, by name."""
    json: bool = False
    """One object, for programs."""


def read(command: Command, args: Sequence[str]) -> Callable[[], int]:
    """The count to be made; the fields of the model or part are flags too."""
    known = (word for word in args if word.replace("-", "_") in SUBJECTS)
    name = args[0] if args and not args[0].startswith("-") else next(known, None)
    if name is None:
        if {"-h", "--help"} & set(args):
            print(overview(command))
            raise SystemExit(0)
        raise UserError(f"count what? there are {', '.join(SUBJECTS)}: regard count vit")
    default = default_config(name, after(args, "--recipe"))
    words = f"{(type(default).__doc__ or '').strip()}\n\nCounted, and measured beside."
    options, changes = parse(command._replace(summary=words), Options, args, default)
    return partial(count, options, change(default, changes))


def count(options: Options, config: Any) -> int:
    """Count one configuration, or a table of several."""
    from regard.hardware.device import choose_device

    steps = options.steps
    if steps is not None and steps < 1:
        raise UserError(f"--steps {steps}: there must be at least 1")
    if options.verify and steps is None:
        raise UserError("--verify holds an estimate against real steps: say --steps 1000")
    batch, tokens, context, cached = (
        options.batch_size,
        options.tokens,
        options.encoder_tokens,
        options.cached,
    )
    if options.vary:
        if steps is not None:
            raise UserError("--steps times one model; leave --vary out")
        given = {"batch_size": batch, "tokens": tokens, "encoder_tokens": context}
        return tabulate(config, given, cached, options.vary, options.json)
    sizes = sizes_for(config, batch, tokens, context, cached)
    device = str(choose_device(options.device))
    return tell(config, sizes, steps, options.verify, device, options.json)


def tell(config: Any, sizes: Sizes, steps: int | None, check: bool, device: str, json: bool) -> int:
    """Count one configuration, and say what was found; 1 if its parameters are not as they say."""
    from regard.count.answers import answers

    if steps is not None:
        expect_trainable(config, sizes, check)
    counted = count_one(config, sizes, device)
    answered = answers(config, sizes)
    guess: Estimate | None = None
    if steps is not None:
        from regard.training.step_cost import estimate

        guess = estimate(config, replace(sizes, cached=False), device, check=check)
    if json:
        values = {
            "subject": name_of(config),
            **counted.to_values(),
            "operations": [vars(cost) for cost in counted.costs],
            "answers": {each.quantity: each.value for each in answered},
        }
        if guess is not None:
            assert steps is not None
            values["estimate"] = {
                **{name: value for name, value in vars(guess).items() if name != "peak"},
                "peak": vars(guess.peak),
                "steps": steps,
                "run": steps * guess.seconds,
            }
        print(encoder.dumps(values, indent=1, ensure_ascii=False))
    else:
        from regard.count.table import show

        show(counted, answered, guess, steps)
    return int(not counted.agrees)


def expect_trainable(config: Any, sizes: Sizes, check: bool) -> None:
    """Or a sentence: a part is not trained, and what is timed must be built."""
    from regard.training.step_cost import thinned

    if name_of(config) not in MODELS:
        raise UserError(f"--steps trains a model, and {name_of(config)} is a part of one")
    for flag, timed in (("--steps", thinned(config)), *([("--verify", config)] if check else [])):
        why = too_large(closed_form(timed, replace(sizes, cached=False)))
        if why:
            raise UserError(f"{flag}: what it times has {why}, and is not built")


def default_config(name: str, recipe: str | None) -> Any:
    """The configuration to start from: a model's own, that of a recipe, or that of a run."""
    if os.path.isfile(f"{name}/config.toml"):
        from regard.runs.run import load

        if recipe is not None:
            raise UserError(f"--recipe {recipe}: the run {name} has a model of its own")
        config = load(Path(name), device="cpu").model.config
        if type(config) not in SUBJECTS.values():
            raise UserError(f"{name}: nobody has said what a {type(config).__name__} costs")
        return config
    kind = find(name)
    if recipe is None:
        return kind()
    trained = models_of_recipes()
    models = trained.get(recipe, {})
    if kind in models:
        return models[kind]
    if models:
        others = [name_of(model) for model in models.values()]
        raise UserError(
            f"the recipe {recipe!r} trains a {' or a '.join(others)}, which {name} is not: "
            f"regard count {others[0]} --recipe {recipe}"
        )
    fitting = [called for called, models in trained.items() if kind in models]
    if not fitting:
        every = sorted({name_of(model) for models in trained.values() for model in models.values()})
        raise UserError(
            f"no recipe {recipe!r}, nor any for {name}: recipes train {', '.join(every)}"
        )
    raise UserError(f"no recipe {recipe!r} for a {name}; {nearest(recipe, fitting)}")


def models_of_recipes() -> dict[str, dict[type[Any], Any]]:
    """What each recipe trains; recipes for several tasks may have one name, and a model each."""
    trained: dict[str, dict[type[Any], Any]] = {}
    for task, entry in TASKS.items():
        for called, read in recipes(task).items():
            config = read.config(entry.load_config())
            # Who has models of several kinds says which of them is trained.
            model = config.chosen if hasattr(config, "chosen") else config.model
            trained.setdefault(called, {})[type(model)] = model
    return trained


def overview(command: Command) -> str:
    """What can be counted, for `regard count --help`."""
    lines = ["usage: regard count SUBJECT [FLAGS]", ""]
    lines += ["Count a model: regard count vit, and regard count vit --help for all its flags.", ""]
    lines.append(f"models: {', '.join(MODELS)}")
    for name, kind in PARTS.items():
        lines.append(f"{name}: {(kind.__doc__ or '').strip()}")
    return "\n".join([*lines, "", "examples:", *(f"  {line}" for line in command.examples)])
