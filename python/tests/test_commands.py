"""Commands inside the process: Ctrl-C, progress, threads, timelines, the program itself."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

import orrery as o
from support import Case, of_program

LONG = dict(model="gpt3-175b", cluster="dgx-a100", gpus=128, batch=256, sequence=2048, all=True)


class Commands(Case):
    def test_ctrl_c_ends_a_search(self):
        # The signal comes once the search tells where it is, from another thread, as from a terminal.
        began = threading.Event()

        def interrupt():
            began.wait()
            os.kill(os.getpid(), signal.SIGINT)

        sender = threading.Thread(target=interrupt)
        sender.start()
        try:
            with self.assertRaises(KeyboardInterrupt):
                o.search(**LONG, progress=lambda *_: began.set())
        finally:
            began.set()
            sender.join()
        # The next command is not told to stop.
        self.assertTrue(o.explain("demo-2x2x2").ok)

    def test_a_callback_is_told_of_progress_and_ends_the_command_by_raising(self):
        told = []

        def tell(phase, done, total, note):
            told.append((phase, done, total))
            if len(told) == 2:
                raise RuntimeError("enough")

        with self.assertRaisesRegex(RuntimeError, "enough"):
            o.search(
                LONG["model"],
                LONG["cluster"],
                progress=tell,
                **{k: v for k, v in LONG.items() if k not in ("model", "cluster")},
            )
        self.assertEqual(len(told), 2)
        self.assertTrue(all(done <= total for _, done, total in told if total))

    def test_threads_get_their_own_answers(self):
        plans = [f"microbatch_size={n}" for n in (1, 2, 4)]
        want = [o.compare("demo-2x2x2", p).to_json() for p in plans]
        got = [None] * len(plans)

        def work(i):
            got[i] = o.compare("demo-2x2x2", plans[i]).to_json()

        threads = [threading.Thread(target=work, args=(i,)) for i in range(len(plans))]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(got, want)

    def test_a_timeline_is_that_of_the_program(self):
        played = o.simulate("demo-2x2x2", trace=True)
        with tempfile.TemporaryDirectory() as folder:
            theirs = Path(folder, "theirs.json")
            of_program("simulate", "demo-2x2x2", "--trace", theirs)
            mine = Path(folder, "mine.json")
            played.to_perfetto(mine)
            self.assertEqual(mine.read_bytes(), theirs.read_bytes())
        events = played.trace.events()
        self.assertAlmostEqual(max(e["ts"] + e["dur"] for e in events) * 1e-6, played["step_time_s"], places=5)

    def test_any_command_can_be_called(self):
        self.assertEqual(o.command("show", "cluster", "--json"), of_program("show", "cluster"))
        self.assertIn("orrery estimate", o.command("estimate", "--help"))

    def test_launches_are_written_and_read_back(self):
        plan = o.Plan(
            "llama-3-8b", o.Cluster("dgx-h100", gpus=16), o.Workload(batch=64, sequence=4096, clip_norm=1.0), tensor=2
        )
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder, "train.sh")
            script.write_text(o.export(plan, "megatron"))
            imported = o.import_plan(script, cluster="dgx-h100", gpus=16)
            self.assertEqual(imported.plan.to_dict()["mesh"]["tensor"], 2)
            self.assertEqual(imported["not_expressible"], [])

    def test_what_starts_processes_is_no_command_of_this_process(self):
        jobs = ["jobs", "jobs.toml", "--nodes=1", "--gpus-per-node=4", "--execute=kept"]
        for words in (["run", "cpu-one-rank"], jobs):
            with self.assertRaises(o.Invalid) as caught:
                o.command(*words)
            self.assertEqual([d.code for d in caught.exception.diagnostics], ["cli.hosted"])

    def test_ctrl_c_lets_a_run_end_in_its_own_way_and_a_second_one_kills_it(self):
        # A program that says when it runs, and what it does with SIGINT.
        program = """#!/bin/sh
trap 'echo asked >> {folder}/said; {then}' INT
sleep 0.2  # Popen has returned by now
echo $$ > {folder}/begun-new && mv {folder}/begun-new {folder}/begun
while :; do sleep 0.05; done
"""

        def wait_for(file, text=""):
            while not (file.is_file() and text in file.read_text()):
                time.sleep(0.01)

        for then, signals in (("exit 0", 1), (":", 2)):
            with self.subTest(signals=signals), tempfile.TemporaryDirectory() as folder:
                file = Path(folder, "orrery")
                file.write_text(program.format(folder=folder, then=then))
                file.chmod(0o755)

                def interrupt():
                    wait_for(Path(folder, "begun"))
                    os.kill(os.getpid(), signal.SIGINT)
                    wait_for(Path(folder, "said"), "asked")
                    if signals == 2:
                        os.kill(os.getpid(), signal.SIGINT)

                sender = threading.Thread(target=interrupt)
                sender.start()
                before = os.environ.get("ORRERY_PROGRAM")
                os.environ["ORRERY_PROGRAM"] = str(file)
                try:
                    with self.assertRaises(KeyboardInterrupt):
                        o.run("cpu-one-rank")
                finally:
                    if before is None:
                        del os.environ["ORRERY_PROGRAM"]
                    else:
                        os.environ["ORRERY_PROGRAM"] = before
                sender.join()
                self.assertEqual(Path(folder, "said").read_text(), "asked\n")
                with self.assertRaises(ProcessLookupError):
                    os.kill(int(Path(folder, "begun").read_text()), 0)

    def test_run_trains_in_processes_of_its_own(self):
        trained = o.run("cpu-one-rank", steps=2)
        self.assertTrue(trained["origin"].startswith("run"))
        with self.assertRaises(o.Invalid) as caught:
            o.run("no-such-plan")
        self.assertEqual(caught.exception.diagnostics[0].code, "library.unknown-plan")

    def test_only_the_standard_library_is_imported(self):
        code = (
            "import sys, json; before = set(sys.modules); import orrery; "
            "print(json.dumps(sorted(set(sys.modules) - before)))"
        )
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        names = {name.split(".")[0] for name in json.loads(out)} - {"orrery", "_orrery"}
        self.assertEqual({n for n in names if n not in sys.stdlib_module_names}, set())


if __name__ == "__main__":
    unittest.main()
