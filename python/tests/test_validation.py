"""Validations have the bytes of the program."""

import unittest

import orrery as o
from support import Case


class Validations(Case):
    def test_validations_are_the_programs(self):
        self.same(o.validate(), "validate")
        self.same(o.validate(by="gpu"), "validate", "--by", "gpu")


if __name__ == "__main__":
    unittest.main()
