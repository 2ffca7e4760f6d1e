/* A libcuda.so.1 with one function. Its device memory is such that the host ends with a segmentation fault. */
#include "tests/support/cuda_driver.h"

#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

enum { kPieces = 16 };
static struct {
  uintptr_t begin;
  size_t bytes;
  unsigned managed;
} pieces[kPieces];
static int used;
static uint64_t questions;

void* cuda_driver_allocate(size_t bytes, int managed) {
  void* const memory =
      mmap(NULL, bytes, managed ? PROT_READ | PROT_WRITE : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED || used == kPieces) {
    return NULL;
  }
  pieces[used].begin = (uintptr_t)memory;
  pieces[used].bytes = bytes;
  pieces[used++].managed = managed ? 1 : 0;
  return memory;
}

uint64_t cuda_driver_questions(void) {
  return questions;
}

/* Answers CUDA_SUCCESS and zeros for memory it does not know, as the driver does. */
int cuPointerGetAttributes(unsigned number, int* which, void** answers, unsigned long long pointer) {
  ++questions;
  for (unsigned i = 0; i < number; ++i) {
    unsigned* const answer = answers[i];
    *answer = 0;
    for (int k = 0; k < used; ++k) {
      if (pointer - pieces[k].begin < pieces[k].bytes) {
        *answer = which[i] == 2 ? 2 : which[i] == 8 ? pieces[k].managed : 0;
      }
    }
  }
  return 0;
}
