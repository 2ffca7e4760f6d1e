#include "rendezvous/net/coordinator.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/coordinator_world.hpp"

using namespace cxxrun;              // NOLINT(google-build-using-namespace)
using namespace cxxrun::rendezvous;  // NOLINT(google-build-using-namespace)
using cxxrun::test::bound_socket;
using cxxrun::test::Caller;
using cxxrun::test::Host;
using cxxrun::test::Stranger;
using cxxrun::test::wait_until;

namespace {

/// An agent as a coordinator sees it. It says yes to everything and has no workers.
class Member {
 public:
  Member(boost::asio::io_context& io, std::string nonce, std::uint16_t standby_port)
      : io_(io), nonce_(std::move(nonce)), standby_port_(standby_port) {}

  void join(std::uint16_t port, Terms const& terms) {
    caller_.emplace(io_, nonce_);
    auto plan = caller_->plan({port}, terms);
    plan.node.standby_port = standby_port_;
    caller_->call(plan);
  }
  void follow(std::uint16_t port) {
    read_ = 0;
    started = 0;
    following_ = true;
    caller_.emplace(io_, nonce_);
    caller_->call(caller_->follow(port));
  }
  void hang_up() { caller_.reset(); }

  /// Answers the messages that have come.
  void react() {
    if (!caller_) {
      return;
    }
    if (following_ && caller_->reply) {
      following_ = false;
      FollowerInfo follower_info;
      follower_info.node.incarnation = nonce_;
      follower_info.node.host = "host-" + nonce_;
      follower_info.node.standby_port = standby_port_;
      follower_info.decided = generation.decree;
      follower_info.rank = generation.group_rank;
      follower_info.seen = generation.number;
      for (int i = 0; i < says; ++i) {
        caller_->link().send(follower_info);
      }
    }
    for (; read_ < caller_->messages.size(); ++read_) {
      std::visit([this](auto const& message) { hear(message); }, caller_->messages[read_]);
    }
    if (Clock::now() >= next_beat_) {
      auto const echo = caller_->acks.empty() ? OwnTime{0} : caller_->acks.back().sent;
      caller_->link().send_beat({++sent_, echo, generation.number});
      next_beat_ = Clock::now() + Millis{100};
    }
  }

  Generation generation;
  int says = 1;  ///< how often it sends its FollowerInfo
  std::uint64_t started = 0;
  std::optional<std::string> refused;
  bool dropped = false;

 private:
  void hear(Prepare const& message) {
    generation = message.generation;
    caller_->link().send(Ack{generation.number, message.sent, ++sent_});
  }
  void hear(Propose const& message) {
    caller_->link().send(Accepted{message.decree.after, message.ballot, message.ballot});
  }
  void hear(VoteRequest const& message) {
    caller_->link().send(Vote{message.after, message.ballot, message.ballot, std::nullopt, Millis{0}});
  }
  void hear(Stop const& message) { caller_->link().send(Stopped{message.number, {}, {}}); }
  void hear(Start const& message) { started = message.number; }
  void hear(Refused const& message) { refused = message.why; }
  void hear(Dropped const& /*message*/) { dropped = true; }
  template <class Other>
  void hear(Other const& /*message*/) {}

  boost::asio::io_context& io_;
  std::string nonce_;
  std::uint16_t standby_port_;
  std::optional<Caller> caller_;
  std::size_t read_ = 0;
  bool following_ = false;
  OwnTime sent_ = 0;
  TimePoint next_beat_{};
};

struct Trio {
  Trio() {
    terms.min_nodes = 2;
    terms.max_nodes = 3;
    terms.expected_nodes = 3;
    terms.heartbeat_timeout = Millis{5000};
    for (std::size_t i = 0; i < 3; ++i) {
      auto const name = std::to_string(i);
      hosts.push_back(std::make_unique<Host>(io, name));
      ports.push_back(0);
      CHECK(hosts[i]->coordinator.listen_also(bound_socket(ports[i])));
      members.push_back(std::make_unique<Member>(io, name, ports[i]));
      if (i > 0) {
        hosts[i]->coordinator.standby("job", terms);
      }
    }
    port = hosts[0]->coordinator.listen({0}).value();
    hosts[0]->coordinator.open_run("job", terms);
    for (auto const& member : members) {
      member->join(port, terms);
    }
  }
  bool until(std::function<bool()> const& condition) {
    return wait_until(io, [&] {
      for (auto const& member : members) {
        member->react();
      }
      return condition();
    });
  }
  /// The coordinator of the first generation and its agent are gone.
  void lose_first() {
    members[0]->hang_up();
    hosts[0].reset();
  }

  boost::asio::io_context io;
  Terms terms;
  std::vector<std::unique_ptr<Host>> hosts;
  std::vector<std::uint16_t> ports;
  std::vector<std::unique_ptr<Member>> members;
  std::uint16_t port = 0;
};

}  // namespace

TEST_CASE("a coordinator on standby takes over from one that is gone, and leads the next generation") {
  Trio job;
  REQUIRE(job.until([&] { return job.members[0]->started && job.members[1]->started && job.members[2]->started; }));
  CHECK(job.members[1]->generation.coordinator == "0");
  CHECK(job.members[1]->generation.successors.size() == 3);
  CHECK(job.members[1]->generation.survives);
  CHECK_FALSE(job.hosts[1]->coordinator.leads());
  auto const old = job.members[0]->generation;
  job.lose_first();
  int const says = GENERATE(1, 3);  // repeated when its workers end or another round begins
  INFO("each says " << says << " times what it knows");
  job.members[1]->says = job.members[2]->says = says;
  job.members[1]->follow(job.ports[1]);  // the coordinator inside itself, like any other
  job.members[2]->follow(job.ports[1]);
  job.hosts[1]->coordinator.start_campaign(
      {old.decree, {2, job.members[1]->generation.group_rank}, old.number, {"a", "b", "c"}});
  Stranger parent(job.ports[1]);  // the parent of the dead agent
  parent.say(encode(Hello{kProtocolVersion, "job", "0", Hello::Purpose::death_notice, Hello::Asks::meet}));
  parent.say(encode(ToCoordinator(Gone{old.number, old.group_rank})));
  REQUIRE(job.until([&] { return job.members[1]->started > old.number && job.members[2]->started > old.number; }));
  CHECK(job.hosts[1]->coordinator.leads());
  CHECK(job.members[2]->generation.coordinator == "1");
  CHECK(job.members[2]->generation.master_addr == old.master_addr);
  REQUIRE(job.members[2]->generation.successors.size() == 2);
  CHECK_FALSE(job.members[2]->generation.successors[0].address.empty());
  CHECK(job.members[2]->generation.group_size == 2);
  CHECK(job.members[2]->generation.decree.after == old.number);

  Member late(job.io, "late", 0);  // joins the new coordinator
  late.join(job.ports[1], job.terms);
  REQUIRE(job.until([&] {
    late.react();
    return late.generation.group_size == 3;
  }));
}

TEST_CASE("a candidate that hears of a later decision is on standby again, and says so") {
  Trio job;
  REQUIRE(job.until([&] { return job.members[0]->started && job.members[1]->started && job.members[2]->started; }));
  auto const old = job.members[0]->generation;
  job.lose_first();
  job.hosts[1]->coordinator.start_campaign({old.decree, {2, 1}, old.number, {}});
  job.members[2]->generation.decree.after = old.number;
  job.members[2]->generation.decree.number = old.number + 1;
  job.members[2]->follow(job.ports[1]);
  REQUIRE(job.until([&] { return !job.hosts[1]->stepped_down.empty(); }));
  CHECK_FALSE(job.hosts[1]->coordinator.leads());
  CHECK_FALSE(job.hosts[1]->closed);
  Caller joins(job.io, "x");  // the port is open, but no agent may join
  auto plan = joins.plan({job.ports[1]}, job.terms);
  plan.once = true;
  joins.call(plan);
  REQUIRE(job.until([&] { return joins.failed.has_value(); }));
  CHECK(joins.failed->message().find("another agent coordinates job") != std::string::npos);
}
