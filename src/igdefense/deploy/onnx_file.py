"""A traced model as an ONNX file, and ONNX Runtime to run it."""

import secrets
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram

from igdefense.deploy.deployed import quietly
from igdefense.errors import ModelError
from igdefense.extras import needed
from igdefense.types import Images

INPUT, OUTPUT, ABOUT = "images", "logits", "igdefense"
DRAWS = "RandomNormalLike"


def write_onnx(program: ExportedProgram, images: Images, about: str, path: Path) -> None:
    """One file, weights inside, with `about` among its metadata."""
    needed("onnxscript", "export", "Exporting to ONNX")
    onnx = needed("onnx", "export", "Exporting to ONNX")
    try:
        with quietly():
            made: Any = torch.onnx.export(
                program,
                (images,),
                dynamo=True,
                verbose=False,
                input_names=[INPUT],
                output_names=[OUTPUT],
            )
        model = made.model_proto
    except Exception as error:  # an operator without a translation, most often
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        raise ModelError(
            f"The graph has no ONNX form ({reason}). `--format torch-export` may do."
        ) from error
    for value in (model.graph.input[0], model.graph.output[0]):
        value.type.tensor_type.shape.dim[0].dim_param = "batch"
    model.metadata_props.add(key=ABOUT, value=about)
    onnx.save(model, path)


class OnnxGraph:
    """An ONNX file in ONNX Runtime, on the CPU; without a seed its noise is never repeated."""

    def __init__(self, path: Path, seed: int | None = None) -> None:
        runtime = needed("onnxruntime", "export", "Running an ONNX file")
        # A session takes the process's seed, so two sessions would draw the same noise.
        runtime.set_seed(secrets.randbits(62) if seed is None else seed)
        options = runtime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.log_severity_level = 4
        if not path.is_file():
            raise ModelError(f"There is no file {path}.")
        try:
            self.session = runtime.InferenceSession(str(path), options, ["CPUExecutionProvider"])
        except Exception as error:  # ONNX Runtime's errors have no common parent
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
            raise ModelError(f"{path} cannot be run by ONNX Runtime ({reason}).") from error
        self.name = self.session.get_inputs()[0].name
        self.shape = tuple(self.session.get_inputs()[0].shape[1:])
        self.about = self.session.get_modelmeta().custom_metadata_map.get(ABOUT, "{}")

    def __call__(self, images: Images) -> Tensor:
        array = images.detach().cpu().float().contiguous().numpy()
        (logits,) = self.session.run(None, {self.name: array})
        return torch.from_numpy(logits).to(images.device)


def with_given_noise(path: Path, images: Images, noise: Tensor | None) -> Tensor:
    """The logits when the graph's draws are replaced by `noise`: how a random graph is checked."""
    onnx = needed("onnx", "export", "Exporting to ONNX")
    runtime = needed("onnxruntime", "export", "Running an ONNX file")
    model = onnx.load(path)
    feeds = {INPUT: images.numpy()}
    for node in [node for node in model.graph.node if node.op_type == DRAWS]:
        assert noise is not None
        feeds[node.output[0]] = noise.numpy()
        kind = onnx.TensorProto.FLOAT
        model.graph.input.append(onnx.helper.make_tensor_value_info(node.output[0], kind, None))
        model.graph.node.remove(node)
    session = runtime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return torch.from_numpy(session.run(None, feeds)[0])
