"""Keep freed memory for the next tensor, instead of handing it back page by page."""

import ctypes
import sys

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # glibc's numbers, from malloc.h


def keep_freed_memory(upto: int = 1 << 30) -> bool:
    """Ask glibc to keep up to `upto` freed bytes, for the rest of the process; True if it will.

    By default it returns every large tensor to the system and asks for fresh pages at the next,
    which costs a small model on a CPU 15% of its time and more. This is a matter of the whole
    process, so commands call it and the library never does.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library, without this call
        return False
    trimming, mapping = mallopt(M_TRIM_THRESHOLD, upto), mallopt(M_MMAP_THRESHOLD, upto)
    return bool(trimming and mapping)
