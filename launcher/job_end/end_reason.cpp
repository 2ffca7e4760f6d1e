#include "launcher/job_end/end_reason.hpp"

#include <chrono>
#include <optional>
#include <vector>

#include "src/base/core/text.hpp"

namespace cxxrun::launcher::requeue {
namespace {

/// Seconds of "2026-11-23T22:51:07", whatever the zone: good for differences. Nothing for "Unknown" and the like.
std::optional<std::int64_t> seconds_of(std::string const& time) {
  auto const parts = split(time, 'T');
  auto const date = split(parts.front(), '-');
  auto const clock = split(parts.back(), ':');
  if (parts.size() != 2 || date.size() != 3 || clock.size() != 3) {
    return std::nullopt;
  }
  std::vector<std::int64_t> numbers;
  for (auto const& words : {date, clock}) {
    for (auto const& word : words) {
      auto const number = parse_unsigned(word, 0, 9999);
      if (!number) {
        return std::nullopt;
      }
      numbers.push_back(static_cast<std::int64_t>(*number));
    }
  }
  using namespace std::chrono;  // NOLINT(google-build-using-namespace)
  auto const day = year(static_cast<int>(numbers[0])) / static_cast<int>(numbers[1]) / static_cast<int>(numbers[2]);
  return day.ok() ? std::optional(sys_days(day).time_since_epoch().count() * std::int64_t{86'400} + numbers[3] * 3600 +
                                  numbers[4] * 60 + numbers[5])
                  : std::nullopt;
}

std::string grace_left(JobState const& job, std::string const& now) {
  auto const end = seconds_of(job.ends_at);
  auto const at = seconds_of(now);
  return job.state == "RUNNING" && end && at && *end > *at ? ", about " + std::to_string(*end - *at) + " s left" : "";
}

}  // namespace

std::string end_reason(JobState const& job, std::uint32_t restarts, std::string const& recent, std::string const& now) {
  if (is_requeued(job, restarts)) {
    return "requeued by Slurm";
  }
  if (job.reason == "TimeLimit" || job.state == "TIMEOUT") {
    return "time limit reached";
  }
  if (is_preempted(job, recent) || job.state == "PREEMPTED") {
    return "preempted" + grace_left(job, now);
  }
  if (job.state == "NODE_FAIL" || job.reason == "NodeDown") {
    return "a node failed";
  }
  if (job.state == "RUNNING") {
    return "for Slurm the job goes on";
  }
  return job.state == "COMPLETING" || job.state == "CANCELLED" ? "cancelled"
                                                               : "for Slurm the job is " + printable(job.state, 40);
}

}  // namespace cxxrun::launcher::requeue
