#!/usr/bin/env python3
"""Fail when a file sees more than its layer may.

  include/cxxrun  <-  src  <-  rendezvous  <-  launcher        (a file includes its own layer or one further left)

Four rules:
  1. direction: a layer never includes one to its right;
  2. purity: only the shells listed here touch clocks, sockets, processes, threads, files, environment or randomness;
  3. time: only the files listed here read the wall clock, and decide nothing by it;
  4. weight: the heavy headers stay in the few files listed here, which keeps the build short.
A file that becomes a shell is added to the list in review, with its reason. Usage: scripts/check_layers.py [ROOT]
"""
import pathlib
import re
import sys
import tempfile

RANK = {"include": 0, "src": 1, "rendezvous": 2, "launcher": 3}

# Shells: they await something, make an event, call a pure step and perform its actions.
SHELLS = {
    "src/os/": "the only home of system calls",
    "src/client/": "what workers call: store client, communicator",
    "src/checkpoint/checkpoint.": "the saving thread, the run's id",
    "src/checkpoint/file_io.": "reads and writes of whole checkpoints",
    "src/checkpoint/files.": "a checkpoint directory",
    "src/checkpoint/load.": "reads checkpoint files",
    "src/cuda/": "the plugin: cudart, NCCL and kernels",
    "src/gpu/nccl_": "the device, the peers, threads and deadlines",
    "src/gpu/plugin": "opens the CUDA plugin",
    "src/gpu/select": "environment, the device",
    "src/gradient/step": "when buckets were ready, launched and done",
    "src/host/": "the host backend: shared memory, sockets, threads",
    "src/worker/agent_link": "a worker's connection to its agent, and its thread",
    "src/worker/recorder": "when collectives begin and end",
    "src/store/poller": "the stores' event loop",
    "src/store/store_listen": "the stores' listening sockets",
    "src/store/store_server": "the stores' thread and connections",
    "rendezvous/net/beat_line": "an agent's connection for beats",
    "rendezvous/net/channel": "one framed connection",
    "rendezvous/net/client": "an agent's calls to the coordinator",
    "rendezvous/net/fence_claims": "threads that claim fence files",
    "rendezvous/net/fence_file": "makes, links and reads fence files",
    "rendezvous/net/listener": "the coordinator's listening socket",
    "rendezvous/net/peers": "the coordinator's connections and their deadlines",
    "rendezvous/net/run.": "one run's timer and log",
    "rendezvous/net/server": "the coordinator's runs, and the log",
    "launcher/agent/agent.": "one node's event loop",
    "launcher/agent/agent_links": "an agent's connections",
    "launcher/agent/agent_setup": "makes directories, waits for the CPU plan, writes verdict.json",
    "launcher/logs/console_writer": "the console's writing thread",
    "launcher/workers/descendants": "which processes are ours",
    "launcher/place/discovery_file": "reads and writes the discovery files",
    "launcher/hangs/hang_guard": "the timer that looks at workers' pages; hang.txt",
    "launcher/agent/hosting": "the coordinator and the stores inside the first node's agent",
    "launcher/job_end/end_watch": "the timer of the job's end, slurm.conf",
    "launcher/logs/log_dir": "makes and removes directories",
    "launcher/logs/log_file": "one log file",
    "launcher/logs/log_pump": "the workers' output, on its own thread",
    "launcher/workers/local_listener": "a socket on which processes of this user call",
    "launcher/place/machine.": "CPUs, GPUs and where they are; a thread to find out",
    "launcher/programs/main.cpp": "environment, exit code",
    "launcher/programs/rendezvous_host": "the event loop of cxxrun-rendezvous",
    "launcher/programs/rendezvous_main.cpp": "environment, exit code of cxxrun-rendezvous",
    "launcher/programs/store_main.cpp": "the same for cxxrun-store",
    "launcher/job_end/requeue_job": "asks Slurm at the end, keeps the history",
    "launcher/job_end/slurm_control": "runs scontrol",
    "launcher/hangs/stack_probe": "runs gdb",
    "launcher/workers/supervisor": "starts, watches, resumes and reaps workers",
    "launcher/workers/worker_links": "the connections between an agent and its workers",
    "launcher/workers/worker_memory": "the memory that a node's workers share, over a socket",
    "launcher/workers/worker_page": "the memory that one worker and its agent share",
    "launcher/workers/worker_process": "one worker's process handle",
    "launcher/workers/worker_start": "starts one worker",
    "launcher/workers/worker_streams": "pipes and files of one worker",
}

# Heavy headers, and which files and folders may include them.
HEAVY = {
    r"boost/(asio|process)": {
        "src/os/asio_impl.cpp", "rendezvous/net/beat_line.hpp", "rendezvous/net/beat_line.cpp", "rendezvous/net/channel.hpp", "rendezvous/net/channel.cpp", "rendezvous/net/client.cpp",
        "rendezvous/net/fence_claims.cpp", "rendezvous/net/listener.hpp", "rendezvous/net/listener.cpp", "rendezvous/net/peers.hpp", "rendezvous/net/peers.cpp", "rendezvous/net/run.cpp",
        "rendezvous/net/server.cpp",
        "launcher/agent/agent.cpp", "launcher/agent/agent_links.cpp", "launcher/job_end/end_watch.cpp", "launcher/hangs/hang_guard.cpp", "launcher/programs/rendezvous_host.cpp",
        "launcher/hangs/stack_probe.cpp", "launcher/workers/supervisor.cpp", "launcher/workers/supervisor_ending.cpp", "launcher/workers/supervisor_impl.hpp",
        "launcher/workers/local_listener.hpp", "launcher/workers/worker_process.hpp"},
    r"nlohmann/json\.hpp": {"rendezvous/protocol/message_json.hpp", "launcher/facts/discovery.cpp", "launcher/logs/report.cpp"},
    r"spdlog/": {"src/os/log.cpp"},
    r"CLI/": {"launcher/options/options.cpp"},
    r"hwloc": {"launcher/place/machine.cpp"},
    r"(cuda|nccl)[^/]*\.h$": {"src/cuda/"},
}

# The wall clock may jump by a day: no decision rests on it. Only these files read it, to show a time to people or to
# turn Slurm's wall time into an instant of the steady clock once.
WALL = {
    "launcher/job_end/end_watch.cpp": "Slurm's end of the job, once, at the start",
    "launcher/job_end/requeue_job.cpp": "which preemption is recent, against Slurm's own wall time",
    "launcher/workers/supervisor.cpp": "when a worker ended, for the report",
}
WALL_CLOCK = re.compile(
    r"system_clock|utc_clock|file_clock|CLOCK_REALTIME|CLOCK_TAI|\bgettimeofday\b|\btime\((nullptr|NULL|0)\)"
    r"|\btimespec_get\b|\bftime\(")

# <cerrno>, <csignal>, <sys/wait.h> and <sys/types.h> are vocabulary (numbers, macros): no touch of the outside.
IMPURE = re.compile(
    r"#\s*include\s*<(sys/(?!wait\.h|types\.h)|unistd\.h|thread|mutex|random|fstream|filesystem|poll\.h|fcntl\.h"
    r"|netdb\.h)|(steady|system|high_resolution)_clock::now|Clock::now|\bgetenv\(|\bstd::cerr|\bstd::cout"
    r"|src/os/log\.hpp")


def is_shell(rel):
    return any(rel.startswith(prefix) for prefix in SHELLS)


def violations(root):
    files = sorted(p for layer in RANK for p in (root / layer).rglob("*") if p.suffix in {".hpp", ".h", ".cpp", ".cu"})
    for path in files:
        rel = path.relative_to(root).as_posix()
        layer = rel.split("/")[0]
        for number, line in enumerate(path.read_text().splitlines(), 1):
            where = f"{rel}:{number}"
            include = re.match(r'\s*#\s*include\s*[<"]([^>"]+)[>"]', line)
            target = include[1] if include else ""
            other = target.split("/")[0].replace("cxxrun", "include")
            if other in RANK and RANK[other] > RANK[layer]:
                yield f"{where}: {layer}/ may not include {other}/"
            if not is_shell(rel) and IMPURE.search(line):
                yield f"{where}: pure file touches the outside world: {line.strip()}"
            if rel not in WALL and WALL_CLOCK.search(line):
                yield f"{where}: reads the wall clock, which may jump: {line.strip()}"
            for pattern, allowed in HEAVY.items():
                if target and re.match(pattern, target) and not any(
                        rel == name or name.endswith("/") and rel.startswith(name) for name in allowed):
                    yield f"{where}: heavy header {target} outside the files that may include it"
    for rel in sorted(rel for rel in WALL if not (root / rel).exists()):
        yield f"scripts/check_layers.py: {rel} does not exist any more"
    for prefix in SHELLS:
        if not any(p.relative_to(root).as_posix().startswith(prefix) for p in files):
            yield f"scripts/check_layers.py: shell {prefix} does not exist any more"


def self_test():
    """The check must be able to fail: planted violations are found, in a shell too."""
    with tempfile.TemporaryDirectory() as tmp:
        root = pathlib.Path(tmp)
        for layer in RANK:
            (root / layer).mkdir()
        (root / "src/pure.cpp").write_text(
            '#include "launcher/options/options.hpp"\nauto t = std::chrono::steady_clock::now();\n#include <CLI/CLI.hpp>\n'
            '#include <nccl.h>\n')
        (root / "src/os").mkdir()
        (root / "src/os/shell.cpp").write_text(
            "auto t = std::time(nullptr);\nauto u = std::chrono::system_clock::now();\n")
        found = list(violations(root))
        return [sum(v.startswith(f"src/{name}.cpp") for v in found) for name in ("pure", "os/shell")] == [4, 2]


if __name__ == "__main__":
    if not self_test():
        sys.exit("check_layers: the self-test found nothing: the check is broken")
    found = list(violations(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")))
    for violation in found:
        print(violation)
    print(f"layers: {len(found)} violations" if found else "layers: clean")
    sys.exit(bool(found))
