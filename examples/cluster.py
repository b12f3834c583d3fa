"""Spread an evaluation over a Ray cluster: `pip install 'igdefense[ray]'`."""

import torch

import igdefense as igd
from igdefense.attacks import APGD, PGD, Linf
from igdefense.attacks.suites import Column

model, threat = igd.load_model("embedded"), Linf(8 / 255)
data = igd.load_data("embedded:test", n=8)
columns = [
    Column(name="pgd", attack=PGD(threat=threat, steps=5)),
    Column(name="apgd", attack=APGD(threat=threat, steps=5)),
]

# `local` starts a cluster of this machine; `auto`, or HOST:PORT, joins one that runs. There the
# store must be a folder that all machines see, or an address such as s3://bucket/folder.
with igd.Ray(address="local", workers=2) as cluster:
    spread = igd.evaluate(
        model,
        data,
        suite=columns,
        backend=cluster,
        batch_size=4,
        store="shared",
        out="runs/cluster",
    )
print(spread.table())

alone = igd.evaluate(model, data, suite=columns, store="own", out="runs/alone")
for name, verdict in alone.verdicts.items():  # where it runs changes no verdict
    assert torch.equal(verdict.draws, spread.verdicts[name].draws)
