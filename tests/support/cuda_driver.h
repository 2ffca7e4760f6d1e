/* A driver of CUDA's for tests without CUDA: cuda_driver.c, built as driver/libcuda.so.1. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
void* cuda_driver_allocate(size_t bytes, int managed);
/* How often it was asked whose memory something is. */
uint64_t cuda_driver_questions(void);
int cuPointerGetAttributes(unsigned number, int* which, void** answers, unsigned long long pointer);
#ifdef __cplusplus
}
#endif
