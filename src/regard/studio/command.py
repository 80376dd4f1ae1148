"""`regard studio [RUN…]`: serve the page, say where, and open it."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from regard.cli.parse import POSITIONAL, parse
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.cli import Command

WAITING = "OMP_WAIT_POLICY"  # which OpenMP reads once, when it is loaded


@dataclass(frozen=True, kw_only=True)
class Options:
    """The flags of `regard studio`."""

    runs: tuple[Path, ...] = field(default=(), metadata=POSITIONAL)
    """Folders of runs to show beside those in the root."""
    root: Path = Path("runs")
    """The folder with your runs; new ones are made there."""
    host: str = "127.0.0.1"
    """The address to listen on; any but this machine's own asks visitors for a token."""
    port: int = 8347
    """The port to listen on; 0 takes one that is free."""
    open_browser: bool = True
    """Open the page at once."""
    data: tuple[Path, ...] = ()
    """Folders with data of your own; the page may name what lies in them, or in the root."""
    keep_training: bool = False
    """Let trainings go on when the studio ends; the page can say so of each."""


def read(command: Command, args: Sequence[str]) -> Callable[[], None]:
    """The call to be made."""
    return partial(studio, parse(command, Options, args)[0])


def studio(options: Options) -> None:
    """See your runs in the browser."""
    root, host, port = options.root, options.host, options.port
    try:
        with sleeping_threads():
            import uvicorn

            from regard.studio.app import make_app
            from regard.studio.serving import config_for
    except ModuleNotFoundError as missing:
        if missing.name not in ("starlette", "uvicorn", "anyio", "h11"):
            raise
        raise UserError(
            f"the studio needs {missing.name}; in the folder of regard: "
            "pip install '.[studio]' -c constraints.txt"
        ) from None
    from regard.studio.safety import is_loopback

    check_root(root)
    for folder in options.data:
        if not os.path.isdir(folder):
            raise UserError(f"--data {folder}: there is no such folder")
    with listening(host, port) as listener:
        port = listener.getsockname()[1]
        token = None if is_loopback(host) else secrets.token_urlsafe(24)
        app = make_app(
            root,
            options.runs,
            token=token,
            host=host,
            port=port,
            data=options.data,
            keep_training=options.keep_training,
        )
        address = address_of(host, port, token)
        yet = "" if root.exists() else " (a folder that the first run will make)"
        print(f"studio on {root}{yet}: {address}    (Ctrl-C ends it)", flush=True)
        if token is not None:
            print(
                "Others on this network can reach it, and whoever has this address can train and "
                "read your runs; it is not encrypted.",
                file=sys.stderr,
            )
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            # Started in the background by a shell: its trainings could not be interrupted either.
            signal.signal(signal.SIGINT, signal.default_int_handler)
        server = uvicorn.Server(config_for(app))
        if options.open_browser and has_screen():
            open_soon(address)
        with suppress(KeyboardInterrupt), ending_with_terminal():  # which is how it ends
            server.run(sockets=[listener])


@contextmanager
def sleeping_threads() -> Iterator[None]:
    """Let threads of a torch that is loaded here sleep, not spin, while they wait for work.

    The browser draws the page on the same cores. Trainings load a torch of their own, which spins.
    """
    known = os.environ.get(WAITING)
    os.environ.setdefault(WAITING, "passive")
    try:
        yield
    finally:
        if known is None:
            del os.environ[WAITING]


@contextmanager
def ending_with_terminal() -> Iterator[None]:
    """Let a terminal that is closed end the studio in order, unless `nohup` keeps it from that."""
    ours = threading.current_thread() is threading.main_thread()
    if sys.platform == "win32" or not ours or signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        yield
        return
    before = signal.signal(signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM))
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, signal.SIG_DFL if before is None else before)


def check_root(root: Path) -> None:
    """Refuse what cannot be a folder of runs; one that is not there yet can."""
    try:
        there = next(path for path in (root, *root.absolute().parents) if path.exists())
    except OSError as trouble:
        raise UserError(f"--root {root} cannot be read ({trouble.strerror})") from None
    if not there.is_dir():
        raise UserError(
            f"--root {root}: {there} is a file, and runs are in a folder; it lies in {there.parent}"
        )
    if there not in (root, root.absolute().parent):
        raise UserError(f"--root {root}: there is no folder {root.parent}; there is {there}")


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens, or a sentence about why there is none."""
    if not 0 <= port <= 65535:
        raise UserError(f"--port {port}: ports are 0 to 65535")
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as trouble:
        raise UserError(f"--host {host} --port {port} is no address: {trouble}") from None
    family, kind, protocol, _, address = found[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(128)
    except OSError as trouble:
        listener.close()
        raise UserError(
            f"cannot listen on {host} at port {port} ({trouble.strerror}); another studio may be "
            f"there: open it, or take --port {port + 1 if 0 < port < 65535 else 8347}"
        ) from None
    return listener


def address_of(host: str, port: int, token: str | None) -> str:
    """Where the page is, as a browser is told."""
    from regard.studio.safety import ANYWHERE, in_address

    name = socket.gethostname() if host in ANYWHERE else in_address(host)
    return f"http://{name}:{port}/" + (f"?token={token}" if token else "")


def has_screen() -> bool:
    """Whether a browser would open in a window, and not take over the terminal."""
    named = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    return sys.platform in ("win32", "darwin") or bool(named)


def open_soon(address: str) -> None:
    """Open the page in a thread: the server that answers it is about to start in this one."""
    import webbrowser

    threading.Timer(0.5, webbrowser.open, (address,)).start()
