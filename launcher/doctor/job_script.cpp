#include "launcher/doctor/job_script.hpp"

#include <algorithm>
#include <tuple>

#include "launcher/facts/deadlines.hpp"
#include "src/base/core/text.hpp"

namespace cxxrun::launcher::doctor {
namespace {

constexpr std::size_t kListed = 12;  // kinds of nodes

/// "48+" → 48.
unsigned count_in(std::string_view text) {
  return number_in<unsigned>(text.substr(0, text.find_first_not_of("0123456789"))).value_or(0);
}

/// "gpu:a100:4(S:0-1),gpu:v100:2,shard:8" → 6.
unsigned gpus_in(std::string const& text) {
  unsigned gpus = 0;
  for (auto const& word : split(text, ',')) {
    auto const resource = word.substr(0, word.find('('));
    if (resource.starts_with("gpu:")) {
      gpus += count_in(std::string_view(resource).substr(resource.rfind(':') + 1));
    }
  }
  return gpus;
}

/// An hour, or the limit of the partition if it is shorter.
std::string time_of(NodeKind const& kind) {
  auto const limit = parse_time_limit(kind.time_limit);
  bool const shorter = limit && *limit > Millis{0} && *limit < std::chrono::hours{1};
  return shorter ? kind.time_limit : "01:00:00";
}

std::string kind_text(NodeKind const& kind) {
  return kind.partition + (kind.is_default ? " (the default)" : "") + ": " + std::to_string(kind.nodes) + " x " +
         std::to_string(kind.cpus) + " CPUs, " + (kind.gpus == 0 ? "no" : std::to_string(kind.gpus)) +
         " GPUs, at most " + kind.time_limit;
}

}  // namespace

std::vector<NodeKind> read_sinfo(std::string_view text) {
  std::vector<NodeKind> kinds;
  for (auto const& line : split(std::string(text), '\n')) {
    auto const words = split(line, '|');
    if (words.size() != 6 || words[1] != "up" || words[0].empty()) {
      continue;
    }
    NodeKind kind;
    kind.is_default = words[0].ends_with('*');
    kind.partition = printable(words[0].substr(0, words[0].size() - (kind.is_default ? 1 : 0)));
    kind.nodes = count_in(words[2]);
    kind.cpus = count_in(words[3]);
    kind.gpus = gpus_in(words[4]);
    kind.time_limit = printable(words[5]);
    kinds.push_back(std::move(kind));
  }
  return kinds;
}

std::string job_script(std::vector<NodeKind> const& kinds, std::string const& command, std::string const& why_none,
                       std::string const& nodes) {
  std::string text =
      "#!/bin/bash\n"
      "# Written by cxxrun --init. To change: the number of nodes, the time, and the last lines.\n";
  for (std::size_t i = 0; i < std::min(kListed, kinds.size()); ++i) {
    text += "#   " + kind_text(kinds[i]) + "\n";
  }
  auto const best = std::ranges::max_element(kinds, [](NodeKind const& a, NodeKind const& b) {
    return std::make_tuple(a.gpus > 0, a.is_default, a.nodes) < std::make_tuple(b.gpus > 0, b.is_default, b.nodes);
  });
  NodeKind const kind = best == kinds.end() ? NodeKind{"", false, 2, 0, 0, ""} : *best;
  text += kinds.empty()
              ? "# " + printable(why_none) + ": choose partition and GPUs yourself.\n#SBATCH --partition=NAME\n"
              : "#SBATCH --partition=" + kind.partition + "\n";
  text += "#SBATCH --nodes=" + (nodes.empty() ? std::to_string(std::clamp(kind.nodes, 1U, 2U)) : nodes) +
          "\n#SBATCH --ntasks-per-node=1\n";
  text += kind.cpus > 0 ? "#SBATCH --cpus-per-task=" + std::to_string(kind.cpus) + "\n" : "";
  text += kind.gpus > 0   ? "#SBATCH --gpus-per-node=" + std::to_string(kind.gpus) + "\n"
          : kinds.empty() ? "##SBATCH --gpus-per-node=8\n"
                          : "";
  text += "#SBATCH --time=" + time_of(kind) + "\n#SBATCH --output=%x-%j.out\n\n";
  text += kind.cpus > 0 ? "# srun does not take --cpus-per-task from sbatch (Slurm 22.05 and 23.02).\n"
                          "export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK\n"
                        : "";
  return text +
         "# A table of what is wrong with the nodes; leave it out once all is well.\n"
         "srun cxxrun --doctor " +
         command + " || exit\nsrun cxxrun " + command + "\n";
}

}  // namespace cxxrun::launcher::doctor
