"""Planted faults: each must be found by the quick checks, or the checks are worth nothing.

A mutant is one textual replacement in a copy of the real source. The text must occur exactly once
there, so a mutant cannot silently vanish when the source changes: adapt it then.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

import checks

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "regard"


class Mutant(NamedTuple):
    file: str
    true: str
    false: str


MUTANTS = {
    "a wrong scale by default": Mutant(
        "call.py", "beta = q.shape[-1] ** -0.5", "beta = q.shape[-1] ** -1.0"
    ),
    "a wrong scale in the plain path": Mutant(
        "core.py", "q.to(wide) * call.beta, k.to(wide)", "q.to(wide) * call.beta**2, k.to(wide)"
    ),
    "a wrong scale in the fast path": Mutant(
        "kernels/sdpa.py", "(q, k, v, scale=beta,", "(q, k, v, scale=beta * 2,"
    ),
    "an inverted mask in the plain path": Mutant(
        "core.py",
        "scores = fill(scores, ~allowed, -torch.inf)",
        "scores = fill(scores, allowed, -torch.inf)",
    ),
    "an inverted mask in the fast path": Mutant(
        "kernels/sdpa.py", "readable = allowed | blind", "readable = ~allowed | blind"
    ),
    "an inverted mask beside a bias": Mutant(
        "kernels/sdpa.py",
        "bias.masked_fill(~allowed, -torch.inf)",
        "bias.masked_fill(allowed, -torch.inf)",
    ),
    "softmax over the queries": Mutant(
        "core.py",
        "biased):\n        return scores.softmax(-1)",
        "biased):\n        return scores.softmax(-2)",
    ),
    "softmax over the queries under a mask": Mutant(
        "core.py", "fill(scores.softmax(-1), blind", "fill(scores.softmax(-2), blind"
    ),
    "a finite fill in the plain path": Mutant(
        "core.py", "fill(scores, ~allowed, -torch.inf)", "fill(scores, ~allowed, -1e9)"
    ),
    "an inverted bound on the host": Mutant(
        "core.py",
        "torch.where(allowed, torch.inf, -torch.inf)",
        "torch.where(allowed, -torch.inf, torch.inf)",
    ),
    "a finite bound on the host": Mutant(
        "core.py",
        "torch.where(allowed, torch.inf, -torch.inf)",
        "torch.where(allowed, torch.inf, -1e9)",
    ),
    "a bound that is always enough": Mutant(
        "core.py", "return bool(scores.amax(-1).isfinite().all())", "return True"
    ),
    "a finite fill in the fast path": Mutant(
        "kernels/sdpa.py",
        "bias.masked_fill(~allowed, -torch.inf)",
        "bias.masked_fill(~allowed, -1e9)",
    ),
    "queries behind a cache masked from 0": Mutant(
        "multi_head.py",
        "mask=mask, q_pos=positions, bias=bias",
        "mask=mask, q_pos=range(x.shape[-2]), bias=bias",
    ),
    "queries behind a cache turned from 0": Mutant(
        "multi_head.py",
        "q, k = place.rotate(q, k, positions, k_pos)",
        "q, k = place.rotate(q, k, range(x.shape[-2]), range(source.shape[-2]))",
    ),
    "queries behind a cache biased from 0": Mutant(
        "multi_head.py",
        "place.bias(positions, kept.positions)",
        "place.bias(range(x.shape[-2]), kept.positions)",
    ),
    "causal from the top left behind a cache": Mutant(
        "kernels/choose.py",
        "if q_pos.start == k_pos.start and q_pos.stop == k_pos.stop:",
        "if q_pos.stop == k_pos.stop:",
    ),
    "the causal flag for the tail of the keys": Mutant(
        "kernels/sdpa.py",
        "return _sdpa(call.q, call.k, call.v, call.beta, attn_mask=corner)",
        "return _sdpa(call.q, call.k, call.v, call.beta, is_causal=True)",
    ),
    "a remembered mask without its distance": Mutant(
        "call.py", "range(r.start - base, r.stop - base)", "range(len(r))"
    ),
    "causal without the query itself": Mutant("algebra.py", "return k <= q", "return k < q"),
    "a window one too narrow": Mutant(
        "masks.py", "return (q - k).abs() < self.w\n", "return (q - k).abs() < self.w - 1\n"
    ),
    "a window that misses a tile": Mutant(
        "masks.py", "(q.first - k.last < self.w),", "(q.first - k.last < self.w - 99),"
    ),
    "a bias subtracted": Mutant("core.py", "scores + bias.to(wide)", "scores - bias.to(wide)"),
    "alibi upside down": Mutant("pos_embed.py", "return -slopes[:", "return slopes[:"),
    "key heads repeated as a whole": Mutant(
        "core.py", "k.repeat_interleave(share, -3)", "k.repeat(1, share, 1, 1)"
    ),
    "blind rows left as they are": Mutant(
        "core.py", "fill(scores.softmax(-1), blind, 0.0)", "scores.softmax(-1)"
    ),
    "blind rows left as they are by the fast path": Mutant(
        "kernels/sdpa.py", "return read.masked_fill(blind, 0.0)", "return read"
    ),
    "nowhere read by an inverted mask": Mutant("algebra.py", "read & (k >= 0)", "read & (k >= -1)"),
    "nowhere reads": Mutant("algebra.py", "read & (q >= 0)", "read & (q >= -1)"),
    "nowhere read without a mask": Mutant(
        "call.py", "_head_axis((self.k_pos >= 0)", "_head_axis((self.k_pos >= -1)"
    ),
    "nowhere not zeroed": Mutant(
        "call.py", "return x.masked_fill(_head_axis(~here[..., None]), 0.0)", "return x"
    ),
    "a softmax in float32 only": Mutant(
        "core.py", "wide = torch.promote_types(q.dtype, torch.float32)", "wide = torch.float32"
    ),
    "eviction one too early": Mutant(
        "algebra.py", "self.cover(Span(since, FAR)", "self.cover(Span(since + 1, FAR)"
    ),
    "eviction by the last of the coming": Mutant(
        "cache.py", "return positions.start\n", "return positions.stop - 1\n"
    ),
    "a cache that forgets to cut values": Mutant(
        "cache.py", "kept.v.index_select(-2, rows)", "kept.v[..., : len(rows), :]"
    ),
    "beams that keep their old values": Mutant(
        "cache.py", "v.index_select(0, index), positions)", "v, positions)"
    ),
    "rotary that mirrors instead of turning": Mutant(
        "pos_embed.py", "b * cos + a * sin", "b * cos - a * sin"
    ),
}


@pytest.mark.parametrize("name", checks.CHECKS)
def test_the_quick_checks_pass_on_the_real_source(name):
    checks.CHECKS[name]()


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """For the original and each mutant, the checks that fail; one process for all of them."""
    trees = {"original": tmp_path_factory.mktemp("original")}
    shutil.copytree(SOURCE, trees["original"] / "regard", ignore=shutil.ignore_patterns("*.pyc"))
    for number, (name, (file, true, false)) in enumerate(MUTANTS.items()):
        text = (SOURCE / "attention" / file).read_text(encoding="utf-8")
        if text.count(true) != 1:
            continue  # the mutant's own test says so
        trees[name] = tmp_path_factory.mktemp(f"mutant-{number}")
        path = link(trees["original"], trees[name]) / file
        path.unlink()
        path.write_text(text.replace(true, false), encoding="utf-8")
        os.utime(path, (number, number))  # else its bytecode could pass for another's
    done = subprocess.run(
        [sys.executable, checks.__file__, *map(str, trees.values())],
        env=os.environ
        | {"PYTHONPATH": str(trees["original"]), "OMP_NUM_THREADS": "1"}
        | {"PYTHONDONTWRITEBYTECODE": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(zip(trees, json.loads(done.stdout).values(), strict=True))


def link(original: Path, tree: Path) -> Path:
    """A tree of links to the original and its bytecode, to compile only what a mutant changes.

    Returns its folder of attention, of which each file is a link by itself.
    """
    apart = {"regard", "attention", "kernels"}
    for folder in ("regard", "regard/attention", "regard/attention/kernels"):
        (tree / folder).mkdir()
        (original / folder / "__pycache__").mkdir(exist_ok=True)
        for entry in (original / folder).iterdir():
            if entry.name not in apart:
                (tree / folder / entry.name).symlink_to(entry)
    return tree / "regard" / "attention"


def test_the_original_survives_in_a_copy(found):
    assert found["original"] == {}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_fault_is_found(name, found):
    file, true, _ = MUTANTS[name]
    times = (SOURCE / "attention" / file).read_text(encoding="utf-8").count(true)
    assert times == 1, f"{true!r} occurs {times} times in attention/{file}: adapt the mutant"
    assert found[name], f"no check noticed {name}"
    assert "import" not in found[name], found[name]
