import pytest
import torch

from erlangen.train import TensorLoader

CPU = torch.device("cpu")


def rows(loader, epoch, start=0):
    return [batch[0].tolist() for batch in loader.epoch(epoch, CPU, start)]


def test_every_row_once_in_an_order_of_the_seed_and_the_epoch():
    loader = TensorLoader(torch.arange(10), torch.arange(10), batch_size=4, seed=3)
    epoch = rows(loader, 0)
    assert [len(batch) for batch in epoch] == [4, 4, 2]
    assert len(loader) == 3
    assert sorted(row for batch in epoch for row in batch) == list(range(10))
    assert rows(loader, 0) == epoch
    assert rows(loader, 1) != epoch
    assert rows(TensorLoader(torch.arange(10), batch_size=4, seed=4), 0) != epoch
    assert rows(loader, 0, 2) == epoch[2:]
    assert all(torch.equal(x, y) for x, y in loader.epoch(0, CPU))


def test_the_order_is_this_one_on_every_machine():
    """Runs that are resumed elsewhere depend on it."""
    first = [[9, 20, 13, 3, 22], [19, 4, 10, 17, 8], [11, 0, 21, 12, 6], [18, 16, 15, 1, 5], [2, 7, 14]]
    torch.manual_seed(1)
    assert rows(TensorLoader(torch.arange(23), batch_size=5), 1) == first


@pytest.mark.parametrize(("seed", "epoch", "named"), [(0, -1, "epoch"), (0.5, 0, "seed")])
def test_an_order_is_that_of_whole_numbers(seed, epoch, named):
    with pytest.raises(ValueError, match=f"^{named}: received"):
        rows(TensorLoader(torch.arange(4), batch_size=2, seed=seed), epoch)


def test_the_last_batch_and_the_order_as_it_is():
    loader = TensorLoader(torch.arange(10), batch_size=4, shuffle=False, drop_last=True)
    assert rows(loader, 5) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert len(loader) == 2


@pytest.mark.parametrize(
    ("tensors", "options", "named"),
    [
        ((), {"batch_size": 2}, "tensors"),
        ((torch.ones(3), torch.ones(2)), {"batch_size": 2}, r"tensors\[1\]"),
        ((torch.ones(()),), {"batch_size": 2}, r"tensors\[0\]"),
        (([1.0, 2.0],), {"batch_size": 2}, r"tensors\[0\]"),
        ((torch.ones(2), [1.0, 2.0]), {"batch_size": 2}, r"tensors\[1\]"),
        ((torch.ones(0, 2),), {"batch_size": 2}, "tensors"),
        ((torch.ones(3),), {"batch_size": 4, "drop_last": True}, "tensors"),
        ((torch.ones(3),), {"batch_size": 0}, "batch_size"),
    ],
)
def test_errors_name_the_argument(tensors, options, named):
    with pytest.raises(ValueError, match=f"^{named}: received"):
        TensorLoader(*tensors, **options)
