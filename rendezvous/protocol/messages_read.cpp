#include <algorithm>
#include <utility>
#include <variant>

#include "rendezvous/protocol/message_fields.hpp"

namespace cxxrun::rendezvous {
namespace {

/// The first error found in a text; empty: none yet.
struct Complaint {
  std::string about;
  std::string text;
};

/// Reads the fields of an object by name, and those of a beat, an array of natural numbers, by position.
class Reader {
 public:
  Reader(Json const& json, Complaint& complaint) : json_(json), complaint_(complaint) {}

  template <class T>
  void operator()(char const* name, T& into) {
    Json const* const field = find(name);
    require(field != nullptr && take(*field, into), name);
  }
  template <class T>
  void operator()(char const* name, std::optional<T>& into) {
    if (has(name, into)) {
      (*this)(name, *into);
    }
  }
  void when(bool /*condition*/, char const* name, std::string& into) {
    if (json_.contains(name)) {
      (*this)(name, into);
    }
  }
  /// A text that is no known name leaves `into` unchanged.
  void if_known(char const* name, Enumeration auto& into) {
    Json const* const field = find(name);
    require(field != nullptr && (take(*field, into) || field->is_string()), name);
  }
  template <class T>
  void list(char const* name, std::vector<T>& into, std::size_t most) {
    Json const* const field = find(name);
    require(field != nullptr && field->is_array() && field->size() <= most &&
                std::all_of(field->begin(), field->end(), [&](auto const& i) { return take(i, into.emplace_back()); }),
            name);
  }
  template <class T>
  bool has(char const* name, std::optional<T>& into) {
    if (json_.contains(name)) {
      into.emplace();
    }
    return into.has_value();
  }
  void require(bool holds, char const* what) {
    if (!holds && complaint_.text.empty()) {
      complaint_.text = complaint_.about + " lacks " + what + " or has it in the wrong form";
    }
  }
  static bool knows(std::uint32_t version) { return version == kProtocolVersion; }

 private:
  Json const* find(char const* name) {
    if (json_.is_array()) {
      return next_ < json_.size() && json_[next_].is_number_unsigned() ? &json_[next_++] : nullptr;
    }
    auto const it = json_.find(name);
    return it == json_.end() ? nullptr : &*it;
  }
  static bool take(Json const& from, bool& into) {
    into = from.is_boolean() && from.get<bool>();
    return from.is_boolean();
  }
  static bool take(Json const& from, std::string& into) {
    if (from.is_string()) {
      into = from.get_ref<std::string const&>();
    }
    return from.is_string();
  }
  template <std::integral T>
  static bool take(Json const& from, T& into) {
    auto const fits = [&](auto value) {
      into = static_cast<T>(value);
      return std::in_range<T>(value);
    };
    return from.is_number_unsigned() ? fits(from.get<std::uint64_t>())
                                     : from.is_number_integer() && fits(from.get<std::int64_t>());
  }
  static bool take(Json const& from, Millis& into) {
    std::int64_t ms = 0;
    bool const fits = take(from, ms) && ms >= 0 && ms <= kMaxWaitMs;
    into = Millis(ms);
    return fits;
  }
  static bool take(Json const& from, Ballot& into) {
    return from.is_array() && from.size() == 2 && take(from[0], into.round) && take(from[1], into.rank);
  }
  static bool take(Json const& from, TcpEnd& into) {
    auto const end = from.is_string() ? parse_end(from.get_ref<std::string const&>()) : std::nullopt;
    into = end.value_or(into);
    return end.has_value();
  }
  template <Enumeration T>
  static bool take(Json const& from, T& into) {
    std::string text;
    take(from, text);
    auto const name = std::find(kNames<T>.begin(), kNames<T>.end(), text);
    if (name == kNames<T>.end()) {
      return false;
    }
    into = static_cast<T>(name - kNames<T>.begin());
    return true;
  }
  template <class Part>
  bool take(Json const& from, Part& into) {
    Reader field(from, complaint_);
    field.require(from.is_object(), "an object");
    fields(field, into);
    return true;  // `field` has reported any error in it
  }

  Json const& json_;
  Complaint& complaint_;
  std::size_t next_ = 0;
};

template <class... Messages>
void fields(Reader& field, std::variant<Messages...>& out) {
  std::string type;
  field("type", type);
  auto const read_if = [&]<class Message>(Type<Message> const& each) {
    if (type != each.name) {
      return false;
    }
    fields(field, out.template emplace<Message>());
    return true;
  };
  field.require((read_if(std::get<Type<Messages>>(kTypes)) || ...), "type");
}

template <class... Messages>
bool is_one_of(std::string const& type, std::variant<Messages...> const& /*kind*/) {
  return ((type == std::get<Type<Messages>>(kTypes).name) || ...);
}

/// A message of several kinds, chosen by its type. An unknown type is reported by the first kind.
template <class... First, class... Kinds>
void fields(Reader& field, std::variant<std::variant<First...>, Kinds...>& out) {
  std::string type;
  field("type", type);
  auto const read_if = [&]<class Kind>(Kind const& each) {
    if (!is_one_of(type, each)) {
      return false;
    }
    fields(field, out.template emplace<Kind>());
    return true;
  };
  if (!(read_if(Kinds{}) || ...)) {
    fields(field, out.template emplace<0>());
  }
}

}  // namespace

template <class Message>
Result<Message> decode(std::string_view text) {
  constexpr bool kBeat = std::is_same_v<Message, Beat> || std::is_same_v<Message, BeatAck>;
  Complaint complaint{kBeat ? "beat" : "message", ""};
  Json const json = Json::parse(text, nullptr, false);
  Message message{};
  Reader field(json, complaint);
  if (json.is_discarded()) {
    complaint.text = complaint.about + " is not JSON";
  } else if (kBeat && !json.is_array()) {
    complaint.text = "beat is no array";
  } else {
    field.require(kBeat || json.is_object(), "an object");
    fields(field, message);
  }
  return complaint.text.empty() ? Result<Message>(std::move(message)) : fail(Errc::protocol, complaint.text);
}

template Result<Hello> decode(std::string_view);
template Result<HelloReply> decode(std::string_view);
template Result<ToCoordinator> decode(std::string_view);
template Result<ToAgent> decode(std::string_view);
template Result<AboutCallers> decode(std::string_view);
template Result<AskHost> decode(std::string_view);
template Result<LiveUp> decode(std::string_view);
template Result<LiveDown> decode(std::string_view);
template Result<FromAgent> decode(std::string_view);
template Result<FromCoordinator> decode(std::string_view);
template Result<Beat> decode(std::string_view);
template Result<BeatAck> decode(std::string_view);

}  // namespace cxxrun::rendezvous
