#include "launcher/agent/refusing.hpp"

#include <algorithm>
#include <exception>
#include <functional>
#include <memory>
#include <sys/socket.h>
#include <utility>
#include <variant>

#include <boost/asio/io_context.hpp>

#include "launcher/agent/agent_links.hpp"
#include "launcher/agent/hosting.hpp"
#include "launcher/options/parse_options.hpp"
#include "rendezvous/net/coordinator.hpp"
#include "rendezvous/net/coordinator_link.hpp"
#include "src/base/core/exit_status.hpp"
#include "src/base/core/text.hpp"
#include "src/base/os/local_address.hpp"
#include "src/base/os/random.hpp"
#include "src/base/os/system.hpp"
#include "src/base/os/timer.hpp"
#include "src/base/store/store_server.hpp"

namespace cxxrun::launcher {
namespace {

/// The nodes of a step usually start within this time.
constexpr Millis kMoment{10'000};
constexpr Millis kPause{20};
/// Shorter than the other agents wait at an address where a stranger answers, such as a proxy
/// (Doors::kWrongPeerPatience).
constexpr Millis kElsewhere{8'000};
/// Time that the resolver may take for the names of a step.
constexpr Millis kForNames{3000};

bool is_option_of(std::string const& word, std::initializer_list<char const*> names) {
  auto const name = replace_all(word.substr(0, word.find('=')), "_", "-");
  return std::ranges::any_of(names, [&name](char const* each) { return name == each; });
}

/// The options that say where to meet, taken from a command line whose other options may be invalid.
Options meeting_options(std::vector<std::string> const& arguments) {
  std::vector<std::string> words;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (is_option_of(arguments[i], {"--rdzv-endpoint", "--master-addr", "--auth"})) {
      words.push_back(arguments[i]);
      if (arguments[i].find('=') == std::string::npos && i + 1 < arguments.size()) {
        words.push_back(arguments[i + 1]);
      }
    }
  }
  words.emplace_back("program");
  auto parsed = parse_options(words, {});
  auto* const options = std::get_if<Options>(&parsed);
  return options != nullptr ? std::move(*options) : Options();
}

/// Of a coordinator without runs.
struct NoRuns final : rendezvous::CoordinatorInbox {
  void on_concluded(std::string const& /*run_id*/, rendezvous::Verdict const& /*verdict*/) override {}
  void on_run_closed() override {}
};

/// Refuses every agent that calls. False: this agent cannot listen at the meeting's ports, or has no key to share.
bool serve(boost::asio::io_context& io, std::shared_ptr<rendezvous::KeyRing> const& keys, AgentConfig const& config,
           std::string const& why) {
  store::StoreServer stores([](auto const&) {});
  rendezvous::CoordinatorConfig conf;
  conf.nonce = config.nonce;
  conf.loopback_only = config.topology.meeting.loopback_only;
  conf.keys = keys;
  NoRuns inbox;
  rendezvous::Coordinator coordinator(io, stores, std::move(conf), inbox);
  if (!listen_for(coordinator, config.topology.meeting) || (keys && !keys->make(true))) {
    return false;
  }
  coordinator.refuse_all(config.topology.step, kExitTooFewNodes, config.facts.host + " takes no part: " + why);
  std::size_t const others = config.topology.expected_nodes.value_or(1) - 1;
  auto const until = Clock::now() + kMoment;
  os::Timer timer(io);
  std::function<void(bool)> look = [&](bool told) {
    bool const all = coordinator.turned_away() >= others;
    if ((told && all) || Clock::now() >= until) {
      io.stop();
    } else {
      timer.after(kPause, [&look, all] { look(all); });  // one more round: the last refusal is still being written
    }
  };
  look(false);
  io.run();
  return true;
}

/// Tells the coordinator, and stops the loop when that has answered or cannot be told.
struct Refusal final : rendezvous::LinkInbox {
  Refusal(boost::asio::io_context& loop, std::string const& reason) : io(loop), why(reason), link(loop, *this) {}
  void on_joined(rendezvous::HelloReply const& /*reply*/) override { link.send(rendezvous::Unfit{0, why}); }
  void on_failed(Error /*error*/, bool /*refused*/) override { io.stop(); }
  void on_message(rendezvous::ToAgent message) override {
    if (std::holds_alternative<rendezvous::Finished>(message) || std::holds_alternative<rendezvous::Refused>(message)) {
      io.stop();
    }
  }
  void on_closed(std::string /*how*/, rendezvous::Ended /*ended*/) override { io.stop(); }

  boost::asio::io_context& io;
  std::string const& why;
  rendezvous::CoordinatorLink link;
};

void call(boost::asio::io_context& io, std::shared_ptr<rendezvous::KeyRing> const& keys, AgentConfig const& config,
          std::string const& why) {
  Refusal refusal(io, why);
  auto plan = call_plan(config, std::nullopt);
  plan.run_id = config.topology.step;
  plan.step.clear();
  plan.asks = rendezvous::Hello::Asks::meet;
  plan.terms.reset();
  plan.patience = kMoment;
  plan.keys = keys;
  os::Timer timer(io);
  timer.after(kMoment, [&io] { io.stop(); });
  refusal.link.call(std::move(plan));
  io.run();
}

/// What is known of an agent whose options or environment are refused: where its step meets. Nothing: no other agent
/// waits for it.
std::optional<AgentConfig> who_refuses(std::vector<std::string> const& arguments, Environment const& environment,
                                       Whereabouts const& here, GivenSecret const& secret) {
  bool const alone = std::ranges::any_of(arguments, [](std::string const& word) {
    return is_option_of(word, {"--dry-run", "--doctor", "--init", "--standalone", "--join", "--print-completion"});
  });
  if (alone) {
    return std::nullopt;
  }
  AgentConfig config;
  config.options = meeting_options(arguments);
  auto topology = make_topology(config.options, environment, "", {}, here);
  if (!topology) {  // the endpoint itself is invalid: no other node calls there either
    config.options.rdzv_endpoint.reset();
    config.options.master_addr.reset();
    topology = make_topology(config.options, environment, "", {}, here);
  }
  auto keys = key_transports(config.options.auth, secret, value_of(environment, "HOME"));
  if (!topology || topology->step.empty() || !keys) {
    return std::nullopt;
  }
  config.topology = *std::move(topology);
  config.keys = *std::move(keys);
  if (auto& meeting = config.topology.meeting; config.topology.max_nodes > 1) {
    meeting.hidden = hidden_ports_of(config.keys, meeting.ports);
  }
  config.environment = environment;
  config.nonce = random_hex(16);
  config.facts.host = config.topology.host;
  config.facts.loopbacks = os::loopback_addresses();
  return config;
}

}  // namespace

std::optional<Millis> patience_elsewhere(AgentConfig const& config) {
  auto const& topology = config.topology;
  if (!may_be_of_no_node(topology) || !is_first_of_step(topology)) {
    return std::nullopt;
  }
  std::vector<os::LookUp> asked;
  asked.reserve(topology.node_names.size());
  for (auto const& name : topology.node_names) {
    asked.emplace_back(kForNames, name, 0, SOCK_STREAM);
  }
  auto const leads_there = [&](os::LookUp& name) {
    auto const found = name.take();
    for (addrinfo const* each = found ? found->get() : nullptr; each != nullptr; each = each->ai_next) {
      if (os::plain_address(os::tcp_end_of(each->ai_addr)) == topology.meeting.address) {
        return true;
      }
    }
    return false;
  };
  return std::ranges::any_of(asked, leads_there)
             ? std::nullopt
             : std::optional(std::min(config.options.terms.join_timeout, kElsewhere));
}

Error of_no_node(AgentConfig const& config) {
  auto const& names = config.topology.node_names;
  return fail(Errc::usage, (config.options.rdzv_endpoint ? "--rdzv-endpoint " : "--master-addr ") +
                               config.topology.meeting.address + " is an address of no node of the Slurm step (" +
                               names.front() + " to " + names.back() +
                               "), and nobody has answered there; drop the flag, Slurm says where to meet");
}

void tell_refusal(AgentConfig const& config, std::string const& why) {
  if (config.topology.step.empty()) {
    return;
  }
  try {
    boost::asio::io_context io{1};
    auto const keys = make_keys(io, config);
    bool const first = may_be_of_no_node(config.topology) && is_first_of_step(config.topology);  // called by all
    auto const here = first ? Result<bool>(true) : is_meeting_place(config.topology.meeting);
    if (!here || !*here || !serve(io, keys, config, why)) {
      io.restart();
      call(io, keys, config, why);
    }
  } catch (std::exception const&) {  // the system refuses a descriptor or thread: the other agents wait in vain
  }
}

void tell_refusal(std::vector<std::string> const& arguments, Environment const& environment, Whereabouts const& here,
                  GivenSecret const& secret, std::string const& why) {
  if (auto const config = who_refuses(arguments, environment, here, secret)) {
    tell_refusal(*config, why);
  }
}

}  // namespace cxxrun::launcher
