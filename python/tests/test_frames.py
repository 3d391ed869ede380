"""Frames and drawings, where pandas and Matplotlib are there."""

import unittest

import orrery as o
from support import Case, has


@unittest.skipUnless(has("pandas"), "pandas is not installed")
class Frames(Case):
    def test_rows_are_plans_points_and_stages(self):
        found = o.search("llama-3-8b", o.Cluster("dgx-h100", gpus=8), batch=16, sequence=4096)
        frame = found.to_frame()
        self.assertEqual(list(frame["step_time_s"]), [p["step_time_s"] for p in found["plans"]])
        self.assertEqual(frame.attrs["claim"], found["claim"])
        report = o.estimate("llama-3-70b-8-dgx-h100")
        self.assertEqual(list(report.stages["stage"]), [0, 1, 2, 3])
        self.assertEqual(report.to_frame()["step_time_s"][0], report.step_time_s)
        self.assertEqual(list(report.operation_times["name"]), [x["name"] for x in report["operations"]])
        swept = o.sweep(plan="demo-2x2x2", over={"microbatch_size": [1, 2]})
        self.assertEqual(list(swept.to_frame().iloc[:, 1]), ["1", "2"])

    def test_a_timeline_is_a_frame_of_operations(self):
        frame = o.simulate("demo-2x2x2", trace=True).trace.to_frame()
        self.assertEqual(set(frame.columns), {"name", "pid", "tid", "ts", "dur"})


@unittest.skipUnless(has("matplotlib"), "Matplotlib is not installed")
class Drawings(Case):
    def setUp(self):
        super().setUp()
        import matplotlib

        matplotlib.use("Agg")

    def test_every_drawing_gives_axes_and_draws_into_given_ones(self):
        from matplotlib import pyplot

        demo = "llama-3-70b-8-dgx-h100"
        for answer in (
            o.estimate(demo),
            o.compare(demo, "zero=0"),
            o.forecast(demo, tokens="1T"),
            o.serve("llama-3.1-8b", "l40s:1", concurrency=8),
            o.jobs("philly-like", on="dgx-h100", gpus=16, count=20),
            o.validate(),
            o.search("llama-3-8b", o.Cluster("dgx-h100", gpus=8), batch=16, sequence=4096),
        ):
            axes = pyplot.subplots()[1]
            self.assertIs(answer.plot(ax=axes), axes)
            self.assertTrue(axes.patches or axes.lines or axes.collections)
            pyplot.close("all")

    def test_a_curve_has_a_line_for_each_case(self):
        swept = o.sweep("tiny-gpt", "local-cpu", batch=16, precision="fp32", over={"gpus": [1, 2], "sequence": [64, 128]})
        axes = swept.plot(x="gpus", y="tokens_per_s")
        self.assertEqual(len(axes.lines), 2)
        self.assertEqual(list(axes.lines[0].get_xdata()), [1.0, 2.0])


if __name__ == "__main__":
    unittest.main()
