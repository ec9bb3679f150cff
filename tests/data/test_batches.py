import pytest
import torch

from erlangen.data import DataSet, batches

N = 23
DATA = DataSet(torch.arange(N).double().reshape(N, 1, 1), torch.arange(N), tuple(map(str, range(N))), "numbers")


def labels(**options):
    return [y.tolist() for _, y in batches(DATA, 5, **options)]


def test_an_epoch_visits_everything_once():
    for x, y in batches(DATA, 5, seed=3):
        assert x.shape == (len(y), 1, 1)
        assert x.flatten().tolist() == y.tolist()
    seen = labels(seed=3)
    assert [len(batch) for batch in seen] == [5, 5, 5, 5, 3]
    assert sorted(i for batch in seen for i in batch) == list(range(N))


def test_drop_last():
    assert labels(seed=3, drop_last=True) == labels(seed=3)[:-1]
    assert [len(y) for _, y in batches(DATA, N, drop_last=True)] == [N]


def test_order_depends_on_seed_and_epoch_alone():
    torch.manual_seed(1)
    first = labels(seed=3, epoch=2)
    torch.manual_seed(2)
    assert labels(seed=3, epoch=2) == first
    others = [labels(seed=s, epoch=e) for s, e in ((3, 1), (2, 3), (4, 2), (3, 0), (0, 3))]
    assert all(other != first for other in others)


def test_the_order_is_this_one_on_every_machine():
    """Runs that are resumed elsewhere depend on it."""
    first = [[9, 20, 13, 3, 22], [19, 4, 10, 17, 8], [11, 0, 21, 12, 6], [18, 16, 15, 1, 5], [2, 7, 14]]
    assert labels(seed=0, epoch=1) == first


@pytest.mark.parametrize("start", range(6))
def test_an_epoch_goes_on_at_any_step(start):
    assert labels(seed=3, epoch=1, start=start) == labels(seed=3, epoch=1)[start:]
    assert labels(shuffle=False, start=start) == labels(shuffle=False)[start:]


def test_without_shuffling_batches_are_views():
    x, _ = next(batches(DATA, 5, shuffle=False))
    assert x.data_ptr() == DATA.x.data_ptr()


def test_a_set_elsewhere_is_streamed():
    """To the meta device, which is the one that every machine has."""
    streamed = list(batches(DATA, 5, device="meta"))
    assert [x.device.type for x, _ in streamed] == ["meta"] * 5
    moved = list(batches(DATA.to("meta"), 5))
    assert [(x.device.type, y.shape) for x, y in moved] == [(x.device.type, y.shape) for x, y in streamed]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_devices_agree_and_nothing_waits():
    data = DATA.to("cuda")
    torch.cuda.set_sync_debug_mode("error")
    try:
        found = list(batches(data, 5, seed=3))
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert [y.tolist() for _, y in found] == labels(seed=3)
    assert [y.tolist() for _, y in batches(DATA, 5, seed=3, device="cuda")] == labels(seed=3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size: received int 0"),
        ({"batch_size": 2.0}, "batch_size: received float"),
        ({"batch_size": 24, "drop_last": True}, "batch_size: received 24 with drop_last; accepted is at most 23"),
        ({"start": 6}, "start: received 6; accepted is a step of the epoch, 0 to 5"),
        ({"start": -1}, "start: received -1"),
        ({"epoch": -1}, "epoch: received int -1"),
        ({"seed": 0.5}, "seed: received float"),
    ],
)
def test_bad_arguments_are_refused_at_the_call(options, message):
    with pytest.raises(ValueError, match=message):
        batches(DATA, **{"batch_size": 5, **options})
