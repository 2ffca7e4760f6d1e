// Fields of one JSON object, read with a single complaint; and the parts that several messages share. For
// messages_read.
#pragma once

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "rendezvous/protocol/message_json.hpp"

namespace cxxrun::rendezvous {

// Arrays longer than this are not ours.
inline constexpr std::size_t kMaxItems = 65536;
// Longer waits than three years are not meant; the bound keeps sums with a time point from overflowing.
inline constexpr std::int64_t kMaxWaitMs = 100'000'000'000;

/// Reads fields of one object; remembers the first that is missing or of the wrong kind.
class Fields {
 public:
  Fields(Json const& json, std::string& problem) : json_(json), problem_(problem) {
    if (!json.is_object()) {
      complain("an object");
    }
  }

  template <class T>
  void read(char const* name, T& into) {
    Json const* const field = find(name);
    if (field == nullptr || !assign(*field, into)) {
      complain(name);
    }
  }

  template <class T>
  void read_optional(char const* name, std::optional<T>& into) {
    if (Json const* const field = find(name)) {
      T value{};
      if (assign(*field, value)) {
        into = value;
      } else {
        complain(name);
      }
    }
  }

  void read_text_if_any(char const* name, std::string& into) {
    if (Json const* const field = find(name); field != nullptr && !assign(*field, into)) {
      complain(name);
    }
  }

  [[nodiscard]] Json const& child(char const* name) {
    static Json const nothing;
    Json const* const field = find(name);
    if (field == nullptr) {
      complain(name);
      return nothing;
    }
    return *field;
  }

  [[nodiscard]] bool has(char const* name) const { return find(name) != nullptr; }
  /// Where complaints go, for the fields of an object inside this one.
  [[nodiscard]] std::string& problem() { return problem_; }

  void complain(char const* what) {
    if (problem_.empty()) {
      problem_ = std::string("message lacks ") + what + " or has it in the wrong form";
    }
  }

  static bool assign(Json const& from, bool& into) {
    if (!from.is_boolean()) {
      return false;
    }
    into = from.get<bool>();
    return true;
  }
  static bool assign(Json const& from, std::string& into) {
    if (!from.is_string()) {
      return false;
    }
    into = from.get_ref<std::string const&>();
    return true;
  }
  static bool assign(Json const& from, std::vector<std::string>& into) {
    if (!from.is_array() || from.size() > kMaxItems) {
      return false;
    }
    into.clear();
    return std::all_of(from.begin(), from.end(), [&](Json const& item) { return assign(item, into.emplace_back()); });
  }
  template <class T>
  requires(std::is_integral_v<T> && !std::is_same_v<T, bool>) static bool assign(Json const& from, T& into) {
    if (from.is_number_unsigned()) {
      auto const value = from.get<std::uint64_t>();
      into = static_cast<T>(value);
      return std::cmp_less_equal(value, std::numeric_limits<T>::max());
    }
    if (from.is_number_integer()) {
      auto const value = from.get<std::int64_t>();
      into = static_cast<T>(value);
      return std::in_range<T>(value);
    }
    return false;
  }

 private:
  [[nodiscard]] Json const* find(char const* name) const {
    if (!json_.is_object()) {
      return nullptr;
    }
    auto const it = json_.find(name);
    return it == json_.end() ? nullptr : &*it;
  }

  Json const& json_;
  std::string& problem_;
};

void read(Json const& json, WorkerExit& exit, std::string& problem);
void read(Json const& json, NodeInfo& node, std::string& problem);
void read_wait(Fields& fields, char const* name, Millis& into);
void read_tie(Fields& fields, Tie& into);
void read_ballot(Fields& fields, char const* name, Ballot& into);
void read(Json const& json, Decree& decree, std::string& problem);
void read(Json const& json, std::vector<Successor>& successors, std::string& problem);
void read(Json const& json, Terms& terms, std::string& problem);
void read(Json const& json, Generation& g, std::string& problem);

/// The object or array called `name`.
template <class Part>
void read_part(Fields& fields, char const* name, Part& into) {
  read(fields.child(name), into, fields.problem());
}

}  // namespace cxxrun::rendezvous
