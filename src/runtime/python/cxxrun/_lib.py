"""libcxxrun_c through ctypes: the functions of cxxrun/c.h, with exceptions in place of statuses. Buffers are addresses.

Thread safety is that of the header. The library does not check for signals. So that Ctrl-C works, collectives are begun in
the background and waited for in slices of a tenth of a second, and other blocking calls run on a thread of their own."""
import ctypes
import os
import shutil
import sysconfig
import threading
from ctypes import POINTER, byref, c_char, c_char_p, c_float, c_int32, c_int64, c_size_t, c_uint64, c_void_p
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

from cxxrun._errors import MissingError
from cxxrun._version import VERSION

OK, PEER_FAILURE, NOT_DONE, USAGE, CLOSED = 0, 1, 2, 10, 17
TYPES = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 3, "int32": 4, "int64": 5, "uint8": 6}
OPS = {"sum": 0, "min": 1, "max": 2}
_VERSION = VERSION.rpartition(".")[0]  # of the library, major and minor
_NAME = "libcxxrun_c.so.0"
_SLICE_MS = 100
_NCCL, _HOST = 1, 2  # enum cxxrun_backend
_WHY = ("died", "left", "late", "lost", "stopped")


class Failure(RuntimeError):
    """An error that a person has to fix. `status` is enum cxxrun_status."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


class PeerFailure(RuntimeError):
    """Another rank died, left or is late. This process is healthy. `rank` is -1 if the launcher ended the generation."""

    def __init__(self, text: str, why: str, rank: int, host: str, generation: int) -> None:
        super().__init__(text)
        self.why, self.rank, self.host, self.generation = why, rank, host, generation


class _Failure(ctypes.Structure):
    _fields_ = [("status", c_int32), ("os_errno", c_int32), ("why", c_int32), ("rank", c_int32),
                ("generation", c_uint64), ("after_us", c_int64), ("host", c_char * 256)]


class _Options(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("op_timeout_ms", c_int64), ("init_timeout_ms", c_int64),
                ("abort_deadline_ms", c_int64), ("backend", c_int32), ("survive", c_int32),
                ("shrink", c_int32)]


class Facts(ctypes.Structure):
    """This rank and its world, as of the last meeting."""
    _fields_ = [("rank", c_int32), ("world_size", c_int32), ("world_rank", c_int32), ("local_rank", c_int32),
                ("local_world_size", c_int32), ("group_rank", c_int32), ("group_world_size", c_int32),
                ("restart_count", c_int32), ("generation", c_uint64), ("can_rebuild", c_int32), ("on_device", c_int32),
                ("store_port", c_int32), ("store_host", c_char * 256)]


class _Recovery(ctypes.Structure):
    _fields_ = [("load", c_int32), ("share", c_int32), ("donor", c_int32)]


class _Sampler(ctypes.Structure):
    _fields_ = [("seed", c_uint64), ("epoch", c_uint64), ("consumed", c_uint64)]


class Recovery(NamedTuple):
    load: bool
    share: bool
    donor: int
    behind: bool  # this rank's state is that of a world older than the last one that other ranks were in


_CALL = [c_void_p, c_void_p, c_void_p, c_size_t, c_int32]  # communicator, in, out, count, type
_REDUCE = [*_CALL, c_int32, c_int32, c_float, c_void_p, POINTER(c_void_p)]
_ARGUMENTS = {
    "last_failure": [POINTER(_Failure), c_size_t],
    "init": [POINTER(_Options), POINTER(c_void_p)], "free": [c_void_p], "rebuild": [c_void_p],
    "get_facts": [c_void_p, POINTER(Facts), c_size_t],
    "watch": [c_void_p, c_int64], "gate": [POINTER(c_float)],
    "split": [c_void_p, c_int32, c_int32, POINTER(c_void_p)], "arena": [c_void_p, c_size_t, POINTER(c_void_p)],
    "all_reduce": _REDUCE, "reduce_scatter": _REDUCE,
    "all_gather": [*_CALL, c_void_p, POINTER(c_void_p)], "all_to_all": [*_CALL, c_void_p, POINTER(c_void_p)],
    "broadcast": [c_void_p, c_void_p, c_size_t, c_int32, c_int32, c_void_p, POINTER(c_void_p)],
    "barrier": [c_void_p, POINTER(c_void_p)], "wait": [c_void_p, c_int64], "wait_on": [c_void_p, c_void_p],
    "report_step": [c_void_p, c_uint64], "report_checkpoint": [c_void_p, c_int64],
    "checkpoint_wanted": [c_void_p, POINTER(c_int32)],
    "meet": [c_void_p, c_uint64, c_int32, POINTER(_Recovery)],
    "sampler_next": [POINTER(_Sampler), c_uint64, c_int32, c_int32, c_int32, c_size_t, POINTER(c_uint64),
                     POINTER(c_size_t)],
}


def _places() -> Iterator[str]:
    """Where to look for the library: CXXRUN_LIBRARY; else beside this package or in its prefix; else in the launcher's."""
    told = os.environ.get("CXXRUN_LIBRARY")
    if told:
        yield told
        return
    here = os.path.dirname(os.path.abspath(__file__))
    yield os.path.join(here, _NAME)
    folder = os.path.dirname(os.path.dirname(os.path.dirname(here)))
    # Only for PREFIX/lib/python3.11/site-packages/cxxrun. Elsewhere, as in a source tree, the directories above may be
    # writable by others.
    roots = [os.path.dirname(folder)] if os.path.basename(folder) in ("lib", "lib64") else []
    launcher = shutil.which("cxxrun")
    if launcher:
        roots.append(os.path.dirname(os.path.dirname(os.path.realpath(launcher))))
    for root in roots:
        for lib in ("lib", "lib64", os.path.join("lib", sysconfig.get_config_var("MULTIARCH") or "")):
            yield os.path.join(root, lib, _NAME)


PLACE = next((place for place in _places() if os.path.exists(place)), os.environ.get("CXXRUN_LIBRARY") or _NAME)


def _load() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(PLACE)
    except OSError as error:
        raise MissingError(f"cxxrun: {_NAME} cannot be loaded ({error}); install cxxrun, or name the file in "
                           "CXXRUN_LIBRARY") from None
    for name, arguments in _ARGUMENTS.items():
        function = getattr(library, "cxxrun_" + name)
        function.argtypes, function.restype = arguments, c_int32
    library.cxxrun_version.restype = library.cxxrun_error.restype = c_char_p
    version = library.cxxrun_version().decode()
    if not version.startswith(_VERSION + "."):
        raise MissingError(f"cxxrun: {PLACE} is of version {version}, this Python package of {_VERSION}: install both "
                           "from one version of cxxrun")
    return library


_lib = _load()


def _check(status: int) -> None:
    if status == OK:
        return
    text = _lib.cxxrun_error().decode(errors="replace")
    facts = _Failure()
    _lib.cxxrun_last_failure(byref(facts), ctypes.sizeof(facts))
    if status == PEER_FAILURE:
        raise PeerFailure(text, _WHY[facts.why], facts.rank, facts.host.decode(errors="replace"), facts.generation)
    raise Failure(text, status)


class Work:
    """A collective in the background. `kept`, its buffers, stays alive until wait() has seen the end. If that wait was
    interrupted, it stays alive as long as the process, because the collective may still be under way."""

    _under_way: Set["Work"] = set()

    def __init__(self, kept: object) -> None:
        self.handle, self._kept = c_void_p(), kept
        self.has_ended = False
        self.error: Optional[RuntimeError] = None  # why it failed
        self._look = threading.Lock()  # exactly one caller sees the end and releases the handle
        self._under_way.add(self)

    def wait(self) -> None:
        """Blocks until the collective is done. Raises its error if it failed."""
        while not self.is_done(_SLICE_MS):
            pass
        if self.error is not None:
            raise self.error

    def is_done(self, milliseconds: int = 0) -> bool:
        """Whether it is done or has failed. Waits for up to `milliseconds`."""
        with self._look:
            if not self.has_ended:
                status = _lib.cxxrun_wait(self.handle, milliseconds)
                if status == NOT_DONE:
                    return False
                try:
                    _check(status)  # here, because the library keeps the facts of a failure per thread
                except (Failure, PeerFailure) as error:
                    self.error = error
                self.forget()
        return True

    def wait_on(self, stream: int) -> None:
        """For device memory: makes the stream wait for the collective, and not the host. wait() has to be called as well,
        because the stream also goes on if the collective failed."""
        with self._look:
            if not self.has_ended:
                _check(_lib.cxxrun_wait_on(self.handle, stream or None))
        if self.error is not None:
            raise self.error

    def forget(self) -> None:
        """Lets go of the buffers: the collective is done, or was never begun."""
        self.has_ended, self._kept = True, None
        self._under_way.discard(self)


class Aside:
    """Runs one call on a thread of its own."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call, self._done = call, threading.Event()
        self._result: Any = None
        self._error: Optional[BaseException] = None
        try:
            threading.Thread(target=self._run, name="cxxrun call", daemon=True).start()
        except RuntimeError:  # Python 3.12 starts no thread when the script has ended
            self._run()

    def _run(self) -> None:
        try:
            self._result = self._call()
        except BaseException as error:
            self._error = error
        self._done.set()

    def wait(self, go_on: Callable[[], None] = lambda: None) -> Any:
        """Returns what the call returned. Calls `go_on` while it waits; if that raises, the call goes on in the background."""
        while not self._done.wait(_SLICE_MS / 1000):
            go_on()
        if self._error is not None:
            raise self._error
        return self._result


_asides: Dict[Tuple[str, object], Aside] = {}


def _aside(name: str, of: object, call: Callable[[], Any]) -> Any:
    """Returns what call() returns. An interrupted call goes on; making the same call again waits for it."""
    its = _asides.get((name, of))
    if its is None:
        its = _asides[name, of] = Aside(call)
    try:
        return its.wait()
    finally:
        if its._done.is_set():
            _asides.pop((name, of), None)


def _init(survive: bool, on_device: bool, shrink: bool) -> c_void_p:
    options = _Options(size=ctypes.sizeof(_Options), survive=int(survive), backend=_NCCL if on_device else _HOST,
                       shrink=int(shrink))
    handle = c_void_p()
    _check(_lib.cxxrun_init(byref(options), byref(handle)))
    return handle


class Communicator:
    """A world, or a group that was split from one."""

    def __init__(self, handle: c_void_p) -> None:
        self._handle = handle

    @classmethod
    def init(cls, survive: bool, on_device: bool = False, shrink: bool = False) -> "Communicator":
        return cls(_aside("init", None, lambda: _init(survive, on_device, shrink)))

    def _begin(self, name: str, kept: object, *arguments: object) -> Work:
        if not self._handle:
            raise Failure("cxxrun: this group is of a generation that has ended: make groups in what Elastic.wrap() is given",
                          USAGE)
        work = Work(kept)
        try:
            _check(getattr(_lib, "cxxrun_" + name)(self._handle, *arguments, byref(work.handle)))
        except (Failure, PeerFailure):
            work.forget()
            raise
        return work

    def start_all_reduce(self, source: int, target: int, count: int, kind: int, op: int, scale: float, kept: object,
                         stream: int = 0) -> Work:
        return self._begin("all_reduce", kept, source, target, count, kind, op, 0, scale, stream or None)

    def start_reduce_scatter(self, source: int, target: int, count: int, kind: int, op: int, scale: float, kept: object,
                             stream: int = 0) -> Work:
        return self._begin("reduce_scatter", kept, source, target, count, kind, op, 0, scale, stream or None)

    def start_all_gather(self, source: int, target: int, count: int, kind: int, kept: object, stream: int = 0) -> Work:
        return self._begin("all_gather", kept, source, target, count, kind, stream or None)

    def start_all_to_all(self, source: int, target: int, count: int, kind: int, kept: object, stream: int = 0) -> Work:
        return self._begin("all_to_all", kept, source, target, count, kind, stream or None)

    def start_broadcast(self, address: int, count: int, kind: int, root: int, kept: object, stream: int = 0) -> Work:
        return self._begin("broadcast", kept, address, count, kind, root, stream or None)

    def start_barrier(self) -> Work:
        return self._begin("barrier", None)

    def broadcast_bytes(self, data: Optional[bytes], root: int) -> bytes:
        """Returns the bytes of `root` on all ranks. Collective."""
        size = c_int64(len(data or b""))
        self.start_broadcast(ctypes.addressof(size), 1, TYPES["int64"], root, size).wait()
        buffer = ctypes.create_string_buffer(data or b"", max(1, size.value))
        if size.value:
            self.start_broadcast(ctypes.addressof(buffer), size.value, TYPES["uint8"], root, buffer).wait()
        return buffer.raw[:size.value]

    def facts(self) -> Facts:
        facts = Facts()
        _check(_lib.cxxrun_get_facts(self._handle, byref(facts), ctypes.sizeof(facts)))
        return facts

    def rebuild(self) -> None:
        for name in [name for name, of in _asides if of is self and name != "rebuild"]:
            del _asides[name, self]  # an interrupted call of the generation that has ended
        _aside("rebuild", self, lambda: _check(_lib.cxxrun_rebuild(self._handle)))

    def watch(self, timeout_ms: int) -> Optional[PeerFailure]:
        """Blocks until the launcher says that this generation is over, at most `timeout_ms`."""
        try:
            status = _lib.cxxrun_watch(self._handle, timeout_ms)
            _check(OK if status == NOT_DONE else status)
        except PeerFailure as failure:
            return failure
        except Failure:  # the communicator has been released
            pass
        return None

    def split(self, color: int, key: int) -> Optional["Communicator"]:
        """Returns a group of the ranks that give the same color, or None for a negative color. Collective."""
        def split() -> c_void_p:
            group = c_void_p()
            _check(_lib.cxxrun_split(self._handle, color, key, byref(group)))
            return group

        group = _aside("split", self, split)
        return Communicator(group) if group else None

    def arena(self, size: int) -> int:
        """Returns the address of `size` bytes that collectives use in place. Collective; `size` is the same on every rank."""
        def arena() -> int:
            memory = c_void_p()
            _check(_lib.cxxrun_arena(self._handle, size, byref(memory)))
            return int(memory.value or 0)

        return int(_aside("arena", self, arena))

    def meet(self, completed: int, fresh: bool) -> Recovery:
        def meet() -> Recovery:
            recovery = _Recovery()
            _check(_lib.cxxrun_meet(self._handle, completed, int(fresh), byref(recovery)))
            return Recovery(bool(recovery.load), bool(recovery.share), recovery.donor, recovery.share == 2)

        return _aside("meet", self, meet)

    def report_step(self, completed: int) -> None:
        _check(_lib.cxxrun_report_step(self._handle, completed))

    def report_checkpoint(self, held_ms: int) -> None:
        _check(_lib.cxxrun_report_checkpoint(self._handle, held_ms))

    def checkpoint_wanted(self) -> int:
        """Returns 0 for no, 1 for save, 2 for save and leave. Collective."""
        def asked() -> int:
            wanted = c_int32()
            _check(_lib.cxxrun_checkpoint_wanted(self._handle, byref(wanted)))
            return wanted.value

        return int(_aside("checkpoint_wanted", self, asked))

    def free(self) -> None:
        _aside("free", self, lambda: _check(_lib.cxxrun_free(self._handle)))
        self._handle = c_void_p()


def set_gate(flag: int) -> None:
    """`flag`: the address of a float that is set to 1 before NCCL is aborted, or 0 for none."""
    _check(_lib.cxxrun_gate(ctypes.cast(flag or None, POINTER(c_float))))


def sampler_next(state: Tuple[int, int, int], size: int, tail: int, rank: int, world: int,
                 per_rank: int) -> Tuple[List[int], Tuple[int, int, int]]:
    """Returns the samples of that rank in the next step, and the state (seed, epoch, consumed) after it."""
    its = _Sampler(*state)
    samples = (c_uint64 * max(1, per_rank))()
    taken = c_size_t()
    _check(_lib.cxxrun_sampler_next(byref(its), size, tail, rank, world, per_rank, samples, byref(taken)))
    return list(samples[:taken.value]), (its.seed, its.epoch, its.consumed)
