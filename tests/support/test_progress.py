import io
import re
import sys

import pytest

from nishimori._support import progress_bar
from nishimori._support.progress import begin_step, print_line, show_progress, silent
from nishimori._support.progress_bar import Pace
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
    monkeypatch.setattr(progress_bar, "monotonic", clock)
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
        return [line.strip(" ━╸╺") for line in frames if line.strip()][-1]

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
    assert last_frame(*passes, (10, "Reading, pass 40", 7, 50), looked_at=11.5).endswith("Reading, pass 40")


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
    assert last_frame(*reports[:3], looked_at=2.5) == "0:00:02 Fitting vector"
    assert last_frame(*reports, looked_at=4) == "25/50 0:00:02 0:00:02 left Fitting vector"


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


def test_a_pass_starts_anew_with_its_own_times(last_frame):
    second = [(90, "pass 2 of about 2", 0, 100), (92, "pass 2 of about 2", 20, 100)]
    assert last_frame(*FIRST_PASS, *second, looked_at=93) == "20/100 0:00:03 0:00:07 left pass 2 of about 2"


def test_the_time_that_is_left_is_not_shown_before_it_is_known(last_frame):
    assert last_frame(*FIRST_PASS, (90, "pass 2", 0, 100), looked_at=95).split() == ["0/100", "0:00:05", "pass", "2"]
    assert last_frame((0, "Reading", 0, None), (5, "Reading", 70, None), looked_at=5).split() == ["70/?", "0:00:05", "Reading"]


@pytest.mark.parametrize("total", [100, 10**9])
def test_the_bar_leaves_room_for_the_text(total, last_frame):
    what = "Fitting, pass 2 of about 2"
    shown = last_frame((0, what, 0, total), (2, what, total // 2, total), looked_at=2)
    assert shown.endswith(" left Fitting, pass 2 of about 2")


@pytest.mark.parametrize(
    ("now", "left"),
    [
        (5, 15),  # 25 of 100 took 5 seconds, so 75 take 15
        (7, 13),  # which go by
        (10, 10),  # the next 25 should be done now
        (20, 20),  # they take 15 seconds already: 50 in 20 seconds at best, and 50 are left
        (40, 40),
    ],
)
def test_the_time_that_is_left_follows_from_the_pace_of_the_pass(now, left):
    pace = Pace.begin(0, 100, now=0)
    pace.advance(25, now=5)
    assert pace.remaining(now) == pytest.approx(left)


def test_nobody_can_tell_how_long_the_last_step_takes_once_it_is_overdue():
    pace = Pace.begin(0, 4, now=0)
    pace.advance(3, now=30)
    assert pace.remaining(35) == pytest.approx(5)
    pace = Pace.begin(0, 2, now=0)
    pace.advance(1, now=10)
    assert (pace.remaining(15), pace.remaining(25)) == (pytest.approx(5), None)


def test_what_an_earlier_run_has_done_tells_nothing_about_the_pace():
    pace = Pace.begin(40, 50, now=0)
    assert pace.remaining(3) is None
    pace.advance(45, now=10)
    assert pace.remaining(10) == pytest.approx(10)


@pytest.mark.parametrize("progress", ["yes", "no", 1, 0])
def test_anything_else_is_refused(progress):
    with pytest.raises(InputError, match=r"^`progress` must be None, True or False, got "), show_progress(progress):
        pass


def test_silence_says_nothing():
    assert silent("a", 1, 2) is None
