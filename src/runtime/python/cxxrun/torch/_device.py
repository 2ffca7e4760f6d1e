"""The only file of this package that uses torch.cuda."""
import os
from typing import Any, Callable, Dict, Iterator, List, Optional, Union

import torch

from cxxrun._errors import MissingError, RefusedError

_LEAST_FREE = 2 << 30  # bytes that should be free for NCCL beside torch's cache


class Host:
    """Elastic(), or device="cpu": the host carries all calls. Tensors on a GPU go through pinned memory."""

    on_device = False
    device: Optional[torch.device] = None  # of this rank's calls

    def choose(self, local_rank: int) -> None:
        """Sets the device of the main thread. The library has chosen the same device in another thread."""

    def carries(self, tensor: torch.Tensor) -> bool:
        """Whether calls of this tensor are carried by the device."""
        return False

    def stages(self, tensor: torch.Tensor) -> bool:
        """Whether this tensor goes through pinned memory when the host carries its calls."""
        return bool(tensor.is_cuda)

    def is_elsewhere(self, tensor: torch.Tensor) -> bool:
        """Whether this tensor is on another device than this rank's calls."""
        return False

    def begin(self, call: Callable[[int], Any], tensors: List[torch.Tensor], after: List[Any]) -> Any:
        """Returns what call(stream) returns."""
        return call(0)

    def make_room(self) -> None:
        """Called before NCCL allocates memory beside torch's cache."""

    def settle(self) -> None:
        """Blocks until nothing that was queued can write any more."""
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()


class Cuda(Host):
    """Elastic(device="cuda"): NCCL through libcxxrun's plugin. Streams wait, and the host goes on."""

    on_device = True

    def __init__(self, index: Optional[int]) -> None:
        self._index = index
        self._order: Any = None  # streams
        self._side: Any = None

    def choose(self, local_rank: int) -> None:
        index = local_rank % torch.cuda.device_count()  # as src/runtime/gpu/choice.cpp
        if self._index not in (None, index):
            raise RefusedError(f"Elastic: device=cuda:{self._index}, and rank {local_rank} of this node has cuda:{index}: say "
                               'device="cuda"')
        torch.cuda.set_device(index)
        self.device = torch.device("cuda", index)
        self._order, self._side = torch.cuda.Stream(self.device), torch.cuda.Stream(self.device)

    def carries(self, tensor: torch.Tensor) -> bool:
        return bool(tensor.is_cuda) and tensor.numel() > 0  # the library, too, has the host carry calls without elements

    def is_elsewhere(self, tensor: torch.Tensor) -> bool:
        return tensor.is_cuda and tensor.device != self.device

    def begin(self, call: Callable[[int], Any], tensors: List[torch.Tensor], after: List[Any]) -> Any:
        """The stream of the call waits for the current stream and for the calls in `after`. torch's engine sets the stream of
        the forward pass in its own threads, too."""
        current = torch.cuda.current_stream(self.device)
        if not after:
            return call(current.cuda_stream)
        self._order.wait_stream(current)
        for its in after:
            self.let_wait(its, self._order)
        return call(self._order.cuda_stream)

    def let_wait(self, its: Any, stream: Any = None) -> None:
        """Makes `stream`, or else the current one, wait for the call."""
        its.wait_on((torch.cuda.current_stream(self.device) if stream is None else stream).cuda_stream)

    def future(self, result: Any, let_wait: Callable[[Any], None]) -> Any:
        """Returns a future that is done at once for the host. A caller that takes its value, such as DDP's reducer, makes its
        stream wait for an event, which is recorded here on a stream that waits for the call."""
        future = torch.futures.Future(devices=[self.device])
        current = torch.cuda.current_stream(self.device)
        torch.cuda.set_stream(self._side)
        try:
            let_wait(self._side)
            future.set_result(result)
        finally:
            torch.cuda.set_stream(current)
        return future

    def after(self, calls: List[Any]) -> None:
        """Makes the current stream wait until the calls are done or given up."""
        for its in calls:
            self.let_wait(its)

    def pinned_zero(self) -> torch.Tensor:
        return torch.zeros((), pin_memory=True)

    def event(self) -> Any:
        event = torch.cuda.Event()
        event.record(torch.cuda.current_stream(self.device))
        return event

    def make_room(self) -> None:
        if torch.cuda.mem_get_info(self.device)[0] < _LEAST_FREE:
            torch.cuda.empty_cache()


def of(device: Union[None, str, torch.device]) -> Host:
    """Returns the device for Elastic(device=…)."""
    its = torch.device(device or "cpu")
    if its.type == "cpu":
        return Host()
    if its.type != "cuda":
        raise RefusedError(f'Elastic: device={device!r}: there are "cuda" and "cpu"')
    if not torch.cuda.is_available():
        raise MissingError(f'Elastic: device="cuda", and torch sees no GPU: {_why_no_gpu()}; without device= it trains on CPUs')
    return Cuda(its.index)


def _why_no_gpu() -> str:
    if torch.version.cuda is None:
        return f"this PyTorch, {torch.__version__}, is built without CUDA: install one that is built with it"
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return f'CUDA_VISIBLE_DEVICES is "{visible}": unset it, or name GPUs or MIG devices that `nvidia-smi -L` lists'
    return "see whether nvidia-smi does, and what Slurm was asked for (--gpus-per-node)"


def staged(source: torch.Tensor, target: torch.Tensor, call: Callable[[torch.Tensor, torch.Tensor], None]) -> None:
    """Makes a call that the host carries, of tensors on a device, through pinned memory. Blocks."""
    with torch.no_grad():
        sent = torch.empty(source.shape, dtype=source.dtype, pin_memory=source.is_cuda)
        sent.copy_(source)  # blocks, because the library reads it next
        got = sent if target is source else torch.empty(target.shape, dtype=target.dtype, pin_memory=target.is_cuda)
        call(sent, got)
        target.copy_(got, non_blocking=True)  # torch's allocator keeps pinned memory until the copy is done


def devices_of(value: Any) -> Dict[str, Any]:
    """Returns the arguments of a Future for that value, which consists of lists of tensors."""
    devices = sorted({each.device for each in _tensors_in(value) if each.is_cuda}, key=str)
    return {"devices": devices} if devices else {}


def _tensors_in(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _tensors_in(each)
