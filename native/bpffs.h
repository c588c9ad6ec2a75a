// SPDX-License-Identifier: Apache-2.0
//
// bpffs.h: the file system in which pins live.
#pragma once

#include <napi.h>

namespace waggle {

// native.mountBpffs(path)
Napi::Value MountBpffs(const Napi::CallbackInfo& info);

}  // namespace waggle
