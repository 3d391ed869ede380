"""Models, clusters, workloads and plans."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Union

from . import _orrery
from ._errors import Diagnostic, diagnostics_of
from ._html import pairs_table
from ._toml import toml

Reference = Union[str, "os.PathLike[str]", Mapping[str, Any]]


def _loads(text: str) -> dict:
    import tomllib

    return tomllib.loads(text)


def _file_name(name: str) -> str:
    """A file's name that says `name`. Models and clusters add what they are: they and plans may have the same name."""
    return "".join(c if c.isalnum() or c in "._-" else "-" for c in name)[:80] or "unnamed"


def _in_file(kind: str, table: Mapping) -> dict:
    """A file of one kind: its table may be given alone."""
    return {"schema": 1, **table} if kind in table else {"schema": 1, kind: dict(table)}


@contextmanager
def folder_of(own: Mapping[str, str]):
    """A folder with files that only Python knows."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="orrery-") as folder:
        for name, text in own.items():
            Path(folder, name).write_text(text, encoding="utf-8")
        yield folder


class _Written:
    """What is written as TOML: pickles, copies and compares by it."""

    def __eq__(self, other):
        return type(self) is type(other) and self.to_toml() == other.to_toml()

    def __hash__(self):
        return hash(self.to_toml())

    def to_toml(self) -> str:
        raise NotImplementedError

    def to_dict(self) -> dict:
        """The same as nested dicts, with the keys of Orrery's files."""
        return _loads(self.to_toml())


class Model(_Written):
    """A model: `Model("llama-3-70b")`, a .toml file, a Hugging Face config.json or its folder, or a dict with the keys
    of a model file (docs/model-file.md)."""

    def __init__(self, reference: Reference):
        if isinstance(reference, Mapping):
            table = _in_file("model", reference)
            self._own = f"{_file_name(table['model'].get('name', 'model'))}.model.toml"
            self._named = _orrery.NamedModel.written(toml(table), self._own)
        else:
            self._own = None
            self._named = _orrery.NamedModel.named(os.fspath(reference))

    @classmethod
    def _of(cls, named, own):
        made = object.__new__(cls)
        made._named, made._own = named, own
        return made

    @property
    def name(self) -> str:
        return self._named.name

    @property
    def reference(self) -> str:
        """How plan files name it: a shipped name or a path."""
        return self._named.reference

    @property
    def parameters(self) -> int:
        """Number of trained parameters, all layers together."""
        return self._named.parameters

    def to_toml(self) -> str:
        return self._named.text()

    def files(self) -> dict[str, str]:
        return {self._own: self.to_toml()} if self._own else {}

    def __reduce__(self):
        return (_model_written, (self.to_toml(), self._own)) if self._own else (Model, (self.reference,))

    def __repr__(self):
        return f"Model({self.to_dict()!r})" if self._own else f"Model({self.reference!r})"

    def _repr_html_(self):
        return pairs_table(self.name, {"parameters": f"{self.parameters:,}", **self.to_dict()["model"]})


def _model_written(text, own):
    return Model._of(_orrery.NamedModel.written(text, own), own)


class Cluster(_Written):
    """A cluster: a shipped name, a .toml file, a word like "h200:8x4", or a dict with the keys of a cluster file.

    Args:
        gpus: number of devices, in place of the file's: part of a node, or whole nodes.
        nic: a network port's bandwidth, for a cluster in one word: "400 Gbit/s".
    """

    def __init__(self, reference: Reference, *, gpus: int | None = None, nic: str | None = None):
        if isinstance(reference, Mapping):
            table = _in_file("cluster", reference)
            self._own = f"{_file_name(table['cluster'].get('name', 'cluster'))}.cluster.toml"
            self._text = toml(table)
            self._named = _orrery.NamedCluster.written(self._text, self._own, gpus)
        else:
            self._own = self._text = None
            self._named = _orrery.NamedCluster.named(os.fspath(reference), gpus, nic)

    @classmethod
    def _of(cls, named, own, text):
        made = object.__new__(cls)
        made._named, made._own, made._text = named, own, text
        return made

    @property
    def name(self) -> str:
        return self._named.name

    @property
    def reference(self) -> str:
        """How plan files name it."""
        return self._named.reference

    @property
    def gpus(self) -> int:
        """Number of devices."""
        return self._named.gpus

    def to_toml(self) -> str:
        return self._named.text()

    def files(self) -> dict[str, str]:
        return {self._own: self._text} if self._own else {}

    def __reduce__(self):
        if self._own:
            return _cluster_written, (self._text, self._own, self.gpus)
        return _cluster_named, (self.reference, self.gpus)

    def __repr__(self):
        what = _loads(self._text) if self._own else self.reference
        return f"Cluster({what!r}, gpus={self.gpus})"

    def _repr_html_(self):
        return pairs_table(self.name, {"gpus": self.gpus, **self.to_dict()["cluster"]})


def _cluster_written(text, own, gpus):
    return Cluster._of(_orrery.NamedCluster.written(text, own, gpus), own, text)


def _cluster_named(reference, gpus):
    return Cluster(reference, gpus=gpus)


class Workload(_Written):
    """What is trained: the keys of [workload] in plan files (docs/plan-file.md).

    Args:
        batch: sequences per optimizer step, over all replicas.
        sequence: tokens per sequence.
        precision: "bf16" (default), "fp8", "fp16", "fp32", "fp64".
        keys: any other key: clip_norm=1.0, dropout=0.1, optimizer="adam" or optimizer={"kind": "adam", ...}.

    A key that is not given has the default of plan files; in `search`, that of `orrery plan` (clip_norm is 1 there).
    """

    def __init__(self, *, batch: int, sequence: int, **keys: Any):
        self.given = {"batch": batch, "sequence": sequence, **keys}
        if isinstance(keys.get("optimizer"), str):
            keys = {**keys, "optimizer": {"kind": keys["optimizer"]}}
        self._written = _orrery.WrittenWorkload.written(
            toml(_in_file("workload", {"batch": batch, "sequence": sequence, **keys}))
        )

    def to_toml(self) -> str:
        return self._written.text()

    def with_(self, **keys: Any) -> Workload:
        """The same with other values of some keys."""
        return Workload(**{**self.given, **keys})

    def __reduce__(self):
        return _workload, (self.given,)

    def __repr__(self):
        return "Workload(" + ", ".join(f"{k}={v!r}" for k, v in self.given.items()) + ")"

    def _repr_html_(self):
        return pairs_table("workload", self.to_dict()["workload"])


def _workload(given):
    return Workload(**given)


def _rows_called(word: str) -> list[tuple]:
    """The dimensions that a word means: "tensor" is an axis, and an algorithm."""
    keys = _orrery.dimensions_called(word)
    return [row for row in _orrery.dimensions() if row[0] in keys]


_CALLED: dict[str, list[tuple]] = {}


def _called(word: str) -> list[tuple]:
    if word not in _CALLED:
        _CALLED[word] = _rows_called(word)
    return _CALLED[word]


def _apart(decisions: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Decisions that a plan in one line says, as such a line, and those that only a file says: lists, quantities with
    units, and "auto" where the values have no names."""
    words, written = [], {}
    for word, value in decisions.items():
        if isinstance(value, bool):
            value = "on" if value else "off"
        rows = _called(word)
        line = isinstance(value, int) or (isinstance(value, str) and " " not in value)
        if isinstance(value, str) and not value.isdigit() and value != "off":
            line = line and (not rows or any(row[4] and row[2] != "written" for row in rows))
        if rows and all(row[2] == "written" for row in rows):
            line = False
        if line:
            words.append(f"{word}={value}")
        else:
            written[rows[0][0] if rows else word] = value
    return " ".join(words), written


class Plan(_Written):
    """A plan of a run: model, cluster, workload and the decisions.

    Args:
        model: a Model, or what Model takes.
        cluster: a Cluster, or what Cluster takes.
        workload: a Workload, or a dict of its keys.
        name: shown in reports; without it, the decisions in one line.
        for_: the program that is to launch it ("megatron-core"); the key `for` of plan files.
        decisions: any dimension of a plan by its key in plan files or an alias, as in a plan in one line: tensor=4,
            pipeline=2, microbatch_size=1, zero_stage=1, schedule="1f1b", sequence_parallel=True. An axis that is not
            named has one rank, and data takes what the others leave. `orrery.dimensions()` lists them all.
    """

    def __init__(
        self,
        model: Model | Reference,
        cluster: Cluster | Reference,
        workload: Workload | Mapping[str, Any],
        *,
        name: str | None = None,
        for_: str = "",
        **decisions: Any,
    ):
        if not isinstance(model, Model):
            model = Model(model)
        if not isinstance(cluster, Cluster):
            cluster = Cluster(cluster)
        if not isinstance(workload, Workload):
            workload = Workload(**workload)
        self._own = {**model.files(), **cluster.files()}
        self._source = None
        words, written = _apart(decisions)
        self._run = _orrery.Run.made(
            model._named, cluster._named, workload._written, words, words if name is None else name
        )
        if for_:
            self._run = self._run.renamed(self._run.name, for_)
        if written:
            self._run = _with_written(self._run, self._own, written)

    @classmethod
    def _of(cls, run, own, source=None) -> Plan:
        made = object.__new__(cls)
        made._run, made._own, made._source = run, own, source
        return made

    @classmethod
    def load(
        cls,
        reference: str | os.PathLike[str],
        *,
        gpus: int | None = None,
        cluster: str | None = None,
        model: str | None = None,
        set: Mapping[str, Any] | None = None,
        nearest: bool = False,
    ) -> Plan:
        """Reads a plan file, a shipped example ("demo-2x2x2"), or a launch file of another program.

        The other arguments are those of the command's --gpus, --cluster, --model, --set and --nearest.
        """
        reference = os.fspath(reference)
        flags = _orrery.Flags()
        flags.gpus, flags.model, flags.nearest = gpus, model, nearest
        flags.set = [f"{k}={v}" for k, v in (set or {}).items()]
        run = _orrery.Run.loaded(reference, flags, cluster)
        plain = gpus is None and cluster is None and model is None and not set and not nearest
        source = None
        if plain:
            path = Path(reference)
            source = (str(path.absolute()), path.read_bytes()) if path.is_file() else (reference, None)
        return cls._of(run, {}, source)

    @classmethod
    def parse(cls, text: str, *, file: str = "plan.toml") -> Plan:
        """Reads the text of a plan file; relative paths in it count from the folder of `file`."""
        return cls._of(_orrery.Run.parsed(text, file, None), {})

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> Plan:
        """Reads what `to_dict` gave: nested dicts with the keys of plan files."""
        return cls.parse(toml(table))

    @property
    def name(self) -> str:
        return self._run.name

    @property
    def ranks(self) -> int:
        """Number of ranks: the product of the mesh's axes."""
        return self._run.ranks

    @property
    def model(self) -> Model:
        reference = self._run.model_reference
        return Model._of(self._run.model, reference if reference in self._own else None)

    @property
    def cluster(self) -> Cluster | None:
        reference = self._run.cluster_reference
        named = self._run.cluster
        if named is None:
            return None
        return Cluster._of(named, reference if reference in self._own else None, self._own.get(reference))

    def to_toml(self) -> str:
        """The plan file."""
        return self._run.text()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the plan file; a model or a cluster that only Python knows is written beside it."""
        path = Path(path)
        for name, text in self._own.items():
            (path.parent / name).write_text(text, encoding="utf-8")
        path.write_text(self.to_toml(), encoding="utf-8")

    def with_(self, *, name: str | None = None, for_: str | None = None, **decisions: Any) -> Plan:
        """A copy with other decisions: `plan.with_(tensor=4)`. Axes that are not named stay, and data takes what they
        leave of the devices. What a change makes meaningless goes back to its default."""
        words, written = _apart(decisions)
        run = self._run
        if words:
            words = " ".join([*self._kept_axes(decisions), words])
            run = run.with_words(words)
        if written:
            run = _with_written(run, self._own, written)
        run = run.renamed(self.name if name is None else name, run.framework if for_ is None else for_)
        return Plan._of(run, self._own)

    def _kept_axes(self, decisions):
        axes = [key for key, _, kind, *_ in _orrery.dimensions() if kind == "axis"]
        called = {
            key: {key, key.rsplit(".", 1)[-1], *aliases}
            for key, aliases, kind, *_ in _orrery.dimensions()
            if kind == "axis"
        }
        mesh = self.to_dict().get("mesh", {})
        named = [a for a in axes if called[a] & decisions.keys()]
        if not named:
            return []
        return [
            f"{a}={mesh[a.rsplit('.', 1)[-1]]}"
            for a in axes
            if a not in named and a != "mesh.data" and mesh.get(a.rsplit(".", 1)[-1], 1) > 1
        ]

    def on(self, cluster: Cluster | Reference) -> Plan:
        """The same plan on another cluster, resized to the plan's ranks."""
        if not isinstance(cluster, Cluster):
            cluster = Cluster(cluster, gpus=self.ranks)
        return Plan._of(self._run.on_cluster(cluster._named), {**self._own, **cluster.files()})

    def check(self) -> list[Diagnostic]:
        """Everything that is wrong with the plan; an empty list where nothing is."""
        return diagnostics_of(self._run.check())

    def __getitem__(self, key: str):
        """A value by its full key in plan files: plan["mesh.tensor"], plan["workload.batch"]."""
        value: Any = self.to_dict()
        for word in key.split("."):
            value = value[word]
        return value

    def __reduce__(self):
        return _plan_written, (self.to_toml(), self._own)

    def __repr__(self):
        table = self.to_dict()
        lists = {k: v for t in ("mesh", "plan") for k, v in table.get(t, {}).items()}
        double = set(table.get("mesh", {})) & set(table.get("plan", {}))
        decisions = [f"{k}={v!r}" for k, v in lists.items() if k not in double]
        full = {f"{t}.{k}": table[t][k] for t in ("mesh", "plan") for k in sorted(double)}
        if full:
            decisions.append(f"**{full!r}")
        workload = ", ".join(f"{k}={v!r}" for k, v in table["workload"].items())
        said = [repr(self.model), repr(self.cluster), f"Workload({workload})", f"name={self.name!r}"]
        if table.get("for"):
            said.append(f"for_={table['for']!r}")
        return "Plan(" + ", ".join(said + decisions) + ")"

    def _repr_html_(self):
        table = self.to_dict()
        return pairs_table(
            self.name or "plan",
            {
                "model": table["model"],
                "cluster": f"{table.get('cluster', '-')}, {table.get('gpus', '-')} GPUs",
                **{k: table["workload"][k] for k in ("batch", "sequence", "precision") if k in table["workload"]},
                **table.get("mesh", {}),
                **table.get("plan", {}),
            },
        )

    def _file(self, folder: str) -> str:
        """What names the plan to a command; where no file has it, one is written into the folder."""
        if self._source is not None:
            path, text = self._source
            if text is None or (os.path.isfile(path) and Path(path).read_bytes() == text):
                return path
        for name, text in self._own.items():
            Path(folder, name).write_text(text, encoding="utf-8")
        stem, number = _file_name(self.name or "plan"), 1
        while Path(folder, f"{stem}.toml").exists():
            number += 1
            stem = f"{_file_name(self.name or 'plan')}-{number}"
        file = Path(folder, f"{stem}.toml")
        file.write_text(self.to_toml(), encoding="utf-8")
        return str(file)


def _parsed(text: str, own: Mapping[str, str]):
    with folder_of(own) as folder:
        return _orrery.Run.parsed(text, f"{folder}/plan.toml" if own else "plan.toml", None)


def _with_written(run, own, written):
    table = _loads(run.text())
    for key, value in written.items():
        where, _, word = key.rpartition(".")
        table.setdefault(where or "plan", {})[word] = list(value) if isinstance(value, tuple) else value
    return _parsed(toml(table), own)


def _plan_written(text, own):
    return Plan._of(_parsed(text, own), own)
