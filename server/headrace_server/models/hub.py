"""Models of the Hugging Face Hub, by their id."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from headrace_server.engine.model_runner import ModelLoadError

if TYPE_CHECKING:
    from headrace_server.engine.model_runner import ReportProgress

# Data only: pickled weights and code of the repository are never fetched.
_FILES = ("*.safetensors", "*.json", "*.jinja", "tokenizer.model")


def download(model_id: str, report_progress: ReportProgress) -> Path:
    """Return the snapshot of a model in the local Hub cache, downloading what it lacks.

    Without a network, what an earlier download left is used.

    Raises:
        ModelLoadError: there is no such model, no right to it, or no network and no snapshot.
    """
    # Imported here because it takes longer than loading a small model.
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        HFValidationError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
    )
    from huggingface_hub.utils.tqdm import disable_progress_bars

    disable_progress_bars()
    report_progress(f"downloading {model_id}")
    try:
        return Path(snapshot_download(model_id, allow_patterns=list(_FILES)))
    except GatedRepoError as error:
        raise ModelLoadError(
            f"{model_id} asks for its licence to be accepted: do so on its page at the Hub and "
            "set HF_TOKEN to a token of that account."
        ) from error
    except RepositoryNotFoundError as error:
        raise ModelLoadError(
            f"{model_id} is neither a path here nor a model on the Hub; check the name, or set "
            "HF_TOKEN if the model is private."
        ) from error
    except HFValidationError as error:
        raise ModelLoadError(f"{model_id!r} is neither a path here nor a valid Hub id.") from error
    except LocalEntryNotFoundError as error:
        raise ModelLoadError(
            f"{model_id} is not in the local Hub cache and the Hub cannot be reached; connect to "
            "a network, or name a model directory or GGUF file."
        ) from error
    except (HfHubHTTPError, OSError) as error:
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise ModelLoadError(f"{model_id} could not be downloaded: {reason}") from error
