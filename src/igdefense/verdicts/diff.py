"""Two finished runs on the same images: is one defense better than the other?"""

from igdefense.errors import DataError
from igdefense.verdicts.difference import Difference, compare_accuracies
from igdefense.verdicts.run import Run


def diff_runs(left: Run, right: Run, seed: int = 0) -> list[Difference]:
    """Clean and worst-case accuracies, left minus right, image by image."""
    for key in ("data", "n", "eps"):
        ours, theirs = left.settings[key], right.settings[key]
        if ours != theirs:
            raise DataError(
                f"The runs have {key} = {ours} and {theirs}; only runs on the same images and with "
                "the same eps can be compared. Run one of them again with the other's options."
            )
    return [
        *compare_accuracies("clean", left.clean.accuracies, right.clean.accuracies, seed),
        *compare_accuracies("IW-WC", left.worst_case, right.worst_case, seed),
    ]
