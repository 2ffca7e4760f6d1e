#include "rendezvous/net/coordinator_link.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>

#include "rendezvous/net/beat_line.hpp"
#include "rendezvous/net/channel.hpp"
#include "rendezvous/net/host_owners.hpp"
#include "rendezvous/trust/grant.hpp"
#include "src/base/core/text.hpp"
#include "src/base/core/time.hpp"
#include "src/base/os/local_address.hpp"
#include "src/base/os/log.hpp"
#include "src/base/os/process_limits.hpp"
#include "src/base/os/timer.hpp"

namespace cxxrun::rendezvous {
namespace {

using boost::asio::ip::tcp;
using ErrorCode = boost::system::error_code;

constexpr char const* kNoPortLeft = "this host has no free local port: other connections use them all";

/// Resolves the names of one host, in order.
class Lookup : public std::enable_shared_from_this<Lookup> {
 public:
  using Addresses = std::vector<boost::asio::ip::address>;

  explicit Lookup(boost::asio::io_context& io) : resolver_(io), timer_(io) {}

  /// Runs `found` once, unless `cancel` is called; within this call if all names are literals. A name that does not
  /// resolve yet is tried again for `patience`, but a minute at most. Errors: not_found, if no name has an address.
  void start(std::vector<std::string> names, Millis patience, std::function<void(Result<Addresses>)> found) {
    names_ = std::move(names);
    patience_ = std::min(patience, os::kForNameServer);
    give_up_at_ = Clock::now() + patience_;
    found_ = std::move(found);
    resolve(0);
  }

  void cancel() {
    found_ = {};
    timer_.cancel();
    resolver_.cancel();
  }

 private:
  /// A name that does not resolve is an error only if no other one does.
  void resolve(std::size_t index) {
    if (index == names_.size()) {
      auto const found = std::exchange(found_, {});
      found(addresses_.empty() ? Result<Addresses>(fail(Errc::not_found, trouble_)) : addresses_);
      return;
    }
    ErrorCode error;
    auto const literal = boost::asio::ip::make_address(names_[index], error);
    if (!error) {
      add(literal);
      resolve(index + 1);
      return;
    }
    try {
      resolver_.async_resolve(names_[index], "",
                              [self = shared_from_this(), index](ErrorCode const& failed, auto const& results) {
                                if (self->found_) {
                                  self->resolved(index, failed, results);
                                }
                              });
    } catch (std::exception const& refused) {
      // Asio could not start its resolver thread. Workers may be running: this must not end their agent.
      trouble_ = os::explain_refusal("cannot resolve host " + names_[index], refused);
      resolve(index + 1);
    }
  }

  void resolved(std::size_t index, ErrorCode const& failed, tcp::resolver::results_type const& results) {
    bool const later = failed == boost::asio::error::host_not_found_try_again;
    if (later && Clock::now() < give_up_at_) {
      if (trouble_.empty()) {
        trouble_ = os::unknown_yet(names_[index], patience_);
        log(Level::warn, trouble_);
      }
      timer_.after(pause_, [this, index] { resolve(index); });
      pause_ = std::min(pause_ * 2, Probing::kLongestPause);
      return;
    }
    if (failed) {
      trouble_ = os::unknown_host(names_[index], later, failed.message());
    }
    for (auto const& entry : results) {
      add(entry.endpoint().address());
    }
    resolve(index + 1);
  }

  void add(boost::asio::ip::address const& address) {
    if (std::find(addresses_.begin(), addresses_.end(), address) == addresses_.end()) {
      addresses_.push_back(address);
    }
  }

  tcp::resolver resolver_;
  os::Timer timer_;
  std::vector<std::string> names_;
  Millis patience_{0};
  TimePoint give_up_at_;
  std::function<void(Result<Addresses>)> found_;
  Addresses addresses_;
  Millis pause_ = Probing::kFirstPause;
  std::string trouble_;
};

}  // namespace

struct CoordinatorLink::Impl final : BeatInbox, std::enable_shared_from_this<CoordinatorLink::Impl> {
  /// An attempt at one candidate: being connected, then greeted.
  struct Attempt final : Dialled {
    Attempt(Impl& link, Candidate which)
        : Dialled(link.io), owner(link.weak_from_this()), candidate(which), to(link.endpoints[which]) {}

    void on_frame(std::string payload) override {
      if (auto const link = open_in()) {
        link->channel ? link->on_message(payload) : link->on_hello_reply(*this, payload);
      }
    }

    void on_closed(std::string how, Ended ended) override {
      if (auto const link = open_in()) {
        link->channel ? link->on_closed(std::move(how), ended) : link->on_attempt_closed(*this, how, ended);
      }
    }

    /// The link, as long as this is its attempt at the candidate.
    [[nodiscard]] std::shared_ptr<Impl> open_in() const {
      auto link = owner.lock();
      bool const open = link && !link->over && link->attempts.contains(candidate);
      return open && link->attempts.at(candidate).get() == this ? link : nullptr;
    }

    std::weak_ptr<Impl> owner;
    Candidate candidate;
    tcp::endpoint to;
    bool by_step = false;  ///< it asks for the run by plan.step
  };

  Impl(boost::asio::io_context& context, LinkInbox& events)
      : io(context), inbox(events), lookup(std::make_shared<Lookup>(context)), timer(context) {}

  boost::asio::io_context& io;
  LinkInbox& inbox;
  CallPlan plan;
  std::shared_ptr<Lookup> lookup;
  os::Timer timer;
  Lookup::Addresses addresses;
  std::vector<tcp::endpoint> endpoints;  // of the candidates
  Probing probing;
  std::map<Candidate, std::shared_ptr<Attempt>> attempts;  // once joined, only the one that joined
  std::string last_trouble;
  bool by_step = false;              // the next attempt asks for plan.step
  std::string other_job;             // refusal of another job's coordinator: explains more than later failures
  std::set<std::string> told;        // lines that were logged, each once
  std::shared_ptr<Channel> channel;  // of the attempt that joined; null: none has
  std::shared_ptr<BeatLine> beats;
  HostOwners owners;
  tcp::endpoint reached;
  bool relayed = false;
  bool over = false;

  template <class Handler>
  auto guarded(Handler handler) {
    return [weak = weak_from_this(), handler = std::move(handler)](auto&&... args) {
      if (auto const self = weak.lock(); self && !self->over) {
        handler(*self, std::forward<decltype(args)>(args)...);
      }
    };
  }

  [[nodiscard]] bool can_send() const { return channel && !over; }

  void fail_with(Error error, bool refused = false) {
    stop();
    inbox.on_failed(std::move(error), refused);
  }

  void stop() {
    over = true;
    timer.cancel();
    lookup->cancel();
    if (channel) {
      channel->close_after_flush();
    } else {
      close_all_but({});
    }
    boost::asio::post(io, [line = std::move(beats)] {});  // later: its own handler may be on the call stack
  }

  // ---- probing the candidates --------------------------------------------------------------------------------

  void call() {
    probing.give_up_at = Clock::now() + plan.patience;
    lookup->start(plan.addresses, plan.patience, guarded([](Impl& self, Result<Lookup::Addresses> found) {
                    if (!found) {
                      self.fail_with(found.error());
                      return;
                    }
                    self.addresses = *std::move(found);
                    for (auto const& address : self.addresses) {
                      for (auto const port : self.plan.ports) {
                        self.endpoints.emplace_back(address, port);
                      }
                    }
                    self.probing.count = self.endpoints.size();
                    self.probing.only_port = self.plan.ports.size() == 1;
                    self.probing.once = self.plan.once;
                    self.probing.patience = self.plan.patience;
                    self.continue_probing();
                  }));
  }

  void try_also(std::uint16_t port) {
    bool const known = std::find(plan.ports.begin(), plan.ports.end(), port) != plan.ports.end();
    if (known || channel || over || plan.ports.size() == 1) {
      return;
    }
    plan.ports.push_back(port);
    if (!addresses.empty()) {  // else call() adds the port once the name is resolved
      for (auto const& address : addresses) {
        endpoints.emplace_back(address, port);
      }
      add(probing, addresses.size(), Clock::now());
      continue_probing();
    }
  }

  void continue_probing() {
    for (;;) {
      auto const act = next_action(probing, Clock::now());
      if (auto const* const probe = std::get_if<Probe>(&act)) {
        begin_attempt(probe->candidate);
      } else if (auto const* const late = std::get_if<Drop>(&act)) {
        last_trouble = attempts.at(late->candidate)->channel ? "it accepts connections but is not a cxxrun coordinator"
                                                             : "no answer";
        tell_trying();
        close_attempt(late->candidate);
      } else if (auto const* const ends = std::get_if<GiveUp>(&act)) {
        give_up(ends->wrong);
        return;
      } else {
        break;
      }
    }
    if (auto const at = due(probing)) {
      timer.at(*at, guarded([](Impl& self) { self.continue_probing(); }));
    }
  }

  [[nodiscard]] std::string where() const {
    std::string const port = ":" + std::to_string(plan.ports.front());
    return plan.addresses.front() + (probing.only_port || plan.once ? port : "");
  }

  void give_up(bool wrong) {
    if (plan.once) {
      fail_with(fail(Errc::closed, where() + ": " + last_trouble), probing.refused);
    } else if (wrong) {
      fail_with(
          fail(Errc::in_use,
               where() + ": " + (other_job.empty() ? last_trouble + "; " + kOtherPort : other_job + "; " + kOneId)));
    } else {
      fail_with(fail(Errc::timeout, not_found_line(probing, where(), last_trouble)));
    }
  }

  /// Says once that the agent still waits, so that a mistake shows early. Not for a coordinator named by the discovery
  /// file, which is called for a short time only.
  void tell_trying() {
    if (!plan.once && plan.coordinator.empty() && is_long(probing, Clock::now()) && told.insert("trying").second) {
      log(Level::info, "no coordinator at " + where() + " yet (" + last_trouble + "); trying for " +
                           seconds_text(plan.patience) + " in all");
    }
  }

  void begin_attempt(Candidate candidate) {
    auto const made = attempts[candidate] = std::make_shared<Attempt>(*this, candidate);
    made->connect(made->to, [made](ErrorCode const& error) {
      auto const link = made->open_in();
      if (link && error) {
        bool const refused = error == boost::asio::error::connection_refused;
        link->attempt_failed(made->candidate, refused ? ProbeFailure::refused : ProbeFailure::silent,
                             lacks_port(error) ? kNoPortLeft : error.message());
      } else if (link) {
        link->greet(*made);
      }
    });
  }

  void close_attempt(Candidate candidate) { attempts.extract(candidate).mapped()->close(); }

  void close_all_but(std::optional<Candidate> one) {
    for (auto const& [candidate, attempt] : std::map(attempts)) {
      if (candidate != one) {
        close_attempt(candidate);
      }
    }
  }

  void attempt_failed(Candidate candidate, ProbeFailure how, std::string why) {
    last_trouble = std::move(why);
    tell_trying();
    close_attempt(candidate);
    failed(probing, candidate, how, Clock::now());
    continue_probing();
  }

  // ---- greeting ----------------------------------------------------------------------------------------------

  void greet(Attempt& attempt) {
    connected(probing, attempt.candidate, Clock::now());
    auto words = hello(Hello::Purpose::agent);
    attempt.by_step = by_step;
    if (by_step) {
      words.run_id = plan.step;
      words.asks = Hello::Asks::meet;
    }
    attempt.greet(std::move(words), plan.keys);
    continue_probing();
  }

  [[nodiscard]] Hello hello(Hello::Purpose purpose) const {
    Hello words{kProtocolVersion, plan.run_id, plan.node.incarnation, purpose, plan.asks};
    words.local_addr = outer_address(plan.local_addr);
    return words;
  }

  void on_message(std::string const& payload) {
    auto decoded = decode<FromCoordinator>(payload);
    if (auto* const live = decoded ? std::get_if<LiveDown>(&*decoded) : nullptr) {
      inbox.on_live(std::move(*live));
      return;
    }
    if (auto const* const asked = decoded ? std::get_if<AskHost>(&*decoded) : nullptr) {
      channel->send(encode(AboutCallers(owners.answer(std::get<WhoseCalls>(*asked)))));
      return;
    }
    auto message = decoded ? Result<ToAgent>(std::get<ToAgent>(*std::move(decoded))) : decoded.error();
    auto const* const prepare = message ? std::get_if<Prepare>(&*message) : nullptr;
    if (prepare != nullptr && prepare->generation.local_size != plan.node.slots) {
      message = fail(Errc::protocol, "it assigns " + std::to_string(prepare->generation.local_size) +
                                         " workers to this node, which has " + std::to_string(plan.node.slots));
    }
    if (!message) {
      log(Level::error, "message from the coordinator not understood: " + message.error().message());
      on_closed("protocol error", Ended::broken);
      return;
    }
    inbox.on_message(*std::move(message));
  }

  void on_hello_reply(Attempt const& from, std::string const& payload) {
    auto const decoded = decode<HelloReply>(payload);
    if (!decoded) {
      attempt_failed(from.candidate, ProbeFailure::wrong, "it answers but is not a cxxrun coordinator");
    } else if (decoded->why == HelloReply::Why::other_job || decoded->why == HelloReply::Why::relayed) {
      other_job = decoded->why == HelloReply::Why::other_job ? decoded->refused : other_job;
      by_step = !plan.step.empty() && !from.by_step;
      attempt_failed(from.candidate, ProbeFailure::wrong, decoded->refused);
    } else if (!plan.coordinator.empty() && decoded->coordinator != plan.coordinator) {
      attempt_failed(from.candidate, ProbeFailure::wrong, "another coordinator answers there");
    } else if (decoded->why != HelloReply::Why::accepted) {
      fail_with(
          fail(Errc::refused, "refused by the coordinator at " + plan.addresses.front() + ": " + decoded->refused));
    } else {
      join(from, *decoded);
    }
  }

  /// Joins the first coordinator that has proven itself. The other attempts got nothing but a hello.
  void join(Attempt const& attempt, HelloReply const& answer) {
    timer.cancel();
    reached = attempt.to;
    channel = attempt.channel;
    relayed = answer.seen != channel->ends();
    close_all_but(attempt.candidate);
    if (plan.keys && plan.asks != Hello::Asks::follow) {
      plan.keys->take(*channel->key());
    }
    if (attempt.by_step && answer.run_id != plan.run_id) {
      plan.terms.reset();  // it joins only to say that it takes no part
    }
    plan.run_id = answer.run_id;
    if (plan.asks != Hello::Asks::follow) {
      auto const left = plan.job_end ? std::optional(time_left(*plan.job_end, Clock::now())) : std::nullopt;
      channel->send(encode(ToCoordinator(Join{plan.node, plan.terms, left})));
    }
    inbox.on_joined(answer);
  }

  void on_attempt_closed(Attempt const& from, std::string const& how, Ended ended) {
    bool const silent = ended != Ended::broken || how == "connection reset";
    if (is_of_another_run(how)) {
      other_job = how;
    } else if (!silent && told.insert(how).second) {
      log(Level::warn, "cannot authenticate coordinator at " + from.to.address().to_string() + ":" +
                           std::to_string(from.to.port()) + ": " + how + "; trying the next port");
    }
    attempt_failed(from.candidate, ProbeFailure::wrong,
                   silent ? "it closed the connection before a hello, so it is not a cxxrun coordinator" : how);
  }

  void on_closed(std::string how, Ended ended) {
    stop();
    inbox.on_closed(std::move(how), ended);
  }

  // ---- beats -------------------------------------------------------------------------------------------------

  void on_beat_answered(BeatAck const& ack) override {
    if (!over) {
      inbox.on_beat(ack);
    }
  }
};

CoordinatorLink::CoordinatorLink(boost::asio::io_context& io, LinkInbox& inbox)
    : impl_(std::make_shared<Impl>(io, inbox)) {}

CoordinatorLink::~CoordinatorLink() {
  try {
    close();
  } catch (...) {  // out of memory: no goodbye is sent, and no event follows all the same
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
  if (impl_->can_send()) {
    if (std::holds_alternative<Ack>(message)) {  // workers that call the store follow
      impl_->channel->send(encode(AboutCallers(host_addresses(impl_->plan.local_addr))));
    }
    impl_->channel->send(encode(message));
  }
}

bool CoordinatorLink::send(LiveUp const& message) {
  if (impl_->can_send()) {
    impl_->channel->send(encode(message));
  }
  return impl_->can_send();
}

void CoordinatorLink::send_beat(Beat const& beat) {
  if (!impl_->can_send()) {
    return;
  }
  if (!impl_->beats) {
    impl_->beats = std::make_shared<BeatLine>(impl_->io, impl_->reached, impl_->hello(Hello::Purpose::beat),
                                              impl_->plan.keys, impl_);
  }
  impl_->beats->send(beat);
}

std::optional<CoordinatorLink::Reached> CoordinatorLink::reached() const {
  auto const& end = impl_->reached;
  return impl_->channel ? std::optional(Reached{end.address().to_string(), end.port(), impl_->relayed}) : std::nullopt;
}

void CoordinatorLink::close() {
  if (!impl_->over) {
    impl_->stop();
  }
}

}  // namespace cxxrun::rendezvous
