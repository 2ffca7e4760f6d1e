"""DDP's buckets in memory that the ranks of a node share: a reduction reads and writes them there, without copying.

torch makes a bucket in memory of its own. share_memory_() gives a storage, with all of its views, a mapping of its own,
which then becomes one more mapping of pages of the arena; the library is told of the other one. So torch unmaps what it
has mapped, and the arena may go before the bucket."""
import ctypes
import os
import resource
import sys
from typing import Any, Dict, Iterator, List, Optional, Set

import torch

from cxxrun import _lib

_LEAST = 256 << 10  # bytes of a bucket; smaller ones are copied in no time
_PAGE = 64 << 10  # the largest of any machine
_OTHERS = 1 << 30  # bytes that the ranks of a node share besides, at most
_MAY_MOVE, _FIXED = 1, 2
_FAILED = ctypes.c_void_p(-1).value
_mremap = ctypes.CDLL(None, use_errno=True).mremap
_mremap.restype = ctypes.c_void_p


class Buckets:
    """Of one world."""

    def __init__(self, memory: int, size: int, local_ranks: int) -> None:
        self._next, self._end, self._local_ranks = memory, memory + size, local_ranks
        self._seen: Set[int] = set()
        self._moved: Dict[int, Any] = {}  # the address of a bucket: the bucket, which keeps it, and its place in the arena

    def place(self, bucket: torch.Tensor) -> int:
        """The address to give to the library."""
        address = bucket.data_ptr()
        held, place = self._moved.get(address, (None, address))
        if held is not None and held.data_ptr() == address and held.numel() >= bucket.numel():
            return int(place)
        size = bucket.numel() * bucket.element_size()
        if size < _LEAST or not _is_whole(bucket, size):
            return address
        if address not in self._seen:  # DDP makes its buckets anew after the first step
            self._seen.add(address)
            return address
        return self._move(bucket, size) if self._fits(size) else address

    def _fits(self, size: int) -> bool:
        """share_memory_() writes to /dev/shm, and where that is full the process gets SIGBUS. With torch's other strategy
        the memory does not begin with a page, and cannot be replaced."""
        if self._next + size > self._end or torch.multiprocessing.get_sharing_strategy() != "file_descriptor":
            return False
        try:
            there = os.statvfs("/dev/shm")
        except OSError:
            return False
        return there.f_bavail * there.f_frsize > 2 * self._local_ranks * size

    def _move(self, bucket: torch.Tensor, size: int) -> int:
        view = _mremap(ctypes.c_void_p(self._next), ctypes.c_size_t(0), ctypes.c_size_t(size), _MAY_MOVE)
        if view in (None, _FAILED):
            return bucket.data_ptr()
        bucket.share_memory_()
        address, place = bucket.data_ptr(), self._next
        ctypes.memmove(view, address, size)
        if _mremap(ctypes.c_void_p(view), ctypes.c_size_t(size), ctypes.c_size_t(size), _MAY_MOVE | _FIXED,
                   ctypes.c_void_p(address)) != address:
            raise MemoryError(f"cxxrun.torch: a bucket cannot be moved: {os.strerror(ctypes.get_errno())}")
        os.ftruncate(_storage(bucket)._share_fd_cpu_()[0], 0)  # torch keeps the file open, and it would take up memory
        self._next += -(-size // _PAGE) * _PAGE
        self._moved[address] = bucket, place
        return place


def _is_whole(tensor: torch.Tensor, size: int) -> bool:
    return tensor.dim() == 1 and _storage(tensor).nbytes() == size and not tensor.is_shared()


def _storage(tensor: torch.Tensor) -> Any:
    return tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()


def is_from_backward() -> bool:
    """Whether torch's engine has called the method that asks, which is DDP's reducer. Memory that a script has made stays
    where it is: it may have given others its address."""
    try:
        caller = sys._getframe(2)
    except ValueError:  # the engine's thread of a device has no Python below
        return True
    return bool(caller.f_globals.get("__name__", "").startswith("torch.autograd"))


def bytes_of(made: List[Any], world: Any) -> int:
    """What all buckets of DDP over that group need."""
    sizes = [each.numel() * each.element_size() for ddp in _ddps(made, world) for each in ddp.module.parameters()
             if each.requires_grad and not each.is_cuda]
    return sum(size + -(-size // _LEAST) * _PAGE for size in sizes)


def _ddps(made: List[Any], world: Any) -> Iterator[Any]:
    kind = torch.nn.parallel.DistributedDataParallel
    for its in made:
        for module in its.modules() if isinstance(its, torch.nn.Module) else ():
            if isinstance(module, kind) and module.process_group is world:
                yield module


def _may_have(size: int) -> bool:
    """Asked before, because a rank that cannot have its arena ends the job."""
    limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)  # also of files in memory
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return 2 * size < memory and (limit == resource.RLIM_INFINITY or 2 * size + _OTHERS < limit)


def make_buckets(comm: _lib.Communicator, size: int, facts: _lib.Facts) -> Optional[Buckets]:
    """None where ranks differ in what they need, or one cannot have it. Every rank calls it."""
    sizes = (ctypes.c_int64 * facts.world_size)()
    copies = facts.on_device or size < _LEAST or not _may_have(size * facts.local_world_size)
    mine = ctypes.c_int64(0 if copies else size)
    comm.start_all_gather(ctypes.addressof(mine), ctypes.addressof(sizes), 1, _lib.TYPES["int64"], (mine, sizes)).wait()
    if set(sizes) != {mine.value} or not mine.value:
        return None
    return Buckets(comm.arena(size), size, facts.local_world_size)
