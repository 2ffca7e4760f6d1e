#include "rendezvous/net/key_ring.hpp"

#include <algorithm>
#include <utility>

#include <boost/asio/post.hpp>

#include "rendezvous/trust/secret.hpp"
#include "src/core/time.hpp"
#include "src/os/beside.hpp"
#include "src/os/munge.hpp"
#include "src/os/random.hpp"

namespace cxxrun::rendezvous {
namespace {

constexpr Millis kWrapDeadline{2000};
constexpr Millis kUnwrapDeadline{4000};
constexpr char const* kSilent = "munged or the home directory does not answer";
constexpr char const* kRemedy = "; set CXXRUN_SECRET_FILE to a file of mode 0600 with the same content on all nodes";
constexpr std::string_view kInCredential = "cxxrun key 1:";

std::string in_credential(Key const& key) {
  return std::string(kInCredential).append(key.bytes().begin(), key.bytes().end());
}

std::optional<Key> out_of_credential(std::string const& payload) {
  if (payload.size() != kInCredential.size() + Key::kBytes || !payload.starts_with(kInCredential)) {
    return std::nullopt;
  }
  Key::Bytes bytes{};
  std::copy_n(payload.begin() + kInCredential.size(), bytes.size(), bytes.begin());
  Key const key(bytes);
  explicit_bzero(bytes.data(), bytes.size());
  return key;
}

Result<Wrap> wrap_by(WrapKind kind, KeyTransports const& transports, Key const& key) {
  if (kind == WrapKind::munge) {
    std::string words = in_credential(key);
    auto credential = os::munge_encode(words);
    wipe(words);
    return credential ? Result<Wrap>({kind, *std::move(credential)}) : credential.error();
  }
  auto const secret = transports.secret(true);
  return secret ? Result<Wrap>({kind, wrap(*secret, key, random_bytes<WrapNonce{}.size()>())}) : secret.error();
}

Result<Key> unwrap_one(KeyTransports const& transports, Wrap const& wrapped) {
  if (wrapped.kind == WrapKind::munge) {
    auto payload = os::munge_decode(wrapped.bytes);
    auto const key = payload ? out_of_credential(*payload) : std::nullopt;
    if (payload) {
      wipe(*payload);
    }
    return key ? Result<Key>(*key) : fail(Errc::refused, payload ? "no key of cxxrun's" : payload.error().message());
  }
  auto const secret = transports.secret(false);
  if (!secret) {
    return secret.error();
  }
  auto const key = unwrap(*secret, wrapped.bytes);
  return key ? Result<Key>(*key) : fail(Errc::refused, "it has another secret");
}

/// The ways of one key to be tried at once: the first that leads to it, else what all of them said.
struct Trial {
  KeyRing::Found found;
  std::size_t left = 0;
  std::string trouble;

  void heard(Result<Key> const& key, KeyId const& id) {
    --left;
    bool const right = key && id_of(*key) == id;
    if (!right) {
      trouble += (trouble.empty() ? "" : "; ") + (key ? "it names another key than it offers" : key.error().message());
    }
    if (found && (right || left == 0)) {
      std::exchange(found, {})(right ? key : fail(Errc::refused, trouble + kRemedy));
    }
  }
};

}  // namespace

KeyRing::KeyRing(boost::asio::io_context& io, KeyTransports transports) : io_(io), transports_(std::move(transports)) {}

bool KeyRing::has(WrapKind kind) const {
  return kind == WrapKind::munge ? transports_.munge : static_cast<bool>(transports_.secret);
}

Result<void> KeyRing::make(bool shared) {
  auto bytes = random_bytes<Key::kBytes>();
  own_ = Key(bytes);
  explicit_bzero(bytes.data(), bytes.size());
  wraps_.clear();
  if (!shared) {
    return {};
  }
  struct Way {
    std::shared_ptr<std::optional<Result<Wrap>>> made = std::make_shared<std::optional<Result<Wrap>>>();
    std::unique_ptr<os::BoundedThread> thread;
  };
  std::vector<Way> ways;
  for (WrapKind const kind : {WrapKind::munge, WrapKind::secret}) {
    if (has(kind)) {
      auto& way = ways.emplace_back();
      way.thread = std::make_unique<os::BoundedThread>("cxxrun-key",
                                                       [made = way.made, kind, transports = transports_, key = *own_] {
                                                         made->emplace(wrap_by(kind, transports, key));
                                                       });
    }
  }
  std::string trouble = ways.empty() ? "--auth file needs CXXRUN_SECRET_FILE or HOME" : "";
  auto const deadline = Clock::now() + kWrapDeadline;
  for (auto const& way : ways) {
    bool const in_time = way.thread->join_until(deadline);
    if (in_time && **way.made) {
      wraps_.push_back(***way.made);
    } else {
      trouble += (trouble.empty() ? "" : "; ") + (in_time ? (*way.made)->error().message() : kSilent);
    }
  }
  return !wraps_.empty() ? Result<void>()
                         : fail(Errc::io, "no key to share with the other nodes: " + trouble + kRemedy);
}

void KeyRing::take(Key const& key) {
  if (own_ != key) {  // else it was made here
    own_ = key;
    wraps_.clear();
  }
}

Guard KeyRing::called() const {
  return Guard::of_called(own_, {random_bytes<Fresh{}.size()>(), own_ ? id_of(*own_) : KeyId{}, wraps_});
}

Guard KeyRing::calls() const {
  return Guard::of_caller(random_bytes<Fresh{}.size()>());
}

std::optional<Key> KeyRing::known(KeyId const& id) const {
  if (own_ && id_of(*own_) == id) {
    return own_;
  }
  auto const it = known_.find(id);
  return it == known_.end() ? std::nullopt : std::optional(it->second);
}

void KeyRing::unwrap(KeyOffer const& offer, Found found) {
  auto const trial = std::make_shared<Trial>();
  trial->found = [weak = weak_from_this(), found = std::move(found)](Result<Key> const& key) {
    if (auto const self = weak.lock()) {
      if (key) {
        self->know(*key);
      }
      found(key);
    }
  };
  for (auto const& wrapped : offer.wraps) {
    if (has(wrapped.kind)) {
      ++trial->left;
      os::beside<Result<Key>>(
          io_, "cxxrun-key", kUnwrapDeadline,
          [transports = transports_, wrapped] { return unwrap_one(transports, wrapped); }, fail(Errc::timeout, kSilent),
          [trial, id = offer.key](Result<Key> const& key) { trial->heard(key, id); });
    }
  }
  if (trial->left == 0) {
    trial->left = 1;
    boost::asio::post(io_, [trial] { trial->heard(fail(Errc::refused, "it offers no way to get its key"), {}); });
  }
}

}  // namespace cxxrun::rendezvous
