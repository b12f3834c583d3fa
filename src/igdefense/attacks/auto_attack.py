"""AutoAttack, composed of our APGD and of pyautoattack's FAB-T and Square."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Generator, nn

from igdefense.attacks.apgd import APGD, TargetedAPGD
from igdefense.attacks.attack import Attack, require_positive
from igdefense.attacks.fab import FABT
from igdefense.attacks.objective import misclassified
from igdefense.attacks.square import Square
from igdefense.attacks.threat import Threat
from igdefense.attacks.views import EoT, View, as_view
from igdefense.errors import SettingError
from igdefense.randomness import Streams
from igdefense.types import Images, Labels


@dataclass(frozen=True, kw_only=True)
class AutoAttack:
    """Attacks in a row, each on the images the view still classifies right (arXiv:2003.01690).

    Images that no attack breaks are returned clean. What becomes of an image does not depend on
    the others of its batch.
    """

    version: ClassVar[int] = 1

    threat: Threat
    attacks: tuple[Attack, ...]
    samples: int = 1  # EoT draws, unless the view has its own

    def __post_init__(self) -> None:
        require_positive(self, "samples")
        if not self.attacks or any(attack.threat != self.threat for attack in self.attacks):
            raise SettingError(f"AutoAttack needs attacks within {self.threat!r}, got {self!r}.")

    @classmethod
    def standard(
        cls,
        threat: Threat,
        *,
        steps: int = 100,
        restarts: int = 1,
        targets: int | None = None,
        queries: int = 5000,
        fab_steps: int = 100,
        fab_restarts: int = 1,
        square_restarts: int = 1,
    ) -> "AutoAttack":
        """APGD-CE, targeted APGD-DLR, FAB-T, Square: for deterministic models."""
        attacks = (
            APGD(threat=threat, steps=steps, restarts=restarts),
            TargetedAPGD(threat=threat, steps=steps, restarts=restarts, targets=targets),
            FABT(threat=threat, steps=fab_steps, restarts=fab_restarts, targets=targets),
            Square(threat=threat, queries=queries, restarts=square_restarts),
        )
        return cls(threat=threat, attacks=attacks)

    @classmethod
    def stronger(cls, threat: Threat) -> "AutoAttack":
        """APGD with 200 steps and 10 restarts, FAB-T with 10, Square with 5 (arXiv:2409.15190)."""
        return cls.standard(threat, steps=200, restarts=10, fab_restarts=10, square_restarts=5)

    @classmethod
    def rand(
        cls, threat: Threat, *, steps: int = 100, restarts: int = 1, samples: int = 20
    ) -> "AutoAttack":
        """APGD-CE and APGD-DLR over EoT draws: for random models."""
        attacks = (
            APGD(threat=threat, loss="ce", steps=steps, restarts=restarts),
            APGD(threat=threat, loss="dlr", steps=steps, restarts=restarts),
        )
        return cls(threat=threat, attacks=attacks, samples=samples)

    def __call__(
        self, view: View | nn.Module, images: Images, labels: Labels, rng: Generator | Streams
    ) -> Images:
        view, rng = as_view(view), Streams.of(rng, len(images))
        if self.samples > 1 and view.samples == 1:
            view = EoT(view, self.samples)
        x, standing = images.clone(), ~misclassified(view, images, labels)
        for stage, attack in enumerate(self.attacks):
            left = standing.nonzero().flatten()
            if not len(left):
                break
            seen, clean, classes = view[left], images[left], labels[left]
            tried = attack(seen, clean, classes, rng=rng[left].child("stage", stage))
            fell = misclassified(seen, tried, classes)
            x[left[fell]], standing[left[fell]] = tried[fell], False
        return x
