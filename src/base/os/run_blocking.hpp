// run_blocking: does on a thread what may block, for an event loop that must not block. Shell.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <sys/eventfd.h>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "src/base/os/fd.hpp"
#include "src/base/os/thread.hpp"
#include "src/base/os/timer.hpp"

namespace cxxrun::os {

/// Runs `work` on a thread called `name`, and then `done` on the loop with its result: never before this returns, once,
/// and not at all when the loop has ended. After `longest`, or when no thread can be made, `done` gets `late` instead.
/// The thread may outlive the loop, so `work` must own what it touches.
template <class Value>
void run_blocking(boost::asio::io_context& io, char const* name, Millis longest, std::function<Value()> work,
                  Value late, std::function<void(Value)> done) {
  using boost::asio::posix::stream_descriptor;
  struct Shared {
    std::mutex mutex;
    std::optional<Value> value;
    UniqueFd ready{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  };
  struct Waiting {
    explicit Waiting(boost::asio::io_context& context) : ready(context), deadline(context) {}
    stream_descriptor ready;
    Timer deadline;
    std::function<void(Value)> done;
    void finish(Value value) {
      deadline.cancel();
      ready.close();
      if (auto const tell = std::exchange(done, {})) {
        tell(std::move(value));
      }
    }
  };
  auto const shared = std::make_shared<Shared>();
  auto const waiting = std::make_shared<Waiting>(io);
  waiting->done = std::move(done);
  boost::system::error_code error;
  waiting->ready.assign(::dup(shared->ready.get()), error);
  waiting->ready.async_wait(stream_descriptor::wait_read, [shared, waiting](boost::system::error_code const& failed) {
    if (!failed) {
      std::unique_lock lock(shared->mutex);
      Value value = *std::move(shared->value);
      lock.unlock();
      waiting->finish(std::move(value));
    }
  });
  auto const give_up = [waiting, late = std::move(late)] { waiting->finish(late); };
  waiting->deadline.after(longest, give_up);
  auto const thread = BoundedThread::start(name, [shared, work = std::move(work)] {
    Value value = work();
    std::lock_guard const lock(shared->mutex);
    shared->value = std::move(value);
    ::eventfd_write(shared->ready.get(), 1);
  });
  if (!thread) {
    waiting->deadline.after(Millis{0}, give_up);
  }
}

}  // namespace cxxrun::os
