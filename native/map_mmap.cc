// SPDX-License-Identifier: Apache-2.0
//
// A BPF_F_MMAPABLE array as an ArrayBuffer: writes are seen by programs at once, without a
// system call.
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "kernel.h"
#include "map.h"

namespace waggle {

Napi::Value BpfMap::Mmap(const Napi::CallbackInfo& info) {
  Args args(info, "mmap");
  Napi::Env env = info.Env();
  RequireOpen(args);
  if (state_.type != BPF_MAP_TYPE_ARRAY || !(state_.flags & BPF_F_MMAPABLE))
    throw SystemError(env, EINVAL, "mmap", state_.name);

  size_t length = (size_t{state_.value_size} + 7) / 8 * 8 * state_.max_entries;
  // Writable or not at all: a store into a read-only page would end the process.
  void* memory = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, state_.fd.get(), 0);
  if (memory == MAP_FAILED) throw SystemError(env, errno, "mmap", state_.name);
  try {
    // Node marks external buffers untransferable, and the finalizer runs when the last
    // user of the memory is gone, the map's own close() notwithstanding.
    return Napi::ArrayBuffer::New(env, memory, length, [length](Napi::BasicEnv, void* data) { munmap(data, length); });
  } catch (...) {
    munmap(memory, length);
    throw;
  }
}

}  // namespace waggle
