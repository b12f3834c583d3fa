"""What works on this machine, what does not, and what to do about it."""

from igdefense.doctor.diagnose import diagnose
from igdefense.doctor.finding import Finding

__all__ = ["Finding", "diagnose"]
