// SPDX-License-Identifier: Apache-2.0
//
// netns.h: network namespaces and the devices in them.
#pragma once

#include <napi.h>

namespace waggle {

Napi::Value InNetns(const Napi::CallbackInfo& info);
Napi::Value NetnsInode(const Napi::CallbackInfo& info);
Napi::Value NetnsCookie(const Napi::CallbackInfo& info);
Napi::Value IfNameToIndex(const Napi::CallbackInfo& info);

}  // namespace waggle
