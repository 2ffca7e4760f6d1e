"""What fails in a large training, how often, and what stands for it here.

The counts are those of table 5 of "The Llama 3 Herd of Models" (arXiv 2407.21783): 419 unexpected interruptions in 54
days on 16,384 GPUs. Of the percentages that the table prints, that of the first row (30.1 %) does not fit its count:
148 of 419 are 35.3 %. The counts add up to 419, so they are used."""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Cause:
    name: str
    count: int
    kinds: tuple  # names of strikes.KINDS, each as likely
    why: str  # they stand for it


LLAMA_3 = (
    Cause("faulty GPU", 148, ("worker-killed",), "a CUDA call that fails ends the process that uses the GPU"),
    Cause("GPU HBM3 memory", 72, ("worker-exits",), "an uncorrectable error is an exception of the next CUDA call"),
    Cause("software bug", 54, ("worker-exits", "agent-killed", "parent-killed"), "in the program, or in cxxrun"),
    Cause("network switch or cable", 35, ("cut-short", "cut-long", "lossy", "reset"),
          "flaps, outages, loss, a firewall that forgets"),
    Cause("host maintenance", 32, ("drained", "host-at-once"), "told to go, or shut down without a word to the job"),
    Cause("GPU SRAM memory", 19, ("worker-killed",), "as a faulty GPU"),
    Cause("GPU system processor", 17, ("worker-hangs",), "calls to the GPU do not return any more"),
    Cause("NIC", 7, ("cut-off",), "the host lives, and nobody can reach it any more"),
    Cause("NCCL watchdog timeouts", 7, ("worker-hangs",), "one rank does not come to the collective"),
    Cause("silent data corruption", 6, ("worker-corrupts",), "a bit is wrong; the program finds it and ends"),
    Cause("GPU thermal interface, sensor", 6, ("frozen-short",), "the host is slow for a while"),
    Cause("SSD", 3, ("disk-full",), "/tmp of the host takes nothing any more"),
    Cause("power supply", 3, ("host-vanishes",), "silence"),
    Cause("server chassis", 2, ("host-vanishes",), "silence"),
    Cause("IO expansion board", 2, ("host-vanishes",), "silence"),
    Cause("dependency", 2, ("clock-jumps",), "what tells the host the time is wrong"),
    Cause("CPU", 2, ("frozen-long",), "the host stands still, and goes on when others have taken it for lost"),
    Cause("system memory", 2, ("parent-killed",), "the kernel kills a process that has done nothing"),
)


def draw(rng):
    """(cause, name of a kind), as likely as in the table."""
    cause = rng.choices(LLAMA_3, [one.count for one in LLAMA_3])[0]
    return cause.name, rng.choice(cause.kinds)
