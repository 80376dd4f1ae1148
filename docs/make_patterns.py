"""Draw the patterns of cheaper.md again: `python docs/make_patterns.py`, some seconds."""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

from regard.attention import Mask
from regard.visualization.figure_masks import pattern_figure

PATH = Path(__file__).parents[1] / "results" / "patterns.png"
TOKENS = 64
PATTERNS = {
    "A causal window": "causal & window(8)",
    "Longformer": "longformer(5, 2)",
    "BigBird": "bigbird(3, 1, 2, 64)",
    "Sparse Transformer, strided": "sparse_transformer(8)",
    "Sparse Transformer, fixed": "sparse_transformer_fixed(8)",
    "Neighbourhood": "neighborhood(1, (8, 8))",
    "Axial": "axial((8, 8))",
    "Windows": "grid_windows(4, (8, 8))",
    "Windows, and the same shifted": "grid_windows(4, (8, 8)) | grid_windows(4, (8, 8), 2)",
}


def patterns(path: Path = PATH) -> Figure:
    """Every pattern that has a name, and how far word travels by it."""
    masks = {name: Mask.parse(expression) for name, expression in PATTERNS.items()}
    return pattern_figure(masks, path, n=TOKENS)


if __name__ == "__main__":
    patterns()
    print(f"wrote {PATH}")
