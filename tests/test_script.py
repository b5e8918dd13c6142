"""Bad requests are refused in one sentence, before anything of the reader's runs."""

import pytest

from cpump_kit.errors import LaunchError
from cpump_kit.running.launch import launch
from cpump_kit.running.script import check_arguments, find, whole_number

GOOD = """
raise RuntimeError("this file must not be run to be checked")

def train(rank, world_size, *, epochs=3, batch_size=64, path):
    pass
"""


@pytest.fixture
def script(tmp_path):
    def write(text, name="lesson.py"):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


def refusal(call, *args, **kwargs) -> str:
    with pytest.raises(LaunchError) as caught:
        call(*args, **kwargs)
    text = str(caught.value)
    assert "\n" not in text and caught.value._render_traceback_() == [f"LaunchError: {text}"]
    return text


def test_a_script_is_checked_without_running_it(script):
    target = find(script(GOOD))
    check_arguments(target, {"path": "x", "epochs": 1})
    assert (target.name, target.function) == ("lesson.py", "train")
    assert target.signature.parameters["batch_size"].default == 64


def test_a_function_of_a_script_can_be_named(script):
    path = script("def train(rank, world_size): pass\ndef other(rank, world_size): pass\n")
    assert find(f"{path}:other").function == "other"
    assert "did you mean lesson.py:other?" in refusal(find, f"{path}:othr")


def test_no_such_file_names_the_nearest(script, tmp_path):
    script(GOOD, "ddp.py")
    assert "did you mean" in refusal(find, tmp_path / "dpp.py") and "ddp.py" in refusal(find, tmp_path / "dpp.py")
    assert "there is no script" in refusal(find, tmp_path / "far_away.py")


@pytest.mark.parametrize("text", ["", "x = 1\n", "def tran(rank, world_size): pass\n"])
def test_no_train(script, text):
    assert "has no function train" in refusal(find, script(text))


def test_a_syntax_error_names_file_and_line(script):
    text = refusal(find, script("x = 1\ndef train(rank, world_size:\n    pass\n"))
    assert text.startswith("lesson.py, line 2") and "def train(rank, world_size:" in text


def test_a_file_that_is_no_python(script, tmp_path):
    (tmp_path / "image.py").write_bytes(b"\x89PNG\0\0")
    assert "image.py" in refusal(find, tmp_path / "image.py")


@pytest.mark.parametrize("arguments, said", [
    ({"path": "x", "epoch": 1}, "has no argument 'epoch'; did you mean 'epochs'?"),
    ({"path": "x", "rank": 1}, "has no argument 'rank'"),
    ({"path": "x", "wholly_other": 1}, "it takes epochs, batch_size, path"),
    ({}, "needs a value for path"),
])
def test_arguments_are_checked_against_the_signature(script, arguments, said):
    assert said in refusal(check_arguments, find(script(GOOD)), arguments)


def test_train_must_take_rank_and_world_size(script):
    assert "rank and world_size first" in refusal(check_arguments, find(script("def train(rank): pass\n")), {})


def test_what_cannot_be_read_is_left_to_the_worker(script):
    for text in ("from other import train\n", "@decorated\ndef train(rank): pass\n", "train = make()\n"):
        check_arguments(find(script(text)), {"anything": 1})


@pytest.mark.parametrize("bad", [0, -1, 1.5, "2", None, True])
def test_whole_numbers(bad):
    assert "nprocs must be a whole number of at least 1" in refusal(whole_number, "nprocs", bad)


def test_launch_refuses_before_a_process_starts(script):
    path = script("def train(rank, world_size, *, thing=None): pass\n")
    assert "start_method must be one of" in refusal(launch, path, start_method="teleport")
    assert "threads" in refusal(launch, path, threads=0)
    assert "not dict" in refusal(launch, {})
    # cloudpickle carries much, but not a generator that is under way
    text = refusal(launch, path, nprocs=2, thing=(i for i in range(3)))
    assert "argument thing" in text and "generator" in text and "make it inside the function" in text
