// SPDX-License-Identifier: Apache-2.0
//
// netlink_watch.h: has a device, an address or a default route changed?
#pragma once

#include <napi.h>

namespace waggle {

// native.openNetlinkWatch(onChange)
Napi::Value OpenNetlinkWatch(const Napi::CallbackInfo& info);

}  // namespace waggle
