#include "src/wire/store_protocol.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace cxxrun::wire {
namespace {

static_assert(std::endian::native == std::endian::little, "the protocol is the little-endian memory of its clients");

constexpr std::uint32_t kGreetingMagic = 0x3C85F7CE;
constexpr std::uint8_t kGreetingOpcode = 0;

template <class Number>
void append_number(std::string& out, Number number) {
  std::array<char, sizeof number> bytes{};
  std::memcpy(bytes.data(), &number, sizeof number);
  out.append(bytes.data(), bytes.size());
}

void append_string(std::string& out, std::string_view text) {
  append_number(out, static_cast<std::uint64_t>(text.size()));
  out.append(text);
}

}  // namespace

// The numbers are those of the greeted dialect; the plain one has SET..NUMKEYS one lower and no greeting.
enum class StoreDecoder::Op : std::uint8_t {
  greeting = 0,
  set = 1,
  compare_set = 2,
  get = 3,
  add = 4,
  check = 5,
  wait = 6,
  num_keys = 7,
  delete_key = 8,
  append = 9,
  multi_get = 10,
  multi_set = 11,
  cancel_wait = 12,
  ping = 13,
};

// What follows an opcode: [u64 n] strings [tail]. The first string of each item is a key, the others are values.
struct StoreDecoder::Shape {
  std::uint8_t strings = 0;  // per item; not counted requests have one item
  bool counted = false;
  std::uint8_t tail = 0;  // bytes of the number behind the strings
};

StoreDecoder::Shape StoreDecoder::shape_of(Op op) {
  switch (op) {
    case Op::set:
    case Op::append: return {2, false, 0};
    case Op::compare_set: return {3, false, 0};
    case Op::get:
    case Op::delete_key: return {1, false, 0};
    case Op::add: return {1, false, 8};
    case Op::check:
    case Op::wait:
    case Op::multi_get: return {1, true, 0};
    case Op::multi_set: return {2, true, 0};
    case Op::greeting:
    case Op::ping: return {0, false, 4};
    case Op::num_keys:
    case Op::cancel_wait: break;
  }
  return {};
}

std::string_view StoreDecoder::name_of(Op op) {
  constexpr std::array<std::string_view, 14> kNames = {"VALIDATE",  "SET",       "COMPARE_SET", "GET",        "ADD",
                                                       "CHECK",     "WAIT",      "NUMKEYS",     "DELETE_KEY", "APPEND",
                                                       "MULTI_GET", "MULTI_SET", "CANCEL_WAIT", "PING"};
  return kNames[static_cast<std::size_t>(op)];
}

StoreDecoder::Status StoreDecoder::next(std::string_view& input, StoreRequest& request) {
  while (stage_ != Stage::broken && stage_ != Stage::complete && !input.empty()) {
    switch (stage_) {
      case Stage::opcode:
        begin(static_cast<std::uint8_t>(input.front()));
        input.remove_prefix(1);
        break;
      case Stage::greeting:
        if (gather(input, 4)) {
          greet();
        }
        break;
      case Stage::count:
        if (gather(input, 8)) {
          take_count();
        }
        break;
      case Stage::length:
        if (gather(input, 8)) {
          take_length();
        }
        break;
      case Stage::bytes: take_bytes(input); break;
      case Stage::number:
        if (gather(input, shape_of(op_).tail)) {
          stage_ = Stage::complete;
        }
        break;
      case Stage::complete:
      case Stage::broken: break;
    }
  }
  if (stage_ == Stage::complete) {
    request = finish();
    return Status::request;
  }
  return stage_ == Stage::broken ? Status::broken : Status::need_more;
}

// Collects a fixed-size field; true when the whole of it is in scratch_.
bool StoreDecoder::gather(std::string_view& input, std::size_t wanted) {
  std::size_t const n = std::min(wanted - scratch_used_, input.size());
  std::memcpy(scratch_.data() + scratch_used_, input.data(), n);
  scratch_used_ = static_cast<std::uint8_t>(scratch_used_ + n);
  input.remove_prefix(n);
  return scratch_used_ == wanted;
}

std::uint64_t StoreDecoder::gathered() const {
  std::uint64_t number = 0;
  std::memcpy(&number, scratch_.data(), sizeof number);
  return number;
}

void StoreDecoder::begin(std::uint8_t opcode) {
  scratch_ = {};
  scratch_used_ = 0;
  if (dialect_ == StoreDialect::undecided) {
    if (opcode == kGreetingOpcode) {
      stage_ = Stage::greeting;  // or a plain SET: the next four bytes tell
      return;
    }
    dialect_ = StoreDialect::plain;
  }
  bool const plain = dialect_ == StoreDialect::plain;
  constexpr std::uint8_t kPlainWatchKey = 7;
  if ((plain && opcode == kPlainWatchKey) || opcode > static_cast<std::uint8_t>(plain ? Op::cancel_wait : Op::ping)) {
    breaks("opcode " + std::to_string(opcode) + " is not offered");
    return;
  }
  begin_op(static_cast<Op>(plain && opcode < kPlainWatchKey ? opcode + 1 : opcode));
}

void StoreDecoder::begin_op(Op op) {
  op_ = op;
  request_bytes_ = 0;
  Shape const shape = shape_of(op);
  strings_left_ = shape.strings;
  if (op == Op::greeting) {
    stage_ = Stage::greeting;
  } else if (shape.counted) {
    stage_ = Stage::count;
  } else if (shape.strings > 0) {
    stage_ = Stage::length;
  } else {
    stage_ = shape.tail > 0 ? Stage::number : Stage::complete;
  }
}

void StoreDecoder::greet() {
  bool const greeting = gathered() == kGreetingMagic;
  if (greeting) {
    dialect_ = StoreDialect::greeted;
    stage_ = Stage::opcode;
  } else if (dialect_ == StoreDialect::undecided) {
    // What looked like a greeting is a SET; the four bytes are the low half of its key's length.
    dialect_ = StoreDialect::plain;
    begin_op(Op::set);
  } else {
    breaks("VALIDATE carries a wrong magic number");
  }
}

void StoreDecoder::take_count() {
  std::uint64_t const n = gathered();
  scratch_used_ = 0;
  if (n > kMaxStoreKeys) {
    breaks(std::string(name_of(op_)) + " of " + std::to_string(n) + " keys; at most " + std::to_string(kMaxStoreKeys));
    return;
  }
  strings_left_ = n * shape_of(op_).strings;
  stage_ = n == 0 ? Stage::complete : Stage::length;
}

void StoreDecoder::take_length() {
  string_length_ = gathered();
  scratch_used_ = 0;
  bool const is_key = strings_.size() % std::max<std::size_t>(shape_of(op_).strings, 1) == 0;
  std::uint64_t const most = is_key ? kMaxStoreKeyBytes : kMaxStoreValueBytes;
  if (string_length_ > most) {
    breaks(std::string(name_of(op_)) + " with a " + (is_key ? "key" : "value") + " of " +
           std::to_string(string_length_) + " bytes; at most " + std::to_string(most));
    return;
  }
  request_bytes_ += string_length_;
  if (request_bytes_ > kMaxStoreRequestBytes) {
    breaks(std::string(name_of(op_)) + " of more than " + std::to_string(kMaxStoreRequestBytes) + " bytes");
    return;
  }
  strings_.emplace_back();
  stage_ = Stage::bytes;
  if (string_length_ == 0) {
    end_string();
  }
}

void StoreDecoder::take_bytes(std::string_view& input) {
  std::string& text = strings_.back();
  std::size_t const n = std::min<std::size_t>(string_length_ - text.size(), input.size());
  if (text.size() + n > text.capacity()) {
    // Doubling, but never beyond what was announced, nor much beyond what has come.
    text.reserve(std::min<std::size_t>(string_length_, std::max(text.size() + n, 2 * text.capacity())));
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
    stage_ = shape_of(op_).tail > 0 ? Stage::number : Stage::complete;
  }
}

StoreRequest StoreDecoder::finish() {
  stage_ = Stage::opcode;
  std::vector<std::string>& s = strings_;
  StoreRequest request;
  switch (op_) {
    case Op::set: request = SetRequest{std::move(s[0]), std::move(s[1])}; break;
    case Op::compare_set: request = CompareSetRequest{std::move(s[0]), std::move(s[1]), std::move(s[2])}; break;
    case Op::get: request = GetRequest{std::move(s[0])}; break;
    case Op::add: request = AddRequest{std::move(s[0]), static_cast<std::int64_t>(gathered())}; break;
    case Op::check: request = CheckRequest{std::exchange(s, {})}; break;
    case Op::wait: request = WaitRequest{std::exchange(s, {})}; break;
    case Op::num_keys: request = NumKeysRequest{}; break;
    case Op::delete_key: request = DeleteRequest{std::move(s[0])}; break;
    case Op::append: request = AppendRequest{std::move(s[0]), std::move(s[1])}; break;
    case Op::multi_get: request = MultiGetRequest{std::exchange(s, {})}; break;
    case Op::multi_set: {
      MultiSetRequest all;
      all.pairs.reserve(s.size() / 2);
      for (std::size_t i = 0; i + 1 < s.size(); i += 2) {
        all.pairs.emplace_back(std::move(s[i]), std::move(s[i + 1]));
      }
      s = {};
      request = std::move(all);
      break;
    }
    case Op::greeting:  // never complete: greet() goes back to the opcode
    case Op::cancel_wait: request = CancelWaitRequest{}; break;
    case Op::ping: request = PingRequest{static_cast<std::uint32_t>(gathered())}; break;
  }
  s.clear();
  return request;
}

void StoreDecoder::breaks(std::string why) {
  error_ = std::move(why);
  stage_ = Stage::broken;
  strings_ = {};
}

std::uint64_t StoreDecoder::held_bytes() const {
  std::uint64_t sum = strings_.capacity() * sizeof(std::string);
  for (std::string const& text : strings_) {
    sum += text.capacity();
  }
  return sum;
}

std::string encode_greeting() {
  std::string out(1, static_cast<char>(kGreetingOpcode));
  append_number(out, kGreetingMagic);
  return out;
}

namespace {

// Writes one request; `out` already holds nothing but what the caller wants in front.
struct Encoder {
  std::string& out;
  bool plain;

  void op(std::uint8_t greeted_number) const {
    out.push_back(static_cast<char>(plain && greeted_number < 8 ? greeted_number - 1 : greeted_number));
  }
  void keys(std::uint8_t number, std::vector<std::string> const& all) const {
    op(number);
    append_number(out, static_cast<std::uint64_t>(all.size()));
    for (std::string const& key : all) {
      append_string(out, key);
    }
  }
  void strings(std::uint8_t number, std::initializer_list<std::string_view> all) const {
    op(number);
    for (std::string_view text : all) {
      append_string(out, text);
    }
  }

  void operator()(SetRequest const& r) const { strings(1, {r.key, r.value}); }
  void operator()(CompareSetRequest const& r) const { strings(2, {r.key, r.expected, r.desired}); }
  void operator()(GetRequest const& r) const { strings(3, {r.key}); }
  void operator()(AddRequest const& r) const {
    strings(4, {r.key});
    append_number(out, r.delta);
  }
  void operator()(CheckRequest const& r) const { keys(5, r.keys); }
  void operator()(WaitRequest const& r) const { keys(6, r.keys); }
  void operator()(NumKeysRequest const&) const { op(7); }
  void operator()(DeleteRequest const& r) const { strings(8, {r.key}); }
  void operator()(AppendRequest const& r) const { strings(9, {r.key, r.value}); }
  void operator()(MultiGetRequest const& r) const { keys(10, r.keys); }
  void operator()(MultiSetRequest const& r) const {
    op(11);
    append_number(out, static_cast<std::uint64_t>(r.pairs.size()));
    for (auto const& [key, value] : r.pairs) {
      append_string(out, key);
      append_string(out, value);
    }
  }
  void operator()(CancelWaitRequest const&) const { op(12); }
  void operator()(PingRequest const& r) const {
    op(13);
    append_number(out, r.nonce);
  }
};

}  // namespace

std::string encode_request(StoreRequest const& request, StoreDialect dialect) {
  std::string out;
  std::visit(Encoder{out, dialect == StoreDialect::plain}, request);
  return out;
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
  append_number(out, number);
  return out;
}

std::string encode_ping_reply(std::uint32_t nonce) {
  std::string out;
  append_number(out, nonce);
  return out;
}

}  // namespace cxxrun::wire
