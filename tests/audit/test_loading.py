"""Models from modules, functions by name, torch.export, ONNX and run folders; and what is none."""

import math
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from erlangen.audit import Preprocess, Settings, audit, load_model
from erlangen.audit.loading import in_batches_of
from erlangen.audit.subject import subject_of
from erlangen.data import glyphs
from erlangen.estimators import RunConfig, fit_run

QUICK = Settings(saliency=0)


def net():
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, 4)).float()


def images(n=5):
    return torch.rand(n, 3, 8, 8, dtype=torch.float32)


def logits(source, x):
    return subject_of(source, x, Preprocess())(x)


@pytest.mark.parametrize("dynamic", [False, True])
def test_an_exported_program(tmp_path, dynamic):
    model, x = net().eval(), images(7)
    shapes = ({0: torch.export.Dim("batch")},) if dynamic else None
    torch.export.save(torch.export.export(model, (images(3),), dynamic_shapes=shapes), tmp_path / "net.pt2")
    subject = subject_of(tmp_path / "net.pt2", x, Preprocess())
    torch.testing.assert_close(subject(x), model(x))
    assert subject.differentiable
    assert subject.name == "net.pt2"


def test_a_pipeline_that_takes_images_for_arrays_has_no_gradients():
    """As around scikit-learn, `x.numpy()` fails where a gradient is asked for, whatever the size of images."""
    subject = subject_of(lambda x: torch.from_numpy(x.numpy().mean(-1)[:, :, 0]), images(), Preprocess())
    assert not subject.differentiable


def test_an_exported_program_for_images_of_another_size(tmp_path):
    torch.export.save(torch.export.export(net(), (images(3),)), tmp_path / "net.pt2")
    with pytest.raises(ValueError, match=r"received images \(2, 3, 9, 9\), for which it fails"):
        subject_of(tmp_path / "net.pt2", torch.rand(2, 3, 9, 9), Preprocess())
    subject_of(tmp_path / "net.pt2", torch.rand(2, 3, 9, 9), Preprocess(size=8))


def test_a_fixed_batch_is_filled_up():
    sizes = []

    def call(x):
        sizes.append(len(x))
        return x.flatten(1)

    x = images(7)
    assert torch.equal(in_batches_of(call, 3, 3)(x), x.flatten(1))
    assert sizes == [3, 3, 3]
    assert in_batches_of(call) is call
    sizes.clear()
    assert torch.equal(in_batches_of(call, 2, 3)(x), x.flatten(1))
    assert sizes == [3, 3, 2]


def test_an_export_with_limits_of_its_batch(tmp_path):
    model, x = net().float().eval(), images(9).float()
    few = torch.export.Dim("few", min=2, max=4)
    torch.export.save(torch.export.export(model, (x[:3],), dynamic_shapes=({0: few},)), tmp_path / "few.pt2")
    torch.testing.assert_close(logits(tmp_path / "few.pt2", x), model(x))


def test_an_export_that_takes_bytes_is_refused(tmp_path):
    class Bytes(nn.Module):
        def forward(self, x):
            return x.flatten(1)[:, :4].float()

    torch.export.save(torch.export.export(Bytes(), (images().byte(),)), tmp_path / "bytes.pt2")
    with pytest.raises(ValueError, match=r"with the input a uint8 tensor .*accepted is one of images in floating"):
        load_model(tmp_path / "bytes.pt2")


@pytest.mark.parametrize(
    "wrap",
    [
        lambda found: {"logits": found, "loss": None},
        lambda found: {"scores": found},
        lambda found: (found,),
        lambda found: SimpleNamespace(logits=found),
    ],
)
def test_logits_may_be_wrapped(wrap):
    x, model = images().double(), net().double()
    assert torch.equal(logits(lambda x: wrap(model(x)), x), model(x))


def test_a_model_that_fails_later_is_a_sentence_as_well():
    def model(x):
        if len(x) > 8:
            raise RuntimeError("too many\n  at once")
        return x.flatten(1)[:, :4]

    with pytest.raises(ValueError, match=r"received images \(9, 3, 8, 8\), for which it fails \(too many at once\)"):
        audit(model, (images(9), torch.arange(9) % 4), ["flip"])


def test_memory_that_runs_out_stays_what_it_is():
    def model(x):
        raise MemoryError

    with pytest.raises(MemoryError):
        logits(model, images())


def linear_onnx(path, *, flat, zipmap=False, batch=None):
    """What skl2onnx makes of a logistic regression (flat), or a linear layer behind a Flatten."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    from onnx import TensorProto, helper

    weights = np.random.default_rng(0).normal(size=(4, 192)).astype(np.float32)
    value = helper.make_tensor_value_info
    if flat:
        nodes = [
            helper.make_node(
                "LinearClassifier",
                ["x"],
                ["label", "scores"],
                domain="ai.onnx.ml",
                coefficients=weights.flatten().tolist(),
                intercepts=[0.0] * 4,
                classlabels_ints=[0, 1, 2, 3],
                multi_class=1,
                post_transform="SOFTMAX",
            )
        ]
        outputs = [value("label", TensorProto.INT64, [batch])]
        if zipmap:
            nodes.append(
                helper.make_node("ZipMap", ["scores"], ["maps"], domain="ai.onnx.ml", classlabels_int64s=[0, 1, 2, 3])
            )
            kind = helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
            outputs.append(helper.make_value_info("maps", helper.make_sequence_type_proto(kind)))
        else:
            outputs.append(value("scores", TensorProto.FLOAT, [batch, 4]))
        inputs, initial = [value("x", TensorProto.FLOAT, [batch, 192])], []
    else:
        nodes = [helper.make_node("Flatten", ["x"], ["f"]), helper.make_node("Gemm", ["f", "w"], ["y"], transB=1)]
        inputs = [value("x", TensorProto.FLOAT, [batch, 3, 8, 8])]
        outputs = [value("y", TensorProto.FLOAT, [batch, 4])]
        initial = [onnx.numpy_helper.from_array(weights, "w")]
    graph = helper.make_graph(nodes, "linear", inputs, outputs, initial)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), str(path))
    return torch.from_numpy(weights)


@pytest.mark.parametrize("batch", [None, 2])
def test_onnx_with_images(tmp_path, batch):
    weights, x = linear_onnx(tmp_path / "a.onnx", flat=False, batch=batch), images()
    subject = subject_of(tmp_path / "a.onnx", x, Preprocess())
    torch.testing.assert_close(subject(x), x.flatten(1) @ weights.T)
    assert not subject.differentiable
    assert not subject.probabilities


@pytest.mark.parametrize("zipmap", [False, True])
def test_onnx_as_scikit_learn_has_it(tmp_path, zipmap):
    """Flat inputs, labels beside probabilities, perhaps as dictionaries; the logarithms are logits."""
    weights, x = linear_onnx(tmp_path / "a.onnx", flat=True, zipmap=zipmap), images()
    subject = subject_of(tmp_path / "a.onnx", x, Preprocess())
    assert subject.probabilities
    torch.testing.assert_close(subject(x).exp(), (x.flatten(1) @ weights.T).softmax(-1), atol=1e-5, rtol=1e-4)
    found = audit(tmp_path / "a.onnx", (x, torch.arange(5) % 4), ["rotation"])
    assert "si" not in found.steps[0].values
    assert any("no gradients" in note for note in found.notes)
    assert any("gives probabilities" in note for note in found.notes)


def test_onnx_without_its_runtime_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    (tmp_path / "a.onnx").touch()
    with pytest.raises(ValueError, match=r"onnxruntime is missing: `pip install onnxruntime`"):
        load_model(tmp_path / "a.onnx")


def test_a_function_by_its_name(tmp_path, monkeypatch):
    (tmp_path / "somebody.py").write_text(
        "from torch import nn\ndef make(): return nn.Flatten()\nnothing = lambda: 3\n"
    )
    monkeypatch.chdir(tmp_path)
    assert isinstance(load_model("somebody:make").call, nn.Flatten)
    for source, words in (
        ("somebody:nothing", "which returns int 3"),
        ("somebody:missing", "gives no model .AttributeError"),
        ("nowhere.at_all:make", "gives no model .ModuleNotFoundError"),
    ):
        with pytest.raises(ValueError, match=words):
            load_model(source)


@pytest.mark.parametrize("method", ["none", "tta"])
def test_a_run_of_ours(tmp_path, method):
    """It is measured as it predicts, the views being the same for an image and its copies."""
    torch.set_default_dtype(torch.float32)
    data = glyphs(24, seed=5, size=16)
    config = RunConfig(method=method, steps=2, batch_size=8, samples=2, eval_samples=2, device="cpu")
    run = fit_run(config, data, folder=tmp_path / "run")
    found = audit(tmp_path / "run", data, {"rotation": [90]}, settings=QUICK)
    assert found.model["name"] == "run"
    right = float((run.predict(data.x) == data.y).double().mean())
    assert found.plain["accuracy"].mean == pytest.approx(right)
    assert not found.model["random"]
    renamed = replace(data, classes=("new", *data.classes[1:]))
    with pytest.raises(ValueError, match="the class new, which the model does not have"):
        audit(tmp_path / "run", renamed, ["flip"], settings=QUICK)
    assert audit(tmp_path / "run", (data.x, data.y), ["flip"], settings=QUICK).plain == found.plain
    named = replace(QUICK, classes=renamed.classes)
    assert audit(tmp_path / "run", renamed, ["flip"], settings=named).plain == found.plain


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nothing.pt2", "does not exist; accepted is a module or callable, a run folder"),
        ("weights.pt", "a pickle may hold any code"),
        ("words.txt", "accepted is a module or callable"),
        ("broken.pt2", "torch.export cannot read"),
        ("broken.onnx", "onnxruntime cannot read"),
        ("folder", "holds no run"),
    ],
)
def test_what_is_no_model(tmp_path, name, words):
    (tmp_path / "folder").mkdir()
    for file in ("weights.pt", "words.txt", "broken.pt2", "broken.onnx"):
        (tmp_path / file).write_bytes(b"nothing of the kind")
    with pytest.raises(ValueError, match=words):
        load_model(tmp_path / name)
    with pytest.raises(ValueError, match="model: received int 3"):
        load_model(3)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (lambda x: x, r"received the output a float64 tensor of shape \(5, 3, 8, 8\)"),
        (lambda x: x.flatten(1)[:3], r"accepted are floating-point logits \(5, K\)"),
        (lambda x: x.mean((1, 2, 3))[:, None], "two classes or more .for a single logit z, those of 0 and z"),
        (lambda x: x.flatten(1)[:, :4] / 0.0, "NaN or infinite logits for 5 of 5 inputs"),
        (
            lambda x: nn.functional.pad(x.flatten(1)[:, :4], (0, 1), value=-math.inf),
            "infinite logits for 5 of 5 images",
        ),
        (lambda x: "a word", "received the output str 'a word'"),
        (lambda x: [x[:, 0, 0]] * 1000, "on cpu and 996 more for 5 inputs"),
        (
            lambda x: (x[:, 0, 0], x),
            r"tuple of a .* shape \(5, 8\) on cpu, a .* module that makes logits of what the model gives",
        ),
        (
            nn.Conv2d(1, 4, 3),
            r"received images \(5, 3, 8, 8\), for which it fails .*set size, channels, channels_last, range, mean and",
        ),
        (lambda x: {}["logits"], "for which it fails"),
    ],
)
def test_what_a_model_must_not_give(model, words):
    with pytest.raises(ValueError, match=words):
        logits(model, images())


def test_preprocessing_comes_after_everything_else():
    seen = []

    def model(x):
        seen.append(x)
        return x.flatten(1)

    x = torch.rand(2, 1, 4, 4)
    subject_of(model, x, Preprocess(size=8, mean=(0.5,), std=(0.1, 0.2, 0.5), channels=3))
    assert seen[0].shape == (2, 3, 8, 8)
    std = torch.tensor([0.1, 0.2, 0.5])
    torch.testing.assert_close(seen[0].mean((2, 3)), (x.mean((2, 3)) - 0.5) / std, atol=0.5, rtol=0)
    seen.clear()
    subject_of(model, x, Preprocess(mean=(0.25,), std=(0.5,)))
    torch.testing.assert_close(seen[0], (x - 0.25) / 0.5)
    seen.clear()
    x = torch.rand(2, 3, 4, 5)
    subject_of(model, x, Preprocess(mean=(100.0,), range=255, channels_last=True))
    torch.testing.assert_close(seen[0], (255 * x - 100).permute(0, 2, 3, 1))
    seen.clear()
    subject_of(model, x, Preprocess(channels=1))
    torch.testing.assert_close(seen[0][:, 0], 0.299 * x[:, 0] + 0.587 * x[:, 1] + 0.114 * x[:, 2])


class OneWay(torch.autograd.Function):
    """An operation without a derivative, as those of a kernel of one's own may be."""

    @staticmethod
    def forward(ctx, x):  # pyright: ignore
        return x.clone()


@pytest.mark.parametrize("operation", [torch.detach, OneWay.apply])
def test_a_head_on_features_without_gradients_has_none(operation):
    """Its weights have some; maps of zeros would be similar, and the sensitivity 0."""
    head = nn.Linear(192, 4)
    data = images(5).double(), torch.arange(5) % 4
    found = audit(lambda x: head(operation(x).flatten(1)), data, ["flip"], settings=Settings(saliency=2, steps=2))
    assert not found.model["gradients"]
    assert "si" not in found.steps[0].values
    assert found.blindness.sensitivity is None
    assert any("Missing, since the model has no gradients" in note for note in found.notes)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_begins_at_the_model(dtype):
    """255 x - 127 is exact in single precision and one rounding away from it in half."""
    seen = []

    class Watched(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones((), dtype=dtype))

        def forward(self, x):
            seen.append(x)
            return self.scale * x.flatten(1)[:, :4]

    x = torch.arange(256, dtype=torch.float32).view(1, 1, 16, 16) / 255
    subject_of(Watched(), x, Preprocess(range=255, mean=127.0))
    assert seen[0].dtype == dtype
    assert torch.equal(seen[0].flatten().float(), torch.arange(256).float() - 127)
    subject_of(Watched(), x, Preprocess(size=8))
    assert seen[-1].shape == (1, 1, 8, 8)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_probabilities_in_half_precision_are_probabilities(dtype):
    x, model = images(8).double(), nn.Sequential(net(), nn.Softmax(-1)).to(dtype)
    model[0][1].bias.data[0] = 5.5  # nearly sure, where eight bits are coarse
    with torch.no_grad():
        assert dtype == torch.float16 or (model(x.to(dtype)).double().sum(-1) - 1).abs().max() > 1e-3
    assert subject_of(model, x, Preprocess()).probabilities


@pytest.mark.parametrize("kind", [list, np.array, torch.tensor])
def test_moments_are_numbers_of_any_kind(kind):
    same = Preprocess(mean=(0.25,), std=(0.5, 1.0, 2.0))
    assert Preprocess(mean=0.25, std=kind([0.5, 1.0, 2.0])) == same
    assert Preprocess(mean=kind([0.25]), std=(0.5, 1, 2)) == same


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"size": 0}, "size: received 0"),
        ({"size": (8, 8, 8)}, "size: received"),
        ({"std": (0.0,)}, "std: received"),
        ({"std": torch.zeros(3)}, "std: received a float32 tensor"),
        ({"mean": ()}, "mean: received"),
        ({"mean": math.nan}, "mean: received float nan"),
        ({"mean": "grey"}, "mean: received"),
        ({"mean": np.zeros((1, 3, 1, 1))}, "mean: received"),
        ({"mean": (math.nan,)}, "mean: received"),
        ({"range": 0}, "range: received 0"),
        ({"channels": 2}, "channels: received 2 for images of 3; accepted is 3, or 1 for grey"),
        ({"channels": 0}, "channels: received 0"),
        ({"mean": (0.1, 0.2)}, "mean: received 2 numbers for images of 3 channels"),
    ],
)
def test_preprocessing_that_cannot_be(options, words):
    with pytest.raises(ValueError, match=words):
        subject_of(net(), images(), Preprocess(**options))


def test_a_module_has_its_mode_back():
    model = nn.Sequential(net(), nn.Dropout(0.5)).train()
    x = images()
    found = audit(model, (x, torch.arange(5) % 4), {"rotation": [90]})
    assert model.training
    assert found.steps[0].null["consistency"].mean == 1  # there and back by right angles, without dropout
