#include "rendezvous/net/beat_line.hpp"

#include <algorithm>
#include <deque>
#include <utility>

#include <boost/asio/io_context.hpp>

#include "rendezvous/net/channel.hpp"
#include "src/core/time.hpp"
#include "src/os/log.hpp"

namespace cxxrun::rendezvous {
namespace {

using boost::asio::ip::tcp;
using ErrorCode = boost::system::error_code;

constexpr std::size_t kUnanswered = 1;  ///< so many, and the next beat goes on a fresh connection too
constexpr Millis kFresh{500};           ///< a connection that stands for less proves that the way is free: wait for it
constexpr std::size_t kProbes = 8;      ///< connections under way at once; beyond, the oldest is given up

/// One connection: being dialled, greeted, or answering.
struct Line {
  explicit Line(boost::asio::io_context& io) : socket(io) {}
  tcp::socket socket;
  std::shared_ptr<Channel> channel;  ///< once connected
  bool greeted = false;              ///< the coordinator has answered our hello
  TimePoint connected;
};

}  // namespace

struct BeatLine::Impl : std::enable_shared_from_this<BeatLine::Impl> {
  Impl(boost::asio::io_context& context, tcp::endpoint where, Hello words, std::function<void(BeatAck)> on_answer)
      : io(context), to(std::move(where)), hello(std::move(words)), answered(std::move(on_answer)) {}

  boost::asio::io_context& io;
  tcp::endpoint to;
  Hello hello;
  std::function<void(BeatAck)> answered;
  std::deque<std::shared_ptr<Line>> lines;  // oldest first; more than one only while beats stay unanswered
  Beat newest;
  std::size_t unanswered = 0;
  bool over = false;

  void send(Beat const& beat) {
    newest = beat;
    for (auto const& line : lines) {
      if (line->channel) {
        line->channel->send(encode(beat));
      }
    }
    if (lines.empty() || (++unanswered > kUnanswered && !waits())) {
      dial();
    }
  }

  // A coordinator that is within reach, but busy, is not called more often for it.
  [[nodiscard]] bool waits() const {
    auto const& last = lines.back();
    return last->channel && Clock::now() < last->connected + kFresh;
  }

  void dial() {
    if (lines.size() >= kProbes) {
      drop(lines.front());
    }
    auto const line = lines.emplace_back(std::make_shared<Line>(io));
    line->socket.async_connect(to, [weak = weak_from_this(), line](ErrorCode const& error) {
      auto const self = weak.lock();
      if (!self || self->over || !self->has(line)) {
        return;
      }
      if (error) {
        self->drop(line);  // the next beat dials again
      } else {
        self->greet(line);
      }
    });
  }

  void greet(std::shared_ptr<Line> const& line) {
    line->channel = std::make_shared<Channel>(std::move(line->socket));
    line->connected = Clock::now();
    Channel::Handlers on;
    on.frame = [weak = weak_from_this(), weak_line = std::weak_ptr(line)](std::string const& payload) {
      auto const self = weak.lock();
      if (auto const known = weak_line.lock(); known && self && !self->over) {
        self->received(known, payload);
      }
    };
    on.closed = [weak = weak_from_this(), weak_line = std::weak_ptr(line)](std::string const&, bool) {
      auto const self = weak.lock();
      if (auto const known = weak_line.lock(); known && self && !self->over) {
        self->drop(known);
      }
    };
    line->channel->start(std::move(on));
    line->channel->send(encode(hello));
    line->channel->send(encode(newest));
  }

  void received(std::shared_ptr<Line> const& line, std::string const& payload) {
    if (!std::exchange(line->greeted, true)) {
      auto const reply = decode_hello_reply(payload);
      if (!reply || reply->why != HelloReply::Why::accepted) {
        drop(line);  // the first connection tells what is wrong
      }
      return;
    }
    auto const ack = decode_beat_ack(payload);
    if (!ack) {
      log(Level::error, "answer to a beat not understood: " + ack.error().message());
      drop(line);
      return;
    }
    unanswered = 0;
    auto const others = lines;
    for (auto const& other : others) {
      if (other != line) {
        drop(other);
      }
    }
    answered(*ack);
  }

  [[nodiscard]] bool has(std::shared_ptr<Line> const& line) const {
    return std::find(lines.begin(), lines.end(), line) != lines.end();
  }

  // NOLINTNEXTLINE(performance-unnecessary-value-param): a reference may be to the element that is erased
  void drop(std::shared_ptr<Line> line) {
    lines.erase(std::remove(lines.begin(), lines.end(), line), lines.end());
    if (line->channel) {
      line->channel->close();
    } else {
      ErrorCode ignored;
      line->socket.close(ignored);
    }
  }

  void end() {
    over = true;
    while (!lines.empty()) {
      drop(lines.front());
    }
  }
};

BeatLine::BeatLine(boost::asio::io_context& io, tcp::endpoint to, Hello hello, std::function<void(BeatAck)> answered)
    : impl_(std::make_shared<Impl>(io, std::move(to), std::move(hello), std::move(answered))) {}

BeatLine::~BeatLine() {
  impl_->end();
}

void BeatLine::send(Beat const& beat) {
  impl_->send(beat);
}

}  // namespace cxxrun::rendezvous
