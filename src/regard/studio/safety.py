"""Who may ask the studio what. It starts programs, so a stranger's page must not reach it.

A page from elsewhere that is open in the same browser can send requests to this machine. It is
kept out by what it cannot choose: the names of `Host` and `Origin`, which the browser writes; the
type of the body, which a form cannot make JSON or an image; and, where others share the network, a
token that only the terminal has shown.

What the studio itself sends may load nothing from anywhere else, and runs no script that is not its
own: names, texts and logs of runs are whatever a file says.
"""

from __future__ import annotations

import ipaddress
import logging
import secrets
import socket
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

IMAGES = ("image/png", "image/jpeg", "image/webp", "image/gif", "image/bmp")
LARGEST = {"application/json": 1_000_000, **dict.fromkeys(IMAGES, 20_000_000)}  # bytes of a body
ANYWHERE = ("0.0.0.0", "::", "")  # hosts that stand for every address of this machine
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
# A report comes with scripts inside and may come from elsewhere with its run: it is shown, but has
# no name, so that nothing in it can ask the studio for anything.
REPORT_POLICY = (
    "sandbox allow-scripts allow-downloads; default-src 'none'; script-src 'unsafe-inline' data:; "
    "style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'self'"
)

log = logging.getLogger("regard.studio")


def page_policy(*hashes: str) -> str:
    """What the page may do; `hashes` are those of the scripts that stand inside it."""
    scripts = " ".join(("'self'", *(f"'{each}'" for each in hashes)))
    return (
        f"default-src 'none'; script-src {scripts}; style-src 'self'; img-src 'self' data: blob:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-src 'self'; "
        "frame-ancestors 'none'"
    )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server there."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Guard:
    """Lets through what the page asks, refuses the rest in a sentence, and hides what fails."""

    def __init__(
        self, app: ASGIApp, *, host: str, port: int, token: str | None, policy: str
    ) -> None:
        if token is None and not is_loopback(host):
            raise ValueError(f"host={host!r} can be reached by others, and there is no token")
        self.app, self.port, self.token, self.policy = app, port, token, policy
        self.anywhere = host in ANYWHERE
        self.names = {"localhost", "127.0.0.1", "[::1]", in_address(host)}
        if self.anywhere:
            self.names |= {socket.gethostname().lower(), socket.getfqdn().lower()}
        self.cookie = f"regard-studio-{port}"  # cookies know no ports, and studios may be several

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # there is no websocket here, nor will there be by accident
            await receive()
            await send({"type": "websocket.close", "code": 1008})
            return
        begun = False
        admitted = self.has_token_in_address(scope)

        async def send_safely(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                self.add_headers(scope, message, admitted)
            await send(message)

        try:
            self.check(scope, admitted)
            await self.app(scope, self.limited(scope, receive), send_safely)
        except HTTPException as refused:
            if not begun:
                answer = JSONResponse({"error": refused.detail}, refused.status_code)
                await answer(scope, receive, send_safely)
        except ClientDisconnect:
            pass  # in the midst of its body: nobody is there to be answered
        except Exception:
            log.exception("%s %s failed", scope["method"], scope["path"])
            if not begun:
                words = "the studio failed at this; its terminal says why"
                await JSONResponse({"error": words}, 500)(scope, receive, send_safely)

    def check(self, scope: Scope, admitted: bool) -> None:
        """Refuse what the studio's own page would not send."""
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self.is_ours(hosts[0]):
            raise HTTPException(403, "this name is not the studio's: open the address it printed")
        origin = headers.get("origin")
        if origin is not None and origin != f"http://{hosts[0]}":
            raise HTTPException(403, "a page from elsewhere may not ask the studio for anything")
        # Browsers say where a request comes from; a link from elsewhere may only open the page.
        if scope["path"] != "/" and headers.get("sec-fetch-site") in ("cross-site", "same-site"):
            raise HTTPException(403, "a page from elsewhere may not ask the studio for anything")
        if self.token is not None and not (admitted or self.has_token_in_cookie(headers)):
            raise HTTPException(403, "the token is missing: open the address the terminal shows")
        if scope["method"] not in ("GET", "HEAD") and kind_of(headers) not in LARGEST:
            raise HTTPException(403, "only JSON and images can be posted, with their Content-Type")

    def is_ours(self, host: str) -> bool:
        """Whether a request's `Host` is a name of this server, and not one that points to it."""
        name, colon, port = host.lower().rpartition(":")
        if not colon or "]" in port:  # without a port, which is that of http
            name, port = host.lower(), "80"
        if port != str(self.port):
            return False
        return name in self.names or (self.anywhere and is_number(name))

    def has_token_in_address(self, scope: Scope) -> bool:
        if self.token is None or scope["type"] != "http" or scope["path"] != "/":
            return False
        tokens = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])
        return len(tokens) == 1 and same(tokens[0], self.token)

    def has_token_in_cookie(self, headers: Headers) -> bool:
        try:
            found = SimpleCookie(headers.get("cookie", "")).get(self.cookie)
        except CookieError:
            return False
        return found is not None and self.token is not None and same(found.value, self.token)

    def add_headers(self, scope: Scope, message: Message, admitted: bool) -> None:
        headers = MutableHeaders(scope=message)
        for name, value in HEADERS.items():
            headers[name] = value
        headers.setdefault("Content-Security-Policy", self.policy)
        if "sandbox" not in headers["Content-Security-Policy"]:
            # Browsers refuse to open a sandboxed page that also wants a group of its own.
            headers["Cross-Origin-Opener-Policy"] = "same-origin"
        if scope["path"].startswith("/api"):
            headers["Cache-Control"] = "no-store"
        if admitted:
            headers.append(
                "Set-Cookie", f"{self.cookie}={self.token}; Path=/; HttpOnly; SameSite=Strict"
            )

    def limited(self, scope: Scope, receive: Receive) -> Receive:
        """The same body, as long as it is not too large; judged by its head where that says it."""
        headers = Headers(scope=scope)
        most = LARGEST.get(kind_of(headers), 0)
        length = headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit()):
            raise HTTPException(400, "Content-Length is not a number")
        if len(length) > 18 or int(length) > most:
            raise HTTPException(413, f"the body has {length[:18]} bytes, and {most:,} are allowed")
        got = 0

        async def receive_limited() -> Message:
            nonlocal got
            message = await receive()
            got += len(message.get("body", b""))
            if got > most:
                raise HTTPException(413, f"the body has over {most:,} bytes")
            return message

        return receive_limited


def kind_of(headers: Headers) -> str:
    """The type of a body, without what follows it such as a charset."""
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def same(given: str, token: str) -> bool:
    """Compared in a time that tells nothing about how much of it is right."""
    return secrets.compare_digest(given.encode("utf-8", "replace"), token.encode())


def is_number(name: str) -> bool:
    """Whether a host is an address in numbers, which no stranger's name server can have chosen."""
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def in_address(host: str) -> str:
    """A host as it stands in an address: IPv6 in brackets."""
    host = host.lower()
    return f"[{host}]" if ":" in host and not host.startswith("[") else host
