"""What fault_worker leaves: which generation's workers ran on which host, and from when to when."""
import dataclasses
import errno
import fcntl
import os
import struct


@dataclasses.dataclass(frozen=True)
class Worker:
    generation: int
    host: int
    rank: int
    world: int
    first: float  # seconds of CLOCK_BOOTTIME
    last: float
    gap: float  # longest time between two stamps
    alive: bool


def _is_locked(f):
    try:
        fcntl.flock(f, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno != errno.EWOULDBLOCK:
            raise
        return True
    return False


def workers(directory):
    found = []
    for name in os.listdir(directory):
        if name.endswith(".new"):
            continue
        with open(os.path.join(directory, name), "rb") as f:
            alive = _is_locked(f)  # before the stamps: what is dead now does not stamp later
            first, last, gap, world = struct.unpack("4q", f.read())
        generation, host, rank = map(int, name.split("."))
        found.append(Worker(generation, host, rank, world, first / 1e9, last / 1e9, gap / 1e9, alive))
    return found


def newest(found):
    return max((w.generation for w in found), default=0)


def runs_on(found, hosts, besides=()):
    """The generation that runs whole on exactly these hosts, or None; hosts in `besides` are not looked at."""
    alive = [w for w in found if w.alive and w.host not in besides]
    generations = {w.generation for w in alive}
    whole = {w.host for w in alive} == set(hosts) and all(w.world == len(alive) for w in alive)
    return generations.pop() if len(generations) == 1 and whole else None


def overlaps(found):
    """(older worker, newer worker, seconds) for each older one that ran when one of a later generation did already; the
    worst pair per host of the older one."""
    worst = {}
    for newer in found:
        for older in found:
            both = older.last - newer.first
            if older.generation < newer.generation and both > worst.get(older.host, (None, None, 0))[2]:
                worst[older.host] = (older, newer, both)
    return list(worst.values())
