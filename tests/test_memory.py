"""Freed memory is kept where the C library can be asked, and nothing breaks where it cannot."""

import platform
import sys

import pytest

from regard.memory import keep_freed_memory


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
def test_a_pass_after_the_first_takes_hardly_any_fresh_pages(in_a_plain_process):
    faults = """
import resource, torch
from regard.memory import keep_freed_memory
{ask}
def step():
    kept = [torch.ones(1 << 18) for _ in range(40)]  # a megabyte each
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    step()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
step(), step()
print(faults())
"""
    fresh = int(in_a_plain_process(faults.format(ask="")))
    kept = int(in_a_plain_process(faults.format(ask="assert keep_freed_memory()")))
    assert kept < fresh / 10, (kept, fresh)


def test_other_systems_are_left_alone(monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    assert keep_freed_memory() is False
