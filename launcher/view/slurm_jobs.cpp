#include "launcher/view/slurm_jobs.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <iterator>
#include <utility>

#include "src/base/core/hostlist.hpp"
#include "src/base/core/list.hpp"
#include "src/base/core/text.hpp"

namespace cxxrun::launcher::view {
namespace {

/// The job of a step: "4711" of "4711.0".
std::string_view without_step(std::string_view job) {
  return job.substr(0, job.find('.'));
}

}  // namespace

std::vector<std::string> squeue_words() {
  return {"squeue", "--me", "-h", "-t", "R", "-o", "%A %i %N"};
}

std::vector<SlurmJob> read_squeue(std::string_view text) {
  std::vector<SlurmJob> jobs;
  for (auto const& line : split(text, '\n')) {
    auto const words = split(trim(line), ' ');
    auto nodes =
        words.size() == 3 ? expand_hostlist(words[2]) : Result<std::vector<std::string>>(Error{Errc::protocol, {}});
    if (nodes && !nodes->empty() && number_in<std::uint64_t>(words[0])) {
      jobs.push_back({words[0], words[1], std::move(*nodes)});
    }
  }
  return jobs;
}

bool may_be_slurm_job(std::string_view job) {
  return job.empty() || std::isdigit(static_cast<unsigned char>(job.front())) != 0;
}

std::vector<SlurmJob> jobs_meant(std::vector<SlurmJob> jobs, std::string_view job) {
  auto const wanted = without_step(job);
  std::erase_if(jobs,
                [&](SlurmJob const& each) { return !job.empty() && each.number != wanted && each.name != wanted; });
  return jobs;
}

std::string several_jobs_text(std::vector<SlurmJob> const& jobs) {
  auto const texts =
      list_of(jobs, [](SlurmJob const& job) { return job.name + " on " + compress_hostlist(job.nodes); });
  return "several jobs of yours run, say which one: " + join(texts, "; ");
}

std::string no_job_text(std::string_view job) {
  return "no job " + (job.empty() ? "" : printable(job, 100) + " ") + "of yours runs";
}

std::vector<std::string> srun_words(SlurmJob const& slurm_job, std::string const& node, std::string const& program,
                                    std::string_view job) {
  std::vector<std::string> words{"srun",       "--jobid=" + slurm_job.number,
                                 "--overlap",  "--nodes=1",
                                 "--ntasks=1", "--gres=none",
                                 "--mpi=none", "--chdir=/",
                                 "-w",         node,
                                 program,      kRelayOption};
  if (!job.empty()) {  // the agents know the number alone
    words.push_back(slurm_job.number + std::string(job.substr(without_step(job).size())));
  }
  return words;
}

Environment environment_for_slurm(Environment environment) {
  static constexpr std::array kPrefixes{"SLURM_", "SRUN_", "SQUEUE_"};
  std::erase_if(environment, [](auto const& variable) {
    return variable.first != "SLURM_CONF" && std::any_of(kPrefixes.begin(), kPrefixes.end(), [&](char const* prefix) {
             return variable.first.starts_with(prefix);
           });
  });
  return environment;
}

}  // namespace cxxrun::launcher::view
