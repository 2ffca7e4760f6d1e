#include "src/runtime/cpu/node/node_group.hpp"

#include <cerrno>
#include <new>
#include <sched.h>

namespace cxxrun::host {
namespace {

constexpr std::chrono::milliseconds kSlice{1};    ///< how long a sleeper sleeps without looking around
constexpr std::chrono::microseconds kSpin{50};    ///< about what falling asleep and being woken costs
constexpr std::chrono::seconds kWritingTakes{1};  ///< a mate that was stopped while it wrote the alarm
constexpr std::chrono::seconds kStopped{1};       ///< no scheduler takes that long between two looks at the clock
constexpr int kLooks = 32;                        ///< between two readings of the clock
constexpr int kYields = 4;

void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

NodeGroup::NodeGroup(HostConfig const& config, os::UniqueFd segment, Patience const& patience)
    : config_(config), layout_{config.map.node_size()} {
  if (size() == 1) {
    alone_ = std::make_unique<Slot>();
    alone_header_ = std::make_unique<Header>();
    header_ = alone_header_.get();
    slots_ = {alone_.get()};
    segment_ = std::make_unique<SegmentMap>(or_throw(make_segment()));
    return;
  }
  segment_ = std::make_unique<SegmentMap>(std::move(segment));
  map_segment();
  take_place();
  try {
    lifeline_ = std::make_unique<Lifeline>(slot(index()).lifeline);
    meet(patience);
  } catch (...) {  // the place is taken and nobody else can have it: the mates must not wait
    raise(std::current_exception());
    leave();
    throw_alarm(patience);
  }
  int const next = (index() + 1) % size();
  lifeline_->guard(slot(next).lifeline, [this, next] { raise(peer_failure(PeerFailure::Why::died, rank(next))); });
}

void NodeGroup::leave() noexcept {
  slot(index()).left.store(1);
  ring();
  lifeline_.reset();
}

void NodeGroup::map_segment() {
  int error = segment_->grow(layout_.arenas());
  if (error == 0) {
    error = segment_->map(layout_.arenas());
  }
  if (error != 0) {
    throw Failure(fail(Errc::io,
                       name_of(index()) + " cannot map the memory that the ranks of this node share" +
                           (error == EFBIG ? "; raise the limit of file sizes (ulimit -f)" : ""),
                       error));
  }
  // A new file is full of zeros, which is what every member of Header and Slot begins with, or takes for "nothing".
  header_ = std::launder(reinterpret_cast<Header*>(segment_->at(0, sizeof(Header))));
  for (int i = 0; i < size(); ++i) {
    slots_.push_back(std::launder(reinterpret_cast<Slot*>(segment_->at(layout_.slot(i), sizeof(Slot)))));
    for (std::size_t piece = 0; piece < kPieces; ++piece) {
      staging_.push_back(segment_->at(layout_.staging(i, piece), kPieceBytes));
    }
  }
}

void NodeGroup::take_place() {
  auto const agree = [](auto& word, auto mine) {
    decltype(mine) seen = 0;
    return word.compare_exchange_strong(seen, mine) || seen == mine;
  };
  if (!agree(header().magic, kNodeMagic)) {
    throw Failure(fail(Errc::refused, "the ranks of this node are of different versions of cxxrun"));
  }
  if (!agree(header().nonce, config_.nonce) || !agree(header().size, static_cast<std::uint32_t>(size()))) {
    throw Failure(fail(Errc::refused, "the shared memory of this node belongs to other ranks"));
  }
  auto const pid = static_cast<std::int32_t>(getpid());
  std::int32_t other = 0;
  if (!slot(index()).pid.compare_exchange_strong(other, pid)) {
    throw Failure(fail(Errc::usage, "two processes are rank " + std::to_string(number_of(index())) + ": pids " +
                                        std::to_string(other) + " and " + std::to_string(pid)));
  }
  slot(index()).held_up_by.store(-1);
}

// Sequentially consistent, like the sleepers' side: either the sleeper sees that all have arrived, or the last to
// arrive sees the sleeper. Of several that arrive at once, at least one sees that all have.
void NodeGroup::meet(Patience const& patience) {
  if (size() == 1) {
    return;
  }
  ++step_;
  slot(index()).arrived.store(step_);
  if (header().sleepers.load() != 0 && all_arrived()) {
    ring();
    return;
  }
  if (!all_arrived()) {
    look_at_clock(patience);
  }
  while (!all_arrived() && !came_soon()) {
    sleep_until_rung(patience);
  }
}

bool NodeGroup::all_arrived() const {
  for (int i = 0; i < size(); ++i) {
    if (!arrived(i)) {
      return false;
    }
  }
  return true;
}

/// Waits without sleeping, and not for long. An alarm is not waited for: the sleeper sees it.
bool NodeGroup::came_soon() const {
  if (!config_.enough_cpus) {
    for (int i = 0; i < kYields; ++i) {
      sched_yield();
      if (all_arrived()) {
        return true;
      }
    }
    return false;
  }
  auto const until = Clock::now() + kSpin;
  do {
    for (int i = 0; i < kLooks; ++i) {
      if (all_arrived()) {
        return true;
      }
      pause_cpu();
    }
  } while (Clock::now() < until && !failed() && dead_mate() < 0);
  return false;
}

int NodeGroup::dead_mate() const {
  for (int i = 0; i < size(); ++i) {
    if (i != index() && Lifeline::died(slot(i).lifeline)) {
      return i;
    }
  }
  return -1;
}

Trouble NodeGroup::trouble() const {
  if (failed() || dead_mate() >= 0) {
    return Trouble::failed;
  }
  for (int i = 0; i < size(); ++i) {
    if (i != index() && slot(i).left.load() != 0) {
      return Trouble::left;
    }
  }
  return Trouble::none;
}

/// Whoever looks that late was stopped, or was busy itself: that nobody came meanwhile proves nothing. Without this
/// every rank of a job that is stopped for longer than op_timeout would blame another when it goes on.
void NodeGroup::look_at_clock(Patience const& patience) {
  if (patience.began != began_) {
    began_ = looked_ = patience.began;
    stopped_ = {};
  }
  auto const now = Clock::now();
  if (now - looked_ > kStopped) {
    stopped_ += now - looked_;
  }
  looked_ = now;
}

void NodeGroup::sleep_until_rung(Patience const& patience) {
  std::uint32_t const bell = header().bell.load();
  header().sleepers.fetch_add(1);
  if (!all_arrived() && !failed()) {
    futex_wait(header().bell, bell, kSlice);
  }
  header().sleepers.fetch_sub(1);
  if (!all_arrived()) {
    look_around(patience);
  }
}

void NodeGroup::check(Patience const& patience) {
  look_at_clock(patience);
  if (int const dead = dead_mate(); dead >= 0) {
    raise(peer_failure(PeerFailure::Why::died, rank(dead)));
  }
  if (is_over()) {
    raise(stopped_by_launcher());
  }
  if (failed()) {
    throw_alarm(patience);
  }
}

/// Throws if there is a reason not to wait any longer for who is missing. Who died may have arrived before, and was
/// the last: then this step is done, and the next one throws. So first the look for trouble, then for who is missing.
void NodeGroup::look_around(Patience const& patience) {
  bool const trouble = failed() || dead_mate() >= 0 || is_over();
  if (all_arrived()) {
    return;
  }
  if (trouble) {
    check(patience);
  }
  for (int i = 0; i < size(); ++i) {
    if (slot(i).left.load() != 0 && !arrived(i)) {
      raise(peer_failure(PeerFailure::Why::left, rank(i)));
      throw_alarm(patience);
    }
  }
  look_at_clock(patience);
  auto const until = patience.until + stopped_;
  bool const at_once = hurried(patience);
  if (at_once || looked_ >= until) {
    if (hear_others_) {
      hear_others_(patience);
    }
    give_up(patience, at_once || looked_ >= until + 2 * config_.grace());
  }
}

bool NodeGroup::hurried(Patience const& patience) {
  if (!patience.hurries || !hurry().asked()) {
    return false;
  }
  if (!hurry().answer(looked_ - patience.began - stopped_, patience.until - patience.began)) {
    raise(stopped_by_launcher());
    throw_alarm(patience);
  }
  return true;
}

/// Names who has not arrived. One that waits for another node is not to blame; it is given a little longer to tell
/// what it waited for, and then the one it waits for is named.
void NodeGroup::give_up(Patience const& patience, bool held_up_too) {
  int held_up_by = -1;
  for (int i = 0; i < size(); ++i) {
    if (arrived(i)) {
      continue;
    }
    bool const came = slot(i).pid.load() != 0;  // else its slot is still all zeros
    int const by = came ? config_.rank_named(slot(i).held_up_by.load()) : -1;
    if (by < 0) {
      raise(peer_failure(PeerFailure::Why::timeout, rank(i)));
      throw_alarm(patience);
    }
    held_up_by = by;
  }
  if (held_up_by >= 0 && held_up_too) {
    raise(peer_failure(PeerFailure::Why::timeout, held_up_by));
    throw_alarm(patience);
  }
}

/// A writer that stopped halfway is taken over from.
void NodeGroup::raise(FailureFacts const& facts) noexcept {
  auto const begin = Clock::now();
  auto const gone = [this, begin](std::uint32_t writer) {
    return writer >= slots_.size() || Lifeline::died(slots_[writer]->lifeline) || Clock::now() > begin + kWritingTakes;
  };
  Alarm& alarm = header().alarm;
  std::uint32_t const mine = Alarm::kWriting + static_cast<std::uint32_t>(index());
  for (std::uint32_t seen = Alarm::kQuiet; seen != Alarm::kRaised;) {
    bool const free = seen == Alarm::kQuiet || (seen != mine && gone(seen - Alarm::kWriting));
    if (free && alarm.state.compare_exchange_strong(seen, mine)) {
      write_alarm(alarm, facts);
      break;
    }
    if (!free) {
      seen = alarm.state.load();
    }
  }
  ring();
}

}  // namespace cxxrun::host
