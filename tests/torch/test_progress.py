"""Reading a loader shows a bar on a terminal, and neither the bar nor the loader's length can change the result."""

import pytest
import reference
import torch
from small_networks import Returning, X, Y, loader
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from nishimori._support import progress as progress_module
from nishimori.torch import calibrate, collect

Z, LABELS = (torch.tensor(each) for each in reference.drawn(100, 3))
READERS = pytest.mark.parametrize("read", [collect, calibrate], ids=["collect", "calibrate"])
# How rich clears a bar of one line: it returns to the start of the line, moves up if needed, and erases the line.
ERASED = "\x1b[2K"


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich then treats standard error as a terminal
    monkeypatch.setenv("COLUMNS", "100")


class Stream(IterableDataset):
    def __iter__(self):
        yield X, Y


class Unknown(DataLoader):
    """A loader that cannot tell its length."""

    def __len__(self):
        raise NotImplementedError


LOADERS = {
    "loader": (loader(X, Y), ""),  # whose numbers are gone once all is read
    "list": ([(X, Y)], ""),
    "generator": (((X, Y) for _ in range(1)), "1/?"),
    "stream": (DataLoader(Stream(), batch_size=None), "1/?"),
    "loader of unknown length": (Unknown(TensorDataset(X, Y), batch_size=4), "3/?"),
}


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize(("batches", "end"), LOADERS.values(), ids=LOADERS)
def test_a_terminal_shows_how_many_batches_have_been_read(batches, end, capfd, monkeypatch):
    monkeypatch.setattr(progress_module, "_BRIEF", 0.0)  # numbers are for passes that take longer
    assert len(collect(Returning(), batches).labels) == 10
    err = capfd.readouterr().err
    assert "Reading batches" in err
    assert end in err
    assert err.endswith(ERASED)


@pytest.mark.usefixtures("terminal")
@READERS
def test_progress_false_shows_nothing_on_a_terminal(read, capfd):
    read(nn.Identity(), loader(Z, LABELS), progress=False)
    assert capfd.readouterr() == ("", "")


@READERS
def test_nothing_is_written_if_standard_error_is_not_a_terminal(read, capfd):
    read(nn.Identity(), loader(Z, LABELS))
    assert capfd.readouterr() == ("", "")


@READERS
def test_progress_true_writes_a_line_if_standard_error_is_not_a_terminal(read, capfd):
    read(nn.Identity(), loader(Z, LABELS), progress=True)
    assert capfd.readouterr() == ("", "0/25 Reading batches\n")


def failing(error):
    yield X, Y
    raise error


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize("error", [TypeError("len"), NotImplementedError(), KeyboardInterrupt(), GeneratorExit()], ids=repr)
def test_an_error_of_the_loader_reaches_the_caller_and_the_bar_disappears(error, capfd):
    with pytest.raises(type(error)) as caught:
        collect(Returning(), failing(error))
    assert caught.value is error
    err = capfd.readouterr().err
    assert "Reading batches" in err
    assert err.endswith(ERASED)
