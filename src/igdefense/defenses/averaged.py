"""IG-Defense that answers from the noisy copies too."""

from collections.abc import Sequence

from torch import Tensor

from igdefense.defenses.ig_defense import IGDefense
from igdefense.randomness import Key
from igdefense.split import State, activations_of
from igdefense.types import Images, Logits


class AveragedDefense(IGDefense):
    """IG-Defense whose masked pass sees the noise of the first and averages its logits over it.

    The paper's second pass is on the clean input. Without noise the two are the same.
    """

    def shared(self, images: Images) -> Tensor | None:
        """Nothing: the second pass has the noise of its draw too."""
        return None

    def _first_pass(
        self, images: Images, keys: Sequence[Key] | None, shared: Tensor | None = None
    ) -> tuple[Logits, State]:
        """Mean logits under noise, and the states of the noisy copies, sample by sample."""
        if self.noise.sigma == 0:
            return super()._first_pass(images, keys, shared)
        parts = self._split_at()
        state = parts.before(self.noise.around(images, keys))
        logits = parts.after(state)
        return logits.unflatten(0, (self.noise.samples, images.shape[0])).mean(0), state

    def second_pass(self, state: State, mask: Tensor) -> Logits:
        """The mean over an image's copies; a state without noise holds one of each."""
        copies = activations_of(state).shape[0] // mask.shape[0]
        logits = super().second_pass(state, mask.repeat(copies, 1))
        return logits.unflatten(0, (copies, mask.shape[0])).mean(0)
