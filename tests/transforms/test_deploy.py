"""Transforms inside compiled, exported and mapped code."""

import copy
import warnings

import numpy as np
import pytest
import torch

from erlangen.transforms import (
    CPAB,
    HSV,
    Affine,
    Crop,
    Flips,
    Product,
    Rotations,
    Shifts,
    Similarity,
    TimeAffine,
)

COMPILED = {
    "affine": Affine(),
    "nearest": Affine("angle", "tx", interpolation="nearest"),
    "bicubic": Affine("angle", "tx", interpolation="bicubic", padding="border"),
    "spline": Affine("angle", "tx", interpolation="spline"),
    "similarity": Similarity(padding="reflection"),
    "crop": Crop(),
    "product": Product(Affine("angle"), Flips(), HSV()),
    "rotations": Rotations(6),
    "shifts": Shifts(4),
    "time": TimeAffine(),
    "cpab of time": CPAB((5,)),
}


def example(transform, samples=()):
    series = isinstance(transform, TimeAffine) or getattr(transform, "dims", 2) == 1
    x = torch.rand(2, 3, 24) if series else torch.rand(2, 3, 12, 12)
    low, high = transform.bounds
    v = transform.origin + 0.3 * (low + (high - low) * torch.rand(*samples, 2, transform.features) - transform.origin)
    whole = torch.tensor([s.is_discrete for s in transform.supports])
    return x, torch.where(whole, 1.0, v)


@pytest.mark.parametrize("transform", COMPILED.values(), ids=COMPILED.keys())
def test_is_exported_with_a_free_batch_size(transform):
    transform = copy.deepcopy(transform).double()
    x, v = example(transform)
    batch = torch.export.Dim("batch", min=2, max=100)
    program = torch.export.export(transform, (x, v), dynamic_shapes=({0: batch}, {0: batch})).module()
    for n in (2, 7):
        xs, vs = (t[torch.arange(n) % 2] for t in (x, v))
        torch.testing.assert_close(program(xs, vs), transform(xs, vs))


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_splines_are_exported_and_compiled_for_free_sizes(padding):
    torch._dynamo.reset()
    transform = Affine("angle", "tx", interpolation="spline", padding=padding)
    v, sides = 0.1 * torch.rand(2, 2), {2: torch.export.Dim("height", max=500), 3: torch.export.Dim("width", max=500)}
    program = torch.export.export(transform, (torch.rand(2, 1, 12, 14), v), dynamic_shapes=(sides, None)).module()
    compiled = torch.compile(transform, dynamic=True, backend="eager")
    for size in ((12, 14), (9, 300)):
        x = torch.rand(2, 1, *size)
        for call in (program, compiled):
            torch.testing.assert_close(call(x, v), transform(x, v))


@pytest.mark.parametrize("transform", COMPILED.values(), ids=COMPILED.keys())
def test_compiles_without_a_break(transform, request):
    """One graph, forward and backward; by the real compiler for those that stand for all kinds of operations."""
    torch._dynamo.reset()
    name = request.node.callspec.id
    transform = copy.deepcopy(transform).double()
    backend = "inductor" if name in ("spline", "product", "cpab of time") else "aot_eager"
    compiled = torch.compile(transform, fullgraph=True, backend=backend)
    x, v = example(transform, (3,))
    results = []
    for call in (transform, compiled):
        inputs = [x.clone().requires_grad_(), v.clone().requires_grad_()]
        out = call(*inputs)
        out.square().sum().backward()
        results.append([out, *(torch.zeros(()) if i.grad is None else i.grad for i in inputs)])
    for eager, graph in zip(*results, strict=True):
        assert torch.allclose(eager, graph, atol=1e-9)


EXPORTED = {
    "affine": Affine(),
    "affine with a border": Affine(padding="border"),
    "nearest": Affine(interpolation="nearest"),
    "fill": Affine("angle", fill=(0.1, 0.2, 0.3)),
    "factored": Affine(factored=True),
    "crop": Crop(),
    "hsv": HSV(),
    "time": TimeAffine(),
    "rotations": Rotations(4),
    "product": Product(Affine("angle"), HSV("hue")),
}


@pytest.mark.parametrize("transform", EXPORTED.values(), ids=EXPORTED.keys())
def test_exports_to_onnx(transform, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    transform = copy.deepcopy(transform).float().eval()
    x, v = (t.float() for t in example(transform, (3,)))
    path = tmp_path / "transform.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(transform, (x, v), dynamo=True, verbose=False).save(path)
    session = onnxruntime.InferenceSession(path)
    feeds = {i.name: t.numpy() for i, t in zip(session.get_inputs(), (x, v), strict=True)}
    assert np.abs(session.run(None, feeds)[0] - transform(x, v).numpy()).max() < 1e-5


@pytest.mark.parametrize("transform", [Affine(), HSV(), Similarity()], ids=repr)
def test_maps(transform):
    transform = copy.deepcopy(transform).double()
    x, v = example(transform, (4,))
    mapped = torch.vmap(transform, in_dims=(None, 0))(x, v)
    assert torch.allclose(mapped, transform(x, v), atol=1e-12)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("transform", COMPILED.values(), ids=COMPILED.keys())
def test_is_captured_in_a_cuda_graph(transform):
    """Eager code, forward and backward, without a synchronisation or a copy from the host."""
    transform = copy.deepcopy(transform).float().cuda()
    x, v = (t.float().cuda() for t in example(copy.deepcopy(transform).cpu(), (3,)))
    x.requires_grad_()
    v.requires_grad_()

    def step():
        x.grad = v.grad = None
        out = transform(x, v)
        out.square().sum().backward()
        return out

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = step()
    with torch.no_grad():
        x.copy_(torch.rand_like(x))
    graph.replay()
    torch.cuda.synchronize()
    expected = copy.deepcopy(transform).cpu()(x.detach().cpu(), v.detach().cpu())
    assert torch.allclose(out.cpu(), expected, atol=1e-4)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("transform", [*COMPILED.values(), CPAB((2, 2)), HSV()], ids=[*COMPILED, "cpab", "hsv"])
def test_equals_the_cpu_and_never_synchronises(transform):
    transform = copy.deepcopy(transform).double()
    x, v = example(transform, (3,))
    on_gpu = copy.deepcopy(transform).cuda()
    inputs = [x.clone().cuda().requires_grad_(), v.clone().cuda().requires_grad_()]
    on_gpu(*inputs)
    torch.cuda.set_sync_debug_mode("error")
    try:
        out = on_gpu(*inputs)
        out.square().sum().backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert torch.allclose(out.cpu(), transform(x, v), atol=1e-9)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("transform", [Affine(), HSV()], ids=repr)
def test_there_and_back_compiled_on_a_gpu(transform):
    """What is recomputed for a second action is rounded as it was for the first, or it must not matter."""
    torch._dynamo.reset()
    group = copy.deepcopy(transform).float().cuda()
    x, v = (t.float().cuda() for t in example(copy.deepcopy(group).cpu()))

    def there_and_back(x, v):
        g = group.element(v)
        return group.act(g, group.act(group.inverse(g), x))

    assert torch.allclose(torch.compile(there_and_back)(x, v), there_and_back(x, v), atol=1e-4)
