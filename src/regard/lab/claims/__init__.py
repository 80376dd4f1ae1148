"""The statements that are checked, in the order of the documents; each is a file of its own."""

from importlib import import_module

from regard.errors import UserError, nearest
from regard.lab.claim import Claim

CLAIMS = (
    "shapes-projection",
    "map-axis",
    "softmax-per-query",
    "parallel-cnn",
    "path-length",
    "any-length",
    "shapes-multihead",
    "epochs",
    "softargmax-axis",
    "beta-limits",
    "beta-scale",
    "divide-by-dk",
    "scale-dmodel",
    "attention-types",
    "maxpool-select",
    "key-noise",
    "key-noise-mean",
    "key-stretch",
    "multihead-concat",
    "head-formula",
    "heads-as-kernels",
    "order-blind",
    "equivariance-proof",
    "decoder-order",
    "cnn-features",
    "as-identity",
    "as-pointwise",
    "as-convolution",
    "parallel-rnn",
    "ffn",
    "layernorm-axis",
    "norm-place",
    "patch-conv",
    "vit-masks",
    "learned-positions",
    "cls-readout",
    "map-shape",
    "graph",
    "residual",
    "input-kept",
    "small-vit",
    "sinusoid-shift",
    "pe-index",
    "output-nonlinearity",
    "count-attention",
    "same-size",
    "softmax-jacobian",
    "head-width",
    "pretraining-tasks",
    "new-token",
    "cheaper-vit",
    "patch-or-channel",
    "kernel-trick",
)


def load_claim(name: str) -> Claim:
    """A claim by its name."""
    if name not in CLAIMS:
        raise UserError(f"there is no claim {name!r}; {nearest(name, CLAIMS)}")
    found = import_module(f"regard.lab.claims.{name.replace('-', '_')}").CLAIM
    assert isinstance(found, Claim)
    return found
