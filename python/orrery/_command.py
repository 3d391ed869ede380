"""Commands of the program, run inside this process."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import Any, Union

from . import _orrery
from ._errors import Failed, Invalid, diagnostics_of
from ._subjects import Cluster, Model, Plan, folder_of

#: Keys of plan files whose flags have other names.
_FLAGS = {"sequence": "seq", "for_": "for"}

Progress = Union[bool, Callable[[str, int, int, str], object], None]


def _show(phase: str, done: int, total: int, note: str) -> None:
    share = f"{100 * done / total:5.1f} %" if total else f"{done} s"
    print(f"\r{phase} {share} {note}".ljust(60), end="", file=sys.stderr, flush=True)


def callback(progress: Progress):
    """What `progress=` means: a function, True (a line on standard error), or nothing."""
    if progress is True:
        return _show
    return progress or None


def _text(value, folder) -> str:
    if isinstance(value, Plan):
        return value._file(folder)
    if isinstance(value, (Model, Cluster)):
        for name, text in value.files().items():
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
            return os.path.join(folder, name)
        return value.reference
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def flags_of(flags: Mapping[str, Any], folder: str) -> list[str]:
    """Keywords as flags: memory_margin="4 GiB" is --memory-margin "4 GiB", True a flag, a list the flag repeated."""
    out = []
    for key, value in flags.items():
        if value is None or value is False:
            continue
        flag = "--" + _FLAGS.get(key, key).strip("_").replace("_", "-")
        if value is True:
            out.append(flag)
            continue
        if isinstance(value, Mapping):
            value = [f"{k}={v}" for k, v in value.items()]
        for one in value if isinstance(value, (list, tuple)) else [value]:
            out.append(f"{flag}={_text(one, folder)}")
        if isinstance(value, Cluster) and "gpus" not in flags:
            out.append(f"--gpus={value.gpus}")
    return out


def told(answer, folder=None) -> tuple[int, str]:
    """Status and output of a command; its mistakes as exceptions."""
    status, output, messages, diagnostics, failure = answer
    if diagnostics:
        raise Invalid(diagnostics_of(diagnostics, folder))
    if failure or status >= 3:
        raise Failed(failure or messages.decode("utf-8", "replace").strip())
    text = output.decode("utf-8")
    return status, text.replace(f"{folder}/", "") if folder else text


def ask(verb: str, arguments=(), flags: Mapping[str, Any] = {}, *, progress: Progress = None) -> tuple[int, str]:
    """Runs `orrery VERB ARGUMENTS --FLAGS` in this process; gives its status and what it prints."""
    with folder_of({}) as folder:
        words = [verb, *flags_of(flags, folder)]
        words += ["--", *(_text(a, folder) for a in arguments)] if arguments else []
        return told(_orrery.command(words, callback(progress)), folder)


def command(*arguments: str | os.PathLike[str], progress: Progress = None) -> str:
    """Any command, by the words of its command line: `command("show", "cluster")`. Gives what it prints.

    Raises Invalid where the input is wrong, and Failed where a file or a device failed. Ctrl-C ends it.
    """
    return told(_orrery.command([os.fspath(a) for a in arguments], callback(progress)))[1]
