"""What the operations that models are made of cost, each a formula of its sizes.

Letters as everywhere: b texts or images, n queries, m keys, h query heads, g key heads, d numbers
in a head, c the model's width. `rows` is how many vectors a layer sees, b · n as a rule.
"""

from __future__ import annotations

from functools import lru_cache

from regard.count.formulas import Cost


def linear(
    where: str, rows: int, inside: int, outside: int, *, bias: bool = True, kept: bool = True
) -> Cost:
    """x Wᵀ + b: inside · outside weights, outside biases, rows · inside · outside multiply-adds.

    `kept`: whether what comes out is needed on the way back, by whatever reads it.
    """
    weights, biases = inside * outside, outside * bias
    return Cost(
        where,
        f"{inside} → {outside}",
        weights,
        biases,
        multiply_adds=rows * weights,
        moved=rows * inside + weights + biases + rows * outside,
        held=rows * outside * kept,
    )


def convolution(
    where: str,
    batch: int,
    inside: int,
    outside: int,
    side: int,
    kernel: int,
    stride: int,
    *,
    groups: int = 1,
    kept: bool = True,
) -> Cost:
    """A square kernel over a square image, whose sides it divides by `stride`.

    outside · inside / groups · kernel² weights, each used once at each place that comes out.
    """
    weights, places = outside * inside // groups * kernel**2, (side // stride) ** 2
    return Cost(
        where,
        f"{kernel} × {kernel}, {inside} → {outside}",
        weights,
        outside,
        multiply_adds=batch * places * weights,
        moved=batch * (inside * side**2 + outside * places) + weights + outside,
        held=batch * outside * places * kept,
    )


def norm(where: str, rows: int, width: int, kind: str = "layernorm", *, kept: bool = True) -> Cost:
    """Mean and variance of each row: a gain for each number, and for LayerNorm a shift.

    Held are what comes out, and for each row what it was divided by: LayerNorm also its mean,
    RMSNorm, which torch computes step by step on a CPU, also the rows before the gain.
    """
    shift = width * (kind == "layernorm")
    inside = 2 * rows if kind == "layernorm" else rows + rows * width
    return Cost(
        where,
        "(x − mean) / deviation" if shift else "x / root mean square",
        width,
        shift,
        moved=2 * rows * width + 2 * rows + width + shift,
        held=rows * width * kept + inside,
    )


def activation(where: str, numbers: int, kind: str, *, kept: bool = True) -> Cost:
    """A function of each number alone."""
    return Cost(where, kind, moved=2 * numbers, held=numbers * kept)


def add(where: str, numbers: int, what: str = "x + f(x)", *, kept: bool = True) -> Cost:
    """A sum, such as onto the residual stream."""
    return Cost(where, what, moved=3 * numbers, held=numbers * kept)


def attend(
    where: str, batch: int, heads: int, groups: int, n: int, m: int, d: int, pairs: int
) -> Cost:
    """softmax(q kᵀ) v: d multiply-adds for the score of each pair, d for what is read of it.

    b · h · pairs · 2d, where a pair is a query with a key that it may read: n · m without a mask.
    A fused kernel writes no map down, and holds what is read and one number a row.
    """
    read = batch * heads * n * d
    return Cost(
        where,
        "softmax(q kᵀ) v",
        multiply_adds=batch * heads * pairs * 2 * d,
        skipped=batch * heads * (n * m - pairs) * 2 * d,
        moved=2 * read + 2 * batch * groups * m * d + batch * heads * n,
        held=read + batch * heads * n,
    )


def attend_channels(where: str, batch: int, heads: int, n: int, d: int) -> Cost:
    """softmax(qᵀ k) vᵀ: d × d channels are compared over n tokens, b · h · d² · 2n in all.

    Torch wants heads side by side for a product of matrices, so q, k, v are copied, and held.
    """
    numbers, maps = batch * heads * n * d, batch * heads * d * d
    return Cost(
        where,
        "softmax(qᵀ k) vᵀ",
        multiply_adds=batch * heads * d * d * 2 * n,
        moved=14 * numbers + 4 * maps,
        held=4 * numbers + maps,
    )


def attend_linear(
    where: str,
    batch: int,
    heads: int,
    groups: int,
    n: int,
    m: int,
    d: int,
    features: int,
    *,
    mask: str | None = None,
) -> Cost:
    """φ(q) Σ φ(k) vᵀ over φ(q) Σ φ(k), with f features in place of d numbers.

    Everything read: b · g · m f d for the sums, b · h · n f (d + 1) for the queries. Causal: the
    sums are per chunk of at most 128 tokens, and within a chunk pairs are written out. Under any
    other mask all pairs are, n m (f + d).
    """
    f = features
    if mask is None:
        count = batch * groups * m * f * d + batch * heads * n * f * (d + 1)
    elif mask == "causal" and n == m:
        from regard.attention.kernels.causal_sums import CHUNK

        chunks = -(-n // CHUNK)
        chunk = -(-n // chunks)
        padded = chunks * chunk
        count = batch * heads * padded * (chunk * (f + d) + 2 * f * d + f)
    elif mask == "causal":  # one token: it is added to the sums, and reads them
        count = batch * groups * n * f * d + batch * heads * n * f * (d + 1)
    else:
        count = batch * heads * n * m * (f + d)
    return Cost(
        where,
        "φ(q) Σ φ(k) vᵀ",
        multiply_adds=count,
        moved=batch * (heads * n * (f + d) + groups * m * (f + d) + groups * f * d),
        held=batch * (heads * n * (f + 2 * d) + groups * m * (f + d) + groups * f * d),
    )


def pairs_read(mask: str | None, n: int, m: int) -> int:
    """How many pairs of n queries, which are the last of m positions, and m keys a mask lets read.

    Without one n · m; causal, n (m − n) + n (n + 1) / 2; else they are counted.
    """
    if mask is None:
        return n * m
    if mask == "causal":
        return n * (m - n) + n * (n + 1) // 2
    return counted_pairs(mask, n, m)


@lru_cache(maxsize=64)
def counted_pairs(mask: str, n: int, m: int) -> int:
    from regard.attention import Mask

    parsed, rows = Mask.parse(mask), max(1, (1 << 22) // m)
    return sum(
        int(parsed(range(start, min(start + rows, m)), range(m)).sum())
        for start in range(m - n, m, rows)
    )
