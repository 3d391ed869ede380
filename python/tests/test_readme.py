"""The first example of README.md, in six lines of Python."""

import unittest

import orrery as o
from support import Case, of_program, without_clock


class Readme(Case):
    def test_the_first_example_of_the_readme_takes_six_lines(self):
        cluster = o.Cluster("dgx-h100", gpus=64)
        workload = o.Workload(batch=128, sequence=8192, precision="bf16")
        found = o.search("llama-3-70b", cluster, workload, software="nemo", top=1)
        best = found.best
        step = o.estimate(best, software="nemo").step_time_s
        asked = ("plan", "--model", "llama-3-70b", "--cluster", "dgx-h100", "--gpus", 64, "--batch", 128, "--seq", 8192)
        want = of_program(*asked, "--precision", "bf16", "--software", "nemo", "--top", 1)
        self.assertEqual(without_clock(found.to_json()), without_clock(want))
        self.assertEqual(step, found["plans"][0]["step_time_s"])
        # What README.md shows: 14.33 s.
        self.assertEqual(f"{step:.2f}", "14.33")


if __name__ == "__main__":
    unittest.main()
