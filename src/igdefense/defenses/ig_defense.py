"""IG-Defense: guess the class, keep the neurons that matter to it, predict from those."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from igdefense.defenses.noise import Kind, Noise
from igdefense.defenses.saved import read_folder, write_folder
from igdefense.errors import ModelError, OutputError, RankingError, SettingError
from igdefense.layers import neurons_of, scale_neurons, watched
from igdefense.models.fingerprint import hash_text, identity
from igdefense.randomness import Key
from igdefense.rankings.ranking import Ranking
from igdefense.split import Split, State, activations_of, detached, split, with_activations
from igdefense.types import Activations, Images, Labels, Logits


class IGDefense(nn.Module):
    """A classifier that keeps only the neurons important to the class it first guesses.

    Section 4 of the paper (arXiv:2409.15190): a soft pseudo-label from a noisy first pass, a mask
    m·ŷ on one layer, a second pass on the clean input. Gradients flow through both passes. At
    temperature 0, the limit, the guess is one class and no gradient flows through it.
    """

    masks: Tensor
    kinds: ClassVar[dict[str, type["IGDefense"]]] = {}
    """Its relatives with the same settings, by name, for `load_defense`."""

    def __init_subclass__(cls) -> None:
        IGDefense.kinds[cls.__name__] = cls

    def __init__(
        self,
        model: nn.Module,
        ranking: Ranking,
        keep: int,
        *,
        sigma: float = 4 / 255,
        samples: int = 1,
        temperature: float = 0.01,
        seed: int = 0,
        noise: Kind = "fresh",
    ) -> None:
        super().__init__()
        if model.training:
            raise ModelError("The model is in train mode; call model.eval() before defending it.")
        if not temperature >= 0:
            raise SettingError(
                f"temperature = {temperature:g}; expected a positive number, or 0 for a hard mask."
            )
        self.model, self.ranking, self.keep = model, ranking, keep
        self.temperature = temperature
        self.noise = Noise(sigma, samples, seed, noise)
        self.random = sigma > 0 and noise == "fresh"
        self.register_buffer("masks", ranking.masks(keep), persistent=False)
        self._split: Split | None = None
        self._split_at()
        self.eval()

    def forward(
        self, images: Images, keys: Sequence[Key] | None = None, shared: Tensor | None = None
    ) -> Logits:
        """Logits; `keys`, one per image, make the noise independent of the batch.

        Where many draws are made on the same images, `shared` says what `shared(images)` said.
        """
        first, state = self._first_pass(images, keys, shared)
        return self.answer(state, self.guess(first))

    def guess(self, first: Logits) -> Tensor:
        """The soft pseudo-label that the first pass's logits make; one class at temperature 0."""
        if self.temperature == 0:
            return self.sure(first.argmax(1)).to(first)
        return (first / self.temperature).softmax(dim=1)

    def sure(self, classes: Labels) -> Tensor:
        """The pseudo-label that is sure of these classes."""
        return F.one_hot(classes, self.ranking.classes)

    def answer(self, state: State, guess: Tensor) -> Logits:
        """The logits of the second pass, each class's mask having its share of the guess."""
        masks = self._masks_for(guess, state)
        return self.second_pass(state, guess.to(masks) @ masks)

    def shared(self, images: Images) -> Tensor | None:
        """What does not change from draw to draw, the clean activations; None if not separable."""
        parts = self._split_at()
        if self.noise.sigma == 0 or not parts.separate:
            return None
        state = parts.before(images)
        return state if isinstance(state, Tensor) else None

    def pseudo_label(self, images: Images, keys: Sequence[Key] | None = None) -> Tensor:
        """The soft pseudo-label of the first pass: images x classes."""
        return self.guess(self._first_pass(images, keys)[0])

    def paths(self, images: Images, keys: Sequence[Key] | None = None) -> tuple[Logits, Logits]:
        """The logits twice, with gradients through the guess alone and the masked pass alone."""
        first, state = self._first_pass(images, keys)
        guess = self.guess(first)
        return self.answer(detached(state), guess), self.answer(state, guess.detach())

    def state_of(self, images: Images) -> State:
        """Where the second pass of these images begins, without any noise."""
        return self._split_at().before(images)

    def activations(self, images: Images) -> Activations:
        """The output of the masked layer."""
        return activations_of(self._split_at().before(images))

    def second_pass(self, state: State, mask: Tensor) -> Logits:
        """The logits when each neuron is multiplied by its entry of `mask` (images x neurons)."""
        masked = scale_neurons(activations_of(state), mask)
        return self._split_at().resume(with_activations(state, masked))

    def _first_pass(
        self, images: Images, keys: Sequence[Key] | None, shared: Tensor | None = None
    ) -> tuple[Logits, State]:
        """Mean logits under noise, and the clean input's state at the layer."""
        parts = self._split_at()
        state: State
        if self.noise.sigma == 0:
            state = parts.before(images)
            return parts.after(state), state
        noisy = self.noise.around(images, keys)
        if shared is not None:
            logits = self.model(_quick(noisy))
            return logits.unflatten(0, (self.noise.samples, images.shape[0])).mean(0), shared
        # One batch for both, unless somebody watches a layer and expects a row for each image.
        together = parts.separate and not watched(self.model)
        states = parts.before(_joined(noisy, images)) if together else None
        if isinstance(states, Tensor):  # noisy and clean inputs shared one batch
            count = noisy.shape[0]  # not len(), which would fix the batch of an exported graph
            logits, state = parts.after(states[:count]), states[count:]
        else:  # the layer cannot be cut off cleanly, or the first call found its trace to be wrong
            logits, state = self.model(noisy), parts.before(images)
        return logits.unflatten(0, (self.noise.samples, images.shape[0])).mean(0), state

    def _masks_for(self, guess: Tensor, state: State) -> Tensor:
        activations = activations_of(state)
        self._check_fits(self.ranking, guess.shape[1], neurons_of(activations))
        return self.masks.to(activations)

    def _check_fits(self, ranking: Ranking, classes: int, neurons: int) -> None:
        if ranking.scores.shape != (classes, neurons):
            raise RankingError(
                f"The ranking is for {ranking.classes} classes and {ranking.neurons} neurons; the "
                f"model has {classes} classes and {neurons} neurons at {ranking.layer!r}."
            )

    def _split_at(self) -> Split:
        if self._split is None:
            self._split = split(self.model, self.ranking.layer)
        return self._split

    def varied(
        self,
        rerank: Callable[[Ranking], Ranking] = lambda own: own,
        rekeep: Callable[[Ranking, int], int] = lambda _, keep: keep,
        **changes: Any,
    ) -> "IGDefense":
        """The same kind of defense with another ranking, another keep or other settings."""
        settings = self.settings | {"keep": rekeep(self.ranking, self.keep)} | changes
        return type(self)(self.model, rerank(self.ranking), **settings)

    @property
    def settings(self) -> dict[str, Any]:
        """Everything but the model and the ranking."""
        return {
            "keep": self.keep,
            "sigma": self.noise.sigma,
            "samples": self.noise.samples,
            "temperature": self.temperature,
            "seed": self.noise.seed,
            "noise": self.noise.kind,
        }

    def identity(self) -> str:
        """Names the defense: its base model, its masks and its settings."""
        parts = (identity(self.model), self.ranking.fingerprint, sorted(self.settings.items()))
        return hash_text(type(self).__name__, *parts)

    def save(self, folder: str | Path) -> None:
        """Write a folder that `load_defense` reads: settings, ranking and weights."""
        write_folder(Path(folder), self.model, self.ranking, self.settings, type(self).__name__)

    def extra_repr(self) -> str:
        return (
            f"{self.ranking!r}, keep={self.keep}, temperature={self.temperature:g}, {self.noise!r}"
        )

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_split": None}  # made again where it is needed


def _joined(noisy: Tensor, images: Images) -> Tensor:
    """Both in one batch."""
    return _quick(torch.cat([noisy, images]))


def _quick(images: Images) -> Images:
    """On a CPU, in the memory format in which convolutions are faster."""
    on_cpu = images.device.type == "cpu"
    return images.contiguous(memory_format=torch.channels_last) if on_cpu else images


def defend(
    model: nn.Module,
    ranking: Ranking,
    keep: int,
    *,
    sigma: float = 4 / 255,
    samples: int = 1,
    temperature: float = 0.01,
    seed: int = 0,
    noise: Kind = "fresh",
    force: bool = False,
) -> IGDefense:
    """The model inside IG-Defense; a ranking made for other weights is refused unless forced."""
    ranking.check_belongs(model, force=force)
    settings: dict[str, Any] = {"sigma": sigma, "samples": samples, "temperature": temperature}
    return IGDefense(model, ranking, keep, **settings, seed=seed, noise=noise)


def load_defense(folder: str | Path, model: nn.Module | None = None) -> IGDefense:
    """Read a saved defense; `model` is needed where the base model did not come by a string."""
    base, ranking, settings, kind = read_folder(Path(folder), model)
    if kind != IGDefense.__name__ and kind not in IGDefense.kinds:
        raise OutputError(f"{folder} holds a defense of an unknown kind, {kind!r}.")
    ranking.check_belongs(base)
    return IGDefense.kinds.get(kind, IGDefense)(base, ranking, **settings)
