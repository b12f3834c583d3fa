"""Inside the embedded model's defense: what the attacks made for it do there."""

import torch
from matplotlib.figure import Figure
from torch import Tensor

import igdefense as igd
from documentation.pictures import embedded
from documentation.pictures.canvas import GREY, INK, RIGHT, THIRD, WRONG, panels
from igdefense.attacks import APGD, Keyed, Linf
from igdefense.attacks.losses import cw, targeted_cw
from igdefense.attacks.objective import likeliest
from igdefense.expert.every_target import EveryTarget
from igdefense.expert.features import MaskedActivations
from igdefense.expert.joint_mask import BothPasses, JointMask
from igdefense.expert.self_transfer import OTHER_SEED
from igdefense.randomness import Streams

EPS, COUNT = 8 / 255, 24


def routes() -> Figure:
    """Both margins of the joint attack (A4), before and after."""
    data, defense = embedded.shown(COUNT), embedded.defense()
    images, labels = data.images[:], data.labels
    both = BothPasses(defense)
    rng = Streams(range(COUNT))
    attack = JointMask(threat=Linf(EPS), steps=15, targets=1)
    x = attack(Keyed(both, rng.child("view")), images, labels, rng=rng)
    with torch.no_grad():
        goal = likeliest(embedded.model()(images), labels, 1).squeeze(1)
    figure, axes = panels(1, width=4.8, height=3.6)
    before, after = (_margins(both, where, labels, goal) for where in (images, x))
    for start, stop in zip(before.T.tolist(), after.T.tolist(), strict=True):
        axes[0].plot(*zip(start, stop, strict=True), color=GREY, lw=0.6)
    axes[0].plot(*before, "o", color=RIGHT, ms=4, label="clean")
    axes[0].plot(*after, "X", color=WRONG, ms=6, label="attacked (A4)")
    axes[0].axhline(0, color=INK, lw=0.8)
    axes[0].axvline(0, color=INK, lw=0.8)
    axes[0].set_xlabel("first pass: target minus true class")
    axes[0].set_ylabel("second pass, mask of the target:\ntarget minus true class")
    axes[0].set(ylim=(-0.6, None), xlim=(None, 2.4))
    axes[0].text(0.8, 1.9, "both > 0: lost", color=WRONG, fontsize=8)
    axes[0].legend(loc="upper left")
    return figure


@torch.no_grad()
def _margins(both: BothPasses, x: Tensor, labels: Tensor, goal: Tensor) -> Tensor:
    keys = [f"picture {i}" for i in range(len(x))]
    first, second = both(x, keys, goal).chunk(2, dim=1)
    return torch.stack([targeted_cw(part, labels, goal) for part in (first, second)])


def draws() -> Figure:
    """The defense's margin along a line: single draws and their mean."""
    data = embedded.shown(12)
    clean, label = data.images[:1], data.labels[:1]
    attack = APGD(threat=Linf(EPS), loss="cw", steps=20, best="highest")
    there = attack(embedded.model(), clean, label, rng=Streams([0]))
    places = torch.linspace(0.5, 0.8, 31)
    line = torch.cat([clean + float(t) * (there - clean) for t in places])
    found = torch.stack(
        [embedded.margins(line, label.expand(len(line)), draw) for draw in range(40)]
    )
    figure, axes = panels(1, width=5.6, height=2.9)
    for row in found[:8]:
        axes[0].plot(places, row, color=GREY, lw=0.8)
    axes[0].plot([], [], color=GREY, lw=0.8, label="eight single draws: each is frozen noise (A6)")
    axes[0].plot(places, found.mean(0), color=RIGHT, lw=2, label="mean of 40 draws (A7)")
    axes[0].axhline(0, color=INK, lw=0.8)
    axes[0].set_xlabel("from the clean image (0) to a transferred point (1)")
    axes[0].set_ylabel("margin of the wrong classes")
    axes[0].set_xlim(0.5, 0.8)
    axes[0].legend(loc="upper left")
    return figure


def features() -> Figure:
    """Mean activation of the kept neurons of both classes, before and after A11."""
    data, net = embedded.shown(COUNT), MaskedActivations(embedded.defense())
    images, labels = data.images[:], data.labels
    attack = EveryTarget(threat=Linf(EPS), steps=15, targets=1)
    x = attack(net, images, labels, rng=Streams(range(COUNT)))
    with torch.no_grad():
        goal = likeliest(net(images), labels, 1)
        rows = [
            net(where).gather(1, torch.cat([labels[:, None], goal], 1)) for where in (images, x)
        ]
    figure, axes = panels(1, width=4.4, height=2.9)
    for offset, row, colour, name in (
        (-0.2, rows[0], RIGHT, "clean"),
        (0.2, rows[1], WRONG, "A11"),
    ):
        axes[0].bar([offset, 1 + offset], row.mean(0), 0.36, color=colour, alpha=0.35, label=name)
        for place in (0, 1):
            spread = torch.linspace(-0.12, 0.12, COUNT) + place + offset
            axes[0].plot(spread, row[:, place], ".", color=colour, ms=3)
    axes[0].set_xticks([0, 1], ["the true class's neurons", "the target's neurons"])
    axes[0].set_ylabel("mean activation")
    axes[0].legend(loc="upper right")
    return figure


def relatives() -> Figure:
    """Which of one class's neurons the relatives of A12 keep."""
    own = embedded.ranking()
    label = list(igd.load_data("embedded:test", n=1).class_names).index("cat")
    order = own.order[label]
    rows = {
        "deployed, k = 16": own.masks(16),
        "self-half, k = 8": own.masks(8),
        "self-double, k = 32": own.masks(32),
        "self-absolute, k = 16": igd.absolute(own).masks(16),
        "self-shuffled, k = 16": igd.shuffled(own, OTHER_SEED).masks(16),
    }
    kept = torch.stack([masks[label][order] for masks in rows.values()])
    figure, axes = panels(1, height=1.9)
    for row, mask in enumerate(kept):
        axes[0].broken_barh([(-0.5, len(mask))], (row - 0.4, 0.8), color="#eceff1")
        places = [(place - 0.45, 0.9) for place in mask.nonzero().flatten().tolist()]
        axes[0].broken_barh(places, (row - 0.4, 0.8), color=INK)
    axes[0].set_yticks(range(len(rows)), list(rows))
    axes[0].set_xlabel("the 128 neurons of layer4, most important to 'cat' first")
    axes[0].set(xlim=(-1, 128), ylim=(len(rows) - 0.5, -0.5))
    return figure


def warm() -> Figure:
    """The defense's mean margin while APGD climbs, from two starts (A13)."""
    data, defense = embedded.shown(COUNT), embedded.defense()
    images, labels = data.images[:], data.labels
    deep = EveryTarget(threat=Linf(EPS), steps=15, targets=2)
    rng = Streams(range(COUNT))
    start = deep(embedded.model(), images, labels, rng=rng)
    figure, axes = panels(1, width=5.2, height=2.9)
    for begin, colour, name in ((None, RIGHT, "random start"), (start, WRONG, "warm start")):
        seen = _Margins(defense, rng.child("view", name), labels)
        attack = APGD(threat=Linf(EPS), loss="cw", steps=15, best="strict")
        attack(seen, images, labels, rng=rng, **({} if begin is None else {"start": begin}))
        reached = torch.stack(seen.margins)[-16:].cummax(0).values.mean(1)
        axes[0].plot(range(16), reached, "o-", ms=3, color=colour, label=name)
    axes[0].axhline(0, color=INK, lw=0.8)
    axes[0].set_xlabel("steps of APGD on the defense")
    axes[0].set_ylabel("best margin so far, mean")
    axes[0].legend(loc="lower right")
    return figure


class _Margins(Keyed):
    """A view that remembers the margins it showed."""

    def __init__(self, defense: igd.IGDefense, rng: Streams, labels: Tensor) -> None:
        super().__init__(defense, rng)
        self.labels, self.margins = labels, list[Tensor]()

    def __call__(
        self, x: Tensor, told: Tensor | None = None, shared: Tensor | None = None
    ) -> Tensor:
        logits = super().__call__(x, told, shared)
        self.margins.append(cw(logits.detach(), self.labels))
        return logits

    def __getitem__(self, index: Tensor) -> "_Margins":
        return self


def keep() -> Figure:
    """Clean accuracy for every k, three rankings of two layers."""
    model, probe = embedded.model(), igd.load_data("embedded:probe", n=500)
    figure, axes = panels(2, height=2.9)
    for panel, layer in zip(axes, ("layer4", "layer3"), strict=True):
        lo_ir = igd.leave_one_out(model, probe[:200], layer)
        keeps = [1, 2, 4, 8, 16, 32, 64] + [128] * (lo_ir.neurons == 128)
        for name, ranking, colour in (
            ("LO-IR", lo_ir, RIGHT),
            ("random", igd.shuffled(lo_ir), THIRD),
            ("inverted", igd.inverted(lo_ir), WRONG),
        ):
            tuned = igd.tune(model, ranking, probe[200:], keeps=keeps)
            shares = [100 * tuned.accuracy[k] for k in keeps]
            panel.semilogx(keeps, shares, "o-", base=2, ms=3, color=colour, label=name)
        panel.axhline(100 * tuned.base, color=INK, lw=0.8, ls=":")
        panel.set_xticks(keeps, map(str, keeps))
        panel.minorticks_off()
        panel.set(ylim=(0, 100), title=f"{layer}, {lo_ir.neurons} neurons")
        panel.set_xlabel("neurons kept, k")
    axes[0].set_ylabel("clean accuracy, %")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center")
    return figure
