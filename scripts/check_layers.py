#!/usr/bin/env python3
"""Fail when a file sees more than its room may.

ROOMS lists all folders of the product from the bottom to the top: a file includes its own room or one further down.
Further rules:
  two houses: the training runtime, src/runtime, is included by itself alone: the programs are built on src/base;
  names: no two headers have one name;
  circles: no two files include each other, not even by way of others (a header and its source count as one);
  purity: only the shells listed here touch clocks, sockets, processes, threads, files, environment or randomness,
    and only shells include the header of a shell;
  time: only the files listed here read the wall clock, and decide nothing by it;
  weight: the heavy headers stay in the few files listed here, which keeps the build short;
  opening: files are opened by src/base/os/folder alone, which follows no stranger's link, and by the few listed here; in the
    Python package by _files.py.
A file that becomes a shell is added to the list in review, with its reason. Usage: scripts/check_layers.py [ROOT]
"""
import pathlib
import re
import sys
import tempfile

LAYERS = ("include", "src", "rendezvous", "launcher")
ROOMS = """
include/cxxrun
src/base/core src/base/wire src/base/os src/base/store src/base/worker
src/runtime/comm src/runtime/data
src/runtime/cpu/common src/runtime/cpu/node src/runtime/cpu/rails src/runtime/cpu src/runtime/checkpoint
src/runtime/cuda src/runtime/gpu src/runtime/client src/runtime/gradient src/runtime/capi
rendezvous/values rendezvous/trust rendezvous/protocol rendezvous/voting
rendezvous/history rendezvous/hangs rendezvous/membership rendezvous/following rendezvous/net
launcher/facts launcher/live launcher/report launcher/logs launcher/options launcher/place launcher/plan
launcher/warm launcher/workers
launcher/life launcher/hangs launcher/job_end launcher/agent launcher/doctor launcher/view launcher/programs
""".split()

# Shells: they await something, make an event, call a pure step and perform its actions. NAME covers NAME.hpp, NAME.cpp
# and, with a final *, all that begin so.
SHELLS = {
    "src/base/os/*": "the only home of system calls",
    "src/runtime/capi/*": "what workers in other languages call",
    "src/runtime/client/*": "what workers call: store client, communicator",
    "src/runtime/checkpoint/checkpoint": "the saving thread, the run's id",
    "src/runtime/checkpoint/files": "a checkpoint directory and its files",
    "src/runtime/cuda/*": "the plugin: cudart, NCCL and kernels",
    "src/runtime/gpu/nccl_*": "the device, the peers, threads and deadlines",
    "src/runtime/gpu/select": "environment, the CUDA plugin, the device",
    "src/runtime/gradient/step": "when buckets were ready, launched and done",
    "src/runtime/cpu/*": "the host backend: shared memory, sockets, threads",
    "src/base/worker/agent_link": "a worker's connection to its agent, and its thread",
    "src/base/worker/rail_prover": "a rank's questions to its agent",
    "src/base/worker/futex": "waits for a word of shared memory",
    "src/base/worker/recorder": "when collectives begin and end",
    "src/base/worker/segment*": "the memory that a node's workers share, and the socket on which they are given it",
    "src/base/store/generation_store": "one store's connections, and whose are let in",
    "src/base/store/poller": "the stores' event loop",
    "src/base/store/store_server": "the stores' thread",
    "rendezvous/net/beat_line": "an agent's connection for beats",
    "rendezvous/net/channel": "one framed connection",
    "rendezvous/net/coordinator": "the coordinator's runs, and the log",
    "rendezvous/net/coordinator_link": "an agent's calls to the coordinator, the addresses of names",
    "rendezvous/net/fence": "makes, links and reads fence files, on threads of their own",
    "rendezvous/net/host_owners": "an agent's host: its addresses, whose its sockets are",
    "rendezvous/net/key_ring": "random keys, and threads that wait for munged",
    "rendezvous/net/peers": "the coordinator's listening sockets, connections and their deadlines",
    "rendezvous/net/run": "one run's timer and log",
    "rendezvous/trust/key": "memory that is left out of core dumps, and its lock",
    "launcher/logs/console": "stages output for the console, holds lines for a while",
    "launcher/logs/console_writer": "the console's writing thread",
    "launcher/logs/log_dir": "makes and removes directories; those that killed agents have left, too",
    "launcher/logs/log_file": "opens, writes, rotates and reads log files",
    "launcher/logs/log_tail": "reads what workers have written to log files",
    "launcher/logs/log_pump": "the workers' output, on its own thread",
    "launcher/place/discovery_file": "reads and writes files of this user alone: the discovery files",
    "launcher/place/machine": "CPUs, GPUs and where they are; a thread to find out",
    "launcher/place/python_package": "looks where the Python package is",
    "launcher/place/secret_file": "reads and makes files with secrets",
    "launcher/warm/zygote": "the process that warm workers are forked from, and its sockets",
    "launcher/workers/death_watch": "counters of memory, the kernel's log, the file systems",
    "launcher/workers/descendants": "which processes are ours",
    "launcher/workers/environment_watch": "the environments of the workers' programs, a timer",
    "launcher/workers/local_listener": "a socket on which processes of this user call",
    "launcher/workers/supervisor*": "starts, watches, resumes and reaps workers",
    "launcher/workers/worker_links": "the connections between an agent and its workers, and a page of memory with each",
    "launcher/workers/worker_program": "whether a program and its script are there, and who runs it",
    "launcher/workers/worker_memory": "the memory that a node's workers share, over a socket",
    "launcher/hangs/hang_guard": "the timer that looks at workers' pages; hang.txt",
    "launcher/hangs/native_stack": "gdb as a child, its output and its deadline",
    "launcher/hangs/nccl_ras": "a port for NCCL's service; calls it, on a thread of its caller",
    "launcher/hangs/python_stack": "asks a Python worker for its stacks: /proc, a signal, a timer",
    "launcher/job_end/end_watch": "the timer of the job's end, slurm.conf",
    "launcher/job_end/requeue_job": "runs scontrol at the end, keeps the history",
    "launcher/agent/agent": "one node's event loop, its signals and who sent them",
    "launcher/agent/agent_links": "an agent's connections",
    "launcher/agent/hosting": "the coordinator and the stores inside the first node's agent",
    "launcher/agent/refusing": "tells the others of a step that this agent takes no part",
    "launcher/agent/job_record": "events.jsonl, on a thread; verdict.json",
    "launcher/agent/joining": "timers of an agent that looks for its coordinator, discovery files, names",
    "launcher/agent/gpu_watch": "the process that asks the GPU driver, and its pipe",
    "launcher/agent/live_job": "the deadlines of questions; the pace of pulses",
    "launcher/agent/live_node": "the timer of pulses; programs that ask, over a socket",
    "launcher/agent/live_workers": "the workers' /proc, stacks and files",
    "launcher/doctor/board": "what nodes tell each other: connections, and their thread",
    "launcher/doctor/doctor": "runs the checks of this node, exchanges facts with other nodes, prints",
    "launcher/doctor/look*": "asks the system, name servers, drivers, file systems and programs, in children",
    "launcher/doctor/pings": "calls between nodes",
    "launcher/view/agents": "/proc of this user's agents, and their sockets",
    "launcher/view/following": "asks again and again, and writes what is new",
    "launcher/view/job_search": "this user's agents, squeue; standard input of a relay",
    "launcher/view/page": "the event loop of the page, its token file, signals, questions on threads",
    "launcher/view/page_server": "a listening socket, browsers' connections and their deadlines",
    "launcher/view/other_program": "becomes cxxrun, or Python",
    "launcher/view/relay": "srun as a child, and its streams",
    "launcher/view/top": "the terminal, its keys and signals; a thread that asks",
    "launcher/programs/ctl_main": "environment, terminal, exit code of cxxrunctl",
    "launcher/programs/gpus_main": "NVIDIA's library, a pipe",
    "launcher/programs/main": "environment, exit code",
    "launcher/programs/programs": "the programs by name",
    "launcher/programs/rendezvous_main": "event loop, environment, exit code of cxxrun-rendezvous",
    "launcher/programs/store_main": "the same for cxxrun-store",
}
# Among the files of shells, headers that only hold types and interfaces: pure, and for everybody below.
VOCABULARY = {"src/runtime/client/access.hpp", "src/runtime/cuda/plugin_api.h", "src/runtime/cpu/common/backend.hpp",
              "src/runtime/cpu/common/waiting.hpp", "rendezvous/trust/key.hpp"}
# Defines the clock that shells read; who else asks it for the time is found by that call.
CLOCK = "src/base/core/time.hpp"

# Heavy headers, and which files and folders may include them.
HEAVY = {
    r"boost/(asio|process)": {
        "src/base/os/asio_impl.cpp", "src/base/os/run_blocking.hpp", "src/base/os/signals.cpp", "src/base/os/timer.cpp", "rendezvous/net/beat_line.hpp",
        "rendezvous/net/beat_line.cpp", "rendezvous/net/channel.hpp", "rendezvous/net/channel.cpp",
        "rendezvous/net/coordinator.cpp", "rendezvous/net/coordinator_link.cpp", "rendezvous/net/key_ring.cpp", "rendezvous/net/peers.hpp",
        "rendezvous/net/peers.cpp", "rendezvous/net/run.cpp",
        "launcher/agent/agent.cpp", "launcher/agent/agent_links.cpp", "launcher/agent/live_job.cpp", "launcher/agent/live_node.cpp", "launcher/agent/live_workers.cpp", "launcher/agent/joining.cpp", "launcher/doctor/board.cpp", "launcher/agent/refusing.cpp", "launcher/hangs/native_stack.cpp",
        "launcher/hangs/python_stack.cpp", "launcher/logs/log_pump.cpp", "launcher/programs/rendezvous_main.cpp",
        "launcher/warm/zygote.cpp", "launcher/warm/zygote.hpp",
        "launcher/workers/supervisor.cpp", "launcher/workers/supervisor.hpp", "launcher/workers/supervisor_end.cpp",
        "launcher/workers/local_listener.hpp", "launcher/view/page.cpp", "launcher/view/page_server.cpp"},
    r"boost/beast": {"launcher/view/page_server.cpp"},
    r"nlohmann/json\.hpp": {"rendezvous/protocol/message_fields.hpp", "launcher/facts/discovery.cpp",
                            "launcher/doctor/finding.cpp",
                            "launcher/live/answers.cpp", "launcher/report/report_json.cpp",
                            "launcher/view/page_state.cpp", "launcher/view/table.cpp"},
    r"spdlog/": {"src/base/os/log.cpp"},
    r"CLI/": {"launcher/options/option_table.cpp"},
    r"hwloc": {"launcher/place/machine.cpp"},
    r"(cuda|nccl)[^/]*\.h$": {"src/runtime/cuda/"},
    r"sodium\.h$": {"rendezvous/trust/"},
}

# The wall clock may jump by a day: no decision rests on it. Only these files read it, to show a time to people or to
# turn Slurm's wall time into an instant of the steady clock once.
WALL = {
    "launcher/agent/job_record.cpp": "when an event was written, for people",
    "launcher/agent/live_node.cpp": "at which instants all nodes look at their workers' figures; a jump costs a window",
    "launcher/doctor/pings.cpp": "by how much the clocks of two nodes differ, for people",
    "launcher/job_end/end_watch.cpp": "Slurm's end of the job, once, at the start",
    "launcher/job_end/requeue_job.cpp": "which preemption is recent, against Slurm's own wall time",
    "launcher/workers/supervisor.cpp": "when a worker ended, for the report",
}
WALL_CLOCK = re.compile(
    r"system_clock|utc_clock|file_clock|CLOCK_REALTIME|CLOCK_TAI|\bgettimeofday\b|\btime\((nullptr|NULL|0)\)"
    r"|\btimespec_get\b|\bftime\(")

# Who opens files without src/base/os/folder: what lies in no directory that others may write to.
OPENERS = {
    "src/base/os/file_lock.cpp": "locks, in a Folder",
    "src/base/os/folder.cpp": "the one that looks at what it opens",
    "src/base/os/helper_children.cpp": "/dev/null, and paths of the user's, to see whether one byte can be read",
    "src/base/os/process_limits.cpp": "/sys/fs/cgroup, /dev/kmsg",
    "src/base/os/monitor.cpp": "/dev/null",
    "src/base/os/path_owners.cpp": "directories, to look at their owners",
    "src/base/os/process_info.cpp": "/proc",
    "src/base/os/socket_owners.cpp": "/proc/net",
    "src/base/os/spawn.cpp": "/dev/null, /proc/self/fd",
    "src/base/os/system.cpp": "/sys/class/drm, /dev/tty",
    "src/base/os/tcp_sockets.cpp": "/proc/sys",
    "src/runtime/client/local_facts.cpp": "/proc/sys/kernel/random/boot_id",
    "launcher/hangs/python_stack.cpp": "what a worker has open, by /proc",
    "launcher/logs/console_writer.cpp": "the own stdout and stderr, by /proc",
    "launcher/programs/rendezvous_main.cpp": "/dev/null",
    "launcher/warm/zygote.cpp": "/dev/null",
    "launcher/workers/worker_program.cpp": "the first bytes of what the kernel is to execute",
}
RAW_OPEN = re.compile(
    r"(?:\bstd::|(?<![\w:.>~&])::|(?<![\w:.>~&]))(?:open|open64|openat|openat2|creat|fopen|fopen64|freopen|mkstemp|mkostemp"
    r"|mkstemps|tmpfile)\(|\bstd::(?:basic_)?(?:[io]?fstream|filebuf)\b|\bfilesystem::copy(?:_file)?\(|\bSYS_open\w*")
PYTHON_FILES = "src/runtime/python/cxxrun/_files.py"
PYTHON_OPENERS = {PYTHON_FILES: "", "src/runtime/python/cxxrun/selftest.py": "a temporary file with a name that nobody can guess",
                  "src/runtime/python/cxxrun/trace.py": "the file that the user names, to read it; whose it is does not matter"}
PYTHON_OPEN = re.compile(
    r"(?<![\w.])open\(|\b(?:os|io)\.(?:open|fdopen)\(|\btempfile\b|\.(?:write|read)_(?:text|bytes)\(|\bshutil\.(?:copy|move)"
    r"|\bos\.(?:replace|rename)\(")

# <cerrno>, <csignal>, <sys/wait.h> and <sys/types.h> are vocabulary (numbers, macros): no touch of the outside.
IMPURE_HEADER = re.compile(
    r"sys/(?!wait\.h|types\.h)|(unistd|poll|fcntl|netdb|dlfcn|pthread|dirent|sched|spawn|net/if|ifaddrs)\.h$"
    r"|(thread|mutex|shared_mutex|condition_variable|future|random|fstream|filesystem|iostream|cstdio)$")
# Ways to the outside, by name: std::, :: or nothing before it; a member or a function of ours has its own name there.
CALLS = """
accept accept4 access async bind chdir chmod clock clock_gettime clone close connect daemon dlopen dlsym dup dup2 dup3
epoll_create1 eventfd execl execle execlp execv execve execvp execvpe exit _exit fclose fdopen fflush fgets fopen fork
fprintf fputs fread freopen fseek ftruncate fwrite getaddrinfo getcwd getenv gethostname getopt getpeername
getpid getppid getrandom getrlimit getrusage getsockname getuid ioctl isatty kill killpg link linkat listen lseek
madvise mkdir mkdirat mkdtemp mkfifo mkstemp mmap mprotect munmap nanosleep open openat opendir pause perror pidfd_open
pipe pipe2 poll popen ppoll prctl printf pthread_create putenv puts quick_exit raise rand random read readlink readv
recv recvfrom recvmsg rename rmdir sched_setaffinity sched_yield secure_getenv send sendmsg sendto setenv
setpgid setrlimit setsid setsockopt setvbuf sigaction signal signalfd sigprocmask sigqueue sleep socket socketpair
srand stat symlink syscall sysconf system tcsetpgrp tmpfile truncate umask uname unlink unlinkat unsetenv usleep utime
vfork wait wait3 wait4 waitid waitpid write writev
""".split()
IMPURE = re.compile(
    r"(?:\bstd::|(?<![\w:.>~&])::|(?<![\w:.>~&]))(?:" + "|".join(CALLS) + r")\("
    r"|\bstd::(?:jthread|thread|this_thread|mutex|condition_variable|random_device|mt19937\w*|[io]?fstream|c(?:err|out"
    r"|log|in)\b|filesystem::(?!path\b))|\b(?:steady|high_resolution)_clock::now|\bClock::now|\bos::\w+\(|\benviron\b")
# A function of ours that has such a name: "Answer wait(", "void close(", "auto const wait = [".
OWN = re.compile(r"^ *(?:\[\[[\w:]+\]\] )?(?!return|throw|else|case)\w[\w:<>,&* ]* (\w+)(?:\(| = \[)", re.M)
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.M)


def code_of(text):
    """Lines without comments and without what is inside quotes."""
    text = re.sub(r"/\*.*?\*/", lambda m: "\n" * m[0].count("\n"), text, flags=re.S)
    for line in text.splitlines():
        if not re.match(r"\s*#\s*include", line):
            line = re.sub(r'"(?:[^"\\]|\\.)*"', '""', line)
        yield re.sub(r"//.*", "", line)


def is_shell(rel):
    stem = rel.rsplit(".", 1)[0]
    return rel not in VOCABULARY and (
        stem in SHELLS or any(name.endswith("*") and stem.startswith(name[:-1]) for name in SHELLS))


def target_of(name):
    return "include/" + name if name.startswith("cxxrun/") else name


def own_names(text, files):
    """Ways to the outside by their names that are functions of ours: declared here, or in a header included here."""
    texts = [text] + [files[target_of(name)] for name in INCLUDE.findall(text) if target_of(name) in files]
    return {name for each in texts for name in OWN.findall(each) if name in CALLS}


def file_violations(rel, text, files):
    room, own = rel.rsplit("/", 1)[0], own_names(text, files)
    for number, line in enumerate(code_of(text), 1):
        where = f"{rel}:{number}"
        include = INCLUDE.match(line)
        target = target_of(include[1]) if include else ""
        if target in files:
            other = target.rsplit("/", 1)[0]
            apart = other.startswith("src/runtime/") and not room.startswith("src/runtime")
            if room in ROOMS and other in ROOMS and (apart or ROOMS.index(other) > ROOMS.index(room)):
                yield f"{where}: {room}/ may not include {other}/"
            if not is_shell(rel) and is_shell(target):
                yield f"{where}: pure file includes the header of a shell: {target}"
        elif target.split("/")[0] in LAYERS:
            yield f"{where}: {target} does not exist"
        if not is_shell(rel) and rel != CLOCK:
            if target and IMPURE_HEADER.match(target):
                yield f"{where}: pure file includes {target}"
            called = not include and [m for m in IMPURE.finditer(line) if re.sub(r"\W", "", m[0]) not in own]
            if called:
                yield f"{where}: pure file touches the outside world: {line.strip()}"
        raw = rel not in OPENERS and [m for m in RAW_OPEN.finditer(line) if re.sub(r"\W", "", m[0]) not in own]
        if raw:
            yield f"{where}: opens a file by itself, and not by src/base/os/folder.hpp: {line.strip()}"
        if rel not in WALL and WALL_CLOCK.search(line):
            yield f"{where}: reads the wall clock, which may jump: {line.strip()}"
        for pattern, allowed in HEAVY.items():
            if target and re.match(pattern, target) and not any(
                    rel == name or name.endswith("/") and rel.startswith(name) for name in allowed):
                yield f"{where}: heavy header {target} outside the files that may include it"


def python_violations(rel, text):
    for number, line in enumerate(text.splitlines(), 1):
        if PYTHON_OPEN.search(re.sub(r"#.*", "", line)) and not re.match(r"\s*def ", line):
            yield f"{rel}:{number}: opens a file by itself, and not by {PYTHON_FILES}: {line.strip()}"


def circles(files):
    """Groups of files that include each other in a circle; NAME.hpp and NAME.cpp are one."""
    edges = {}
    for rel, text in files.items():
        unit = rel.rsplit(".", 1)[0]
        for target in map(target_of, INCLUDE.findall(text)):
            if target in files and target.rsplit(".", 1)[0] != unit:
                edges.setdefault(unit, set()).add(target.rsplit(".", 1)[0])

    def reached(start):
        seen, todo = set(), [start]
        while todo:
            for other in edges.get(todo.pop(), ()):
                if other not in seen:
                    seen.add(other)
                    todo.append(other)
        return seen

    reach = {unit: reached(unit) for unit in edges}
    done = set()
    for unit in sorted(edges):
        if unit in reach[unit] and unit not in done:
            group = sorted(other for other in reach[unit] if unit in reach.get(other, ()))
            done.update(group)
            yield "include each other in a circle: " + ", ".join(group)


def violations(root):
    paths = sorted(p for layer in LAYERS for p in (root / layer).rglob("*") if p.suffix in {".hpp", ".h", ".cpp", ".cu"})
    files = {path.relative_to(root).as_posix(): path.read_text() for path in paths}
    for rel, text in files.items():
        if rel.rsplit("/", 1)[0] not in ROOMS:
            yield f"{rel}: lies in no room that scripts/check_layers.py knows"
        yield from file_violations(rel, text, files)
    yield from circles(files)
    headers = {}
    for rel in files:
        if rel.endswith((".hpp", ".h")):
            name = rel.rsplit("/", 1)[1]
            other = headers.setdefault(name, rel)
            if other != rel:
                yield f"{rel}: has the name of {other}"
    for path in sorted((root / "src/runtime/python/cxxrun").rglob("*.py")):
        if (rel := path.relative_to(root).as_posix()) not in PYTHON_OPENERS:
            yield from python_violations(rel, path.read_text())
    stems = {rel.rsplit(".", 1)[0] for rel in files}
    for name in [*SHELLS, *(rel.rsplit(".", 1)[0] for rel in [*WALL, *VOCABULARY, *OPENERS])]:
        if not any(stem == name or name.endswith("*") and stem.startswith(name[:-1]) for stem in stems):
            yield f"scripts/check_layers.py: {name} does not exist any more"


PLANTED = {  # file: what its one line must be found as
    "src/base/core/up.cpp": ('#include "launcher/options/options.hpp"', "may not include launcher/options/"),
    "src/base/core/outside.cpp": ("auto r = std::rand();", "touches the outside"),
    "rendezvous/voting/rand.cpp": ("auto r = rand();", "touches the outside"),
    "rendezvous/voting/kill.cpp": ("  kill(1, 9);", "touches the outside"),
    "rendezvous/voting/open.cpp": ('  auto* f = fopen("x", "r");', "touches the outside"),
    "rendezvous/voting/reap.cpp": ("  auto exit = os::reap_any();", "touches the outside"),
    "rendezvous/voting/now.cpp": ("auto t = std::chrono::steady_clock::now();", "touches the outside"),
    "rendezvous/voting/env.cpp": ("auto* home = ::getenv(name);", "touches the outside"),
    "rendezvous/voting/thread.cpp": ("#include <thread>", "includes thread"),
    "launcher/life/shell.cpp": ('#include "src/base/os/children.hpp"', "header of a shell"),
    "launcher/plan/other_house.cpp": ('#include "src/runtime/data/b.hpp"', "may not include src/runtime/data/"),
    "launcher/options/up.hpp": ('#include "launcher/place/topology.hpp"', "may not include launcher/place/"),
    "launcher/flat.cpp": ("int x;", "lies in no room"),
    "launcher/facts/gone.cpp": ('#include "launcher/facts/gone.hpp"', "does not exist"),
    "launcher/facts/heavy.cpp": ("#include <CLI/CLI.hpp>", "heavy header"),
    "src/runtime/gpu/choice.cpp": ("#include <nccl.h>", "heavy header"),
    "src/base/os/wall.cpp": ("auto t = std::time(nullptr);", "wall clock"),
    "src/base/os/wall_too.cpp": ("auto u = std::chrono::system_clock::now();", "wall clock"),
    "src/base/os/raw.cpp": ("int const fd = ::open(path, O_RDONLY);", "opens a file by itself"),
    "launcher/logs/log_dir.cpp": ("std::ofstream file(path);", "opens a file by itself"),
    "rendezvous/net/fence.cpp": ("auto* f = std::fopen(path, mode);", "opens a file by itself"),
    "src/runtime/checkpoint/files.cpp": ("fd.reset(openat(directory, name, O_RDONLY));", "opens a file by itself"),
    "src/base/os/folder.cpp": ("int const fd = ::open(path, O_RDONLY);", ""),
    "src/runtime/python/cxxrun/raw.py": ("with open(path, 'w') as file: pass", "opens a file by itself"),
    "src/runtime/python/cxxrun/_files.py": ("fd = os.open(path, 0)", ""),
    "src/runtime/data/a.hpp": ('#include "src/runtime/data/b.hpp"', ""),
    "src/runtime/data/b.cpp": ('#include "src/runtime/data/a.hpp"', ""),
    "src/runtime/data/b.hpp": ("int b;", "has the name of src/runtime/comm/b.hpp"),
    "src/runtime/comm/b.hpp": ("int bb;", ""),
    "launcher/options/options.hpp": ("int o;", ""),
    "launcher/place/topology.hpp": ("int t;", ""),
    "src/base/os/children.hpp": ("int c;  // kill(1, 9);", ""),
}


def self_test():
    """The check must be able to fail: each planted hole is found, and nothing where there is none."""
    with tempfile.TemporaryDirectory() as tmp:
        root = pathlib.Path(tmp)
        for rel, (line, _) in PLANTED.items():
            (root / rel).parent.mkdir(parents=True, exist_ok=True)
            (root / rel).write_text(line + "\n")
        found = [v for v in violations(root) if not v.startswith("scripts/")]
    missed = [rel for rel, (_, what) in PLANTED.items()
              if bool(what) != any(v.startswith(rel) and what in v for v in found)]
    if not any("circle: src/runtime/data/a, src/runtime/data/b" in v for v in found):
        missed.append("the circle")
    return missed


if __name__ == "__main__":
    if missed := self_test():
        sys.exit("check_layers: the check is broken, its self-test did not find: " + ", ".join(missed))
    found = list(violations(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")))
    for violation in found:
        print(violation)
    print(f"layers: {len(found)} violations" if found else "layers: clean")
    sys.exit(bool(found))
