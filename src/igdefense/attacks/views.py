"""What the adversary sees of the images of a batch: one differentiable draw of logits a call."""

from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from igdefense.attacks.steady import filled, steady
from igdefense.errors import SettingError
from igdefense.randomness import Streams, seed_of
from igdefense.types import Images, Logits


@runtime_checkable
class View(Protocol):
    """A model as the adversary queries it, for the images of one batch."""

    samples: int
    """Draws an attack averages over; 1 unless the view is an `EoT`."""

    def __call__(self, x: Images) -> Logits:
        """One draw."""
        ...

    def __getitem__(self, index: Tensor) -> "View":
        """The same view of some of the images, by position or boolean mask."""
        ...


class Direct:
    """A deterministic model, seen as it is."""

    samples = 1

    def __init__(self, model: nn.Module) -> None:
        self.model = model

    def __call__(self, x: Images, told: Tensor | None = None) -> Logits:
        return steady(self.model, x, told=told)

    def __getitem__(self, index: Tensor) -> "Direct":
        return self


class Keyed:
    """A randomised defense, `defense(images, keys)`, whose noise for image i comes from keys[i].

    Each image has its own count of queries, shared with the narrowed views, so what it is dealt
    depends on its stream and on how often it was asked about, never on its neighbours.
    """

    samples = 1

    def __init__(self, defense: nn.Module, rng: Streams) -> None:
        self.defense = defense
        self.rng = rng
        self._asked = torch.zeros(len(rng), dtype=torch.long)
        self._positions = torch.arange(len(rng))

    def __call__(
        self, x: Images, told: Tensor | None = None, shared: Tensor | None = None
    ) -> Logits:
        if len(x) != len(self.rng):
            raise ValueError(f"This view is of {len(self.rng)} images; it was shown {len(x)}.")
        keys = self.keys()
        self._asked[self._positions] += 1
        return steady(self.defense, x, keys, told, shared)

    def shared(self, x: Images) -> Tensor | None:
        """What all draws at x have in common, if the defense says: it need be computed once."""
        common = getattr(self.defense, "shared", None)
        found: Tensor | None = common(filled(self.defense, x)) if common is not None else None
        return None if found is None else found[: len(x)]

    def keys(self) -> list[int]:
        """What the next call gives the defense."""
        asked = self._asked[self._positions].tolist()
        return [seed_of(seed, "draw", n) for seed, n in zip(self.rng.seeds, asked, strict=True)]

    def __getitem__(self, index: Tensor) -> "Keyed":
        index = index.cpu()
        part = Keyed(self.defense, self.rng[index])
        part._asked, part._positions = self._asked, self._positions[index]
        return part


class EoT:
    """Expectation over transformation: attacks average over `samples` draws (arXiv:1802.00420)."""

    def __init__(self, view: "View | nn.Module", samples: int) -> None:
        if samples < 1:
            raise SettingError(f"EoT averages over at least one draw, got samples = {samples}.")
        self.view = as_view(view)
        self.samples = samples

    def __call__(
        self, x: Images, told: Tensor | None = None, shared: Tensor | None = None
    ) -> Logits:
        view = self.view if shared is None else Sharing(self.view, shared)
        return view(x) if told is None else Told(self.view, told)(x)

    def shared(self, x: Images) -> Tensor | None:
        """What all draws at x have in common."""
        return self.view.shared(x) if isinstance(self.view, Keyed) else None

    def __getitem__(self, index: Tensor) -> "EoT":
        return EoT(self.view[index], self.samples)


class Told:
    """A view of a model that is told one thing about each image: `model(images, keys, told)`."""

    def __init__(self, view: "View", told: Tensor) -> None:
        if not isinstance(view, Direct | Keyed | EoT):
            raise SettingError(f"{type(view).__name__} hands nothing on to its model; use Direct.")
        self.view, self.told, self.samples = view, told, view.samples

    def __call__(self, x: Images) -> Logits:
        return self.view(x, self.told)

    def __getitem__(self, index: Tensor) -> "Told":
        return Told(self.view[index], self.told[index])


class Sharing:
    """A view of one point, with what all its draws have in common already computed."""

    def __init__(self, view: "View", shared: Tensor) -> None:
        assert isinstance(view, Keyed | EoT)
        self.view, self.common, self.samples = view, shared, view.samples

    def __call__(self, x: Images) -> Logits:
        return self.view(x, shared=self.common)

    def __getitem__(self, index: Tensor) -> "Sharing":
        return Sharing(self.view[index], self.common[index])


def shared_by_draws(view: View, x: Images, draws: int) -> Tensor | None:
    """What this many draws of the view at x have in common; None if nothing, or for one draw."""
    return view.shared(x) if draws > 1 and isinstance(view, Keyed | EoT) else None


def sharing(view: View, x: Images, draws: int) -> View:
    """The view, for this many draws at x."""
    shared = shared_by_draws(view, x, draws)
    return view if shared is None else Sharing(view, shared)


def as_view(model: "View | nn.Module") -> View:
    """A view as it is; a plain module, seen directly."""
    return Direct(model) if isinstance(model, nn.Module) else model
