"""IG-Defense with masks on several layers at once."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

from torch import Tensor, nn

from igdefense.defenses.ig_defense import IGDefense
from igdefense.errors import OutputError, SettingError
from igdefense.layers import edited, neurons_of, scale_neurons
from igdefense.models.fingerprint import hash_text
from igdefense.randomness import Key
from igdefense.rankings.ranking import Ranking
from igdefense.split import State
from igdefense.types import Activations, Images, Logits


class LayeredDefense(IGDefense):
    """IG-Defense that masks several layers in the second pass, all by the same guess.

    `keep` is one number for all layers, or one for each. With one layer it is `IGDefense`.
    """

    def __init__(
        self,
        model: nn.Module,
        rankings: Sequence[Ranking],
        keep: int | Sequence[int],
        **settings: Any,
    ) -> None:
        keeps = [keep] * len(rankings) if isinstance(keep, int) else list(keep)
        names = [ranking.layer for ranking in rankings]
        if not names or len(set(names)) < len(names) or len(keeps) != len(names):
            raise SettingError(
                f"Masks of the layers {names} with keep = {keep}; expected rankings of different "
                "layers, and one keep for all or for each of them."
            )
        super().__init__(model, rankings[-1], keeps[-1], **settings)
        self.rankings, self.keeps = tuple(rankings), tuple(keeps)
        for index, (ranking, count) in enumerate(zip(rankings, keeps, strict=True)):
            self.register_buffer(f"masks_{index}", ranking.masks(count), persistent=False)

    def answer(self, state: State, guess: Tensor) -> Logits:
        """The whole model on the clean images, which are the state, under the layers' masks."""
        assert isinstance(state, Tensor)
        with ExitStack() as edits:
            for index, ranking in enumerate(self.rankings):
                masks = self.get_buffer(f"masks_{index}").to(state)
                masked = partial(self._masked, ranking=ranking, masks=masks, guess=guess)
                edits.enter_context(edited(self.model, ranking.layer, masked))
            return self.model(state)

    def _masked(
        self, output: Activations, ranking: Ranking, masks: Tensor, guess: Tensor
    ) -> Activations:
        self._check_fits(ranking, guess.shape[1], neurons_of(output))
        return scale_neurons(output, guess.to(masks) @ masks)

    def shared(self, images: Images) -> Tensor | None:
        """Nothing: from the first mask on each draw has a pass of its own."""
        return None

    def _first_pass(
        self, images: Images, keys: Sequence[Key] | None, shared: Tensor | None = None
    ) -> tuple[Logits, State]:
        noisy = images if self.noise.sigma == 0 else self.noise.around(images, keys)
        return self.model(noisy).unflatten(0, (-1, images.shape[0])).mean(0), images

    def state_of(self, images: Images) -> State:
        return images

    def varied(
        self,
        rerank: Callable[[Ranking], Ranking] = lambda own: own,
        rekeep: Callable[[Ranking, int], int] = lambda _, keep: keep,
        **changes: Any,
    ) -> "LayeredDefense":
        keeps = [rekeep(*pair) for pair in zip(self.rankings, self.keeps, strict=True)]
        settings = {k: v for k, v in self.settings.items() if k != "keep"} | changes
        return LayeredDefense(self.model, [*map(rerank, self.rankings)], keeps, **settings)

    @property
    def settings(self) -> dict[str, Any]:
        return super().settings | {"keep": list(self.keeps)}

    def identity(self) -> str:
        return hash_text(super().identity(), [ranking.fingerprint for ranking in self.rankings])

    def save(self, folder: object) -> None:
        raise OutputError("A defense with masks on several layers cannot be saved as a folder yet.")
