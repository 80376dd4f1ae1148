"""`regard COMMAND …`: finds the command, lets tyro read its flags, and turns errors into sentences.

Commands are named here and live elsewhere. Nothing heavy is imported until one is called,
so that `regard --help` answers at once.
"""

import contextlib
import functools
import inspect
import io
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from importlib import import_module
from types import MappingProxyType
from typing import Annotated, Any, cast, get_type_hints

from regard import __version__
from regard.errors import ConfigError, UserError, nearest
from regard.hardware.memory import keep_freed_memory
from regard.tasks import examples
from regard.training.signals import code_of, listening, words_of

# What the parser says of a value, and how it is said here.
KINDLY = {
    r"no type matching (?:{None}\|)?(\w+) could be instantiated from \['(.*)'\]": r"'\2' is no \1",
    r"invalid literal for int\(\) with base 10: '(.*)'": r"'\1' is no INT",
    r"could not convert string to float: '(.*)'": r"'\1' is no FLOAT",
    r"is no INT$": "is no whole number",
    r"is no FLOAT$": "is no number",
}


@dataclass(frozen=True)
class Command:
    """One verb: what it does in a line, how it is typed, and the function that does it."""

    summary: str
    examples: tuple[str, ...]
    target: str  # "module:function"; its signature becomes the flags
    adapts: bool = False  # whether that function is given what was typed, and returns the command

    def load(self) -> Callable[..., Any]:
        module, _, function = self.target.partition(":")
        found: Callable[..., Any] = getattr(import_module(module), function)
        return found


COMMANDS: Mapping[str, Command] = MappingProxyType(
    {
        "demo": Command(
            "a tour on embedded data: shapes, masks, and a small model that learns",
            ("regard demo",),
            "regard.cli.demo:demo",
        ),
        "train": Command(
            "train a model on embedded data, on data by name, or on your own",
            examples("train"),
            "regard.cli.commands:train_for",
            adapts=True,
        ),
        "evaluate": Command(
            "measure a run on data it has not seen, with intervals",
            examples("evaluate"),
            "regard.cli.commands:evaluate",
        ),
        "predict": Command(
            "ask a run about images or texts of yours, or about its own data",
            examples("predict"),
            "regard.cli.commands:predict_for",
            adapts=True,
        ),
        "look": Command(
            "where a run looked: by layer and head, as a page or a picture",
            examples("look"),
            "regard.cli.commands:look",
        ),
        "compare": Command(
            "curves of several runs on one figure, and how much each has memorised",
            examples("compare"),
            "regard.cli.commands:compare",
        ),
        "average": Command(
            "one run of several that began from the same weights: their mean, often better",
            examples("average"),
            "regard.cli.commands:average",
        ),
        "studio": Command(
            "your runs in the browser, on this machine alone: live curves, and where a run looked",
            ("regard studio", "regard studio --root elsewhere/runs --port 8400"),
            "regard.studio.command:studio",
        ),
        "data": Command(
            "what data there is and where; check your own, fetch by name, free the cache",
            ("regard data", "regard data fetch fashion-mnist", "regard data check photos/"),
            "regard.cli.data:data",
        ),
        "lab": Command(
            "the theory of attention, checked numerically, claim by claim",
            (
                "regard lab",
                "regard lab softmax-jacobian --z -3 1 100 5 -1",
                "regard lab --sheet 7 --out sheets/",
            ),
            "regard.lab.command:lab_for",
            adapts=True,
        ),
        "count": Command(
            "what a model costs: parameters, operations, memory; by formula and measured",
            (
                "regard count vit --width 64 --layers 5",
                "regard count attention --width 512 --tokens 256 --over channels",
                "regard count gpt --length 1024 --vary width=128,256 --vary tokens=256,1024",
            ),
            "regard.cli.count:count_for",
            adapts=True,
        ),
        "doctor": Command(
            "what this machine has: torch, devices, kernels, data, caches; and one piece of advice",
            ("regard doctor", "regard doctor --json"),
            "regard.cli.doctor:doctor",
        ),
    }
)


# How long a thread that waits for others spins before it sleeps. By default that is longer than a
# small model's operations take, and beside another busy process all of that time is lost. libgomp
# counts turns of a loop, LLVM's and Intel's OpenMP milliseconds; both read this when torch loads.
# docs/training.md says what it is worth.
SHORT_WAITS = {"GOMP_SPINCOUNT": "300", "KMP_BLOCKTIME": "0"}


def let_threads_sleep() -> None:
    """Ask OpenMP for short waits, unless the user has said how threads wait."""
    if not {"OMP_WAIT_POLICY", *SHORT_WAITS} & set(os.environ):
        os.environ.update(SHORT_WAITS)


def main(args: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code: 0 on success and only then."""
    let_threads_sleep()
    # A console that cannot show β or → prints a question mark instead of crashing.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    try:
        with listening():
            code = dispatch(list(sys.argv[1:] if args is None else args))
        # Else a closed pipe would be noticed only when the interpreter is already leaving.
        sys.stdout.flush()
        return code
    except UserError as mistake:
        print(f"regard: {mistake}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as stop:
        print(f"regard: {words_of(stop)}", file=sys.stderr)
        return code_of(stop)
    except SystemExit as leaving:
        if not isinstance(leaving.__context__, BrokenPipeError):
            raise
        return 141  # rich leaves with 1 where it finds the pipe closed
    except BrokenPipeError:
        # The reader left (`regard doctor | head -1`); what is still buffered has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141  # 128 + SIGPIPE


def dispatch(args: list[str]) -> int:
    """Answer the general flags here, and hand everything else to the command that is named."""
    if not args:
        print(overview())
        return 2
    name, rest = args[0], args[1:]
    if name in ("-h", "--help"):
        print(overview())
    elif name == "--version":
        print(f"regard {__version__}")
    elif name in COMMANDS:
        return call(name, COMMANDS[name], rest)
    else:
        raise UserError(unknown(name))
    return 0


def call(name: str, command: Command, args: list[str]) -> int:
    """Parse `args` by the signature of the command's function, call it, and return its code.

    A command that says nothing was done; one that has found something wrong says 1.
    """
    import tyro

    keep_freed_memory()
    loaded = command.load()
    if command.adapts:
        loaded = loaded(args)
    words = vars(loaded).get("description", command.summary)
    framed = io.StringIO()
    try:
        with contextlib.redirect_stderr(framed):
            parsed = tyro.cli(
                typed_in_place(loaded), args=args, prog=f"regard {name}", description=words
            )
    except SystemExit as leaving:
        if leaving.code:
            raise UserError(unframed(framed.getvalue(), name)) from None
        if "-h" in args or "--help" in args:
            shown = vars(loaded).get("examples", command.examples)  # of one task, its own
            print("\n".join(("examples:", *(f"  {line}" for line in shown))))
        raise
    except ValueError as contradiction:  # a configuration's own word on its fields
        raise ConfigError(str(contradiction), key=getattr(contradiction, "field", "")) from None
    return int(parsed() or 0)


def unframed(text: str, name: str) -> str:
    """What the parser says in a frame of several lines, as a sentence."""
    blocks: list[list[str]] = [[]]
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    for line in text.splitlines():
        inside = line.strip("│| ")
        if line[:1] in "╭╰+" or (inside and not inside.strip("-─")):  # an edge, or a rule
            blocks.append([])
        elif inside:
            blocks[-1].append(inside)
    if text[:1] != "╭":  # without a frame, the title is a block of its own
        blocks = blocks[1:]
    told, *others = [block for block in blocks if block] or [[f"regard {name} cannot read this"]]
    first = " ".join(told).removeprefix("Error parsing ").removeprefix("config.")
    first = first.split(" Got errors: ")[0].rstrip(". ")
    for pattern, words in KINDLY.items():
        first = re.sub(pattern, words, first)
    near = next((block[1].split()[0] for block in others if block[0] == "Perhaps you meant:"), "")
    hint = f"; did you mean {near.rstrip(',')}?" if near else f" (regard {name} --help)"
    return first + hint


def typed_in_place(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, with `*names` and arguments without a default typed without a flag.

    It does not call what it wraps, but returns the call, to be made when all is parsed.
    A required dataclass keeps its flags: marked so, each of its fields would lose theirs.
    """
    from tyro.conf import Positional, arg

    signature = inspect.signature(function)
    hints = get_type_hints(function, include_extras=True)
    for name, parameter in signature.parameters.items():
        many = parameter.kind is parameter.VAR_POSITIONAL
        needed = parameter.default is parameter.empty and not is_dataclass(hints[name])
        if many or needed:
            # Named as in the examples: else a folder of a run would be a PATH among others.
            word = arg(metavar=name.upper().removesuffix("S"))
            hints[name] = Annotated[cast(Any, Positional)[hints[name]], word]

    @functools.wraps(function)
    def same(*args: Any, **kwargs: Any) -> Any:
        # Called when all is read, so that what it raises is told from what the parser does.
        return functools.partial(function, *args, **kwargs)

    # tyro looks through a wrapper that says it is one, and would read the old hints.
    vars(same).pop("__wrapped__")
    vars(same)["__signature__"] = signature
    same.__annotations__ = hints
    return same


def overview() -> str:
    """The text of `regard --help`."""
    width = max(map(len, COMMANDS))
    return "\n".join(
        (
            "regard: transformers you can see through",
            "",
            "usage: regard COMMAND [FLAGS]    regard COMMAND --help    regard --version",
            "",
            *(f"  {name:<{width}}  {command.summary}" for name, command in COMMANDS.items()),
            "",
            "examples:",
            *(f"  {command.examples[-1]}" for command in COMMANDS.values()),
        )
    )


def unknown(name: str) -> str:
    """Say that there is no such command, and which one was probably meant."""
    kind = "flag" if name.startswith("-") else "command"
    known = ("--help", "--version") if kind == "flag" else tuple(COMMANDS)
    return f"no {kind} {name!r}; {nearest(name, known)}"
