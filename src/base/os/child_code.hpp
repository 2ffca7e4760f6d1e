// Code of a child that shares its parent's memory: no sanitizer may look at it.
#pragma once

#define CXXRUN_CHILD_CODE __attribute__((no_sanitize("address", "thread", "undefined")))
