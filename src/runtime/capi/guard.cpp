#include "src/runtime/capi/guard.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <new>
#include <string_view>
#include <unistd.h>
#include <utility>

#include "cxxrun/failure.hpp"

namespace cxxrun::capi {

// ---- handles

namespace {

template <class Handle>
Handle* handle_of(std::uintptr_t number) {
  return reinterpret_cast<Handle*>(number);  // NOLINT(performance-no-int-to-ptr): never dereferenced
}

}  // namespace

Tables& Tables::own() {
  static std::atomic<Tables*> current{nullptr};
  Tables* seen = current.load(std::memory_order_acquire);
  while (seen == nullptr || seen->pid_ != getpid()) {
    std::unique_ptr<Tables> fresh(new Tables(getpid()));
    if (current.compare_exchange_strong(seen, fresh.get())) {  // the parent's tables and their locks stay as they are
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

// ---- failures

namespace {

/// Plain memory: using it never throws, and the end of a thread runs no destructor.
struct Last {
  cxxrun_failure facts;
  std::array<char, 4096> text;
};

Last& last() {
  static thread_local Last kept{};
  return kept;
}

template <std::size_t N>
void copy(char (&out)[N], std::string_view text) {  // NOLINT(cppcoreguidelines-avoid-c-arrays): of C's struct
  std::size_t const length = text.copy(out, N - 1);
  out[length] = '\0';
}

std::int32_t keep(cxxrun_failure const& facts, std::string_view text) {
  last().facts = facts;
  std::size_t const length = text.copy(last().text.data(), last().text.size() - 1);
  last().text.at(length) = '\0';
  std::replace(last().text.begin(), last().text.begin() + static_cast<std::ptrdiff_t>(length), '\n', ' ');
  return facts.status;
}

std::int32_t keep(PeerFailure const& failure) {
  cxxrun_failure facts{};
  facts.status = CXXRUN_PEER_FAILURE;
  facts.why = static_cast<std::int32_t>(failure.why());
  facts.rank = failure.rank();
  facts.generation = failure.generation();
  facts.after_us = failure.after().count();
  copy(facts.host, failure.host());
  return keep(facts, failure.what());
}

std::int32_t keep(std::int32_t status, std::string_view text, int os_errno = 0) {
  cxxrun_failure facts{};
  facts.status = status;
  facts.os_errno = os_errno;
  return keep(facts, text);
}

}  // namespace

static_assert(CXXRUN_USAGE + static_cast<int>(Errc::io) == CXXRUN_IO);
static_assert(CXXRUN_USAGE + static_cast<int>(Errc::timeout) == CXXRUN_TIMEOUT);
static_assert(static_cast<int>(PeerFailure::Why::stopped) == CXXRUN_STOPPED);

std::int32_t note_failure() noexcept {
  try {
    throw;
  } catch (PeerFailure const& failure) {
    return keep(failure);
  } catch (Failure const& failure) {
    return keep(CXXRUN_USAGE + static_cast<std::int32_t>(failure.error().code), failure.what(),
                failure.error().os_errno);
  } catch (std::bad_alloc const&) {
    return keep(CXXRUN_NO_MEMORY, "libcxxrun_c: there is no memory left");
  } catch (std::exception const& failure) {
    return keep(CXXRUN_UNEXPECTED, failure.what());
  } catch (...) {
    return keep(CXXRUN_UNEXPECTED, "libcxxrun_c: an exception of an unknown type");
  }
}

void refuse(char const* function, std::string const& why) {
  throw Failure(fail(Errc::usage, std::string(function) + ": " + why));
}

void refuse_handle(char const* function, char const* name) {
  refuse(function, std::string(name) + " is not a handle of this process, or was released");
}

void require(void const* pointer, char const* function, char const* name) {
  if (pointer == nullptr) {
    refuse(function, std::string(name) + " is NULL");
  }
}

void require_in(std::int32_t value, std::int32_t last, char const* function, char const* name) {
  if (value < 0 || value > last) {
    refuse(function, std::string(name) + " is " + std::to_string(value) + ", not 0 to " + std::to_string(last));
  }
}

void give(void* out, std::size_t size, void const* facts, std::size_t known) noexcept {
  std::memset(out, 0, size);
  std::memcpy(out, facts, std::min(size, known));
}

}  // namespace cxxrun::capi

using cxxrun::capi::last;

char const* cxxrun_error() {
  return last().text.data();
}

std::int32_t cxxrun_last_failure(cxxrun_failure* failure, std::size_t size) {
  cxxrun_failure const facts = last().facts;
  return cxxrun::capi::guarded([&] {
    cxxrun::capi::require(failure, "cxxrun_last_failure", "failure");
    cxxrun::capi::give(failure, size, &facts, sizeof facts);
    return CXXRUN_OK;
  });
}
