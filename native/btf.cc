// SPDX-License-Identifier: Apache-2.0
#include "btf.h"

#include <bpf/btf.h>

#include <cerrno>
#include <memory>
#include <string>

#include "args.h"
#include "errors.h"
#include "file.h"

namespace waggle {
namespace {

struct BtfFree {
  void operator()(btf* types) const { btf__free(types); }
};
using Types = std::unique_ptr<btf, BtfFree>;

const char* NameAt(const btf* types, uint32_t offset) {
  const char* name = btf__name_by_offset(types, offset);
  return name ? name : "";
}

Napi::Number Number(Napi::Env env, uint32_t value) { return Napi::Number::New(env, value); }

Napi::Array Members(Napi::Env env, const btf* types, const btf_type* type) {
  Napi::Array list = Napi::Array::New(env, btf_vlen(type));
  const btf_member* members = btf_members(type);
  for (uint32_t i = 0; i < btf_vlen(type); i++) {
    Napi::Object member = Napi::Object::New(env);
    member.Set("name", NameAt(types, members[i].name_off));
    member.Set("type", Number(env, members[i].type));
    member.Set("bitOffset", Number(env, btf_member_bit_offset(type, i)));
    member.Set("bitSize", Number(env, btf_member_bitfield_size(type, i)));
    list.Set(i, member);
  }
  return list;
}

Napi::Object EnumValue(Napi::Env env, const char* name, Napi::BigInt value) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("name", name);
  object.Set("value", value);
  return object;
}

// The kind flag says signed; compilers that do not set it mean unsigned.
Napi::Array Values(Napi::Env env, const btf* types, const btf_type* type) {
  Napi::Array list = Napi::Array::New(env, btf_vlen(type));
  bool is_signed = btf_kflag(type);
  for (uint32_t i = 0; i < btf_vlen(type); i++) {
    if (btf_is_enum64(type)) {
      const struct btf_enum64& value = btf_enum64(type)[i];
      uint64_t bits = btf_enum64_value(&value);
      list.Set(
          i, EnumValue(env, NameAt(types, value.name_off),
                       is_signed ? Napi::BigInt::New(env, static_cast<int64_t>(bits)) : Napi::BigInt::New(env, bits)));
    } else {
      const struct btf_enum& value = btf_enum(type)[i];
      list.Set(i, EnumValue(env, NameAt(types, value.name_off),
                            is_signed ? Napi::BigInt::New(env, static_cast<int64_t>(value.val))
                                      : Napi::BigInt::New(env, uint64_t{static_cast<uint32_t>(value.val)})));
    }
  }
  return list;
}

Napi::Array Variables(Napi::Env env, const btf_type* type) {
  Napi::Array list = Napi::Array::New(env, btf_vlen(type));
  const btf_var_secinfo* variables = btf_var_secinfos(type);
  for (uint32_t i = 0; i < btf_vlen(type); i++) {
    Napi::Object variable = Napi::Object::New(env);
    variable.Set("type", Number(env, variables[i].type));
    variable.Set("offset", Number(env, variables[i].offset));
    variable.Set("size", Number(env, variables[i].size));
    list.Set(i, variable);
  }
  return list;
}

const char* ReferenceKind(uint32_t kind) {
  switch (kind) {
    case BTF_KIND_PTR:
      return "ptr";
    case BTF_KIND_CONST:
      return "const";
    case BTF_KIND_VOLATILE:
      return "volatile";
    case BTF_KIND_RESTRICT:
      return "restrict";
    case BTF_KIND_TYPEDEF:
      return "typedef";
    case BTF_KIND_VAR:
      return "var";
    default:
      return nullptr;
  }
}

Napi::Object Describe(Napi::Env env, const btf* types, uint32_t id) {
  const btf_type* type = btf__type_by_id(types, id);
  uint32_t kind = btf_kind(type);
  Napi::Object object = Napi::Object::New(env);
  object.Set("id", Number(env, id));
  object.Set("name", NameAt(types, type->name_off));
  if (const char* reference = ReferenceKind(kind)) {
    object.Set("kind", reference);
    object.Set("type", Number(env, type->type));
    return object;
  }
  switch (kind) {
    case BTF_KIND_INT:
      object.Set("kind", "int");
      object.Set("size", Number(env, type->size));
      object.Set("signed", (btf_int_encoding(type) & BTF_INT_SIGNED) != 0);
      object.Set("bool", (btf_int_encoding(type) & BTF_INT_BOOL) != 0);
      break;
    case BTF_KIND_ARRAY:
      object.Set("kind", "array");
      object.Set("type", Number(env, btf_array(type)->type));
      object.Set("count", Number(env, btf_array(type)->nelems));
      break;
    case BTF_KIND_STRUCT:
    case BTF_KIND_UNION:
      object.Set("kind", kind == BTF_KIND_STRUCT ? "struct" : "union");
      object.Set("size", Number(env, type->size));
      object.Set("members", Members(env, types, type));
      break;
    case BTF_KIND_ENUM:
    case BTF_KIND_ENUM64:
      object.Set("kind", "enum");
      object.Set("size", Number(env, type->size));
      object.Set("values", Values(env, types, type));
      break;
    case BTF_KIND_DATASEC:
      object.Set("kind", "datasec");
      object.Set("size", Number(env, type->size));
      object.Set("variables", Variables(env, type));
      break;
    default:
      object.Set("kind", "other");
      object.Set("btfKind", Number(env, kind));
  }
  return object;
}

}  // namespace

Napi::Value ReadBtf(const Napi::CallbackInfo& info) {
  Args args(info, "readBtf");
  Napi::Env env = info.Env();
  std::string path = args.GetString(0, "path");
  RequireRegularFile(args, path);
  LogCapture log;
  Types types(btf__parse(path.c_str(), nullptr));
  if (!types) {
    int error = errno;
    throw SystemError(env, error, "btf__parse", path, error == ENOENT ? "the file has no .BTF section" : log.text());
  }
  uint32_t count = btf__type_cnt(types.get());
  Napi::Array list = Napi::Array::New(env, count - 1);
  for (uint32_t id = 1; id < count; id++) {
    Napi::HandleScope scope(env);  // the kernel's own BTF has a hundred thousand types
    list.Set(id - 1, Describe(env, types.get(), id));
  }
  return list;
}

}  // namespace waggle
