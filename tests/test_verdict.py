"""The first cause is named: an exception outranks a signal, a signal outranks a lost peer, then time decides."""

import pytest

from cpump_kit.running.events import Done, Failed
from cpump_kit.running.output import AT_ONCE, LINE, Output
from cpump_kit.running.verdict import Outcome, decide


def failed(error, at, kind="exception", where="ddp.py, line 7, in train"):
    return Failed(kind, error, where, f"Traceback ...\n{error}", at)


LOST = "RuntimeError: [gloo/transport/tcp/pair.cc:549] Connection closed by peer [127.0.0.1]:3921"


def test_no_verdict_while_nothing_failed():
    assert decide([Outcome(0), Outcome(1, Done(b"", 5), exitcode=0)], "ddp.py") is None


@pytest.mark.parametrize("outcomes, rank", [
    ([Outcome(0, failed(LOST, 1)), Outcome(1, failed("ValueError: boom", 9))], 1),
    ([Outcome(0, failed(LOST, 1)), Outcome(1, exitcode=-9, ended_ns=9)], 1),
    ([Outcome(0, exitcode=-11, ended_ns=1), Outcome(1, failed("ValueError: boom", 9))], 1),
    ([Outcome(0, failed("KeyError: 'a'", 5)), Outcome(1, failed("ValueError: boom", 4))], 1),
    ([Outcome(0, failed(LOST, 1)), Outcome(1, exitcode=3, ended_ns=9)], 1),
])
def test_first_cause(outcomes, rank):
    assert decide(outcomes, "ddp.py").rank == rank


def test_sentences():
    verdict = decide([Outcome(0, failed(LOST, 1)), Outcome(1, failed("ValueError: boom", 9)), Outcome(2)], "ddp.py")
    assert verdict.sentence == ("Rank 1 failed at ddp.py, line 7, in train: ValueError: boom "
                                "(Rank 0 lost contact, as a consequence.)")
    assert verdict.traceback == "Traceback ...\nValueError: boom"
    same = [Outcome(rank, failed("ValueError: boom", rank)) for rank in range(3)]
    assert decide(same, "ddp.py").sentence.endswith("(Ranks 1, 2 failed too, in the same way.)")
    killed = decide([Outcome(0, exitcode=-9, ended_ns=1)], "ddp.py")
    assert "Rank 0 of ddp.py was ended by SIGKILL" in killed.sentence and "memory" in killed.sentence
    assert killed.traceback is None
    assert "exit code 0 before ddp.py had returned" in decide([Outcome(0, exitcode=0, ended_ns=1)], "ddp.py").sentence
    assert "sys.exit" in decide([Outcome(0, failed("SystemExit: 3", 1, kind="exit"))], "ddp.py").sentence


def test_a_rank_that_we_ended_has_not_failed():
    assert decide([Outcome(0, exitcode=-9, ended_ns=1, ended_by_us=True)], "ddp.py") is None


def test_output_gives_whole_lines_by_rank(tmp_path):
    output = Output(tmp_path, 2)
    output.poll()
    (tmp_path / "rank0.log").write_bytes(b"one\ntw")
    (tmp_path / "rank1.log").write_bytes("10 %\r50 %\r100 %\r\n\xe9t\xe9".encode("latin-1"))
    output.poll()
    assert list(output.lines) == [(0, "one"), (1, "100 %")]
    with (tmp_path / "rank0.log").open("ab") as file:
        file.write(b"o\n")
    output.poll(final=True)
    assert list(output.lines)[2:] == [(0, "two"), (1, "\ufffdt\ufffd")]
    assert output.since(2) == [(0, "two"), (1, "\ufffdt\ufffd")] and output.since(4) == [] and output.count == 4


def test_output_without_end_stays_bounded(tmp_path):
    output = Output(tmp_path, 1)
    (tmp_path / "rank0.log").write_bytes(b"x" * (3 * AT_ONCE) + b"\n" + b"line\n" * 100_000)
    for _ in range(5):
        output.poll()
    assert len(output.lines) <= output.lines.maxlen and output.lines[-1] == (0, "line")
    assert all(len(line) <= LINE for _, line in output.lines)
