// SPDX-License-Identifier: Apache-2.0
//
// Lets Debian's static libbpf and libelf go into a shared object. They are compiled for
// executables, and two things in them stop the linker:
//  - libelf's elf_error.o keeps its error in local-exec TLS. It defines only the three
//    functions below; defined here, that member is never pulled in.
//  - libbpf copies `stderr` by a copy relocation. Linked with --wrap=stderr it finds this
//    hidden copy instead, set before the addon's first call.
#include <stdio.h>

#define HIDDEN __attribute__((visibility("hidden")))

static __thread int last_error;

HIDDEN void __libelf_seterrno(int value) { last_error = value; }

HIDDEN int elf_errno(void) {
  int error = last_error;

  last_error = 0;
  return error;
}

/* 0 asks for the last error (none: NULL), -1 for the last error whatever it is. */
HIDDEN const char* elf_errmsg(int error) {
  static __thread char text[48];

  if (!error && !last_error) return NULL;
  snprintf(text, sizeof(text), "libelf error %d", error > 0 ? error : last_error);
  return text;
}

extern FILE* __real_stderr;
HIDDEN FILE* __wrap_stderr;

__attribute__((constructor)) static void copy_stderr(void) { __wrap_stderr = __real_stderr; }
