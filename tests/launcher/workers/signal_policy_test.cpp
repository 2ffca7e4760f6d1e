#include "launcher/workers/signal_policy.hpp"

#include "src/base/os/monitor.hpp"
#include "tests/support/catch.hpp"

using namespace std::chrono_literals;
using cxxrun::SignalInfo;
using cxxrun::TimePoint;
using cxxrun::launcher::classify;
using cxxrun::launcher::SignalContext;
using cxxrun::launcher::SignalState;
using cxxrun::launcher::SignalVerdict;

namespace {

constexpr pid_t kParent = 100;
constexpr pid_t kSlurmstepd = 90;
constexpr pid_t kUser = 4242;

SignalInfo by(pid_t sender, int signal) {
  return {signal, sender, SI_USER};
}
SignalInfo by_terminal(int signal) {
  return {signal, 0, SI_KERNEL};
}

// The verdicts on a sequence of signals, 10 ms apart.
std::vector<SignalVerdict> verdicts(std::vector<SignalInfo> const& signals, SignalContext const& context) {
  std::vector<SignalVerdict> all;
  SignalState state;
  TimePoint now{};
  for (auto const& signal : signals) {
    auto next = classify(std::move(state), signal, now += 10ms, context);
    state = std::move(next.next);
    all.push_back(next.verdict);
  }
  return all;
}

SignalContext const kPlain{kParent, std::nullopt, false};
SignalContext const kSlurm{kParent, kSlurmstepd, false};

}  // namespace

TEST_CASE("signal_policy: TERM, INT, HUP and QUIT stop, whoever sends them", "[unit]") {
  for (int const signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT}) {
    CHECK(verdicts({by(kParent, signal)}, kPlain) == std::vector{SignalVerdict::stop});
    CHECK(verdicts({by(kUser, signal)}, kPlain) == std::vector{SignalVerdict::stop});
    CHECK(verdicts({by_terminal(signal)}, kPlain) == std::vector{SignalVerdict::stop});
  }
}

TEST_CASE("signal_policy: a second TERM is nothing new", "[unit]") {
  CHECK(verdicts({by(kParent, SIGTERM), by(kParent, SIGTERM), by(kUser, SIGQUIT)}, kPlain) ==
        std::vector{SignalVerdict::stop, SignalVerdict::ignore, SignalVerdict::ignore});
}

TEST_CASE("signal_policy: only the second Ctrl-C of a terminal kills at once", "[unit]") {
  CHECK(verdicts({by_terminal(SIGINT), by_terminal(SIGINT)}, kPlain) ==
        std::vector{SignalVerdict::stop, SignalVerdict::kill_now});
  CHECK(verdicts({by(kUser, SIGINT), by(kUser, SIGINT)}, kPlain) ==
        std::vector{SignalVerdict::stop, SignalVerdict::ignore});
  CHECK(verdicts({by(kUser, SIGTERM), by_terminal(SIGINT), by_terminal(SIGINT)}, kPlain) ==
        std::vector{SignalVerdict::stop, SignalVerdict::ignore, SignalVerdict::kill_now});
}

TEST_CASE("signal_policy: a background job of a script ignores the terminal but not kill", "[unit]") {
  SignalContext const background{kParent, std::nullopt, true};
  CHECK(verdicts({by_terminal(SIGINT), by_terminal(SIGQUIT), by(kUser, SIGINT)}, background) ==
        std::vector{SignalVerdict::ignore, SignalVerdict::ignore, SignalVerdict::stop});
}

TEST_CASE("signal_policy: Slurm's own TERM is not sent to the workers again", "[unit]") {
  CHECK(verdicts({by(kSlurmstepd, SIGTERM), by(kParent, SIGTERM)}, kSlurm) ==
        std::vector{SignalVerdict::stop_without_forwarding, SignalVerdict::ignore});
  CHECK(verdicts({by(kParent, SIGTERM)}, kSlurm) == std::vector{SignalVerdict::stop});
  CHECK(verdicts({by(kSlurmstepd, SIGTERM)}, kPlain) == std::vector{SignalVerdict::stop});
}

TEST_CASE("signal_policy: a slurmstepd outside our pid namespace is told from a terminal", "[unit]") {
  SignalContext const outside{kParent, 0, false};
  CHECK(verdicts({by(0, SIGTERM)}, outside) == std::vector{SignalVerdict::stop_without_forwarding});
  CHECK(verdicts({by_terminal(SIGINT)}, outside) == std::vector{SignalVerdict::stop});
}

TEST_CASE("signal_policy: USR1 reaches the workers once", "[unit]") {
  CHECK(verdicts({by(kParent, SIGUSR1), by(kParent, SIGUSR1)}, kSlurm) ==
        std::vector{SignalVerdict::forward_only, SignalVerdict::forward_only});
  CHECK(verdicts({by(kSlurmstepd, SIGUSR1), by(kParent, SIGUSR1), by(kParent, SIGUSR2)}, kSlurm) ==
        std::vector{SignalVerdict::ignore, SignalVerdict::ignore, SignalVerdict::forward_only});
}

TEST_CASE("signal_policy: a USR1 that the parent passes on a second after Slurm's is another one", "[unit]") {
  auto state = classify({}, by(kSlurmstepd, SIGUSR1), TimePoint{}, kSlurm).next;
  CHECK(classify(state, by(kParent, SIGUSR1), TimePoint{} + 999ms, kSlurm).verdict == SignalVerdict::ignore);
  CHECK(classify(state, by(kParent, SIGUSR1), TimePoint{} + 1s, kSlurm).verdict == SignalVerdict::forward_only);
}

TEST_CASE("signal_policy: what the user named stops as well, and nothing else", "[unit]") {
  SignalContext named = kSlurm;
  named.also_stop = {SIGUSR1};
  CHECK(verdicts({by(kParent, SIGUSR1), by(kParent, SIGUSR1)}, named) ==
        std::vector{SignalVerdict::stop, SignalVerdict::ignore});
  CHECK(verdicts({by(kSlurmstepd, SIGUSR1)}, named) == std::vector{SignalVerdict::stop_without_forwarding});
  CHECK(verdicts({by(kParent, SIGUSR2)}, named) == std::vector{SignalVerdict::forward_only});
  CHECK(verdicts({by(kParent, SIGTERM)}, named) == std::vector{SignalVerdict::stop});
}

TEST_CASE("signal_policy: who sent a signal, in words", "[unit]") {
  using cxxrun::launcher::sender_text;
  SignalInfo const user{SIGTERM, kUser, SI_USER, 1000};
  CHECK(sender_text(user, "kill", kPlain) == "from pid 4242 (kill), uid 1000");
  CHECK(sender_text(user, "", kSlurm) == "from pid 4242, uid 1000");
  CHECK(sender_text(user, "a\nb", kPlain) == "from pid 4242 (a?b), uid 1000");
  CHECK(sender_text(by(kSlurmstepd, SIGTERM), "slurmstepd", kSlurm) == "from Slurm");
  CHECK(sender_text(by(kSlurmstepd, SIGTERM), "x", kPlain) == "from pid 90 (x), uid 0");
  CHECK(sender_text(by(0, SIGTERM), "", kPlain) == "from outside this container");
  CHECK(sender_text(by(0, SIGTERM), "", SignalContext{kParent, 0, false}) == "from Slurm");
  CHECK(sender_text(by_terminal(SIGINT), "", kPlain).empty());
}

TEST_CASE("monitor: a terminal's Ctrl-C is not passed on, the agent has it already", "[unit]") {
  CHECK_FALSE(cxxrun::os::passes_on(by_terminal(SIGINT)));
  CHECK_FALSE(cxxrun::os::passes_on(by_terminal(SIGQUIT)));
  CHECK(cxxrun::os::passes_on(by_terminal(SIGHUP)));
  CHECK(cxxrun::os::passes_on(by(kUser, SIGINT)));
}
