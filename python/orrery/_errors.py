"""Mistakes as objects."""

from __future__ import annotations


class Diagnostic:
    """One mistake in what was given.

    Attributes:
        file: the file that it stands in; None: in none. What Python holds in memory has no folder: "plan.toml".
        line, column: its place in the file, from 1; None where that is not known.
        code: stable, "plan.tensor-heads" (docs/diagnostics.md).
        message: what is wrong, in one sentence.
        hints: the numbers, and what would be right.
        text: all of it as the command shows it, with the line.
    """

    __slots__ = ("file", "line", "column", "code", "message", "hints", "text")

    def __init__(self, file, line, column, code, message, hints, text):
        self.file = file
        self.line = line
        self.column = column
        self.code = code
        self.message = message
        self.hints = tuple(hints)
        self.text = text

    def _values(self):
        return tuple(getattr(self, name) for name in self.__slots__)

    def __eq__(self, other):
        return isinstance(other, Diagnostic) and self._values() == other._values()

    def __hash__(self):
        return hash(self._values())

    def __reduce__(self):
        return Diagnostic, self._values()

    def __repr__(self):
        place = "" if self.file is None else f"{self.file}:{self.line}:{self.column}: "
        return f"<Diagnostic {place}{self.message} [{self.code}]>"

    def __str__(self):
        return self.text


def diagnostics_of(rows, folder=None):
    """Diagnostics from the module's tuples; files in `folder`, which Python made for a command, lose it."""
    cut = None if folder is None else str(folder) + "/"

    def plain(text):
        return text.replace(cut, "") if cut and isinstance(text, str) else text

    return [
        Diagnostic(plain(file), line, column, code, plain(message), [plain(h) for h in hints], plain(text))
        for file, line, column, code, message, hints, text in rows
    ]


class Invalid(ValueError):
    """What was given is wrong: `diagnostics` holds every mistake that was found."""

    def __init__(self, diagnostics):
        self.diagnostics = list(diagnostics)
        super().__init__("\n".join(d.text.rstrip() for d in self.diagnostics))

    def __reduce__(self):
        return Invalid, (self.diagnostics,)


class Failed(RuntimeError):
    """The world failed: a file, a device or a library."""
