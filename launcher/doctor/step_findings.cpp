#include "launcher/doctor/step_findings.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "launcher/doctor/numbers.hpp"
#include "src/base/core/hostlist.hpp"
#include "src/base/core/text.hpp"

namespace cxxrun::launcher::doctor {
namespace {

constexpr std::uint32_t kAllPairs = 16;
constexpr int kRandomRounds = 3;        // above that
constexpr std::size_t kNamed = 5;       // pairs that are named
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

/// A call that came through, with both names.
struct Through {
  std::string pair;
  double round_trip;
};

struct Calls {
  std::size_t all = 0;
  std::vector<std::string> failed;
  std::vector<Through> through;  // by time
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
        calls.through.push_back({pair, call.round_trip});
      } else {
        calls.failed.push_back(pair + " (" + call.error + ")");
      }
    }
  }
  std::sort(calls.through.begin(), calls.through.end(),
            [](Through const& a, Through const& b) { return a.round_trip < b.round_trip; });
  return calls;
}

Finding judge_calls(Calls const& calls) {
  if (!calls.failed.empty()) {
    return {Grade::failure, "calls", join_first(kNamed, calls.failed),
            "a firewall or another network lies between: open TCP between the nodes, or choose their common interface "
            "with --rdzv-endpoint and --local-addr"};
  }
  if (calls.through.empty()) {
    return {Grade::note, "calls", "none was made", ""};
  }
  auto const& slowest = calls.through.back();
  auto const median = calls.through[calls.through.size() / 2].round_trip;
  std::string const text = std::to_string(calls.all) + " of " + std::to_string(calls.all) + " came through, median " +
                           milliseconds(median) + ", longest " + milliseconds(slowest.round_trip) + " (" +
                           slowest.pair + ")";
  if (slowest.round_trip > kSlow && slowest.round_trip > median * kSlowerThanMost) {
    return {Grade::warning, "calls", text, "that pair is slow: look at its links, or leave a node out with --exclude"};
  }
  return {Grade::fine, "calls", text, ""};
}

/// From how each node sees the others' clocks: the widest difference that one call has seen.
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
          "set them by NTP: munge, and with it Slurm, refuses what is more than 5 minutes old"};
}

bool all_came(std::vector<StepNode> const& nodes) {
  return std::all_of(nodes.begin(), nodes.end(), [](StepNode const& node) { return node.came; });
}

/// "2.4.0 on node[1-3], 2.3.0 on node4"; "" when all are the same.
std::string differences(std::vector<StepNode> const& nodes, std::string const& key) {
  std::map<std::string, std::vector<std::string>> who;
  for (auto const& node : nodes) {
    if (node.came) {
      auto const value = value_of(node.facts, key);
      who[value.empty() ? "none" : value].push_back(node.host);
    }
  }
  std::vector<std::string> words;
  words.reserve(who.size());
  for (auto const& [value, hosts] : who) {
    words.push_back(value + " on " + compress_hostlist(hosts));
  }
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
      found.push_back({grade, "differences", std::string(name) + ": " + text,
                       "all nodes should have the same: ask for one kind with --constraint or leave some out with "
                       "--exclude"});
    }
  }
  if (!differ) {
    found.push_back({Grade::fine, "differences",
                     std::string("none in GPUs, driver, NCCL, Python, torch, Linux and CPUs") +
                         (all_came(nodes) ? "" : " of those that came"),
                     ""});
  }
}

/// Those that came with this value, "" for none.
std::vector<std::string> hosts_with(std::vector<StepNode> const& nodes, char const* key, char const* value) {
  std::vector<std::string> hosts;
  for (auto const& node : nodes) {
    if (node.came && value_of(node.facts, key) == value) {
      hosts.push_back(node.host);
    }
  }
  return hosts;
}

Finding judge_sharing(std::vector<StepNode> const& nodes) {
  auto const& first = nodes.front();
  if (auto const shown = value_of(first.facts, "fs.shared"); shown != "1") {
    return {Grade::note, "shared",
            std::string("not known: the first node ") + (shown.empty() ? "has no answer from" : "cannot write in") +
                " its working directory",
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
            "caches of compilers, HDF5 and SQLite are torn there: mount it with locks (NFS: without nolock and "
            "local_lock, Lustre: flock)"};
  }
  if (auto const hung = hosts_with(nodes, "fs.shared", ""); !hung.empty()) {
    return {Grade::note, "shared", "not known of " + compress_hostlist(hung) + ", where it did not answer", ""};
  }
  return {Grade::fine, "shared",
          std::string("the working directory is one and the same on all nodes") +
              (all_came(nodes) ? "" : " that came") + (locked ? ", with its locks" : ""),
          ""};
}

/// Who follows in a circle of all nodes in random order: each calls one, and is called by one.
std::uint32_t next_in_a_circle(std::uint32_t index, std::uint32_t nodes, std::uint64_t& state) {
  std::vector<std::uint32_t> circle(nodes);
  std::iota(circle.begin(), circle.end(), 0);
  for (std::uint32_t left = nodes; left > 1; --left) {
    state = state * 6364136223846793005U + 1442695040888963407U;  // Knuth's
    std::swap(circle[left - 1], circle[(state >> 33U) % left]);
  }
  auto const at = std::find(circle.begin(), circle.end(), index) - circle.begin();
  return circle[(static_cast<std::size_t>(at) + 1) % nodes];
}

}  // namespace

std::vector<std::uint32_t> peers_of(std::uint32_t index, std::uint32_t nodes, std::uint64_t seed) {
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
  std::string remedy = "see whether that node runs its own cxxrun --doctor, and what lies between";
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
    if (!node.came) {
      missing.push_back(node.host);
    }
  }
  if (!missing.empty()) {
    found.push_back({Grade::failure, "nodes", "nothing came from " + compress_hostlist(missing),
                     "look at their own lines above; leave them out with --exclude"});
  } else {
    found.push_back({Grade::fine, "nodes", "all " + std::to_string(nodes.size()) + " came", ""});
  }
  found.push_back(judge_calls(gather(nodes)));
  found.push_back(judge_clocks(nodes));
  judge_sameness(found, nodes);
  found.push_back(judge_sharing(nodes));
  auto const without = std::find_if(nodes.begin(), nodes.end(),
                                    [](auto const& node) { return !value_of(node.facts, "munge.error").empty(); });
  if (without != nodes.end()) {
    found.push_back({Grade::note, "MUNGE",
                     "not used on " + without->host + ": " + value_of(without->facts, "munge.error"),
                     "none is needed: these nodes know each other by a home directory that they share, or by "
                     "CXXRUN_SECRET_FILE"});
  } else {
    found.push_back({Grade::fine, "MUNGE", "works between the nodes", ""});
  }
  return found;
}

}  // namespace cxxrun::launcher::doctor
