"""SODEF's head: features -> projection -> ODE -> classes, as a value that saves and loads."""

import importlib.resources
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Generator, Tensor, nn

from igdefense.defenses.rivals.inner import later, unchanged
from igdefense.defenses.rivals.ode import Points, SineField, Solver, solve
from igdefense.errors import ModelError, SettingError
from igdefense.files import written_whole
from igdefense.models.fingerprint import weights_fingerprint
from igdefense.types import Logits

FORMAT = "igdefense-sodef-1"
WIDTH = 64
SHIPPED = "resnet18-w16-fat"
Features = Float[Tensor, "batch features"]


@dataclass(frozen=True)
class Shape:
    """The layers between the features and the ODE, and those inside it."""

    projection: tuple[int, ...]  # hidden widths, each followed by tanh; none: one orthogonal matrix
    field: tuple[int, ...]  # hidden widths of the ODE's right-hand side


SHAPES = {"rebuffi": Shape((), ()), "trades": Shape((2048,), (256, 256))}


class Head(nn.Module):
    """What SODEF puts in the place of a classifier's last layer (Kang et al., arXiv:2110.12976).

    `rebuffi`: an orthogonal projection to 64 without bias, an ODE of one layer. `trades`: linear
    layers to 2048 and 64, each with tanh, an ODE of three layers (256 wide). Both end in one linear
    layer. `layer` and `base` name where the features come from; `about` is kept with the file.
    """

    def __init__(
        self,
        features: int,
        classes: int,
        shape: str = "rebuffi",
        *,
        layer: str,
        base: str,
        about: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        if shape not in SHAPES:
            raise SettingError(
                f"There is no head {shape!r} of SODEF; expected one of {', '.join(SHAPES)}."
            )
        hidden = SHAPES[shape]
        self.features, self.classes, self.shape = features, classes, shape
        self.layer, self.base, self.about = layer, base, dict(about or {})
        self.projection = _projection(features, hidden.projection)
        self.field = SineField((WIDTH, *hidden.field, WIDTH))
        self.last = nn.Linear(WIDTH, classes)
        self.eval()

    def forward(self, features: Features, solver: Solver = "rk4") -> Logits:
        return self.last(solve(self.field, self.projection(features), solver))

    def around(self, features: Features, solver: Solver = "rk4") -> Logits:
        """The same logits, with the ODE taken for the identity in the backward pass."""
        start: Points = self.projection(features)
        with torch.no_grad():
            end = solve(self.field, start, solver)
        return self.last(later(end, unchanged, start))

    @torch.no_grad()
    def reset(self, rng: Generator) -> "Head":
        """Fresh weights from this generator, uniform as torch has them; `rebuffi`'s orthogonal."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                bound = 1 / math.sqrt(module.in_features)
                for parameter in module.parameters():
                    parameter.uniform_(-bound, bound, generator=rng)
        if isinstance(self.projection, nn.Linear):
            nn.init.orthogonal_(self.projection.weight, generator=rng)
        return self

    def check_belongs(self, model: nn.Module) -> None:
        """Refuse a base model whose weights are not those the head was trained on."""
        given = weights_fingerprint(model)
        if given != self.base:
            raise ModelError(
                f"This SODEF head was trained on a base model with fingerprint {self.base}; the "
                f"given {type(model).__name__} has {given}. Train one for it: "
                "`igd train sodef --base MODEL --out FOLDER`."
            )

    def save(self, path: str | Path) -> None:
        """Write a safetensors file; everything else is in its header."""
        names = ("features", "classes", "shape", "layer", "base", "about")
        record = {name: getattr(self, name) for name in names}
        tensors = {name: value.cpu().contiguous() for name, value in self.state_dict().items()}
        with written_whole(Path(path)) as part:
            save_file(tensors, part, metadata={"format": FORMAT, "head": json.dumps(record)})

    @classmethod
    def load(cls, path: str | Path, model: nn.Module | None = None) -> "Head":
        """Read a head; with `model`, refuse one that was trained for other weights."""
        if not Path(path).is_file():
            raise ModelError(f"There is no SODEF head {path}. `igd train sodef` makes one.")
        try:
            with safe_open(path, framework="pt") as file:
                header = file.metadata() or {}
                if header.get("format") != FORMAT:
                    raise ModelError(
                        f"{path} is a safetensors file but not a SODEF head of this project; "
                        "`igd train sodef` makes one."
                    )
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            head = cls(**json.loads(header["head"]))
            head.load_state_dict(tensors)
        except (SafetensorError, OSError, KeyError, ValueError, TypeError, RuntimeError) as error:
            raise ModelError(f"{path} is not a whole SODEF head ({error}).") from error
        if model is not None:
            head.check_belongs(model)
        return head

    def extra_repr(self) -> str:
        return f"{self.shape}, {self.features} features of {self.layer!r}, {self.classes} classes"


def shipped_head(model: nn.Module | None = None) -> Head:
    """The trained head of the embedded model."""
    with importlib.resources.as_file(_shipped(".safetensors")) as path:
        return Head.load(path, model)


def shipped_card() -> dict[str, Any]:
    """How that head was made and how well it does."""
    card: dict[str, Any] = json.loads(_shipped(".json").read_text(encoding="utf-8"))
    return card


def _shipped(suffix: str) -> Any:
    folder = importlib.resources.files("igdefense.defenses.rivals") / "heads"
    return folder / f"{SHIPPED}{suffix}"


def _projection(features: int, hidden: tuple[int, ...]) -> nn.Module:
    if not hidden:
        return nn.Linear(features, WIDTH, bias=False)
    widths, layers = (features, *hidden, WIDTH), list[nn.Module]()
    for one, other in pairwise(widths):
        layers += [nn.Linear(one, other), nn.Tanh()]
    return nn.Sequential(*layers)
