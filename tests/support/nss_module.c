// A module of the name service switch, as sites have their own: it knows one host, and getaddrinfo finds it with
// "hosts: cxxrun" in nsswitch.conf.
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <nss.h>
#include <stdint.h>
#include <string.h>

enum nss_status _nss_cxxrun_gethostbyname4_r(char const* name, struct gaih_addrtuple** found, char* buffer, size_t size,
                                             int* error, int* host_error, int32_t* ttl);

enum nss_status _nss_cxxrun_gethostbyname4_r(char const* name, struct gaih_addrtuple** found, char* buffer, size_t size,
                                             int* error, int* host_error, int32_t* ttl) {
  (void)ttl;
  if (strcmp(name, "of-a-module") != 0) {
    *error = ENOENT;
    *host_error = HOST_NOT_FOUND;
    return NSS_STATUS_NOTFOUND;
  }
  if (*found == NULL) {
    size_t const aside = (8 - (uintptr_t)buffer % 8) % 8;
    if (size < aside + sizeof **found) {
      *error = ERANGE;
      *host_error = NETDB_INTERNAL;
      return NSS_STATUS_TRYAGAIN;
    }
    *found = (struct gaih_addrtuple*)(void*)(buffer + aside);
  }
  **found = (struct gaih_addrtuple){.name = (char*)name, .family = AF_INET};
  inet_pton(AF_INET, "10.99.0.1", (*found)->addr);
  return NSS_STATUS_SUCCESS;
}
