"""How long, how much at a time, and how fast."""

from dataclasses import dataclass

from igdefense.errors import SettingError

SHAPES = ("cyclic", "piecewise")


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Learning rate 0 -> peak -> 0 in straight lines, its peak at `warm` of the steps (cyclic),
    or peak, a tenth of it after half and a hundredth after three quarters (piecewise)."""

    epochs: int = 12
    batch: int = 128
    peak: float = 0.2
    warm: float = 0.4
    momentum: float = 0.9
    weight_decay: float = 5e-4
    shape: str = "cyclic"

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.batch < 1:
            raise SettingError(f"epochs and batch must be at least 1, got {self!r}.")
        if self.shape not in SHAPES:
            raise SettingError(f"No schedule {self.shape!r}; expected one of: {', '.join(SHAPES)}.")

    def rate(self, progress: float) -> float:
        if self.shape == "piecewise":
            return self.peak * (1.0 if progress <= 0.5 else 0.1 if progress <= 0.75 else 0.01)
        up, down = progress / self.warm, (1 - progress) / (1 - self.warm)
        return self.peak * max(0.0, min(up, down))
