"""Steps that are replayed from a CUDA graph are the steps that would have been taken."""

import gc
from unittest.mock import MagicMock

import pytest
import torch

from erlangen.data import glyphs
from erlangen.distributions import RealNVP
from erlangen.models import Averaged
from erlangen.nets import EmbeddingCNN
from erlangen.objectives import LearningToTransform
from erlangen.train import Config, Cosine, Optimiser, TensorLoader, fit
from erlangen.train.graph import WARM, Graphs
from erlangen.transforms import Affine

from .tiny import data, tiny

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")


def test_a_graph_without_cuda_is_refused():
    with pytest.raises(ValueError, match="graph: received True for 1 processes on cpu; accepted is True for one"):
        fit(tiny(), data(), Config(accelerator="cpu", steps=1, graph=True))


def test_steps_of_kinds_of_their_own_are_taken_as_they_are(monkeypatch):
    """Nothing is recorded for them, and they do not wait for a collection of garbage, each of a tenth of a second."""
    collected = []
    monkeypatch.setattr(gc, "collect", lambda: collected.append(1))
    for name in ("Stream", "current_stream", "stream"):
        monkeypatch.setattr(torch.cuda, name, MagicMock())
    graphs = Graphs()
    monkeypatch.setattr(graphs, "_record", MagicMock(side_effect=AssertionError("recorded")))
    taken = [graphs(lambda batch: {"loss": batch[0].sum()}, branch, (torch.ones(2),)) for branch in range(30)]
    assert all(losses["loss"] == 2 and not replayed for losses, replayed in taken)
    assert len(collected) == 1


def trained(optimiser, tmp_path=None, steps=16, **changes):
    torch.manual_seed(0)
    transform = Affine("tx", "angle")
    encoder = EmbeddingCNN(3, 8, width=2)
    conditional = RealNVP.over(transform, 8, encoder=encoder, layers=3, width=8, components=2)
    model = Averaged(EmbeddingCNN(3, 4, width=2), transform, conditional, samples=3)
    objective = LearningToTransform(model, 0.3, burn_in=5, original=1.0)
    many = glyphs(44, size=16)
    loader = TensorLoader(many.x, many.y, batch_size=16)  # the last batch of an epoch has 12
    config = Config(accelerator="cuda", steps=steps, optimiser=optimiser, log_every=4, folder=tmp_path, **changes)
    return objective, fit(objective, loader, config)


@needs_cuda
@pytest.mark.parametrize(
    "optimiser",
    [
        Optimiser("adamw", lr=1e-2, clip=5.0, schedule=Cosine(0.1)),
        Optimiser("sgd", lr=1e-2, momentum=0.9, schedule=Cosine(0.1)),
    ],
    ids=["adamw", "sgd"],
)
def test_replayed_steps_are_the_steps(optimiser):
    plain, expected = trained(optimiser)
    replayed, found = trained(optimiser, graph=True)
    for row, wanted in zip(found.rows, expected.rows, strict=True):
        assert row["loss"] == pytest.approx(wanted["loss"], rel=1e-4)
        assert row["lr/classifier"] == pytest.approx(wanted["lr/classifier"])
    for (name, p), q in zip(replayed.named_parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-3, atol=1e-5, msg=name)
    assert replayed.step == plain.step == 16
    assert replayed.branch() == plain.branch()


@needs_cuda
def test_a_graphed_run_goes_on_where_it_stopped(tmp_path):
    optimiser = Optimiser("adamw", lr=1e-2, clip=5.0)
    whole, _ = trained(optimiser, graph=True)
    trained(optimiser, tmp_path, steps=9, graph=True)
    resumed, _ = trained(optimiser, tmp_path, graph=True, resume=True)
    for (name, p), q in zip(resumed.named_parameters(), whole.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-3, atol=1e-5, msg=name)


@needs_cuda
def test_what_an_earlier_run_left_behind_does_not_spoil_a_recording():
    optimiser = Optimiser("sgd", lr=1e-2)
    left = [trained(optimiser, graph=True)]
    left.append(left)  # a cycle, with graphs of its own, that only a collection frees
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        torch.zeros(1, device="cuda")
    left.append(graph)
    thresholds = gc.get_threshold()
    del left, graph
    gc.set_threshold(1, 1, 1)
    try:
        objective, _ = trained(optimiser, graph=True)
    finally:
        gc.set_threshold(*thresholds)
    assert objective.step == 16


@needs_cuda
def test_all_steps_see_a_batch_of_one_type():
    seen = []

    def take(batch):
        seen.append(type(batch))
        return {"loss": batch[0].sum()}

    graphs = Graphs()
    for batch in ([torch.ones(2, device="cuda")], (torch.ones(2, device="cuda"),)) * 3:
        graphs(take, None, batch)
    assert len(seen) == WARM + 1  # those taken as they are, and the recorded one
    assert len(set(seen)) == 1
