"""Every notebook of examples/notebooks runs from top to bottom, and what it asserts holds."""

import json
import os
import unittest
from pathlib import Path

from support import Case, has

FOLDER = Path(os.environ.get("ORRERY_NOTEBOOKS", Path(__file__).parents[2] / "examples" / "notebooks"))


class Notebooks(Case):
    def test_every_notebook_runs(self):
        if has("matplotlib"):
            import matplotlib

            matplotlib.use("Agg")
        books = sorted(FOLDER.glob("*.ipynb"))
        self.assertEqual(len(books), 4)
        for book in books:
            with self.subTest(book.name):
                cells = json.loads(book.read_text(encoding="utf-8"))["cells"]
                names = {"__name__": "__main__"}
                for number, cell in enumerate(cells):
                    if cell["cell_type"] != "code":
                        continue
                    self.assertEqual(cell["outputs"], [], "outputs are not stored")
                    exec(compile("".join(cell["source"]), f"{book.name}, cell {number}", "exec"), names)


if __name__ == "__main__":
    unittest.main()
