"""The check of lesson NUMBER's exercise: right answers, typical wrong ones with what they are told, and none."""

import pytest

from cpump_kit.teaching.checks import check


def test_the_right_answer():
    assert check.NAME_part(lambda samples, ranks: samples // ranks)


@pytest.mark.parametrize("answer, told", [
    (lambda samples, ranks: samples / ranks, "a whole number"),
    (lambda samples, ranks: -(-samples // ranks), "no more than there are"),
    (lambda samples, ranks: 0, "none left that would have been enough for all"),
    (lambda samples, ranks: None, "the answer is complete")])
def test_a_wrong_answer_is_told_why(answer, told):
    result = check.NAME_part(answer)
    assert not result
    assert [finding.says for finding in result.findings if not finding.holds][0] == told
