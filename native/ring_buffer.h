// SPDX-License-Identifier: Apache-2.0
//
// ring_buffer.h: records of a BPF ring buffer on the event loop.
#pragma once

#include <napi.h>

namespace waggle {

// native.openRingBuffer(map, onRecords)
Napi::Value OpenRingBuffer(const Napi::CallbackInfo& info);

}  // namespace waggle
