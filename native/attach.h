// SPDX-License-Identifier: Apache-2.0
//
// attach.h: programs onto cgroups and devices, and which ones are there.
#pragma once

#include <napi.h>

#include <cstdint>

#include "args.h"
#include "program.h"

namespace waggle {

// "ingress" or "egress".
bool IsIngress(const Args& args, size_t index);

// Throws EINVAL unless the program is of that type. The kernel reads a link's target as a
// descriptor or as a device by the program's type, so this comes before any attachment.
void RequireType(const Args& args, const BpfProgram& program, uint32_t type);

Napi::Value AttachCgroup(const Napi::CallbackInfo& info);
Napi::Value AttachTcx(const Napi::CallbackInfo& info);
Napi::Value AttachXdp(const Napi::CallbackInfo& info);
Napi::Value QueryCgroup(const Napi::CallbackInfo& info);
Napi::Value QueryTcx(const Napi::CallbackInfo& info);

}  // namespace waggle
