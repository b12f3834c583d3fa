"""The moving average of the weights, written out."""

import pytest
import torch
from torch import nn

from igdefense.errors import SettingError
from igdefense.training.average import Average


class One(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))
        self.register_buffer("count", torch.tensor(0))


def test_the_average_is_the_written_out_mean_and_begins_quickly() -> None:
    model = One()
    average = Average(model, 0.3)
    expected, decays = 0.0, [1 / 10, 2 / 11, 3 / 12, 0.3, 0.3]
    for step, decay in enumerate(decays, start=1):
        with torch.no_grad():
            model.weight.fill_(step**2)
            model.get_buffer("count").fill_(step)
        average.update(model)
        expected = decay * expected + (1 - decay) * step**2
        assert average.model.get_parameter("weight").item() == pytest.approx(expected)
    assert average.model.get_buffer("count").item() == 5  # whole numbers are not averaged
    assert model.weight.item() == 25


@pytest.mark.parametrize("decay", [0.0, 1.0, -1.0, float("nan")])
def test_a_decay_that_averages_nothing_is_refused(decay: float) -> None:
    with pytest.raises(SettingError, match=r"is outside \(0, 1\)"):
        Average(One(), decay)
