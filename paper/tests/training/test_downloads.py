"""Downloads from a local server that fails in the ways that servers fail."""

import gc
import hashlib
import os
import socket
import threading
import warnings
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
import scipy.io

from nishimori.errors import FormatError
from nishimori_paper.training import _downloads
from nishimori_paper.training._downloads import PublicFile, cache_folder, fetch, verified
from nishimori_paper.training._image_originals import ORIGINALS
from nishimori_paper.training._image_sets import image_set

CONTENT = np.random.default_rng(0).bytes(1_000_003)


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.contents = {"/file.bin": CONTENT}
        self.ranges = []  # the Range header of each request
        self.knows_ranges = True
        self.says_length = True
        self.length = None  # said in place of the length
        self.redirects_to = None
        self.says = None
        self.ends_after = None  # number of bytes after which an answer ends
        self.stalls = threading.Event()
        self.stalls.set()

    def public(self, name="file.bin"):
        url = f"http://127.0.0.1:{self.server_port}/{name}"
        return PublicFile(url, hashlib.md5(self.contents.get(f"/{name}", CONTENT)).hexdigest())


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        asked = self.headers.get("Range")
        self.server.ranges.append(asked)
        if self.path not in self.server.contents:
            return self.send_error(404, self.server.says)
        if self.server.redirects_to:
            self.send_response(302)
            self.send_header("Location", self.server.redirects_to)
            self.end_headers()
            return None
        content, start = self.server.contents[self.path], 0
        if asked and self.server.knows_ranges:
            start = int(asked.removeprefix("bytes=").removesuffix("-"))
            if start >= len(content):
                return self.send_error(416)
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        else:
            self.send_response(200)
        if self.server.says_length:
            length = str(len(content) - start) if self.server.length is None else self.server.length
            self.send_header("Content-Length", length)
        self.end_headers()
        end = None if self.server.ends_after is None else start + self.server.ends_after
        self.wfile.write(content[start:end])
        self.wfile.flush()
        self.server.stalls.wait()
        return None

    def log_message(self, *_):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.stalls.set()
        server.shutdown()
        thread.join()


def test_a_file_arrives_whole_in_a_folder_that_is_made(server, tmp_path):
    (path,) = fetch([server.public()], tmp_path / "a" / "b")
    assert path == tmp_path / "a" / "b" / "file.bin"
    assert path.read_bytes() == CONTENT
    assert list(path.parent.iterdir()) == [path]


def test_a_file_that_is_there_is_not_asked_for(server, tmp_path):
    (tmp_path / "file.bin").write_bytes(b"as it is")
    fetch([server.public()], tmp_path)
    assert server.ranges == []


def test_progress_counts_the_bytes_that_are_there(server, tmp_path):
    told = []
    (tmp_path / "file.bin.part").write_bytes(CONTENT[:1000])
    fetch([server.public()], tmp_path, report=lambda *each: told.append(each))
    assert told[0] == ("downloading file.bin", 1000, len(CONTENT))
    assert told[-1] == ("downloading file.bin", len(CONTENT), len(CONTENT))
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)


def test_an_incomplete_download_is_not_taken_for_the_file_and_is_resumed(server, tmp_path):
    server.ends_after = 300_000
    for there in (300_000, 600_000, 900_000):
        with pytest.raises(ConnectionError, match=rf"stopped after {there} of 1000003 bytes\. Try again to get the rest\."):
            fetch([server.public()], tmp_path)
        assert [path.name for path in tmp_path.iterdir()] == ["file.bin.part"]
    (path,) = fetch([server.public()], tmp_path)
    assert path.read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=300000-", "bytes=600000-", "bytes=900000-"]


def test_an_interrupted_download_is_resumed(server, tmp_path):
    def interrupt(what, done, total):
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch([server.public()], tmp_path, report=interrupt)
    assert 0 < (tmp_path / "file.bin.part").stat().st_size < len(CONTENT)
    assert fetch([server.public()], tmp_path)[0].read_bytes() == CONTENT
    assert server.ranges[1] is not None


@pytest.mark.parametrize(
    "there", [b"x" * 10, CONTENT[:5000], CONTENT, CONTENT + b"more"], ids=["other", "part", "whole", "longer"]
)
def test_a_server_that_ignores_ranges_is_read_from_the_start(server, tmp_path, there):
    server.knows_ranges = False
    (tmp_path / "file.bin.part").write_bytes(there)
    assert fetch([server.public()], tmp_path)[0].read_bytes() == CONTENT


def test_a_part_that_was_whole_already_is_accepted(server, tmp_path):
    (tmp_path / "file.bin.part").write_bytes(CONTENT)
    assert fetch([server.public()], tmp_path)[0].read_bytes() == CONTENT
    assert len(server.ranges) == 1


def test_a_server_that_does_not_say_the_length_is_accepted(server, tmp_path):
    server.says_length = False
    told = []
    assert fetch([server.public()], tmp_path, report=lambda *each: told.append(each))[0].read_bytes() == CONTENT
    assert {total for *_, total in told} == {None}


@pytest.mark.parametrize("length", ["abc", "-5", "1e6", "5 5", "0x10", "9" * 40, "9" * 5000, ""])
def test_a_length_that_is_nonsense_counts_as_unknown(server, tmp_path, length):
    server.length = length
    told = []
    assert fetch([server.public()], tmp_path, report=lambda *each: told.append(each))[0].read_bytes() == CONTENT
    assert {total for *_, total in told} == {None}


@pytest.mark.parametrize("place", ["http://[nowhere", "http://a:b/", "file:///etc/passwd", "http://\xe9.invalid/"])
def test_a_redirection_to_nowhere_is_one_line(server, tmp_path, place):
    server.redirects_to = place
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # urllib forgets to close the redirecting answer
        with pytest.raises(ConnectionError, match=r"^http://127\.0\.0\.1:\d+/file\.bin (answers|cannot be reached)") as caught:
            fetch([server.public()], tmp_path)
        message = str(caught.value)
        del caught
        gc.collect()
    assert "\n" not in message
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_does_not_stop_sending_does_not_fill_the_disk(server, tmp_path, monkeypatch):
    server.says_length = False
    monkeypatch.setattr(_downloads, "_LARGEST", 300_000)
    with pytest.raises(ConnectionError, match=r"sends more than the published file\. Try again later\."):
        fetch([server.public()], tmp_path)
    assert [each.stat().st_size for each in tmp_path.iterdir()] == [0]


def test_words_of_a_server_reach_the_terminal_without_control_characters(server, tmp_path):
    server.says = "Gone\x1b[31m"
    with pytest.raises(ConnectionError, match=r"answers 404 Gone\?\[31m\. Try again later\."):
        fetch([server.public("gone.bin")], tmp_path)


@pytest.mark.parametrize("there", [b"", b"the beginning of another file", CONTENT + b"more"], ids=["sent", "resumed", "longer"])
def test_another_file_than_the_published_one_is_removed(server, tmp_path, there):
    file = server.public()
    if there:
        (tmp_path / "file.bin.part").write_bytes(there)
    else:
        server.contents["/file.bin"] = b"Please log in to this network."
    with pytest.raises(
        FormatError, match=rf"did not send the published file: .* must be {file.md5}, got [0-9a-f]{{32}}\. It was removed\."
    ):
        fetch([file], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_file_is_named_with_what_to_do(server, tmp_path):
    file = server.public("gone.bin")
    with pytest.raises(ConnectionError, match=r"gone\.bin answers 404 Not Found\. Try again later\. Or download http"):
        fetch([file], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_offline_the_message_says_what_to_download_and_where_to_put_it(tmp_path, monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    there, *missing = (PublicFile(f"http://127.0.0.1:{port}/{name}.bin", "0" * 32) for name in "abc")
    (tmp_path / "a.bin").write_bytes(b"")
    with pytest.raises(ConnectionError, match=r"b\.bin cannot be reached: .*refused\. Connect to the Internet") as caught:
        fetch([there, *missing], tmp_path)
    message = str(caught.value)
    assert all(each.url in message for each in missing)
    assert there.url not in message
    assert f"by other means to {tmp_path}, or pass a folder with the images as `data`." in message


def test_a_server_that_stops_sending_is_given_up_and_asked_again(server, tmp_path, monkeypatch):
    server.ends_after = 400_000
    server.stalls.clear()
    monkeypatch.setattr(_downloads, "_TIMEOUT", 0.2)
    with pytest.raises(ConnectionError, match=r"stopped: .*timed out"):
        fetch([server.public()], tmp_path)
    server.ends_after = None
    server.stalls.set()
    assert fetch([server.public()], tmp_path)[0].read_bytes() == CONTENT


def test_the_file_of_another_process_that_finished_first_is_kept(server, tmp_path):
    def other(what, done, total):
        if done == total:
            (tmp_path / "file.bin").write_bytes(CONTENT)

    (path,) = fetch([server.public()], tmp_path, report=other)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no disk that is always full")
def test_a_full_disk_is_not_called_a_lost_connection(server, tmp_path):
    (tmp_path / "file.bin.part").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left") as caught:
        fetch([server.public()], tmp_path)
    assert not isinstance(caught.value, ConnectionError)


def test_a_file_is_verified_by_its_checksum(server, tmp_path):
    file, path = server.public(), tmp_path / "file.bin"
    path.write_bytes(CONTENT)
    assert verified(path, file) == path
    path.write_bytes(CONTENT[:-1])
    with pytest.raises(FormatError) as caught:
        verified(path, file)
    assert str(caught.value) == (
        f"{path} is truncated, damaged, or not the published file: its MD5 checksum must be {file.md5}, "
        f"got {hashlib.md5(CONTENT[:-1]).hexdigest()} for 1000002 bytes. Remove it and download {file.url} again."
    )


@pytest.mark.parametrize(
    ("variables", "folder"),
    [
        ({"NISHIMORI_CACHE": "/chosen", "XDG_CACHE_HOME": "/xdg"}, "/chosen"),
        ({"NISHIMORI_CACHE": "", "XDG_CACHE_HOME": "/xdg"}, "/xdg/nishimori"),
        ({"HOME": "/home/me"}, "/home/me/.cache/nishimori"),
        ({"HOME": "/home/me", "NISHIMORI_CACHE": "~/here"}, "/home/me/here"),
    ],
)
def test_the_cache_is_where_the_environment_says(monkeypatch, variables, folder):
    for name in ("NISHIMORI_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert cache_folder() == Path(folder)


def test_without_a_folder_a_set_is_downloaded_once(server, tmp_path, monkeypatch):
    for name, n in (("train_32x32.mat", 20), ("test_32x32.mat", 5)):
        pixels = np.arange(32 * 32 * 3 * n, dtype=np.uint32).astype(np.uint8).reshape(32, 32, 3, n)
        scipy.io.savemat(tmp_path / name, {"X": pixels, "y": np.arange(1, n + 1, dtype=np.uint8)[:, None] % 10 + 1})
        server.contents[f"/{name}"] = (tmp_path / name).read_bytes()
    files = tuple(server.public(name) for name in ("train_32x32.mat", "test_32x32.mat"))
    monkeypatch.setitem(ORIGINALS, "svhn", replace(ORIGINALS["svhn"], files=files))
    monkeypatch.setenv("NISHIMORI_CACHE", str(tmp_path / "cache"))
    for _ in range(2):
        found = image_set("svhn")
        assert (len(found.train), len(found.validation), len(found.test)) == (18, 2, 5)
    assert found.origin == (
        "SVHN, public original train_32x32.mat and test_32x32.mat, 90/10 split by torch.randperm with seed 42"
    )
    assert len(server.ranges) == 2
    assert sorted(os.listdir(tmp_path / "cache" / "svhn")) == ["test_32x32.mat", "train_32x32.mat"]
