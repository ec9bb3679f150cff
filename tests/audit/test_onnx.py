"""ONNX files with several outputs: which of them is audited."""

import numpy as np
import pytest
import torch

from erlangen.audit import Preprocess, load_model
from erlangen.audit.subject import subject_of


def several_onnx(path, outputs):
    """A linear layer behind a Flatten; beside its logits z their softmax p, the pixels f and a map m of features."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    from onnx import TensorProto, helper

    weights = np.random.default_rng(0).normal(size=(4, 192)).astype(np.float32)
    node, shapes = helper.make_node, {"f": ["b", 192], "m": ["b", 3, 8, 8], "z": ["b", 4], "p": ["b", 4]}
    nodes = [
        node("Flatten", ["x"], ["f"]),
        node("Neg", ["x"], ["m"]),
        node("Gemm", ["f", "w"], ["z"], transB=1),
        node("Softmax", ["z"], ["p"]),
        *(node("Identity", [what], [name]) for name, what in outputs.items() if name != what),
    ]
    value = helper.make_tensor_value_info
    found = [value(name, TensorProto.FLOAT, shapes[what]) for name, what in outputs.items()]
    inputs = [value("x", TensorProto.FLOAT, shapes["m"])]
    graph = helper.make_graph(nodes, "several", inputs, found, [onnx.numpy_helper.from_array(weights, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), str(path))
    return torch.from_numpy(weights)


@pytest.mark.parametrize(
    ("outputs", "probable"),
    [
        ({"features": "f", "logits": "z"}, False),
        ({"probabilities": "p", "logits": "z"}, False),
        ({"m": "m", "z": "z"}, False),
        ({"p": "p", "probabilities": "m", "logits": "z"}, False),
        ({"features": "f", "probabilities": "p"}, True),
        ({"output_probability": "p", "z": "z"}, True),
    ],
)
def test_of_several_outputs_of_onnx_the_one_with_scores_is_audited(tmp_path, outputs, probable):
    weights, x = several_onnx(tmp_path / "a.onnx", outputs), torch.rand(5, 3, 8, 8, dtype=torch.float32)
    subject, scores = subject_of(tmp_path / "a.onnx", x, Preprocess()), x.flatten(1) @ weights.T
    assert subject.probabilities == probable
    found, expected = subject(x), scores.log_softmax(-1) if probable else scores
    torch.testing.assert_close(found, expected, atol=1e-3, rtol=1e-3)


def test_outputs_of_onnx_that_no_name_tells_apart_are_refused(tmp_path):
    several_onnx(tmp_path / "a.onnx", {"f": "f", "z": "z"})
    words = r"outputs f tensor.float., z tensor.float.; accepted is .* one is called logits or probabilities"
    with pytest.raises(ValueError, match=words):
        load_model(tmp_path / "a.onnx")
