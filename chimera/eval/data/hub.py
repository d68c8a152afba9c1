"""A data set of the Hugging Face hub as a directory, fetched once into the hub's own cache."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from chimera.errors import DatasetError


def hub_snapshot(repository: str, patterns: Sequence[str], *, revision: str | None = None) -> Path:
    """The directory with those files of a data set that fit the patterns."""
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
    except ImportError:
        raise DatasetError(
            f"{repository} is on the Hugging Face hub: pip install 'chimera-eval[hub]'"
        ) from None
    try:
        return Path(
            snapshot_download(
                repository, repo_type="dataset", revision=revision, allow_patterns=list(patterns)
            )
        )
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise DatasetError(f"cannot fetch {repository} from the hub: {first}") from None
