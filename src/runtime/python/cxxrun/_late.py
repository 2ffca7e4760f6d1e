"""Shows what the launcher finds out by which rank is late, and why: how many steps an optimizer has made, how long a step of
DistributedDataParallel computes and reduces, as PyTorch's own log has it, and how long DataLoaders have let their rank wait. All are
private to PyTorch (tried with 1.13, 2.6 and 2.14). The log has a sample of each of the first 10 steps and of every 100th after them."""
import os
import sys
import time
import weakref
from typing import Any, Callable, List, Optional

from cxxrun import _page, _process

_EVERY = 2.0  # seconds
_models: "List[weakref.ReferenceType[Any]]" = []
_again = 0.0


def add(model: Any, *_: Any, **__: Any) -> None:
    _models.append(weakref.ref(model))


def time_loader(module: Any, page: _page.Page) -> None:
    """`module`: torch.utils.data.dataloader, if the script has imported it."""
    iterator = getattr(module, "_BaseDataLoaderIter", None)
    if iterator is None:
        return
    take = iterator.__next__

    def timed(self: Any) -> Any:
        begin = time.monotonic_ns()
        try:
            return take(self)
        finally:
            page.fed(time.monotonic_ns() - begin)

    iterator.__next__ = timed


def count_updates(module: Any, page: _page.Page) -> None:
    """`module`: torch.optim.optimizer, if the script has imported it. Counts the steps of the first optimizer that makes one: of a
    script with several, as for GANs, one counts. PyTorch calls the method replaced here after each step, for its profiler."""
    optimizer = getattr(module, "Optimizer", None)
    after_step: Optional[Callable[[Any], None]] = getattr(optimizer, "_optimizer_step_code", None)
    if after_step is None:
        return
    is_compiling = getattr(getattr(sys.modules["torch"], "compiler", None), "is_compiling", lambda: False)
    first: "Callable[[], Optional[Any]]" = lambda: None  # noqa: E731

    def count(self: Any) -> None:
        nonlocal first
        after_step(self)
        if is_compiling():
            return
        if first() is None:
            first = weakref.ref(self)
        if first() is self:
            page.update()
            show(page)

    optimizer._optimizer_step_code = count  # type: ignore[union-attr]


def show(page: _page.Page) -> None:
    """To be called between two steps, on the thread that makes them: a backward pass holds the lock of the log."""
    global _again
    moment = time.monotonic()
    if not _models or moment < _again:
        return
    _again = moment + _EVERY
    try:
        _show(page)
    except Exception as error:  # a PyTorch that logs in another way
        _again = float("inf")
        _process.complain(f"the log of DistributedDataParallel is not used: {type(error).__name__}: {error}")


def _show(page: _page.Page) -> None:
    """Of several models the first counts, and none that only some of the ranks have."""
    _models[:] = [model for model in _models if model() is not None]
    for model in filter(None, (model() for model in _models)):
        if str(model.process_group.size()) == os.environ.get("WORLD_SIZE"):
            log = model._get_ddp_logging_data()
            times = [int(log.get(name, 0)) for name in ("forward_compute_time", "backward_compute_time", "backward_comm_time")]
            if all(each > 0 for each in times):
                page.sample(int(log["iteration"]), *times)
            return
