"""SODEF's differential equation dz/dt = f(z), and its solution at the end of the time."""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor, nn

from igdefense.errors import SettingError

Points = Float[Tensor, "batch width"]
Solver = Literal["rk4", "dopri5"]
END = 5.0
TOLERANCE = 1e-3
STEPS = 20  # of rk4: nearer the solution of a trained block than dopri5 at its tolerances


class SineField(nn.Module):
    """f(z): linear layers, each followed by sin(-(Wz + b)); time does not enter."""

    def __init__(self, widths: Sequence[int]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(one, other) for one, other in pairwise(widths))

    def forward(self, z: Points) -> Points:
        for layer in self.layers:
            z = torch.sin(-layer(z))
        return z


def solve(
    field: Callable[[Points], Points],
    start: Points,
    solver: Solver = "rk4",
    *,
    end: float = END,
    steps: int = STEPS,
) -> Points:
    """z(end) of dz/dt = field(z), z(0) = start; gradients flow through the solver's own steps.

    `rk4` takes `steps` equal steps, so an image's answer is its own. `dopri5` (tolerances 1e-3, as
    published) chooses its steps by the error over all it is given; here every image is a problem
    of its own, for otherwise its logits would depend on its neighbours. It is far slower.
    """
    check_solver(solver)
    if not (steps >= 1 and end > 0 and math.isfinite(end)):
        raise SettingError(f"steps = {steps}, end = {end:g}; expected at least 1, and above 0.")
    odeint = _odeint()
    times = torch.tensor([0.0, end], dtype=start.dtype, device=start.device)

    def rate(_: Tensor, z: Points) -> Points:
        return field(z)

    if solver == "rk4":
        last: Tensor = odeint(rate, start, times, method="rk4", options={"step_size": end / steps})
        return last[-1]
    given = {"method": "dopri5", "rtol": TOLERANCE, "atol": TOLERANCE}
    ends = [odeint(rate, row, times, **given)[-1] for row in start.split(1)]
    return torch.cat(ends) if ends else start


def check_solver(solver: str) -> None:
    """Refuse a solver that is not there, and any if torchdiffeq is not installed."""
    if solver not in get_args(Solver):
        raise SettingError(f"solver = {solver!r}; expected {' or '.join(get_args(Solver))}.")
    _odeint()


def _odeint() -> Callable[..., Any]:
    try:
        from torchdiffeq import odeint  # noqa: PLC0415  (an extra)
    except ImportError as error:
        raise SettingError(
            "SODEF needs torchdiffeq, which is not installed: pip install 'igdefense[sodef]'."
        ) from error
    found: Callable[..., Any] = odeint
    return found
