"""`regard COMMAND …`: finds the command, and turns errors into sentences and exit codes.

Commands are named here, and each lives in a file of its own, which reads its flags by `parse` and
returns the call to be made. Nothing heavy is imported until one is called, so that `regard --help`
answers at once.
"""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import NamedTuple

from regard import __version__
from regard.errors import UserError, nearest
from regard.hardware.memory import keep_freed_memory
from regard.tasks import examples
from regard.training.signals import code_of, listening, words_of


class Command(NamedTuple):
    """One verb: what it does in a line, how it is typed, and the module that does it."""

    name: str
    summary: str
    examples: tuple[str, ...]
    module: str = ""  # its function `read` is given the command and what was typed
    group: str = ""  # the heading it stands under in the overview

    @property
    def typed(self) -> str:
        """How it is typed; a script that stands outside has its whole line for a name."""
        return f"regard {self.name}" if self.module else self.name

    def read(self, args: Sequence[str]) -> Callable[[], int | None]:
        """The call that these words ask for, to be made."""
        call: Callable[[], int | None] = import_module(self.module).read(self, list(args))
        return call


MODELS, INSIDE, HERE = "train and use models", "see inside", "data and this machine"
ALL = (
    Command(
        "train",
        "train a model on built-in data, on a named data set, or on your own data",
        examples("train"),
        "regard.cli.train",
        MODELS,
    ),
    Command(
        "evaluate",
        "evaluate a run (a folder that train wrote) on held-out data, with 95% intervals",
        examples("evaluate"),
        "regard.cli.evaluate",
        MODELS,
    ),
    Command(
        "predict",
        "predict with a run, on images or texts of yours, or on its own data",
        examples("predict"),
        "regard.cli.predict",
        MODELS,
    ),
    Command(
        "compare",
        "curves of several runs on one figure, and how much each has memorised",
        examples("compare"),
        "regard.cli.compare",
        MODELS,
    ),
    Command(
        "average",
        "average the weights of several runs with the same start (a model soup), often better",
        examples("average"),
        "regard.cli.average",
        MODELS,
    ),
    Command(
        "look",
        "attention maps of a run, by layer and head, as an HTML page or a picture",
        examples("look"),
        "regard.cli.look",
        INSIDE,
    ),
    Command(
        "studio",
        "your runs in the browser, on this machine alone: live curves, and where a run looked",
        ("regard studio", "regard studio --root elsewhere/runs --port 8400"),
        "regard.studio.command",
        INSIDE,
    ),
    Command(
        "lab",
        "the theory of attention, checked numerically, claim by claim",
        (
            "regard lab",
            "regard lab softmax-jacobian --z -3 1 100 5 -1",
            "regard lab --worksheet 7 --out sheets/",
        ),
        "regard.lab.command",
        INSIDE,
    ),
    Command(
        "count",
        "what a model costs: parameters, operations, memory; by formula and measured",
        (
            "regard count vit --width 64 --layers 5",
            "regard count attention --width 512 --tokens 256 --axis channel",
            "regard count gpt --context-length 1024 --vary width=128,256 --vary tokens=256,1024",
        ),
        "regard.cli.count",
        INSIDE,
    ),
    Command(
        "demo",
        "a tour on built-in data: shapes, masks, and a small model that learns",
        ("regard demo",),
        "regard.cli.demo",
        INSIDE,
    ),
    Command(
        "data",
        "what data there is and where; check your own, fetch by name, free the cache",
        ("regard data", "regard data fetch fashion-mnist", "regard data check photos/"),
        "regard.cli.data",
        HERE,
    ),
    Command(
        "doctor",
        "what this machine has: torch, devices, kernels, data, caches; and one piece of advice",
        ("regard doctor", "regard doctor --json"),
        "regard.cli.doctor",
        HERE,
    ),
)
COMMANDS: Mapping[str, Command] = MappingProxyType({each.name: each for each in ALL})


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
        return call(COMMANDS[name], rest)
    else:
        raise UserError(unknown_command(name))
    return 0


def call(command: Command, args: list[str]) -> int:
    """Read `args` by the flags of the command, do what they ask for, and return its code.

    A command that says nothing was done; one that has found something wrong says 1.
    """
    keep_freed_memory()
    return int(command.read(args)() or 0)


def overview() -> str:
    """The text of `regard --help`."""
    width = max(map(len, COMMANDS))
    lines = ["regard: transformers you can see through", ""]
    lines += ["usage: regard COMMAND [FLAGS]    regard COMMAND --help    regard --version"]
    for group in (MODELS, INSIDE, HERE):
        lines += ["", f"{group}:"]
        lines += [
            f"  {name:<{width}}  {command.summary}"
            for name, command in COMMANDS.items()
            if command.group == group
        ]
    lines += ["", "examples:", *(f"  {command.examples[0]}" for command in COMMANDS.values())]
    return "\n".join(lines)


def unknown_command(name: str) -> str:
    """Say that there is no such command, and which one was probably meant."""
    kind = "flag" if name.startswith("-") else "command"
    known = ("--help", "--version") if kind == "flag" else tuple(COMMANDS)
    return f"no {kind} {name!r}; {nearest(name, known)}"
