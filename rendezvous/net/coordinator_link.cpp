#include "rendezvous/net/coordinator_link.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>

#include "rendezvous/net/beat_line.hpp"
#include "rendezvous/net/channel.hpp"
#include "src/core/text.hpp"
#include "src/core/time.hpp"
#include "src/os/log.hpp"
#include "src/os/timer.hpp"

namespace cxxrun::rendezvous {
namespace {

using boost::asio::ip::tcp;
using ErrorCode = boost::system::error_code;

constexpr Millis kConnectDeadline{3000};
constexpr Millis kHelloDeadline{5000};
constexpr Millis kFirstPause{2};
constexpr Millis kLongestPause{500};
// How long something that answers on the only port, but is not this job's coordinator, may be one that is just leaving.
constexpr Millis kWrongPeerPatience{10'000};

}  // namespace

struct CoordinatorLink::Impl : std::enable_shared_from_this<CoordinatorLink::Impl> {
  Impl(boost::asio::io_context& context, LinkHandlers h)
      : io(context), handlers(std::move(h)), resolver(context), timer(context) {}

  boost::asio::io_context& io;
  LinkHandlers handlers;
  CallPlan plan;
  tcp::resolver resolver;
  os::Timer timer;
  std::vector<boost::asio::ip::address> addresses;
  std::size_t attempt = 0;  // index into addresses × ports
  TimePoint give_up_at;
  std::optional<TimePoint> wrong_since;
  std::string last_trouble;
  std::set<std::string> told;
  Millis pause = kFirstPause;
  std::shared_ptr<tcp::socket> calling;
  std::shared_ptr<Channel> channel;
  std::shared_ptr<BeatLine> beats;
  tcp::endpoint reached;  // or the one that is being greeted
  bool refused = false;   // the last attempt: nobody listens there
  bool joined = false;
  bool over = false;

  template <class Handler>
  auto guarded(Handler handler) {
    return [weak = weak_from_this(), handler = std::move(handler)](auto&&... args) {
      if (auto const self = weak.lock(); self && !self->over) {
        handler(*self, std::forward<decltype(args)>(args)...);
      }
    };
  }

  void fail_with(Error error) {
    stop();
    handlers.failed(std::move(error), refused);
  }

  void stop() {
    over = true;
    timer.cancel();
    resolver.cancel();
    calling.reset();
    if (channel) {
      channel->close_after_flush();
    }
    boost::asio::post(io, [line = std::move(beats)] {});  // its own handler may have brought us here
  }

  // ---- finding the coordinator -------------------------------------------------------------------------------

  void call() {
    give_up_at = Clock::now() + plan.patience;
    resolve(0);
  }

  /// Collects the addresses of every name, in order; one that does not resolve matters when nothing else does.
  void resolve(std::size_t index) {
    if (index == plan.addresses.size()) {
      if (addresses.empty()) {
        fail_with(fail(Errc::not_found, last_trouble));
      } else {
        try_next();
      }
      return;
    }
    std::string const& name = plan.addresses[index];
    ErrorCode error;
    auto const literal = boost::asio::ip::make_address(name, error);
    if (!error) {
      add(literal);
      resolve(index + 1);
      return;
    }
    resolver.async_resolve(
        name, "", guarded([index](Impl& self, ErrorCode const& failed, auto results) {
          if (failed == boost::asio::error::host_not_found_try_again && Clock::now() < self.give_up_at) {
            if (self.last_trouble.empty()) {
              self.last_trouble = "cannot resolve host " + self.plan.addresses[index] + " yet";
              log(Level::warn, self.last_trouble + "; trying for " + seconds_text(self.plan.patience));
            }
            self.rest([index](Impl& again) { again.resolve(index); });
            return;
          }
          if (failed) {
            self.last_trouble = "cannot resolve host " + self.plan.addresses[index] + ": " + failed.message() +
                                "; check --rdzv-endpoint";
          } else {
            for (auto const& entry : results) {
              self.add(entry.endpoint().address());
            }
          }
          self.resolve(index + 1);
        }));
  }

  void add(boost::asio::ip::address const& address) {
    if (std::find(addresses.begin(), addresses.end(), address) == addresses.end()) {
      addresses.push_back(address);
    }
  }

  template <class Next>
  void rest(Next next) {
    timer.after(pause, guarded(next));
    pause = std::min(pause * 2, kLongestPause);
  }

  [[nodiscard]] Millis at_most(Millis deadline) const {
    return plan.once ? std::min(plan.patience, deadline) : deadline;
  }

  void try_next() {
    if (attempt == addresses.size() * plan.ports.size()) {
      end_of_round();
      return;
    }
    auto const& address = addresses[attempt / plan.ports.size()];
    tcp::endpoint const to(address, plan.ports[attempt % plan.ports.size()]);
    ++attempt;
    calling = std::make_shared<tcp::socket>(io);
    timer.after(at_most(kConnectDeadline), guarded([](Impl& self) {
                  ErrorCode ignored;
                  self.calling->close(ignored);
                }));
    calling->async_connect(to, guarded([to](Impl& self, ErrorCode const& error) {
                             self.timer.cancel();
                             self.refused = error == boost::asio::error::connection_refused;
                             if (error) {
                               self.last_trouble =
                                   error == boost::asio::error::operation_aborted ? "no answer" : error.message();
                               self.try_next();
                               return;
                             }
                             self.reached = to;
                             self.greet();
                           }));
  }

  void end_of_round() {
    if (plan.once) {
      fail_with(
          fail(Errc::closed, plan.addresses.front() + ":" + std::to_string(plan.ports.front()) + ": " + last_trouble));
      return;
    }
    auto const now = Clock::now();
    std::string const where =
        plan.addresses.front() + (plan.ports.size() == 1 ? ":" + std::to_string(plan.ports[0]) : "");
    bool const wrong_for_long = wrong_since && (now - *wrong_since > kWrongPeerPatience || now > give_up_at);
    if (wrong_for_long && plan.ports.size() == 1) {
      fail_with(fail(Errc::in_use, where + ": " + last_trouble + "; choose another port with --rdzv-endpoint"));
    } else if (now > give_up_at) {
      fail_with(fail(Errc::timeout, "no coordinator at " + where + " within " + seconds_text(plan.patience) + " (" +
                                        last_trouble + "); is the agent of the first node running?"));
    } else {
      attempt = 0;
      rest([](Impl& self) { self.try_next(); });
    }
  }

  // ---- greeting ----------------------------------------------------------------------------------------------

  void greet() {
    channel = std::make_shared<Channel>(std::move(*calling));
    calling.reset();
    timer.after(at_most(kHelloDeadline),
                guarded([](Impl& self) { self.not_ours("it accepts connections but is no cxxrun coordinator"); }));
    Channel::Handlers on;
    on.frame = guarded([](Impl& self, std::string const& payload) { self.received(payload); });
    on.closed = guarded([](Impl& self, std::string how, bool fin) { self.closed(std::move(how), fin); });
    channel->start(std::move(on), Channel::End::caller, plan.keys);
    auto words = hello(Hello::Purpose::agent);
    words.from = channel->local_end();
    channel->send(encode(words));
  }

  [[nodiscard]] Hello hello(Hello::Purpose purpose) const {
    Hello words{kProtocolVersion, plan.run_id, plan.node.incarnation, purpose, plan.asks};
    words.local_addr = plan.local_addr;
    return words;
  }

  void not_ours(std::string why) {
    timer.cancel();
    last_trouble = std::move(why);
    if (!wrong_since) {
      wrong_since = Clock::now();
    }
    channel->close();
    channel.reset();
    try_next();
  }

  void received(std::string const& payload) {
    if (!joined) {
      reply(payload);
      return;
    }
    auto message = decode<ToAgent>(payload);
    auto const* const prepare = message ? std::get_if<Prepare>(&*message) : nullptr;
    if (prepare != nullptr && prepare->generation.local_size != plan.node.slots) {
      message = fail(Errc::protocol, "it gives this node " + std::to_string(prepare->generation.local_size) +
                                         " workers, and the node has " + std::to_string(plan.node.slots));
    }
    if (!message) {
      log(Level::error, "message from the coordinator not understood: " + message.error().message());
      closed("protocol error", false);
      return;
    }
    handlers.message(*std::move(message));
  }

  void reply(std::string const& payload) {
    auto decoded = decode<HelloReply>(payload);
    if (!decoded) {
      not_ours("it answers but is no cxxrun coordinator");
      return;
    }
    if (decoded->why == HelloReply::Why::other_job || decoded->why == HelloReply::Why::relayed) {
      not_ours(decoded->refused);
      return;
    }
    if (!plan.coordinator.empty() && decoded->coordinator != plan.coordinator) {
      not_ours("another coordinator answers there");
      return;
    }
    if (decoded->why != HelloReply::Why::accepted) {
      fail_with(
          fail(Errc::refused, "refused by the coordinator at " + plan.addresses.front() + ": " + decoded->refused));
      return;
    }
    timer.cancel();
    joined = true;
    if (plan.keys && plan.asks != Hello::Asks::follow) {
      plan.keys->take(*channel->key());
    }
    plan.run_id = decoded->run_id;
    if (plan.asks != Hello::Asks::follow) {
      channel->send(encode(ToCoordinator(Join{plan.node, plan.terms})));
    }
    handlers.joined(*decoded);
  }

  void closed(std::string how, bool fin) {
    if (!joined) {
      bool const silent = fin || how == "connection reset";
      if (!silent && told.insert(how).second) {
        log(Level::warn, "whoever listens at " + reached.address().to_string() + ":" + std::to_string(reached.port()) +
                             " is not trusted: " + how + "; trying on");
      }
      not_ours(silent ? "it closed the connection before greeting: no cxxrun coordinator" : how);
      return;
    }
    stop();
    handlers.closed(std::move(how), fin);
  }

  // ---- beats -------------------------------------------------------------------------------------------------

  void send_beat(Beat const& beat) {
    if (!joined || over) {
      return;
    }
    if (!beats) {
      beats = std::make_shared<BeatLine>(io, reached, hello(Hello::Purpose::beat), plan.keys,
                                         guarded([](Impl& self, BeatAck const& ack) { self.handlers.beat(ack); }));
    }
    beats->send(beat);
  }
};

CoordinatorLink::CoordinatorLink(boost::asio::io_context& io, LinkHandlers handlers)
    : impl_(std::make_shared<Impl>(io, std::move(handlers))) {}

CoordinatorLink::~CoordinatorLink() {
  try {
    close();
  } catch (...) {  // out of memory: without a goodbye, and all the same no handler runs
  }
}

void CoordinatorLink::call(CallPlan plan) {
  impl_->plan = std::move(plan);
  impl_->call();
}

void CoordinatorLink::send(ToCoordinator const& message) {
  if (impl_->joined && !impl_->over) {
    impl_->channel->send(encode(message));
  }
}

void CoordinatorLink::send_beat(Beat const& beat) {
  impl_->send_beat(beat);
}

std::optional<CoordinatorLink::Reached> CoordinatorLink::reached() const {
  if (!impl_->joined) {
    return std::nullopt;
  }
  return Reached{impl_->reached.address().to_string(), impl_->reached.port()};
}

void CoordinatorLink::close() {
  if (!impl_->over) {
    impl_->stop();
  }
}

}  // namespace cxxrun::rendezvous
