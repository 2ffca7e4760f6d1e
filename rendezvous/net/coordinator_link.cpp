#include "rendezvous/net/coordinator_link.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>

#include "rendezvous/net/beat_line.hpp"
#include "rendezvous/net/channel.hpp"
#include "rendezvous/net/doors.hpp"
#include "rendezvous/net/host_owners.hpp"
#include "rendezvous/net/lookup.hpp"
#include "rendezvous/net/spare_port.hpp"
#include "rendezvous/trust/grant.hpp"
#include "src/base/core/text.hpp"
#include "src/base/core/time.hpp"
#include "src/base/os/log.hpp"
#include "src/base/os/timer.hpp"

namespace cxxrun::rendezvous {
namespace {

using boost::asio::ip::tcp;
using ErrorCode = boost::system::error_code;

constexpr char const* kNoPortLeft = "this host has no port left to call from: other connections hold them all";

/// At one door: being connected, then greeted.
struct Attempt {
  Attempt(boost::asio::io_context& io, tcp::endpoint where) : socket(io), to(std::move(where)) {}
  tcp::socket socket;
  tcp::endpoint to;
  std::shared_ptr<Channel> channel;  ///< once connected
  bool by_step = false;              ///< the run was asked for by its other name
};

}  // namespace

struct CoordinatorLink::Impl : std::enable_shared_from_this<CoordinatorLink::Impl> {
  Impl(boost::asio::io_context& context, LinkHandlers h)
      : io(context), handlers(std::move(h)), lookup(std::make_shared<Lookup>(context)), timer(context) {}

  boost::asio::io_context& io;
  LinkHandlers handlers;
  CallPlan plan;
  std::shared_ptr<Lookup> lookup;
  os::Timer timer;
  Lookup::Addresses addresses;
  std::vector<tcp::endpoint> places;  // of the doors
  Doors doors;
  std::map<Door, std::shared_ptr<Attempt>> attempts;  // once one has joined: it alone
  std::string last_trouble;
  bool by_step = false;   // plan.step is asked for next
  std::string other_job;  // who said so: worth more than what came after it
  std::set<std::string> told;
  std::shared_ptr<Channel> channel;  // the one that has proven itself
  std::shared_ptr<BeatLine> beats;
  HostOwners owners;
  tcp::endpoint reached;
  bool relayed = false;
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

  /// For what happens at a door as long as this attempt there goes on.
  template <class Handler>
  auto at(Door door, Handler handler) {
    return guarded(
        [door, attempt = std::weak_ptr(attempts.at(door)), handler = std::move(handler)](Impl& self, auto&&... args) {
          auto const it = self.attempts.find(door);
          if (it != self.attempts.end() && it->second == attempt.lock()) {
            auto const here = it->second;
            handler(self, *here, std::forward<decltype(args)>(args)...);
          }
        });
  }

  void fail_with(Error error, bool refused = false) {
    stop();
    handlers.failed(std::move(error), refused);
  }

  void stop() {
    over = true;
    timer.cancel();
    lookup->cancel();
    if (channel) {
      channel->close_after_flush();
    } else {
      leave_all_but({});
    }
    boost::asio::post(io, [line = std::move(beats)] {});  // its own handler may have brought us here
  }

  // ---- finding the coordinator -------------------------------------------------------------------------------

  void call() {
    doors.give_up_at = Clock::now() + plan.patience;
    lookup->start(plan.addresses, plan.patience, guarded([](Impl& self, Result<Lookup::Addresses> found) {
                    if (!found) {
                      self.fail_with(found.error());
                      return;
                    }
                    self.addresses = *std::move(found);
                    for (auto const& address : self.addresses) {
                      for (auto const port : self.plan.ports) {
                        self.places.emplace_back(address, port);
                      }
                    }
                    self.doors.count = self.places.size();
                    self.doors.only_port = self.plan.ports.size() == 1;
                    self.doors.once = self.plan.once;
                    self.doors.patience = self.plan.patience;
                    self.go_on();
                  }));
  }

  void try_also(std::uint16_t port) {
    bool const known = std::find(plan.ports.begin(), plan.ports.end(), port) != plan.ports.end();
    if (known || joined || over || plan.ports.size() == 1) {
      return;
    }
    plan.ports.push_back(port);
    if (!addresses.empty()) {  // else it will be one of the ports once the name is known
      for (auto const& address : addresses) {
        places.emplace_back(address, port);
      }
      add(doors, addresses.size(), Clock::now());
      go_on();
    }
  }

  void go_on() {
    for (;;) {
      auto const act = next_act(doors, Clock::now());
      if (auto const* const knocks = std::get_if<Knock>(&act)) {
        knock(knocks->door);
      } else if (auto const* const late = std::get_if<Leave>(&act)) {
        last_trouble =
            attempts.at(late->door)->channel ? "it accepts connections but is no cxxrun coordinator" : "no answer";
        tell_trying();
        leave(late->door);
      } else if (auto const* const ends = std::get_if<GiveUp>(&act)) {
        give_up(ends->wrong);
        return;
      } else {
        break;
      }
    }
    if (auto const at = due(doors)) {
      timer.at(*at, guarded([](Impl& self) { self.go_on(); }));
    }
  }

  [[nodiscard]] std::string where() const {
    std::string const port = ":" + std::to_string(plan.ports.front());
    return plan.addresses.front() + (doors.only_port || plan.once ? port : "");
  }

  void give_up(bool wrong) {
    if (plan.once) {
      fail_with(fail(Errc::closed, where() + ": " + last_trouble), doors.refused);
    } else if (wrong) {
      fail_with(
          fail(Errc::in_use,
               where() + ": " + (other_job.empty() ? last_trouble + "; " + kOtherPort : other_job + "; " + kOneId)));
    } else {
      fail_with(fail(Errc::timeout, nobody_line(doors, where(), last_trouble)));
    }
  }

  /// Once, so that nobody waits for a mistake as long as for a node. One that a file told of is waited for shortly.
  void tell_trying() {
    if (!plan.once && plan.coordinator.empty() && is_long(doors, Clock::now()) && told.insert("trying").second) {
      log(Level::info, "no coordinator at " + where() + " yet (" + last_trouble + "); trying for " +
                           seconds_text(plan.patience) + " in all");
    }
  }

  void knock(Door door) {
    auto const made = std::make_shared<Attempt>(io, places[door]);
    attempts[door] = made;
    connect_from_somewhere(made, made->to, at(door, [door](Impl& self, Attempt& attempt, ErrorCode const& error) {
                             if (error) {
                               bool const refused = error == boost::asio::error::connection_refused;
                               self.no_entry(door, refused ? NoEntry::refused : NoEntry::silent,
                                             lacks_port(error) ? kNoPortLeft : error.message());
                             } else {
                               self.greet(door, attempt);
                             }
                           }));
  }

  void leave(Door door) {
    auto const gone = attempts.extract(door).mapped();
    if (gone->channel) {
      gone->channel->close();
    } else {
      ErrorCode ignored;
      gone->socket.close(ignored);
    }
  }

  void leave_all_but(std::optional<Door> one) {
    for (auto const& [door, attempt] : std::map(attempts)) {
      if (door != one) {
        leave(door);
      }
    }
  }

  void no_entry(Door door, NoEntry how, std::string why) {
    last_trouble = std::move(why);
    tell_trying();
    leave(door);
    failed(doors, door, how, Clock::now());
    go_on();
  }

  // ---- greeting ----------------------------------------------------------------------------------------------

  void greet(Door door, Attempt& attempt) {
    connected(doors, door, Clock::now());
    attempt.channel = std::make_shared<Channel>(std::move(attempt.socket));
    Channel::Handlers on;
    on.frame = at(door, [door](Impl& self, Attempt& from, std::string const& payload) {
      self.joined ? self.received(payload) : self.reply(door, from, payload);
    });
    on.closed = at(door, [door](Impl& self, Attempt& from, std::string how, Ended ended) {
      self.joined ? self.closed(std::move(how), ended) : self.turned_away(door, from, how, ended);
    });
    attempt.channel->start(std::move(on), Channel::End::caller, plan.keys);
    auto words = hello(Hello::Purpose::agent);
    attempt.by_step = by_step;
    if (by_step) {
      words.run_id = plan.step;
      words.asks = Hello::Asks::meet;
    }
    words.ends = attempt.channel->ends();
    attempt.channel->send(encode(words));
    go_on();
  }

  [[nodiscard]] Hello hello(Hello::Purpose purpose) const {
    Hello words{kProtocolVersion, plan.run_id, plan.node.incarnation, purpose, plan.asks};
    words.local_addr = outer_address(plan.local_addr);
    return words;
  }

  void received(std::string const& payload) {
    auto decoded = decode<HeardFromCoordinator>(payload);
    if (auto* const live = decoded ? std::get_if<LiveDown>(&*decoded) : nullptr) {
      if (handlers.live) {
        handlers.live(std::move(*live));
      }
      return;
    }
    auto heard = decoded ? Result<FromCoordinator>(std::get<FromCoordinator>(*std::move(decoded))) : decoded.error();
    if (auto const* const asked = heard ? std::get_if<AskHost>(&*heard) : nullptr) {
      channel->send(encode(AboutCallers(owners.answer(std::get<WhoseCalls>(*asked)))));
      return;
    }
    auto message = heard ? Result<ToAgent>(std::get<ToAgent>(*std::move(heard))) : heard.error();
    auto const* const prepare = message ? std::get_if<Prepare>(&*message) : nullptr;
    if (prepare != nullptr && prepare->generation.local_size != plan.node.slots) {
      message = fail(Errc::protocol, "it gives this node " + std::to_string(prepare->generation.local_size) +
                                         " workers, and the node has " + std::to_string(plan.node.slots));
    }
    if (!message) {
      log(Level::error, "message from the coordinator not understood: " + message.error().message());
      closed("protocol error", Ended::broken);
      return;
    }
    handlers.message(*std::move(message));
  }

  void reply(Door door, Attempt& from, std::string const& payload) {
    auto const decoded = decode<HelloReply>(payload);
    if (!decoded) {
      no_entry(door, NoEntry::wrong, "it answers but is no cxxrun coordinator");
    } else if (decoded->why == HelloReply::Why::other_job || decoded->why == HelloReply::Why::relayed) {
      other_job = decoded->why == HelloReply::Why::other_job ? decoded->refused : other_job;
      by_step = !plan.step.empty() && !from.by_step;
      no_entry(door, NoEntry::wrong, decoded->refused);
    } else if (!plan.coordinator.empty() && decoded->coordinator != plan.coordinator) {
      no_entry(door, NoEntry::wrong, "another coordinator answers there");
    } else if (decoded->why != HelloReply::Why::accepted) {
      fail_with(
          fail(Errc::refused, "refused by the coordinator at " + plan.addresses.front() + ": " + decoded->refused));
    } else {
      join(door, from, *decoded);
    }
  }

  /// The first to prove itself. Nothing but a greeting was said to the others.
  void join(Door door, Attempt const& at_it, HelloReply const& answer) {
    timer.cancel();
    joined = true;
    reached = at_it.to;
    channel = at_it.channel;
    relayed = answer.seen != channel->ends();
    leave_all_but(door);
    if (plan.keys && plan.asks != Hello::Asks::follow) {
      plan.keys->take(*channel->key());
    }
    if (at_it.by_step && answer.run_id != plan.run_id) {
      plan.terms.reset();  // it comes to say that it takes no part
    }
    plan.run_id = answer.run_id;
    if (plan.asks != Hello::Asks::follow) {
      channel->send(encode(ToCoordinator(Join{plan.node, plan.terms})));
    }
    handlers.joined(answer);
  }

  void turned_away(Door door, Attempt const& from, std::string const& how, Ended ended) {
    bool const silent = ended != Ended::broken || how == "connection reset";
    if (is_of_another_run(how)) {
      other_job = how;
    } else if (!silent && told.insert(how).second) {
      log(Level::warn, "whoever listens at " + from.to.address().to_string() + ":" + std::to_string(from.to.port()) +
                           " is not trusted: " + how + "; trying on");
    }
    no_entry(door, NoEntry::wrong, silent ? "it closed the connection before greeting: no cxxrun coordinator" : how);
  }

  void closed(std::string how, Ended ended) {
    stop();
    handlers.closed(std::move(how), ended);
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

void CoordinatorLink::try_also(std::uint16_t port) {
  impl_->try_also(port);
}

void CoordinatorLink::send(ToCoordinator const& message) {
  if (impl_->joined && !impl_->over) {
    if (std::holds_alternative<Ack>(message)) {  // workers follow, who call the store
      impl_->channel->send(encode(AboutCallers(host_addresses(impl_->plan.local_addr))));
    }
    impl_->channel->send(encode(message));
  }
}

bool CoordinatorLink::send(LiveUp const& message) {
  bool const can = impl_->joined && !impl_->over;
  if (can) {
    impl_->channel->send(encode(message));
  }
  return can;
}

void CoordinatorLink::send_beat(Beat const& beat) {
  impl_->send_beat(beat);
}

std::optional<CoordinatorLink::Reached> CoordinatorLink::reached() const {
  auto const& end = impl_->reached;
  return impl_->joined ? std::optional(Reached{end.address().to_string(), end.port(), impl_->relayed}) : std::nullopt;
}

void CoordinatorLink::close() {
  if (!impl_->over) {
    impl_->stop();
  }
}

}  // namespace cxxrun::rendezvous
