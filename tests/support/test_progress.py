import io
import sys

import pytest

from nishimori._support.progress import show_progress, silent
from nishimori.errors import InputError


class Terminal(io.StringIO):
    def isatty(self):
        return True


def written(progress, stream, monkeypatch):
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    with show_progress(progress) as report:
        for done in range(3):
            report(f"piece {done}", done, 3)
        report("unknown end", 7, None)
    return stream.getvalue()


@pytest.mark.parametrize(("progress", "lines"), [(None, 0), (False, 0), (True, 4)])
def test_off_a_terminal_lines_appear_only_if_asked_for(progress, lines, monkeypatch):
    assert (
        written(progress, io.StringIO(), monkeypatch).splitlines()
        == [
            "0/3 piece 0",
            "1/3 piece 1",
            "2/3 piece 2",
            "7/? unknown end",
        ][:lines]
    )


@pytest.mark.parametrize(("progress", "drawn"), [(None, True), (False, False), (True, True)])
def test_on_a_terminal_a_bar_is_drawn_unless_silenced(progress, drawn, monkeypatch):
    assert ("unknown end" in written(progress, Terminal(), monkeypatch)) is drawn


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_names_in_progress_are_neither_markup_nor_control_characters(stream, monkeypatch):
    monkeypatch.setattr(sys, "stderr", stream())
    monkeypatch.setenv("TERM", "xterm")
    with show_progress(True) as report:
        report("[red]net[/nonsense]\x07", 1, 2)
    assert r"[red]net[/nonsense]\x07" in sys.stderr.getvalue()


@pytest.mark.parametrize("width", [40, 60, 80])
def test_the_numbers_of_a_bar_are_whole_on_a_narrow_terminal(width, monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", str(width))
    with show_progress(None) as report:
        report("table-corrupted: cifar100/resnet110-fraction-0.1", 12345, 67890)
    shown_numbers = ("12345/67890", "0:00:00") if width >= 60 else ("12345/67890",)
    assert all(number in sys.stderr.getvalue() for number in shown_numbers)


@pytest.mark.parametrize("progress", ["yes", "no", 1, 0])
def test_anything_else_is_refused(progress):
    with pytest.raises(InputError, match=r"^`progress` must be None, True or False, got "), show_progress(progress):
        pass


def test_silence_says_nothing():
    assert silent("a", 1, 2) is None
