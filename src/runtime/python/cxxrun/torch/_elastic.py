"""Elastic: a training loop whose processes outlive the death of a peer."""
import atexit
import contextlib
import gc
import os
import signal
import threading
import time
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple, Union

import torch
import torch.distributed as dist

from cxxrun import _files, _imports, _lib, _process
from cxxrun._errors import RefusedError
from cxxrun.torch import _device, _pickled, _state, _world
from cxxrun.torch._buckets import bytes_of
from cxxrun.torch._carrier import Carrier
from cxxrun.torch._sampler import ElasticSampler, seed_all
from cxxrun.torch._undo import Before, load
from cxxrun.torch._updates import Updates
from cxxrun.torch._wrapped import Wrapped

PeerFailure = _lib.PeerFailure
_POLICIES = ("wait", "shrink")


class Step:
    """What `with job.step() as step` gives. After the block `done` says whether the step counts. A step that does not count is
    done again, so a script logs and averages only steps that do."""

    done = False


class Elastic:
    """Keeps a training process alive when other ranks die; see docs/use/elastic_pytorch.md.

    `checkpoint`: the file that save() writes. It is loaded if no rank has the state.
    `seed`: the random numbers of a step are seeded from it, the step and the rank, so that a step that is done again draws
    the same ones. None leaves the generators alone.
    `backend`: "gloo" uses torch's own groups, with PyTorch 2.14.
    `device`: "cuda" uses NCCL. With "cpu" or None the host carries all calls, also those of tensors on a GPU.
    `policy`: "wait" waits for the replacement of a rank that has died. With "shrink" the other nodes go on without its node
    until that is complete again.

    One per process. One thread at a time calls it; it handles signals only in the main thread."""

    def __init__(self, checkpoint: Optional[str] = None, seed: Optional[int] = 0, backend: Optional[str] = None,
                 device: Union[None, str, torch.device] = None, policy: str = "wait") -> None:
        if policy not in _POLICIES:
            raise RefusedError(f"Elastic: policy={policy!r}: one of " + ", ".join(map(repr, _POLICIES)))
        if _process.is_helper():
            raise RefusedError("Elastic: a helper that multiprocessing has started runs the script again: put all of it that is not "
                               "for helpers below `if __name__ == \"__main__\":`")
        if dist.is_available() and dist.is_initialized():
            raise RefusedError("Elastic: torch.distributed is up already; Elastic() makes its default group, once in a "
                               "process, in the place of init_process_group()")
        if backend is not None and torch.device(device or "cpu").type != "cpu":
            raise RefusedError("Elastic: device= is for the group over libcxxrun, without backend=")
        gpu = _device.of(device)
        self._checkpoint, self._seed, self._world = checkpoint, seed, _world.of(backend)
        self._tracked: Dict[str, Any] = {}
        self._wrapped: List[Wrapped] = []
        self._completed, self._joined, self._ends = 0, False, False
        self._fresh, self._torn = True, False  # this rank has no state to give; a step or a state is half there
        self._handles_signal = False
        self._closed, self._interrupted = False, False
        self._saved = -1  # `completed` when the checkpoint was written last
        self._node: Any = None  # _node.Node, with node_mesh()
        _process.leave_to_elastic()
        self._carrier = Carrier(gpu, policy == "shrink")
        if checkpoint and self._carrier.facts.rank == 0 and not os.path.isdir(os.path.dirname(checkpoint) or "."):
            raise RefusedError(f"Elastic: checkpoint={str(checkpoint)!r}: its directory is not there: make it first")
        self._updates = Updates(self._carrier, self._tracked)
        if not self._carrier.facts.can_rebuild:
            _process.complain("Elastic: this process does not outlive the death of another rank: " + _process.why_alone())
        self._world.install(self._carrier)

    # ---- state

    @property
    def completed(self) -> int:
        """How many steps are in the state."""
        return self._completed

    @property
    def generation(self) -> int:
        return self._carrier.facts.generation

    @property
    def world_size(self) -> int:
        """The size of the current world. It changes with policy="shrink"."""
        return self._carrier.facts.world_size

    def track(self, **objects: Any) -> None:
        """Adds objects to the state that a newcomer is given and save() writes. Each has state_dict() and load_state_dict()."""
        for name, its in objects.items():
            if not hasattr(its, "state_dict") or not hasattr(its, "load_state_dict"):
                raise RefusedError(f"Elastic.track: {name} has no state_dict() and load_state_dict()")
            kind = type(its).__name__
            if kind in ("DistributedDataParallel", "ZeroRedundancyOptimizer"):
                raise RefusedError(f"Elastic.track: {name} is a {kind}: track the module, or an optimizer that each rank "
                                   "has whole; DDP is made in wrap()")
            self._tracked[name] = its
            if isinstance(its, torch.optim.Optimizer):
                self._updates.watch(name, its)
            if isinstance(its, ElasticSampler):
                its.before_next = self._updates.refuse_samples
        self._updates.is_gated = None

    def wrap(self, make: Callable[[], Any]) -> Any:
        """Returns a proxy for what make() returns. make() is called again in every world, on all ranks: wrap(lambda:
        DDP(model))."""
        wrapped = Wrapped(make)
        self._wrapped.append(wrapped)
        self._joined = False
        return wrapped

    def node_mesh(self) -> Any:
        """Returns a mesh of the ranks of this node, over a group of torch's own: fully_shard(module, mesh=job.node_mesh()). From
        now on a node lives or ends as a whole. Needs PyTorch 2.14. Collective; call it before the model is made."""
        if self._node is None:
            if not has_shards():
                raise RefusedError("Elastic.node_mesh: this PyTorch has no FSDP2 with an all-reduce hook; 2.14 has")
            from cxxrun.torch import _node

            if not self._carrier.carries:
                raise RefusedError("Elastic.node_mesh: shards are for the group that Elastic() makes without backend=")
            if self._checkpoint is not None:
                raise RefusedError("Elastic.node_mesh: save() writes what one rank has whole, not shards: without checkpoint=")
            self._node = _node.Node(self._carrier)
        return self._node.mesh

    def replicate(self, model: Any) -> Any:
        """Averages the gradients of `model` between nodes. fully_shard() has sharded the model over node_mesh() before."""
        if self._node is None or not self._node.replicate(model):
            raise RefusedError("Elastic.replicate: fully_shard(module, mesh=job.node_mesh()) comes first")
        return model

    # ---- the loop

    def running(self, steps: int) -> bool:
        """Whether there is another step. When it returns True, all ranks have met and have the same state. At the end the
        checkpoint is written, if there is one; the group stays until close() or the end of the process, for an evaluation
        or more steps. Collective; blocks while another rank is replaced."""
        if not any(isinstance(its, torch.optim.Optimizer) for its in self._tracked.values()):
            raise RefusedError("Elastic.running: track() the model and its optimizer first")
        self._require_open("running")
        while True:
            try:
                if self._carrier.failure is not None:
                    self._rebuild()
                self._require_whole()
                with self._in_order():
                    if not self._joined:
                        self._join()
                    if self._completed < steps and not self._ends:
                        return True
                    self._updates.confirm()
                    if self._checkpoint is not None and self._completed >= steps and self._saved != self._completed:
                        self._save()  # so that a script that fails after the loop does not train again
                    self._end_alone()
                    self._carrier.run(self._carrier.comm.start_barrier)  # no rank leaves while another may need its state
                break
            except RuntimeError as error:
                if not self._is_of_a_peer(error):
                    raise
        atexit.register(self.close)
        return False

    def _require_open(self, what: str) -> None:
        if self._closed:
            raise RefusedError(f"Elastic.{what}: close() was called, and this process has left the others")

    def _require_whole(self) -> None:
        """After an exception of the script in or behind an update the others have made a step that this rank does not count."""
        if self._torn and self._joined and self._carrier.facts.world_size > 1:
            raise RuntimeError("Elastic: an exception has ended a step after its update had begun, and this rank cannot go on "
                               "with the others: end this process")

    @contextlib.contextmanager
    def _in_order(self) -> Iterator[None]:
        """Wraps code in which every rank makes the same calls. After Ctrl-C it is unknown which of them this rank has made."""
        if self._interrupted and self._carrier.facts.world_size > 1:
            raise RuntimeError("Elastic: this rank was interrupted where it and others make the same calls, and cannot go on "
                               "with them: end this process")
        try:
            yield
        except KeyboardInterrupt:
            self._interrupted = True
            raise

    @contextlib.contextmanager
    def step(self) -> Iterator[Step]:
        """Runs one step: first all calls that reach other ranks, then the update. A PeerFailure ends the block, and the step is
        done again. All other exceptions pass."""
        this = Step()
        self._updates.begin_step()
        if self._node is not None:
            self._node.begin_step()
        before = Before(self._tracked)
        if self._seed is not None:
            seed_all(self._seed, self._completed, dist.get_rank())
        whole = False
        self._carrier.in_step = True
        try:
            with self._in_order():
                yield this
                self._updates.end_calls()
            whole = True
        except BaseException as error:
            if not self._is_of_a_peer(error) and not self._is_of_garbage(error):
                if self._updates.any_begun:
                    self._fresh = self._torn = True  # at the next meeting this rank takes the state of another
                else:
                    before.restore()  # so that a caller that catches it, as after Ctrl-C in a notebook, can go on
                self._refuse_late(error)
                raise
        finally:
            self._carrier.in_step = False
            self._updates.end_step()
            self._carrier.end_step()
        if self._carrier.failure is not None:
            self._carrier.settle()
            left_out, last = self._updates.take_back()
            if not self._updates.any_begun:
                self._restore(before, left_out and last is None)
                self._restore_last(last)
                return
        if not whole:
            self._fresh = self._torn = True  # a part of the step is in the state: another rank has to give its own
            return
        self._updates.end_whole_step()
        self._updates.keep(before, self._completed)
        self._completed += 1
        this.done = True
        _imports.settle()
        self._carrier.comm.report_step(self._completed)

    def _restore(self, before: Before, left_out: bool) -> None:
        before.restore()
        if before.is_updated(left_out):
            self._fresh = self._torn = True

    def _restore_last(self, last: Optional[Tuple[Before, int]]) -> None:
        """Takes back the last completed step, if the device has left out its update."""
        if last is not None:
            before, self._completed = last
            self._restore(before, True)

    def checkpoint_wanted(self) -> bool:
        """Whether a checkpoint is wanted: True on all ranks after the same step. It is True, too, when the job is about to end;
        running() is False after that. Collective."""
        self._require_open("checkpoint_wanted")
        in_main = threading.current_thread() is threading.main_thread()  # only the main thread may install signal handlers
        if in_main and not self._handles_signal:  # from here on a signal can lead to a checkpoint
            self._handles_signal = True
            if self._carrier.facts.can_rebuild and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
                _process.handle_sigterm(lambda *_: None)
        if self._carrier.failure is not None:
            return False
        try:
            with self._in_order():
                wanted = self._carrier.together(self._carrier.comm.checkpoint_wanted)
                if wanted:
                    self._updates.confirm()
        except PeerFailure as failure:
            self._note(failure)
            return False
        self._ends = self._ends or wanted == 2
        return wanted != 0

    def save(self) -> None:
        """Rank 0 writes the checkpoint. An error is raised on all ranks. Collective."""
        if self._checkpoint is None:
            raise RefusedError("Elastic.save: give Elastic(checkpoint=PATH)")
        self._require_open("save")
        if self._carrier.failure is not None:
            return  # a part of the failed step may be in the state; the file has a whole step
        try:
            with self._in_order():
                self._updates.confirm()
                self._save()
        except PeerFailure as failure:
            self._note(failure)

    def close(self) -> None:
        """Leaves the other ranks and removes torch's group. The end of the process calls it, too. Calling it again has no
        effect."""
        if self._closed:
            return
        self._closed = True
        atexit.unregister(self.close)
        self._end_alone()
        self._drop()
        self._world.remove()
        self._updates.close_gate()
        self._carrier.close()

    def _end_alone(self) -> None:
        """Training is over: the end of another rank of the node no longer ends this one."""
        if self._node is not None:
            self._node.lives_as_a_whole(False)

    # ---- meeting

    def _note(self, failure: PeerFailure) -> None:
        self._carrier.note(failure)
        self._ends = False

    def _rebuild(self) -> None:
        self._joined = False
        self._saved = -1  # a newcomer does not know of it, and at the end all ranks save or none
        self._carrier.settle()
        self._restore_last(self._updates.take_back()[1])
        self._world.leave()
        self._drop()
        if self._node is not None:
            self._node.any(True)  # a rank whose node has lost a rank must not wait for another generation
        self._carrier.together(self._carrier.rebuild)
        self._updates.open_gate()
        self._interrupted = False
        if self._node is None:
            self._world.install(self._carrier)
        else:
            dist.group.WORLD.renew()  # type: ignore[union-attr]

    def _drop(self) -> None:
        """Drops the wrapped objects, with the hooks that torch's reducers have on the parameters. It runs now, because a garbage
        collection takes 0.1 to 0.4 s, and the other ranks would wait for it."""
        if self._carrier.failure is not None:
            self._carrier.failure.__traceback__ = None  # its frames refer to what is dropped
        if any([wrapped._drop() for wrapped in self._wrapped]):
            gc.collect()

    def _join(self) -> None:
        self._updates.confirm()
        if self._node is not None:
            self._fresh, self._torn = self._node.any(self._fresh, self._torn)
        self._carrier.together(self._meet)
        self._fresh = self._torn = False
        for wrapped in self._wrapped:
            wrapped._made = wrapped._make()
        self._carrier.share_buckets(bytes_of([wrapped._made for wrapped in self._wrapped], dist.group.WORLD))
        self._joined = True

    def _meet(self) -> None:
        if self._node is not None:
            self._node.connect()
        plan = self._carrier.comm.meet(self._completed, self._fresh)
        if plan.load:
            self._load()
        if plan.share:
            self._share(plan.donor, plan.behind)

    def _share(self, donor: int, behind: bool) -> None:
        comm, me = self._carrier.comm, dist.get_rank()
        if self._node is not None:  # each rank of the donor's node gives its shards
            comm, me, donor = self._node.between, *self._node.places(donor)
        gives = me == donor
        donors = int.from_bytes(comm.broadcast_bytes(self._completed.to_bytes(8, "little") if gives else None, donor),
                                "little")
        takes = not gives and (self._fresh or behind or donors != self._completed)
        if takes:
            self._fresh = self._torn = True  # until the whole state is here
        state = _state.share(self._carrier.gpu, comm, donor, gives, self._states() if gives or takes else None)
        if takes:
            self._set_state(state)
            self._completed = donors

    def _states(self) -> Dict[str, Any]:
        states = {name: _state.of(its) for name, its in self._tracked.items()}
        return states if self._node is None else self._node.plain(states)

    def _set_state(self, states: Dict[str, Any]) -> None:
        if states.keys() != self._tracked.keys():
            raise RefusedError(f"the state is of {sorted(states)}, not {sorted(self._tracked)}")
        if self._node is not None:
            states = self._node.sharded(states)
        for name, its in self._tracked.items():
            load(its, states[name])

    def _pack(self) -> bytes:
        return _pickled.packed({"completed": self._completed, "state": self._states()})

    def _unpack(self, packed: bytes) -> None:
        state = _pickled.unpacked(packed)
        if not isinstance(state, dict) or state.keys() != {"completed", "state"}:
            raise RefusedError("this is no checkpoint that Elastic.save() has written")
        self._set_state(state["state"])
        self._completed = state["completed"]

    # ---- one step

    def _is_of_a_peer(self, error: BaseException) -> bool:
        """Whether the error is a PeerFailure, or one that torch's reducer has wrapped: the same text in its own exception."""
        if not isinstance(error, RuntimeError):
            return False
        if isinstance(error, PeerFailure) and error.generation >= self._carrier.facts.generation:
            self._note(error)
        failure = self._carrier.failure
        return self._world.is_of_a_peer(error) or failure is not None and str(failure) in str(error)

    def _is_of_garbage(self, error: BaseException) -> bool:
        """Whether the error follows from the death of a peer: the device went on with garbage, and the script found, for
        example, a loss that is NaN. If all calls turn out to be done, the error is the script's own."""
        if not isinstance(error, Exception):
            return False
        try:
            self._updates.commit()
        except PeerFailure:
            return True
        return False

    def _refuse_late(self, error: BaseException) -> None:
        if isinstance(error, PeerFailure) and error.generation < self._carrier.facts.generation:
            raise RuntimeError(f"Elastic: a call that was begun in generation {error.generation}, which has ended, is waited for "
                               f"in generation {self._carrier.facts.generation}: wait for a step's calls within it") from error

    # ---- the checkpoint

    def _save(self) -> None:
        self._on_rank_0(self._write)
        self._saved = self._completed

    def _write(self) -> None:
        began = time.monotonic()
        _files.replace(str(self._checkpoint), self._pack())
        self._carrier.comm.report_checkpoint(int(1000 * (time.monotonic() - began)))

    def _load(self) -> None:
        exists = self._checkpoint is not None and os.path.exists(self._checkpoint)
        if dist.get_rank() == 0 and self._torn and not exists:
            raise _lib.Failure("Elastic: no rank has the whole state any more, and there is no checkpoint; the process "
                               "ends, to be started anew", _lib.CLOSED)
        def read() -> None:
            if exists:
                self._unpack(_files.read(str(self._checkpoint)))

        if self._checkpoint is not None:
            self._on_rank_0(read)

    def _on_rank_0(self, action: Callable[[], None]) -> None:
        told, cause = "", None
        if dist.get_rank() == 0:
            try:
                action()
            except Exception as error:
                kind, cause = "refused" if isinstance(error, RefusedError) else "failed", error
                told = f"{kind} Elastic: {self._checkpoint}: {error}"
        told = self._carrier.comm.broadcast_bytes(told.encode() if dist.get_rank() == 0 else None, 0).decode()
        kind, _, complaint = told.partition(" ")
        if complaint:
            raise (RefusedError(complaint) if kind == "refused" else _lib.Failure(complaint, _lib.USAGE)) from cause


def has_shards() -> bool:
    """Whether node_mesh() works. torch 1.13 cannot import its fsdp with Python 3.11."""
    try:
        from torch.distributed.fsdp import FSDPModule
    except (ImportError, ValueError):
        return False
    return hasattr(FSDPModule, "set_all_reduce_hook")

