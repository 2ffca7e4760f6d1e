// Beats and their answers: arrays of numbers, for they are most of what a large job says.
#include <type_traits>
#include <utility>

#include "rendezvous/protocol/message_json.hpp"

namespace cxxrun::rendezvous {
namespace {

constexpr std::int64_t kMaxLeftMs = 100'000'000'000;

/// Reads one item after another; remembers the first that is missing or of the wrong kind.
class Items {
 public:
  explicit Items(std::string_view text) : json_(Json::parse(text, nullptr, false)) {
    if (json_.is_discarded()) {
      problem_ = "beat is not JSON";
    } else if (!json_.is_array()) {
      problem_ = "beat is no array";
    }
  }

  template <class T>
  void read(char const* name, T& into) {
    if (!problem_.empty()) {
      return;
    }
    std::size_t const i = next_++;
    if (i < json_.size() && json_[i].is_number_unsigned() && std::in_range<T>(json_[i].get<std::uint64_t>())) {
      into = static_cast<T>(json_[i].get<std::uint64_t>());
    } else {
      problem_ = std::string("beat lacks ") + name + " or has it in the wrong form";
    }
  }

  void read(char const* name, Millis& into) {
    std::int64_t ms = 0;
    read(name, ms);
    if (ms > kMaxLeftMs && problem_.empty()) {
      problem_ = std::string("beat lacks ") + name + " or has it in the wrong form";
    }
    into = Millis(ms);
  }

  template <class Message>
  Result<Message> result(Message message) {
    return problem_.empty() ? Result<Message>(message) : fail(Errc::protocol, std::move(problem_));
  }

 private:
  Json json_;
  std::string problem_;
  std::size_t next_ = 0;
};

}  // namespace

std::string encode(Beat const& beat) {
  return Json::array({beat.sent, beat.echo, beat.number}).dump();
}

std::string encode(BeatAck const& ack) {
  return Json::array({ack.echo, ack.sent, ack.left.count(), ack.number}).dump();
}

Result<Beat> decode_beat(std::string_view text) {
  Items items(text);
  Beat beat;
  items.read("sent", beat.sent);
  items.read("echo", beat.echo);
  items.read("generation", beat.number);
  return items.result(beat);
}

Result<BeatAck> decode_beat_ack(std::string_view text) {
  Items items(text);
  BeatAck ack;
  items.read("echo", ack.echo);
  items.read("sent", ack.sent);
  items.read("left_ms", ack.left);
  items.read("generation", ack.number);
  return items.result(ack);
}

}  // namespace cxxrun::rendezvous
