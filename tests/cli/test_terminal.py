"""How the command looks and how it ends, whatever its outputs are and whoever stops it."""

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import warnings
from collections import Counter
from io import BytesIO, StringIO, TextIOWrapper

import numpy as np
import pytest
import shell

import nishimori
from nishimori._support.escape import printable
from nishimori._support.tables import Tabular
from nishimori.cli import _run, _terminal
from nishimori.errors import InputError

COMMAND = [sys.executable, "-m", "nishimori"]
THEORY = ["theory", "affine", "--alpha", "20.125", "--penalty", "0.000123457"]
STEERING = "\x1b[31m\x07\x9b\u202e\udc80\r\n"
SHOWN = r"\x1b[31m\x07\x9b\u202e\udc80\r\n"


def numbers(text):
    """The words of a table that have a digit, each as often as it is there."""
    return Counter(word for word in re.sub(r"\x1b\[[0-9;]*m", "", text).split() if any(map(str.isdigit, word)))


def terminal(width, *words, with_errors=False):
    """What a terminal of some width shows of a command: its standard output, or all that it writes."""
    outer, inner = pty.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"} | {"TERM": "xterm"}
    opened = {"stdin": inner, "stdout": inner, "stderr": inner if with_errors else subprocess.DEVNULL}
    process = subprocess.Popen([*COMMAND, *words], env=environment, **opened)
    os.close(inner)
    shown = b""
    try:
        while part := os.read(outer, 65536):
            shown += part
    except OSError:  # how Linux says that the other side is closed
        pass
    os.close(outer)
    assert process.wait() == 0
    return shown.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("width", [40, 60, 80])
def test_a_narrow_terminal_shows_every_number_in_full(width):
    narrow = terminal(width, *THEORY)
    assert numbers(narrow) == numbers(shell.nishimori(*THEORY).out)
    assert max(len(line) for line in re.sub(r"\x1b\[[0-9;]*m", "", narrow).splitlines()) <= width


@pytest.fixture
def overconfident(tmp_path):
    """The path of a file of logits."""
    rng = np.random.default_rng(0)
    logits = 3 * rng.normal(size=(2000, 4))
    np.savez(tmp_path / "val.npz", logits=logits, labels=(logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1))
    return str(tmp_path / "val.npz")


def test_the_bar_of_a_fit_leaves_nothing_behind(overconfident, tmp_path):
    shown = terminal(80, "fit", overconfident, "-o", str(tmp_path / "c.json"), with_errors=True)
    bar, _, after = shown.rpartition("\x1b[2K")  # which clears a line
    last = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", bar).split("\r")[-2]
    assert re.fullmatch(r"━+ +0:00:\d\d +Reading", last.strip())
    assert after.startswith("T = ")


@pytest.mark.parametrize(("words", "end"), [("compare", "calibration "), ("report -o report.md", "Overconfident")])
def test_all_the_work_of_a_command_has_one_bar(words, end, overconfident, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command, *options = words.split()
    shown = terminal(80, command, overconfident, *options, with_errors=True)
    bars = shown.partition(end)[0]
    assert bars.count("\x1b[?25l") == 1, "the cursor is hidden once"
    assert "pass" not in bars


TABLE = Tabular(
    ["what", "ours", "paper method", "paper", "verdict"],
    [
        ["first, of many words that may be broken", "0.123456", "", "12345.6", "agrees"],
        ["second", "-0.0281868", "1e-12", "6.8", "explained"],
    ],
)


class Screen(StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("width", [20, 40, 60, 80])
def test_rows_on_a_narrow_terminal_have_every_number_in_full(width, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr(sys, "stdout", Screen())
    _terminal.print_text("title of 12 words")
    _terminal.print_tabular(TABLE)
    shown = sys.stdout.getvalue()
    assert numbers(shown) == Counter(["0.123456", "12345.6", "-0.0281868", "1e-12", "6.8", "12"])
    assert max(map(len, shown.splitlines())) <= width


def test_sentences_are_broken_before_a_table_is_given_up(monkeypatch):
    monkeypatch.setenv("COLUMNS", "44")
    monkeypatch.setattr(sys, "stdout", Screen())
    row = ["figure-temperatures", "a sentence of several short words", "4"]
    _terminal.print_tabular(Tabular(["name", "title", "where"], [row]))
    name, title = "figure-temperatures", "a sentence of several"
    assert f"\n{name}  {title}\n" in sys.stdout.getvalue()


def test_where_there_is_no_terminal_a_table_has_the_width_that_it_needs(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "20")
    _terminal.print_text("a title of more than twenty letters")
    _terminal.print_tabular(TABLE)
    title, *table = capsys.readouterr().out.splitlines()
    assert (title, len(table)) == ("a title of more than twenty letters", 5)


@pytest.mark.parametrize("width", range(12, 60, 5))
def test_a_line_is_not_broken_inside_an_equation(width, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr(sys, "stdout", Screen())
    _terminal.print_text("T = 1.5, α = 20, λ = 1e-05: m = 3.16277")
    shown = sys.stdout.getvalue()
    assert all(equation in shown for equation in ("T = 1.5", "α = 20", "λ = 1e-05", "m = 3.16277"))


def test_control_characters_are_shown_and_not_sent():
    assert printable(f"a{STEERING}é α\N{NO-BREAK SPACE}本") == f"a{SHOWN}é α\N{NO-BREAK SPACE}本"


def warn_and_fail(text):
    warnings.showwarning(f"warn{text}", UserWarning, "", 0)
    raise nishimori.errors.InputError(f"fail{text}")


def test_names_from_files_cannot_steer_the_terminal(capsys, monkeypatch):
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    row = dict.fromkeys(("temperature", *nishimori.evaluate([[1.0, 0.0]] * 2, [0, 1]).estimates), 1.0)
    _terminal.note(STEERING)
    _terminal.print_text(STEERING)
    _terminal.print_tabular(Tabular(["name", "number"], [[STEERING, "1"]]))
    _terminal.print_table({STEERING: row})
    with pytest.raises(SystemExit), _run.one_line_errors():
        warn_and_fail(f"{STEERING}x")
    told = capsys.readouterr()
    assert told.out.count(SHOWN) == 3
    assert told.err == "".join(f"{start}{end}\n" for start, end in [
        ("", SHOWN),
        ("warning: warn", r"\x1b[31m\x07\x9b\u202e\udc80 x"),
        ("error: fail", r"\x1b[31m\x07\x9b\u202e\udc80 x"),
    ])  # fmt: skip


def test_a_table_shows_invisible_characters(capsys):
    _terminal.print_tabular(Tabular(["name"], [["a\u202eb"]]))
    assert "\na\\u202eb\n" in capsys.readouterr().out


def test_wrong_usage_cannot_steer_the_terminal_either():
    ended = shell.nishimori("theory --\x1b[31mred\u202e")
    assert (ended.code, r"No such option: --\x1b[31mred\u202e" in ended.err) == (2, True)


def test_column_names_cannot_steer_the_terminal(tmp_path):
    (tmp_path / "t.csv").write_text("z_a\x1b[31m,z_b,labels\n1,2,0\n2,1,0\n0,1,1\n")
    ended = shell.nishimori("fit t.csv -o c.json", place=tmp_path)
    assert ("\x1b" in ended.err + ended.out, r"'z_a\x1b[31m', 'z_b'" in ended.err) == (False, True)


def test_markup_and_emoji_names_are_printed_as_they_are(capsys):
    _terminal.note("[bold]:smile:[/]")
    _terminal.print_tabular(Tabular(["name"], [["[red]:smile:[/nonsense]"]]))
    told = capsys.readouterr()
    assert (told.err, "[red]:smile:[/nonsense]" in told.out) == ("[bold]:smile:[/]\n", True)


def test_a_terminal_that_has_only_ascii_gets_signs_that_it_has(monkeypatch):
    streams = {name: TextIOWrapper(BytesIO(), encoding="ascii") for name in ("stdout", "stderr")}
    for name, stream in streams.items():
        monkeypatch.setattr(sys, name, stream)
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    with _run.one_line_errors():
        _terminal.print_text("α = −0.031 ± 0.076, 猫\udc80")
        _terminal.note("α = −0.031 ± 0.076, 猫\udc80")
    assert [stream.buffer.getvalue() for stream in streams.values()] == [rb"alpha = -0.031 +/- 0.076, ?\udc80" + b"\n"] * 2


def test_a_table_in_ascii_is_drawn_for_the_width_that_its_signs_take(monkeypatch):
    monkeypatch.setattr(sys, "stdout", TextIOWrapper(BytesIO(), encoding="ascii"))
    _terminal.print_tabular(Tabular(("method", "T", "NLL"), [("ec", "1.61 ± 0.04", "−2"), ("none", "1", "≤ 3")]))
    shown = sys.stdout.buffer.getvalue().decode().splitlines()
    assert shown[1:4] == ["------  -------------  ----", "ec      1.61 +/- 0.04  -2", "none    1              <= 3"]


@pytest.mark.parametrize(
    "variables", [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}]
)
def test_no_sign_is_lost_where_the_locale_has_only_ascii(variables, place):
    line = [*COMMAND, "compare", "val.npz", "--methods", "none,ts"]
    told = [
        subprocess.run(line, cwd=place, env=os.environ | each, capture_output=True, check=True).stdout
        for each in (variables, {"PYTHONUTF8": "1"})
    ]
    assert told[0].isascii()
    assert b"?" not in told[0]
    words = [[word for word in each.decode().split() if word.strip("-")] for each in told]  # without the lines of tables
    assert words[0] == " ".join(words[1]).replace("−", "-").replace("±", "+/-").split()
    assert told[0].count(b"+/-") > 3


@pytest.fixture
def place(tmp_path):
    logits = np.random.default_rng(0).normal(size=(50, 3))
    np.savez(tmp_path / "val.npz", logits=logits, labels=logits.argmax(axis=1) * (np.arange(50) % 3 > 0))
    return tmp_path


def typed(place, line):
    """Exit code and both outputs of a line that is typed in a shell, where ``nishimori`` is the command."""
    ended = subprocess.run(
        ["bash", "-c", 'nishimori() { "$PYTHON" -m nishimori "$@"; }; set -o pipefail; ' + line],
        cwd=place,
        env=os.environ | {"PYTHON": sys.executable, "PYTHONUNBUFFERED": ""},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return ended.returncode, ended.stdout, ended.stderr


CLOSED = "error: Standard output is closed, so no result can be printed. Redirect it to a file or to /dev/null.\n"
FULL = "error: The result cannot be written to standard output: No space left on device.\n"


@pytest.mark.parametrize(
    ("line", "code", "told"),
    [
        ("nishimori eval val.npz --json >&-", 1, CLOSED),
        ("nishimori eval val.npz --json >&- 2>&-", 1, ""),
        ("nishimori eval val.npz --json >/dev/full", 1, FULL),
        ("nishimori eval val.npz >/dev/full", 1, FULL),
        ("nishimori --version >/dev/full", 1, FULL),
        ("nishimori --help >/dev/full", 1, "error: No space left on device.\n"),
        ("nishimori eval val.npz --json | sleep 0", 141, ""),
        ("nishimori eval val.npz | sleep 0", 141, ""),
        ("nishimori --help | sleep 0", 141, ""),
    ],
)
def test_a_result_that_cannot_be_written_is_one_line_or_silence(line, code, told, place):
    assert typed(place, line) == (code, "", told)


@pytest.mark.parametrize("ending", ["2>&-", "2>/dev/full", "2> >(true)"])
def test_a_note_that_cannot_be_written_changes_nothing(ending, place):
    (place / "noted.py").write_text(
        "import time\n"
        "from nishimori._support.progress import show_progress\n"
        "from nishimori.cli._run import one_line_errors\n"
        "from nishimori.cli._terminal import note, print_text\n"
        "with one_line_errors(), show_progress(True) as report:\n"
        "    time.sleep(0.2)\n"  # until `true` has ended
        "    note('a note')\n"
        "    report('progress', 1, 2)\n"
        "    print_text('done')\n"
    )
    assert typed(place, f'"$PYTHON" noted.py {ending}') == (0, "done\n", "")


def test_a_closed_standard_error_is_not_the_file_that_is_written(place):
    """The number 2 would be the first that is free, and the file would get what libraries write to standard error."""
    code = "import os, sys; from nishimori import cli; cli._open_standard_descriptors(); print(os.open(os.devnull, 0) > 2)"
    assert typed(place, f'"$PYTHON" -c "{code}" 2>&- <&-')[1] == "True\n"


def test_a_pipe_in_place_of_a_file_is_refused(place):
    code, _, err = typed(place, "nishimori eval <(cat val.npz)")
    assert (code, "is not a regular file but a pipe or a device. Save its contents to a file first" in err) == (1, True)


# A job in the background ignores Ctrl-C, and so do the programs that tests start there.
_IN_THE_FOREGROUND = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
"""

_SLOW = (
    _IN_THE_FOREGROUND
    + """
import sys, time, numpy
from nishimori.cli import main

def slow(path, **arrays):
    path.write_bytes(b"a part")
    print("writing", flush=True)
    for _ in range(600):  # a signal just before a sleep does not shorten it
        time.sleep(0.1)

numpy.savez = slow
sys.argv = ["nishimori", "demo", "-o", ".", "--json"]
main()
"""
)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)])
def test_a_signal_during_the_writing_leaves_nothing(number, code, tmp_path):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen([sys.executable, "-c", _SLOW], cwd=tmp_path, text=True, **pipes)
    while process.stdout.readline() not in ("writing\n", ""):
        pass
    (temporary,) = os.listdir(tmp_path)
    assert temporary.startswith(".nishimori-")
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err.splitlines()[1:], os.listdir(tmp_path)) == (code, [], [])  # one line is the network's name


def test_little_is_imported_before_ctrl_c_ends_the_program_quietly():
    code = "import sys; before = set(sys.modules); import nishimori.cli; print(*(set(sys.modules) - before))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    slow = {"typing", "re", "contextlib", "pathlib", "importlib.metadata", "rich", "numpy", "typer"}
    assert {"nishimori.cli", "signal"} <= set(ended.stdout.split())
    assert not slow & set(ended.stdout.split())


_INTERRUPTED = (
    _IN_THE_FOREGROUND
    + """
import os, signal, sys

class Interrupt:
    def find_spec(self, name, *_):
        if name == {module!r}:
            os.kill(os.getpid(), signal.{signal})

sys.meta_path.insert(0, Interrupt())
{before}
from nishimori.cli import main
sys.argv = ["nishimori", *{words!r}]
main()
"""
)


@pytest.mark.parametrize("module", ["nishimori.cli._app", "typer", "nishimori_paper.cli._theory", "numpy", "scipy.special"])
@pytest.mark.parametrize(
    ("before", "code"),
    [("", 130), ("signal.signal(signal.SIGINT, signal.SIG_IGN)", 0)],
    ids=["Ctrl-C", "ignored, as in the background"],
)
def test_ctrl_c_while_modules_load_is_silent(before, code, module):
    script = _INTERRUPTED.format(signal="SIGINT", before=before, module=module, words=THEORY)
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (code, "")
    assert numbers(ended.stdout) == (Counter() if code else numbers(shell.nishimori(*THEORY).out))


def test_a_variable_that_cannot_be_right_is_one_line_in_place_of_the_version(monkeypatch):
    monkeypatch.setenv("NISHIMORI_NATIVE_VARIANT", "fastest")
    code, out, err = shell.nishimori("--version")
    assert (code, out) == (1, "")
    assert re.fullmatch(r"error: `NISHIMORI_NATIVE_VARIANT` must be [^.]*, got 'fastest', which is none\. Correct .*\n", err)


@pytest.fixture
def broken(monkeypatch):
    """The shell's command ``theory`` with a piece of ours that raises what it is given."""

    def command(error):
        def fail(*_):
            raise error

        monkeypatch.setattr("nishimori_paper.theory.state_evolution", fail)
        return shell.nishimori(*THEORY)

    return command


def test_an_unexpected_error_is_one_line_that_says_how_to_report_it(broken, monkeypatch):
    told = (
        "error: Unexpected KeyError: 'of ours'. Set NISHIMORI_TRACEBACK=1 and run the command again to see where. "
        "Unless that is in a module of your own, it is a bug in nishimori: please report it.\n"
    )
    monkeypatch.delenv("NISHIMORI_TRACEBACK", raising=False)
    assert broken(KeyError("of ours")) == (1, "", told)
    assert broken(RecursionError()).err.startswith("error: Unexpected RecursionError. Set NISHIMORI_TRACEBACK=1")
    monkeypatch.setenv("NISHIMORI_TRACEBACK", "0")
    assert broken(KeyError("of ours")).code == 1
    monkeypatch.setenv("NISHIMORI_TRACEBACK", "1")
    with pytest.raises(KeyError, match="of ours"):
        broken(KeyError("of ours"))


def test_too_little_memory_is_one_line(broken):
    told = "Pass a smaller file, raise the memory limit (ulimit -v), or use a larger machine.\n"
    assert broken(MemoryError()) == (1, "", f"error: There is not enough memory. {told}")
    assert broken(MemoryError("Unable to\nallocate")) == (
        1,
        "",
        f"error: There is not enough memory (Unable to allocate). {told}",
    )


def test_an_interrupt_that_a_module_turned_into_an_error_is_an_interrupt(broken):
    error = ImportError("half of a module")
    error.__context__ = KeyboardInterrupt()
    assert broken(error) == (130, "", "")
    assert broken(KeyboardInterrupt()) == (130, "", "")


def interrupt():
    raise KeyboardInterrupt


def test_ctrl_c_before_and_after_the_command_itself_is_an_interrupt_too(monkeypatch):
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    with pytest.raises(SystemExit) as end, _run.one_line_errors():
        interrupt()
    assert end.value.code == 130


def test_errors_of_the_system_name_the_file_and_no_number(broken):
    assert broken(PermissionError(13, "Permission denied", "x.npz")) == (1, "", "error: Permission denied: x.npz.\n")


def test_a_message_that_quotes_a_whole_file_is_cut_in_the_middle(broken):
    ended = broken(InputError("start " + "x" * 10**6 + " end"))
    assert (ended.code, len(ended.err) < 5000) == (1, True)
    assert ended.err.startswith("error: start xxx")
    assert ended.err.endswith("xxx end\n")
