"""A bar for anything that takes more than two seconds, and nothing for what takes less."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

PATIENCE = 2.0  # seconds without a bar


@contextmanager
def progress(words: str, total: int, *, done: int = 0) -> Iterator[Callable[[int], None]]:
    """Gives a function to call with the work just done, in the units of `total`.

    The bar is written to the error stream, where it disturbs no output.
    """
    start = time.monotonic()
    bar: Callable[[int], None] | None = None
    with ExitStack() as stack:

        def advance(by: int) -> None:
            nonlocal done, bar
            done += by
            if bar is None and time.monotonic() - start > PATIENCE:
                bar = stack.enter_context(shown(words, total))
            if bar is not None:
                bar(done)

        yield advance


@contextmanager
def shown(words: str, total: int) -> Iterator[Callable[[int], None]]:
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as display:
        task = display.add_task(words, total=total)
        yield lambda done: display.update(task, completed=done)
