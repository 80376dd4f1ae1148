"""`regard count`: what a model or a part of one costs, in closed form beside measured."""

from __future__ import annotations

import ast
import itertools
import json as encoder
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from regard.commands import Device, unchecked, value_of, with_default
from regard.config import build, change, to_values
from regard.count.cost import NUMBER, Cost, Sizes, held_bytes, total, training_peak
from regard.count.subjects import PARTS, SUBJECTS, find, name_of, sizes_for
from regard.errors import UserError, nearest
from regard.model import MODELS
from regard.tasks import TASKS
from regard.tasks.recipe import recipes

if TYPE_CHECKING:
    from regard.count.measured import Measured
    from regard.count.training import Estimate

SIZES = ("batch", "tokens", "context")
MOST = 1000  # rows of a what-if table
# Multiply-adds and bytes of activations above which a model is built but not run, by device.
MOST_RUN = {"cpu": (1 << 37, 1 << 32), "cuda": (1 << 44, 1 << 35)}
HUGE = 2_000_000_000  # parameters above which nothing is built, and there is the closed form alone
LONG = 5_000  # operations, all layers counted, above which it is so too: each takes time to build


@dataclass(frozen=True)
class Counted:
    """One configuration: its closed form, and what was measured of the real one."""

    config: Any
    sizes: Sizes
    costs: Sequence[Cost]
    """Of the whole pass."""
    step: Sequence[Cost] | None
    """Of one more token, if there is a cache."""
    cache: int
    """Numbers in it, or what they would be."""
    measured: Measured

    @property
    def agrees(self) -> bool:
        """Whether the parameters are those of the closed form, module by module, if measured."""
        if self.measured.parameters is None:
            return True
        for field in ("weights", "biases"):
            found = {where: n for where, n in getattr(self.measured, field).items() if n}
            if by_module(self.costs, field) != found:
                return False
        return True

    def to_values(self) -> dict[str, Any]:
        """Plain values, for programs."""
        costs, real = self.costs, self.measured
        return {
            "config": to_values(self.config),
            "sizes": vars(self.sizes),
            "parameters": {
                "closed": total(costs, "parameters"),
                "weights": total(costs, "weights"),
                "biases": total(costs, "biases"),
                "measured": real.parameters,
            },
            "multiply_adds": {
                "closed": total(costs, "multiply_adds"),
                "skipped_by_the_mask": total(costs, "skipped"),
                "measured": summed(real.multiply_adds),
                "torch": real.torch,
            },
            "bytes_moved": {
                "closed": NUMBER * total(costs, "moved"),
                "measured": summed(real.moved),
            },
            "activations": {"closed": held_bytes(costs), "measured": real.held},
            "training_peak": NUMBER * training_peak(costs),
            "one_more_token": {
                "closed": None if self.step is None else total(self.step, "multiply_adds"),
                "measured": real.cached,
            },
            "cache": {"closed": NUMBER * self.cache, "measured": real.cache},
        }


def count_for(args: Sequence[str]) -> Callable[..., int | None]:
    """The command, with the fields of the model or part named in `args` as flags."""
    from tyro.conf import UseAppendAction, arg

    known = (word for word in args if word.replace("-", "_") in SUBJECTS)
    name = args[0] if args and not args[0].startswith("-") else next(known, None)
    if name is None:
        if not {"-h", "--help"} & set(args):
            raise UserError(f"count what? there are {', '.join(SUBJECTS)}: regard count vit")
        vars(choose_a_subject)["description"] = overview()
        return choose_a_subject
    default = default_config(name, value_of(args, "--recipe"))
    kind = type(default)

    def count(
        subject: str,
        config: Any,
        batch: int = 1,
        tokens: int | None = None,
        context: int | None = None,
        cached: bool = False,
        vary: tuple[str, ...] = (),
        steps: int | None = None,
        check: bool = False,
        device: Device = "auto",
        recipe: str | None = None,
        json: bool = False,
    ) -> int:
        """Count.

        Args:
            subject: a model, a part of one, or the folder of a run.
            config: its fields.
            batch: texts or images at once.
            tokens: words of each text; an image has its patches.
            context: tokens of what else is read, such as a sentence to be translated.
            cached: also one more token, behind the keys and values of the others.
            vary: a table over values of a field or size, such as width=64,128,256; repeatable.
            steps: also estimate a training run of so many steps here, from one layer of each kind.
            check: with --steps, make some real steps too, and say how far off the estimate is.
            device: where to measure; auto takes a GPU if there is one.
            recipe: take the model of this recipe, by name.
            json: one object, for programs.
        """
        from regard.train.device import choose_device

        if steps is not None and steps < 1:
            raise UserError(f"--steps {steps}: there must be at least 1")
        if check and steps is None:
            raise UserError("--check holds an estimate against real steps: say --steps 1000")
        chosen = build(kind, to_values(config))
        asked = {"batch": batch, "tokens": tokens, "context": context}
        if vary:
            if steps is not None:
                raise UserError("--steps times one model; leave --vary out")
            return tabulate(chosen, asked, cached, vary, json)
        sizes = sizes_for(chosen, batch, tokens, context, cached)
        return tell(chosen, sizes, steps, check, str(choose_device(device)), json)

    shown = unchecked(kind)
    count.__annotations__["config"] = Annotated[shown, arg(name="")]
    count.__annotations__["vary"] = UseAppendAction[tuple[str, ...]]
    vars(count)["description"] = f"{(kind.__doc__ or '').strip()}\n\nCounted, and measured beside."
    return with_default(count, "config", shown(**vars(default)))


def tell(config: Any, sizes: Sizes, steps: int | None, check: bool, device: str, json: bool) -> int:
    """Count one configuration, and say what was found; 1 if its parameters are not as they say."""
    from regard.count.answers import answers

    if steps is not None:
        expect_trainable(config, sizes, check)
    counted = count_one(config, sizes, device)
    asked = answers(config, sizes)
    guess: Estimate | None = None
    if steps is not None:
        from regard.count.training import estimate

        guess = estimate(config, replace(sizes, cached=False), device, check=check)
    if json:
        values = {
            "subject": name_of(config),
            **counted.to_values(),
            "operations": [vars(cost) for cost in counted.costs],
            "answers": {each.asked: each.value for each in asked},
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
        from regard.count.told import show

        show(counted, asked, guess, steps)
    return int(not counted.agrees)


def expect_trainable(config: Any, sizes: Sizes, check: bool) -> None:
    """Or a sentence: a part is not trained, and what is timed must be built."""
    from regard.count.training import thinned

    if name_of(config) not in MODELS:
        raise UserError(f"--steps trains a model, and {name_of(config)} is a part of one")
    for flag, timed in (("--steps", thinned(config)), *([("--check", config)] if check else [])):
        why = too_large(closed_form(timed, replace(sizes, cached=False)))
        if why:
            raise UserError(f"{flag}: what it times has {why}, and is not built")


def count_one(config: Any, sizes: Sizes, device: str = "cpu", *, run: bool = True) -> Counted:
    """The closed form of a whole pass, and the real thing beside it if it is not too large."""
    listed = closed_form(config, replace(sizes, cached=False))
    heavy, room = MOST_RUN.get(device.partition(":")[0], MOST_RUN["cpu"])
    light = total(listed, "multiply_adds") + total(listed, "skipped") <= heavy
    runs = run and light and held_bytes(listed) <= room
    with contradictions_told():
        from regard.count.closed import cache_numbers

        return Counted(
            config,
            sizes,
            listed,
            closed_form(config, sizes) if sizes.cached else None,
            cache_numbers(config, sizes),
            measured_if_small(config, sizes, listed, device, run=runs),
        )


def measured_if_small(
    config: Any, sizes: Sizes, listed: Sequence[Cost], device: str, *, run: bool
) -> Measured:
    """What the real one has; of one that is too large nothing, but its contradictions are told."""
    from regard.count.measured import Measured, measure, parameters
    from regard.count.training import thinned

    if not too_large(listed):
        return measure(config, sizes, device, run=run)
    with suppress(RuntimeError):  # more numbers than torch can say a size of, even without memory
        parameters(thinned(config), sizes)
    return Measured()


def too_large(listed: Sequence[Cost]) -> str:
    """Why something is not built, with its number; nothing where it is."""
    parameters, operations = total(listed, "parameters"), sum(cost.times for cost in listed)
    if parameters > HUGE:
        return f"{parameters:,} parameters, more than {HUGE:,}"
    return f"{operations:,} operations, more than {LONG:,}" if operations > LONG else ""


def closed_form(config: Any, sizes: Sizes) -> list[Cost]:
    from regard.count.closed import costs

    with contradictions_told():
        return costs(config, sizes)


@contextmanager
def contradictions_told() -> Iterator[None]:
    """What a model says against its own configuration is a user's mistake."""
    try:
        yield
    except ValueError as contradiction:
        raise UserError(str(contradiction)) from None


def tabulate(
    config: Any, asked: Mapping[str, int | None], cached: bool, vary: Sequence[str], json: bool
) -> int:
    """A row for every combination: closed forms, with the parameters of each counted too."""
    axes = [axis(config, words) for words in vary]
    names = [name for name, _ in axes]
    if len(set(names)) < len(names):
        raise UserError(f"--vary {' '.join(names)}: each name once")
    combinations = list(itertools.product(*(values for _, values in axes)))
    if len(combinations) > MOST:
        raise UserError(f"--vary: {len(combinations)} rows; {MOST} is the limit")
    rows = [
        (values, varied(config, asked, cached, dict(zip(names, values, strict=True))))
        for values in combinations
    ]
    if json:
        print(
            encoder.dumps(
                {
                    "subject": name_of(config),
                    "vary": names,
                    "rows": [
                        {"varied": dict(zip(names, values, strict=True)), **row.to_values()}
                        for values, row in rows
                    ],
                },
                indent=1,
                ensure_ascii=False,
            )
        )
    else:
        from regard.count.told import show_table

        show_table(name_of(config), names, rows)
    return int(not all(row.agrees for _, row in rows))


def varied(
    config: Any, asked: Mapping[str, int | None], cached: bool, values: Mapping[str, str]
) -> Counted:
    """One row."""
    plain = {name: literal(value) for name, value in values.items() if name not in SIZES}
    own = {name: whole(name, value) for name, value in values.items() if name in SIZES}
    changed = change(config, plain)
    sizes = sizes_for(changed, **(dict(asked) | own), cached=cached)  # type: ignore[arg-type]
    return count_one(changed, sizes, run=False)


def axis(config: Any, words: str) -> tuple[str, list[str]]:
    """`width=64,128` as a name and its values; commas within brackets belong to a value."""
    name, sign, values = words.partition("=")
    name = name.strip().replace("-", "_")
    known = [*SIZES, *dotted(config)]
    if not sign or not values.strip():
        raise UserError(f"--vary {words}: write it as width=64,128,256")
    if name not in known:
        raise UserError(f"--vary {words}: there is no {name}; {nearest(name, known)}")
    found = [value.strip() for value in re.split(r",(?![^(]*\))", values)]
    if not all(found):
        raise UserError(f"--vary {words}: a value between commas is empty")
    return name, found


def dotted(config: Any, under: str = "") -> list[str]:
    """The names of all fields, such as encoder.width."""
    names: list[str] = []
    for field in fields(config):
        value = getattr(config, field.name)
        inner = dotted(value, f"{under}{field.name}.") if is_dataclass(value) else []
        names += inner or [under + field.name]
    return names


def literal(value: str) -> Any:
    """A value in brackets is several; all else is read as a flag would be."""
    if not value.startswith("("):
        return value
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        raise UserError(f"--vary: cannot read {value}; an example: (32,64)") from None


def whole(name: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise UserError(f"--vary: {name}={value} is no whole number") from None


def by_module(costs: Sequence[Cost], field: str) -> dict[str, int]:
    """A field summed over the operations of each module, those with none left out."""
    found: dict[str, int] = {}
    for cost in costs:
        found[cost.where] = found.get(cost.where, 0) + getattr(cost, field) * cost.times
    return {where: n for where, n in found.items() if n}


def summed(counts: Mapping[str, int] | None) -> int | None:
    return None if counts is None else sum(counts.values())


def default_config(name: str, recipe: str | None) -> Any:
    """The configuration to start from: a model's own, that of a recipe, or that of a run."""
    if os.path.isfile(f"{name}/config.toml"):
        from regard.tasks.run import load

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


def choose_a_subject() -> None:
    """Only `regard count --help` comes here, since every other use names something."""


def overview() -> str:
    """What can be counted, for `regard count --help`."""
    lines = ["Count a model: regard count vit, and regard count vit --help for all its flags.", ""]
    lines.append(f"models: {', '.join(MODELS)}")
    for name, kind in PARTS.items():
        lines.append(f"{name}: {(kind.__doc__ or '').strip()}")
    return "\n".join(lines)
