#include "launcher/facts/discovery.hpp"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "src/base/core/list.hpp"
#include "src/base/core/text.hpp"

namespace cxxrun::launcher {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Discovery, job, restarts, run_id, addresses, port, nonce, key, elected, host, pid)

namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxAddresses = 16;
constexpr std::size_t kMaxText = 256;
constexpr int kFormat = 1;

/// Makes a name from outside usable as part of a file name.
std::string as_part(std::string const& text) {
  std::string part = text.substr(0, 64);
  std::ranges::replace_if(
      part, [](unsigned char c) { return c <= 0x20 || c == '/' || c == 0x7f; }, '_');
  return part;
}

bool is_short_text(Json const& json, char const* name) {
  return json.contains(name) && json[name].is_string() && json[name].get_ref<std::string const&>().size() <= kMaxText;
}

bool is_number(Json const& json, char const* name, std::uint64_t least, std::uint64_t most) {
  return json.contains(name) && json[name].is_number_unsigned() && json[name].get<std::uint64_t>() >= least &&
         json[name].get<std::uint64_t>() <= most;
}

/// The first problem; "" if the file is valid.
char const* problem_of(Json const& json) {
  if (!json.is_object() || !is_number(json, "cxxrun_rendezvous", kFormat, kFormat)) {
    return "not the expected format";
  }
  for (char const* const name : {"job", "run_id", "nonce", "key", "host"}) {
    if (!is_short_text(json, name)) {
      return name;
    }
  }
  for (auto const& [name, least, most] :
       {std::tuple("port", 1U, 65535U), {"pid", 1U, INT32_MAX}, {"restarts", 0U, UINT32_MAX}}) {
    if (!is_number(json, name, least, most)) {
      return name;
    }
  }
  auto const elected = json.find("elected");
  if (elected == json.end() || !elected->is_array() || elected->size() != Discovery{}.elected.size() ||
      !std::ranges::all_of(*elected, [](Json const& part) { return part.is_number_unsigned(); })) {
    return "elected";
  }
  auto const addresses = json.find("addresses");
  bool const listed = addresses != json.end() && addresses->is_array() && !addresses->empty() &&
                      addresses->size() <= kMaxAddresses && std::ranges::all_of(*addresses, [](Json const& address) {
                        return address.is_string() && !address.get_ref<std::string const&>().empty() &&
                               address.get_ref<std::string const&>().size() <= kMaxText;
                      });
  return listed ? "" : "addresses";
}

std::string text_of(JoinTarget const& target) {
  return target.step.empty() ? target.job : target.job + "." + target.step;
}

}  // namespace

std::string discovery_text(Discovery const& discovery) {
  Json json = discovery;
  json["cxxrun_rendezvous"] = kFormat;
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

bool supersedes(Discovery const& there, Discovery const& ours) {
  bool const same = there.run_id == ours.run_id && there.restarts == ours.restarts && there.key == ours.key;
  // Without a key the first coordinator cannot tell a file of its own job from one of an older job.
  bool const recognised = !ours.key.empty() || ours.elected != Discovery{}.elected;
  return same && recognised && there.elected > ours.elected;
}

Result<Discovery> parse_discovery(std::string_view text, std::string const& path) {
  Json const json = text.size() <= kMaxDiscovery ? Json::parse(text, nullptr, false) : Json();
  if (std::string const problem = problem_of(json); !problem.empty()) {
    return fail(Errc::protocol, path + " is no discovery file of cxxrun (" + problem + "); remove it");
  }
  auto discovery = json.get<Discovery>();
  discovery.path = path;
  return discovery;
}

std::uint32_t restart_count(Environment const& environment) {
  auto const count = parse_unsigned(value_of(environment, "SLURM_RESTART_COUNT"), 0, UINT32_MAX);
  return count ? static_cast<std::uint32_t>(*count) : 0;
}

std::string discovery_dir(Environment const& environment) {
  if (auto given = value_of(environment, "CXXRUN_DISCOVERY_DIR"); !given.empty()) {
    return given;
  }
  auto const home = value_of(environment, "HOME");
  return home.empty() ? "" : home + "/.cxxrun/rendezvous";
}

std::string discovery_name(Environment const& environment, std::string const& step) {
  auto const job = value_of(environment, "SLURM_JOB_ID");
  if (!parse_unsigned(job, 0, UINT32_MAX)) {
    return "";
  }
  auto const cluster = value_of(environment, "SLURM_CLUSTER_NAME");
  return as_part(cluster.empty() ? "slurm" : cluster) + "-" + job + (step.empty() ? "" : "." + step);
}

std::optional<Discovery> of_this_run_of_the_job(std::optional<Discovery> discovery, Environment const& environment) {
  return discovery && discovery->restarts == restart_count(environment) ? std::move(discovery) : std::nullopt;
}

Result<JoinTarget> parse_join_target(std::string const& text) {
  auto const parts = split(text, '.');
  bool const good = parts.size() <= 2 && std::ranges::all_of(parts, [](std::string const& part) {
                      return parse_unsigned(part, 0, UINT32_MAX).has_value();
                    });
  if (!good) {
    return fail(Errc::usage, "JOBID or JOBID.STEP is expected, as in $SLURM_JOB_ID of the job to be joined");
  }
  return JoinTarget{parts[0], parts.size() == 2 ? parts[1] : ""};
}

bool may_lead_to(std::string_view name, JoinTarget const& target, Environment const& environment) {
  auto const cluster = value_of(environment, "SLURM_CLUSTER_NAME");
  auto const dash = name.rfind('-');
  if (dash == std::string_view::npos || (!cluster.empty() && name.substr(0, dash) != as_part(cluster))) {
    return false;
  }
  auto const rest = name.substr(dash + 1);
  auto const dot = rest.find('.');
  return rest.substr(0, dot) == target.job &&
         (dot == std::string_view::npos || target.step.empty() || rest.substr(dot + 1) == target.step);
}

Result<Discovery> choose_discovery(std::vector<Discovery> const& found, JoinTarget const& target,
                                   std::string const& dir) {
  std::string const asked = "--join " + text_of(target) + ": ";
  std::vector<Discovery> candidates;
  bool const step_given = !target.step.empty();  // then prefer the step's own file: that of the job may be stale
  for (bool const of_whole_job : {!step_given, step_given}) {
    std::ranges::copy_if(found, std::back_inserter(candidates),
                         [&](Discovery const& each) { return each.run_id.empty() == of_whole_job; });
    if (!candidates.empty()) {
      break;
    }
  }
  if (candidates.empty()) {
    return fail(Errc::closed, asked + "no such job can be joined (looked in " + dir +
                                  "); it has to run with cxxrun-rendezvous or with --nnodes MIN:MAX");
  }
  if (candidates.size() > 1) {
    auto const names =
        list_of(candidates, [](Discovery const& each) { return each.run_id.empty() ? each.path : each.run_id; });
    return fail(Errc::usage, asked + "it could be " + join(names, " or ") + "; say which with --join JOBID.STEP");
  }
  Discovery chosen = candidates.front();
  if (chosen.run_id.empty() && !target.step.empty()) {  // the id that the agents of the step use
    chosen.run_id = text_of(target) + (chosen.restarts == 0 ? "" : "." + std::to_string(chosen.restarts));
  }
  return chosen;
}

}  // namespace cxxrun::launcher
