"""The program `orrery`, as a process of its own."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from ._answers import Answer
from ._command import flags_of
from ._errors import Diagnostic, Failed, Invalid
from ._subjects import Plan, folder_of


def program() -> str:
    """Where the program is: what ORRERY_PROGRAM names, the package's own, or the one on the PATH."""
    import shutil

    named = os.environ.get("ORRERY_PROGRAM")
    own = Path(__file__).parent / "bin" / "orrery"
    found = named or (str(own) if own.is_file() else shutil.which("orrery"))
    if not found:
        raise Failed("there is no program orrery: ORRERY_PROGRAM names one")
    return found


def run(plan: Plan | str | os.PathLike[str], **flags: Any) -> Answer:
    """Trains a plan for real, in processes of their own (`orrery run`).

    Args:
        flags: those of `orrery run --help`: steps=5, ranks=8, backend="cuda", checkpoint="saved".

    Returns: an Answer with the report of what was measured. Raises Invalid and Failed as the other functions do.
    """
    import subprocess

    with folder_of({}) as folder:
        where = plan._file(folder) if isinstance(plan, Plan) else os.fspath(plan)
        words = [program(), "run", *flags_of({**flags, "json": True}, folder), "--", where]
        done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode == 2:
        rows = json.loads(done.stdout)["errors"]
        raise Invalid(
            Diagnostic(r["file"], r["line"], r["column"], r["code"], r["message"], r["details"], done.stderr)
            for r in rows
        )
    if done.returncode not in (0, 1):
        raise Failed(done.stderr.strip() or f"orrery run ended with status {done.returncode}")
    return Answer(done.stdout, done.returncode)


def main() -> None:
    """The console script `orrery`: becomes the program."""
    os.execv(program(), ["orrery", *sys.argv[1:]])
