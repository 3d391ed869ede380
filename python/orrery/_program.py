"""The program `orrery`, as a process of its own."""

from __future__ import annotations

import json
import os
import sys
import time
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


def _ended(process) -> None:
    # Not process.wait(), which holds Ctrl-C back a quarter of a second: too long for two signals to be one wish.
    while process.poll() is None:
        time.sleep(0.02)


def _printed(words: list[str], folder: str) -> tuple[int, str, str]:
    """Runs a program; its status, output and errors. After Ctrl-C it ends in its own way, and is killed at a second."""
    import signal
    import subprocess

    files = [os.path.join(folder, name) for name in ("printed", "said")]
    with open(files[0], "wb") as out, open(files[1], "wb") as err:
        process = subprocess.Popen(words, stdout=out, stderr=err)
    try:
        _ended(process)
    except BaseException:
        try:
            # At a terminal it has this already; two at once are one wish.
            process.send_signal(signal.SIGINT)
            _ended(process)
        except BaseException:
            process.kill()
            process.wait()
            raise
        raise
    printed, said = (Path(f).read_text(encoding="utf-8", errors="replace") for f in files)
    return process.returncode, printed, said


def run(plan: Plan | str | os.PathLike[str], **flags: Any) -> Answer:
    """Trains a plan for real, in processes of their own (`orrery run`).

    Args:
        flags: those of `orrery run --help`: steps=5, ranks=8, backend="cuda", checkpoint="saved".

    Returns: an Answer with the report of what was measured. Raises Invalid and Failed as the other functions do. Ctrl-C
    lets the run end after the step that it is in, with its checkpoint; a second one kills it.
    """
    with folder_of({}) as folder:
        where = plan._file(folder) if isinstance(plan, Plan) else os.fspath(plan)
        words = [program(), "run", *flags_of({**flags, "json": True}, folder), "--", where]
        status, printed, said = _printed(words, folder)
    if status == 2:
        rows = json.loads(printed)["errors"]
        raise Invalid(
            Diagnostic(r["file"], r["line"], r["column"], r["code"], r["message"], r["details"], said) for r in rows
        )
    if status not in (0, 1):
        raise Failed(said.strip() or f"orrery run ended with status {status}")
    return Answer(printed, status)


def main() -> None:
    """The console script `orrery`: becomes the program."""
    os.execv(program(), ["orrery", *sys.argv[1:]])
