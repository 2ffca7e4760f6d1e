#include "launcher/doctor/seal.hpp"

#include "src/os/munge.hpp"
#include "src/os/random.hpp"

namespace cxxrun::launcher::doctor {
namespace {

constexpr std::size_t kDigits = 32;

}  // namespace

Seal Seal::make(std::string const& id) {
  Seal made;
  made.table_ = random_hex(kDigits);
  auto const sealed = os::munge_encode(made.table_ + id);
  made.plain_ = sealed ? "" : sealed.error().context;
  made.greeting_ = sealed ? *sealed : made.table_ + id;
  return made;
}

Result<Seal> Seal::take(std::string const& greeting, std::string const& id) {
  bool const sealed = greeting.starts_with("MUNGE:");
  auto const said = sealed ? os::munge_decode(greeting) : Result<std::string>(greeting);
  if (!said) {
    return fail(Errc::permission, "who answers there does not prove itself: " + said.error().context);
  }
  if (said->size() < kDigits || said->substr(kDigits) != id) {
    return fail(Errc::protocol, "another job answers");
  }
  if (!sealed && os::munge_encode("")) {
    return fail(Errc::permission, "who answers there does not prove itself by MUNGE, which works here");
  }
  Seal taken;
  taken.table_ = said->substr(0, kDigits);
  taken.greeting_ = greeting;
  taken.plain_ = sealed ? "" : "the first node has no MUNGE";
  return taken;
}

Result<std::string> Seal::close(std::string const& text) const {
  return plain_.empty() ? os::munge_encode(table_ + text) : Result<std::string>(table_ + text);
}

Result<std::string> Seal::open(std::string const& sealed) const {
  auto const said = plain_.empty() ? os::munge_decode(sealed) : Result<std::string>(sealed);
  if (!said) {
    return said.error();
  }
  if (!said->starts_with(table_)) {
    return fail(Errc::protocol, "written for another table");
  }
  return said->substr(table_.size());
}

}  // namespace cxxrun::launcher::doctor
