#include "rendezvous/net/channel.hpp"

#include <array>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>

#include "src/base/os/local_address.hpp"

namespace cxxrun::rendezvous {
namespace {

constexpr std::size_t kMaxQueue = 8U << 20U;

/// After a cut the next retransmission is at most this far away: a heartbeat timeout is of seconds, and the kernel's
/// own pauses double up to two minutes. Linux 6.15; older ones do as they do.
constexpr int kLongestPauseMs = 1000;
#ifndef TCP_RTO_MAX_MS
#define TCP_RTO_MAX_MS 44
#endif

/// The other end said FIN; when a reset follows, the kernel says EPIPE.
bool is_fin(boost::system::error_code const& error) {
  return error == boost::asio::error::eof || error == boost::asio::error::broken_pipe;
}

std::string describe(boost::system::error_code const& error) {
  if (is_fin(error)) {
    return "end of file";
  }
  if (error == boost::asio::error::connection_reset) {
    return "connection reset";
  }
  return error.message();
}

/// "" of a socket that is closed.
std::string address_of(boost::asio::ip::tcp::endpoint const& end) {
  auto const address = end.address();
  if (end.port() == 0) {
    return "";
  }
  if (address.is_v6() && address.to_v6().is_v4_mapped()) {
    return boost::asio::ip::make_address_v4(boost::asio::ip::v4_mapped, address.to_v6()).to_string();
  }
  return address.to_string();
}

/// The same on both sides: without the number of an interface, and IPv4 within IPv6 as IPv4. "" of a socket that is
/// closed.
std::string end_of(boost::asio::ip::tcp::endpoint const& end) {
  return end.port() == 0 ? "" : end_text(os::tcp_end_of(end.data()));
}

}  // namespace

Channel::Channel(Socket socket) : socket_(std::move(socket)) {
  boost::system::error_code ignored;
  socket_.set_option(boost::asio::ip::tcp::no_delay(true), ignored);
  socket_.non_blocking(true, ignored);
  (void)setsockopt(socket_.native_handle(), IPPROTO_TCP, TCP_RTO_MAX_MS, &kLongestPauseMs, sizeof(kLongestPauseMs));
  fcntl(socket_.native_handle(), F_SETFD, FD_CLOEXEC);  // Asio leaves it to us; workers get nothing of ours
}

void Channel::start(Handlers handlers, End end, std::shared_ptr<KeyRing> keys) {
  handlers_ = std::move(handlers);
  keys_ = std::move(keys);
  side_ = end;
  if (keys_) {
    guard_ = end == End::caller ? keys_->calls() : keys_->called();
  }
  if (end == End::called) {
    read_some({});  // most have spoken before they were accepted
    return;
  }
  if (guard_) {
    send_frame(guard_->call());
  }
  read();
}

void Channel::read() {
  socket_.async_wait(Socket::wait_read, [self = shared_from_this()](boost::system::error_code const& error) {
    if (self->open_) {
      self->read_some(error);
    }
  });
}

/// One buffer for all connections of the thread: they are many, and mostly silent.
void Channel::read_some(boost::system::error_code error) {
  auto const self = shared_from_this();  // the handlers may let us go
  thread_local std::array<char, 16384> chunk;
  std::size_t const bytes = error ? 0 : socket_.read_some(boost::asio::buffer(chunk), error);
  if (error == boost::asio::error::would_block || error == boost::asio::error::interrupted) {
    read();
  } else if (error) {
    boost::system::error_code const& first = broken_ ? broken_ : error;
    bool const fin = is_fin(first);
    fail(describe(first) + (fin && reader_.midway() ? " in the middle of a frame" : ""),
         fin ? Ended::in_order : Ended::broken);
  } else {
    reader_.feed(std::string_view(chunk.data(), bytes));
    take_frames();
  }
}

void Channel::take_frames() {
  while (open_ && !finding_) {
    auto next = reader_.next();
    if (!next) {
      fail("protocol error: " + next.error().message());
    } else if (next->has_value()) {
      heard(**next);
    } else {
      read();
      return;
    }
  }
}

void Channel::heard(std::string const& frame) {
  if (!guard_) {
    pass_on(frame);
    return;
  }
  auto led_to = guard_->hear(frame);
  if (auto* const unsealed = std::get_if<Unsealed>(&led_to)) {
    pass_on(std::move(unsealed->payload));
  } else if (auto const* const back = std::get_if<SendBack>(&led_to)) {
    tell_called();
    send_frame(back->frame);
  } else if (auto const* const asks = std::get_if<WantsWraps>(&led_to)) {
    tell_called();
    wrap_key(asks->call);
  } else if (auto const* const wants = std::get_if<WantsKey>(&led_to)) {
    find_key(wants->offer);
  } else if (auto const* const broken = std::get_if<Broken>(&led_to)) {
    fail(broken->why);
  } else {
    for (auto& payload : std::get<Note>(led_to).payloads) {
      if (open_) {
        pass_on(std::move(payload));
      }
    }
  }
}

void Channel::tell_called() {
  if (handlers_.called) {
    handlers_.called();
  }
}

void Channel::wrap_key(CallId const& call) {
  finding_ = true;
  keys_->wrap_for(call, weak_from_this(), [weak = weak_from_this()](std::vector<Wrap> wraps) {
    auto const self = weak.lock();
    if (self && self->open_) {
      self->finding_ = false;
      self->send_frame(self->guard_->answer(std::move(wraps)));
      self->take_frames();
    }
  });
}

void Channel::find_key(KeyOffer const& answer) {
  if (auto const key = keys_->known(answer.key)) {
    seal_with(*key);
    return;
  }
  finding_ = true;
  keys_->unwrap(answer, id_of_call(guard_->call()), [self = shared_from_this()](Result<Key> const& key) {
    self->finding_ = false;
    if (!self->open_) {
      return;
    }
    if (key) {
      self->seal_with(*key);
      self->take_frames();
    } else {
      self->fail(key.error().message());
    }
  });
}

void Channel::seal_with(Key const& key) {
  key_ = key;
  guard_->give(key);
  for (auto const& payload : std::exchange(held_, {})) {
    send_frame(guard_->say(payload));
  }
}

void Channel::pass_on(std::string payload) {
  if (payload.empty()) {
    bidden_ = true;
    return;
  }
  spoken_to_ = true;
  auto const handler = handlers_.frame;  // a copy: the handler may replace or close us
  handler(std::move(payload));
}

void Channel::send(std::string const& payload) {
  if (!open_ || closing_) {
    return;
  }
  if (guard_ && !guard_->sealed()) {
    held_.push_back(payload);
  } else {
    send_frame(guard_ ? guard_->say(payload) : payload);
  }
}

/// The connection has ended. What the other end said before is still to be read, and then the end.
bool Channel::broken_by(boost::system::error_code const& error) {
  if (error != boost::asio::error::connection_reset && error != boost::asio::error::broken_pipe) {
    return false;
  }
  broken_ = broken_ ? broken_ : error;
  queue_.clear();
  queued_bytes_ = 0;
  return true;
}

void Channel::send_frame(std::string const& frame) {
  if (broken_) {
    return;
  }
  std::string bytes = wire::frame(frame);
  if (queue_.empty() && !writing_) {
    boost::system::error_code error;
    std::size_t const done = socket_.write_some(boost::asio::buffer(bytes), error);
    if (!error && done == bytes.size()) {
      return;  // the usual case: the kernel took it all
    }
    if (broken_by(error)) {
      return;
    }
    bytes.erase(0, error ? 0 : done);
  }
  queued_bytes_ += bytes.size();
  queue_.push_back(std::move(bytes));
  if (queued_bytes_ > kMaxQueue) {
    boost::asio::post(socket_.get_executor(), [self = shared_from_this()] { self->fail("it does not read"); });
    return;
  }
  write();
}

void Channel::write() {
  if (writing_ || queue_.empty()) {
    return;
  }
  writing_ = true;
  boost::asio::async_write(socket_, boost::asio::buffer(queue_.front()),
                           [self = shared_from_this()](boost::system::error_code const& error, std::size_t) {
                             self->writing_ = false;
                             if (!self->open_) {
                               return;
                             }
                             if (self->broken_by(error)) {
                               if (self->closing_) {
                                 self->close();
                               }
                               return;
                             }
                             if (error) {
                               self->fail(describe(error));
                               return;
                             }
                             self->queued_bytes_ -= self->queue_.front().size();
                             self->queue_.pop_front();
                             if (self->queue_.empty() && self->closing_) {
                               self->close();
                             } else {
                               self->write();
                             }
                           });
}

void Channel::fail(std::string how, Ended ended) {
  if (!open_) {
    return;
  }
  bool const silent = closing_;
  auto const closed = handlers_.closed;
  end();
  if (!silent && closed) {
    bidden_ ? closed("it hung up", Ended::goodbye) : closed(std::move(how), ended);
  }
}

/// An empty payload: no message is. So that an end that was wanted can be told from a cut, and from a death. Strangers
/// are not told anything.
void Channel::say_goodbye() {
  if (open_ && !closing_ && (guard_ ? guard_->proven() : spoken_to_)) {
    send_frame(guard_ ? guard_->say("") : "");
  }
}

void Channel::close() {
  if (queue_.empty()) {
    say_goodbye();
  }
  end();
}

void Channel::end() {
  if (!open_) {
    return;
  }
  open_ = false;
  boost::system::error_code ignored;
  socket_.shutdown(Socket::shutdown_both, ignored);
  socket_.close(ignored);
  // The handlers may hold the last reference to whoever is calling: drop them from the event loop.
  boost::asio::post(socket_.get_executor(), [self = shared_from_this()] { self->handlers_ = {}; });
}

void Channel::close_after_flush() {
  say_goodbye();
  closing_ = true;
  if (queue_.empty()) {
    close();
  }
}

std::string Channel::local_address() const {
  boost::system::error_code error;
  return address_of(socket_.local_endpoint(error));
}

std::string Channel::remote_address() const {
  boost::system::error_code error;
  return address_of(socket_.remote_endpoint(error));
}

BothEnds Channel::ends() const {
  boost::system::error_code error;
  std::string own = end_of(socket_.local_endpoint(error));
  std::string other = end_of(socket_.remote_endpoint(error));
  return side_ == End::caller ? BothEnds{std::move(own), std::move(other)} : BothEnds{std::move(other), std::move(own)};
}

}  // namespace cxxrun::rendezvous
