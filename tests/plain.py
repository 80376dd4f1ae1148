"""Scripts in a process of their own, where shapes are not checked at every call.

They are forked from one that has loaded what takes seconds to load; `run` is what they do.
"""

import os
from pathlib import Path

LOADED = (  # before the first of them
    *("torch._dynamo.testing", "torch._functorch.aot_autograd", "torch._inductor.utils"),
    *("torch.fx.experimental.symbolic_shapes", "torch.utils._sympy.functions", "regard.models"),
)


def run(script: str, folder: Path) -> None:
    """Execute a script, with what it prints in two files."""
    for number, name in ((1, "out"), (2, "errors")):
        with (folder / name).open("w") as file:
            os.dup2(file.fileno(), number)
    exec(compile(script, "<script>", "exec"), {"__name__": "__main__"})
