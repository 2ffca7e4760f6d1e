#include "rendezvous/net/fence_claims.hpp"

#include <cerrno>
#include <mutex>
#include <optional>
#include <sys/eventfd.h>
#include <system_error>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "src/core/time.hpp"
#include "src/os/bounded_thread.hpp"
#include "src/os/fd.hpp"
#include "src/os/timer.hpp"

namespace cxxrun::rendezvous {
namespace {

using ErrorCode = boost::system::error_code;
using boost::asio::posix::stream_descriptor;

constexpr std::chrono::seconds kLongest(10);
constexpr Millis kFarewell{2000};

/// What the thread and the loop share; the thread may outlive the loop.
struct Answer {
  std::mutex mutex;
  std::optional<Fenced> fenced;
  os::UniqueFd ready{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
};

struct Claim {
  explicit Claim(boost::asio::io_context& io) : ready(io), deadline(io) {}
  std::shared_ptr<Answer> answer = std::make_shared<Answer>();
  stream_descriptor ready;
  os::Timer deadline;
  std::unique_ptr<os::BoundedThread> thread;
  std::function<void(Fenced)> done;
};

}  // namespace

struct FenceClaims::Impl {
  explicit Impl(boost::asio::io_context& context) : io(context) {}
  boost::asio::io_context& io;
  std::unique_ptr<os::BoundedThread> removing;
  bool over = false;
};

FenceClaims::FenceClaims(boost::asio::io_context& io) : impl_(std::make_shared<Impl>(io)) {}

FenceClaims::~FenceClaims() {
  impl_->over = true;
  if (impl_->removing) {
    impl_->removing->join_until(Clock::now() + kFarewell);
  }
}

void FenceClaims::claim(FencePlace const& place, AcceptedDecree const& value, std::function<void(Fenced)> done) {
  auto const claim = std::make_shared<Claim>(impl_->io);
  claim->done = std::move(done);
  auto const finish = [weak = std::weak_ptr(impl_), claim](Fenced fenced) {
    auto const self = weak.lock();
    if (auto const tell = std::exchange(claim->done, {}); tell && self && !self->over) {
      tell(std::move(fenced));
    }
    claim->deadline.cancel();
    claim->ready.close();
  };
  Fenced const late{value.decree.after, std::nullopt,
                    "--fence " + place.dir + ": the file system does not answer; give one that does"};
  ErrorCode error;
  claim->ready.assign(::dup(claim->answer->ready.get()), error);
  claim->ready.async_wait(stream_descriptor::wait_read, [claim, finish](ErrorCode const& failed) {
    if (failed) {
      return;
    }
    std::unique_lock lock(claim->answer->mutex);
    Fenced fenced = std::move(claim->answer->fenced).value_or(Fenced{});
    lock.unlock();
    finish(std::move(fenced));
  });
  claim->deadline.after(kLongest, [finish, late] { finish(late); });
  try {
    claim->thread = std::make_unique<os::BoundedThread>("cxxrun-fence", [answer = claim->answer, place, value] {
      Fenced fenced = claim_fence(place, value);
      std::lock_guard const lock(answer->mutex);
      answer->fenced = std::move(fenced);
      ::eventfd_write(answer->ready.get(), 1);
    });
  } catch (std::system_error const&) {
    claim->deadline.after(Millis{0}, [finish, late] { finish(late); });  // without a thread: as if it did not answer
  }
}

void FenceClaims::remove(FencePlace const& place) {
  try {
    impl_->removing = std::make_unique<os::BoundedThread>("cxxrun-fence", [place] { remove_fences(place); });
  } catch (std::system_error const&) {
    impl_->removing.reset();  // they stay: of no use to anybody, and in nobody's way
  }
}

}  // namespace cxxrun::rendezvous
