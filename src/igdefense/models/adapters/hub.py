"""Files that were downloaded before: nothing is fetched from here."""

from pathlib import Path

from igdefense.models.adapters.foreign import import_foreign


def from_hub_cache(repository: str, *names: str) -> Path | None:
    """The first of these files of a repository that is in the hub's cache."""
    hub = import_foreign("huggingface_hub")
    for name in names:
        try:
            return Path(hub.hf_hub_download(repository, name, local_files_only=True))
        except Exception:  # not there, in one of the hub's many ways to say so
            continue
    return None
