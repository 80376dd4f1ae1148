"""Freed memory is kept where the C library can be asked, and nothing breaks where it cannot."""

import ctypes
import platform
import sys

import pytest

from regard.hardware.memory import keep_freed_memory

# glibc's own account of what it holds, rather than the kernel's count of page faults: some
# kernels map many pages at a fault, and then both processes take the same few.
HELD = """
import ctypes, torch
from regard.hardware.memory import keep_freed_memory
{ask}
class Account(ctypes.Structure):
    NAMES = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(name, ctypes.c_size_t) for name in NAMES.split()]
account = ctypes.CDLL(None).mallinfo2
account.restype = Account
before = account().hblkhd
tensor = torch.ones(1 << 24)  # 64 megabytes: above any limit glibc moves to by itself
mapped = account().hblkhd - before
del tensor
print(mapped >> 20, account().fordblks >> 20)
"""


@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc" or not hasattr(ctypes.CDLL(None), "mallinfo2"),
    reason="a C library without mallinfo2",
)
def test_what_a_pass_frees_is_held_for_the_next(in_a_plain_process):
    def megabytes(ask):
        return [int(word) for word in in_a_plain_process(HELD.format(ask=ask)).split()]

    mapped, free = megabytes("")
    assert mapped >= 64 > free, "without asking, a large tensor is mapped and given back"
    mapped, free = megabytes("assert keep_freed_memory()")
    assert mapped == 0 and free >= 64, "asked, glibc keeps it for the next"


def test_other_systems_are_left_alone(monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    assert keep_freed_memory() is False
