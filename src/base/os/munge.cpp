#include "src/base/os/munge.hpp"

#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <memory>
#include <munge.h>
#include <unistd.h>

#include "src/base/os/system.hpp"

namespace cxxrun::os {
namespace {

/// The functions of libmunge that we use, with their own types.
struct Munge {
  decltype(&munge_ctx_create) ctx_create = nullptr;
  decltype(&munge_ctx_destroy) ctx_destroy = nullptr;
  decltype(&munge_ctx_set) ctx_set = nullptr;
  decltype(&::munge_encode) encode = nullptr;
  decltype(&::munge_decode) decode = nullptr;
  decltype(&munge_strerror) describe = nullptr;
};

/// The library stays loaded until the process ends.
Result<Munge> load() {
  void* const library = dlopen("libmunge.so.2", RTLD_NOW | RTLD_LOCAL);
  Munge munge;
  if (library == nullptr || !find_function(library, "munge_ctx_create", munge.ctx_create) ||
      !find_function(library, "munge_ctx_destroy", munge.ctx_destroy) ||
      !find_function(library, "munge_ctx_set", munge.ctx_set) ||
      !find_function(library, "munge_encode", munge.encode) || !find_function(library, "munge_decode", munge.decode) ||
      !find_function(library, "munge_strerror", munge.describe)) {
    return fail(Errc::not_found, "libmunge.so.2 is not installed here");
  }
  return munge;
}

}  // namespace

Result<std::string> munge_encode(std::string_view payload) {
  auto const munge = load();
  if (!munge) {
    return munge.error();
  }
  std::unique_ptr<munge_ctx, decltype(&munge_ctx_destroy)> const context(munge->ctx_create(), munge->ctx_destroy);
  char* credential = nullptr;
  munge_err_t error = context ? munge->ctx_set(context.get(), MUNGE_OPT_UID_RESTRICTION, geteuid()) : EMUNGE_NO_MEMORY;
  if (error == EMUNGE_SUCCESS) {
    error = munge->encode(&credential, context.get(), payload.data(), static_cast<int>(payload.size()));
  }
  std::unique_ptr<char, decltype(&std::free)> const made(credential, std::free);
  return error == EMUNGE_SUCCESS ? Result<std::string>(credential)
                                 : fail(Errc::io, std::string("munged: ") + munge->describe(error));
}

Result<std::string> munge_decode(std::string const& credential) {
  auto const munge = load();
  if (!munge) {
    return munge.error();
  }
  void* payload = nullptr;
  int bytes = 0;
  uid_t uid = 0;
  gid_t gid = 0;
  munge_err_t const error = munge->decode(credential.c_str(), nullptr, &payload, &bytes, &uid, &gid);
  std::unique_ptr<void, decltype(&std::free)> const made(payload, std::free);
  bool const opened = error == EMUNGE_SUCCESS || error == EMUNGE_CRED_EXPIRED || error == EMUNGE_CRED_REWOUND ||
                      error == EMUNGE_CRED_REPLAYED;
  if (opened && uid != geteuid()) {  // another user made it for us
    return fail(Errc::permission, "the credential was made by uid " + std::to_string(uid));
  }
  if (!opened || payload == nullptr) {
    return fail(error == EMUNGE_CRED_UNAUTHORIZED ? Errc::permission : Errc::io,
                std::string("munged: ") + (opened ? "the credential is empty" : munge->describe(error)));
  }
  std::string said(static_cast<char const*>(payload), static_cast<std::size_t>(bytes));
  explicit_bzero(payload, static_cast<std::size_t>(bytes));  // it is secret, and free() does not wipe it
  return said;
}

}  // namespace cxxrun::os
