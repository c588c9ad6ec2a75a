// SPDX-License-Identifier: Apache-2.0
//
// network.h: which devices, addresses and default routes are there?
#pragma once

#include <napi.h>

namespace waggle {

// native.readNetwork()
Napi::Value ReadNetwork(const Napi::CallbackInfo& info);

}  // namespace waggle
