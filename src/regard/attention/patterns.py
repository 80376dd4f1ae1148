"""Patterns that have names in the literature, spelled with the masks there are.

Each function returns an ordinary mask: it prints as the expression it stands for, composes with
`&`, `|` and `~`, and runs at the cost of its density. `Mask.parse("longformer(64, 1)")` knows them.
"""

from collections.abc import Callable

from regard.attention.algebra import Mask
from regard.attention.masks import (
    block_summary,
    blocks,
    causal,
    global_tokens,
    random_keys,
    strided,
    window,
)


def longformer(w: int, c: int) -> Mask:
    """A sliding window, and the first `c` tokens that read all and are read by all.

    Beltagy, Peters and Cohan, 2020 (arXiv 2004.05150). Simplified: the global tokens come first
    and share the projections of the others; windows are not dilated. `w` counts the keys to
    either side, the query's own included, where the paper's w is the width of the whole window.
    """
    return window(w) | global_tokens(c)


def bigbird(w: int, c: int, count: int, among: int, seed: int = 0) -> Mask:
    """Longformer's pattern, and `count` keys drawn for each query from 0 … among − 1.

    Zaheer et al., 2020 (arXiv 2007.14062). Simplified: the paper slides, shares and draws whole
    blocks of tokens, which suited its kernels; here all three count single tokens. `among` is
    the length of the text.
    """
    return window(w) | global_tokens(c) | random_keys(count, among, seed)


def sparse_transformer(step: int) -> Mask:
    """The last `step` tokens, and before them every `step`-th counted from the query.

    The strided pattern of Child et al., 2019 (arXiv 1904.10509), made for images whose rows are
    `step` long. Simplified: each head reads what the paper's two kinds of heads read together
    (its "merged" variant).
    """
    return causal & (window(step) | strided(step))


def sparse_transformer_fixed(size: int, c: int = 1) -> Mask:
    """The query's own block of `size`, and the last `c` tokens of every block before it.

    The fixed pattern of Child et al., 2019 (arXiv 1904.10509), made for text. Simplified: each
    head reads what the paper's two kinds of heads read together (its "merged" variant), and all
    heads share the same `c` columns, where the paper lets heads take different ones.
    """
    return causal & (blocks(size) | block_summary(size, c))


PATTERNS: dict[str, Callable[..., Mask]] = {
    "longformer": longformer,
    "bigbird": bigbird,
    "sparse_transformer": sparse_transformer,
    "sparse_transformer_fixed": sparse_transformer_fixed,
}
