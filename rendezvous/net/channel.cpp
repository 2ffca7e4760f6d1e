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
#include "src/base/os/tcp_sockets.hpp"

namespace cxxrun::rendezvous {
namespace {

constexpr std::size_t kMaxQueue = 8U << 20U;

/// The longest pause between TCP retransmissions. The kernel's own pauses double up to two minutes, and heartbeat
/// timeouts are a few seconds. Needs Linux 6.15; older kernels ignore it.
constexpr int kLongestPauseMs = 1000;
#ifndef TCP_RTO_MAX_MS
#define TCP_RTO_MAX_MS 44
#endif

/// Whether the other end sent a FIN. After a FIN and a reset the kernel reports EPIPE.
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

/// "" for a closed socket.
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

/// The same text on both sides: without an interface index, an IPv4-mapped address as IPv4. "" for a closed socket.
std::string end_of(boost::asio::ip::tcp::endpoint const& end) {
  return end.port() == 0 ? "" : end_text(os::tcp_end_of(end.data()));
}

}  // namespace

Channel::Channel(Socket socket) : socket_(std::move(socket)) {
  boost::system::error_code ignored;
  socket_.set_option(boost::asio::ip::tcp::no_delay(true), ignored);
  socket_.non_blocking(true, ignored);
  (void)setsockopt(socket_.native_handle(), IPPROTO_TCP, TCP_RTO_MAX_MS, &kLongestPauseMs, sizeof(kLongestPauseMs));
  fcntl(socket_.native_handle(), F_SETFD, FD_CLOEXEC);  // Asio does not set it; workers must not inherit the socket
}

void Channel::start(std::weak_ptr<ChannelInbox> inbox, End end, std::shared_ptr<KeyRing> keys) {
  inbox_ = std::move(inbox);
  keys_ = std::move(keys);
  side_ = end;
  if (keys_) {
    secure_ = end == End::caller ? keys_->calls() : keys_->called();
  }
  if (end == End::called) {
    read_some({});  // most callers have sent something before they are accepted
    return;
  }
  if (secure_) {
    send_frame(secure_->call());
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

/// All connections of the thread share one buffer: they are many, and mostly idle.
void Channel::read_some(boost::system::error_code error) {
  auto const self = shared_from_this();  // the inbox may drop the last reference
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
      on_frame(**next);
    } else {
      read();
      return;
    }
  }
}

void Channel::on_frame(std::string const& frame) {
  if (!secure_) {
    deliver(frame);
    return;
  }
  auto const on_call = [this] {
    if (auto const inbox = inbox_.lock()) {
      inbox->on_called();
    }
  };
  auto result = secure_->on_frame(frame);
  if (auto* const unsealed = std::get_if<Unsealed>(&result)) {
    deliver(std::move(unsealed->payload));
  } else if (auto const* const back = std::get_if<SendBack>(&result)) {
    on_call();
    send_frame(back->frame);
  } else if (auto const* const asks = std::get_if<WantsWraps>(&result)) {
    on_call();
    wrap_key(asks->call);
  } else if (auto const* const wants = std::get_if<WantsKey>(&result)) {
    find_key(wants->offer);
  } else if (auto const* const broken = std::get_if<Broken>(&result)) {
    fail(broken->why);
  } else {
    for (auto& payload : std::get<DeathNotice>(result).payloads) {
      if (open_) {
        deliver(std::move(payload));
      }
    }
  }
}

void Channel::wrap_key(CallId const& call) {
  finding_ = true;
  keys_->wrap_for(call, weak_from_this(), [weak = weak_from_this()](std::vector<Wrap> wraps) {
    auto const self = weak.lock();
    if (self && self->open_) {
      self->finding_ = false;
      self->send_frame(self->secure_->answer(std::move(wraps)));
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
  keys_->unwrap(answer, id_of_call(secure_->call()), [self = shared_from_this()](Result<Key> const& key) {
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
  secure_->use_key(key);
  for (auto const& payload : std::exchange(held_, {})) {
    send_frame(secure_->seal(payload));
  }
}

void Channel::deliver(std::string payload) {
  if (payload.empty()) {
    goodbye_ = true;
    return;
  }
  received_ = true;
  if (auto const inbox = inbox_.lock()) {
    inbox->on_frame(std::move(payload));
  }
}

void Channel::send(std::string const& payload) {
  if (!open_ || closing_) {
    return;
  }
  if (secure_ && !secure_->sealed()) {
    held_.push_back(payload);
  } else {
    send_frame(secure_ ? secure_->seal(payload) : payload);
  }
}

/// Whether a write found the connection ended. What the other end sent before that is still read, and then the end.
bool Channel::note_end(boost::system::error_code const& error) {
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
    if (note_end(error)) {
      return;
    }
    bytes.erase(0, error ? 0 : done);
  }
  queued_bytes_ += bytes.size();
  queue_.push_back(std::move(bytes));
  if (queued_bytes_ > kMaxQueue) {  // posted: the inbox is never called inside send()
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
                             if (self->note_end(error)) {
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
  end();
  if (auto const inbox = inbox_.lock(); inbox && !silent) {
    goodbye_ ? inbox->on_closed("it hung up", Ended::goodbye) : inbox->on_closed(std::move(how), ended);
  }
}

/// Sends an empty payload, which no message is, so that the other end can tell an intended end from a cut or a death.
/// An end that has proven nothing gets none.
void Channel::say_goodbye() {
  if (open_ && !closing_ && (secure_ ? secure_->proven() : received_)) {
    send_frame(secure_ ? secure_->seal("") : "");
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

void Dialled::connect(boost::asio::ip::tcp::endpoint const& to,
                      std::function<void(boost::system::error_code const&)> const& handler) {
  socket.async_connect(to, [self = shared_from_this(), to, handler](boost::system::error_code const& error) {
    auto& tried = self->socket;
    if (lacks_port(error) && tried.is_open()) {
      boost::system::error_code failed;
      tried.close(failed);
      tried.open(to.protocol(), failed);
      boost::asio::ip::tcp::endpoint any(to.protocol(), 0);
      if (!failed &&
          os::bind_to_spare_port(tried.native_handle(), any.data(), static_cast<socklen_t>(any.size())) == 0) {
        tried.async_connect(to, [self, handler](boost::system::error_code const& last) { handler(last); });
        return;
      }
    }
    handler(error);
  });
}

void Dialled::greet(Hello hello, std::shared_ptr<KeyRing> keys) {
  channel = std::make_shared<Channel>(std::move(socket));
  channel->start(weak_from_this(), Channel::End::caller, std::move(keys));
  hello.ends = channel->ends();
  channel->send(encode(hello));
}

void Dialled::close() {
  if (channel) {
    channel->close();
  } else {
    boost::system::error_code ignored;
    socket.close(ignored);
  }
}

}  // namespace cxxrun::rendezvous
