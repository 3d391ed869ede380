"""Models, clusters, workloads and plans as objects."""

import copy
import pickle
import tempfile
import unittest
from pathlib import Path

import orrery as o
from orrery import Cluster, Model, Plan, Workload  # repr() names them so
from support import Case



def small_plan(**decisions):
    return Plan("llama-3-8b", Cluster("dgx-h100", gpus=16), Workload(batch=64, sequence=4096), **decisions)


class Subjects(Case):
    def test_an_axis_that_is_not_named_has_one_rank_and_data_takes_the_rest(self):
        mesh = small_plan(tensor=4, pipeline=2).to_dict()["mesh"]
        self.assertEqual((mesh["tensor"], mesh["pipeline"], mesh["data"]), (4, 2, 2))

    def test_with_keeps_the_axes_that_it_does_not_name(self):
        plan = small_plan(tensor=4, pipeline=2, zero=1)
        mesh = plan.with_(tensor=2).to_dict()["mesh"]
        self.assertEqual((mesh["tensor"], mesh["pipeline"], mesh["data"]), (2, 2, 4))
        self.assertEqual(plan.with_(zero=0)["mesh.pipeline"], 2)
        self.assertEqual(plan["plan.zero_stage"], 1)  # the plan itself did not change

    def test_decisions_that_are_lists_are_those_of_plan_files(self):
        plan = small_plan(pipeline=2, stage_layers=[15, 17], order=["data", "pipeline"])
        self.assertEqual(plan["plan.stage_layers"], [15, 17])
        self.assertEqual(plan["mesh.order"], ["data", "pipeline"])
        self.assertEqual(plan.check(), [])

    def test_repr_is_valid_input(self):
        for thing in (
            Model("llama-3-8b"),
            Cluster("dgx-h100", gpus=16),
            Workload(batch=8, sequence=128, optimizer={"kind": "sgd"}),
            small_plan(tensor=4, zero=1, sequence_parallel=True),
            Plan.load("mixtral-8x7b-8-dgx-h100"),
        ):
            self.assertEqual(eval(repr(thing)), thing)

    def test_everything_pickles_and_copies_as_its_text(self):
        plan = small_plan(tensor=2)
        for thing in (plan, plan.model, plan.cluster, Workload(batch=8, sequence=128)):
            self.assertEqual(pickle.loads(pickle.dumps(thing)), thing)
            self.assertEqual(copy.deepcopy(thing), thing)
        report = o.estimate(plan)
        self.assertEqual(pickle.loads(pickle.dumps(report)).to_json(), report.to_json())

    def test_a_plan_reads_back_from_its_dict_and_its_file(self):
        plan = small_plan(tensor=2, pipeline=2, schedule="interleaved", chunks=2)
        self.assertEqual(Plan.from_dict(plan.to_dict()), plan)
        with tempfile.TemporaryDirectory() as folder:
            plan.save(Path(folder, "plan.toml"))
            self.assertEqual(Plan.load(Path(folder, "plan.toml")), plan)

    def test_a_model_that_only_python_knows_works_in_every_verb(self):
        model = Model(Model("tiny-gpt").to_dict() | {"schema": 1})
        cluster = Cluster("local-cpu", gpus=4)
        plan = Plan(model, cluster, {"batch": 16, "sequence": 64, "precision": "fp32"}, tensor=2)
        again = pickle.loads(pickle.dumps(plan))
        self.assertEqual(again, plan)
        self.assertEqual(eval(repr(plan)), plan)
        self.assertEqual(o.estimate(again).to_dict(), o.estimate(plan).to_dict())
        self.assertEqual(o.simulate(plan)["step_time_s"] >= o.estimate(plan).step_time_s, True)
        found = o.search(model, cluster, batch=16, sequence=64, precision="fp32")
        self.assertEqual(o.estimate(found.best)["step_time_s"], found["plans"][0]["step_time_s"])
        self.assertNotIn("/orrery-", found.to_json())  # no folder of a moment is left in it

    def test_a_model_and_a_cluster_of_one_name_stay_apart(self):
        table = Cluster("local-cpu", gpus=2).to_dict()
        cluster = Cluster({**table, "cluster": {**table["cluster"], "name": "tiny-gpt"}})
        model = Model(Model("tiny-gpt").to_dict())
        plan = Plan(model, cluster, {"batch": 16, "sequence": 64, "precision": "fp32"}, name="tiny-gpt")
        self.assertEqual(plan.model, model)
        self.assertEqual(plan.cluster, cluster)
        with tempfile.TemporaryDirectory() as folder:
            plan.save(Path(folder, "tiny-gpt.toml"))
            loaded = Plan.load(Path(folder, "tiny-gpt.toml"))
            self.assertEqual(o.estimate(loaded).step_time_s, o.estimate(plan).step_time_s)
        other = Model({"schema": 1, "model": {**model.to_dict()["model"], "layers": 1}})
        with self.assertRaisesRegex(ValueError, "two different models have the name 'tiny-gpt'"):
            o.compare(plan, Plan(other, cluster, {"batch": 16, "sequence": 64, "precision": "fp32"}))

    def test_a_memory_that_does_not_suffice_is_told(self):
        report = o.estimate(Plan("llama-3-70b", Cluster("dgx-h100", gpus=8), Workload(batch=8, sequence=8192)))
        self.assertFalse(report.fits)
        self.assertFalse(report.ok)
        self.assertGreater(report["peak_memory_process_bytes"], report["memory_capacity_bytes"])

    def test_notebooks_get_tables_of_bounded_size(self):
        plan = small_plan(tensor=2)
        for thing in (plan, plan.model, plan.cluster, o.estimate(plan)):
            html = thing._repr_html_()
            self.assertIn("<table>", html)
            self.assertLess(len(html), 100_000)
        self.assertIn("<svg", o.estimate(plan)._repr_html_())

    def test_dimensions_say_what_a_plan_can_decide(self):
        rows = {row["key"]: row for row in o.dimensions()}
        self.assertIn("1f1b", rows["plan.schedule"]["names"])
        self.assertEqual((rows["plan.zero_stage"]["least"], rows["plan.zero_stage"]["most"]), (0, 3))


class Mistakes(Case):
    def test_a_word_that_no_plan_has_is_refused_with_the_nearest(self):
        with self.assertRaises(o.Invalid) as caught:
            small_plan(zero_stag=1)
        (d,) = caught.exception.diagnostics
        self.assertEqual(d.code, "plan.words")
        self.assertEqual(d.message, 'a plan in one line has no key "zero_stag"')
        self.assertIn("zero_stage", d.hints[0])

    def test_a_file_is_named_with_line_and_column(self):
        text = small_plan(tensor=2, zero=1).to_toml().replace("zero_stage = 1", "zero_stage = 9")
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "wrong.toml")
            file.write_text(text)
            (first, *_) = o.check(file)
            self.assertEqual(first.file, str(file))
            self.assertIn("zero_stage = 9", text.splitlines()[first.line - 1])
            self.assertGreater(first.column, 0)
            self.assertIn("error:", str(first))
            with self.assertRaises(o.Invalid) as caught:
                o.estimate(file)
            again = pickle.loads(pickle.dumps(caught.exception))
            self.assertEqual(again.diagnostics, caught.exception.diagnostics)
            self.assertEqual(str(again), str(caught.exception))

    def test_a_plan_that_breaks_a_rule_is_checked_and_refused(self):
        plan = small_plan(tensor=8, mbs=3)  # a batch of 64
        found = plan.check()
        self.assertTrue(found)
        with self.assertRaises(o.Invalid) as caught:
            o.estimate(plan)
        self.assertEqual([d.code for d in caught.exception.diagnostics], [d.code for d in found])
        self.assertEqual(o.check(small_plan(tensor=8)), [])

    def test_unknown_names_and_flags_are_refused(self):
        for wrong, code in (
            (lambda: Model("llama-3-8bb"), "library.unknown-model"),
            (lambda: Cluster("dgx-h1000"), "library.unknown-cluster"),
            (lambda: o.simulate("demo-2x2x2", nois=1), "cli.arguments"),
            (lambda: o.estimate("demo-2x2x2", software="nemmo"), "cli.software"),
        ):
            with self.assertRaises(o.Invalid) as caught:
                wrong()
            self.assertEqual(caught.exception.diagnostics[0].code, code)
            self.assertTrue(caught.exception.diagnostics[0].hints)

    def test_an_attribute_that_is_not_there_names_the_nearest(self):
        with self.assertRaisesRegex(AttributeError, "step_time_s"):
            o.estimate("demo-2x2x2").step_times


if __name__ == "__main__":
    unittest.main()
