"""The rows of the table: each fault, where it happens, and what must follow by docs/design/election.md and membership.md."""
import dataclasses
import signal

import faults

T = 5.0  # seconds of --heartbeat-timeout
FENCE = T  # F of docs/design/election.md: never later than T
# Between a loss that is known and workers of the new generation that run: a busy machine, not a measure.
SLACK = 6.0
COORDINATOR_LOST, TOO_FEW, UNKILLABLE, PARTITIONED = 113, 112, 114, 116
KILLED = 128 + signal.SIGKILL
SIZES = ((2, 1), (2, 2), (3, 1), (3, 2), (5, 1), (5, 3))


@dataclasses.dataclass(frozen=True)
class Outcome:
    """Workers of one generation run on exactly `hosts`; hosts in `codes` have ended with one of those codes."""
    hosts: frozenset
    codes: dict = dataclasses.field(default_factory=dict)
    newer: bool = True  # than the generation before the fault; False: any
    least: int = 0  # lowest generation number

    def text(self):
        runs = f"runs on {names(self.hosts)}" if self.hosts else ""
        ends = [f"{host} ends {'/'.join(map(str, sorted(codes)))}" for host, codes in sorted(self.codes.items())]
        return ", ".join(filter(None, [runs, *ends])) + (f", generation ≥ {self.least}" if self.least else "")


@dataclasses.dataclass
class Row:
    name: str
    fault: faults.Fault
    hit: int
    hosts: int
    least: int  # MIN of --nnodes
    rule: str
    during: tuple = ()  # one of these outcomes before the fault ends
    after: tuple = ()  # one of these in the end; empty: nothing may change
    within: float = 0.0  # seconds, from the fault or from its end
    frozen: bool = False  # the agent of `hit` and its parent are frozen: its old workers may run on for a moment
    ipv6: bool = False
    options: tuple = ()  # of cxxrun, besides those of every row
    missing: str = ""  # why it is left out here


def names(hosts):
    return "+".join(map(str, sorted(hosts)))


def rest(hosts, hit):
    return frozenset(range(hosts)) - {hit}


def lost_for_good(hosts, least, hit, silent, code):
    """What follows when host `hit` is dead: (outcomes, seconds)."""
    left = rest(hosts, hit)
    gone = {hit: {code}} if code is not None else {}
    wait = (T if silent else 0) + SLACK
    if len(left) < least:
        end = COORDINATOR_LOST if hit == 0 else TOO_FEW
        return (Outcome(frozenset(), {**gone, **{host: {end} for host in left}}),), wait
    if hosts == 2 and hit == 0:
        if silent:
            return (Outcome(frozenset(), {1: {PARTITIONED}}),), wait + 3 * 2 * T
        return (Outcome(left, gone, least=101),), wait + FENCE
    return (Outcome(left, gone),), wait + FENCE


def parted(hosts, least, hit):
    """Host `hit` is out of reach for 30 s and comes back: (outcomes before that, outcomes after it)."""
    everybody, left = frozenset(range(hosts)), rest(hosts, hit)
    if hosts == least:
        ends = {host: {COORDINATOR_LOST if host else TOO_FEW} for host in everybody}
        return (Outcome(frozenset(), ends),), (Outcome(frozenset(), ends),)
    going_on = frozenset({0}) if hosts == 2 else left
    return (Outcome(going_on, newer=True),), (Outcome(everybody),)


def kills():
    for name, fault, code in (("kill-agent", lambda: faults.Kill("agent"), KILLED),
                              ("kill-agent-workers", lambda: faults.Kill("agent+workers"), KILLED),
                              ("kill-parent", lambda: faults.Kill("parent"), KILLED),
                              ("kill-host", lambda: faults.Kill("host"), None),
                              ("silent-host", lambda: faults.Kill("host", silent=True), None)):
        for place, hosts, least, hit in places():
            after, within = lost_for_good(hosts, least, hit, name == "silent-host", code)
            yield Row(f"{name}/{place}", fault(), hit, hosts, least, after[0].text(), after=after, within=within)


def cuts():
    # A lease may run out after L - 2 h = 3 s: its workers are frozen till the end. Nobody is lost before T.
    for seconds in (3, 3.5, 4.5):
        for place, hosts, least, hit in places():
            yield Row(f"drop-{seconds}s/{place}", faults.Drop(seconds), hit, hosts, least, "nothing changes")
    for seconds in (3, 3.5, 4.5):
        for place, hosts, least, hit in places():
            # A host that lost its carrier looks for its neighbours (ARP) once a second: out of reach for T, maybe.
            everybody = Outcome(frozenset(range(hosts)), newer=False)
            after = () if seconds + 1 < T else (everybody, *(parted(hosts, least, hit)[1] if hosts == least else ()))
            rule = " or ".join(one.text() for one in after) or "nothing changes"
            yield Row(f"cut-{seconds}s/{place}", faults.Cut(seconds), hit, hosts, least, rule, after=after,
                      within=2 * T + SLACK)
    for name, fault in (("cut-30s", lambda: faults.Cut(30)),
                        ("lost-outbound-30s", lambda: faults.Filter(30, "iifname PORT")),
                        ("lost-inbound-30s", lambda: faults.Filter(30, "oifname PORT"))):
        for place, hosts, least, hit in places():
            during, after = parted(hosts, least, hit)
            rule = f"{during[0].text()}; then {after[0].text()}" if after != during else during[0].text()
            yield Row(f"{name}/{place}", fault(), hit, hosts, least, rule, during=during, after=after,
                      within=2 * T + SLACK)
    for hosts, least in SIZES:
        everybody = Outcome(frozenset(range(hosts)), newer=False)
        yield Row(f"lost-fifth-20s/all/{size(hosts, least)}", faults.Filter(20, "numgen random mod 100 < 20"), 0, hosts,
                  least, f"{everybody.text()}", after=(everybody,), within=3 * T + SLACK)


def stops():
    for whom in ("agent", "node"):
        for place, hosts, least, hit in places():
            yield Row(f"stop-{whom}-3s/{place}", faults.Stop(3, whom), hit, hosts, least, "nothing changes")
        for place, hosts, least, hit in places():
            everybody = frozenset(range(hosts))
            if hosts == least:
                # The frozen one learns of it when it wakes, from whatever is left in its sockets.
                ends = {hit: {TOO_FEW, COORDINATOR_LOST}, 1 - hit: {COORDINATOR_LOST if hit == 0 else TOO_FEW}}
                during, after = (), (Outcome(frozenset(), ends),)
            elif hosts == 2 and hit == 0:
                # The other one has half without rank 0: it stops its workers and waits for the frozen one, at most 6 T.
                during, after = (), (Outcome(everybody), Outcome(frozenset({0}), {1: {PARTITIONED}}))
            else:
                during, after = (Outcome(rest(hosts, hit)),), (Outcome(everybody),)
            rule = "; then ".join(" or ".join(one.text() for one in some) for some in (during, after) if some)
            yield Row(f"stop-{whom}-30s/{place}", faults.Stop(30, whom), hit, hosts, least, rule, during=during,
                      after=after, within=2 * T + SLACK, frozen=whom == "node")
    for hosts, least in SIZES:
        yield Row(f"suspend-30s/all/{size(hosts, least)}", faults.Stop(30, "all"), 0, hosts, least, "nothing changes")


def others():
    for place, hosts, least, hit in places():
        left = rest(hosts, hit)
        if len(left) >= least:
            after = Outcome(left, {} if hit == 0 else {hit: {UNKILLABLE}})
        else:
            after = Outcome(frozenset(), {host: {UNKILLABLE} for host in range(hosts)})
        # Of two, the other one is elected by what its parent's port proves, when that has given up waiting, too.
        within = T + 2 * SLACK + (T + FENCE if (hosts, hit) == (2, 0) else 0)
        yield Row(f"unkillable-worker/{place}", faults.Unkillable(), hit, hosts, least, after.text(), after=(after,),
                  within=within, missing=faults.Unkillable.missing() or "")
    for how in ("tcp reset", "icmpx port-unreachable"):
        for hosts, least in SIZES:
            if hosts == least:
                continue
            after = (Outcome(frozenset(range(hosts)), newer=False),)
            yield Row(f"reject-{how.split()[0]}-15s/coordinator/{size(hosts, least)}", faults.Reject(15, how), 0, hosts,
                      least, after[0].text(), after=after, within=3 * T + SLACK)
    for hosts in (2, 3):
        yield Row(f"relay/first-port/{size(hosts, 1)}", faults.Relay(), 0, hosts, 1, "nothing changes")
    yield from on_ipv6()
    yield from halves()
    yield from one_by_one()
    for days in (1, -1):
        yield Row(f"wall-clock{days:+}d/all/3-min1", faults.ClockJump(days), 0, 3, 1, "nothing changes")


def on_ipv6():
    """The same on hosts that have no IPv4 address."""
    for row in (*kills(), *cuts()):
        fault, _, hosts = row.name.split("/")
        if fault in ("kill-agent", "silent-host") or (fault in ("cut-3.5s", "cut-30s") and hosts == "3-min1"):
            yield dataclasses.replace(row, name=f"ipv6-{row.name}", ipv6=True)


def halves():
    """What only shows with a part of several hosts, or with another rule for halves."""
    for name, part, small in (("minority", {0, 1}, {0, 1}), ("majority", {0, 1, 2}, {3, 4})):
        large = frozenset(range(5)) - small
        after = (Outcome(large, {host: {PARTITIONED} for host in small}),)
        # By docs/use/exit_codes.md; no worker of those is left, so that there is nothing to kill.
        yield Row(f"split/coordinator-in-{name}/5-min1", faults.Split(part), 0, 5, 1, after[0].text(), after=after,
                  within=8 * T + 5)
    fence = ("--fence", "DIR")
    fenced = tuple(Outcome(frozenset({host}), {1 - host: {PARTITIONED}}) for host in (0, 1))
    yield Row("fence-cut-30s/coordinator/2-min1", faults.Cut(30), 0, 2, 1,
              " or ".join(one.text() for one in fenced), during=fenced, after=fenced, within=SLACK, options=fence)
    for name, options in (("fence", fence), ("quorum-none", ("--quorum", "none"))):
        yield Row(f"{name}-silent-host/coordinator/2-min1", faults.Kill("host", silent=True), 0, 2, 1, "runs on 1",
                  after=(Outcome(frozenset({1})),), within=T + FENCE + SLACK, options=options)


def one_by_one():
    """Two of five hosts, the second one half a second later or two: what is left is most of every generation."""
    for name, hosts in (("members", (4, 3)), ("member-coordinator", (4, 0)), ("coordinator-elected", (0, 1))):
        for gap in (0.5, 2):
            for silent, options in ((False, ()), (True, ()), (False, ("--fence", "DIR"))):
                after = Outcome(frozenset(range(5)) - set(hosts))
                kind = "silent-hosts" if silent else "fence-kill-hosts" if options else "kill-hosts"
                yield Row(f"{kind}-{gap}s-apart/{name}/5-min1", faults.OneByOne(hosts, gap, silent), hosts[0], 5, 1,
                          after.text(), after=(after,), within=gap + 2 * T + FENCE + SLACK, options=options)


def size(hosts, least):
    return f"{hosts}-min{least}"


def places():
    """(the end of a row's name, hosts, MIN, the host that is hit)"""
    for hosts, least in SIZES:
        yield f"member/{size(hosts, least)}", hosts, least, hosts - 1
        yield f"coordinator/{size(hosts, least)}", hosts, least, 0


def all_rows():
    return [*kills(), *cuts(), *stops(), *others()]


# Without a cut of the coordinator's wire: after 3 s of it some leases have less time left than their renewal takes.
QUICK = ("kill-agent/member/3-min1", "kill-agent/coordinator/3-min1", "silent-host/member/3-min1",
         "silent-host/coordinator/3-min1", "cut-3s/member/3-min1",
         "cut-3s/coordinator/3-min1")
