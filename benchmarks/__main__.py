"""`python -m benchmarks [NAME…]`, in a checkout: measure beside other libraries, as ratios."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import BENCHES, bench
from regard.errors import UserError

EXAMPLES = """examples:
  python -m benchmarks                                  all of them, one after the other
  python -m benchmarks attention watch --quick          two, for a first impression
  python -m benchmarks training --device cuda --out results"""


def arguments() -> argparse.ArgumentParser:
    """What can be typed."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Side by side with other libraries in one run, as ratios.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"which benchmarks to run: {', '.join(BENCHES)}; all of them when none is named",
    )
    parser.add_argument(
        "--quick", action="store_true", help="fewer sizes and rounds, for a first impression"
    )
    parser.add_argument(
        "--device",
        choices=("auto", "cpu", "cuda"),
        default="auto",
        help="where to run; auto takes a GPU when there is one",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FOLDER",
        help="for the figures as JSON and PNG; nothing is written without it",
    )
    return parser


def main(args: Sequence[str] | None = None) -> int:
    """Run what is named, and return the exit code."""
    given = arguments().parse_args(args)
    try:
        bench(*given.names, quick=given.quick, device=given.device, out=given.out)
    except UserError as mistake:
        print(f"benchmarks: {mistake}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
