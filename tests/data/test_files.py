import hashlib
import http.server
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import requests

from erlangen.data import DataUnavailableError, cache_folder, mnist
from erlangen.data.files import Remote, decoded, fetch, find

CONTENT = bytes(range(256)) * 5000
CHECKSUM = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"
GET = requests.get  # before the fixture takes it away


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves CONTENT: whole, in ranges, or cut after `limit` bytes."""

    def do_GET(self):
        server = self.server
        start = int((self.headers.get("Range") or "bytes=0-")[6:-1])
        server.requests.append(start)
        if self.path == "/missing":
            return self.send_error(404)
        if start >= len(CONTENT):
            return self.send_error(416)
        partial = start > 0 and server.ranges
        rest = CONTENT[start:] if partial else CONTENT
        self.send_response(206 if partial else 200)
        self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        self.wfile.write(rest[: server.limit][:1000])
        time.sleep(server.pause)
        self.wfile.write(rest[: server.limit][1000:])
        return None

    def log_message(self, *args):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(requests, "get", GET)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.requests, server.limit, server.ranges, server.pause = [], None, True, 0
        server.remote = Remote(f"http://127.0.0.1:{server.server_port}/numbers.bin", CHECKSUM)
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_a_download_lands_in_the_cache(server):
    path = fetch(server.remote, "numbers")
    assert path == cache_folder() / "data" / "numbers" / "numbers.bin"
    assert path.read_bytes() == CONTENT
    assert [p.name for p in path.parent.iterdir()] == ["numbers.bin"]
    assert find(("numbers",), ("numbers.bin",)) == path
    fetch(server.remote, "numbers")
    assert server.requests == [0]


def test_of_two_that_want_a_file_at_once_one_downloads_it(server):
    """Both wrote to one part, and neither had the checksum."""
    server.pause = 0.3
    with ThreadPoolExecutor(2) as pool:
        paths = list(pool.map(lambda _: fetch(server.remote, "numbers"), range(2)))
    assert paths[0] == paths[1]
    assert paths[0].read_bytes() == CONTENT
    assert server.requests == [0]


def test_a_download_that_was_cut_goes_on_where_it_stopped(server):
    server.limit = 400_000
    with pytest.raises(DataUnavailableError, match="goes on where it stopped"):
        fetch(server.remote, "numbers")
    assert find(("numbers",), ("numbers.bin",)) is None
    server.limit = None
    assert fetch(server.remote, "numbers").read_bytes() == CONTENT
    assert server.requests == [0, 400_000]


def test_a_server_without_ranges_sends_all_again(server):
    server.limit, server.ranges = 400_000, False
    with pytest.raises(DataUnavailableError):
        fetch(server.remote, "numbers")
    server.limit = None
    assert fetch(server.remote, "numbers").read_bytes() == CONTENT


def test_a_part_that_was_whole_is_taken(server):
    part = cache_folder() / "data" / "numbers" / "numbers.bin.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(CONTENT)
    assert fetch(server.remote, "numbers").read_bytes() == CONTENT
    assert server.requests == [len(CONTENT)]


def test_a_wrong_checksum_leaves_nothing_behind(server):
    wrong = server.remote._replace(checksum="md5:" + 32 * "0")
    with pytest.raises(DataUnavailableError, match="does not match the known hash"):
        fetch(wrong, "numbers")
    assert list((cache_folder() / "data" / "numbers").iterdir()) == []


def test_a_broken_part_heals_at_the_second_try(server):
    part = cache_folder() / "data" / "numbers" / "numbers.bin.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(b"something else")
    with pytest.raises(DataUnavailableError, match="hash"):
        fetch(server.remote, "numbers")
    assert fetch(server.remote, "numbers").read_bytes() == CONTENT


def test_an_address_that_is_gone_is_reported(server):
    remote = server.remote._replace(url=server.remote.url.replace("numbers.bin", "missing"))
    with pytest.raises(DataUnavailableError, match="404"):
        fetch(remote, "numbers")


def test_a_missing_set_without_network_says_what_to_do(root):
    with pytest.raises(DataUnavailableError) as caught:
        mnist()
    message = str(caught.value)
    assert message.startswith("train-images-idx3-ubyte.gz is not at hand (looked in ")
    assert str(root / "mnist") in message
    assert str(cache_folder() / "data" / "mnist") in message
    assert "no network for https://" in message
    assert "Set ERLANGEN_DATA to a folder that holds mnist/train-images-idx3-ubyte.gz" in message
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, OSError)


def test_downloads_can_be_switched_off(server):
    with pytest.raises(DataUnavailableError, match="downloads are switched off"):
        fetch(server.remote, "numbers", download=False)
    assert server.requests == []


def test_a_cache_that_cannot_be_written_is_reported(monkeypatch, tmp_path, server):
    (tmp_path / "file").touch()
    monkeypatch.setenv("ERLANGEN_CACHE", str(tmp_path / "file"))
    with pytest.raises(DataUnavailableError, match=r"Not a directory|File exists"):
        fetch(server.remote, "numbers")


def test_a_wrong_data_folder_is_reported(monkeypatch, tmp_path):
    monkeypatch.setenv("ERLANGEN_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(ValueError, match=r"ERLANGEN_DATA: received .*nowhere', which is no folder"):
        mnist()


def test_the_cache_is_the_systems_unless_said(monkeypatch):
    monkeypatch.delenv("ERLANGEN_CACHE")
    assert cache_folder().name == "erlangen"


def test_the_users_folder_goes_before_the_cache(root):
    for folder in (cache_folder() / "data", root):
        (folder / "set").mkdir(parents=True)
        (folder / "set" / "file").touch()
        assert find(("other", "set"), ("none", "file")) == folder / "set" / "file"


def test_what_was_decoded_is_kept_until_its_source_changes(tmp_path):
    source, calls = tmp_path / "source", []

    def make():
        calls.append(1)
        return np.full(3, len(calls))

    source.write_bytes(b"1")
    assert [decoded("x", [source], make)[0] for _ in range(3)] == [1, 1, 1]
    source.write_bytes(b"22")
    assert [decoded("x", [source], make)[0] for _ in range(2)] == [2, 2]
    for path in (cache_folder() / "decoded").iterdir():
        path.write_bytes(b"cut")
    assert decoded("x", [source], make)[0] == 3


def test_a_disk_that_is_full_costs_only_time(tmp_path, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    (tmp_path / "source").touch()
    assert decoded("x", [tmp_path / "source"], lambda: np.arange(3)).tolist() == [0, 1, 2]
    assert list((cache_folder() / "decoded").iterdir()) == []
