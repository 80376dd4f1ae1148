"""Downloads are checked, go on where they stopped, and say what to do without a network."""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from golden import expect_error
from official import write_archive, write_cifar_binary, write_idx
from regard.cli import data as data_command
from regard.cli import main
from regard.data import cifar
from regard.data import registry as catalogue
from regard.data.fetch import fetch
from regard.data.registry import KNOWN, Known, Remote, home, read_images
from regard.errors import DataIssue


@dataclass
class Server:
    """Hands out a folder on this machine, with the faults that real servers have."""

    folder: Path
    address: str = ""
    ranges: bool = True  # whether it can begin in the middle
    most: int = 10**9  # bytes before it breaks the connection
    asked: list[str] = field(default_factory=list)  # name and range of each request


@pytest.fixture
def server(tmp_path, monkeypatch) -> Iterator[Server]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("REGARD_DATA", raising=False)
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(catalogue, "DEBIAN", tmp_path / "debian")
    serving = Server(tmp_path / "server")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            file = serving.folder / self.path.strip("/")
            wanted = self.headers.get("Range", "")
            serving.asked.append(f"{file.name} {wanted}".strip())
            if not file.is_file():
                self.send_error(404)
                return
            data = file.read_bytes()
            start = re.fullmatch(r"bytes=(\d+)-", wanted)
            first = int(start[1]) if start and serving.ranges else 0
            self.send_response(206 if first else 200)
            if first:
                self.send_header("Content-Range", f"bytes {first}-{len(data) - 1}/{len(data)}")
            self.send_header("Content-Length", str(len(data) - first))
            self.end_headers()
            self.wfile.write(data[first : first + serving.most])

        def log_message(self, *_: object) -> None:
            pass

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    serving.address = f"http://127.0.0.1:{listening.server_port}"
    Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield serving
    listening.shutdown()
    listening.server_close()


@pytest.fixture
def mnist(server) -> Known:
    """MNIST as published, but smaller, and on our own server."""
    write_idx(server.folder)
    return replace(KNOWN["mnist"], address=server.address, files=remotes(server.folder))


def remotes(folder: Path) -> tuple[Remote, ...]:
    return tuple(
        Remote(file.name, file.stat().st_size, hashlib.md5(file.read_bytes()).hexdigest())
        for file in sorted(folder.iterdir(), key=lambda file: -file.stat().st_size)
    )


def test_a_set_is_fetched_once_and_then_found_by_name(server, mnist):
    assert len(fetch(mnist).test) == 10
    assert len(server.asked) == 4
    fetch(mnist)
    assert len(server.asked) == 4
    assert read_images("mnist").digest == fetch(mnist).digest
    assert not list(home(mnist).glob("*.part"))


def test_a_download_goes_on_where_it_stopped(server, mnist):
    first = mnist.files[0]
    home(mnist).mkdir(parents=True)
    data = (server.folder / first.name).read_bytes()
    (home(mnist) / f"{first.name}.part").write_bytes(data[:1000])
    fetch(mnist)
    assert server.asked[0] == f"{first.name} bytes=1000-"
    assert (home(mnist) / first.name).read_bytes() == data


def test_a_server_that_cannot_go_on_sends_everything_again(server, mnist):
    server.ranges = False
    home(mnist).mkdir(parents=True)
    (home(mnist) / f"{mnist.files[0].name}.part").write_bytes(b"x" * 1000)
    assert len(fetch(mnist).test) == 10


def test_a_connection_that_breaks_is_taken_up_again(server, mnist):
    server.most = mnist.files[0].bytes // 2 + 1
    assert len(fetch(mnist).test) == 10
    assert server.asked[1] == f"{mnist.files[0].name} bytes={server.most}-"


def test_a_connection_that_keeps_breaking_says_how_far_it_came(server, mnist):
    server.most = 1000
    with expect_error(DataIssue, kind="download"):
        fetch(mnist)
    assert len(server.asked) == 3
    server.most = 10**9
    assert len(fetch(mnist).test) == 10
    assert server.asked[3].endswith("bytes=3000-")


@pytest.mark.parametrize("change", [b"\1", b""], ids=["a byte changed", "a byte too many"])
def test_a_file_with_another_checksum_is_not_kept(server, mnist, change):
    file = server.folder / mnist.files[0].name
    data = file.read_bytes()
    file.write_bytes(data[:-1] + change if change else data + b"x")
    with expect_error(DataIssue, kind="download"):
        fetch(mnist)
    assert list(home(mnist).iterdir()) == []


def test_a_part_longer_than_the_file_is_begun_again(server, mnist):
    home(mnist).mkdir(parents=True)
    part = home(mnist) / f"{mnist.files[0].name}.part"
    part.write_bytes(b"x" * (mnist.files[0].bytes + 1))
    assert len(fetch(mnist).test) == 10


@pytest.mark.parametrize("fault", ["no such file", "nobody there"])
def test_without_a_source_it_says_what_to_put_where(server, mnist, fault):
    if fault == "no such file":
        (server.folder / mnist.files[0].name).unlink()
        base = server.address
    else:
        base = "http://127.0.0.1:9"
    with expect_error(DataIssue, kind="download"):
        fetch(mnist, base=base)


def test_a_folder_that_cannot_be_written_is_named(server, mnist, tmp_path):
    (tmp_path / "cache").write_text("a file where a folder should be")
    with expect_error(DataIssue, kind="download", file="mnist"):
        fetch(mnist)


def test_an_archive_is_fetched_and_read_as_it_is(server, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(cifar, "ROWS", 20)
    write_cifar_binary(tmp_path / "cifar-10-batches-bin")
    server.folder.mkdir()
    write_archive(tmp_path / "cifar-10-batches-bin", server.folder / "cifar-10-binary.tar.gz")
    known = replace(KNOWN["cifar10"], files=remotes(server.folder))
    monkeypatch.setattr(data_command, "KNOWN", {"cifar10": known})
    assert main(["data", "fetch", "cifar10", "--mirror", server.address]) == 0
    out = capsys.readouterr().out
    assert f"cifar10: 120 images in {home(known)}" in out and known.licence in out
    assert len(read_images("cifar10").test) == 20
    (home(known) / "other.tar.gz.part").write_bytes(b"x")
    assert main(["data", "clean", "cifar10"]) == 0
    assert list(home(known).iterdir()) == []


def test_what_is_embedded_needs_no_fetching(capsys):
    assert main(["data", "fetch", "digits"]) == 0
    assert "comes with regard" in capsys.readouterr().out


def test_the_checksums_and_addresses_are_complete():
    for known in KNOWN.values():
        assert known.address.startswith("https://") and known.address.endswith("/")
        for file in known.files:
            assert re.fullmatch("[0-9a-f]{32}", file.md5) and file.bytes > 0
