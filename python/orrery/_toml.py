"""Writes dicts as TOML; the standard library only reads it."""

from __future__ import annotations

import json
from collections.abc import Mapping


def _value(v) -> str:
    if isinstance(v, bool):
        return "true" if v else "false"
    if isinstance(v, (int, float)):
        return repr(v)
    if isinstance(v, str):
        # A string of JSON is one of TOML, except that TOML wants DEL escaped.
        return json.dumps(v, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(v, Mapping):
        return "{ " + ", ".join(f"{_key(k)} = {_value(x)}" for k, x in v.items()) + " }"
    if isinstance(v, (list, tuple)):
        return "[" + ", ".join(_value(x) for x in v) + "]"
    raise TypeError(f"a plan file has no value like {v!r}")


def _key(k: str) -> str:
    plain = k and all(c.isascii() and (c.isalnum() or c in "_-") for c in k)
    return k if plain else json.dumps(k, ensure_ascii=False)


def toml(table: Mapping, path: str = "") -> str:
    """The text of a table: values first, then its tables."""
    out = ""
    for k, v in table.items():
        if v is not None and not isinstance(v, Mapping):
            out += f"{_key(k)} = {_value(v)}\n"
    for k, v in table.items():
        if isinstance(v, Mapping):
            name = f"{path}{_key(k)}"
            out += f"\n[{name}]\n{toml(v, name + '.')}"
    return out
