"""The learner's copies: solutions taken out, nothing else lost, and none out of date."""

import ast
import os

import nbformat
import pytest
from IPython.core.inputtransformer2 import TransformerManager
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from cpump_kit.teaching import lessons

SOLVED = """\
def share(usable_cores, nprocs):
    \"\"\"Threads for each.\"\"\"
    ### BEGIN SOLUTION
    threads = usable_cores // nprocs
    return max(1, threads)
    ### END SOLUTION

cp.check.threads_per_worker(share)"""

OPEN = """\
def share(usable_cores, nprocs):
    \"\"\"Threads for each.\"\"\"
    ...  # your turn

cp.check.threads_per_worker(share)"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "solutions").mkdir()
    return tmp_path


def write(folder, *cells, name="00_machine.ipynb", **metadata):
    source = folder / "solutions" / name
    nbformat.write(new_notebook(cells=list(cells), metadata=metadata), source)
    return source


def copied(folder, *cells):
    return nbformat.reads(lessons.learners_copy(write(folder, *cells)), as_version=4).cells


def test_a_solution_becomes_one_line_at_its_indentation(folder):
    (cell,) = copied(folder, new_code_cell(SOLVED))
    assert cell.source == OPEN
    compile(cell.source, "cell", "exec")


def test_a_cell_may_hold_several_solutions_and_nothing_else(folder):
    one = "### BEGIN SOLUTION\na = 1\n### END SOLUTION"
    cells = copied(folder, new_code_cell(one), new_code_cell(f"x = 0\n{one}\ny = 0\n{one}\n"))
    assert cells[0].source == "...  # your turn"
    assert cells[1].source == "x = 0\n...  # your turn\ny = 0\n...  # your turn\n"


def test_an_answer_in_words_is_taken_out_of_a_markdown_cell(folder):
    (cell,) = copied(folder, new_markdown_cell("Why?\n\n### BEGIN SOLUTION\nBecause.\n### END SOLUTION"))
    assert cell.source == "Why?\n\n*Your turn: write your answer here.*"


@pytest.mark.parametrize("source", ["### BEGIN SOLUTION\nx = 1", "x = 1\n### END SOLUTION",
                                    "### END SOLUTION\n### BEGIN SOLUTION"])
def test_a_marker_alone_is_refused_with_its_place(folder, source):
    with pytest.raises(ValueError, match="00_machine.ipynb, cell 2: '### (BEGIN|END) SOLUTION' stands without"):
        lessons.learners_copy(write(folder, new_code_cell("1"), new_code_cell(source)))


def test_solved_copy_cells_outputs_and_metadata_are_left_out(folder):
    output = new_output("stream", name="stdout", text="42")
    cells = copied(folder, new_code_cell("%cd -q ..", metadata={"tags": ["solved-copy"]}),
                   new_code_cell("print(42)", outputs=[output], execution_count=7,
                                 metadata={"tags": ["raises-exception"], "execution": {"started": "now"}}),
                   new_markdown_cell("Text", metadata={"collapsed": True}))
    assert [cell.source for cell in cells] == ["print(42)", "Text"]
    assert cells[0].outputs == [] and cells[0].execution_count is None
    assert cells[0].metadata == {"tags": ["raises-exception"]} and cells[1].metadata == {}


def test_the_copy_is_stable(folder):
    language = {"name": "python", "version": "3.99"}
    source = write(folder, new_code_cell(SOLVED), new_markdown_cell("é"), language_info=language)
    text = lessons.learners_copy(source)
    assert text == lessons.learners_copy(source)
    assert "3.99" not in text and "é" in text and text.endswith("}\n")
    assert nbformat.reads(text, as_version=4).cells[0].id == nbformat.read(source, as_version=4).cells[0].id


def test_check_names_what_is_late_and_writing_brings_it_up_to_date(folder, capsys):
    write(folder, new_code_cell(SOLVED))
    write(folder, new_code_cell("1"), name="07_ddp.ipynb")
    assert lessons.main(["--check"], folder) == 1
    assert capsys.readouterr().out.count("is out of date") == 2
    assert not (folder / "00_machine.ipynb").exists()
    assert lessons.main([], folder) == 0
    assert nbformat.read(folder / "00_machine.ipynb", as_version=4).cells[0].source == OPEN
    assert lessons.main(["--check"], folder) == 0
    written = (folder / "07_ddp.ipynb").stat().st_mtime_ns
    write(folder, new_code_cell(SOLVED.replace("Threads", "The threads")))
    assert lessons.main(["--check"], folder) == 1
    lessons.main([], folder)
    assert (folder / "07_ddp.ipynb").stat().st_mtime_ns == written  # only what has changed is written


def test_an_unknown_option_is_refused(folder, capsys):
    assert lessons.main(["--chek"], folder) == 2
    assert "usage" in capsys.readouterr().err


@pytest.mark.skipif("CI" not in os.environ, reason="copies of the lessons are their reader's, and may be changed")
def test_the_learners_copies_of_this_checkout_are_up_to_date():
    late = [copy.name for copy in lessons.out_of_date(lessons.NOTEBOOKS)]
    assert not late, f"run python -m cpump_kit.teaching.lessons: {', '.join(late)}"


SOURCES = sorted((lessons.NOTEBOOKS / "solutions").glob("*.ipynb"))


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_the_first_code_of_a_source_goes_to_the_learners_folder(source):
    first = next(cell for cell in nbformat.read(source, as_version=4).cells if cell.cell_type == "code")
    assert first.source == "%cd -q .." and "solved-copy" in first.metadata.get("tags", [])


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_every_cell_of_an_unsolved_copy_can_be_run(source):
    for cell in nbformat.reads(lessons.learners_copy(source), as_version=4).cells:
        if cell.cell_type == "code":
            python = TransformerManager().transform_cell(cell.source)
            compile(python, cell.source[:40], "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
