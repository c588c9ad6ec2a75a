// SPDX-License-Identifier: Apache-2.0
//
// args.h: is this argument fit for use?
// Each getter throws a TypeError or RangeError that names the function and the argument.
// A function reads all its arguments before its first effect.
#pragma once

#include <napi.h>

#include <cstdint>
#include <string>

namespace waggle {

// A view into a Uint8Array: valid until JavaScript runs again.
struct Bytes {
  uint8_t* data = nullptr;
  size_t size = 0;
};

class Args {
 public:
  // `function` is the name that errors carry.
  Args(const Napi::CallbackInfo& info, const char* function) : info_(info), function_(function) {}

  Napi::Env env() const { return info_.Env(); }
  const char* function() const { return function_; }
  Napi::Value value(size_t index) const { return info_[index]; }
  bool absent(size_t index) const { return info_[index].IsUndefined(); }

  // A Uint8Array of any length; of exactly `size` bytes.
  Bytes GetBytes(size_t index, const char* name) const;
  Bytes GetBytes(size_t index, const char* name, size_t size) const;
  // An integer between min and max, both included.
  uint32_t GetUint32(size_t index, const char* name, uint32_t min = 0, uint32_t max = UINT32_MAX) const;
  // A device index: 1 and up.
  int GetIfindex(size_t index) const;
  // Not empty, without NUL.
  std::string GetString(size_t index, const char* name) const;
  bool GetBool(size_t index, const char* name) const;
  Napi::Function GetFunction(size_t index, const char* name) const;
  Napi::Object GetObject(size_t index, const char* name) const;

  // The same for a property of an options object. Reading it may run JavaScript, so
  // options are read before any Bytes.
  uint32_t ToUint32(const Napi::Value& value, const char* name, uint32_t min, uint32_t max) const;
  std::string ToText(const Napi::Value& value, const char* name) const;
  Bytes ToBytes(const Napi::Value& value, const char* name) const;

 private:
  const Napi::CallbackInfo& info_;
  const char* function_;
};

}  // namespace waggle
