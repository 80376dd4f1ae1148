"""Many image files decoded by several processes, straight into one file of pixels.

A worker is a fresh interpreter that imports this module and nothing of the caller's, so a script
without `if __name__ == "__main__":`, a notebook and every platform are served alike. It is told
what to do in JSON on its input, writes pixels to their place in the file, and answers one line of
JSON an image.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import IO, Any, Literal, NamedTuple

from regard.data.decode import decode
from regard.errors import DataIssue, UserError
from regard.progress import progress

LITTLE = 2**25  # bytes of images that are decoded before a second process has started
MOST = 8  # processes; disks are seldom faster

# What stops the caller, sent to all of its group, is for the caller alone: it ends its workers, and
# would else take one that a signal ended for one that a file did.
START = (
    "import signal; [signal.signal(getattr(signal, name), signal.SIG_IGN) "
    "for name in ('SIGINT', 'SIGTERM', 'SIGHUP') if hasattr(signal, name)]; "
    "import json, sys; job = json.load(sys.stdin); sys.path[:] = job.pop('path'); "
    "from regard.data.workers import work; work(**job)"
)


@dataclass(frozen=True)
class Target:
    """Where pixels go: a file with `channels · size · size` bytes an image, after `start`."""

    file: str
    start: int
    size: int
    channels: Literal[1, 3]


class Outcome(NamedTuple):
    """The digest of one file, or what is wrong with it."""

    digest: str
    trouble: str = ""


def decode_all(
    paths: Sequence[Path], target: Target | None, *, workers: int | None = None
) -> list[Outcome]:
    """Decode every file, keep the pixels if a target is given, and say how each one went.

    `workers` is the number of processes: by default this one alone when there is little to do,
    else one a core. A full disk is an `OSError`; an image that cannot be decoded is an outcome.
    """
    if workers is None:
        workers = 1 if bytes_in(paths) < LITTLE else min(MOST, usable_cores())
    outcomes: dict[int, Outcome] = {}
    with progress("reading images", len(paths)) as advance:
        if workers < 2:
            answers = decode_here(list(enumerate(map(str, paths))), target)
        else:
            answers = decode_elsewhere(list(enumerate(map(str, paths))), target, workers)
        for row, outcome in answers:
            outcomes[row] = outcome
            advance(1)
    return [outcomes[row] for row in range(len(paths))]


def bytes_in(paths: Sequence[Path]) -> int:
    return sum(path.stat().st_size for path in paths if path.exists())


def usable_cores() -> int:
    """Cores this process may run on, which in a container can be fewer than there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


Files = Sequence[tuple[int, str]]


def decode_here(files: Files, target: Target | None) -> Iterator[tuple[int, Outcome]]:
    """Decode files one after the other; each has the row that its pixels go to."""
    # Written, not mapped: a full disk is then an error, and not a signal that ends the process.
    with open(target.file, "r+b", buffering=0) if target else nullcontext() as out:
        for row, path in files:
            try:
                if target:
                    pixels, digest = decode(Path(path), target.size, target.channels)
                else:
                    pixels, digest = decode(Path(path))
            except UserError as trouble:
                yield row, Outcome("", str(trouble))
                continue
            if target and out:
                out.seek(target.start + row * pixels.nbytes)
                write_all(out, pixels.tobytes())
            yield row, Outcome(digest)


def write_all(out: IO[bytes], data: bytes) -> None:
    """Write every byte; an unbuffered file may take fewer at a time."""
    left = memoryview(data)
    while left:
        left = left[out.write(left) :]


def decode_elsewhere(
    files: Files, target: Target | None, workers: int
) -> Iterator[tuple[int, Outcome]]:
    """The same as `decode_here`, by several processes and in any order."""
    parts = [files[number::workers] for number in range(workers) if files[number::workers]]
    queue: SimpleQueue[tuple[int, str]] = SimpleQueue()
    with ExitStack() as stack:
        processes = [stack.enter_context(started(part, target)) for part in parts]
        for number, process in enumerate(processes):
            Thread(target=listen, args=(number, process, queue.put), daemon=True).start()
        finished = [0] * len(parts)
        working = len(parts)
        while working:
            number, line = queue.get()
            if line:
                answer = json.loads(line)
                if "errno" in answer:
                    raise OSError(answer["errno"], answer["words"], answer["file"])
                finished[number] += 1
                yield answer["row"], Outcome(answer["digest"], answer["trouble"])
                continue
            working -= 1
            code = processes[number].wait()
            if finished[number] < len(parts[number]):
                _, path = parts[number][finished[number]]
                raise DataIssue(
                    f"{path}: the process that was decoding it ended with code {code}; "
                    "take this file out and try again",
                    path,
                    kind="crash",
                )


@contextmanager
def started(part: Files, target: Target | None) -> Iterator["subprocess.Popen[str]"]:
    """A worker with its job, ended when it is no longer wanted."""
    job = {"files": part, "target": target and asdict(target), "path": sys.path}
    process = subprocess.Popen(
        # -P: a file in the current folder must not be taken for one of Python's own modules.
        (sys.executable, "-P", "-c", START),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="ascii",
    )
    assert process.stdin and process.stdout
    try:
        with process.stdin:
            json.dump(job, process.stdin)
        yield process
    finally:
        process.kill()  # what it writes to is a draft, or the caller's own to throw away
        process.wait()
        process.stdout.close()


def listen(
    number: int, process: "subprocess.Popen[str]", put: Callable[[tuple[int, str]], None]
) -> None:
    """Pass on what a worker says, and an empty line when it has ended."""
    assert process.stdout
    try:
        for line in process.stdout:
            put((number, line))
    except ValueError:  # closed, because nobody is interested any more
        pass
    finally:
        put((number, ""))


def work(files: Files, target: dict[str, Any] | None) -> None:
    """What a worker does."""
    try:
        for row, outcome in decode_here(files, Target(**target) if target else None):
            print(json.dumps({"row": row, **outcome._asdict()}), flush=True)
    except BrokenPipeError:
        os._exit(1)  # the caller is gone
    except OSError as trouble:
        words = {"errno": trouble.errno, "words": trouble.strerror, "file": trouble.filename}
        print(json.dumps(words), flush=True)
