#include "rendezvous/net/run.hpp"

#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "rendezvous/membership/budget.hpp"
#include "src/core/time.hpp"
#include "src/os/log.hpp"
#include "src/os/machine.hpp"
#include "src/os/timer.hpp"

namespace cxxrun::rendezvous {
namespace {

using boost::asio::ip::tcp;
using ErrorCode = boost::system::error_code;

/// A port that is free now, for --agent-store=off: rank 0 will bind it. Somebody else may be faster; with
/// --master-port the user chooses.
std::uint16_t free_port(boost::asio::io_context& io) {
  ErrorCode error;
  tcp::acceptor probe(io);
  probe.open(tcp::v4(), error);
  probe.bind(tcp::endpoint(tcp::v4(), 0), error);
  return error ? std::uint16_t{0} : probe.local_endpoint(error).port();
}

}  // namespace

struct Run::Impl : std::enable_shared_from_this<Run::Impl> {
  Impl(boost::asio::io_context& context, store::StoreServer& store_server, RunConfig conf, RunHandlers h)
      : io(context), stores(store_server), config(std::move(conf)), handlers(std::move(h)), timer(context) {
    state.number = config.number;
    inherit_restarts(state, config.restarts, Clock::now(), config.policy);
    state.phase = config.standby ? Phase::standby : Phase::forming;
  }

  boost::asio::io_context& io;
  store::StoreServer& stores;
  RunConfig config;
  RunHandlers handlers;
  os::Machine<State, Event> machine;
  State& state = machine.state;
  os::Timer timer;
  bool over = false;

  void feed(Event event) {
    auto const self = shared_from_this();  // the last handler lets us go
    if (!over) {
      machine.feed(std::move(event), *this);
    }
  }

  // ---- for the machine's loop ----

  [[nodiscard]] Policy const& policy() const { return config.policy; }
  void say(Line const& line) const {
    log(line.level, config.label.empty() ? line.text : config.label + ": " + line.text);
  }
  void stepped() { handlers.progressed(state.number, state.restarts, leads()); }

  void perform(Tell const& action) { handlers.tell(action.agent, action.message); }
  void perform(HangUp const& action) { handlers.hang_up(action.agent); }

  void perform(TellBeat const& action) { handlers.tell_beat(action.agent, action.ack); }
  void perform(ClaimFence const& action) { handlers.claim_fence(state.mandate.decided.members, action.value); }
  void perform(StoodDown const& action) { handlers.stood_down(action); }

  [[nodiscard]] bool leads() const {
    return state.phase != Phase::standby && state.phase != Phase::electing && state.phase != Phase::deposed;
  }

  void perform(OpenStore const& action) {
    auto const& policy = config.policy;
    std::uint16_t const wanted = policy.agent_store ? policy.master_port : std::uint16_t{0};
    auto const port = open_store(action.number, wanted);
    if (!port) {
      feed(StoreFailed{action.number, (wanted != 0 ? "--master-port: " : "") + port.error().message()});
      return;
    }
    std::uint16_t master = *port;
    if (!policy.agent_store) {
      master = policy.master_port != 0 ? policy.master_port : free_port(io);
    }
    feed(StoreOpened{action.number, *port, master});
  }

  Result<std::uint16_t> open_store(std::uint64_t number, std::uint16_t wanted) {
    auto const& range = config.store_ports;
    if (wanted != 0 || range.first == 0) {
      return stores.open(store_key(number), {wanted, config.loopback_only});
    }
    for (std::uint32_t port = range.first; port <= range.last; ++port) {
      auto opened = stores.open(store_key(number), {static_cast<std::uint16_t>(port), config.loopback_only});
      if (opened || opened.error().code != Errc::in_use) {
        return opened;
      }
    }
    return fail(Errc::in_use, "no port from " + std::to_string(range.first) + " to " + std::to_string(range.last) +
                                  " is free for a store; widen --port-range");
  }

  /// Runs at the same time may have the same numbers: a store's name has the run in it.
  [[nodiscard]] std::uint64_t store_key(std::uint64_t number) const {
    return (std::uint64_t{config.key} << 32U) + number;
  }

  void perform(CloseStore const& action) { stores.close(store_key(action.number)); }

  void perform(ArmTimer const& action) {
    timer.at(action.at, [this] { feed(Tick{}); });
  }

  void perform(Conclude const& action) { handlers.concluded(action.verdict); }

  void perform(Close const&) {
    if (!over) {
      end();
      handlers.closed();
    }
  }

  void end() {
    if (over) {
      return;
    }
    over = true;
    machine.end();
    timer.cancel();
    stores.close(store_key(state.number));
  }
};

Run::Run(boost::asio::io_context& io, store::StoreServer& stores, RunConfig config, RunHandlers handlers)
    : impl_(std::make_shared<Impl>(io, stores, std::move(config), std::move(handlers))) {}

Run::~Run() {
  impl_->end();
}

void Run::feed(Event event) {
  impl_->feed(std::move(event));
}

Phase Run::phase() const {
  return impl_->state.phase;
}

}  // namespace cxxrun::rendezvous
