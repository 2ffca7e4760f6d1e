#include "launcher/report/limit_signs.hpp"

#include <algorithm>
#include <cerrno>
#include <initializer_list>
#include <string>

#include "src/base/core/text.hpp"

namespace cxxrun::launcher {
namespace {

bool has(std::string_view text, std::string_view sign) {
  return text.find(sign) != std::string_view::npos;
}

bool has_one_of(std::string_view text, std::initializer_list<std::string_view> signs) {
  return std::any_of(signs.begin(), signs.end(), [text](std::string_view sign) { return has(text, sign); });
}

/// A line with `error` in it that is of one of `makers`.
bool line_of(std::string_view text, std::string_view error, std::initializer_list<std::string_view> makers) {
  for (auto at = text.find(error); at != std::string_view::npos; at = text.find(error, at + 1)) {
    auto const begin = text.substr(0, at).rfind('\n') + 1;  // npos + 1 is 0
    if (has_one_of(text.substr(begin, text.find('\n', at) - begin), makers)) {
      return true;
    }
  }
  return false;
}

/// Python, PyTorch and NCCL name what they keep in /dev/shm each in their way.
bool shared_memory_full(std::string_view said) {
  return line_of(said, "No space left on device", {"/dev/shm", "</torch_", "shared memory"}) ||
         has(said, "failed to extend /dev/shm/");
}

/// Python's traceback of a fork: the error alone is that of a lock that is taken, or of a pipe, too.
bool in_fork(std::string_view said) {
  return has_one_of(said, {"os.fork()", "fork_exec(", "start_new_thread("});
}

/// Of fork(2) and of the start of a thread: shells, OpenMP, OpenBLAS, C++, Python.
bool no_task(std::string_view said) {
  constexpr std::string_view kAgain = "Resource temporarily unavailable";
  return has_one_of(said, {"can't start new thread", "Cannot fork"}) ||
         line_of(said, kAgain, {"fork", "clone", "hread", "what():  Res"}) || (has(said, kAgain) && in_fork(said));
}

bool no_memory_to_fork(std::string_view said) {
  constexpr std::string_view kNone = "Cannot allocate memory";
  return line_of(said, kNone, {"fork", "clone", "hread"}) || (has(said, kNone) && in_fork(said));
}

/// InfiniBand: memory is registered, and locked for it.
bool no_locked_memory(std::string_view said) {
  return line_of(said, "Cannot allocate memory", {"ibv_", "mlock", "memory region"});
}

/// PyTorch sends tensors between its processes as descriptors; "received 0 items" is one that did not fit.
bool no_descriptor(std::string_view said) {
  return has_one_of(said, {"Too many open files", "received 0 items of ancdata"});
}

/// One's own limit, and so one's own doing; whatever the node is short of may be another's.
Explanation of(ReachedLimit reached, std::string cause, std::string advice) {
  bool const own = !reached.limit.empty();
  return own ? Explanation{cause + ": " + reached.limit, std::move(reached.remedy), true}
             : Explanation{std::move(cause), std::move(advice)};
}

}  // namespace

Explanation explain_limits(std::string_view said, Limits const& limits) {
  if (shared_memory_full(said)) {
    return {"/dev/shm is full",
            "use a larger /dev/shm (containers: --shm-size), or num_workers=0; ls -l /dev/shm shows "
            "what killed programs have left"};
  }
  if (no_descriptor(said)) {
    auto found = of(reached_limit(EMFILE, limits), "no descriptor was left", "raise `ulimit -n`");
    bool const shares = has_one_of(said, {"ancdata", "shared memory object", "multiprocessing"});
    found.advice += shares ? "; torch.multiprocessing.set_sharing_strategy('file_system') needs fewer" : "";
    return found;
  }
  if (no_task(said)) {
    return of(reached_limit(EAGAIN, limits), "no process or thread could be started",
              "see ulimit -u, and pids.max of the control group; fewer threads: OMP_NUM_THREADS, DataLoader workers");
  }
  if (limits.locked.soft && no_locked_memory(said)) {
    return {"memory could not be locked: the limit is " + bytes_text(*limits.locked.soft) + " (ulimit -l)",
            "InfiniBand and RoCE need it unlimited: LimitMEMLOCK=infinity of slurmd, "
            "PropagateResourceLimitsExcept=MEMLOCK in slurm.conf",
            true};
  }
  if (no_memory_to_fork(said)) {
    return of(reached_limit(ENOMEM, limits), "no memory for another process or thread",
              "ask for more (--mem), or start fewer, such as DataLoader workers; sysctl vm.overcommit_memory=2 refuses "
              "what would fit");
  }
  if (limits.file_size.soft && has(said, "File too large")) {
    return of(reached_limit(EFBIG, limits), "a file could not be written", "");
  }
  if (limits.address_space.soft && has_one_of(said, {"MemoryError", "std::bad_alloc", "Cannot allocate memory"})) {
    return {"memory could not be had: the limit is " + bytes_text(*limits.address_space.soft) +
                " of address space (ulimit -v)",
            lifting('v'), true};
  }
  return {};
}

}  // namespace cxxrun::launcher
