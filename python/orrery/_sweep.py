"""Sweeps, on this machine or on any executor."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _orrery
from ._answers import Sweep
from ._command import Progress, _text, callback, flags_of, told
from ._subjects import Cluster, Model, Plan, Workload, folder_of
from ._verbs import _keys_as_flags, _own

if TYPE_CHECKING:
    from concurrent.futures import Executor

#: What has a flag of its own; everything else goes into --over.
_OWN_FLAGS = {"model": "model", "cluster": "cluster", "gpus": "gpus", "sequence": "seq", "batch": "batch"}
_OWN_FLAGS |= {"precision": "precision", "for": "for", "for_": "for"}


def _list(values, folder) -> str:
    if isinstance(values, (str, int, float, Model, Cluster)) or not hasattr(values, "__iter__"):
        values = [values]
    said = ["on" if v is True else "off" if v is False else _text(v, folder) for v in values]
    return ",".join(dict.fromkeys(said))


def _axes(axes: Mapping[str, Any], folder: str) -> list[str]:
    """Lists over keys as flags."""
    out = []
    clusters = axes.get("cluster")
    if "gpus" not in axes and clusters is not None:
        several = clusters if isinstance(clusters, (list, tuple)) else [clusters]
        sizes = [c.gpus for c in several if isinstance(c, Cluster)]
        if sizes and (len(several) != len(sizes) or len({(c.reference) for c in several}) > 1 and len(set(sizes)) > 1):
            raise ValueError("clusters of several names and sizes are no grid: give cluster= and gpus= apart")
        if sizes:
            axes = {**axes, "gpus": sizes}
    for key, values in axes.items():
        flag = _OWN_FLAGS.get(key)
        text = _list(values, folder)
        out.append(f"--{flag}={text}" if flag else f"--over={key}={text}")
    return out


def _part(words: list[str], files: Mapping[str, str], shard: str) -> str:
    """Computes one shard in whatever process this runs in; the text of its file of points."""
    with folder_of(files) as folder:
        points = os.path.join(folder, "points.jsonl")
        here = [w.replace("{folder}", folder) for w in words]
        told(_orrery.command([*here, f"--shard={shard}", f"--output={points}"], None), folder)
        return Path(points).read_text(encoding="utf-8").replace(folder + "/", "{folder}/")


def sweep(
    model: Model | str | os.PathLike[str] | None = None,
    cluster: Cluster | str | None = None,
    workload: Workload | Mapping[str, Any] | None = None,
    *,
    over: Mapping[str, Any] | None = None,
    plan: Plan | str | os.PathLike[str] | None = None,
    executor: Executor | None = None,
    shards: int | None = None,
    store: str | os.PathLike[str] | None = None,
    progress: Progress = None,
    **flags: Any,
) -> Sweep:
    """Searches, or estimates a plan, at every point of a grid (`orrery sweep`).

    Args:
        over: lists over keys of plan files: {"gpus": [8, 16], "sequence": ["8k", "32k"], "zero": [0, 1]}.
        plan: estimate this plan, changed, at each point, in place of searches.
        executor: any concurrent.futures.Executor: a process pool with the start method "spawn", Dask's
            `Client.get_executor()`, mpi4py's MPIPoolExecutor. Without one, all cores of this machine.
        shards: tasks for the executor, each a part of the points; default: a task for each point, at most 64.
        store: a file that keeps the points; what it has already is not computed again. With an executor it is a new
            file.
        progress: True, or a function of phase, done, total and note; not with an executor.
        flags: those of `orrery sweep --help`: pareto="step-time,cost", keep_below="20 s", software="nemo".

    Returns: a Sweep, with the same bytes whatever computed it.
    """
    if executor is not None and progress:
        raise ValueError("progress= goes without executor=: other processes compute the points")
    if executor is not None and store is not None and os.path.exists(store):
        raise ValueError(f"{os.fspath(store)} is there already: with executor=, store= names a new file")
    axes: dict[str, Any] = {}
    if model is not None:
        axes["model"] = model
    if cluster is not None:
        axes["cluster"] = cluster
    given = workload.given if isinstance(workload, Workload) else dict(workload or {})
    for key, value in _keys_as_flags(given).items():
        if key in _OWN_FLAGS:
            axes[key] = value
        else:
            flags = {**flags, key: value}
    axes.update(over or {})
    if plan is not None and not isinstance(plan, Plan):
        plan = Plan.load(plan)
    several = [v for value in axes.values() for v in (value if isinstance(value, (list, tuple)) else [value])]
    own = _own(plan, *several)
    with folder_of({}) as folder:
        words = ["sweep", *_axes(axes, folder)]
        words += flags_of({"plan": plan, **flags}, folder)
        if executor is not None:
            return _spread(executor, words, folder, own, shards, store, flags)
        if store is not None:
            words.append(f"--output={os.path.abspath(os.fspath(store))}")
        status, text = told(_orrery.command([*words, "--json"], callback(progress)), folder)
        return Sweep(text, status, own)


def _spread(executor, words, folder, own, shards, store, flags) -> Sweep:
    files = {p.name: p.read_text(encoding="utf-8") for p in Path(folder).iterdir() if p.is_file()}
    moved = [w.replace(folder, "{folder}") for w in words]
    if not any(w.startswith("--threads") for w in moved):
        moved.append("--threads=1")  # processes are what scales
    tasks = shards or min(64, _count(words))
    coming = [executor.submit(_part, moved, files, f"{i}/{tasks}") for i in range(1, tasks + 1)]
    parts = []
    try:
        for i, part in enumerate(coming):
            file = Path(folder, f"part-{i:05}.jsonl")
            file.write_text(part.result().replace("{folder}", folder), encoding="utf-8")
            parts.append(str(file))
    except BaseException:
        for part in coming:
            part.cancel()
        raise
    merge = ["sweep", "--merge", "--json"]
    merge += flags_of({k: flags[k] for k in ("pareto", "tokens", "csv", "svg") if k in flags}, folder)
    if store is not None:
        merge.append(f"--output={os.path.abspath(os.fspath(store))}")
    status, text = told(_orrery.command([*merge, "--", *parts], None), folder)
    return Sweep(text, status, own)


def _count(words: list[str]) -> int:
    """Points of a sweep: the product of its lists. A range counts as four."""
    product = 1
    for w in words:
        if w.startswith("--over=") or any(w.startswith(f"--{f}=") for f in _OWN_FLAGS.values()):
            values = w.rsplit("=", 1)[-1].split(",")
            product *= sum(4 if ".." in v else 1 for v in values)
    return product
