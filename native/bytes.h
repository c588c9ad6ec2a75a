// SPDX-License-Identifier: Apache-2.0
//
// bytes.h: bytes on their way to JavaScript.
#pragma once

#include <napi.h>

#include <cstdint>
#include <cstdlib>

namespace waggle {

// No result is larger: the engine ends the process when an array is too long for it.
constexpr size_t kMaxResult = size_t{1} << 30;

// A growing buffer from malloc, which can fail where the engine's allocator would end the
// process. `function` and `object` name the call in its errors.
class ByteBuffer {
 public:
  ByteBuffer(Napi::Env env, const char* function, const char* object)
      : env_(env), function_(function), object_(object) {}
  ~ByteBuffer() { free(data_); }
  ByteBuffer(const ByteBuffer&) = delete;
  ByteBuffer& operator=(const ByteBuffer&) = delete;

  // Makes room for `size` bytes in all; throws ENOMEM.
  void Reserve(size_t size);
  uint8_t* data() { return data_; }
  size_t capacity() const { return capacity_; }

  // The first `size` bytes as a Uint8Array; the buffer is empty afterwards.
  Napi::Uint8Array Take(size_t size);

 private:
  Napi::Env env_;
  const char* function_;
  const char* object_;
  uint8_t* data_ = nullptr;
  size_t capacity_ = 0;
};

}  // namespace waggle
