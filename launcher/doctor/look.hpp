// Gathers the facts of this node for --doctor. Shell.
//
// What may hang (name servers, drivers, file systems, programs) runs in child processes with time limits, all at once.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "launcher/doctor/finding.hpp"
#include "launcher/facts/cpu_share.hpp"
#include "launcher/options/options.hpp"
#include "src/base/os/helper_children.hpp"

namespace cxxrun::launcher::doctor {

struct LookOptions {
  std::string host;                ///< this node, as other nodes call it
  std::vector<std::string> names;  ///< other names that this node must resolve; the first node's comes first
  bool by_address = false;         ///< the job was given addresses and looks up no names
  std::uint32_t nodes = 1;         ///< of the job
  std::string python;              ///< the interpreter of the workers: a name or a path
  bool needs_python = false;       ///< the given program is run by it
  std::string log_dir;             ///< --log-dir
  CpuUse cpus;                     ///< workers and tasks alone; start_looking() adds the CPUs
  bool slurm = false;              ///< also ask for Slurm's settings; one node of a step is enough
};

using Say = os::LimitedChild::Say;
/// The work of the child that asks name servers. Like all children it reports lines of "key=value".
void look_at_names(LookOptions const& wanted, Say const& say);
/// Reports what sinfo prints, or kNoPartitions and the reason.
inline constexpr char const* kNoPartitions = "none: ";
void look_at_partitions(Environment const& environment, Say const& say);
/// What cannot hang: the kernel's own files, limits, sockets.
[[nodiscard]] Facts look_at_system(Environment const& environment);

/// Reports one fact as one line: newlines in the value become blanks.
void tell(Say const& say, std::string const& key, std::string const& value);

/// Starts the children. The process must have no other threads yet; it may start some afterwards. The returned function
/// gives the facts and may be called once: it blocks until each child has ended or its time is up.
[[nodiscard]] std::function<Facts()> start_looking(LookOptions const& wanted, Environment const& environment,
                                                   os::Caretaker const& caretaker);

}  // namespace cxxrun::launcher::doctor
