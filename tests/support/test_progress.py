import io
import re
import sys

import pytest

from nishimori._support import progress as progress_module
from nishimori._support.progress import begin_step, print_line, show_progress, silent
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


class Clock:
    """A clock that stands still until it is told to go on."""

    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def last_frame(monkeypatch):
    """A function that gives what a terminal shows last, after reports and names of steps at some seconds."""
    clock = Clock()
    monkeypatch.setattr(progress_module, "monotonic", clock)
    monkeypatch.setenv("TERM", "xterm")

    def text(*reports, looked_at, width=80):
        monkeypatch.setattr(sys, "stderr", Terminal())
        monkeypatch.setenv("COLUMNS", str(width))
        clock.now = 1000.0
        with show_progress(None) as report:
            for second, *step in reports:
                clock.now = 1000.0 + second
                if len(step) == 1:
                    begin_step(*step)
                else:
                    report(*step)
            clock.now = 1000.0 + looked_at
        frames = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", sys.stderr.getvalue()).replace("\r", "\n").split("\n")
        return [" ".join(line.strip(" ━╸╺").split()) for line in frames if line.strip()][-1]

    return text


@pytest.mark.parametrize("width", [40, 60, 80])
def test_the_numbers_of_a_bar_are_whole_on_a_narrow_terminal(width, last_frame):
    last_frame((0, "table-corrupted: cifar100/resnet110-fraction-0.1", 12345, 67890), looked_at=2, width=width)
    shown_numbers = ("12345/67890", "0:00:02") if width >= 60 else ("12345/67890",)
    assert all(number in sys.stderr.getvalue() for number in shown_numbers)


def test_passes_that_are_over_soon_show_neither_their_numbers_nor_their_number(last_frame):
    passes = [(number / 4, f"Reading, pass {number}", done, 50) for number in range(40) for done in (0, 50)]
    assert last_frame(*passes, looked_at=10) == "0:00:10 Reading"
    assert last_frame(*passes, looked_at=12) == "0:00:12 Reading", "it is over"
    long = [(10, "Reading, pass 40", 7, 50), (11.5, "Reading, pass 40", 9, 50)]
    assert last_frame(*passes, *long[:1], looked_at=10.5) == "0:00:10 Reading"
    assert last_frame(*passes, *long, looked_at=11.5) == "9/50 0:00:11 -:--:-- Reading, pass 40"


def test_a_note_in_a_file_is_one_line(monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    print_line("Wrote calibration.json and some other files", label="warning:")
    assert sys.stderr.getvalue() == "warning: Wrote calibration.json and some other files\n"


def test_a_note_on_a_terminal_fits_it(monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", Terminal())
    print_line("Wrote the-calibration-of-the-model-that-is-shipped.json and some other files", label="warning:", style="bold")
    shown = re.sub(r"\x1b\[[0-9;]*m", "", sys.stderr.getvalue())
    assert shown.splitlines() == [
        "warning: Wrote",
        "  the-calibration-of-the-model-that-is-shipped.json",
        "  and some other files",
    ]


def test_a_step_is_named_in_place_of_its_passes(last_frame):
    reports = [(0, "Reading", 1, 2), (1, "Fitting vector"), (2, "Reading, pass 7", 0, 50), (4, "Reading, pass 7", 25, 50)]
    assert last_frame(*reports[:2], looked_at=2.5) == "0:00:02 Fitting vector"
    assert last_frame(*reports, looked_at=4) == "25/50 0:00:04 -:--:-- Fitting vector"


def test_work_inside_other_work_has_no_bar_of_its_own(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    with show_progress(None) as outer:
        with show_progress(None) as inner:
            assert inner is outer
        with show_progress(False) as hidden:
            assert hidden is silent
        inner("still there", 1, 2)
    assert sys.stderr.getvalue().count("\x1b[?25l") == 1, "the cursor is hidden once"
    with show_progress(None) as later:
        assert later is not outer


def test_a_step_without_a_bar_is_not_shown(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with show_progress(None):
        begin_step("Fitting vector")
    assert sys.stderr.getvalue() == ""


FIRST_PASS = [(0, "pass 1 of about 2", 0, 100), (5, "pass 1 of about 2", 50, 100), (10, "pass 1 of about 2", 100, 100)]


def test_the_time_that_is_left_of_a_pass_follows_from_its_own_pace(last_frame):
    second = [(90, "pass 2 of about 2", 0, 100), (92, "pass 2 of about 2", 20, 100), (94, "pass 2 of about 2", 40, 100)]
    assert last_frame(*FIRST_PASS, *second, looked_at=94) == "40/100 0:01:34 0:00:06 pass 2 of about 2"


def test_the_time_that_is_left_is_not_shown_before_it_is_known(last_frame):
    begun = last_frame(*FIRST_PASS, (90, "pass 2", 0, 100), (95, "pass 2", 7, 100), looked_at=95)
    assert begun.split() == ["7/100", "0:01:35", "-:--:--", "pass", "2"]
    endless = last_frame((0, "Reading", 0, None), (5, "Reading", 70, None), looked_at=5)
    assert endless.split() == ["70/?", "0:00:05", "Reading"]


@pytest.mark.parametrize("total", [100, 10**9])
def test_the_bar_leaves_room_for_the_text(total, last_frame):
    what = "Fitting, pass 2 of about 2"
    shown = last_frame((0, what, 0, total), (2, what, total // 2, total), looked_at=2)
    assert shown.endswith(" Fitting, pass 2 of about 2")


@pytest.mark.parametrize("progress", ["yes", "no", 1, 0])
def test_anything_else_is_refused(progress):
    with pytest.raises(InputError, match=r"^`progress` must be None, True or False, got "), show_progress(progress):
        pass


def test_silence_says_nothing():
    assert silent("a", 1, 2) is None
