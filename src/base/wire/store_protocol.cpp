#include "src/base/wire/store_protocol.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <concepts>
#include <cstring>
#include <iterator>
#include <type_traits>

#include "src/base/core/bytes.hpp"

namespace cxxrun::wire {
namespace {

// What requests look like in bytes: one table, kShapes, for the decoder and the encoders.

constexpr std::uint32_t kGreetingMagic = 0x3C85F7CE;

void append_string(std::string& out, std::string_view text) {
  put(out, static_cast<std::uint64_t>(text.size()));
  out.append(text);
}

struct Writer {
  std::string& out;
  void operator()(Text const& text) { append_string(out, text); }
  void operator()(std::integral auto number) { put(out, number); }
  void operator()(std::pair<Text, Text> const& pair) {
    append_string(out, pair.first);
    append_string(out, pair.second);
  }
  template <class Item>
  void operator()(std::vector<Item> const& items) {
    put(out, static_cast<std::uint64_t>(items.size()));
    std::for_each(items.begin(), items.end(), *this);
  }
};

// Fills the members of a request from what has been decoded: its texts and its number.
struct Reader {
  Text const* next;
  std::size_t texts;
  std::uint64_t number;
  void operator()(Text& text) { text = *next++; }
  void operator()(std::integral auto& into) { into = static_cast<std::remove_reference_t<decltype(into)>>(number); }
  void operator()(std::vector<Text>& keys) { keys.assign(next, next + texts); }
  void operator()(std::vector<std::pair<Text, Text>>& pairs) {
    pairs.resize(texts / 2);
    for (auto& [key, value] : pairs) {
      (*this)(key);
      (*this)(value);
    }
  }
};

// What follows an opcode: [u64 n] strings [tail]. The first string of each item is a key, the others are values.
struct Shape {
  std::string_view name;
  std::uint8_t strings;  // per item; a request without a count has one item
  bool counted;
  std::uint8_t tail;  // size in bytes of the number after the strings
  void (*read)(Reader field, StoreRequest& request);
  void (*write)(Writer field, StoreRequest const& request);
};

// `kFields`: the members of the request in the order of the wire.
template <class Request, auto... kFields>
constexpr Shape shape(std::string_view name, std::uint8_t strings, bool counted = false, std::uint8_t tail = 0) {
  auto const read = []([[maybe_unused]] Reader field, StoreRequest& into) {
    [[maybe_unused]] auto& request = into.emplace<Request>();
    (field(request.*kFields), ...);
  };
  auto const write = []([[maybe_unused]] Writer field, [[maybe_unused]] StoreRequest const& request) {
    (field(std::get<Request>(request).*kFields), ...);
  };
  return {name, strings, counted, tail, read, write};
}

constexpr std::size_t kGreeting = 0;
constexpr std::size_t kSet = 1;
constexpr std::size_t kCancelWait = 12;
// Indexed by the opcodes of the greeted dialect. In the plain one SET to NUMKEYS are one lower, and CANCEL_WAIT is
// last.
constexpr std::array<Shape, 19> kShapes{
    Shape{"VALIDATE", 0, false, 4, nullptr, nullptr},
    shape<SetRequest, &SetRequest::key, &SetRequest::value>("SET", 2),
    shape<CompareSetRequest, &CompareSetRequest::key, &CompareSetRequest::expected, &CompareSetRequest::desired>(
        "COMPARE_SET", 3),
    shape<GetRequest, &GetRequest::key>("GET", 1),
    shape<AddRequest, &AddRequest::key, &AddRequest::delta>("ADD", 1, false, 8),
    shape<CheckRequest, &CheckRequest::keys>("CHECK", 1, true),
    shape<WaitRequest, &WaitRequest::keys>("WAIT", 1, true),
    shape<NumKeysRequest>("NUMKEYS", 0),
    shape<DeleteRequest, &DeleteRequest::key>("DELETE_KEY", 1),
    shape<AppendRequest, &AppendRequest::key, &AppendRequest::value>("APPEND", 2),
    shape<MultiGetRequest, &MultiGetRequest::keys>("MULTI_GET", 1, true),
    shape<MultiSetRequest, &MultiSetRequest::pairs>("MULTI_SET", 2, true),
    shape<CancelWaitRequest>("CANCEL_WAIT", 0),
    shape<PingRequest, &PingRequest::nonce>("PING", 0, false, 4),
    shape<QueuePushRequest, &QueuePushRequest::key, &QueuePushRequest::value>("QUEUE_PUSH", 2),
    shape<QueuePopRequest, &QueuePopRequest::key>("QUEUE_POP", 1),
    shape<QueueLenRequest, &QueueLenRequest::key>("QUEUE_LEN", 1),
    shape<ListKeysRequest>("LIST_KEYS", 0),
    shape<BarrierRequest, &BarrierRequest::key, &BarrierRequest::world>("BARRIER", 1, false, 8),
};
constexpr std::uint8_t kPlainWatchKey = 7;  // not offered; above it the opcodes are the same in both dialects

// The greeted number of an opcode; kNone for one that is not offered.
constexpr std::uint8_t kNone = 0xFF;
constexpr std::uint8_t op_of(StoreDialect dialect, std::uint8_t opcode) {
  bool const plain = dialect == StoreDialect::plain;
  if ((plain && opcode == kPlainWatchKey) || opcode > (plain ? kCancelWait : kShapes.size() - 1)) {
    return kNone;
  }
  return plain && opcode < kPlainWatchKey ? static_cast<std::uint8_t>(opcode + 1) : opcode;
}

constexpr std::size_t kMostStrings = 3;  // of a request without a count

std::uint64_t most_bytes(bool is_key) {
  return is_key ? kMaxStoreKeyBytes : kMaxStoreValueBytes;
}

// Takes numbers and texts off the front of bytes that hold a whole request. Each call returns false when something is
// missing or too long.
struct WholeRequest {
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

// The fast path: almost every request arrives in one piece. False leaves a split or invalid request to the state
// machine.
bool StoreDecoder::take_whole(std::string_view& input, StoreRequest& request) const {
  auto const op = op_of(dialect_, static_cast<std::uint8_t>(input.front()));
  if (dialect_ == StoreDialect::undecided || op == kNone || op == kGreeting) {
    return false;
  }
  Shape const& shape = kShapes[op];
  WholeRequest whole{input.substr(1)};
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
      begin_op(kGreeting);  // or a plain SET: greet() tells by the next four bytes
      return;
    }
    dialect_ = StoreDialect::plain;
  }
  if (auto const op = op_of(dialect_, opcode); op != kNone) {
    begin_op(op);
  } else {
    reject("opcode " + std::to_string(opcode) + " is not offered");
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

// Collects a fixed-size field, and uses it once it is complete.
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
    reject("VALIDATE carries a wrong magic number");
  }
}

void StoreDecoder::take_count(std::uint64_t count) {
  number_used_ = 0;
  Shape const& shape = kShapes[op_];
  if (count > kMaxStoreKeys) {
    reject(std::string(shape.name) + " of " + std::to_string(count) + " keys; at most " +
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
    reject(name + " with a " + (is_key ? "key" : "value") + " of " + std::to_string(length) + " bytes; at most " +
           std::to_string(most));
    return;
  }
  request_bytes_ += length;
  if (request_bytes_ > kMaxStoreRequestBytes) {
    reject(name + " of more than " + std::to_string(kMaxStoreRequestBytes) + " bytes");
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
    // Doubles, but never beyond the announced length, nor much beyond what has come. In a new string, because reserve()
    // on a non-empty one may allocate twice what it is asked for.
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
  assert(strings_left_ > 0);
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

void StoreDecoder::reject(std::string why) {
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

std::string encode_greeting() {
  std::string out(1, static_cast<char>(kGreeting));
  put(out, kGreetingMagic);
  return out;
}

std::string encode_request(StoreRequest const& request, StoreDialect dialect) {
  assert(dialect != StoreDialect::undecided);
  std::size_t const op = request.index() + 1;
  bool const lower = dialect == StoreDialect::plain && op <= kPlainWatchKey;
  std::string out(1, static_cast<char>(lower ? op - 1 : op));
  kShapes[op].write({out}, request);
  return out;
}

std::string refusal_of(std::string_view request) {
  StoreDecoder decoder(StoreDialect::greeted);
  StoreRequest decoded;
  static_cast<void>(decoder.next(request, decoded));
  return decoder.error();
}

std::string encode_value_reply(std::string_view value) {
  std::string out;
  out.reserve(sizeof(std::uint64_t) + value.size());
  append_string(out, value);
  return out;
}

void append_value_reply(std::string& out, std::string_view value) {
  append_string(out, value);
}

std::string encode_number_reply(std::int64_t number) {
  std::string out;
  put(out, number);
  return out;
}

std::string encode_ping_reply(std::uint32_t nonce) {
  std::string out;
  put(out, nonce);
  return out;
}

}  // namespace cxxrun::wire
