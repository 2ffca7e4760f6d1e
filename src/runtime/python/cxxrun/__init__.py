"""cxxrun for Python workers.

    import cxxrun
    cxxrun.install()          # one line in any PyTorch script: --hang-timeout names the rank that others wait for
    ...
    cxxrun.step(n)            # after a training step: the launcher's account knows when training began and went on
    if cxxrun.checkpoint_wanted():   # on all ranks in the same step
        save()
        if cxxrun.job_ends():
            break

Without the launcher install() writes one line to stderr, step() does nothing, and checkpoint_wanted() answers SIGTERM, on
all ranks alike. The package needs the standard library alone, and does not import torch by itself."""
from cxxrun._errors import MissingError, RefusedError
from cxxrun._install import install
from cxxrun._progress import step
from cxxrun._version import VERSION as __version__
from cxxrun._wanted import checkpoint_wanted, job_ends

__all__ = ["MissingError", "RefusedError", "__version__", "checkpoint_wanted", "install", "job_ends", "step"]
