"""The recipes by name, one file each."""

from igdefense.training.recipe import LinfRecipe
from igdefense.training.recipes.dajat import DAJAT
from igdefense.training.recipes.fat import FAT
from igdefense.training.recipes.gat import GAT
from igdefense.training.recipes.las_at import LASAT
from igdefense.training.recipes.nuat import NuAT
from igdefense.training.recipes.oaat import OAAT
from igdefense.training.recipes.pgd_at import PGDAT
from igdefense.training.recipes.trades import TRADES

RECIPES: dict[str, type[LinfRecipe]] = {
    "fat": FAT,
    "gat": GAT,
    "nuat": NuAT,
    "pgd-at": PGDAT,
    "trades": TRADES,
    "oaat": OAAT,
    "dajat": DAJAT,
    "las-at": LASAT,
}

__all__ = ["DAJAT", "FAT", "GAT", "LASAT", "OAAT", "PGDAT", "RECIPES", "TRADES", "NuAT"]
