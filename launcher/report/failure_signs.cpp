#include "launcher/report/failure_signs.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <initializer_list>
#include <utility>

#include "src/base/core/text.hpp"

namespace cxxrun::launcher {
namespace {

/// The text from `begin` up to one of the characters in `end`.
std::string_view until(std::string_view text, std::size_t begin, std::string_view end) {
  return text.substr(begin, text.find_first_of(end, begin) - begin);
}

/// The text between the last pair of quotation marks; "" = none.
std::string_view quoted(std::string_view text) {
  using Marks = std::pair<std::string_view, std::string_view>;
  constexpr std::array<Marks, 4> kMarks{{{"\u2018", "\u2019"}, {"\"", "\""}, {"'", "'"}, {"`", "'"}}};
  for (auto const& [open, close] : kMarks) {
    auto const end = text.rfind(close);
    auto const begin = end == text.npos || end == 0 ? text.npos : text.rfind(open, end - 1);
    if (begin != text.npos) {
      return text.substr(begin + open.size(), end - begin - open.size());
    }
  }
  return {};
}

/// The last word that is an absolute path; "" = none.
std::string_view last_path(std::string_view text) {
  auto const begin = text.starts_with('/') ? 0 : text.find(" /") + 1;  // npos + 1 is 0
  auto const path = until(text, begin, ": ,;)\t");
  return path.starts_with('/') ? path : "";
}

/// The path in a line with "No space left on device" or "Disk quota exceeded". Python and C++ write it after these
/// words, most programs before them. Of two paths ('a' -> 'b') the second is the one written to.
std::string full_path(std::string_view before, std::string_view behind) {
  if (behind.starts_with(": '")) {
    auto const second = behind.find("' -> '");
    return std::string(until(behind, second == behind.npos ? 3 : second + 6, "'"));
  }
  if (behind.starts_with(" [/") || behind.starts_with(" [\"/")) {
    auto const path = until(behind, behind.rfind(" [") + 2, "]");
    return std::string(path.starts_with('"') ? until(path, 1, "\"") : path);
  }
  auto const name = quoted(before.substr(0, before.find_last_not_of("'\"") + 1));
  return std::string(name.empty() ? last_path(before) : name);
}

// ---- limits -----------------------------------------------------------------------------------------------------

bool has(std::string_view text, std::string_view sign) {
  return text.find(sign) != std::string_view::npos;
}

bool has_one_of(std::string_view text, std::initializer_list<std::string_view> signs) {
  return std::ranges::any_of(signs, [text](std::string_view sign) { return has(text, sign); });
}

/// Whether a line contains `error` and one of `makers`.
bool has_line(std::string_view text, std::string_view error, std::initializer_list<std::string_view> makers) {
  for (auto at = text.find(error); at != std::string_view::npos; at = text.find(error, at + 1)) {
    auto const begin = text.substr(0, at).rfind('\n') + 1;  // npos + 1 is 0
    if (has_one_of(text.substr(begin, text.find('\n', at) - begin), makers)) {
      return true;
    }
  }
  return false;
}

/// Python, PyTorch and NCCL each name their files in /dev/shm differently.
bool shared_memory_full(std::string_view said) {
  return has_line(said, "No space left on device", {"/dev/shm", "</torch_", "shared memory"}) ||
         has(said, "failed to extend /dev/shm/");
}

/// Whether there is a traceback of a fork in Python. The error alone proves nothing: locks and pipes fail with it, too.
bool in_fork(std::string_view said) {
  return has_one_of(said, {"os.fork()", "fork_exec(", "start_new_thread("});
}

/// fork(2) or the start of a thread failed: messages of shells, OpenMP, OpenBLAS, C++ and Python.
bool no_task(std::string_view said) {
  constexpr std::string_view kAgain = "Resource temporarily unavailable";
  return has_one_of(said, {"can't start new thread", "Cannot fork"}) ||
         has_line(said, kAgain, {"fork", "clone", "hread", "what():  Res"}) || (has(said, kAgain) && in_fork(said));
}

bool no_memory_to_fork(std::string_view said) {
  constexpr std::string_view kNone = "Cannot allocate memory";
  return has_line(said, kNone, {"fork", "clone", "hread"}) || (has(said, kNone) && in_fork(said));
}

/// InfiniBand registers memory, which locks it.
bool no_locked_memory(std::string_view said) {
  return has_line(said, "Cannot allocate memory", {"ibv_", "mlock", "memory region"});
}

/// PyTorch sends tensors between processes as descriptors; "received 0 items" means that one could not be received.
bool no_descriptor(std::string_view said) {
  return has_one_of(said, {"Too many open files", "received 0 items of ancdata"});
}

/// A limit of the user is caused by the job. A shortage of the node may be caused by others.
Explanation explanation_of(ReachedLimit reached, std::string cause, std::string advice) {
  bool const own = !reached.limit.empty();
  return own ? Explanation{cause + ": " + reached.limit, std::move(reached.remedy), true}
             : Explanation{std::move(cause), std::move(advice)};
}

// ---- GPUs -------------------------------------------------------------------------------------------------------

struct KnownXid {
  std::uint32_t number;
  bool by_program;
  char const* meaning;
};
// From NVIDIA's list of Xid errors.
constexpr std::array kKnownXids{
    KnownXid{13, true, "illegal instruction or address on the GPU"},
    KnownXid{31, true, "illegal address on the GPU"},
    KnownXid{43, true, "a program's channel was reset"},
    KnownXid{45, true, "a program was ended on the GPU"},
    KnownXid{48, false, "memory error that cannot be corrected"},
    KnownXid{63, false, "a row of its memory is to be replaced"},
    KnownXid{64, false, "a row of its memory cannot be replaced"},
    KnownXid{68, true, "a video program failed"},
    KnownXid{74, false, "NVLink error"},
    KnownXid{79, false, "it has fallen off the bus"},
    KnownXid{92, false, "many memory errors that were corrected"},
    KnownXid{94, false, "memory error, contained"},
    KnownXid{95, false, "memory error, not contained"},
    KnownXid{109, true, "a context switch timed out"},
    KnownXid{119, false, "its firmware does not answer"},
    KnownXid{120, false, "its firmware failed"},
};

Explanation xid_explanation(std::string const& gpu, std::uint32_t number, std::string const& meaning, bool by_program) {
  std::string const xid = "Xid " + std::to_string(number) + (meaning.empty() ? "" : " (" + meaning + ")");
  return by_program ? Explanation{"GPU " + gpu + ": " + xid + ", caused by a program, not by the GPU",
                                  "CUDA_LAUNCH_BLOCKING=1 shows the call", true}
                    : Explanation{"GPU " + gpu + " failed: " + xid,
                                  "leave the node out (--exclude) until its GPU has been checked"};
}

}  // namespace

StderrSigns signs_in(std::string_view text) {
  StderrSigns said;
  constexpr std::string_view kHelper = "DataLoader worker (pid ";  // not "(pid(s) 7, 8)": that is another message
  for (auto at = text.find(kHelper); at != std::string_view::npos && said.helper.empty();
       at = text.find(kHelper, at + 1)) {
    auto const line = until(text, at, "\n");
    auto const pid = until(line, kHelper.size(), ")");
    said.helper_killed = line.find("is killed by signal: Killed") != std::string_view::npos;
    bool const bus = line.find("is killed by signal: Bus error") != std::string_view::npos;
    bool const is_pid = number_in<int>(pid).has_value();  // a traceback may show the source line with "{pid}"
    said.helper = is_pid && (said.helper_killed || bus) ? std::string(pid) : "";
  }
  // Without the first letter, which is small in Go.
  for (std::string_view const full : {"o space left on device", "isk quota exceeded"}) {
    auto const found = text.rfind(full);
    if (found == text.npos || found == 0 || said.disk_full) {
      continue;
    }
    said.disk_full = true;
    said.over_quota = full.starts_with("isk");
    auto const words = found - 1;
    auto const line = text.substr(0, words).rfind('\n') + 1;  // npos + 1 is 0
    said.disk_path = full_path(text.substr(line, words - line), until(text, found + full.size(), "\n"));
  }
  for (std::string_view const sign :
       {"Input/output error", "Stale file handle", "Transport endpoint is not connected"}) {
    said.io_error = said.io_error || text.find(sign) != std::string_view::npos;
  }
  return said;
}

Explanation explain_limits(std::string_view said, Limits const& limits) {
  if (shared_memory_full(said)) {
    return {"/dev/shm is full",
            "use a larger /dev/shm (containers: --shm-size), or num_workers=0; ls -l /dev/shm shows "
            "files left by killed programs"};
  }
  if (no_descriptor(said)) {
    auto found = explanation_of(reached_limit(EMFILE, limits), "out of file descriptors", "raise `ulimit -n`");
    bool const shares = has_one_of(said, {"ancdata", "shared memory object", "multiprocessing"});
    found.advice += shares ? "; torch.multiprocessing.set_sharing_strategy('file_system') needs fewer" : "";
    return found;
  }
  if (no_task(said)) {
    return explanation_of(
        reached_limit(EAGAIN, limits), "no process or thread could be started",
        "see ulimit -u, and pids.max of the control group; fewer threads: OMP_NUM_THREADS, DataLoader workers");
  }
  if (limits.locked.soft && no_locked_memory(said)) {
    return {"memory could not be locked: the limit is " + bytes_text(*limits.locked.soft) + " (ulimit -l)",
            "InfiniBand and RoCE need it unlimited: LimitMEMLOCK=infinity of slurmd, "
            "PropagateResourceLimitsExcept=MEMLOCK in slurm.conf",
            true};
  }
  if (no_memory_to_fork(said)) {
    return explanation_of(
        reached_limit(ENOMEM, limits), "no memory for another process or thread",
        "ask for more (--mem), or start fewer, such as DataLoader workers; sysctl vm.overcommit_memory=2 refuses "
        "what would fit");
  }
  if (limits.file_size.soft && has(said, "File too large")) {
    return explanation_of(reached_limit(EFBIG, limits), "a file could not be written", "");
  }
  if (limits.address_space.soft && has_one_of(said, {"MemoryError", "std::bad_alloc", "Cannot allocate memory"})) {
    return {"out of address space: the limit is " + bytes_text(*limits.address_space.soft) + " (ulimit -v)",
            lifting('v'), true};
  }
  return {};
}

Explanation explain_xids(std::string_view kernel_log) {
  constexpr std::string_view kSign = "NVRM: Xid (PCI:";
  Explanation of_program;
  for (auto const& line : split(kernel_log, '\n')) {
    auto const at = line.find(kSign);
    auto const close = at == std::string::npos ? at : line.find("): ", at);
    if (close == std::string::npos) {
      continue;
    }
    auto const gpu = printable(line.substr(at + kSign.size(), close - at - kSign.size()), 40);
    auto const rest = std::string_view(line).substr(close + 3);
    auto const number = number_in<std::uint32_t>(rest.substr(0, rest.find_first_not_of("0123456789")));
    if (!number) {
      continue;
    }
    auto const known = std::ranges::find_if(kKnownXids, [&](auto const& each) { return each.number == *number; });
    bool const by_program = known != kKnownXids.end() && known->by_program;
    auto found = xid_explanation(gpu, *number, known == kKnownXids.end() ? "" : known->meaning, by_program);
    if (!by_program) {
      return found;
    }
    of_program = of_program.cause.empty() ? std::move(found) : of_program;
  }
  return of_program;
}

std::string bytes_text(std::uint64_t bytes) {
  constexpr std::uint64_t kKi = 1024;
  auto const whole = [](std::uint64_t number, char const* unit) { return std::to_string(number) + " " + unit; };
  if (bytes < kKi * kKi) {
    return whole(bytes / kKi, "KiB");
  }
  if (bytes < kKi * kKi * kKi) {
    return whole(bytes / (kKi * kKi), "MiB");
  }
  auto const tenths = bytes * 10 / (kKi * kKi * kKi);
  return std::to_string(tenths / 10) + (tenths % 10 == 0 ? "" : "." + std::to_string(tenths % 10)) + " GiB";
}

}  // namespace cxxrun::launcher
