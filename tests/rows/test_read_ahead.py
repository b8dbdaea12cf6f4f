"""Reading ahead gives the same items in the same order, and leaves neither a thread nor an open file behind."""

import signal
import subprocess
import sys
import threading
import traceback

import pytest

import nishimori
from nishimori._rows.pieces import ahead


def threads():
    return [each for each in threading.enumerate() if each.name.startswith("nishimori reads ahead")]


class Numbers:
    """A generator of numbers that knows how many were asked for and whether it was closed."""

    def __init__(self, stop, fails_at=None):
        self.stop, self.fails_at, self.asked, self.closed = stop, fails_at, 0, False

    def __call__(self):
        try:
            for number in range(self.stop):
                self.asked += 1
                if number == self.fails_at:
                    self.fail()
                yield number
        finally:
            self.closed = True

    def fail(self):
        raise OSError("the disk is gone")


@pytest.mark.parametrize("n", [0, 1, 2, 50])
def test_items_come_in_order_and_the_thread_ends_with_them(n):
    numbers = Numbers(n)
    assert list(ahead(numbers())) == list(range(n))
    assert (threads(), numbers.closed) == ([], True)


def test_items_are_read_in_another_thread_before_they_are_asked_for():
    readers, second = [], threading.Event()

    def items():
        readers.append(threading.get_ident())
        yield 0
        second.set()
        yield 1

    found = ahead(items())
    assert next(found) == 0
    assert second.wait(10)
    assert readers != [threading.get_ident()]
    found.close()


def test_no_more_is_read_than_the_caller_will_soon_need():
    numbers = Numbers(100)
    found = ahead(numbers())
    for _ in range(3):
        next(found)
    found.close()
    assert numbers.asked <= 3 + 1


def test_an_error_comes_after_the_items_before_it_and_with_its_own_traceback():
    found, seen = ahead(Numbers(5, fails_at=2)()), []
    with pytest.raises(OSError, match="the disk is gone") as caught:
        seen.extend(found)
    del found
    assert [each.name for each in traceback.extract_tb(caught.value.__traceback__)][-1] == "fail"
    assert threads() == []
    found = ahead(Numbers(5, fails_at=2)())
    assert [next(found), next(found)] == [0, 1]
    with pytest.raises(OSError, match="the disk is gone"):
        next(found)


@pytest.mark.parametrize("taken", [1, 2, 7])
def test_closing_early_ends_the_thread_and_closes_the_reader(taken):
    numbers = Numbers(10**9)
    items = numbers()
    found = ahead(items)
    for _ in range(taken):
        next(found)
    found.close()
    assert (threads(), numbers.closed) == ([], True)
    assert items.gi_frame is None


def test_an_error_of_the_caller_ends_the_thread_while_its_traceback_lives(tmp_path):
    import numpy as np

    np.save(tmp_path / "z.npy", np.random.default_rng(0).normal(size=(100_000, 20)))
    data = nishimori.rows(tmp_path / "z.npy", np.zeros(100_000, int))

    def broken(batch):
        raise RuntimeError("a pass that fails")

    with pytest.raises(RuntimeError, match="a pass that fails") as caught:
        data.gather(broken)
    assert caught.value.__traceback__ is not None
    assert threads() == []


INTERRUPTED = """
import signal, threading, time
import numpy as np
from nishimori._rows.pieces import ahead

def items():
    while True:
        time.sleep(0.01)
        yield 0

signal.setitimer(signal.ITIMER_REAL, 0.3)
signal.signal(signal.SIGALRM, signal.default_int_handler)
try:
    for _ in ahead(items()):
        pass
except KeyboardInterrupt:
    print([each.name for each in threading.enumerate()])
"""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs a timer signal")
def test_an_interrupt_ends_the_thread():
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "['MainThread']\n"


ABANDONED = """
import nishimori
from nishimori._rows.pieces import ahead

def items():
    try:
        while True:
            yield 0
    finally:
        print("closed")

for _ in (found := ahead(items())):
    break
"""


def test_a_pass_that_is_left_behind_ends_quietly_with_the_program():
    done = subprocess.run([sys.executable, "-c", ABANDONED], capture_output=True, text=True, timeout=60, check=True)
    assert (done.stdout, done.stderr) == ("closed\n", "")
