// SPDX-License-Identifier: Apache-2.0
//
// device.h: what does the kernel tell of a device?
#pragma once

#include <napi.h>

namespace waggle {

Napi::Value QueryDevice(const Napi::CallbackInfo& info);

}  // namespace waggle
