"""Tables and bars for notebooks, without a dependency and without scripts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_MOST_ROWS = 40
_MOST_CELL = 200


def escaped(value) -> str:
    text = str(value)
    if len(text) > _MOST_CELL:
        text = text[: _MOST_CELL - 1] + "…"
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def pairs_table(title: str, pairs: Mapping) -> str:
    """Names and values, a row each; tables in it are left out."""
    rows = [(k, v) for k, v in pairs.items() if not isinstance(v, Mapping)]
    body = "".join(f"<tr><th>{escaped(k)}</th><td>{escaped(v)}</td></tr>" for k, v in rows[:_MOST_ROWS])
    more = f"<tr><td colspan=2>{len(rows) - _MOST_ROWS} more</td></tr>" if len(rows) > _MOST_ROWS else ""
    return f"<table><caption>{escaped(title)}</caption>{body}{more}</table>"


def rows_table(rows: Sequence[Mapping]) -> str:
    """Records as a table with a head."""
    if not rows:
        return "<p>no rows</p>"
    names = list(rows[0])
    head = "".join(f"<th>{escaped(n)}</th>" for n in names)
    body = "".join(
        "<tr>" + "".join(f"<td>{escaped(r.get(n, ''))}</td>" for n in names) + "</tr>" for r in rows[:_MOST_ROWS]
    )
    more = f"<p>{len(rows) - _MOST_ROWS} more rows</p>" if len(rows) > _MOST_ROWS else ""
    return f"<table><tr>{head}</tr>{body}</table>{more}"


def memory_bars(stages: Sequence[Mapping]) -> str:
    """What a device of each pipeline stage holds, in GiB, as bars against its capacity."""
    width, height = 240, 16
    parts = []
    for i, stage in enumerate(stages[:32]):
        held = stage.get("process_bytes", stage["peak_bytes"])
        room = stage.get("capacity_bytes") or held or 1
        share = min(1.0, held / room)
        y = i * (height + 4)
        colour = "#b3261e" if held > room else "#2f6f9f"
        parts.append(
            f'<text x="0" y="{y + 12}" font-size="11">stage {stage["stage"]}</text>'
            f'<rect x="60" y="{y}" width="{width}" height="{height}" fill="none" stroke="#888"/>'
            f'<rect x="60" y="{y}" width="{share * width:.1f}" height="{height}" fill="{colour}"/>'
            f'<text x="{66 + width}" y="{y + 12}" font-size="11">{held / 2**30:.1f} of {room / 2**30:.1f} GiB</text>'
        )
    tall = max(1, len(stages[:32])) * (height + 4)
    return f'<svg width="{width + 190}" height="{tall}" fill="currentColor" role="img">{"".join(parts)}</svg>'
