"""One grammar for every configuration: frozen dataclasses ↔ nested values ↔ TOML ↔ dotted names.

A recipe, a run's `config.toml`, a keyword in Python and a flag all end in `build`, which knows one
coercion and one way to complain: the key, what was found, what was wanted, the nearest name.
"""

from __future__ import annotations

import difflib
import json
import math
import numbers
import tomllib
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from regard.errors import ConfigError, FieldError, FieldTypeError
from regard.typos import typo_of
from regard.usual_names import answer_key

T = TypeVar("T")
_UNIONS = (typing.Union, types.UnionType)
LARGEST = 2**63 - 1  # of whole numbers: torch and numpy have no larger ones


def build(kind: type[T], values: Mapping[str, Any], *, source: str = "", under: str = "") -> T:
    """The dataclass that nested values describe; what they leave out keeps its default.

    `source` is the file the values come from and `under` the key they stand under, for messages.
    """
    hints = typing.get_type_hints(kind)
    known = {field.name: field for field in fields(typing.cast(Any, kind)) if field.init}
    for name in values:
        if name not in known:
            sentence = unknown_key(kind, str(name), under)
            raise _error(source, sentence, _dotted(under, name), values[name])
    found = {
        name: coerce(hints[name], value, source=source, key=_dotted(under, name))
        for name, value in values.items()
    }
    for name, field in known.items():
        if name not in found and field.default is MISSING and field.default_factory is MISSING:
            raise _error(source, f"{_dotted(under, name)} is missing", _dotted(under, name))
    try:
        return kind(**found)
    except (ValueError, TypeError) as trouble:  # the dataclass's own word on contradictions
        where = f"{under}: " if under else ""
        inner = trouble.field if isinstance(trouble, FieldError) else ""
        key = _dotted(under, inner) if inner else under
        raise _error(source, f"{where}{trouble}", key, _given(found, inner)) from None


def unknown_key(kind: type[Any], name: str, under: str = "") -> str:
    """What to say of a key that a dataclass has not: what it is called here, or all there are."""
    if answer := answer_key(name, list(names_in(kind)), under=under):
        return answer
    known = [field.name for field in fields(kind) if field.init]
    near = typo_of(name, known)
    there = f"[{under}] has" if under else "known"
    hint = f"did you mean {_dotted(under, near)}?" if near else f"{there}: {', '.join(known)}"
    return f"there is no {_dotted(under, name)}; {hint}"


def names_in(kind: type[Any], under: str = "") -> Iterator[str]:
    """The dotted names of all values below a dataclass."""
    hints = typing.get_type_hints(kind)
    for field in (each for each in fields(kind) if each.init):
        if is_dataclass(hints[field.name]):
            yield from names_in(hints[field.name], _dotted(under, field.name))
        else:
            yield _dotted(under, field.name)


def coerce(kind: Any, value: Any, *, source: str = "", key: str = "") -> Any:
    """A value as the annotated type; text is read the way a flag would be."""
    if _is_too_large(value):
        raise _error(source, _too_large(key), key, value)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if is_dataclass(kind):
        if isinstance(value, kind):  # type: ignore[arg-type]
            return value
        if isinstance(value, Mapping):
            return build(typing.cast(type, kind), value, source=source, under=key)
    elif origin is Literal:
        for choice in arguments:
            if value == choice and isinstance(value, bool) == isinstance(choice, bool):
                return choice
        shown = ", ".join(map(str, arguments))
        near = difflib.get_close_matches(str(value), map(str, arguments), n=1, cutoff=0.5)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise _error(source, f"{key} = {value!r} is not one of {shown}{hint}", key, value)
    elif origin in _UNIONS:
        absent = value is None or (isinstance(value, str) and value.lower() == "none")
        if absent and type(None) in arguments:
            return None
        choices = [choice for choice in arguments if choice is not type(None)]
        for choice in choices:
            try:
                return coerce(choice, value, source=source, key=key)
            except ConfigError as refused:
                if len(choices) == 1:
                    raise
                last = refused
        if any(typing.get_origin(choice) is Literal for choice in choices):
            words = [str(word) for choice in choices for word in typing.get_args(choice)]
            wanted = " or ".join([*words, *(_NAMES[each] for each in choices if each in _NAMES)])
            raise _error(source, f"{key} = {value!r} is not {wanted}", key, value)
        raise last
    elif origin in (tuple, list) and isinstance(value, Sequence) and not isinstance(value, str):
        every = arguments[0] if origin is list or arguments[-1] is Ellipsis else None
        if every is None and len(value) != len(arguments):
            wanted = f"{len(arguments)} values, not {len(value)}"
            raise _error(source, f"{key} = {value!r} needs {wanted}", key, value)
        kinds = [every] * len(value) if every is not None else arguments
        return origin(
            coerce(each, item, source=source, key=f"{key}[{at}]")
            for at, (each, item) in enumerate(zip(kinds, value, strict=True))
        )
    elif kind in _PLAIN:
        read = _PLAIN[kind](value)
        if _is_too_large(read):  # of text that is a number
            raise _error(source, _too_large(key), key, value)
        if read is not None:
            return read
    elif kind is Any or (isinstance(kind, type) and isinstance(value, kind)):
        return value
    wanted = "a table" if is_dataclass(kind) else _NAMES.get(kind, getattr(kind, "__name__", kind))
    raise _error(source, f"{key} = {value!r} is not {wanted}", key, value)


def change(config: T, assignments: Mapping[str, Any]) -> T:
    """The configuration with dotted names changed: `change(c, {"model.width": "128"})`."""
    values = to_values(config)
    for name, value in assignments.items():
        *path, last = name.split(".")
        inner = values
        for part in path:
            if not isinstance(inner.get(part), dict):
                break
            inner = inner[part]
        else:
            inner[last] = value
            continue
        inner[part] = {last: value}  # build says that there is no such key
    return build(type(config), values)


def to_values(config: Any) -> dict[str, Any]:
    """A dataclass as nested plain values, in the order of its fields."""
    return {
        field.name: to_values(value) if is_dataclass(value) else value
        for field in fields(config)
        if field.init
        for value in [getattr(config, field.name)]
    }


def to_toml(config: Any) -> str:
    """The configuration as TOML; a field that is None is left out, and comes back as None."""
    return "\n".join(_tables(to_values(config), ())).strip() + "\n"


def read_toml(kind: type[T], path: Path) -> T:
    """The configuration in a file, or a sentence about what is wrong with it."""
    return build(kind, parse_toml(path), source=str(path))


def parse_toml(path: Path) -> dict[str, Any]:
    """The nested values of a TOML file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))  # with a mark of it or without
    except FileNotFoundError:
        raise ConfigError(f"there is no file {path}", file=str(path)) from None
    except UnicodeDecodeError as trouble:
        raise ConfigError(
            f"{path} is not UTF-8 text: byte {trouble.start} is no letter", file=str(path)
        ) from None
    except OSError as trouble:
        raise ConfigError(f"cannot read {path}: {trouble.strerror}", file=str(path)) from None
    except RecursionError:
        raise ConfigError(
            f"{path} is not read: its values are nested too deeply", file=str(path)
        ) from None
    except ValueError as trouble:  # a TOMLDecodeError, or a number of thousands of digits
        raise ConfigError(f"{path} is not TOML: {trouble}", file=str(path)) from None


def table(values: Mapping[str, Any], key: str, *, source: str = "") -> Mapping[str, Any]:
    """The table under a key, empty where there is none."""
    found = values.get(key, {})
    if not isinstance(found, Mapping):
        raise _error(source, f"{key} = {found!r} is not a table", key, found)
    return found


def check_kinds(config: Any) -> None:
    """Refuse a value of the wrong kind, naming its field and, for a word, the nearest choice."""
    hints = typing.get_type_hints(type(config))
    for field in fields(config):
        hint, value = hints[field.name], getattr(config, field.name)
        if _is_too_large(value):
            raise FieldError(_too_large(field.name), field.name)
        kinds = typing.get_args(hint) if typing.get_origin(hint) in _UNIONS else (hint,)
        literals = [kind for kind in kinds if typing.get_origin(kind) is Literal]
        if kinds != (hint,) and any(value in typing.get_args(kind) for kind in literals):
            continue
        kinds = tuple(kind for kind in kinds if kind not in literals or kinds == (hint,))
        kinds = tuple(typing.get_origin(kind) or kind for kind in kinds)  # tuple[int, …] → tuple
        if typing.get_origin(hint) is Literal:
            if value not in typing.get_args(hint):
                choices = ", ".join(map(repr, typing.get_args(hint)))
                near = difflib.get_close_matches(str(value), typing.get_args(hint), n=1, cutoff=0.4)
                meant = f"; did you mean {near[0]!r}?" if near else ""
                sentence = f"{field.name}={value!r} is not one of {choices}{meant}"
                raise FieldError(sentence, field.name)
            continue
        if isinstance(value, float) and not math.isfinite(value):
            sentence = f"{field.name}={value}: it must be a finite number"
            raise FieldError(sentence, field.name)
        # A whole number serves as a number, and True is no number at all.
        fits = isinstance(value, kinds) or (float in kinds and isinstance(value, int))
        if not fits or (isinstance(value, bool) and bool not in kinds):
            names = " or ".join(getattr(kind, "__name__", str(kind)) for kind in kinds)
            sentence = f"{field.name}={value!r} is not of the kind {names}"
            raise FieldTypeError(sentence, field.name)


def _tables(values: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    inner = {name: value for name, value in values.items() if isinstance(value, dict)}
    for name, value in values.items():
        if name not in inner and value is not None:
            yield f"{_key(name)} = {_literal(value)}"
    for name, value in inner.items():
        yield ""
        yield f"[{'.'.join(map(_key, (*path, name)))}]"
        yield from _tables(value, (*path, name))


def _key(name: str) -> str:
    return name if name.replace("_", "").replace("-", "").isalnum() else json.dumps(name)


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        if math.isinf(value) or math.isnan(value):
            return str(value)
        return repr(value) if "e" in repr(value) or "." in repr(value) else f"{value!r}.0"
    if isinstance(value, (str, Path)):
        return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_literal, value))}]"
    raise TypeError(f"{value!r} cannot be written as TOML")


def _is_too_large(value: Any) -> bool:
    """Whether a whole number, or one of several, is larger than any that can be reckoned with."""
    if isinstance(value, list | tuple):
        return any(map(_is_too_large, value))
    return isinstance(value, int) and not -LARGEST <= value <= LARGEST


def _too_large(name: str) -> str:
    return f"{name} is too large: a whole number is at most {LARGEST:,}"


def _whole(value: Any) -> int | None:
    if isinstance(value, str):
        try:
            value = int(value.replace("_", ""))
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):  # numpy has its own
        return None
    return int(value)


def _number(value: Any) -> float | None:
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return None
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _truth(value: Any) -> bool | None:
    words = {"true": True, "yes": True, "false": False, "no": False}
    return value if isinstance(value, bool) else words.get(str(value).lower())


_PLAIN: dict[Any, Any] = {
    int: _whole,
    float: _number,
    bool: _truth,
    str: lambda value: value if isinstance(value, str) else None,
    Path: lambda value: Path(value) if isinstance(value, (str, Path)) else None,
}
_NAMES = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    Path: "a path",
}


def _dotted(under: str, name: str) -> str:
    return f"{under}.{name}" if under else name


def _error(source: str, sentence: str, key: str, value: Any = None) -> ConfigError:
    whole = f"{source}: {sentence}" if source else sentence
    return ConfigError(whole, key=key, value=value, file=source)


def _given(values: Mapping[str, Any], field: str) -> Any:
    """The value of a field, or of one inside it (model.context_length); None where it has its
    default."""
    name, _, inner = field.partition(".")
    found = values.get(name)
    return getattr(found, inner, None) if inner else found
