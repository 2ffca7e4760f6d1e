#include "launcher/doctor/step.hpp"

#include <algorithm>
#include <fcntl.h>
#include <thread>
#include <unistd.h>

#include "cxxrun/store.hpp"
#include "launcher/doctor/findings_text.hpp"
#include "launcher/doctor/pings.hpp"
#include "launcher/logs/log_names.hpp"
#include "src/core/port_sequence.hpp"
#include "src/core/text.hpp"
#include "src/os/fd.hpp"
#include "src/store/store_server.hpp"

namespace cxxrun::launcher::doctor {
namespace {

constexpr std::size_t kPorts = 4;
constexpr Millis kTogether{40'000};  // srun starts the tasks one after the other, and Python may take 20 s
constexpr Millis kToTell{15'000};    // of it, for the table: whoever is missing is waited for no longer
constexpr Millis kKnock{500};
constexpr Millis kPause{20};
constexpr char const* kGreeting = "cxxrun-doctor";

std::string key_of(char const* what, std::uint32_t index) {
  return std::string(what) + "/" + std::to_string(index);
}

/// In the working directory; whoever sees it shares that directory with the first node.
std::string token_of(SlurmStep const& step) {
  return ".cxxrun-doctor-" + path_component(step.run_id);
}

Millis left_until(TimePoint deadline) {
  return std::max(Millis{1}, std::chrono::duration_cast<Millis>(deadline - Clock::now()));
}

Result<std::uint16_t> open_store(store::StoreServer& server, std::vector<std::uint16_t> const& ports) {
  Result<std::uint16_t> opened = fail(Errc::in_use, "no port");
  for (auto const port : ports) {
    opened = server.open(0, {port, false});
    if (opened) {
      break;
    }
  }
  return opened;
}

/// Another program may have one of the ports: the greeting tells. The first node greets.
Result<Store> find_store(SlurmStep const& step, std::vector<std::uint16_t> const& ports, TimePoint deadline,
                         bool greets) {
  std::string const host = greets ? "127.0.0.1" : step.node_names.front();
  std::string trouble;
  while (Clock::now() < deadline) {
    for (auto const port : ports) {
      auto store = Store::connect({host, port}, kKnock);
      if (store && greets) {
        static_cast<void>(store->set(kGreeting, step.run_id));
      }
      auto const greeting = store ? store->get(kGreeting, kKnock) : store.error();
      if (greeting && *greeting == step.run_id) {
        return store;
      }
      trouble = greeting ? "another step answers" : greeting.error().message();
    }
    std::this_thread::sleep_for(kPause);
  }
  return fail(Errc::timeout, "the first node, " + host + ", could not be reached: " + trouble);
}

/// Who is there first is called first, so that one that never comes keeps nobody from the others.
std::vector<Call> call_peers(SlurmStep const& step, Store& store, TimePoint deadline) {
  std::vector<Call> calls;
  auto left = peers_of(step.node_index, step.nodes());
  auto const call = [&](std::uint32_t peer) {
    auto const there = store.check({key_of("port", peer)});
    if (!there || !*there) {
      return false;
    }
    bool const late = Clock::now() >= deadline;
    auto const told = late ? fail(Errc::timeout, "") : store.get(key_of("port", peer), kKnock);
    auto const port = told ? number_in<std::uint16_t>(*told) : std::nullopt;
    calls.push_back(port ? call_node(peer, step.node_names[peer], *port)
                         : Call{peer, "not tried: the time was over", 0, 0});
    return true;
  };
  for (;;) {
    bool const last = Clock::now() >= deadline;
    std::erase_if(left, call);
    if (left.empty() || last) {
      return calls;
    }
    std::this_thread::sleep_for(kPause);
  }
}

/// This node's part; its facts are in the store then.
Result<void> take_part(SlurmStep const& step, Store& store, std::function<Facts()> const& look, TimePoint deadline) {
  auto facts = look();
  facts["fs.shared"] = ::access(token_of(step).c_str(), F_OK) == 0 ? "1" : "0";
  facts.merge(write_calls(call_peers(step, store, deadline - kToTell)));
  return store.set(key_of("facts", step.node_index), write_facts(facts));
}

std::vector<StepNode> collect(SlurmStep const& step, Store& store, TimePoint deadline) {
  std::vector<StepNode> nodes;
  for (std::uint32_t i = 0; i < step.nodes(); ++i) {
    StepNode node{step.node_names[i], false, {}, {}};
    auto const told = store.get(key_of("facts", i), left_until(deadline));
    if (auto facts = told ? read_facts(*told) : told.error()) {
      node.came = true;
      node.calls = read_calls(*facts);
      node.facts = *std::move(facts);
    }
    nodes.push_back(std::move(node));
  }
  return nodes;
}

}  // namespace

Result<std::optional<std::vector<StepNode>>> meet_step(SlurmStep const& step, std::function<Facts()> const& look) {
  auto const deadline = Clock::now() + kTogether;
  auto const ports = port_sequence("doctor " + step.run_id, kPorts);
  bool const first = step.node_index == 0;
  std::optional<store::StoreServer> server;
  if (first) {
    server.emplace();
    if (auto const opened = open_store(*server, ports); !opened) {
      return opened.error();
    }
    os::UniqueFd const token(::open(token_of(step).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  }
  auto store = find_store(step, ports, deadline, first);
  auto const answerer = store ? Answerer::start() : store.error();
  if (!answerer) {
    return answerer.error();
  }
  auto told = store->set(key_of("port", step.node_index), std::to_string((*answerer)->port()));
  told = told ? take_part(step, *store, look, deadline) : told;
  if (!first) {
    static_cast<void>(store->get("end", kTogether));  // until then others may call; an error: the first node has ended
    return told ? Result<std::optional<std::vector<StepNode>>>(std::nullopt) : told.error();
  }
  auto nodes = collect(step, *store, deadline);
  ::unlink(token_of(step).c_str());
  static_cast<void>(store->set("end", "1"));
  return std::optional(std::move(nodes));
}

}  // namespace cxxrun::launcher::doctor
