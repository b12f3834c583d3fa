"""Packages that are not always there: import one, or say what to install."""

import importlib
from typing import Any

from igdefense.errors import SettingError


def needed(module: str, extra: str, purpose: str) -> Any:
    """The module; an error names the extra that brings it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0]:
            raise _broken(module, error) from error
        raise SettingError(
            f"{purpose} needs {module}, which is not installed: pip install 'igdefense[{extra}]'."
        ) from error
    except Exception as error:  # whatever a damaged installation raises
        raise _broken(module, error) from error


def _broken(module: str, error: Exception) -> SettingError:
    reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
    return SettingError(
        f"{module} is installed but cannot be imported ({reason}); `igd doctor` says more."
    )
