"""How many estimates a second Python makes on one core: distinct plans of Llama-3-8B on 16 GPUs, each made of keywords
and estimated once. No test; run it on a quiet machine:

    PYTHONPATH=build/release/python python3 python/tests/rate.py [SECONDS]
"""

import itertools
import sys
import time

import orrery as o

MODEL = o.Model("llama-3-8b")
CLUSTER = o.Cluster("dgx-h100", gpus=16)


def plans():
    """Plans that differ in a decision or in the batch."""
    axes = dict(tensor=(1, 2, 4, 8), pipeline=(1, 2), zero=(0, 1), recompute=("none", "selective", "full"), mbs=(1, 2))
    for batch in itertools.count(64, 64):
        workload = o.Workload(batch=batch, sequence=4096)
        for values in itertools.product(*axes.values()):
            yield o.Plan(MODEL, CLUSTER, workload, **dict(zip(axes, values)))


def main():
    budget = float(sys.argv[1]) if len(sys.argv) > 1 else 5.0
    made = list(itertools.islice(plans(), 2000))
    for plan in made[:100]:  # prices are read, code is warm
        o.estimate(plan)
    for name, work in {
        "estimate, plans there": lambda: (o.estimate(p).step_time_s for p in made),
        "plan and estimate": lambda: (o.estimate(p).step_time_s for p in plans()),
        "estimate with memory and JSON": lambda: (len(o.estimate(p).to_json()) for p in made),
    }.items():
        count, start, spent = 0, time.perf_counter(), 0.0
        for step in work():
            count += 1
            assert step > 0
            spent = time.perf_counter() - start
            if spent > budget:
                break
        print(f"{name}: {count / spent:,.0f} a second ({count} in {spent:.1f} s)")


main()
