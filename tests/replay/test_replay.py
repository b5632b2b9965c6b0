"""The generated C is what was accepted: a change of it is seen where it is made."""

from tests.replay.replay import differences, made, read, stored


def test_generated_c_is_the_accepted_one() -> None:
    lines = differences(stored(), made())
    assert not lines, "\n".join([*lines, "a wanted change: make replay ACCEPT=1"])


def test_a_changed_text_is_seen() -> None:
    before = read("a 1 11 22\nb - 2 33 44\n")  # b: by a program that printed a schedule, too
    now = read("a 1 11 22\nb 2 33 45\nc 1 55 66\n")
    assert differences(before, now) == ["b: C compiler", "c: new"]
    assert differences(now, before) == ["b: C compiler", "c: gone"]
    assert differences(before, before) == []
