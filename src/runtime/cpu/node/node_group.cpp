#include "src/runtime/cpu/node/node_group.hpp"

#include <cerrno>
#include <new>
#include <sched.h>
#include <utility>

#include "src/base/os/thread.hpp"

namespace cxxrun::host {
namespace {

constexpr std::chrono::milliseconds kSlice{1};    ///< maximum sleep before the next look around
constexpr std::chrono::microseconds kSpin{50};    ///< about the cost of falling asleep and being woken
constexpr std::chrono::seconds kWritingTakes{1};  ///< time for a local peer that was stopped while writing the alarm
constexpr std::chrono::seconds kStopped{1};       ///< no scheduler delays two readings of the clock by that much
constexpr int kLooks = 32;                        ///< checks between two readings of the clock
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
    segment_ = std::make_unique<worker::SegmentMap>(or_throw(worker::make_segment()));
    return;
  }
  segment_ = std::make_unique<worker::SegmentMap>(std::move(segment));
  map_segment();
  take_place();
  try {
    lifeline_ = std::make_unique<Lifeline>(slot(index()).lifeline);
    meet(patience);
  } catch (...) {  // no other process can take this rank's place any more: the local peers must not wait
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
  // A new file is full of zeros, which every member of Header and Slot starts with or takes for "nothing".
  header_ = std::launder(reinterpret_cast<Header*>(segment_->at(0, sizeof(Header))));
  for (int i = 0; i < size(); ++i) {
    slots_.push_back(std::launder(reinterpret_cast<Slot*>(segment_->at(layout_.slot(i), sizeof(Slot)))));
    for (std::size_t piece = 0; piece < kPieces; ++piece) {
      staging_.push_back(segment_->at(layout_.staging(i, piece), kPieceBytes));
    }
  }
}

/// Claims this rank's slot. All ranks must agree on the version, the nonce and the size of the group.
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

// Sequentially consistent, like the sleepers' side: either the sleeper sees that all have arrived, or the last rank to
// arrive sees the sleeper. If several arrive at once, at least one of them sees that all have arrived.
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
  while (!all_arrived() && !wait_briefly()) {
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

/// Waits for a short time without sleeping. Does not react to an alarm: sleep_until_rung() does.
bool NodeGroup::wait_briefly() const {
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

/// A long gap since the last look means that this process was stopped or busy, so the absence of others in that time
/// proves nothing. Without this, after a stop longer than op_timeout every rank of the job would blame another.
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
    worker::futex_wait(header().bell, bell, kSlice);
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

/// Throws if there is a reason to stop waiting. A rank that died may have been the last to arrive: then this step is
/// done, and the next one throws. So this checks for trouble first, and then whether ranks are missing.
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
  bool const at_once = gives_up_early(patience);
  if (at_once || looked_ >= until) {
    if (farewell_check_) {
      farewell_check_(patience);
    }
    give_up(patience, at_once || looked_ >= until + 2 * config_.grace());
  }
}

bool NodeGroup::gives_up_early(Patience const& patience) {
  if (!patience.may_give_up_early || !early_give_up().requested()) {
    return false;
  }
  if (!early_give_up().acknowledge(looked_ - patience.began - stopped_, patience.until - patience.began)) {
    raise(stopped_by_launcher());
    throw_alarm(patience);
  }
  return true;
}

/// Names a rank that has not arrived. A rank that waits for another node is not to blame: it gets a little longer to
/// report what it waited for, and then the rank it waits for is named.
void NodeGroup::give_up(Patience const& patience, bool held_up_too) {
  int held_up_by = -1;
  for (int i = 0; i < size(); ++i) {
    if (arrived(i)) {
      continue;
    }
    bool const came = slot(i).pid.load() != 0;  // otherwise its slot is still all zeros
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

/// Raises the alarm, unless it is raised. Takes over from a writer that stopped halfway.
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

// ---- the lifeline

constexpr std::chrono::milliseconds kWakeUp{100};  ///< a missed wake-up costs at most this
constexpr std::chrono::milliseconds kSoon{1};

Lifeline::Lifeline(worker::FutexWord& mine) : mine_(mine) {
  thread_ = os::start_quiet_thread([this] { live(); });
  owned_.wait(0);
}

Lifeline::~Lifeline() {
  stop_.store(1);
  while (ended_.load() == 0) {  // repeat, because the thread may be just about to sleep
    worker::futex_wake_all(stop_);
    if (worker::FutexWord* const other = guarded_.load()) {
      worker::futex_wake_all(*other);
    }
    worker::futex_wait(ended_, 0, kSoon);
  }
  thread_.join();
}

void Lifeline::guard(worker::FutexWord& other, std::function<void()> on_death) {
  on_death_ = std::move(on_death);
  guarded_.store(&other, std::memory_order_release);
  worker::futex_wake_all(stop_);
}

// The kernel reads the robust list when the thread ends. The entry is private; only the word is in shared memory, at
// `futex_offset` from the entry. The kernel only wakes a sleeper if FUTEX_WAITERS is set, so it is always set.
void Lifeline::own() {
  entry_.next = &head_.list;
  head_.list.next = &entry_;
  head_.futex_offset =
      static_cast<long>(reinterpret_cast<std::intptr_t>(&mine_) - reinterpret_cast<std::intptr_t>(&entry_));
  head_.list_op_pending = nullptr;
  syscall(SYS_set_robust_list, &head_, sizeof head_);
  auto const id = static_cast<std::uint32_t>(syscall(SYS_gettid));
  mine_.store(id | FUTEX_WAITERS);
}

void Lifeline::watch() {
  worker::FutexWord& other = *guarded_.load(std::memory_order_acquire);
  while (stop_.load() == 0) {
    std::uint32_t const seen = other.load(std::memory_order_acquire);
    if ((seen & FUTEX_OWNER_DIED) != 0) {
      on_death_();
      return;
    }
    if (seen == 0) {
      return;  // its owner has left
    }
    worker::futex_wait(other, seen, kWakeUp);
  }
}

void Lifeline::live() {
  own();
  owned_.store(1);
  owned_.notify_one();
  while (stop_.load() == 0 && guarded_.load() == nullptr) {
    worker::futex_wait(stop_, 0, kWakeUp);
  }
  if (stop_.load() == 0) {
    watch();
  }
  while (stop_.load() == 0) {
    worker::futex_wait(stop_, 0, kWakeUp);
  }
  head_.list.next = &head_.list;
  mine_.store(0);
  ended_.store(1);
  worker::futex_wake_all(ended_);
}

}  // namespace cxxrun::host
