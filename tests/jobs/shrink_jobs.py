"""What the tests share of jobs that go on without a node that lacks a rank: when a world has met."""
import jobs
from jobs import wait_until

SIZE = 509  # samples of elastic_shrinking.py and falling_worker.cpp


class ShrinkCase:
    """Of a JobCase with noted(word): (generation, rank, words…) of the events of that word so far."""

    def await_world(self, size, after=0, guard=jobs.GUARD):
        """(generation, {rank: pid}) of the first one after `after` in which so many ranks have met and made a step."""
        def met():
            worlds = {}
            stepped = {generation for generation, *_ in self.noted("stepped")}
            for generation, rank, pid, world, *_ in self.noted("up"):
                worlds.setdefault((generation, int(world)), {})[rank] = int(pid)
            found = [(generation, ranks) for (generation, world), ranks in sorted(worlds.items())
                     if generation > after and world == size == len(ranks) and generation in stepped]
            return found[0] if found else None
        try:
            return wait_until(met, f"a world of {size} after generation {after}", guard)
        except jobs.Hang as hang:
            raise jobs.Hang(f"{hang}\n" + "\n".join(agent.stderr for agent in self.agents)) from None
