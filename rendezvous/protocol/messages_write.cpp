#include <algorithm>
#include <utility>
#include <variant>

#include "rendezvous/protocol/message_fields.hpp"

namespace cxxrun::rendezvous {
namespace {

// Limits on the texts of a message, in bytes of JSON, so that it fits a frame (1 MiB).
constexpr std::size_t kTextBudget = 640U << 10U;  // all texts of a Stopped
constexpr std::size_t kBriefBudget = 8192;        // all texts of a WorkerFailed
constexpr std::size_t kSentenceBytes = 500;       // each of cxxrun's own sentences in them

/// Writes the fields of an object, or of an array (a beat).
class Writer {
 public:
  explicit Writer(Json empty = Json::object()) : json_(std::move(empty)) {}

  template <class T>
  void operator()(char const* name, T const& value) {
    (json_.is_array() ? json_.emplace_back() : json_[name]) = to_json(value);
  }
  template <class T>
  void operator()(char const* name, std::optional<T> const& value) {
    if (value) {
      (*this)(name, *value);
    }
  }
  void when(bool condition, char const* name, std::string const& text) {
    if (condition) {
      (*this)(name, text);
    }
  }
  void if_known(char const* name, Enumeration auto value) { (*this)(name, value); }
  template <class T>
  void list(char const* name, std::vector<T> const& values, std::size_t most) {
    Json& list = json_[name] = Json::array();
    for (std::size_t i = 0; i < std::min(values.size(), most); ++i) {
      list.push_back(to_json(values[i]));
    }
  }
  template <class T>
  static bool has(char const* /*name*/, std::optional<T> const& value) {
    return value.has_value();
  }
  static void require(bool /*holds*/, char const* /*what*/) {}
  static bool knows(std::uint32_t /*version*/) { return true; }

  [[nodiscard]] std::string text() const {
    // Output of workers may not be UTF-8: invalid bytes become U+FFFD.
    return json_.dump(-1, ' ', false, Json::error_handler_t::replace);
  }

 private:
  static Json to_json(std::integral auto const& number) { return number; }
  static Json to_json(std::string const& text) { return text; }
  static Json to_json(Millis wait) { return wait.count(); }
  static Json to_json(TcpEnd const& end) { return end_text(end); }
  static Json to_json(Ballot const& ballot) { return Json::array({ballot.round, ballot.rank}); }
  template <Enumeration T>
  static Json to_json(T const& value) {
    return kNames<T>.at(static_cast<std::size_t>(value));
  }
  template <class Part>
  static Json to_json(Part const& part) {
    Writer field;
    fields(field, part);
    return field.json_;
  }

  Json json_;
};

/// The most bytes that a byte of text takes in JSON: a control character becomes \u001b, an invalid byte U+FFFD.
std::size_t written(char byte) {
  auto const value = static_cast<unsigned char>(byte);
  return value < 0x20 ? 6 : value >= 0x80 ? 3 : byte == '"' || byte == '\\' ? 2 : 1;
}

/// Cuts from the front: the end of a text says more than its start.
void keep_end(std::string& text, std::size_t& budget) {
  std::size_t kept = 0;
  while (kept < text.size() && written(text[text.size() - kept - 1]) <= budget) {
    budget -= written(text[text.size() - ++kept]);
  }
  text.erase(0, text.size() - kept);
}

void cut(WorkerExit& exit, std::size_t& budget) {
  if (!exit.status.ok()) {
    keep_end(exit.stderr_tail, budget);
    keep_end(exit.error_file, budget);
  }
}

/// The short texts. They are cut first, so that every worker keeps them before any keeps its tail.
void cut_lines(WorkerExit& exit, std::size_t& budget) {
  for (std::string* const sentence : {&exit.hung, &exit.cause, &exit.advice}) {
    sentence->resize(std::min(sentence->size(), kSentenceBytes));
    keep_end(*sentence, budget);
  }
  keep_end(exit.told, budget);
  keep_end(exit.log, budget);
}

/// Cuts a message that has no bound of its own to fit a frame; this is for the others.
template <class Message>
Message const& cut(Message const& message) {
  return message;
}

WorkerFailed cut(WorkerFailed failed) {
  std::size_t budget = 0;
  cut(failed.exit, budget);
  budget = kBriefBudget;
  cut_lines(failed.exit, budget);
  return failed;
}

Stopped cut(Stopped stopped) {
  std::size_t budget = kTextBudget;
  // Failures first: they need an explanation, and the budget may run out.
  std::stable_partition(stopped.exits.begin(), stopped.exits.end(), [](auto const& exit) { return !exit.ours; });
  for (auto& exit : stopped.exits) {
    cut_lines(exit, budget);
  }
  for (auto& exit : stopped.exits) {
    cut(exit, budget);
  }
  return stopped;
}

template <class... Messages>
void fields(Writer& field, std::variant<Messages...> const& any) {
  std::visit(
      [&]<class Message>(Message const& message) {
        field("type", std::string(std::get<Type<Message>>(kTypes).name));
        auto const& sent = cut(message);
        fields(field, sent);
      },
      any);
}

}  // namespace

template <class Message>
std::string encode(Message const& message) {
  constexpr bool kBeat = std::is_same_v<Message, Beat> || std::is_same_v<Message, BeatAck>;
  Writer field(kBeat ? Json::array() : Json::object());
  fields(field, message);
  return field.text();
}

template std::string encode(Hello const&);
template std::string encode(HelloReply const&);
template std::string encode(ToCoordinator const&);
template std::string encode(ToAgent const&);
template std::string encode(AboutCallers const&);
template std::string encode(AskHost const&);
template std::string encode(LiveUp const&);
template std::string encode(LiveDown const&);
template std::string encode(Beat const&);
template std::string encode(BeatAck const&);

}  // namespace cxxrun::rendezvous
