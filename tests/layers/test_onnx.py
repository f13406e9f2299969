"""ONNX: the graph, run by onnxruntime, gives what the layer gives, at other batch sizes and lengths too."""

import numpy as np
import onnxruntime
import pytest
import torch
from torch.export import Dim

from headwise.core import Causal, SlidingWindow
from tests.layers.encodings import layer_with
from tests.layers.test_export import Padded

# another library's float32 kernels: some dozens of roundings of numbers of about 1
CLOSE = {"rtol": 0.0, "atol": 64 * torch.finfo(torch.float32).eps}
# name: encoding, the layer's options
CASES = {
    "rotary, grouped heads": ("rotary, neighbours", {"mask": Causal(), "kv_heads": 1}),
    "alibi in a window": ("alibi", {"mask": Causal() & SlidingWindow(4)}),
}


@torch.no_grad()
@pytest.mark.filterwarnings("ignore:.*LeafSpec.*:FutureWarning")  # the exporter's own
@pytest.mark.filterwarnings("ignore:.*LeafSpec.*:DeprecationWarning")
@pytest.mark.parametrize("name", CASES)
def test_the_graph_is_the_layer(name, tmp_path):
    encoding, options = CASES[name]
    model = Padded(layer_with(encoding, **options).float()).eval()
    axes = {0: Dim.DYNAMIC, 1: Dim.DYNAMIC}
    example = torch.randn(2, 8, 8), torch.ones(2, 8, dtype=torch.bool)
    program = torch.onnx.export(model, example, dynamo=True, dynamic_shapes=(axes, axes), verbose=False)
    program.save(tmp_path / "layer.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "layer.onnx", providers=["CPUExecutionProvider"])
    names = [given.name for given in session.get_inputs()]
    for batch, length in ((2, 8), (3, 20)):
        x, keep = torch.randn(batch, length, 8), torch.arange(length) >= torch.arange(batch)[:, None] * 5
        (output,) = session.run(None, dict(zip(names, (x.numpy(), keep.numpy()), strict=True)))
        np.testing.assert_allclose(output, model(x, keep).numpy(), **CLOSE)
