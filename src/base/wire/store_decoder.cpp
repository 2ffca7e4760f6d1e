#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>

#include "src/base/wire/store_protocol.hpp"
#include "src/base/wire/store_shapes.hpp"

namespace cxxrun::wire {
namespace {

constexpr std::size_t kMostStrings = 3;  // of a request that is not counted

std::uint64_t most_bytes(bool is_key) {
  return is_key ? kMaxStoreKeyBytes : kMaxStoreValueBytes;
}

// Numbers and texts from the front of bytes that are all there; false as soon as something is missing or not allowed.
struct Whole {
  std::string_view rest;
  std::uint64_t sum = 0;

  bool number(std::uint64_t& into, std::size_t size) {
    if (rest.size() < size) {
      return false;
    }
    std::memcpy(&into, rest.data(), size);
    rest.remove_prefix(size);
    return true;
  }
  bool text(Text& into, bool is_key) {
    std::uint64_t length = 0;
    if (!number(length, sizeof length) || length > rest.size() || length > most_bytes(is_key)) {
      return false;
    }
    sum += length;
    into = rest.substr(0, length);
    rest.remove_prefix(length);
    return sum <= kMaxStoreRequestBytes;
  }
};

}  // namespace

StoreDecoder::Status StoreDecoder::next(std::string_view& input, StoreRequest& request) {
  let_go();
  while (stage_ != Stage::broken && stage_ != Stage::complete && !input.empty()) {
    if (stage_ == Stage::opcode) {
      if (take_whole(input, request)) {
        return Status::request;
      }
      begin(static_cast<std::uint8_t>(input.front()));
      input.remove_prefix(1);
    } else if (stage_ == Stage::bytes) {
      take_bytes(input);
    } else {
      take_number(input);
    }
  }
  if (stage_ == Stage::complete) {
    finish(request);
    return Status::request;
  }
  return stage_ == Stage::broken ? Status::broken : Status::need_more;
}

// Almost every request arrives in one piece. What does not, and what is wrong, is gathered step by step.
bool StoreDecoder::take_whole(std::string_view& input, StoreRequest& request) const {
  auto const op = op_of(dialect_, static_cast<std::uint8_t>(input.front()));
  if (dialect_ == StoreDialect::undecided || op == kNone || op == kGreeting) {
    return false;
  }
  Shape const& shape = kShapes[op];
  Whole whole{input.substr(1)};
  std::array<Text, kMostStrings> few;
  std::vector<Text> many;
  Text* texts = few.data();
  std::uint64_t count = shape.strings;
  if (shape.counted) {
    if (!whole.number(count, sizeof count) || count > kMaxStoreKeys ||
        count * shape.strings > whole.rest.size() / sizeof count) {
      return false;
    }
    count *= shape.strings;
    many.resize(count);
    texts = many.data();
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    if (!whole.text(texts[i], i % shape.strings == 0)) {
      return false;
    }
  }
  std::uint64_t number = 0;
  if (!whole.number(number, shape.tail)) {
    return false;
  }
  shape.read({texts, count, number}, request);
  input = whole.rest;
  return true;
}

void StoreDecoder::begin(std::uint8_t opcode) {
  number_ = 0;
  number_used_ = 0;
  if (dialect_ == StoreDialect::undecided) {
    if (opcode == kGreeting) {
      begin_op(kGreeting);  // or a plain SET: the next four bytes tell
      return;
    }
    dialect_ = StoreDialect::plain;
  }
  if (auto const op = op_of(dialect_, opcode); op != kNone) {
    begin_op(op);
  } else {
    breaks("opcode " + std::to_string(opcode) + " is not offered");
  }
}

void StoreDecoder::begin_op(std::size_t op) {
  op_ = op;
  request_bytes_ = 0;
  Shape const& shape = kShapes[op];
  strings_left_ = shape.strings;
  if (shape.counted) {
    stage_ = Stage::count;
  } else if (shape.strings > 0) {
    stage_ = Stage::length;
  } else {
    stage_ = shape.tail > 0 ? Stage::number : Stage::complete;
  }
}

// Collects a fixed-size field, and goes on once the whole of it is there.
void StoreDecoder::take_number(std::string_view& input) {
  std::size_t const wanted = stage_ == Stage::number ? kShapes[op_].tail : sizeof number_;
  std::size_t const n = std::min(wanted - number_used_, input.size());
  std::memcpy(reinterpret_cast<char*>(&number_) + number_used_, input.data(), n);
  number_used_ = static_cast<std::uint8_t>(number_used_ + n);
  input.remove_prefix(n);
  if (number_used_ < wanted) {
    return;
  }
  if (stage_ == Stage::count) {
    take_count(number_);
  } else if (stage_ == Stage::length) {
    take_length(number_);
  } else if (op_ == kGreeting) {
    greet(number_);
  } else {
    stage_ = Stage::complete;
  }
}

void StoreDecoder::greet(std::uint64_t magic) {
  if (magic == kGreetingMagic) {
    dialect_ = StoreDialect::greeted;
    stage_ = Stage::opcode;
  } else if (dialect_ == StoreDialect::undecided) {
    // What looked like a greeting is a SET; the four bytes are the low half of its key's length.
    dialect_ = StoreDialect::plain;
    begin_op(kSet);
  } else {
    breaks("VALIDATE carries a wrong magic number");
  }
}

void StoreDecoder::take_count(std::uint64_t count) {
  number_used_ = 0;
  Shape const& shape = kShapes[op_];
  if (count > kMaxStoreKeys) {
    breaks(std::string(shape.name) + " of " + std::to_string(count) + " keys; at most " +
           std::to_string(kMaxStoreKeys));
    return;
  }
  strings_left_ = count * shape.strings;
  stage_ = count == 0 ? Stage::complete : Stage::length;
}

void StoreDecoder::take_length(std::uint64_t length) {
  number_used_ = 0;
  string_length_ = length;
  std::string const name(kShapes[op_].name);
  bool const is_key = strings_.size() % kShapes[op_].strings == 0;
  std::uint64_t const most = most_bytes(is_key);
  if (length > most) {
    breaks(name + " with a " + (is_key ? "key" : "value") + " of " + std::to_string(length) + " bytes; at most " +
           std::to_string(most));
    return;
  }
  request_bytes_ += length;
  if (request_bytes_ > kMaxStoreRequestBytes) {
    breaks(name + " of more than " + std::to_string(kMaxStoreRequestBytes) + " bytes");
    return;
  }
  strings_.emplace_back();
  stage_ = Stage::bytes;
  if (length == 0) {
    end_string();
  }
}

void StoreDecoder::take_bytes(std::string_view& input) {
  std::string& text = strings_.back();
  std::size_t const n = std::min<std::size_t>(string_length_ - text.size(), input.size());
  if (text.size() + n > text.capacity()) {
    // Doubling, but never beyond what was announced, nor much beyond what has come. In a new string, because reserve()
    // on one that is not empty may double what it is asked for.
    std::string grown;
    grown.reserve(std::min<std::size_t>(string_length_, std::max(text.size() + n, 2 * text.capacity())));
    grown += text;
    text = std::move(grown);
  }
  text.append(input.substr(0, n));
  input.remove_prefix(n);
  if (text.size() == string_length_) {
    end_string();
  }
}

void StoreDecoder::end_string() {
  --strings_left_;
  if (strings_left_ > 0) {
    stage_ = Stage::length;
  } else {
    stage_ = kShapes[op_].tail > 0 ? Stage::number : Stage::complete;
  }
}

void StoreDecoder::finish(StoreRequest& request) {
  stage_ = Stage::opcode;
  std::vector<Text> texts;
  texts.reserve(strings_.size());
  std::transform(strings_.begin(), strings_.end(), std::back_inserter(texts), Text::gathered);
  kShapes[op_].read({texts.data(), texts.size(), number_}, request);
}

void StoreDecoder::breaks(std::string why) {
  error_ = std::move(why);
  stage_ = Stage::broken;
  strings_ = std::vector<std::string>();
}

std::uint64_t StoreDecoder::held_bytes() const {
  std::uint64_t sum = strings_.capacity() * sizeof(std::string);
  for (std::string const& text : strings_) {
    sum += text.capacity();
  }
  return sum;
}

}  // namespace cxxrun::wire
