// SPDX-License-Identifier: Apache-2.0
//
// ring_buffer.h: records of a BPF ring buffer on the event loop.
#pragma once

#include <napi.h>

#include <memory>
#include <string>

#include "handle.h"

namespace waggle {

struct Ring;

struct RingBufferState {
  std::shared_ptr<Ring> ring;
  std::string name;
};

class RingBuffer : public Handle<RingBuffer, RingBufferState> {
 public:
  static constexpr HandleClass kClass = HandleClass::kRingBuffer;
  static constexpr const char* kName = "RingBuffer";
  static constexpr napi_type_tag kTag = {0x7761676c72696e67, 0xc4e6081a2b3d5f71};

  static void Init(Napi::Env env);

  explicit RingBuffer(const Napi::CallbackInfo& info);

  bool open() const;
  const std::string& name() const { return state_.name; }

 private:
  Napi::Value RefLoop(const Napi::CallbackInfo& info);
  Napi::Value UnrefLoop(const Napi::CallbackInfo& info);
  Napi::Value Close(const Napi::CallbackInfo& info);
};

// native.openRingBuffer(map, onRecords)
Napi::Value OpenRingBuffer(const Napi::CallbackInfo& info);

}  // namespace waggle
