"""The store of a torch group that outlives generations. Each generation has a store of its own, which an agent serves and
ends. This object forwards requests to that of the current generation."""
import time
from datetime import timedelta
from typing import Any, Callable, List, Optional

import torch.distributed as dist

from cxxrun import _lib

_LONG = timedelta(minutes=5)
_PAUSES = 0.0005, 0.02  # seconds between two looks: the first pause, and the longest
_PASSED_ON = "add check compare_set delete_key num_keys".split()


def of(facts: _lib.Facts, timeout: timedelta) -> Any:
    """Connects to the store of this generation. The environment of a survivor still names an earlier one."""
    if facts.store_port == 0:  # a world of one has no store
        return dist.HashStore()
    return dist.TCPStore(facts.store_host.decode(), facts.store_port, is_master=False, wait_for_workers=False,
                         timeout=timeout, use_libuv=False)


class Store(dist.Store):
    """`go_on` raises if the generation is over. `told` is called with each value that is set."""

    def __init__(self, go_on: Callable[[], None], told: Callable[[bytes], None]) -> None:
        super().__init__()
        self._go_on, self._told = go_on, told
        self._its: Any = dist.HashStore()

    def renew(self, facts: _lib.Facts) -> None:
        self._its = dist.PrefixStore("cxxrun/torch", of(facts, _LONG))

    def set(self, key: str, value: Any) -> None:
        self._told(value if isinstance(value, bytes) else str(value).encode())
        self._its.set(key, value)

    def get(self, key: str) -> bytes:
        self.wait([key])
        return bytes(self._its.get(key))

    def wait(self, keys: List[str], timeout: Optional[timedelta] = None) -> None:
        """Polls, because torch's own wait would block on a rank that has died."""
        until = time.monotonic() + (timeout or _LONG).total_seconds()
        pause, longest = _PAUSES
        while not self._its.check(keys):
            self._go_on()
            if time.monotonic() > until:
                raise dist.DistStoreError(f"cxxrun.torch: nobody has set {', '.join(keys)}")
            time.sleep(pause)
            pause = min(2 * pause, longest)


def _passing_on(name: str) -> Callable[..., Any]:
    return lambda self, *arguments: getattr(self._its, name)(*arguments)


for _name in _PASSED_ON:
    setattr(Store, _name, _passing_on(_name))
