"""What a figure was measured on is found out without touching anything."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from regard.hardware import machine


@pytest.mark.skipif(shutil.which("git") is None, reason="no git here")
def test_the_commit_is_read_without_writing_to_the_users_checkout(tmp_path, monkeypatch):
    """`git status` takes the lock of the index to refresh it, and a commit meanwhile would fail."""
    source = tmp_path / "src" / "regard" / "hardware" / "machine.py"
    source.parent.mkdir(parents=True)
    source.write_text("pass\n")
    name = ("-c", "user.name=a", "-c", "user.email=a@b")
    for words in (("init", "-q"), ("add", "."), (*name, "commit", "-qm", "Begin")):
        subprocess.run(("git", "-C", tmp_path, *words), check=True)
    os.utime(source, (1, 1))  # so that the index has something to refresh
    index = Path(tmp_path, ".git", "index")
    before = index.read_bytes()
    monkeypatch.setattr(machine, "__file__", str(source))
    monkeypatch.delenv("REGARD_COMMIT", raising=False)
    found = machine.commit()
    assert found is not None and not found.endswith("+")
    assert index.read_bytes() == before
    source.write_text("fail\n")
    assert machine.commit() == f"{found}+"
