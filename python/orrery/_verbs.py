"""A function for each verb of the program."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Union

from . import _orrery
from ._answers import (
    Answer,
    Comparison,
    Explanation,
    Forecast,
    Import,
    JobsReport,
    Report,
    Search,
    Serving,
    Simulation,
    Trace,
    Validation,
)
from ._command import Progress, ask
from ._errors import Diagnostic, Invalid
from ._subjects import Cluster, Model, Plan, Workload, folder_of

PlanLike = Union[Plan, str, "os.PathLike[str]"]


def _plan(plan: PlanLike) -> Plan:
    return plan if isinstance(plan, Plan) else Plan.load(plan)


def _own(*subjects) -> dict[str, str]:
    """Files that only Python knows, by their names."""
    out: dict[str, str] = {}
    for s in subjects:
        files = s._own if isinstance(s, Plan) else s.files() if isinstance(s, (Model, Cluster)) else {}
        for name, text in files.items():
            if out.setdefault(name, text) != text:
                raise ValueError(f"two different {name.split('.')[-2]}s have the name {name.rsplit('.', 2)[0]!r}")
    return out


def _json(kind, verb, arguments, flags, progress, own=None):
    status, text = ask(verb, arguments, {**flags, "json": True}, progress=progress)
    return kind(text, status, own)


def check(plan: PlanLike) -> list[Diagnostic]:
    """Everything that is wrong with a plan, its file and what it names; an empty list where nothing is."""
    try:
        return _plan(plan).check()
    except Invalid as wrong:
        return wrong.diagnostics


def estimate(
    plan: PlanLike,
    *,
    cluster: Cluster | str | None = None,
    software: str = "auto",
    calibration: str | os.PathLike[str] | None = None,
    price: str | float | None = None,
    lanes: str = "auto",
    expandable_segments: bool = False,
) -> Report:
    """Predicts a plan's step time and memory, without contention (`orrery estimate`).

    Args:
        plan: a Plan, a file, or the name of an example.
        cluster: in place of the plan's.
        software: the training program whose costs are priced in: "nemo", "none"; "auto": the usual one on the device.
        calibration: a file of constants of the device, in place of the shipped one.
        price: of a GPU-hour: 2.50 (USD) or "2.20 EUR".
        lanes: "serial", "concurrent", or "auto": as the device's file says.
        expandable_segments: how the caching allocator is set up.

    Returns: a Report. Raises Invalid where the plan is wrong.
    """
    plan = _plan(plan)
    if cluster is not None:
        plan = plan.on(cluster)
    flags = _orrery.Flags()
    flags.software, flags.lanes, flags.expandable_segments = software, lanes, expandable_segments
    if calibration is not None:
        flags.calibration = os.fspath(calibration)
    if price is not None:
        flags.price = str(price)
    return Report(None, 0, plan._own, _orrery.estimate(plan._run, flags))


def simulate(plan: PlanLike, *, trace: bool = False, progress: Progress = None, **flags: Any) -> Simulation:
    """Plays a plan's step as discrete events, op by op (`orrery simulate`).

    Args:
        trace: keep the timeline: `.trace`, `.to_perfetto(path)`.
        progress: True, or a function of phase, done, total and note.
        flags: those of `orrery simulate --help`: fabric="dgx-h100-superpod", noise=0.05, seed=7, critical_path=True.
    """
    plan = _plan(plan)
    if not trace:
        return _json(Simulation, "simulate", [plan], flags, progress, plan._own)
    with folder_of({}) as folder:
        file = Path(folder, "trace.json")
        out = _json(Simulation, "simulate", [plan], {**flags, "trace": file}, progress, plan._own)
        out.trace = Trace(file.read_bytes())
    return out


def _keys_as_flags(given: Mapping[str, Any]) -> dict[str, Any]:
    """Keys of a workload as flags: optimizer={"kind": "adam", "beta1": 0.9} is --optimizer and --optimizer-beta1, which
    a verb without such a flag refuses."""
    out: dict[str, Any] = {}
    for key, value in given.items():
        if key == "optimizer" and isinstance(value, Mapping):
            out.update({"optimizer" if k == "kind" else f"optimizer_{k}": v for k, v in value.items()})
        else:
            out[key] = value
    return out


def _asked(model, cluster, workload, flags) -> tuple[dict, dict]:
    """Flags of a question about a model on a cluster, and the files that only Python knows."""
    if not isinstance(model, (Model, str, os.PathLike)):
        model = Model(model)
    if isinstance(cluster, Mapping):
        cluster = Cluster(cluster)
    asked: dict[str, Any] = {"model": model, "cluster": cluster}
    if workload is not None:
        asked.update(_keys_as_flags(workload.given if isinstance(workload, Workload) else workload))
    return {**asked, **flags}, _own(model, cluster)


def search(
    model: Model | str | os.PathLike[str] | Mapping[str, Any],
    cluster: Cluster | str | os.PathLike[str] | Mapping[str, Any],
    workload: Workload | Mapping[str, Any] | None = None,
    *,
    top: int = 3,
    progress: Progress = None,
    **flags: Any,
) -> Search:
    """Finds the best plans for a model on a cluster (`orrery plan`).

    Args:
        workload: a Workload, or its keys as keywords: batch=128, sequence=8192.
        top: number of plans to find.
        progress: True, or a function of phase, done, total and note.
        flags: those of `orrery plan --help`: software="nemo", only="tensor=1d zero=0,3", for_="megatron-core",
            all=True, objective="cost", memory_margin="4 GiB", threads=2.

    Returns: a Search; `.best` is a Plan, `.found` all of them, `.to_frame()` their figures.
    """
    flags, own = _asked(model, cluster, workload, {"top": top, **flags})
    return _json(Search, "plan", [], flags, progress, own)


def explain(plan: PlanLike, other: PlanLike | None = None, *, progress: Progress = None, **flags: Any) -> Explanation:
    """Why this plan, what one change would do, or why not the other one (`orrery explain`)."""
    plans = [_plan(p) for p in (plan, other) if p is not None]
    return _json(Explanation, "explain", plans, flags, progress, _own(*plans))


def compare(*sides: PlanLike, progress: Progress = None, **flags: Any) -> Comparison:
    """Plans, reports or traces side by side (`orrery compare`): plans as objects, files, or changes of the first in
    one line ("tensor=4 zero=1")."""
    return _json(Comparison, "compare", sides, flags, progress, _own(*sides))


def forecast(
    plan: PlanLike | None = None, *, tokens: str | float | None = None, progress: Progress = None, **flags: Any
) -> Forecast:
    """Predicts a whole run: days, money, energy, time lost to failures (`orrery forecast`).

    Args:
        plan: without it, model=, cluster= and so on say for what the planner is to find one.
        tokens: "1T", "300B", 1.5e12.
        flags: those of `orrery forecast --help`: price=2.50, reliability="rsc-1", budget="$2M", saves="beside".
    """
    if tokens is not None and not isinstance(tokens, str):
        tokens = f"{tokens:.17g}"
    plans = [] if plan is None else [_plan(plan)]
    own = _own(*plans, *flags.values())
    return _json(Forecast, "forecast", plans, {"tokens": tokens, **flags}, progress, own)


def serve(
    model: Model | str | os.PathLike[str], cluster: Cluster | str, *, progress: Progress = None, **flags: Any
) -> Serving:
    """Finds the best plans for inference (`orrery serve`).

    Args:
        flags: those of `orrery serve --help`: engine="vllm", input=1024, output=1024 (tokens of a request),
            concurrency=64 or rate=10.0 (requests a second), ttft="500ms", tpot="30ms", weights="fp8".
    """
    return _json(Serving, "serve", [model], {"cluster": cluster, **flags}, progress, _own(model, cluster))


def jobs(workload: str | os.PathLike[str], *, progress: Progress = None, **flags: Any) -> JobsReport:
    """Many jobs on one cluster, policies side by side (`orrery jobs`): on="dgx-h100", gpus=64, policy="all"."""
    return _json(JobsReport, "jobs", [workload], flags, progress)


def validate(
    table: str | os.PathLike[str] | None = None, *, progress: Progress = None, **flags: Any
) -> Validation | Answer:
    """Predictions beside measured runs (`orrery validate`); without a table, beside the shipped ones."""
    kind = Answer if flags.keys() & {"collectives", "serving", "here", "explain", "constants"} else Validation
    return _json(kind, "validate", [] if table is None else [table], flags, progress)


def import_plan(file: str | os.PathLike[str], **flags: Any) -> Import:
    """Reads a launch file of Megatron-LM, DeepSpeed, torchtitan ... as a plan (`orrery import`): `.plan`, and what
    became of its keys: `.taken`, `.assumed`, `.without_effect`, `.not_expressible`."""
    return _json(Import, "import", [file], flags, None)


def export(plan: PlanLike, to: str | None = None, **flags: Any) -> str:
    """A plan as a launch of another program (`orrery export`): to="megatron"."""
    return ask("export", [_plan(plan)], {"to": to, **flags})[1]


def dimensions() -> list[dict[str, Any]]:
    """What a plan can decide: key, aliases, kind, what it means, and its names, or least and most."""
    out = []
    for key, aliases, kind, help_, names, least, most in _orrery.dimensions():
        row: dict[str, Any] = {"key": key, "aliases": aliases, "kind": kind, "help": help_}
        row.update({"names": names} if names else {"least": least, "most": most})
        out.append(row)
    return out
