"""Each recipe's loss is its paper's formula, and lowers the robust loss of a toy problem."""

from collections.abc import Callable

import pytest
import torch
from torch import Generator, Tensor, nn

from igdefense.attacks.pgd import PGD
from igdefense.attacks.threat import Linf
from igdefense.errors import SettingError
from igdefense.models.architectures import build
from igdefense.randomness import generator
from igdefense.training.augment import distort
from igdefense.training.awp import AWP
from igdefense.training.recipe import Recipe, Step
from igdefense.training.recipes import (
    DAJAT,
    FAT,
    GAT,
    LASAT,
    OAAT,
    PGDAT,
    RECIPES,
    TRADES,
    NuAT,
)
from igdefense.training.recipes.las_at import SIZES, STRIDES
from igdefense.training.recipes.oaat import eyes
from training.toy import climbed, divergence, entropy, tiny_batch, tiny_net

EPS = 0.1


def lost(recipe: Recipe, net: nn.Module, step: Step = Step()) -> Tensor:  # noqa: B008
    images, labels = tiny_batch()
    return recipe.objective(net, images, labels, step, rng())(net)


def rng() -> Generator:
    return Generator().manual_seed(7)


def uniform(images: Tensor, size: float, drawn: Generator) -> Tensor:
    return torch.empty(images.shape).uniform_(-size, size, generator=drawn)


def test_fat_takes_one_step_from_a_random_start() -> None:
    net, (images, labels) = tiny_net(), tiny_batch()
    delta = uniform(images, EPS, rng()).requires_grad_()
    entropy(net, images + delta, labels).backward()
    assert delta.grad is not None
    moved = (delta.detach() + 0.12 * delta.grad.sign()).clamp(-EPS, EPS)
    expected = entropy(net, (images + moved).clamp(0, 1), labels)
    torch.testing.assert_close(lost(FAT(eps=EPS, step=0.12), net), expected)


def test_pgd_at_is_the_cross_entropy_at_pgd_s_points() -> None:
    net, (images, labels) = tiny_net(), tiny_batch()
    start = images + uniform(images, EPS, rng())
    x = climbed(start, images, lambda x: entropy(net, x, labels), EPS, EPS / 4, 3)
    torch.testing.assert_close(lost(PGDAT(eps=EPS, steps=3), net), entropy(net, x, labels))


def test_trades_adds_the_divergence_that_its_attack_raises() -> None:
    net, (images, labels) = tiny_net(), tiny_batch()
    x = pushed(net, images, EPS, EPS / 4, 3, rng())
    expected = trades_loss(net, images, x, labels, beta=6)
    torch.testing.assert_close(lost(TRADES(eps=EPS, steps=3), net), expected)


def pushed(
    net: nn.Module, images: Tensor, eps: float, step: float, steps: int, drawn: Generator
) -> Tensor:
    clean = net(images).softmax(1).detach()
    start = images + 0.001 * torch.randn(images.shape, generator=drawn)
    return climbed(start, images, lambda x: divergence(clean, net(x).softmax(1)), eps, step, steps)


def trades_loss(net: nn.Module, images: Tensor, x: Tensor, labels: Tensor, beta: float) -> Tensor:
    apart = divergence(net(images).softmax(1), net(x).softmax(1))
    return entropy(net, images, labels) + beta * apart


def squared(net: nn.Module, images: Tensor, x: Tensor) -> Tensor:
    return (net(x).softmax(1) - net(images).softmax(1)).square().sum(1).mean()


def nuclear(net: nn.Module, images: Tensor, x: Tensor) -> Tensor:
    change = net(x) - net(images)
    values: Tensor = torch.linalg.svdvals(change)
    return values.sum() / len(images)


@pytest.mark.parametrize(
    ("recipe", "apart", "weight", "step"),
    [
        (GAT(eps=EPS), squared, 10, Step(0, 0.5)),
        (GAT(eps=EPS), squared, 10, Step(1, 0.5)),
        (GAT(eps=EPS), squared, 40, Step(3, 0.9)),
        (NuAT(eps=EPS), nuclear, 4, Step(0, 0.5)),
        (NuAT(eps=EPS), nuclear, 4, Step(1, 0.5)),
    ],
    ids=["gat, even", "gat, odd", "gat, late", "nuat, even", "nuat, odd"],
)
def test_a_guided_step_is_guided_every_other_time(
    recipe: Recipe,
    apart: Callable[[nn.Module, Tensor, Tensor], Tensor],
    weight: float,
    step: Step,
) -> None:
    net, (images, labels) = tiny_net(), tiny_batch()
    with torch.no_grad():
        net.get_parameter("3.weight").mul_(8)  # else the guide agrees with the cross-entropy
    signs = 2 * torch.randint(2, images.shape, generator=rng()) - 1
    start = (images + EPS / 2 * signs).clamp(0, 1)

    def attacked(guide: float) -> Tensor:
        def loss(x: Tensor) -> Tensor:
            return entropy(net, x, labels) + guide * apart(net, images, x)

        return climbed(start, images, loss, EPS, EPS, 1)

    x, otherwise = attacked(weight), attacked(0)
    assert not torch.equal(x, otherwise)
    x = x if step.number % 2 else otherwise
    expected = entropy(net, images, labels) + weight * apart(net, images, x)
    torch.testing.assert_close(lost(recipe, net, step), expected)


def test_dajat_is_the_mean_of_trades_over_views_and_their_jensen_shannon_divergence() -> None:
    net, (images, labels) = tiny_net(), tiny_batch()
    drawn = rng()
    views = [images, distort(images, drawn)]
    points = [pushed(net, view, EPS / 2, EPS / 2, 2, drawn) for view in views]
    losses = [trades_loss(net, v, x, labels, 11) for v, x in zip(views, points, strict=True)]
    p, q = (net(view).softmax(1) for view in views)
    tie = (divergence(p, (p + q) / 2) + divergence(q, (p + q) / 2)) / 2
    expected = (losses[0] + losses[1]) / 2 + 2 * tie
    torch.testing.assert_close(lost(DAJAT(eps=EPS, views=1), net, Step(0, 0.5)), expected)


@pytest.mark.parametrize(
    ("progress", "eps", "steps"), [(0.2, 0.05, 2), (0.5, 0.1, 4)], ids=["first quarter", "middle"]
)
def test_oaat_is_trades_at_a_growing_budget(progress: float, eps: float, steps: int) -> None:
    net, (images, labels) = tiny_net(), tiny_batch()
    start = images + uniform(images, min(EPS / 2, eps), rng())
    x = climbed(start, images, lambda x: entropy(net, x, labels), eps, eps / steps, steps)
    expected = trades_loss(net, images, x, labels, beta=2)
    recipe = OAAT(eps=EPS, steps=4)
    torch.testing.assert_close(lost(recipe, net, Step(0, progress)), expected)


def test_oaat_softens_the_target_of_the_near_attack_by_the_far_one() -> None:
    net, (images, labels) = tiny_net(), tiny_batch()
    start = images + uniform(images, EPS / 2, rng())
    far = climbed(start, images, lambda x: entropy(net, x, labels), 2 * EPS, EPS / 2, 4)
    near = images + (far - images).clamp(-1.75 * EPS, 1.75 * EPS)
    share = 1 - 0.45 / 2  # half of the last quarter is done
    target = share * net(images).softmax(1) + (1 - share) * net(far).softmax(1)
    apart = divergence(target, net(near).softmax(1))
    expected = entropy(net, images, labels) + 2.5 * apart
    torch.testing.assert_close(lost(OAAT(eps=EPS, steps=4), net, Step(0, 0.875)), expected)


def test_oaat_keeps_every_other_late_attack_like_the_image() -> None:
    net, (images, labels) = tiny_net(), tiny_batch()
    start = images + uniform(images, 1.75 * EPS, rng())

    def unit(x: Tensor) -> Tensor:
        return net(x) / net(x).norm(dim=1, keepdim=True)

    def loss(x: Tensor) -> Tensor:
        unlike = (unit(x) - unit(images).detach()).square().sum(1).mean()
        return entropy(net, x, labels) - 0.5 * unlike

    x = climbed(start, images, loss, 1.75 * EPS, 1.75 * EPS / 4, 4)
    expected = trades_loss(net, images, x, labels, beta=2.5)
    torch.testing.assert_close(lost(OAAT(eps=EPS, steps=4), net, Step(1, 0.875)), expected)


@pytest.mark.parametrize("arch", ["resnet18-w2", "preact-resnet18-w2", "wrn-10-1"])
def test_oaat_sees_a_network_s_penultimate_layer(arch: str) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = build(arch, 3).eval()
    images = torch.rand(2, 3, 32, 32, generator=rng())
    seen, logits = eyes(net)(images)
    torch.testing.assert_close(logits, net(images))
    torch.testing.assert_close(seen.flatten(1).norm(dim=1), torch.ones(2))
    assert seen.ndim == 4


def test_las_at_attacks_each_image_as_its_strategy_says() -> None:
    net, (images, labels) = tiny_net(), tiny_batch()
    recipe, drawn = LASAT(eps=EPS, steps=3), rng()
    chances = [scores.softmax(1) for scores in recipe.strategy(images)]
    picks = [torch.multinomial(p, 1, generator=drawn).flatten().tolist() for p in chances]
    noise = uniform(images, 1.0, drawn)
    points = []
    for i, (size, stride, count) in enumerate(zip(*picks, strict=True)):
        eps, one = EPS * SIZES[size], images[i : i + 1]
        label = labels[i : i + 1]
        points.append(
            climbed(
                one + noise[i : i + 1] * eps,
                one,
                lambda x, label=label: entropy(net, x, label),  # type: ignore[misc]
                eps,
                eps * STRIDES[stride],
                count + 1,
            )
        )
    assert len(set(zip(*picks, strict=True))) > 1
    torch.testing.assert_close(lost(recipe, net), entropy(net, torch.cat(points), labels))


def test_las_at_s_strategy_moves_towards_what_is_rewarded() -> None:
    recipe = LASAT(eps=EPS, steps=2, rate=0.05)
    images = tiny_batch()[0]

    def chance() -> float:
        return float(recipe.strategy(images)[0].softmax(1)[:, 4].mean().detach())

    before = chance()
    for _ in range(20):
        logs = recipe.strategy(images)[0].log_softmax(1)
        picks = torch.arange(6) % 5
        said = logs[torch.arange(6), picks]
        recipe._learn(said, (picks == 4).float())
    assert chance() > 1.5 * before


def test_las_at_learns_every_so_many_batches_and_its_state_can_be_kept() -> None:
    net = tiny_net()
    recipe, other = LASAT(eps=EPS, steps=2, interval=2), LASAT(eps=EPS, steps=2, interval=2)
    first = {k: v.clone() for k, v in recipe.strategy.state_dict().items()}
    lost(recipe, net, Step(0))
    torch.testing.assert_close(recipe.strategy.state_dict(), first, rtol=0, atol=0)
    lost(recipe, net, Step(1))
    assert not torch.equal(recipe.strategy.head.weight, first["head.weight"])
    other.load_state_dict(recipe.state_dict())
    for one in (recipe, other):
        lost(one, net, Step(3))
    kept, loaded = (made.strategy.state_dict() for made in (recipe, other))
    torch.testing.assert_close(loaded, kept, rtol=0, atol=0)


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("awp", [False, True], ids=["", "awp"])
def test_a_recipe_lowers_the_robust_loss_of_a_toy_problem(name: str, awp: bool) -> None:
    plain = RECIPES[name](eps=0.05)
    assert isinstance(plain, Recipe)
    recipe: Recipe = AWP(plain) if awp else plain
    net = tiny_net()
    drawn = generator(0, "toy")
    labels = torch.randint(3, (64,), generator=drawn)
    images = torch.rand(64, 3, 4, 4, generator=drawn) * 0.3
    images[torch.arange(64), labels] += 0.5  # each class has a bright channel of its own
    before = robust_loss(net, images, labels)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for number in range(25):
        loss = recipe.objective(net, images, labels, Step(number, (number + 1) / 25), drawn)(net)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert robust_loss(net, images, labels) < before / 2


def robust_loss(net: nn.Module, images: Tensor, labels: Tensor) -> float:
    net.eval()
    x = PGD(threat=Linf(0.05), steps=10)(net, images, labels, rng())
    net.train()
    return float(entropy(net, x, labels).detach())


def test_smoothed_labels_lift_the_loss_by_their_share_of_the_mean_over_classes() -> None:
    net, (images, labels) = tiny_net(), tiny_batch()
    x = climbed(
        images + uniform(images, EPS, rng()),
        images,
        lambda x: entropy(net, x, labels),
        EPS,
        EPS / 4,
        2,
    )
    evenly = -net(x).log_softmax(1).mean()
    expected = 0.8 * entropy(net, x, labels) + 0.2 * evenly
    recipe = PGDAT(eps=EPS, steps=2, smoothing=0.2)
    torch.testing.assert_close(lost(recipe, net), expected)


@pytest.mark.parametrize("name", [name for name in RECIPES if name not in ("fat", "pgd-at")])
def test_an_attack_leaves_batch_norm_s_statistics_alone(name: str) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(16, 3))
    recipe = RECIPES[name](eps=EPS)
    assert isinstance(recipe, Recipe)
    images, labels = tiny_batch()
    for step in (Step(0, 0.1), Step(1, 0.9)):
        recipe.objective(net.train(), images, labels, step, rng())
        assert net.training
        assert net.get_buffer("1.running_mean").count_nonzero() == 0


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"eps": 8}, r"eps = 8 is outside \(0, 1\]"),
        ({"smoothing": 1.0}, r"smoothing = 1 is outside \[0, 1\)"),
        ({"steps": 0}, "steps = 0; an attack takes at least 1"),
    ],
)
def test_a_setting_out_of_range_is_refused(settings: dict[str, float], says: str) -> None:
    with pytest.raises(SettingError, match=says):
        TRADES(**settings)  # type: ignore[arg-type]
