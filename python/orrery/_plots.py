"""Drawings with Matplotlib, which is imported when one is made."""

from __future__ import annotations


def _axes(ax):
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError as missing:
        raise ImportError("plot() needs Matplotlib: pip install matplotlib") from missing
    return pyplot.subplots()[1]


def _stacked(ax, labels, parts, unit):
    below = [0.0] * len(labels)
    for name, values in parts.items():
        ax.bar(labels, values, bottom=below, label=name)
        below = [b + v for b, v in zip(below, values)]
    ax.set_ylabel(unit)
    ax.legend()
    return ax


def _collectives(t):
    return t["exposed_communication_s"] - t["exposed_exchange_s"]


def stages(report, ax):
    ax = _axes(ax)
    times = report["time_by_stage"]
    parts = {
        "compute": [t["compute_s"] for t in times],
        "waiting for collectives": [_collectives(t) for t in times],
        "bubble": [t["bubble_s"] for t in times],
    }
    _stacked(ax, [f"stage {t['stage']}" for t in times], parts, "s")
    ax.set_title(report["plan"])
    return ax


def compared(reports, ax):
    ax = _axes(ax)
    parts = {
        "compute": [r["compute_s"] for r in reports],
        "waiting for collectives": [_collectives(r) for r in reports],
        "bubble": [r["bubble_fraction"] * r["step_time_s"] for r in reports],
    }
    return _stacked(ax, [f"{chr(65 + i)}: {r['plan']}" for i, r in enumerate(reports)], parts, "s")


def plans(search, ax):
    ax = _axes(ax)
    found = search["plans"]
    places = [str(i + 1) for i in range(len(found))]
    ax.bar(places, [p["step_time_s"] for p in found])
    for place, p in zip(places, found):
        if "interval" in p:
            ax.plot([place] * 2, [p["interval"]["step_time_low_s"], p["interval"]["step_time_high_s"]], color="black")
    ax.set_xlabel("plan")
    ax.set_ylabel("step, s")
    return ax


def lost_time(forecast, ax):
    ax = _axes(ax)
    parts = {name[:-2].replace("_", " "): value / 86400 for name, value in (forecast["time"] or {}).items()}
    ax.barh(list(parts), list(parts.values()))
    ax.set_xlabel("days")
    return ax


def serving(answer, ax):
    ax = _axes(ax)
    front = answer["front"]
    ax.plot([p["tokens_per_s_per_gpu"] for p in front], [p["tpot_s"] * 1e3 for p in front], marker="o")
    ax.set_xlabel("tokens/s per GPU")
    ax.set_ylabel("time per token, ms")
    return ax


def policies(answer, ax):
    ax = _axes(ax)
    rows = answer["policies"]
    ax.bar([r["policy"] for r in rows], [r["mean_completion_s"] / 3600 for r in rows])
    ax.set_ylabel("mean time of a job, h")
    return ax


def scatter(validation, ax):
    ax = _axes(ax)
    rows = [r for r in validation["rows"] if "measured" in r]
    measured, predicted = [r["measured"] for r in rows], [r["predicted"] for r in rows]
    ax.scatter(measured, predicted, s=9)
    ends = [min(measured + predicted), max(measured + predicted)]
    ax.plot(ends, ends, color="black", linewidth=0.8)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel("measured step, s")
    ax.set_ylabel("predicted step, s")
    return ax


def _number(text):
    try:
        return float(text)
    except (TypeError, ValueError):
        return None


def curves(rows, x, y, ax):
    ax = _axes(ax)
    figures = {"point", "state", "reason", "description"}
    inputs = [k for k in rows[0] if k not in figures and isinstance(rows[0][k], str) and k != x] if rows else []
    lines: dict[tuple, list] = {}
    for row in rows:
        if row.get(y) is not None and row.get(x) is not None:
            lines.setdefault(tuple(row.get(k) for k in inputs), []).append((row[x], row[y]))
    varied = [i for i in range(len(inputs)) if len({key[i] for key in lines}) > 1]
    for key, points in lines.items():
        if all(_number(p[0]) is not None for p in points):
            points = sorted((_number(px), py) for px, py in points)
        label = ", ".join(f"{inputs[i]} {key[i]}" for i in varied)
        ax.plot([p[0] for p in points], [p[1] for p in points], marker="o", label=label or None)
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    if varied:
        ax.legend()
    return ax
