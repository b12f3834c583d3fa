"""What every attack is: settings in fields, one call."""

from typing import ClassVar, Protocol, runtime_checkable

from torch import Generator, nn

from igdefense.attacks.threat import Threat
from igdefense.attacks.views import View
from igdefense.errors import SettingError
from igdefense.randomness import Streams
from igdefense.types import Images, Labels


@runtime_checkable
class Attack(Protocol):
    """One image for each image, inside the threat model; it never says whether it succeeded."""

    version: ClassVar[int]
    """Raised whenever a change of the attack's code changes its numbers."""

    @property
    def threat(self) -> Threat: ...

    def __call__(
        self, view: View | nn.Module, images: Images, labels: Labels, rng: Generator | Streams
    ) -> Images: ...


def require_positive(attack: object, *settings: str) -> None:
    """Refuse a setting that counts something and is below 1; None means the default."""
    for name in settings:
        value = getattr(attack, name)
        if value is not None and value < 1:
            raise SettingError(f"{type(attack).__name__} needs {name} >= 1, got {value}.")


def require_known(attack: object, name: str, *known: str) -> None:
    """Refuse a setting that is not one of the known words."""
    value = getattr(attack, name)
    if value not in known:
        raise SettingError(
            f"{type(attack).__name__} has no {name} {value!r}; choose {', '.join(known)}."
        )
