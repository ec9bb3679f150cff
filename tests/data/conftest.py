"""No test here sees the data or the cache of the person who runs it, except those that ask for real data."""

import os

import pytest

REAL = os.environ.get("ERLANGEN_DATA")


@pytest.fixture(autouse=True)
def root(tmp_path_factory, monkeypatch):
    """An empty folder that ERLANGEN_DATA names, beside an empty cache."""
    folder = tmp_path_factory.mktemp("data")
    monkeypatch.setenv("ERLANGEN_DATA", str(folder))
    monkeypatch.setenv("ERLANGEN_CACHE", str(tmp_path_factory.mktemp("cache")))
    return folder


@pytest.fixture
def real(monkeypatch):
    """The folder of real data, where there is one."""
    if not REAL:
        pytest.skip("real data: set ERLANGEN_DATA to a folder that holds it")
    monkeypatch.setenv("ERLANGEN_DATA", REAL)
    return REAL


@pytest.fixture(autouse=True)
def _no_network(monkeypatch):
    """Downloads that a test does not serve itself fail at once."""
    import requests

    def refuse(url, *args, **kwargs):
        raise requests.ConnectionError(f"no network for {url}")

    monkeypatch.setattr(requests, "get", refuse)
