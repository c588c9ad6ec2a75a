// SPDX-License-Identifier: Apache-2.0
//
// clsact.h: attachment on kernels before 6.6, which have no tcx: a cls_bpf filter in
// direct action at a priority and handle of the clsact qdisc.
#pragma once

#include <napi.h>

namespace waggle {

Napi::Value AttachClsact(const Napi::CallbackInfo& info);
Napi::Value DetachClsact(const Napi::CallbackInfo& info);
Napi::Value QueryClsact(const Napi::CallbackInfo& info);

}  // namespace waggle
