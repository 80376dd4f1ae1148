"""The formula live, and the lab's claims: routes that compute what the page only draws.

    POST /api/attend       q, k, v, β and a mask in; weights, read, scores, one Jacobian out
    POST /api/mask         a mask's expression in; its picture on n tokens out
    GET  /api/lab          every claim, without measuring any
    POST /api/lab/{id}     one claim measured, with numbers of the user's own

A request is checked before anything is computed: what does not fit is a `ValueError` in a sentence.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import math
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from io import BytesIO
from typing import Any
from xml.etree import ElementTree

import torch
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from torch import Tensor

from regard.attention import AttentionOutput, KVCache, Mask, attend
from regard.attention.masks import RandomKeys
from regard.errors import UserError, nearest
from regard.lab.claim import Claim
from regard.lab.claims import CLAIMS, load_claim
from regard.lab.claims.softmax_jacobian import jacobian
from regard.lab.command import Checked, checked
from regard.lab.typeset import element, typeset
from regard.lab.worksheet import documents
from regard.studio.questions import table
from regard.visualization.document import data_uri, plain

SIDE = 32  # rows and columns of a matrix
TOKENS = 64  # of a mask's picture
LARGEST = 1e6  # a number in a matrix, or β: products of such stay far from overflowing
ROUNDING = 1e-12  # a row that moves by less has not changed
TIMES = 4  # how much larger than the lab's own a number may be,
ROOM = 32  # and what any of them may be at the least;
GROWTH = 8  # how much larger all of them together, since costs multiply
SEVERAL = 12  # numbers in a list
KINDS: dict[Any, str] = {
    int: "int",
    float: "float",
    tuple[int, ...]: "ints",
    tuple[float, ...]: "floats",
}


def routes() -> list[Route]:
    """All of them, for the studio to mount."""
    # Claims seed torch's one generator of random numbers, and pictures share matplotlib's settings.
    measuring = asyncio.Lock()

    async def attend_to(request: Request) -> Response:
        return answer(await run_in_threadpool(attended, await table(request)))

    async def mask(request: Request) -> Response:
        return answer(await run_in_threadpool(pictured, await table(request)))

    async def lab(request: Request) -> Response:
        return answer(await run_in_threadpool(listed))

    async def claim(request: Request) -> Response:
        name = request.path_params["id"]
        if name not in CLAIMS:
            raise HTTPException(404, f"there is no claim {name!r}; {nearest(name, CLAIMS)}")
        given = (await table(request)).get("numbers", {})
        async with measuring:
            return answer(await run_in_threadpool(measured, name, given))

    return [
        Route("/api/attend", attend_to, methods=["POST"]),
        Route("/api/mask", mask, methods=["POST"]),
        Route("/api/lab", lab, methods=["GET"]),
        Route("/api/lab/{id}", claim, methods=["POST"]),
    ]


def answer(values: Any) -> Response:
    """Values as JSON, in which a number that JSON lacks is null."""
    return JSONResponse(plain(values))


# The formula


def attended(given: Mapping[str, Any]) -> dict[str, Any]:
    """softmax(β q kᵀ) v under a mask, all of it: for matrices that fit on a page.

    Queries and keys stand at positions 0, 1, …. A score is null where the mask shuts it out, or
    where β = ∞ leaves no number. `row` says of which query the Jacobian is, and `before` how many
    tokens there were before the last came: then `more` says what these changed.
    """
    q, k, v = (matrix(name, given.get(name)) for name in "qkv")
    n, m = len(q), len(k)
    if q.shape[1] != k.shape[1]:
        raise ValueError(f"queries are {q.shape[1]} wide and keys {k.shape[1]}")
    if len(v) != m:
        raise ValueError(f"there are {m} keys and {len(v)} values")
    beta, mask = beta_of(given.get("beta")), mask_of(given.get("mask"))
    row = whole("row", given.get("row", 0), 0, n - 1)
    options: dict[str, Any] = {"mask": mask, "beta": beta}
    found = attend(q, k, v, q_pos=range(n), k_pos=range(m), **options)
    allowed = torch.ones(n, m, dtype=torch.bool)
    if mask is not None:
        allowed = mask(range(n), range(m))
    used = q.shape[1] ** -0.5 if beta is None else beta
    more = None
    if given.get("before") is not None:
        if n != m:
            raise ValueError(f"there are {n} queries and {m} keys; a token is one of each")
        before = whole("before", given["before"], 1, n - 1)
        more = grown(q, k, v, before, found, options)
    return {
        "weights": found.weights.tolist(),
        "read": found.output.tolist(),
        "scores": scores(q, k, used, allowed),
        "jacobian": jacobian(found.weights[row]).tolist(),
        "row": row,
        "allowed": allowed.int().tolist(),
        "beta": "inf" if math.isinf(used) else used,
        "causal": mask is not None and mask.implies_causal,
        "more": more,
    }


def scores(q: Tensor, k: Tensor, beta: float, allowed: Tensor) -> list[list[float | None]]:
    """What softmax is given."""
    if math.isinf(beta):
        return [[None] * len(k) for _ in q]
    products = beta * q @ k.T
    return [
        [value if may else None for value, may in zip(values, open_to, strict=True)]
        for values, open_to in zip(products.tolist(), allowed.tolist(), strict=True)
    ]


def grown(
    q: Tensor, k: Tensor, v: Tensor, before: int, after: AttentionOutput, options: dict[str, Any]
) -> dict[str, Any]:
    """What tokens after the first `before` changed in the rows of these, and in the cache's row.

    A change is the most by which any weight of the row differs from what it was, where it was 0
    for keys that were not there yet. `from_kept` is how far the new rows, computed from a cache of
    keys and values alone, are from those of the whole map.
    """
    old = attend(q[:before], k[:before], v[:before], **options)
    was = torch.zeros_like(after.weights[:before])
    was[:, :before] = old.weights
    changes = (after.weights[:before] - was).abs().amax(-1)
    memory = KVCache()
    memory.append(k[None, :before], v[None, :before], range(before))  # one head
    kept = memory.append(k[None, before:], v[None, before:], range(before, len(k)))
    last = kept.read(attend, q[None, before:], q_pos=range(before, len(q)), **options)
    return {
        "before": before,
        "changes": changes.tolist(),
        "kept": (changes <= ROUNDING).tolist(),
        "from_kept": float((last.output[0] - after.output[before:]).abs().max()),
    }


def matrix(name: str, rows: Any) -> Tensor:
    """Rows of finite numbers, all of one length."""
    if not isinstance(rows, list) or not 1 <= len(rows) <= SIDE:
        raise ValueError(f"{name} is not a list of 1 to {SIDE} rows")
    for row in rows:
        if not isinstance(row, list) or not 1 <= len(row) <= SIDE:
            raise ValueError(f"a row of {name} is not a list of 1 to {SIDE} numbers")
        if len(row) != len(rows[0]):
            raise ValueError(f"{name} has rows of {len(rows[0])} and of {len(row)} numbers")
        for value in row:
            if not is_number(value) or not abs(value) <= LARGEST:
                raise ValueError(f"{name} holds {shown(value)}, not a number up to {LARGEST:g}")
    return torch.tensor(rows, dtype=torch.float64)


def beta_of(value: Any) -> float | None:
    """β: a number from 0 on, "inf", or nothing for d^-1/2."""
    if value is None:
        return None
    if value == "inf":
        return math.inf
    if not is_number(value) or not 0 <= value <= LARGEST:
        raise ValueError(f'beta is {shown(value)}, not a number from 0 to {LARGEST:g} or "inf"')
    return float(value)


def mask_of(expression: Any) -> Mask | None:
    """The mask, or None where nothing is said: all is read."""
    if expression is None or expression == "":
        return None
    if not isinstance(expression, str):
        raise ValueError(f"a mask is an expression, not {shown(expression)}")
    mask = Mask.parse(expression)
    most = max((each.count for each in parts(mask) if isinstance(each, RandomKeys)), default=0)
    if most > TOKENS:  # each draw takes a step, however few tokens there are
        raise ValueError(f"random_keys draws {most} keys for each query; {TOKENS} is the limit")
    return mask


def parts(mask: Mask) -> list[Mask]:
    """A mask and all that it is made of."""
    names: list[str] = [f.name for f in fields(mask)] if is_dataclass(mask) else []
    inside = (getattr(mask, name) for name in names)
    return [mask, *(part for each in inside if isinstance(each, Mask) for part in parts(each))]


def pictured(given: Mapping[str, Any]) -> dict[str, Any]:
    """A mask on n tokens, spelt as it prints itself."""
    n = whole("n", given.get("n"), 1, TOKENS)
    mask = mask_of(given.get("mask"))
    if mask is None:
        return {
            "text": "",
            "matrix": [[1] * n] * n,
            "density": 1.0,
            "causal": False,
            "reach": None,
        }
    return {
        "text": str(mask),
        "matrix": mask(range(n), range(n)).int().tolist(),
        "density": mask.density(n),
        "causal": mask.implies_causal,
        "reach": mask.reach,  # null where there is no bound
    }


# The lab


@cache
def listed() -> list[dict[str, Any]]:
    """Every claim and the numbers that it is measured with."""
    return [described(load_claim(name)) for name in CLAIMS]


def described(claim: Claim) -> dict[str, Any]:
    return {
        "id": claim.id,
        "source": claim.source,
        "document": documents(claim.source),
        "statement": claim.statement,
        "statement_html": markup(claim.statement),
        "truth": claim.truth,
        "truth_html": markup(claim.truth),
        "verdict": claim.verdict,
        "numbers": numbers_of(claim),
        "recorded": claim.train is not None,
    }


def numbers_of(claim: Claim) -> list[dict[str, Any]]:
    """What may be another number: its name, its kind, ours, and what it is."""
    helps = helps_of(inspect.getdoc(claim.measure) or "")
    return [
        {
            "name": name,
            "kind": KINDS[each.annotation],
            "default": each.default,
            "most": most_of(name, each.default),
            "help": helps.get(name, ""),
        }
        for name, each in inspect.signature(claim.measure, eval_str=True).parameters.items()
    ]


def helps_of(words: str) -> dict[str, str]:
    """What a docstring says of each argument."""
    _, _, arguments = words.partition("Args:\n")
    found = re.findall(r"^    (\w+): (.*(?:\n {5,}.*)*)", arguments, re.MULTILINE)
    return {name: " ".join(help_text.split()) for name, help_text in found}


def most_of(name: str, default: Any) -> int | float:
    """The largest that a whole number may be: a claim is to take seconds, and little memory."""
    if name == "seed":
        return 2**31 - 1
    if isinstance(default, tuple):  # of which the last is as far as the lab itself goes
        return max(ROOM, TIMES // 2 * max(default))
    return max(ROOM, TIMES * default)


def measured(name: str, given: Any) -> dict[str, Any]:
    """What a claim comes to, and a picture of it."""
    claim = load_claim(name)
    found = checked(claim, own_numbers(claim, given))
    return {
        "id": claim.id,
        **found.to_values(),
        "statement_html": markup(claim.statement),
        "truth_html": markup(claim.truth),
        "own": found.own,
        "picture": picture(found),
    }


def own_numbers(claim: Claim, given: Any) -> dict[str, Any]:
    """The user's numbers in the types that the claim asks for."""
    if not isinstance(given, dict):
        raise ValueError("numbers are given by name")
    known = {each["name"]: each for each in numbers_of(claim)}
    for name in given:
        if name not in known:
            raise UserError(f"{claim.id} has no number {name!r}; {nearest(name, known)}")
    own = {name: own_number(known[name], value) for name, value in given.items()}
    growth = math.prod(growth_of(known[name], value) for name, value in own.items())
    if growth > GROWTH:  # nothing stops a measurement once it has begun
        raise UserError(
            f"{claim.id} would be measured on {growth:.0f} times as much as usual, and {GROWTH} "
            f"times is the limit here; there is none in a terminal: regard lab {claim.id}"
        )
    return own


def growth_of(number: Mapping[str, Any], value: Any) -> float:
    """How much more a whole number asks for than the lab's own does."""
    if number["name"] == "seed" or number["kind"] in ("float", "floats"):
        return 1.0
    if number["kind"] == "int":
        return max(1.0, value / max(1, number["default"]))
    return max(1.0, sum(value) / sum(number["default"]))


def own_number(number: Mapping[str, Any], value: Any) -> Any:
    name, kind, most = number["name"], number["kind"], number["most"]
    if kind == "int":
        return whole(name, value, -most, most)
    if kind == "float":
        return real(name, value)
    if not isinstance(value, list) or not 1 <= len(value) <= SEVERAL:
        raise ValueError(f"{name} is not a list of 1 to {SEVERAL} numbers")
    if kind == "ints":
        return tuple(whole(name, each, -most, most) for each in value)
    return tuple(real(name, each) for each in value)


def picture(found: Checked) -> str | None:
    """The claim's own picture as an address that holds it, if it has one and it can be drawn."""
    if found.claim.plot is None:
        return None
    memory = BytesIO()
    try:
        found.claim.plot(found.evidence).savefig(memory, dpi=160, format="png")
    except (ArithmeticError, IndexError, RuntimeError, ValueError):
        if not found.own:
            raise
        return None  # the figures stand all the same
    return data_uri("image/png", memory.getvalue())


def markup(words: str) -> str:
    """Text with its formulas as MathML; all else in it is escaped."""
    inside = element("span", *typeset(words))
    return ElementTree.tostring(inside, encoding="unicode", method="html")


# Numbers


def whole(name: str, value: Any, least: int | float, most: int | float) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ValueError(
            f"{name} is {shown(value)}, not a whole number from {least:,.0f} to {most:,.0f}"
        )
    return value


def real(name: str, value: Any) -> float:
    if not is_number(value):
        raise ValueError(f"{name} is {shown(value)}, not a number")
    return float(value)


def is_number(value: Any) -> bool:
    """Whether JSON's value is a number that a float can hold."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number of JSON may have any number of digits
        return False


def shown(value: Any) -> str:
    """What was given, cut where it is long."""
    words = json.dumps(value)
    return words if len(words) <= 24 else f"{words[:23]}…"
