#include "src/runtime/client/group_registry.hpp"

#include <exception>
#include <utility>

namespace cxxrun::client {

/// Runs the calls of another backend, one at a time, and reports their failures to the registry.
class GroupRegistry::Member final : public host::Backend {
 public:
  Member(std::shared_ptr<GroupRegistry> registry, std::unique_ptr<host::Backend> backend, std::string here)
      : registry_(std::move(registry)), inner_(std::move(backend)), here_(std::move(here)) {
    std::lock_guard const lock(registry_->mutex_);
    registry_->members_.push_back(this);
  }
  Member(Member const&) = delete;
  Member& operator=(Member const&) = delete;
  Member(Member&&) = delete;
  Member& operator=(Member&&) = delete;
  ~Member() override {
    std::lock_guard const lock(registry_->mutex_);
    std::erase(registry_->members_, this);
  }

  void run(comm::Call const& call) override {
    guarded([&] { inner_->run(call); });
  }
  void run_within(comm::Call const& call, std::chrono::milliseconds time) override {
    guarded([&] { inner_->run_within(call, time); });
  }
  std::byte* allocate(std::size_t bytes) override {
    std::byte* memory = nullptr;
    guarded([&] { memory = inner_->allocate(bytes); });
    return memory;
  }
  [[nodiscard]] std::string describe() const override { return inner_->describe(); }
  void leave() noexcept override {
    std::lock_guard const lock(mutex_);
    left_ = true;
    inner_->leave();
  }
  void abort(host::FailureFacts const& facts) noexcept override { inner_->abort(facts); }
  void give_up_early(std::function<void()> answer) noexcept override { inner_->give_up_early(std::move(answer)); }
  [[nodiscard]] host::Trouble trouble() noexcept override {
    std::unique_lock const lock(mutex_, std::try_to_lock);
    return lock ? inner_->trouble() : host::Trouble::none;  // a call in progress notices by itself
  }

  /// Another member has failed. A call in progress sees it within a millisecond. The next call is not carried out, but
  /// tells the other nodes.
  void end(host::FailureFacts const& facts) noexcept {
    if (left_.load()) {
      return;  // this rank makes no more calls, and its peers know
    }
    inner_->abort(facts);
    std::lock_guard const lock(mutex_);
    if (std::exchange(failed_, true) || left_.load()) {
      return;
    }
    try {
      inner_->run({.kind = comm::Kind::barrier});
    } catch (...) {  // NOLINT(bugprone-empty-catch): the call is meant to fail
    }
  }

 private:
  template <class Body>
  void guarded(Body const& body) {
    std::unique_lock lock(mutex_);
    try {
      body();
    } catch (...) {
      bool const again = std::exchange(failed_, true);
      lock.unlock();
      if (!again) {
        registry_->end_others(this, std::current_exception(), here_);
      }
      registry_->raise_first();
    }
  }

  std::shared_ptr<GroupRegistry> registry_;
  std::mutex mutex_;  // serializes calls
  std::unique_ptr<host::Backend> inner_;
  std::string here_;
  bool failed_ = false;
  std::atomic<bool> left_{false};
};

std::unique_ptr<host::Backend> GroupRegistry::member(std::unique_ptr<host::Backend> backend, std::string here) {
  return std::make_unique<Member>(shared_from_this(), std::move(backend), std::move(here));
}

void GroupRegistry::end_others(Member const* except, std::exception_ptr const& why, std::string const& here) noexcept {
  auto const facts = host::facts_of(why, here);
  keep(why);
  std::lock_guard const lock(mutex_);
  for (Member* const each : members_) {
    if (each != except) {
      each->end(facts);
    }
  }
}

void GroupRegistry::keep(std::exception_ptr const& why) noexcept {
  std::lock_guard const lock(mutex_);
  if (!first_) {
    first_.emplace(why);
  }
}

void GroupRegistry::raise_first() const {
  std::unique_lock lock(mutex_);
  KeptFailure const first = *first_;
  lock.unlock();
  first.raise();
}

std::string GroupRegistry::why() const {
  std::lock_guard const lock(mutex_);
  return first_ ? first_->sentence() : "";
}

bool GroupRegistry::blames(int rank) const {
  std::lock_guard const lock(mutex_);
  return first_ && first_->blames(rank);
}

void GroupRegistry::adopt(std::weak_ptr<Engine> group) {
  std::lock_guard const lock(mutex_);
  std::erase_if(groups_, [](auto const& each) { return each.expired(); });
  groups_.push_back(std::move(group));
}

void GroupRegistry::give_up() noexcept {
  given_up_.store(true, std::memory_order_release);
  std::vector<std::weak_ptr<Engine>> groups;
  {
    std::lock_guard const lock(mutex_);
    groups.swap(groups_);
  }
  for (auto const& each : groups) {
    if (auto const engine = each.lock()) {
      engine->abort(host::stopped_by_launcher());
      engine->close();
    }
  }
}

}  // namespace cxxrun::client
