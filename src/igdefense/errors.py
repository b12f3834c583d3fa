"""Errors that say what came, what was expected and what to do."""


class IGDefenseError(Exception):
    """Anything a user can mend; the command line prints it as one sentence and exits with 2."""


class LayerError(IGDefenseError):
    """A layer that cannot be ranked or masked."""


class LayerNotFoundError(LayerError):
    """A layer name the model does not have."""


class ModelError(IGDefenseError):
    """A model that cannot be loaded, or does not behave like a classifier in eval mode."""


class DataError(IGDefenseError):
    """Images, labels or class names that do not fit."""


class RankingError(IGDefenseError):
    """A ranking file that cannot be read, or does not belong to the model."""


class SettingError(IGDefenseError):
    """A setting outside its range."""


class OutputError(IGDefenseError):
    """An output that would overwrite something, or cannot be written."""
