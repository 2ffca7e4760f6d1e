#include "launcher/doctor/step.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>
#include <set>

#include "src/base/core/endpoint.hpp"
#include "src/base/core/hash.hpp"
#include "src/base/core/hostlist.hpp"
#include "src/base/core/list.hpp"
#include "src/base/core/ports.hpp"
#include "src/base/core/text.hpp"

namespace cxxrun::launcher::doctor {

// ---- where the nodes meet

namespace {

constexpr std::size_t kPorts = 4;

Error usage(std::string text) {
  return fail(Errc::usage, "--doctor over several nodes without Slurm: " + std::move(text));
}

}  // namespace

Result<std::optional<StepMeeting>> meeting_of(Options const& options, std::optional<SlurmStep> const& step) {
  if (step && step->nodes() > 1) {
    auto const port = options.rdzv_endpoint ? options.rdzv_endpoint->port : std::nullopt;
    auto const given = options.rdzv_endpoint ? options.rdzv_endpoint->host : options.master_addr.value_or("");
    bool const by_address = is_ip_literal(given) && !is_loopback(given);
    return std::optional(StepMeeting{step->run_id, by_address ? given : step->node_names.front(),
                                     port ? std::vector{*port} : port_sequence("doctor " + step->run_id, kPorts),
                                     step->node_names, step->node_index, step->nodes(), options.local_addr,
                                     by_address});
  }
  if (options.standalone || !options.nnodes || options.nnodes->max == 1) {
    return std::optional<StepMeeting>();
  }
  auto const nodes = options.nnodes->max;
  if (!options.rdzv_endpoint && !options.master_addr) {
    return usage("add --rdzv-endpoint HOST[:PORT], the first node, the same on all");
  }
  if (!options.node_rank || *options.node_rank >= nodes) {
    return usage("add --node-rank, from 0 on the first node to " + std::to_string(nodes - 1));
  }
  auto const endpoint = options.rdzv_endpoint.value_or(Endpoint{options.master_addr.value_or(""), std::nullopt});
  return std::optional(StepMeeting{options.rdzv_id.value_or("none"),
                                   endpoint.host,
                                   {endpoint.port.value_or(kDefaultPort)},
                                   {},
                                   *options.node_rank,
                                   nodes,
                                   options.local_addr,
                                   is_ip_literal(endpoint.host)});
}

std::vector<std::uint32_t> peers_in(StepMeeting const& meeting) {
  return peers_of(meeting.index, meeting.nodes, fnv1a(meeting.id));
}

std::vector<std::string> names_to_know(StepMeeting const& meeting) {
  std::vector<std::string> names = {meeting.first};
  if (meeting.by_address || !meeting.local_addr.empty()) {
    return names;
  }
  for (auto const peer : peers_in(meeting)) {
    if (peer > 0 && peer < meeting.names.size()) {
      names.push_back(meeting.names[peer]);
    }
  }
  return names;
}

std::string name_for_others(StepMeeting const& meeting, std::function<std::string()> const& towards_first) {
  if (!meeting.local_addr.empty()) {
    return meeting.local_addr;
  }
  if (!meeting.names.empty() && !meeting.by_address) {
    return meeting.names[meeting.index];
  }
  return meeting.index == 0 && meeting.names.empty() ? meeting.first : towards_first();
}

// ---- which node calls which, and how the results are judged

namespace {

constexpr std::uint32_t kAllPairs = 16;
constexpr int kRandomRounds = 3;        // for more than kAllPairs nodes
constexpr std::size_t kNamed = 5;       // pairs or values that a finding names
constexpr double kSlow = 5'000;         // µs
constexpr double kSlowerThanMost = 10;  // times the median
constexpr double kOff = 1'000'000;      // µs
constexpr double kRefusedByMunge = 300'000'000;

/// "0.123 ms", "1200 ms"
std::string milliseconds(double us) {
  auto const all = static_cast<std::uint64_t>(std::llround(us));
  auto const thousandths = std::to_string(1000 + all % 1000).substr(1);
  return std::to_string(all / 1000) + (all < 100'000 ? "." + thousandths : "") + " ms";
}

/// A call that came through, with the names of both nodes.
struct GoodCall {
  std::string pair;
  double round_trip;
};

struct Calls {
  std::size_t all = 0;
  std::vector<std::string> failed;
  std::vector<GoodCall> good;  // by round trip
};

Calls gather(std::vector<StepNode> const& nodes) {
  Calls calls;
  for (auto const& node : nodes) {
    for (auto const& call : node.calls) {
      if (call.to >= nodes.size()) {
        continue;
      }
      ++calls.all;
      auto const pair = node.host + " to " + nodes[call.to].host;
      if (call.error.empty()) {
        calls.good.push_back({pair, call.round_trip});
      } else {
        calls.failed.push_back(pair + " (" + call.error + ")");
      }
    }
  }
  std::ranges::sort(calls.good, [](GoodCall const& a, GoodCall const& b) { return a.round_trip < b.round_trip; });
  return calls;
}

Finding judge_calls(Calls const& calls) {
  if (!calls.failed.empty()) {
    return {Grade::failure, "calls", join_first(kNamed, calls.failed),
            "a firewall, or nodes in different networks: allow TCP between them, or choose their common interface "
            "with --rdzv-endpoint and --local-addr"};
  }
  if (calls.good.empty()) {
    return {Grade::note, "calls", "none was made", ""};
  }
  auto const& slowest = calls.good.back();
  auto const median = calls.good[calls.good.size() / 2].round_trip;
  std::string const text = std::to_string(calls.all) + " of " + std::to_string(calls.all) + " came through, median " +
                           milliseconds(median) + ", longest " + milliseconds(slowest.round_trip) + " (" +
                           slowest.pair + ")";
  if (slowest.round_trip > kSlow && slowest.round_trip > median * kSlowerThanMost) {
    return {Grade::warning, "calls", text,
            "check the links of that pair, or leave one of the nodes out with --exclude"};
  }
  return {Grade::fine, "calls", text, ""};
}

/// Judges the largest clock difference that any call has measured.
Finding judge_clocks(std::vector<StepNode> const& nodes) {
  double widest = 0;
  std::string pair;
  for (auto const& node : nodes) {
    for (auto const& call : node.calls) {
      if (call.error.empty() && call.to < nodes.size() && (pair.empty() || std::abs(call.ahead) > std::abs(widest))) {
        widest = call.ahead;
        pair = nodes[call.to].host + (call.ahead < 0 ? " is behind " : " is ahead of ") + node.host;
      }
    }
  }
  std::string const text = pair.empty() ? "not known" : "at most " + milliseconds(std::abs(widest)) + " apart: " + pair;
  if (std::abs(widest) < kOff) {
    return {Grade::fine, "clocks", text, ""};
  }
  return {std::abs(widest) < kRefusedByMunge ? Grade::warning : Grade::failure, "clocks", text,
          "synchronize them by NTP: munge, and with it Slurm, refuses credentials more than 5 minutes old"};
}

bool all_reported(std::vector<StepNode> const& nodes) {
  return std::ranges::all_of(nodes, [](StepNode const& node) { return node.reported; });
}

/// "2.4.0 on node[1-3], 2.3.0 on node4"; "" when all are the same.
std::string differences(std::vector<StepNode> const& nodes, std::string const& key) {
  std::map<std::string, std::vector<std::string>> who;
  for (auto const& node : nodes) {
    if (node.reported) {
      auto const value = value_of(node.facts, key);
      who[value.empty() ? "none" : value].push_back(node.host);
    }
  }
  auto const words =
      list_of(who, [](auto const& each) { return each.first + " on " + compress_hostlist(each.second); });
  return who.size() > 1 ? join_first(kNamed, words) : "";
}

void judge_sameness(Findings& found, std::vector<StepNode> const& nodes) {
  struct What {
    char const* key;
    char const* name;
    Grade grade;
  };
  bool differ = false;
  for (auto const& [key, name, grade] :
       {What{"gpu.driver", "NVIDIA driver", Grade::warning}, What{"gpu.count", "number of GPUs", Grade::warning},
        What{"gpu.names", "GPUs", Grade::warning}, What{"nccl.version", "NCCL", Grade::warning},
        What{"python.version", "Python", Grade::warning}, What{"torch.version", "torch", Grade::warning},
        What{"torch.cuda", "torch's CUDA", Grade::warning}, What{"kernel.release", "Linux", Grade::note},
        What{"cpus.usable", "number of CPUs", Grade::note}}) {
    if (auto const text = differences(nodes, key); !text.empty()) {
      differ = true;
      found.push_back(
          {grade, "differences", std::string(name) + ": " + text,
           "all nodes should be alike: ask for one kind with --constraint, or leave some out with --exclude"});
    }
  }
  if (!differ) {
    found.push_back({Grade::fine, "differences",
                     std::string("none in GPUs, driver, NCCL, Python, torch, Linux and CPUs") +
                         (all_reported(nodes) ? "" : " of those that reported"),
                     ""});
  }
}

/// The nodes that reported this value; "" stands for no value.
std::vector<std::string> hosts_with(std::vector<StepNode> const& nodes, char const* key, char const* value) {
  std::vector<std::string> hosts;
  for (auto const& node : nodes) {
    if (node.reported && value_of(node.facts, key) == value) {
      hosts.push_back(node.host);
    }
  }
  return hosts;
}

Finding judge_sharing(std::vector<StepNode> const& nodes) {
  auto const& first = nodes.front();
  if (auto const shown = value_of(first.facts, "fs.shared"); shown != "1") {
    return {Grade::note, "shared",
            std::string("not known: the working directory of the first node ") +
                (shown.empty() ? "did not answer" : "cannot be written"),
            ""};
  }
  if (auto const without = hosts_with(nodes, "fs.shared", "0"); !without.empty()) {
    return {Grade::note, "shared",
            "the working directory of " + compress_hostlist(without) + " is not that of " + first.host,
            "start from a directory on a shared file system, or copy program and data to each node (sbcast)"};
  }
  bool const locked = value_of(first.facts, "fs.locked") == "1";
  if (auto const blind = hosts_with(nodes, "fs.lock_seen", "0"); locked && !blind.empty()) {
    return {Grade::warning, "shared", compress_hostlist(blind) + " can lock a file that " + first.host + " has locked",
            "compiler caches, HDF5 and SQLite files are corrupted there: mount it with locks (NFS: without nolock and "
            "local_lock, Lustre: flock)"};
  }
  if (auto const hung = hosts_with(nodes, "fs.shared", ""); !hung.empty()) {
    return {Grade::note, "shared",
            "not known for " + compress_hostlist(hung) + ", whose working directory did not answer", ""};
  }
  return {Grade::fine, "shared",
          std::string("all nodes") + (all_reported(nodes) ? "" : " that reported") + " share the working directory" +
              (locked ? " and its locks" : ""),
          ""};
}

/// The successor of `index` in a random circle of all nodes: each node calls one, and is called by one.
std::uint32_t next_in_a_circle(std::uint32_t index, std::uint32_t nodes, std::uint64_t& state) {
  std::vector<std::uint32_t> circle(nodes);
  std::iota(circle.begin(), circle.end(), 0);
  for (std::uint32_t left = nodes; left > 1; --left) {
    state = state * 6364136223846793005U + 1442695040888963407U;  // Knuth's
    std::swap(circle[left - 1], circle[(state >> 33U) % left]);
  }
  auto const at = std::ranges::find(circle, index) - circle.begin();
  return circle[(static_cast<std::size_t>(at) + 1) % nodes];
}

}  // namespace

std::vector<std::uint32_t> peers_of(std::uint32_t index, std::uint32_t nodes, std::uint64_t seed) {
  assert(index < nodes);
  std::vector<std::uint32_t> peers;
  if (nodes <= kAllPairs) {
    for (std::uint32_t other = 0; other < nodes; ++other) {
      if (other != index) {
        peers.push_back(other);
      }
    }
    return peers;
  }
  std::set<std::uint32_t> chosen = {(index + 1) % nodes};
  std::uint64_t state = seed;
  for (int round = 0; round < kRandomRounds; ++round) {
    chosen.insert(next_in_a_circle(index, nodes, state));
  }
  return {chosen.begin(), chosen.end()};
}

Facts write_calls(std::vector<Call> const& calls) {
  Facts facts;
  for (auto const& call : calls) {
    facts["call." + std::to_string(call.to)] =
        call.error.empty() ? std::to_string(call.round_trip) + " " + std::to_string(call.ahead) : "! " + call.error;
  }
  return facts;
}

std::vector<Call> read_calls(Facts const& facts) {
  std::vector<Call> calls;
  for (auto const& [key, value] : facts) {
    auto const to = key.starts_with("call.") ? number(key.substr(5)) : std::nullopt;
    if (!to || *to > 1e6) {
      continue;
    }
    Call call;
    call.to = static_cast<std::uint32_t>(*to);
    auto const words = split(value, ' ');
    if (value.starts_with("! ")) {
      call.error = value.substr(2);
    } else if (words.size() == 2) {
      bool const behind = words[1].starts_with('-');
      auto const ahead = number(words[1].substr(behind ? 1 : 0));
      auto const round_trip = number(words[0]);
      if (!ahead || !round_trip) {
        continue;
      }
      call.round_trip = *round_trip;
      call.ahead = behind ? -*ahead : *ahead;
    } else {
      continue;
    }
    calls.push_back(std::move(call));
  }
  return calls;
}

Finding judge_no_table(Error const& why) {
  std::string remedy = "check that cxxrun --doctor runs on that node, and the network between";
  if (why.code == Errc::permission) {
    remedy =
        "a job needs one of these on both: munged with one key, clocks within 5 minutes and one user (try munge -n | "
        "ssh NODE unmunge), a home directory that they share, or CXXRUN_SECRET_FILE";
  } else if (why.code == Errc::in_use) {
    remedy = "give all nodes another port: --rdzv-endpoint HOST:PORT";
  }
  return {Grade::failure, "nodes", why.message(), remedy};
}

Findings judge_step(std::vector<StepNode> const& nodes) {
  Findings found;
  std::vector<std::string> missing;
  for (auto const& node : nodes) {
    if (!node.reported) {
      missing.push_back(node.host);
    }
  }
  if (!missing.empty()) {
    found.push_back({Grade::failure, "nodes", "no report from " + compress_hostlist(missing),
                     "see the output of these nodes above; leave them out with --exclude"});
  } else {
    found.push_back({Grade::fine, "nodes", "all " + std::to_string(nodes.size()) + " reported", ""});
  }
  found.push_back(judge_calls(gather(nodes)));
  found.push_back(judge_clocks(nodes));
  judge_sameness(found, nodes);
  found.push_back(judge_sharing(nodes));
  auto const without =
      std::ranges::find_if(nodes, [](auto const& node) { return !value_of(node.facts, "munge.error").empty(); });
  if (without != nodes.end()) {
    found.push_back(
        {Grade::note, "MUNGE", "not used on " + without->host + ": " + value_of(without->facts, "munge.error"),
         "not needed: these nodes authenticate each other by a shared home directory or CXXRUN_SECRET_FILE"});
  } else {
    found.push_back({Grade::fine, "MUNGE", "works between the nodes", ""});
  }
  return found;
}

}  // namespace cxxrun::launcher::doctor
