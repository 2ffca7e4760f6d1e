#include "src/base/worker/agent_packets.hpp"

#include <utility>

#include "src/base/core/bytes.hpp"

namespace cxxrun::worker {
namespace {

// Both ends are on one machine, so numbers are in its byte order. The last byte of the magic is the version.
constexpr std::string_view kMagic{"CXXWORK\1", 8};
constexpr std::size_t kWhy = 500;  // the longest reason
// How a worker registers. 0: it has a page only; 1: it survives; 2: it survives and shrinks.
constexpr std::uint8_t kSurvives = 1;
constexpr std::uint8_t kShrinks = 2;

enum class PacketKind : std::uint8_t {
  registers = 1,
  parked = 2,
  claim = 3,
  question = 4,
  welcome = 65,
  no = 66,
  resume = 67,
  verdict = 68,
  answer = 69
};

std::string begin_packet(PacketKind kind) {
  std::string bytes(kMagic);
  put(bytes, static_cast<std::uint8_t>(kind));
  return bytes;
}

/// Reads a packet. A short packet or an impossible value spoils the reader, and then at_end() is false.
class Fields : public ByteReader {
 public:
  explicit Fields(std::string_view bytes) : ByteReader(bytes) {
    if (bytes.size() > kMostBytes || take(kMagic.size()) != kMagic) {
      spoil();
    }
  }
  std::uint8_t up_to(std::uint8_t most) {
    auto const value = number<std::uint8_t>();
    if (value > most) {
      spoil();
    }
    return value;
  }
  wire::RailGreeting greeting() {
    wire::RailGreeting greeting;
    take(sizeof greeting).copy(reinterpret_cast<char*>(&greeting), sizeof greeting);
    return greeting;
  }
};

void put_greeting(std::string& to, wire::RailGreeting const& greeting) {
  to.append(reinterpret_cast<char const*>(&greeting), sizeof greeting);
}

template <class Packet, class Value>
std::optional<Packet> whole(Fields const& fields, Value value) {
  return fields.at_end() ? std::optional<Packet>(std::move(value)) : std::nullopt;
}

bool is_variable(std::string_view text) {
  auto const equals = text.find('=');
  return equals != 0 && equals != std::string_view::npos && text.find('\0') == std::string_view::npos;
}

}  // namespace

std::string encode(FromWorker const& packet) {
  if (auto const* const here = std::get_if<Register>(&packet)) {
    std::string bytes = begin_packet(PacketKind::registers);
    put(bytes, here->generation);
    put(bytes, here->local_rank);
    put(bytes, static_cast<std::uint8_t>(!here->survives ? 0 : here->shrinks ? kShrinks : kSurvives));
    return bytes;
  }
  if (auto const* const claim = std::get_if<wire::RailClaim>(&packet)) {
    std::string bytes = begin_packet(PacketKind::claim);
    put(bytes, static_cast<std::uint8_t>(claim->side));
    put_greeting(bytes, claim->call);
    put_greeting(bytes, claim->answer);
    put_text(bytes, claim->theirs);
    return bytes;
  }
  if (auto const* const question = std::get_if<Question>(&packet)) {
    std::string bytes = begin_packet(PacketKind::question);
    put_text(bytes, std::string_view(question->text).substr(0, kMostAsked));
    return bytes;
  }
  auto const& parked = std::get<Parked>(packet);
  std::string bytes = begin_packet(PacketKind::parked);
  put(bytes, parked.generation);
  put_text(bytes, std::string_view(parked.why).substr(0, kWhy));
  return bytes;
}

std::string encode(FromAgent const& packet) {
  if (auto const* const no = std::get_if<No>(&packet)) {
    std::string bytes = begin_packet(PacketKind::no);
    put_text(bytes, std::string_view(no->why).substr(0, kWhy));
    return bytes;
  }
  if (auto const* const resume = std::get_if<Resume>(&packet)) {
    std::string bytes = begin_packet(PacketKind::resume);
    put(bytes, resume->generation);
    for (auto const& variable : resume->environment) {
      if (bytes.size() + sizeof(std::uint32_t) + variable.size() > kMostBytes) {
        break;
      }
      put_text(bytes, variable);
    }
    return bytes;
  }
  if (auto const* const verdict = std::get_if<wire::RailVerdict>(&packet)) {
    std::string bytes = begin_packet(PacketKind::verdict);
    put(bytes, static_cast<std::uint8_t>(verdict->what));
    put_text(bytes, verdict->own);
    return bytes;
  }
  if (auto const* const answer = std::get_if<Answer>(&packet)) {
    std::string bytes = begin_packet(PacketKind::answer);
    put(bytes, static_cast<std::uint8_t>(answer->more ? 1 : 0));
    put_text(bytes, std::string_view(answer->text).substr(0, kMostAnswered));
    return bytes;
  }
  return begin_packet(PacketKind::welcome);
}

std::optional<FromWorker> decode_from_worker(std::string_view bytes) {
  Fields fields(bytes);
  auto const what = static_cast<PacketKind>(fields.number<std::uint8_t>());
  if (what == PacketKind::registers) {
    Register here;
    here.generation = fields.number<std::uint64_t>();
    here.local_rank = fields.number<std::uint32_t>();
    auto const how = fields.up_to(kShrinks);
    here.survives = how >= kSurvives;
    here.shrinks = how == kShrinks;
    return whole<FromWorker>(fields, here);
  }
  if (what == PacketKind::parked) {
    Parked parked;
    parked.generation = fields.number<std::uint64_t>();
    parked.why = fields.text(kWhy);
    return whole<FromWorker>(fields, std::move(parked));
  }
  if (what == PacketKind::claim) {
    wire::RailClaim claim;
    claim.side = static_cast<wire::RailSide>(fields.up_to(static_cast<std::uint8_t>(wire::RailSide::called)));
    claim.call = fields.greeting();
    claim.answer = fields.greeting();
    claim.theirs = fields.text(wire::kRailProof);
    return whole<FromWorker>(fields, std::move(claim));
  }
  if (what == PacketKind::question) {
    Question question;
    question.text = fields.text(kMostAsked);
    return whole<FromWorker>(fields, std::move(question));
  }
  return std::nullopt;
}

std::optional<FromAgent> decode_from_agent(std::string_view bytes) {
  Fields fields(bytes);
  switch (static_cast<PacketKind>(fields.number<std::uint8_t>())) {
    case PacketKind::welcome: return whole<FromAgent>(fields, Welcome{});
    case PacketKind::no: {
      No no;
      no.why = fields.text(kWhy);
      return whole<FromAgent>(fields, std::move(no));
    }
    case PacketKind::resume: {
      Resume resume;
      resume.generation = fields.number<std::uint64_t>();
      while (fields.ok() && !fields.at_end()) {
        auto const variable = fields.text(kMostBytes);
        if (!is_variable(variable)) {
          return std::nullopt;
        }
        resume.environment.emplace_back(variable);
      }
      return whole<FromAgent>(fields, std::move(resume));
    }
    case PacketKind::verdict: {
      using What = wire::RailVerdict::What;
      wire::RailVerdict verdict;
      verdict.what = static_cast<What>(fields.up_to(static_cast<std::uint8_t>(What::relayed)));
      verdict.own = fields.text(wire::kRailProof);
      return whole<FromAgent>(fields, std::move(verdict));
    }
    case PacketKind::answer: {
      Answer answer;
      answer.more = fields.up_to(1) == 1;
      answer.text = fields.text(kMostAnswered);
      return whole<FromAgent>(fields, std::move(answer));
    }
    default: return std::nullopt;
  }
}

}  // namespace cxxrun::worker
