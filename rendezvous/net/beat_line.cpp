#include "rendezvous/net/beat_line.hpp"

#include <algorithm>
#include <utility>

#include "rendezvous/net/channel.hpp"
#include "src/base/core/time.hpp"
#include "src/base/os/log.hpp"

namespace cxxrun::rendezvous {
namespace {

constexpr std::size_t kUnanswered = 1;  ///< beats without an answer before new connections are dialled
constexpr Millis kFresh{500};           ///< a younger connection proves that the network works: wait for its answer
constexpr std::size_t kProbes = 8;      ///< connections at once; then a new one replaces the oldest

}  // namespace

/// One connection: being dialled, greeted, or answering.
struct BeatLine::Line final : Dialled {
  explicit Line(BeatLine& beats) : Dialled(beats.io_), owner(beats.weak_from_this()) {}
  void on_frame(std::string payload) override {
    if (auto const all = owner.lock()) {
      all->received(self(), payload);
    }
  }
  void on_closed(std::string /*how*/, Ended /*ended*/) override {
    if (auto const all = owner.lock()) {
      all->drop(self());
    }
  }
  [[nodiscard]] std::shared_ptr<Line> self() { return std::static_pointer_cast<Line>(shared_from_this()); }

  std::weak_ptr<BeatLine> owner;
  bool greeted = false;  ///< the coordinator has answered the hello
  TimePoint connected;
};

BeatLine::BeatLine(boost::asio::io_context& io, boost::asio::ip::tcp::endpoint to, Hello hello,
                   std::shared_ptr<KeyRing> keys, std::weak_ptr<BeatInbox> inbox)
    : io_(io), to_(std::move(to)), hello_(std::move(hello)), keys_(std::move(keys)), inbox_(std::move(inbox)) {}

BeatLine::~BeatLine() {
  while (!lines_.empty()) {
    drop(lines_.front());
  }
}

void BeatLine::send(Beat const& beat) {
  newest_ = beat;
  for (auto const& line : lines_) {
    if (line->channel) {
      line->channel->send(encode(beat));
    }
  }
  if (lines_.empty() || (++unanswered_ > kUnanswered && !waits_for_newest())) {
    dial();
  }
}

/// So that a busy coordinator that can be reached is not called more often.
bool BeatLine::waits_for_newest() const {
  auto const& last = lines_.back();
  return last->channel && Clock::now() < last->connected + kFresh;
}

void BeatLine::dial() {
  if (lines_.size() >= kProbes) {
    drop(lines_.front());
  }
  auto const line = lines_.emplace_back(std::make_shared<Line>(*this));
  line->connect(to_, [weak = weak_from_this(), line](boost::system::error_code const& error) {
    auto const self = weak.lock();
    if (!self || std::find(self->lines_.begin(), self->lines_.end(), line) == self->lines_.end()) {
      return;
    }
    if (error) {
      self->drop(line);  // the next beat dials again
    } else {
      line->connected = Clock::now();
      line->greet(self->hello_, self->keys_);
      line->channel->send(encode(self->newest_));
    }
  });
}

void BeatLine::received(std::shared_ptr<Line> const& line, std::string const& payload) {
  if (!std::exchange(line->greeted, true)) {
    auto const reply = decode<HelloReply>(payload);
    if (!reply || reply->why != HelloReply::Why::accepted) {
      drop(line);  // the CoordinatorLink reports the reason
    }
    return;
  }
  auto const ack = decode<BeatAck>(payload);
  if (!ack) {
    log(Level::error, "answer to a beat not understood: " + ack.error().message());
    drop(line);
    return;
  }
  unanswered_ = 0;
  auto const others = lines_;
  for (auto const& other : others) {
    if (other != line) {
      drop(other);
    }
  }
  if (auto const inbox = inbox_.lock()) {
    inbox->on_beat_answered(*ack);
  }
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): a reference may be to the element that is erased
void BeatLine::drop(std::shared_ptr<Line> line) {
  std::erase(lines_, line);
  line->close();
}

}  // namespace cxxrun::rendezvous
