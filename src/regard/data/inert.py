"""Pickled plain data and arrays of bytes, read without running anything.

The opcodes are taken apart by Python's own `pickletools`, which only looks at them. Those that
plain data need are carried out here; a name never becomes an object, and stays a name.
"""

import pickletools
from dataclasses import dataclass
from typing import Any, cast

from regard.errors import UserError

MOST_STEPS = 1_000_000  # opcodes; a batch of CIFAR-10 has about fifty thousand

NAMES = frozenset(  # what an array of numpy is pickled as, by old versions and new
    {
        "numpy.core.multiarray _reconstruct",
        "numpy._core.multiarray _reconstruct",
        "numpy ndarray",
        "numpy dtype",
        "_codecs encode",
    }
)


@dataclass(frozen=True)
class Name:
    """Something that is only named."""

    words: str


@dataclass
class Call:
    """A call that was asked for and not made, and the state its result was to be given."""

    name: Name
    arguments: tuple[Any, ...]
    state: Any = None


MARK = Name("mark")
CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
TUPLES = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


def read_inert(data: bytes) -> Any:
    """What is pickled: dictionaries, lists, tuples, numbers, texts, bytes; else names and calls.

    Texts of Python 2 come as `str` with one letter a byte. A `UserError` names what is not plain
    data; damaged bytes raise `ValueError` or whatever they lead to.
    """
    stack: list[Any] = []
    memo: dict[int, Any] = {}
    for step, (opcode, argument, _) in enumerate(pickletools.genops(data)):
        if step == MOST_STEPS:
            raise UserError(f"has more than {MOST_STEPS} steps")
        match opcode.name:
            case "PROTO" | "FRAME":
                pass
            case "MARK":
                stack.append(MARK)
            case "NONE" | "NEWTRUE" | "NEWFALSE":
                stack.append(CONSTANTS[opcode.name])
            case "BININT" | "BININT1" | "BININT2":
                stack.append(argument)
            case "SHORT_BINSTRING" | "BINSTRING" | "SHORT_BINUNICODE" | "BINUNICODE":
                stack.append(argument)
            case "SHORT_BINBYTES" | "BINBYTES" | "BINBYTES8":
                stack.append(argument)
            case "EMPTY_DICT":
                stack.append({})
            case "EMPTY_LIST":
                stack.append([])
            case "EMPTY_TUPLE" | "TUPLE1" | "TUPLE2" | "TUPLE3":
                count = TUPLES[opcode.name]
                stack.append(tuple([stack.pop() for _ in range(count)][::-1]))
            case "TUPLE":
                stack.append(tuple(since_mark(stack)))
            case "BINPUT" | "LONG_BINPUT":
                memo[cast(int, argument)] = stack[-1]
            case "MEMOIZE":
                memo[len(memo)] = stack[-1]
            case "BINGET" | "LONG_BINGET":
                stack.append(memo[cast(int, argument)])
            case "APPEND":
                item = stack.pop()
                extend(stack[-1], [item])
            case "APPENDS":
                items = since_mark(stack)
                extend(stack[-1], items)
            case "SETITEM":
                value, key = stack.pop(), stack.pop()
                update(stack[-1], [key, value])
            case "SETITEMS":
                items = since_mark(stack)
                update(stack[-1], items)
            case "GLOBAL":
                stack.append(named(str(argument)))
            case "STACK_GLOBAL":
                attribute, module = stack.pop(), stack.pop()
                stack.append(named(f"{module} {attribute}"))
            case "REDUCE":
                arguments, name = stack.pop(), stack.pop()
                stack.append(called(name, arguments))
            case "BUILD":
                state = stack.pop()
                if not isinstance(stack[-1], Call):
                    raise UserError("sets the state of something that is no array")
                stack[-1].state = state
            case "STOP":
                return stack.pop()
            case unknown:
                raise UserError(f"uses {unknown}, which plain data do not")
    raise ValueError("it has no end")


def since_mark(stack: list[Any]) -> list[Any]:
    """Take off the stack what was put there after the last mark."""
    items: list[Any] = []
    while (item := stack.pop()) is not MARK:
        items.append(item)
    return items[::-1]


def extend(target: object, items: list[Any]) -> None:
    if not isinstance(target, list):
        raise ValueError(f"a {type(target).__name__} stands where a list should")
    target.extend(items)


def update(target: object, keys_and_values: list[Any]) -> None:
    if not isinstance(target, dict):
        raise ValueError(f"a {type(target).__name__} stands where a dictionary should")
    target.update(zip(keys_and_values[::2], keys_and_values[1::2], strict=True))


def named(words: str) -> Name:
    if words not in NAMES:
        raise UserError(f"asks for {words.replace(' ', '.')}, which plain data do not: not read")
    return Name(words)


def called(name: Any, arguments: Any) -> Any:
    if not isinstance(name, Name) or not isinstance(arguments, tuple):
        raise UserError("calls something that has no name")
    if name.words == "_codecs encode":  # how Python 3 writes bytes for Python 2
        text, encoding = arguments
        if encoding != "latin1":
            raise UserError("encodes a text, which plain data do not")
        return str(text).encode("latin-1")
    return Call(name, arguments)
