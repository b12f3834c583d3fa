"""Class disparity: who gains and who pays, class by class."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from igdefense.errors import DataError
from igdefense.files import written_whole
from igdefense.verdicts.run import Run
from igdefense.verdicts.statistics import Share

FORMAT = "igdefense-class-disparity-1"


@dataclass(frozen=True)
class ClassDisparity:
    """Clean and worst-case accuracy of every class that has images, or that under one attack."""

    class_names: tuple[str, ...]
    clean: tuple[Share, ...]
    robust: tuple[Share, ...]

    @classmethod
    def of(
        cls, run: Run, labels: Tensor, class_names: Sequence[str], attack: str | None = None
    ) -> "ClassDisparity":
        """Count a run's verdicts by the images' classes; classes without images are left out.

        `robust` is the worst case, or what is left under `attack` alone.
        """
        if attack is not None and attack not in run.verdicts:
            raise DataError(f"The run has no attack {attack!r}, only {', '.join(run.verdicts)}.")
        clean = run.clean.robust
        worst = run.verdicts[attack].robust if attack else run.worst_case.robust
        if len(labels) != len(clean):
            raise DataError(f"The run has {len(clean)} images but there are {len(labels)} labels.")
        members = [labels == label for label in range(len(class_names))]
        present = [label for label, chosen in enumerate(members) if chosen.any()]

        def shares(right: Tensor) -> tuple[Share, ...]:
            counted = [right[members[label]] for label in present]
            return tuple(Share(int(some.sum()), len(some)) for some in counted)

        return cls(tuple(class_names[label] for label in present), shares(clean), shares(worst))

    @property
    def mean(self) -> tuple[float, float]:
        """Clean and robust accuracy, averaged over the classes."""
        clean, robust = ([share.value for share in row] for row in (self.clean, self.robust))
        return sum(clean) / len(clean), sum(robust) / len(robust)

    @property
    def best(self) -> str:
        """The class with the highest worst-case accuracy; the first of equals."""
        return self.class_names[max(range(len(self.robust)), key=lambda i: self.robust[i].value)]

    @property
    def worst(self) -> str:
        """The class with the lowest worst-case accuracy; the first of equals."""
        return self.class_names[min(range(len(self.robust)), key=lambda i: self.robust[i].value)]

    @property
    def gap(self) -> float:
        """Worst-case accuracy of the best class minus that of the worst."""
        values = [share.value for share in self.robust]
        return max(values) - min(values)

    def table(self) -> str:
        """One line for each class, and the mean."""
        width = max(map(len, [*self.class_names, "mean of classes"]))
        lines = [f"{'':<{width}}  clean % [95 %]        IW-WC % [95 %]"]
        for name, clean, robust in zip(self.class_names, self.clean, self.robust, strict=True):
            lines.append(f"{name:<{width}}  {clean!s:<20}  {robust}")
        clean_mean, robust_mean = self.mean
        lines.append(
            f"{'mean of classes':<{width}}  {100 * clean_mean:<20.1f}  {100 * robust_mean:.1f}"
        )
        lines.append(f"best {self.best}, worst {self.worst}, gap {100 * self.gap:.1f} points")
        return "\n".join(lines)

    def save(self, path: str | Path) -> None:
        """Write every number as JSON."""
        rows = zip(self.class_names, self.clean, self.robust, strict=True)
        record = {
            "format": FORMAT,
            "classes": [
                {"class": name, "clean": clean.count, "robust": robust.count, "n": clean.total}
                for name, clean, robust in rows
            ],
        }
        with written_whole(Path(path)) as part:
            part.write_text(json.dumps(record, indent=1) + "\n")
