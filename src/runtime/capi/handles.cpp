#include "src/runtime/capi/handles.hpp"

#include <atomic>
#include <unistd.h>
#include <utility>

namespace cxxrun::capi {
namespace {

template <class Handle>
Handle* handle_of(std::uintptr_t number) {
  return reinterpret_cast<Handle*>(number);  // NOLINT(performance-no-int-to-ptr): never dereferenced
}

template <class Table, class Handle>
auto find_in(Table const& table, Handle const* handle) {
  auto const found = table.find(reinterpret_cast<std::uintptr_t>(handle));
  return found == table.end() ? nullptr : found->second;
}

template <class Table, class Handle>
auto take_from(Table& table, Handle const* handle) {
  auto taken = find_in(table, handle);
  table.erase(reinterpret_cast<std::uintptr_t>(handle));
  return taken;
}

}  // namespace

Tables& Tables::own() {
  static std::atomic<Tables*> current{nullptr};
  Tables* seen = current.load(std::memory_order_acquire);
  while (seen == nullptr || seen->pid_ != getpid()) {
    std::unique_ptr<Tables> fresh(new Tables(getpid()));
    if (current.compare_exchange_strong(seen, fresh.get())) {  // the parent's stay as they are, also their locks
      return *fresh.release();
    }
  }
  return *seen;
}

cxxrun_comm* Tables::add(Communicator comm) {
  auto entry = std::make_shared<Comm>();
  entry->comm.emplace(std::move(comm));
  std::lock_guard const lock(mutex_);
  comms_.emplace(++last_, std::move(entry));
  return handle_of<cxxrun_comm>(last_);
}
cxxrun_work* Tables::add(Work work) {
  auto entry = std::make_shared<Work>(std::move(work));
  std::lock_guard const lock(mutex_);
  works_.emplace(++last_, std::move(entry));
  return handle_of<cxxrun_work>(last_);
}

std::shared_ptr<Comm> Tables::find(cxxrun_comm const* handle) {
  std::lock_guard const lock(mutex_);
  return find_in(comms_, handle);
}
std::shared_ptr<Work> Tables::find(cxxrun_work const* handle) {
  std::lock_guard const lock(mutex_);
  return find_in(works_, handle);
}
std::shared_ptr<Comm> Tables::take(cxxrun_comm const* handle) {
  std::lock_guard const lock(mutex_);
  return take_from(comms_, handle);
}
std::shared_ptr<Work> Tables::take(cxxrun_work const* handle) {
  std::lock_guard const lock(mutex_);
  return take_from(works_, handle);
}

}  // namespace cxxrun::capi
