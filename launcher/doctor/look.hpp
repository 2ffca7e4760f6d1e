// Gathers the facts of this node for --doctor. Shell.
//
// What may hang (name servers, drivers, file systems, programs) is asked in children with time limits, all at once.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "launcher/doctor/finding.hpp"
#include "launcher/facts/cpu_share.hpp"
#include "launcher/options/options.hpp"
#include "src/base/os/caretaker.hpp"
#include "src/base/os/limited_child.hpp"

namespace cxxrun::launcher::doctor {

struct Wanted {
  std::string host;                ///< as other nodes call it
  std::vector<std::string> names;  ///< that this node must know besides, the first node's before others
  bool by_address = false;         ///< the job has been given addresses: it asks for no names
  std::uint32_t nodes = 1;         ///< that are to be one job
  std::string python;              ///< what workers are run with: a name or a path
  bool needs_python = false;       ///< whether the program that is given is run with it
  std::string log_dir;             ///< --log-dir
  CpuUse cpus;                     ///< what is known of it: workers and tasks
  bool slurm = false;              ///< Slurm's settings too; one node of a step is enough
};

using Say = os::LimitedChild::Say;
/// What each child does; it says "key=value" lines.
void look_at_names(Wanted const& wanted, Say const& say);
void look_at_gpus(Say const& say);
void look_at_nccl(Say const& say);
void look_at_directory(Wanted const& wanted, os::Caretaker const& caretaker, Say const& say);
void look_at_logs(Wanted const& wanted, Environment const& environment, Say const& say);
void look_at_home(Environment const& environment, Say const& say);
void look_at_python(Wanted const& wanted, Environment const& environment, Say const& say);
void look_at_slurm(Environment const& environment, Say const& say);
/// What sinfo prints of the partitions, or kNoPartitions and why not.
inline constexpr char const* kNoPartitions = "none: ";
void look_at_partitions(Environment const& environment, Say const& say);
/// What cannot hang: the kernel's own files, limits, sockets.
[[nodiscard]] Facts look_at_system(Environment const& environment);

/// One line for one fact, whatever is in it.
void tell(Say const& say, std::string const& key, std::string const& value);

/// Everything. Only for a process without other threads, which may have some once the children run. What is returned
/// gives the facts, once: it blocks until they are there or their time is over.
[[nodiscard]] std::function<Facts()> start_looking(Wanted const& wanted, Environment const& environment,
                                                   os::Caretaker const& caretaker);

}  // namespace cxxrun::launcher::doctor
