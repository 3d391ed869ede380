"""The package gives the bytes of the program."""

import unittest

import orrery as o
from support import Case, of_program

LLAMA = "llama-3-70b-8-dgx-h100"
DEMO = "demo-2x2x2"


class Equality(Case):
    def test_estimates_are_the_programs_bytes(self):
        for plan in (LLAMA, DEMO, "mixtral-8x7b-8-dgx-h100", "deepseek-v2-16-dgx-h100"):
            self.same(o.estimate(plan), "estimate", plan)
        self.same(o.estimate(LLAMA, software="nemo"), "estimate", LLAMA, "--software", "nemo")
        self.same(o.estimate(LLAMA, software="none"), "estimate", LLAMA, "--software", "none")
        self.same(o.estimate(LLAMA, price=2.5), "estimate", LLAMA, "--price", "2.5")
        self.same(o.estimate(LLAMA, cluster="dgx-a100"), "estimate", LLAMA, "--cluster", "dgx-a100")
        self.same(o.estimate(LLAMA, expandable_segments=True), "estimate", LLAMA, "--expandable-segments")

    def test_plans_made_of_keywords_are_plans_in_one_line(self):
        made = o.Plan("llama-3-8b", o.Cluster("dgx-h100", gpus=16), {"batch": 64, "sequence": 4096}, tensor=2, zero=1)
        # The line says the workload, too, and is the plan's name.
        line = "tensor=2 zero=1 batch=64 sequence=4096"
        want = of_program("estimate", line, "--model", "llama-3-8b", "--cluster", "dgx-h100", "--gpus", "16")
        self.assertEqual(o.estimate(made).to_json().replace('"tensor=2 zero=1"', f'"{line}"'), want)

    def test_simulations_are_the_programs_bytes(self):
        self.same(o.simulate(DEMO), "simulate", DEMO)
        self.same(o.simulate(DEMO, noise=0.05, seed=7), "simulate", DEMO, "--noise", "0.05", "--seed", "7")
        self.same(o.simulate(LLAMA, critical_path=True), "simulate", LLAMA, "--critical-path")

    def test_a_search_is_the_programs(self):
        asked = ("--model", "llama-3-8b", "--cluster", "dgx-h100", "--gpus", "8", "--batch", "16", "--seq", "4096")
        found = o.search("llama-3-8b", o.Cluster("dgx-h100", gpus=8), batch=16, sequence=4096, top=2)
        self.same(found, "plan", *asked, "--top", "2")
        self.assertEqual(o.estimate(found.best)["step_time_s"], found["plans"][0]["step_time_s"])

    def test_explanations_and_comparisons_are_the_programs(self):
        self.same(o.explain(DEMO), "explain", DEMO)
        self.same(o.compare(DEMO, "microbatch_size=1"), "compare", DEMO, "microbatch_size=1")

    def test_forecasts_are_the_programs(self):
        self.same(o.forecast(LLAMA, tokens="1T"), "forecast", LLAMA, "--tokens", "1T")
        self.same(
            o.forecast(LLAMA, tokens="300B", price=2.5, reliability="rsc-1"),
            *("forecast", LLAMA, "--tokens", "300B", "--price", "2.5", "--reliability", "rsc-1"),
        )

    def test_serving_and_jobs_are_the_programs(self):
        asked = ("serve", "llama-3.1-8b", "--cluster", "l40s:1", "--concurrency", "8")
        self.same(o.serve("llama-3.1-8b", "l40s:1", concurrency=8), *asked)
        asked = ("jobs", "philly-like", "--on", "dgx-h100", "--gpus", "16", "--count", "40")
        self.same(o.jobs("philly-like", on="dgx-h100", gpus=16, count=40), *asked)

    def test_a_sweep_is_the_programs(self):
        asked = ("--plan", DEMO, "--over", "microbatch_size=1,2", "--over", "recompute=none,full")
        swept = o.sweep(plan=DEMO, over={"microbatch_size": [1, 2], "recompute": ["none", "full"]})
        self.same(swept, "sweep", *asked)


if __name__ == "__main__":
    unittest.main()
