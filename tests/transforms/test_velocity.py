"""Velocity fields against independent interpolation, their flows against ODE solvers and closed forms."""

import copy
import math

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import gradcheck, gradgradcheck
from torchdiffeq import odeint

from erlangen.transforms.velocity import Field1d, Field2d, _triangles

FIELDS = [
    pytest.param(Field1d(5), 1, id="1d"),
    pytest.param(Field1d(4, zero_boundary=False), 1, id="1d-open"),
    pytest.param(Field2d((3, 2)), 2, id="2d"),
    pytest.param(Field2d((2, 2), zero_boundary=False), 2, id="2d-open"),
    pytest.param(Field2d((3, 3), volume_preserving=True), 2, id="2d-volume"),
]
ACCURACY = 2e-4  # 1e-4 of the frame, which is 2 wide


def uniform(*shape, scale=1.0):
    return (torch.rand(*shape) * 2 - 1) * scale


def example(field, axes, thetas=3, points=20, scale=0.5):
    return uniform(thetas, field.features, scale=scale), uniform(thetas, points, axes)


def runge_kutta(field, theta, x, steps):
    h = 1 / steps
    for _ in range(steps):
        a = field.velocity(theta, x)
        b = field.velocity(theta, x + h / 2 * a)
        c = field.velocity(theta, x + h / 2 * b)
        d = field.velocity(theta, x + h * c)
        x = x + h / 6 * (a + 2 * b + 2 * c + d)
    return x


def barycentric(cells, theta):
    """Zero-boundary velocity from the documented order of theta, by trying every triangle."""
    n, m = cells
    xs, ys = np.linspace(-1, 1, n + 1), np.linspace(-1, 1, m + 1)
    nodes = [(x, y) for y in ys for x in xs]
    nodes += [((xs[i] + xs[i + 1]) / 2, (ys[j] + ys[j + 1]) / 2) for j in range(m) for i in range(n)]
    rest = iter(theta.tolist())
    values = np.array([(next(rest) if abs(x) < 1 else 0, next(rest) if abs(y) < 1 else 0) for x, y in nodes])
    rings = [((k := j * (n + 1) + i), k + 1, k + n + 2, k + n + 1) for j in range(m) for i in range(n)]
    corners = [(r[a], r[a - 1], (m + 1) * (n + 1) + c) for c, r in enumerate(rings) for a in range(4)]
    inverses = np.linalg.inv([np.vstack([np.array([nodes[c] for c in t]).T, np.ones(3)]) for t in corners])

    def velocity(points):
        weights = inverses @ np.vstack([points.T, np.ones(len(points))])
        best, each = weights.min(1).argmax(0), np.arange(len(points))
        return np.einsum("pc,pcd->pd", weights[best, :, each], values[np.array(corners)[best]])

    return velocity


@pytest.mark.parametrize(("cells", "features"), [(2, 14), (3, 34), (4, 62), (6, 142), (8, 254)])
def test_published_dimensions(cells, features):
    assert Field2d((cells, cells)).features == features
    nodes = (cells + 1) ** 2 + cells**2
    assert Field2d((cells, cells), zero_boundary=False).features == 2 * nodes
    assert Field1d(cells).features == cells - 1
    assert Field1d(cells, zero_boundary=False).features == cells + 1


@pytest.mark.parametrize(("cells", "features"), [(3, 8), (4, 15)])
def test_published_dimensions_volume_preserving(cells, features):
    assert Field2d((cells, cells), volume_preserving=True).features == features


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Field1d(0), "cells: received int 0; accepted is an integer > 0"),
        (lambda: Field1d(True), "cells: received bool True"),
        (lambda: Field1d(2.0), "cells: received float"),
        (lambda: Field1d(1), "zero_boundary=True is an integer of at least 2"),
        (lambda: Field2d(3), "cells: received int 3; accepted is a pair"),
        (lambda: Field2d((3, 0)), "cells: received int 0"),
        (lambda: Field2d((3, 3), steps=0), "steps: received int 0"),
        (lambda: Field2d((1, 1), volume_preserving=True), "volume_preserving=True"),
        (
            lambda: Field1d(5).flow(torch.zeros(2, 5), torch.zeros(3, 1)),
            r"theta: received .* accepted is a tensor \(\*N, 4\)",
        ),
        (lambda: Field2d((2, 2)).flow(torch.zeros(14), torch.zeros(3, 1)), r"points: .* \(\*N, P, 2\)"),
    ],
)
def test_refuses(build, message):
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.parametrize("zero_boundary", [True, False])
def test_velocity_1d_interpolates(zero_boundary):
    field = Field1d(7, zero_boundary=zero_boundary)
    theta, x = uniform(field.features), torch.cat([uniform(50, 1, scale=1.5), torch.linspace(-1, 1, 8)[:, None]])
    nodal = np.pad(theta.numpy(), 1) if zero_boundary else theta.numpy()
    expected = np.interp(x[:, 0], np.linspace(-1, 1, 8), nodal)
    torch.testing.assert_close(field.velocity(theta, x)[:, 0], torch.from_numpy(expected), rtol=0, atol=1e-14)


@pytest.mark.parametrize("cells", [(3, 2), (4, 4)])
def test_velocity_2d_interpolates(cells):
    field = Field2d(cells)
    theta, x = uniform(field.features), uniform(200, 2)
    expected = barycentric(cells, theta)(x.numpy())
    torch.testing.assert_close(field.velocity(theta, x), torch.from_numpy(expected), rtol=0, atol=1e-13)


@pytest.mark.parametrize("zero_boundary", [True, False])
def test_flow_1d_against_odeint(zero_boundary):
    field = Field1d(6, zero_boundary=zero_boundary)
    theta, x = uniform(4, field.features), uniform(4, 8, 1, scale=1.2)
    time = torch.tensor([0.0, 1.0])
    expected = odeint(lambda _, y: field.velocity(theta, y), x, time, rtol=1e-12, atol=1e-12)[-1]
    torch.testing.assert_close(field.flow(theta, x), expected, rtol=0, atol=1e-8)


def test_flow_2d_against_solve_ivp():
    field = Field2d((3, 3))
    theta, x = uniform(field.features), uniform(12, 2)
    velocity = barycentric((3, 3), theta)
    expected = [
        solve_ivp(lambda _, y: velocity(y[None])[0], (0, 1), p, rtol=1e-8, atol=1e-10).y[:, -1] for p in x.numpy()
    ]
    torch.testing.assert_close(field.flow(theta, x), torch.tensor(np.array(expected)), rtol=0, atol=1e-5)


@pytest.mark.parametrize("cells", [3, 4])
def test_flow_2d_accuracy(cells):
    # Nodal velocities up to half the frame; neither too few of our steps nor as many of RK4 pass.
    field = Field2d((cells, cells))
    theta, x = example(field, 2, 50, 40, scale=1.0)
    reference = runge_kutta(field, theta, x, 800)

    def error(result):
        return (result - reference).abs().max()

    assert error(field.flow(theta, x)) < ACCURACY / 4
    assert error(field.flow(theta, -x)) > ACCURACY
    assert error(Field2d((cells, cells), steps=4).flow(theta, x)) > ACCURACY
    assert error(runge_kutta(field, theta, x, 40)) > ACCURACY
    single = field.flow(theta.float(), x.float())
    assert single.dtype == torch.float32
    assert error(single) < ACCURACY


def test_single_cell_is_exponential():
    # v = a + b x in the frame: x(1) = (x + a / b) e^b - a / b, as long as the point stays inside.
    field = Field1d(1, zero_boundary=False)
    a, b, x = 0.1, -0.7, uniform(20, 1)
    result = field.flow(torch.tensor([a - b, a + b]), x)
    torch.testing.assert_close(result, (x + a / b) * np.exp(b) - a / b, rtol=0, atol=1e-15)


@pytest.mark.parametrize(("field", "axes"), FIELDS[1::2])
def test_constant_field_translates(field, axes):
    # Also across the border, in both directions.
    theta, x = torch.full((field.features // axes, axes), 0.8), uniform(40, axes, scale=1.5)
    theta[:, 1:] = -0.3
    torch.testing.assert_close(field.flow(theta.flatten(), x), x + theta[0], rtol=0, atol=1e-14)


def test_linear_field_is_matrix_exponential():
    matrix = torch.tensor([[0.2, 1.5], [-1.5, -0.3]])
    grid, centres = torch.linspace(-1, 1, 4), torch.linspace(-2 / 3, 2 / 3, 3)
    nodes = torch.cat([torch.cartesian_prod(g, g).flip(-1) for g in (grid, centres)])
    field, x = Field2d((3, 3), zero_boundary=False), uniform(40, 2, scale=0.5)
    result = field.flow((nodes @ matrix.T).flatten(), x)
    torch.testing.assert_close(result, x @ torch.linalg.matrix_exp(matrix).T, rtol=0, atol=1e-8)


@pytest.mark.parametrize(("field", "axes"), FIELDS)
def test_inverse_and_semigroup(field, axes):
    theta, x = example(field, axes)
    atol = 1e-12 if axes == 1 else 2e-5
    torch.testing.assert_close(field.flow(-theta, field.flow(theta, x)), x, rtol=0, atol=atol)
    twice = field.flow(0.7 * theta, field.flow(0.3 * theta, x))
    torch.testing.assert_close(twice, field.flow(theta, x), rtol=0, atol=atol)
    assert (field.flow(theta, x) - x).abs().max() > 0.02


@pytest.mark.parametrize(("field", "axes"), FIELDS)
def test_derivatives(field, axes):
    theta, x = (a.requires_grad_() for a in example(field, axes, 2, 5))
    assert gradcheck(field.flow, (theta, x), fast_mode=True)
    assert gradgradcheck(field.flow, (theta, x), fast_mode=True)


@pytest.mark.parametrize(("field", "axes"), FIELDS)
def test_derivative_at_zero_is_the_velocity(field, axes):
    # Random points, and nodes: there the flow has kinks of second order only.
    x = torch.cat([uniform(3, axes), torch.zeros(1, axes), torch.full((1, axes), -1.0), torch.full((1, axes), 1.0)])
    zero = torch.zeros(field.features, requires_grad=True)
    assert torch.equal(field.flow(zero, x), x)
    jacobian = torch.func.jacrev(lambda t: field.flow(t, x))(zero)
    basis = field.velocity(torch.eye(field.features), x).movedim(0, -1)
    torch.testing.assert_close(jacobian, basis, rtol=0, atol=1e-14)
    assert gradgradcheck(field.flow, (zero, uniform(2, axes).requires_grad_()), fast_mode=True)


def test_stagnation_points_1d():
    # One is inside the second cell, one is the node at 0; with slope a, positions nearby grow like e^a.
    field = Field1d(4)
    theta = torch.tensor([1.0, 0.0, -0.5], requires_grad=True)
    x = torch.tensor([[0.0], [-0.75], [0.5]], requires_grad=True)
    result = field.flow(theta, x)
    assert result[0] == 0
    derivative = torch.autograd.grad(result[0].sum(), x, retain_graph=True)[0][0]
    torch.testing.assert_close(derivative, torch.exp(torch.tensor([-1.0])))
    inside = Field1d(2, zero_boundary=False)
    theta = torch.tensor([-0.5, 0.25, 1.0])  # zero at -1/3, slope 3/4
    x = torch.tensor([[-1 / 3]], requires_grad=True)
    derivative = torch.autograd.grad(inside.flow(theta, x).sum(), x)[0]
    torch.testing.assert_close(derivative, torch.exp(torch.tensor([[0.75]])))


def test_nodes_1d():
    # Points on nodes move like their neighbours: to the left, to the right, and across several cells.
    field = Field1d(6)
    theta = torch.stack([torch.full((5,), 0.9), torch.full((5,), -0.9), torch.tensor([0.8, -0.8, 0.7, 0.6, -0.1])])
    x = torch.linspace(-1, 1, 7)[:, None]
    for side in (-1e-9, 1e-9):
        torch.testing.assert_close(field.flow(theta, x), field.flow(theta, x + side), rtol=0, atol=1e-7)
    x = x[1:-1].clone().requires_grad_()
    assert gradcheck(field.flow, (theta[:2].clone().requires_grad_(), x))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("field", "axes"), FIELDS)
def test_finite_everywhere(field, axes, dtype):
    grid = torch.tensor([-3.0, -1, -0.5, -1 / 3, 0, 0.2, 1 / 3, 0.5, 1, 3, 1e30])
    x = torch.cartesian_prod(*[grid] * axes).reshape(-1, axes)
    theta = torch.cat([uniform(3, field.features) * s for s in (0, 1e-38, 1e-20, 1e-8, 1, 10)])
    theta = torch.cat([theta, theta.round()]).to(dtype).requires_grad_()
    x = x.to(dtype).requires_grad_()
    result = field.flow(theta, x)
    assert result.isfinite().all()
    gradients = torch.autograd.grad(result.sum(), (theta, x), create_graph=True)
    assert all(g.isfinite().all() for g in gradients)
    second = torch.autograd.grad(sum(g[..., :3].sum() for g in gradients), (theta, x))
    assert all(g.isfinite().all() for g in second)


def test_nan_stays_nan():
    for field, axes in [(Field1d(3), 1), (Field2d((2, 2)), 2)]:
        assert field.flow(torch.full((field.features,), torch.nan), torch.zeros(2, axes)).isnan().all()
        assert field.flow(torch.ones(field.features), torch.full((2, axes), torch.nan)).isnan().all()


def test_outside_1d():
    x = torch.tensor([[-2.0], [-1.5], [1.1], [4.0]])
    assert torch.equal(Field1d(5).flow(uniform(3, 4), x), x.expand(3, 4, 1))
    # In at speed 0.5 from 1.5, arriving after unit time; out for good at -2.
    theta = torch.tensor([-0.25, 0.5, -0.5])
    torch.testing.assert_close(
        Field1d(2, zero_boundary=False).flow(theta, torch.tensor([[1.5], [-2.0]])), torch.tensor([[1.0], [-2.25]])
    )


def test_outside_2d():
    field = Field2d((3, 2))
    theta, x = uniform(4, field.features), uniform(30, 2, scale=2.0)
    torch.testing.assert_close(field.velocity(theta, x), field.velocity(theta, x.clamp(-1, 1)))
    # With zero boundary, nothing beyond the frame moves across it.
    beyond = torch.tensor([[1.5, 0.3], [-7.0, -0.2]])
    moved = field.flow(theta, beyond)
    assert torch.equal(moved[..., 0], beyond[:, 0].expand(4, 2))
    torch.testing.assert_close(moved[..., 1], field.flow(theta, beyond.clamp(-1, 1))[..., 1])


def test_border_slides():
    field = Field2d((3, 3))
    theta, s = uniform(5, field.features), uniform(30)
    for axis in (0, 1):
        for side in (-1.0, 1.0):
            x = torch.stack([torch.full_like(s, side), s], -1)
            x = x.flip(-1) if axis else x
            moved = field.flow(theta, x) - x
            assert (moved[..., axis] == 0).all()
            assert moved[..., 1 - axis].abs().max() > 0.1
    corners = torch.cartesian_prod(*[torch.tensor([-1.0, 1.0])] * 2)
    assert torch.equal(field.flow(theta, corners), corners.expand(5, 4, 2))
    assert field.flow(theta, uniform(200, 2)).abs().max() <= 1


@pytest.mark.parametrize("cells", [(2, 2), (4, 4), (3, 5)])
@pytest.mark.parametrize("zero_boundary", [True, False])
def test_divergence_is_zero(cells, zero_boundary):
    field = Field2d(cells, zero_boundary=zero_boundary, volume_preserving=True)
    full = Field2d(cells, zero_boundary=zero_boundary)
    theta = (torch.eye(field.features)[:, None] * field.basis).sum(-1)
    assert torch.linalg.matrix_rank(theta) == field.features
    nodal = torch.nn.functional.pad(theta, (0, 1))[:, full.slots].unflatten(-1, (-1, 2)).movedim(-1, 0)
    table = _triangles(nodal, cells)
    divergence = table[1, 0] * cells[0] + table[2, 1] * cells[1]
    assert divergence.abs().max() <= (0 if cells[0] == cells[1] else 1e-14)
    if cells[0] == cells[1]:
        assert set((field.basis / field.basis.max() * 4).abs().flatten().tolist()) <= {0, 0.5, 1, 2, 4}
    assert 0.5 < field.basis.norm(dim=-1).max() <= 1  # the standard deviation of a velocity, if theta's is 1
    theta = torch.rand(field.features)
    torch.testing.assert_close(field.velocity(theta, x := uniform(9, 2)), full.velocity(field.basis @ theta, x))


def test_volume_is_preserved():
    x = uniform(3, 30, 2)
    for preserving in (True, False):
        field = Field2d((3, 3), volume_preserving=preserving)
        theta = uniform(3, field.features, scale=0.3)
        rows = torch.autograd.functional.jacobian(lambda x: field.flow(theta, x).sum((0, 1)), x)  # noqa: B023
        error = (torch.linalg.det(rows.movedim(0, -2)) - 1).abs().max()
        assert (error < 1e-5) == preserving


@pytest.mark.parametrize("cells", [(1, 1), (3, 2)])
def test_velocity_is_continuous_across_edges(cells):
    field = Field2d(cells, zero_boundary=False)
    size, theta = torch.tensor(cells), uniform(field.features)
    a, b = torch.randint(0, 100, (2, 60, 2)) % size, torch.rand(60, 1)
    # Half of the points on edges of rectangles, half on their diagonals.
    on_edge = a + torch.where(torch.rand(60, 1) < 0.5, torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])) * b
    on_diagonal = a + torch.cat([b, torch.where(torch.rand(60, 1) < 0.5, b, 1 - b)], -1)
    x = torch.cat([on_edge, on_diagonal]) * 2 / size - 1
    for direction in uniform(8, 2):
        jump = field.velocity(theta, x + 1e-9 * direction) - field.velocity(theta, x - 1e-9 * direction)
        assert jump.abs().max() < 1e-7


def test_basis_is_deterministic():
    first, second = (Field2d((6, 6), volume_preserving=True) for _ in range(2))
    assert torch.equal(first.basis, second.basis)
    assert not first.state_dict()
    # On 2 × 2 rectangles the first three nodal velocities are free and the others follow.
    basis = Field2d((2, 2), volume_preserving=True).basis
    assert torch.equal(basis[:3], torch.eye(3) * basis[0, 0])
    assert math.log2(basis[0, 0]).is_integer()


@pytest.mark.parametrize(("field", "axes"), FIELDS)
def test_shapes(field, axes):
    theta, x = uniform(2, 3, field.features), uniform(7, axes)
    expected = torch.stack([torch.stack([field.flow(t, x) for t in row]) for row in theta])
    for points in (x, x[None], x[None, None], x.expand(2, 3, 7, axes), x.expand(3, 7, axes)):
        torch.testing.assert_close(field.flow(theta, points), expected, rtol=0, atol=1e-14)
        assert field.velocity(theta, points).shape == (2, 3, 7, axes)
    assert field.flow(theta[:, 0], uniform(5, 1, 7, axes)).shape == (5, 2, 7, axes)
    assert field.flow(theta[:0], x).shape == (0, 3, 7, axes)
    assert field.flow(theta, x[:0]).shape == (2, 3, 0, axes)
    half = field.flow(theta.half(), x.bfloat16())
    torch.testing.assert_close(half, field.flow(theta.half().float(), x.bfloat16().float()))
    with torch.autocast("cpu"):
        torch.testing.assert_close(field.flow(theta.float(), x.float()), expected.float(), rtol=0, atol=1e-5)


@pytest.mark.parametrize(("field", "axes"), [FIELDS[0], FIELDS[2]])
def test_function_transforms(field, axes):
    theta, x = example(field, axes, points=4)
    jacobian = torch.func.vmap(torch.func.jacrev(field.flow))(theta, x)
    for k in range(len(theta)):
        expected = torch.autograd.functional.jacobian(lambda t: field.flow(t, x[k]), theta[k])  # noqa: B023
        torch.testing.assert_close(jacobian[k], expected)


def test_memory_of_2d_flow():
    field = Field2d((3, 3))
    theta, x = (a.requires_grad_() for a in example(field, 2, 2, 500))
    saved = {}

    def pack(a):
        saved[a.untyped_storage().data_ptr()] = a.untyped_storage().nbytes()
        return a

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda a: a):
        field.flow(theta, x)
    assert sum(saved.values()) < 1.1 * 3 * 40 * 8 * x.numel() / 2


@pytest.mark.parametrize(("field", "axes"), [FIELDS[0], FIELDS[2]])
def test_compiles_whole(field, axes):
    theta, x = (a.requires_grad_() for a in example(field, axes))
    results = []
    for flow in (field.flow, torch.compile(field.flow, fullgraph=True, backend="aot_eager")):
        result = flow(theta, x)
        results.append([result, *torch.autograd.grad(result.square().sum(), (theta, x))])
    torch.testing.assert_close(*results, rtol=1e-10, atol=1e-12)


def test_compiled_operations_predict_their_layout():
    # Back ends other than the one above rely on shapes and strides that are stated without values.
    field = Field2d((2, 2), steps=3)
    inputs = [*field._prepare(*example(field, 2)), field.schedule]
    torch.library.opcheck(torch.ops.erlangen.flow2d.default, tuple(inputs))
    for gradient in (uniform(2, 3, 20), uniform(3, 20, 2).movedim(-1, 0)):
        real = torch.ops.erlangen.flow2d_backward(gradient, *inputs)
        with FakeTensorMode() as mode:
            fake = torch.ops.erlangen.flow2d_backward(*(mode.from_tensor(a) for a in (gradient, *inputs)))
        assert [(a.shape, a.stride()) for a in real] == [(a.shape, a.stride()) for a in fake]


@pytest.mark.parametrize(("field", "axes"), [FIELDS[0], FIELDS[2]])
def test_looks_at_no_value(field, axes):
    # A tensor without values would stop whatever synchronises with a device, or branches on data.
    field = copy.deepcopy(field).to("meta")
    theta, x = (a.to("meta").requires_grad_() for a in example(field, axes))
    field.flow(theta, x).sum().backward()
    assert theta.grad.shape == theta.shape
    assert x.grad.shape == x.shape
