"""DDP's buckets in memory that the ranks of a node share. A reduction reads and writes them in place, without a copy.

torch allocates a bucket in memory of its own. share_memory_() gives the storage, with all of its views, a mapping of its own.
That mapping is then replaced by a second mapping of pages of the arena; the library uses the arena's own mapping. So torch
unmaps what it has mapped, and the arena may be released before the bucket."""
import ctypes
import os
import resource
import sys
from typing import Any, Dict, Iterator, List, Optional, Set

import torch

from cxxrun import _lib

_LEAST = 256 << 10  # bytes of a bucket; to copy a smaller one costs nothing
_PAGE = 64 << 10  # the largest page size of any machine
_OTHERS = 1 << 30  # the most bytes that the ranks of a node share besides
_MAY_MOVE, _FIXED = 1, 2
_FAILED = ctypes.c_void_p(-1).value
_mremap = ctypes.CDLL(None, use_errno=True).mremap
_mremap.restype = ctypes.c_void_p


class Buckets:
    """The buckets of one world."""

    def __init__(self, memory: int, size: int, local_ranks: int) -> None:
        self._next, self._end, self._local_ranks = memory, memory + size, local_ranks
        self._seen: Set[int] = set()
        self._moved: Dict[int, Any] = {}  # address of a bucket → the bucket, kept alive, and its place in the arena

    def place(self, bucket: torch.Tensor) -> int:
        """Returns the address of the bucket for the library. Moves the bucket into the arena if it fits."""
        address = bucket.data_ptr()
        held, place = self._moved.get(address, (None, address))
        if held is not None and held.data_ptr() == address and held.numel() >= bucket.numel():
            return int(place)
        size = bucket.numel() * bucket.element_size()
        if size < _LEAST or not _is_whole(bucket, size):
            return address
        if address not in self._seen:  # DDP rebuilds its buckets after the first step
            self._seen.add(address)
            return address
        return self._move(bucket, size) if self._fits(size) else address

    def _fits(self, size: int) -> bool:
        """Whether the bucket can be moved. share_memory_() writes to /dev/shm; if that is full, the process gets SIGBUS. With
        torch's other sharing strategy the memory is not aligned to a page, and cannot be replaced."""
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
        os.ftruncate(_storage(bucket)._share_fd_cpu_()[0], 0)  # torch keeps the file open, so its pages would stay allocated
        self._next += -(-size // _PAGE) * _PAGE
        self._moved[address] = bucket, place
        return place


def _is_whole(tensor: torch.Tensor, size: int) -> bool:
    return tensor.dim() == 1 and _storage(tensor).nbytes() == size and not tensor.is_shared()


def _storage(tensor: torch.Tensor) -> Any:
    return tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()


def is_from_backward() -> bool:
    """Whether the caller of the caller is torch's autograd engine, that is, DDP's reducer. Memory of the script is not moved:
    the script may have passed its address on."""
    try:
        caller = sys._getframe(2)
    except ValueError:  # a device thread of the engine has no Python frame below
        return True
    return bool(caller.f_globals.get("__name__", "").startswith("torch.autograd"))


def bytes_of(made: List[Any], world: Any) -> int:
    """Returns how many bytes all DDP buckets over that group need."""
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
    """Whether this process may have an arena of this size. It is asked first, because a rank that cannot get one ends the job."""
    limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)  # applies to files in memory, too
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return 2 * size < memory and (limit == resource.RLIM_INFINITY or 2 * size + _OTHERS < limit)


def make_buckets(comm: _lib.Communicator, size: int, facts: _lib.Facts) -> Optional[Buckets]:
    """Returns None if ranks need different sizes, or one of them cannot have its size. Collective."""
    sizes = (ctypes.c_int64 * facts.world_size)()
    copies = facts.on_device or size < _LEAST or not _may_have(size * facts.local_world_size)
    mine = ctypes.c_int64(0 if copies else size)
    comm.start_all_gather(ctypes.addressof(mine), ctypes.addressof(sizes), 1, _lib.TYPES["int64"], (mine, sizes)).wait()
    if set(sizes) != {mine.value} or not mine.value:
        return None
    return Buckets(comm.arena(size), size, facts.local_world_size)
