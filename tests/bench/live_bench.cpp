// live_bench: processor time that the pulses of a job cost its coordinator, from the sealed frame to who is slow. A
// release build, without arguments, by hand: exit code 1 when a figure is over its bar. With --smoke: a small job, and
// no bars. With --worker: a worker that only reports a step each second, for live_bench.py.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "launcher/live/live.hpp"
#include "rendezvous/protocol/messages.hpp"
#include "rendezvous/trust/secure_channel.hpp"
#include "src/base/worker/agent_link.hpp"
#include "src/base/worker/recorder.hpp"

using namespace cxxrun;                  // NOLINT(google-build-using-namespace): a program, not a header
using namespace cxxrun::launcher::live;  // NOLINT(google-build-using-namespace)
using rendezvous::NodePulse;

namespace {

constexpr std::uint32_t kWorkers = 8;  // of a node
constexpr std::uint32_t kSlowRank = 5;
constexpr int kRounds = 12;  // in which the slow rank is named
constexpr std::int64_t kStepMs = 250;
constexpr std::int64_t kWallMs = 1'700'000'000'000;
constexpr TimePoint kStart{std::chrono::hours(1)};

/// What a node tells so long after the start.
NodePulse pulse_of(std::uint32_t node, std::int64_t ms) {
  NodePulse pulse{1, node * kWorkers, static_cast<std::uint32_t>(kGpuFigures), {}};
  auto const read = ms / kWindow.count() * kWindow.count();
  for (std::uint32_t i = 0; i < kWorkers; ++i) {
    Row row{};
    of(row, Figure::step) = 1 + ms / kStepMs;
    of(row, Figure::step_ago) = ms % kStepMs;
    of(row, Figure::begun) = 4 * (1 + ms / kStepMs);
    of(row, Figure::memory) = 88'000;
    of(row, Figure::processor) = 776;
    of(row, Figure::state) = 'R';
    of(row, Figure::at) = kWallMs + read;
    of(row, Figure::inside) = 1 + read * (pulse.rank_base + i == kSlowRank ? 30 : 100);
    pulse.figures.insert(pulse.figures.end(), row.begin(), row.begin() + static_cast<std::ptrdiff_t>(kGpuFigures));
  }
  pulse.steps.first = Millis(ms);
  pulse.steps.last = Millis(ms % kStepMs);
  return pulse;
}

/// A job of so many nodes, which send their pulses at the pace that the table chooses.
class Job {
 public:
  explicit Job(std::uint32_t nodes) {
    for (std::uint32_t node = 0; node < nodes; ++node) {
      sealers_.emplace_back(rendezvous::Key());
      openers_.emplace_back(rendezvous::Key());
    }
    fold(live_, {Millis{0}, rendezvous::story::Formed{1, nodes, nodes * kWorkers, 0, "", ""}}, "{}", kStart);
    fold(live_, {Millis{0}, rendezvous::story::Started{1}}, "{}", kStart);
  }

  [[nodiscard]] Millis pace() const { return pace_of(live_, false); }
  [[nodiscard]] bool slow_rank_is_named() const {
    return live_.windows.slow.size() == 1 && live_.windows.slow.front().rank == kSlowRank;
  }

  /// One pulse of each node. Returns this process's processor time, in milliseconds: others may run on the machine.
  double round(int number) {
    auto const nodes = static_cast<std::int64_t>(sealers_.size());
    std::vector<std::string> frames;
    std::vector<TimePoint> instants;
    for (std::size_t node = 0; node < sealers_.size(); ++node) {
      auto const ms = number * pace().count() + static_cast<std::int64_t>(node) * pace().count() / nodes;
      rendezvous::LiveUp const message = pulse_of(static_cast<std::uint32_t>(node), ms);
      frames.push_back(sealers_[node].seal(encode(message)));
      instants.push_back(kStart + Millis(ms));
    }
    auto const begin = std::clock();
    for (std::size_t node = 0; node < frames.size(); ++node) {
      auto const opened = openers_[node].open(frames[node]);
      auto message = rendezvous::decode<rendezvous::FromAgent>(*opened);
      auto& pulse = std::get<NodePulse>(std::get<rendezvous::LiveUp>(*message));
      fold(live_, node + 1, "node" + std::to_string(node), std::move(pulse), instants[node]);
      (void)look_for_slow(live_, instants[node]);
    }
    return static_cast<double>(std::clock() - begin) * 1000 / CLOCKS_PER_SEC;
  }

 private:
  std::vector<rendezvous::Sealer> sealers_;
  std::vector<rendezvous::Opener> openers_;
  Live live_;
};

/// `bar`: in percent of a core; 0: none. False: it is missed, or the slow rank is not named.
bool measure(std::uint32_t nodes, double bar) {
  Job job(nodes);
  double ms = 0;
  for (int number = 0; number < kRounds; ++number) {
    ms += job.round(number) / kRounds;
  }
  double const percent = ms * 100 / static_cast<double>(job.pace().count());
  std::printf("pulses of %u nodes of 8: %.3f ms a round, %.1f us each; each %lld ms: %.4f %% of a core", nodes, ms,
              ms * 1000 / nodes, static_cast<long long>(job.pace().count()), percent);
  std::printf(bar > 0 ? " (bar %g)\n" : "\n", bar);
  if (!job.slow_rank_is_named()) {
    std::printf("pulses of %u nodes of 8: the slow rank is not named\n", nodes);
    return false;
  }
  return bar == 0 || percent <= bar;
}

/// Until it is killed.
int be_a_worker() {
  // NOLINTBEGIN(concurrency-mt-unsafe): nothing changes the environment
  auto const* const rank = std::getenv("LOCAL_RANK");
  auto const lookup = [](char const* name) -> char const* { return std::getenv(name); };
  // NOLINTEND(concurrency-mt-unsafe)
  auto const local = rank == nullptr ? 0U : static_cast<std::uint32_t>(std::stoul(rank));
  auto* const link = worker::process_link(lookup, {.generation = 1, .local_rank = local});
  auto* const page = worker::process_page();
  if (link == nullptr || page == nullptr) {
    return 1;
  }
  page->generation.store(1);
  for (std::uint64_t step = 1;; ++step) {
    worker::note_step(*page, step);
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == "--worker") {
    return be_a_worker();
  }
  if (argc > 1 && std::string(argv[1]) == "--smoke") {
    return measure(8, 0) ? 0 : 1;
  }
  bool const small = measure(8, 0.004);
  bool const large = measure(2048, 1);
  return small && large ? 0 : 1;
}
