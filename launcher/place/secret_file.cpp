#include "launcher/place/secret_file.hpp"

#include <cerrno>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/place/discovery_file.hpp"
#include "rendezvous/trust/secret.hpp"
#include "src/base/os/fd.hpp"
#include "src/base/os/folder.hpp"
#include "src/base/os/random.hpp"
#include "src/base/os/system.hpp"

namespace cxxrun::launcher {
namespace {

using rendezvous::Key;
using rendezvous::KeyTransports;

constexpr std::size_t kLongest = 4096;
constexpr std::size_t kDigits = 64;
constexpr char const* kSecret = "CXXRUN_SECRET";
constexpr char const* kSecretFile = "CXXRUN_SECRET_FILE";

Result<Key> read_secret_file(std::string const& path) {
  auto text = read_private_file(path, kLongest, "put a new secret into a file of mode 0600");
  if (!text) {
    return text.error();
  }
  auto secret = rendezvous::read_secret(*text);
  rendezvous::wipe(*text);
  return secret ? secret : fail(Errc::usage, path + ": " + secret.error().message());
}

/// Several nodes may do this at once. The first one that links its file to `path` wins, and all read that file.
Result<void> create_secret(std::string const& path) {
  mkdir(path.substr(0, path.rfind('/')).c_str(), 0700);  // an error shows when the file is created
  auto const folder = os::Folder::above(path);
  std::string const name = os::name_in(path);
  std::string const temporary = name + "." + random_hex(16);
  auto const file = folder ? folder.create(temporary) : os::UniqueFd();
  bool const written = file && os::write_all(file.get(), random_hex(kDigits) + "\n") && fsync(file.get()) == 0;
  bool const linked = written && (folder.link(temporary, name) || errno == EEXIST);
  int const error = errno;
  folder.remove(temporary);
  return linked ? Result<void>() : fail(Errc::permission, "cannot make " + path, error);
}

}  // namespace

Result<Key> secret_in(std::string const& path, bool create) {
  auto secret = read_secret_file(path);
  if (secret || secret.error().code != Errc::not_found || !create) {
    return secret;
  }
  auto const made = create_secret(path);
  return made ? read_secret_file(path) : made.error();
}

GivenSecret take_secret() {
  auto text = os::take_variable(kSecret);
  auto const path = os::take_variable(kSecretFile);
  if (!text && !path) {
    return std::nullopt;
  }
  auto const secret = text ? rendezvous::read_secret(*text) : secret_in(*path, false);
  if (text) {
    rendezvous::wipe(*text);
  }
  return secret ? secret
                : fail(Errc::usage, (text ? kSecret : kSecretFile) + std::string(": ") + secret.error().message());
}

Result<KeyTransports> key_transports(Auth auth, GivenSecret const& given, std::string const& home) {
  KeyTransports transports;
  transports.munge = auth == Auth::munge || (auth == Auth::automatic && !given);
  if (auth == Auth::munge || auth == Auth::none) {
    return transports;
  }
  if (given && !*given) {
    return given->error();
  }
  if (given) {
    transports.secret = [secret = **given](bool /*create*/) -> Result<Key> { return secret; };
  } else if (!home.empty()) {
    transports.secret = [own = home + "/.cxxrun/key"](bool create) { return secret_in(own, create); };
  }
  return transports;
}

std::vector<std::uint16_t> hidden_ports_of(KeyTransports const& transports, std::vector<std::uint16_t> const& ports) {
  if (!transports.secret || ports.size() == 1) {
    return {};
  }
  auto const secret = within_patience("", [read = transports.secret] { return read(true); });
  return secret ? rendezvous::hidden_ports(*secret, ports) : std::vector<std::uint16_t>();
}

}  // namespace cxxrun::launcher
