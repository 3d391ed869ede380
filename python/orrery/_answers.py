"""What the functions give: records with the keys of `--json`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from . import _plots
from ._html import memory_bars, pairs_table, rows_table
from ._subjects import Plan, _plan_written


def _flat(row: dict, prefix: str = "") -> dict:
    """One level: {"times": {"ttft_s": 1}} is {"times.ttft_s": 1}; lists are left out."""
    out: dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, dict):
            out.update(_flat(value, f"{prefix}{key}."))
        elif not isinstance(value, list):
            out[prefix + key] = value
    return out


def frame_of(rows: list[dict], attributes: dict):
    """A pandas.DataFrame with a row for each record; `attributes` are its `attrs`."""
    try:
        import pandas
    except ImportError as missing:
        raise ImportError("to_frame() needs pandas: pip install pandas") from missing
    frame = pandas.DataFrame([_flat(r) for r in rows])
    frame.attrs.update(attributes)
    return frame


class Answer:
    """A record. Its keys are those of the command's --json, with units in their names, and its attributes too:
    `answer.step_time_s` is `answer["step_time_s"]`.

    Attributes:
        ok: whether the command's exit status would be 0: the plan fits, something was found.
    """

    #: The key whose list is the answer's rows.
    _rows: str | None = None

    def __init__(self, text: str, status: int = 0, own=None):
        self._json = text
        self._status = status
        self._own = own or {}
        self._table: dict | None = None

    @property
    def ok(self) -> bool:
        return self._status == 0

    def to_json(self) -> str:
        """The bytes of the command's --json."""
        return self._json

    def to_dict(self) -> dict:
        """The same as nested dicts and lists. Change a copy, not this."""
        if self._table is None:
            self._table = json.loads(self.to_json())
        return self._table

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the JSON into a file, as the command's -o does."""
        Path(path).write_text(self.to_json(), encoding="utf-8")

    def __getitem__(self, key):
        return self.to_dict()[key]

    def __getattr__(self, name: str):
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self.to_dict()[name]
        except KeyError:
            from difflib import get_close_matches

            near = get_close_matches(name, self.to_dict(), 3)
            hint = f"; near it: {', '.join(near)}" if near else ""
            raise AttributeError(f"the answer has no {name!r}{hint}") from None

    def __dir__(self):
        return [*super().__dir__(), *self.to_dict()]

    def rows(self) -> list[dict]:
        """The records of which `to_frame` makes rows."""
        return self.to_dict()[self._rows] if self._rows else [self.to_dict()]

    def to_frame(self):
        """A pandas.DataFrame with a row for each record; other figures of the answer are in its `attrs`."""
        return frame_of(self.rows(), _flat(self.to_dict()) if self._rows else {})

    def __eq__(self, other):
        return type(self) is type(other) and self.to_json() == other.to_json()

    def __reduce__(self):
        return _answer, (type(self), self.to_json(), self._status, self._own)

    def __repr__(self):
        shown = [f"{k}={v!r}" for k, v in self.to_dict().items() if isinstance(v, (int, float, str, bool))][:6]
        return f"<orrery.{type(self).__name__} {' '.join(shown)}>"

    def _repr_html_(self):
        if self._rows:
            return rows_table([_flat(r) for r in self.rows()])
        return pairs_table(type(self).__name__, _flat(self.to_dict()))


def _answer(kind, text, status, own):
    return kind(text, status, own)


class Report(Answer):
    """What a step takes and holds: of `estimate` and `simulate`. Times in seconds, memory in bytes.

    Step time and rates are there at once. The memory of processes is played when one of its figures, `fits`, the dict
    or the JSON is asked for.
    """

    _quick = frozenset(("step_time_s", "tokens_per_s", "tokens_per_s_per_gpu", "model_flops_utilization", "fits"))

    def __init__(self, text: str | None, status: int = 0, own=None, estimate=None):
        super().__init__(text, status, own)
        self._estimate = estimate

    def to_json(self) -> str:
        if self._json is None:
            self._json = self._estimate.text()
        return self._json

    @property
    def ok(self) -> bool:
        return self.fits if self._estimate is not None else self._status == 0

    @property
    def step_time_s(self) -> float:
        """Predicted time of a step, in seconds."""
        return self._estimate.step_time_s if self._estimate is not None else self["step_time_s"]

    @property
    def tokens_per_s(self) -> float:
        """Tokens that all devices together train on in a second."""
        return self._estimate.tokens_per_s if self._estimate is not None else self["tokens_per_s"]

    @property
    def fits(self) -> bool:
        """Whether every device, host and disk has room."""
        return self._estimate.fits if self._estimate is not None else self["fits"]

    @property
    def stages(self):
        """A frame of the pipeline stages: times in seconds, memory in bytes."""
        times = {t["stage"]: t for t in self["time_by_stage"]}
        return frame_of([{**times.get(m["stage"], {}), **m} for m in self["memory_by_stage"]], {})

    @property
    def operation_times(self):
        """A frame of the kinds of operations: busy time of their lane in seconds, mean over ranks, and runs."""
        return frame_of(self["operations"], {})

    def to_frame(self):
        """One row: every figure of the report."""
        return frame_of([self.to_dict()], {})

    def plot(self, ax=None):
        """What the ranks of each stage spend the step on, as stacked bars; gives the Matplotlib Axes."""
        return _plots.stages(self.to_dict(), ax)

    def __reduce__(self):
        return _answer, (type(self), self.to_json(), 0 if self.ok else 1, self._own)

    def _repr_html_(self):
        table = {k: v for k, v in _flat(self.to_dict()).items() if "." not in k and k not in ("report", "version")}
        return pairs_table(f"{self['plan']}: {self['origin']}", table) + memory_bars(self["memory_by_stage"])


class Trace:
    """A timeline: the text of a Chrome trace, which ui.perfetto.dev opens."""

    def __init__(self, text: bytes):
        self.text = text

    def to_perfetto(self, path: str | os.PathLike[str]) -> None:
        """Writes the file."""
        Path(path).write_bytes(self.text)

    def events(self) -> list[dict]:
        """The operations: name, rank (pid), lane (tid), begin and length in microseconds (ts, dur)."""
        events = json.loads(self.text)["traceEvents"]
        return [{k: e[k] for k in ("name", "pid", "tid", "ts", "dur")} for e in events if e.get("ph") == "X"]

    def to_frame(self):
        return frame_of(self.events(), {})

    def __repr__(self):
        return f"<orrery.Trace of {len(self.text)} bytes>"


class Simulation(Report):
    """A Report of `simulate`, with `trace` where one was asked for."""

    def __init__(self, text: str, status: int = 0, own=None, trace: Trace | None = None):
        super().__init__(text, status, own)
        self.trace = trace

    def to_perfetto(self, path: str | os.PathLike[str]) -> None:
        """Writes the timeline, for ui.perfetto.dev; needs simulate(..., trace=True)."""
        if self.trace is None:
            raise ValueError("no timeline was kept: simulate(plan, trace=True) keeps it")
        self.trace.to_perfetto(path)


class Search(Answer):
    """The plans that a search found, best first."""

    _rows = "plans"

    @property
    def found(self) -> list[Plan]:
        """The plans themselves."""
        return [_plan_written(p["plan_file"], self._own) for p in self["plans"]]

    @property
    def best(self) -> Plan:
        """The best plan."""
        if not self["plans"]:
            raise LookupError(f"no plan was found: {self['claim']}")
        return _plan_written(self["plans"][0]["plan_file"], self._own)

    def why_not(self, plan: Plan) -> Answer:
        """Why another plan was not taken."""
        from ._verbs import explain

        return explain(self.best, plan)

    def plot(self, ax=None):
        """Step times of the plans found, with the intervals; gives the Matplotlib Axes."""
        return _plots.plans(self.to_dict(), ax)

    def _repr_html_(self):
        names = ("plan", "step_time_s", "tokens_per_s_per_gpu", "model_flops_utilization", "peak_memory_process_bytes")
        rows = [{**{n: p.get(n) for n in names}, "decisions": p["description"]} for p in self["plans"]]
        return rows_table(rows) + f"<p>{self['claim']}</p>"


class Explanation(Answer):
    """Why a plan takes what it takes, or why not another one; `text` says it in words."""

    def __str__(self):
        return self["text"]


class Comparison(Answer):
    """Plans, reports or traces side by side."""

    def rows(self) -> list[dict]:
        table = self.to_dict()
        return [p["report"] for p in table["plans"]] if "plans" in table else [table]

    def plot(self, ax=None):
        """Compute, waiting for collectives and bubble of each plan, stacked; gives the Matplotlib Axes."""
        return _plots.compared(self.rows(), ax)


class Forecast(Answer):
    """A whole run: days, money, energy, time lost to failures. Times in seconds."""

    @property
    def days(self) -> float:
        return self["wall_s"] / 86400

    def plot(self, ax=None):
        """Where the time goes, in days; gives the Matplotlib Axes."""
        return _plots.lost_time(self.to_dict(), ax)


class Serving(Answer):
    """Plans for inference, best first."""

    _rows = "plans"

    def plot(self, ax=None):
        """Time per token against tokens per second and GPU; gives the Matplotlib Axes."""
        return _plots.serving(self.to_dict(), ax)


class JobsReport(Answer):
    """Policies for many jobs on one cluster, side by side."""

    _rows = "policies"

    def plot(self, ax=None):
        """Mean time from submission to end, in hours, of each policy; gives the Matplotlib Axes."""
        return _plots.policies(self.to_dict(), ax)


class Validation(Answer):
    """Predictions beside measured runs."""

    _rows = "rows"

    def plot(self, ax=None):
        """Predicted over measured step time; gives the Matplotlib Axes."""
        return _plots.scatter(self.to_dict(), ax)


class Sweep(Answer):
    """The points of a sweep."""

    _rows = "points"

    def rows(self) -> list[dict]:
        """A record for each point: its inputs, its state and reason, and its figures."""
        out = []
        for p in self["points"]:
            row = {"point": p["point"], **p["inputs"], "state": p["state"], "reason": p["reason"]}
            out.append({**row, **(p["figures"] or {}), "description": p["description"]})
        return out

    def plan(self, point: int) -> Plan | None:
        """The plan of a point; None where it has none."""
        text = self["points"][point].get("plan_file")
        return _plan_written(text, self._own) if text else None

    def plot(self, x: str = "gpus", y: str = "tokens_per_s", ax=None):
        """A curve of `y` over `x` for each combination of the other inputs; gives the Matplotlib Axes."""
        return _plots.curves(self.rows(), x, y, ax)


class Import(Answer):
    """A launch file read as a plan, and what became of its keys."""

    @property
    def plan(self) -> Plan:
        own = {}
        if "model_file" in self.to_dict():
            own[_loads_model(self["plan_file"])] = self["model_file"]
        return _plan_written(self["plan_file"], own)


def _loads_model(text: str) -> str:
    import tomllib

    return tomllib.loads(text)["model"]
