"""Orrery plans, predicts and compares parallel training of transformers.

    import orrery as o
    plan = o.Plan("llama-3-70b", o.Cluster("dgx-h100", gpus=64), o.Workload(batch=128, sequence=8192),
                  data=2, tensor=8, pipeline=4)
    o.estimate(plan).step_time_s

Names are the keys of plan files, and answers have the keys of the program's --json, with units in them: times in
seconds (_s), memory in bytes (_bytes). docs/python.md is the guide.
"""

from pathlib import Path as _Path

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
    Sweep,
    Trace,
    Validation,
)
from ._command import command
from ._errors import Diagnostic, Failed, Invalid
from ._program import program, run
from ._subjects import Cluster, Model, Plan, Workload
from ._sweep import sweep
from ._verbs import (
    check,
    compare,
    dimensions,
    estimate,
    explain,
    export,
    forecast,
    import_plan,
    jobs,
    search,
    serve,
    simulate,
    validate,
)

__version__ = _orrery.version()

#: The data that come with the package; in a build's folder, those of the sources.
_data = _Path(__file__).parent / "share" / "orrery" / "models"
if _data.is_dir():
    _orrery.set_data_folder(str(_data))

__all__ = [
    "Answer",
    "Cluster",
    "Comparison",
    "Diagnostic",
    "Explanation",
    "Failed",
    "Forecast",
    "Import",
    "Invalid",
    "JobsReport",
    "Model",
    "Plan",
    "Report",
    "Search",
    "Serving",
    "Simulation",
    "Sweep",
    "Trace",
    "Validation",
    "Workload",
    "check",
    "command",
    "compare",
    "dimensions",
    "estimate",
    "explain",
    "export",
    "forecast",
    "import_plan",
    "jobs",
    "program",
    "run",
    "search",
    "serve",
    "simulate",
    "sweep",
    "validate",
]
