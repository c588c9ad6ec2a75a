// SPDX-License-Identifier: Apache-2.0
#include "bytes.h"

#include <cerrno>
#include <cstring>

#include "errors.h"

namespace waggle {
namespace {

// Below this a copy is cheaper than an ArrayBuffer with a finalizer.
constexpr size_t kCopyLimit = 64 * 1024;

}  // namespace

void ByteBuffer::Reserve(size_t size) {
  if (size <= capacity_) return;
  void* larger = size > kMaxResult ? nullptr : realloc(data_, size);
  if (!larger) throw SystemError(env_, ENOMEM, function_, object_);
  data_ = static_cast<uint8_t*>(larger);
  capacity_ = size;
}

Napi::Uint8Array ByteBuffer::Take(size_t size) {
  if (size <= kCopyLimit) {
    Napi::Uint8Array copy = Napi::Uint8Array::New(env_, size);
    if (size) memcpy(copy.Data(), data_, size);
    return copy;
  }
  if (void* exact = realloc(data_, size)) data_ = static_cast<uint8_t*>(exact);
  Napi::ArrayBuffer buffer = Napi::ArrayBuffer::New(env_, data_, size, [](Napi::BasicEnv, void* data) { free(data); });
  data_ = nullptr;
  capacity_ = 0;
  return Napi::Uint8Array::New(env_, size, buffer, 0);
}

}  // namespace waggle
