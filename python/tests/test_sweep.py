"""Sweeps, spread over processes: the bytes do not depend on who computes them."""

import concurrent.futures
import multiprocessing
import tempfile
import unittest
from pathlib import Path

import orrery as o
from support import Case, has

GRID = {"microbatch_size": [1, 2], "recompute": ["none", "full"], "zero": [0, 1]}


class Sweeps(Case):
    def test_points_are_those_of_the_grid_and_each_is_an_estimate(self):
        swept = o.sweep(plan="demo-2x2x2", over=GRID)
        self.assertEqual(len(swept["points"]), 8)
        for row, point in zip(swept.rows(), range(8)):
            plan = swept.plan(point)
            if row["state"] == "found":
                self.assertEqual(o.estimate(plan).step_time_s, row["step_s"])

    def test_a_process_pool_gives_the_bytes_of_one_process(self):
        alone = o.sweep(plan="demo-2x2x2", over=GRID)
        with concurrent.futures.ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
            spread = o.sweep(plan="demo-2x2x2", over=GRID, executor=pool, shards=3)
            own = o.Plan.load("demo-2x2x2").with_(name="mine")
            self.assertEqual(
                o.sweep(plan=own, over=GRID, executor=pool).to_json(), o.sweep(plan=own, over=GRID).to_json()
            )
            with self.assertRaises(o.Invalid) as caught:
                o.sweep(plan="demo-2x2x2", over={"zero_stag": [0]}, executor=pool)
            self.assertEqual(caught.exception.diagnostics[0].code, "sweep.value")
        self.assertEqual(spread.to_json(), alone.to_json())

    def test_a_store_keeps_the_points(self):
        with tempfile.TemporaryDirectory() as folder:
            store = Path(folder, "points.jsonl")
            first = o.sweep(plan="demo-2x2x2", over=GRID, store=store)
            kept = store.read_bytes()
            self.assertEqual(o.sweep(plan="demo-2x2x2", over=GRID, store=store).to_json(), first.to_json())
            self.assertEqual(store.read_bytes(), kept)

    def test_what_an_executor_cannot_do_is_refused(self):
        with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(1) as pool:
            store = Path(folder, "points.jsonl")
            store.write_text("kept")
            with self.assertRaisesRegex(ValueError, "there already"):
                o.sweep(plan="demo-2x2x2", over=GRID, executor=pool, store=store)
            self.assertEqual(store.read_text(), "kept")
            with self.assertRaisesRegex(ValueError, "progress"):
                o.sweep(plan="demo-2x2x2", over=GRID, executor=pool, progress=True)

    def test_no_key_of_an_optimizer_is_lost(self):
        work = {"batch": 16, "sequence": 64, "precision": "fp32", "optimizer": {"kind": "adam", "beta1": 0.8}}
        for ask in (o.search, o.sweep):
            with self.assertRaisesRegex(o.Invalid, "optimizer-beta1"):
                ask("tiny-gpt", o.Cluster("local-cpu", gpus=2), work)

    def test_a_sweep_of_searches_takes_models_clusters_and_workloads(self):
        swept = o.sweep("tiny-gpt", "local-cpu", batch=16, precision="fp32", over={"gpus": [1, 2], "sequence": [64, 128]})
        self.assertEqual([r["gpus"] for r in swept.rows()], [1, 1, 2, 2])
        self.assertTrue(all(r["state"] == "found" for r in swept.rows()))

    @unittest.skipUnless(has("distributed"), "Dask is not installed")
    def test_dask_gives_the_bytes_of_one_process(self):
        from distributed import Client, LocalCluster

        alone = o.sweep(plan="demo-2x2x2", over=GRID)
        with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
            with Client(cluster) as client:
                spread = o.sweep(plan="demo-2x2x2", over=GRID, executor=client.get_executor())
        self.assertEqual(spread.to_json(), alone.to_json())


if __name__ == "__main__":
    unittest.main()
