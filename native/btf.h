// SPDX-License-Identifier: Apache-2.0
//
// btf.h: the types of an ELF object or of raw BTF, one object each, in order of their ids.
#pragma once

#include <napi.h>

namespace waggle {

// native.readBtf(path)
Napi::Value ReadBtf(const Napi::CallbackInfo& info);

}  // namespace waggle
