"""What the tests share: the program, and answers of both ways."""

import os
import re
import subprocess
import unittest

import orrery


def of_program(*arguments):
    """What `orrery ARGUMENTS --json` prints."""
    words = [orrery.program(), *(str(a) for a in arguments), "--json"]
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "XDG_DATA_HOME": "/nonexistent"})
    if done.returncode > 1:
        raise AssertionError(done.stderr)
    return done.stdout


def without_clock(text):
    """JSON without the time that a search took."""
    return re.sub(r'^  "wall_s": .*\n', "", text, flags=re.M)


class Case(unittest.TestCase):
    maxDiff = 4000

    def setUp(self):
        # `orrery calibrate` may have measured this machine.
        os.environ["XDG_DATA_HOME"] = "/nonexistent"

    def same(self, answer, *arguments):
        """An answer has the bytes of the program's."""
        self.assertEqual(without_clock(answer.to_json()), without_clock(of_program(*arguments)))


def has(module):
    """Whether an optional package is there."""
    try:
        __import__(module)
    except ImportError:
        return False
    return True
