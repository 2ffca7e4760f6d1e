"""What must hold of a run, whatever was done to it. Each rule is a function of the evidence (story.py) that returns
what is wrong, a line each; judge_test.py shows of each that it can fail."""
import dataclasses
import re

import strikes

MULTIPLIER, MASK = 6364136223846793005, (1 << 64) - 1
SAVE_EVERY = 50  # steps; chaos_worker
THAWED = 1.0  # seconds in which a worker that was frozen may write down what it had done before
NAMED_WITHIN = 20.0  # seconds: T, the lease, a hang timeout, and an election on a busy machine
STEPS_WITHIN = 10.0  # of a generation's start
NEVER_LOST_AFTER = 20.0  # seconds after a fault has ended
MOST_DESCRIPTORS = 160  # of an agent; one that coordinates has some for each host
# Seconds by which the account may be wrong: in all, for each generation, and for each coordinator that was lost. Of the
# last generation before its time an elected one knows what its own workers had done a beat ago.
ACCOUNT_TOLERANCE = (1.0, 0.05, 0.5)
COMES_AND_GOES = 1.0  # seconds more of the whole, in which the first host boots and the last cxxrun ends


@dataclasses.dataclass(frozen=True)
class Bounds:
    """`died`, `lost`: seconds until the next generation trains."""
    died: float = 4.0
    lost: float = 10.0
    plain: bool = False  # workers that are started anew, and go on from what was saved
    growth_kib: int = 16 << 10  # of an agent


# ---- generations and steps


def one_generation_at_a_time(evidence, _=None):
    """No step of an older generation after the first one of a newer. A frozen host may still write down its last."""
    over, newer = {}, (float("inf"), 0)  # generation -> the earliest first step of a newer one, and which that is
    for generation, first_at in reversed(evidence.first_steps().items()):
        over[generation], newer = newer, min(newer, (first_at, generation))
    for step in evidence.steps:
        since, newer = over[step.generation]
        if step.at > since and not _just_thawed(evidence, step):
            yield (f"step {step.step} of generation {step.generation} on {step.host} was done {step.at - since:.3f} s "
                   f"after the first one of generation {newer}")


def _just_thawed(evidence, step):
    return any(fault.host == step.host and fault.kind.startswith("frozen") and
               fault.at < step.at <= fault.until + THAWED for fault in evidence.faults)  # `until`: all of it goes on


def steps_go_on(evidence, bounds):
    """A generation goes on after the last step of the one before it. Only when something was done to the job meanwhile
    it may go on one step earlier (who had done that one died) or after a step that was saved. No rank leaves a step
    out."""
    before, most = None, 0  # the last generation that trained: (its first step's time, its last step)
    for generation, own in evidence.generations().items():
        first_at = min(step.at for step in own)
        first = min(step.step for step in own)
        began, last = before or (evidence.began, 0)
        struck = [f for f in evidence.faults if began <= (f.until or f.at) and f.at <= first_at]
        if first > last + 1 and not ((first - 1) % SAVE_EVERY == 0 and first <= most):
            yield f"generation {generation} begins with step {first}, and step {last + 1} was done by nobody"
        if first <= last and not struck and not bounds.plain:
            yield f"generation {generation} repeats steps {first} to {last}, and nothing had been done to the job"
        if first < last and (first - 1) % SAVE_EVERY:
            yield f"generation {generation} begins with step {first} after step {last}: that was not saved"
        by_rank = {}
        for step in own:
            by_rank.setdefault(step.rank, []).append(step.step)
        for rank, done in sorted(by_rank.items()):
            if done != list(range(done[0], done[0] + len(done))):
                yield f"rank {rank} of generation {generation} did not do each step once"
        before = first_at, max(step.step for step in own)
        most = max(most, before[1])


def states_are_right(evidence, _=None):
    most = max((step.step for step in evidence.steps), default=0)
    right = [1]
    for step in range(most):
        right.append((right[-1] * MULTIPLIER + step + 1) & MASK)
    wrong = [step for step in evidence.steps if step.state != right[step.step]]
    for step in wrong[:5]:
        yield (f"after step {step.step} of generation {step.generation} the state on {step.host} is {step.state:x}, "
               f"not {right[step.step]:x}")


def ranks_are_whole(evidence, _=None):
    """In a generation each rank is on one host, and there are as many as each is told."""
    seats = {}
    for step in evidence.steps:
        seats.setdefault(step.generation, {}).setdefault(step.rank, set()).add((step.host, step.world))
    for generation, ranks in seats.items():
        for rank, found in ranks.items():
            if len(found) > 1:
                yield f"rank {rank} of generation {generation} was {sorted(found)}"
        worlds = {world for found in ranks.values() for _, world in found}
        if len(worlds) != 1 or max(ranks) >= max(worlds):
            yield f"generation {generation} had worlds of {sorted(worlds)} and ranks {sorted(ranks)}"


def each_generation_steps(evidence, _=None):
    """One that was started does a step, unless something was done to the job before it could."""
    firsts = evidence.first_steps()
    for event in evidence.events:
        if event.kind != "started":
            continue
        until = firsts.get(event.get("generation"), event.at + STEPS_WITHIN)
        upset = any(event.at - 1 <= f.at <= until or (f.until and event.at - 1 <= f.until <= until) or
                    (f.until and f.at <= event.at <= f.until) for f in evidence.faults)
        stopped = any(e.kind in ("stop", "verdict") and event.at <= e.at <= event.at + 1 for e in evidence.events)
        if event.get("generation") not in firsts and not upset and not stopped:
            yield f"generation {event.get('generation')}, started by {event.by}, did no step"


# ---- faults and what is said of them


def recoveries(evidence):
    """(fault, seconds until a newer generation trained, or None) of each fault of which one must come, but for those
    that another one followed before that."""
    firsts = evidence.first_steps()
    expecting = [fault for fault in evidence.faults if fault.expects]
    for fault, following in zip(expecting, [*expecting[1:], None]):
        trained = max((g for g, at in firsts.items() if at <= fault.at), default=0)
        next_at = min((at for g, at in firsts.items() if g > trained), default=None)
        if following is None or next_at is None or next_at <= following.at:
            yield fault, None if next_at is None else next_at - fault.at


def it_goes_on_in_time(evidence, bounds):
    for fault, seconds in recoveries(evidence):
        kind = strikes.KINDS[fault.kind]
        # Of a member that is gone with its host nobody has proof before its lease ends.
        bound = bounds.died if kind.died and (fault.coordinated or not kind.whole_host) else bounds.lost
        if seconds is None:
            yield f"after {_name(fault)} no generation trained any more"
        elif seconds > bound:
            yield f"after {_name(fault)} it took {seconds:.2f} s until another generation trained, not {bound:g} s"


def _name(fault):
    return f"#{fault.number} {fault.kind} of {fault.host}" + (", which coordinated," if fault.coordinated else "")


def unnamed(evidence):
    """Faults of which the records ought to tell, and do not."""
    patterns = {fault.number: strikes.KINDS[fault.kind].named for fault in evidence.faults}
    return [fault for fault in evidence.faults if patterns[fault.number] is not None and
            not _named(evidence, fault, patterns[fault.number])]


def every_fault_is_named(evidence, _=None):
    for fault in unnamed(evidence):
        yield f"{_name(fault)} is named in no record"


def _named(evidence, fault, pattern):
    within = max(fault.at, fault.until) + NAMED_WITHIN
    for event in evidence.events:
        if not fault.at - 0.1 <= event.at <= within:
            continue
        if pattern:
            if (event.kind == "worker_failed" and event.get("host") == fault.host and
                    re.search(pattern, event.get("how"))):
                return True
        elif event.get("host") == fault.host and event.kind in ("node_lost", "node_left", "node_excluded"):
            return True
        elif fault.host in event.get("why", "") or (event.kind == "took_over" and any(
                fault.host in past["why"] for past in event.get("history", []))):
            return True
    return False


def nobody_is_lost_falsely(evidence, _=None):
    """Who is named lost had something done to him, or whoever says so had: one that is cut off, or whose connections
    are reset, loses all others. A member that calls both the coordinator whose connections are reset, and who takes
    over from it, may leave the second for a moment, and come back to the next one where that one steps down."""
    for event in evidence.events:
        found = [event.get("host")] if event.kind == "node_lost" else []
        if event.kind == "ended" and "node lost" in event.get("why", ""):
            found = re.findall(r"n\d{4}", event.get("why"))
        for host in found:
            if not any(fault.host == host and _may_lose(fault, event.at) or
                       fault.host == event.by and _is_without_network(fault, event.at) or
                       fault.kind == "reset" and fault.coordinated and _is_without_network(fault, event.at) and
                       _comes_back(evidence, host, event.at) for fault in evidence.faults):
                yield (f"the record of {event.by} has {host} as lost, to which nothing had been done ({event.kind}: "
                       f"{event.get('how') or event.get('why')})")


def _comes_back(evidence, host, lost_at):
    return any(event.kind == "node_joined" and event.get("host") == host and lost_at <= event.at <= lost_at + 1
               for event in evidence.events)


def _may_lose(fault, at):
    """Whether the host may be lost by that fault, or may be said to be, at that time."""
    kind = strikes.KINDS[fault.kind]
    last = fault.until + NEVER_LOST_AFTER if fault.until and not kind.loses else at
    return kind.whom != "worker" and fault.at - 0.1 <= at <= last


def _is_without_network(fault, at):
    return strikes.KINDS[fault.kind].network and fault.at <= at <= (fault.until or at) + 1


# ---- who comes, who goes


def joiners(evidence):
    """Host -> "seated", "spare", "struck", or what it ended with."""
    seated = {step.host for step in evidence.steps}
    found = {}
    for fate in evidence.fates:
        if not fate.joins:
            continue
        struck = any(f.host == fate.host for f in evidence.faults)
        found[fate.host] = ("seated" if fate.host in seated else "spare" if re.search(r"\bjoined\b", fate.said) else
                            "struck" if struck else "waits for ever" if fate.code is None else
                            f"ended with {fate.code}")
    return found


def everybody_gets_in(evidence, _=None):
    said = {fate.host: fate.said for fate in evidence.fates}
    for host, what in joiners(evidence).items():
        if what not in ("seated", "spare", "struck"):
            yield f"{host} came with --join and {what}: {_last_words(said[host])}"


def _last_words(said):
    return (said.strip().splitlines() or ["without a word"])[-1]


def nobody_ends(evidence, _=None):
    """At the end all have succeeded, but for those that were struck."""
    gone = {f.host for f in evidence.faults if strikes.KINDS[f.kind].loses}
    told = {host for host, what in joiners(evidence).items() if what.startswith("ended")}
    for fate in evidence.fates:
        if fate.host not in gone | told and fate.code != 0:
            how = "did not end" if fate.code is None else f"ended with {fate.code}"
            yield f"cxxrun on {fate.host} {how}: {_last_words(fate.said)}"


def the_job_succeeds(evidence, _=None):
    if evidence.stuck:
        yield evidence.stuck
    for event in evidence.events:
        if event.kind == "verdict" and not 0 < evidence.finished <= event.at:
            yield f"{event.by} concluded before the end: {event.get('verdict')}: {event.get('summary')}"
    found = (evidence.verdict or {}).get("verdict")
    if found != "success":
        yield f"the verdict is {found}" + (f": {evidence.verdict['summary']}" if evidence.verdict else "")


def nothing_is_left(evidence, _=None):
    for fate in evidence.fates:
        if fate.left:
            yield f"on {fate.host}, whose cxxrun is gone, there still runs: {', '.join(fate.left)}"


# ---- the books


def stopwatch(evidence):
    """Seconds, as the account counts them: what a generation trains is from its first step to its last; from there to
    the next generation's first is lost, if something failed."""
    firsts, lasts = evidence.first_steps(), evidence.last_steps()
    failures = [fault for fault in evidence.faults if fault.expects and fault.kind != "drained"]
    lost = sum(firsts[newer] - lasts[older] for older, newer in zip(list(firsts), list(firsts)[1:])
               if any(firsts[older] <= fault.at <= firsts[newer] for fault in failures))
    ended = evidence.ended or max(lasts.values(), default=0)
    return {"training": sum(lasts[g] - firsts[g] for g in firsts), "lost": lost, "the whole": ended - evidence.began}


def account(evidence):
    """The same by the verdict; {} without one."""
    told = (evidence.verdict or {}).get("account")
    return {"training": told["training_s"] + told["checkpoint_s"], "lost": told["lost_s"],
            "the whole": told["wall_s"]} if told else {}


def the_account_is_that_of_a_stopwatch(evidence, _=None):
    seen = stopwatch(evidence)
    successions = sum(fault.coordinated and fault.expects for fault in evidence.faults)
    tolerance = sum(each * count for each, count in zip(
        ACCOUNT_TOLERANCE, (1, len(evidence.first_steps()), successions)))
    for what, told in account(evidence).items():
        if abs(told - seen[what]) > tolerance + COMES_AND_GOES * (what == "the whole"):
            yield f"the account has {told:.1f} s for {what}, a stopwatch {seen[what]:.1f} s"


def agents_do_not_grow(evidence, bounds):
    for fate in evidence.fates:
        if fate.samples:
            (_, first_kib, first_fds), (_, kib, fds) = fate.samples[0], fate.samples[-1]
            if kib - first_kib > bounds.growth_kib:
                yield f"the agent of {fate.host} grew from {first_kib} to {kib} KiB"
            if fds > MOST_DESCRIPTORS:
                yield f"the agent of {fate.host} had {fds} descriptors, and {first_fds} at the beginning"


RULES = (the_job_succeeds, one_generation_at_a_time, steps_go_on, states_are_right, ranks_are_whole,
         each_generation_steps, it_goes_on_in_time, every_fault_is_named, nobody_is_lost_falsely, everybody_gets_in,
         nobody_ends, nothing_is_left, the_account_is_that_of_a_stopwatch, agents_do_not_grow)


def judge(evidence, bounds, most=4):
    """What is wrong, a line each; of one rule so many at most, and how many more there are."""
    lines = []
    for rule in RULES:
        found = list(rule(evidence, bounds))
        lines += found[:most] + ([f"… and {len(found) - most} more like this"] if len(found) > most else [])
    return lines
