// newer_libc.c as with glibc 2.28 and 2.29, which lack pthread_cond_clockwait: dlsym finds nothing.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <sys/random.h>
#include <unistd.h>

static void* find_nothing(void* handle, char const* name) {
  (void)handle;
  (void)name;
  return NULL;
}

#define dlsym find_nothing
#define pthread_cond_clockwait clockwait_of_old_libc
// Its other functions must not replace those of this libc.
#define close_range close_range_of_old_libc
#define arc4random arc4random_of_old_libc
#define _dl_find_object find_object_of_old_libc
#define __libc_single_threaded single_threaded_of_old_libc
#include "src/base/os/newer_libc.c"
