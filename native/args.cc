// SPDX-License-Identifier: Apache-2.0
#include "args.h"

#include <climits>
#include <cmath>

#include "errors.h"

namespace waggle {

Bytes Args::ToBytes(const Napi::Value& value, const char* name) const {
  bool typed = false;
  if (napi_is_typedarray(env(), value, &typed) != napi_ok || !typed)
    throw WrongType(env(), function_, std::string(name) + " must be a Uint8Array");
  // Set beforehand to another type: a kind of array that this Node-API version does not
  // know leaves it untouched.
  napi_typedarray_type type = napi_int8_array;
  size_t length = 0;
  void* data = nullptr;
  napi_status status = napi_get_typedarray_info(env(), value, &type, &length, &data, nullptr, nullptr);
  if (status != napi_ok || type != napi_uint8_array)
    throw WrongType(env(), function_, std::string(name) + " must be a Uint8Array");
  return {static_cast<uint8_t*>(data), length};
}

Bytes Args::GetBytes(size_t index, const char* name) const { return ToBytes(info_[index], name); }

Bytes Args::GetBytes(size_t index, const char* name, size_t size) const {
  Bytes bytes = ToBytes(info_[index], name);
  if (bytes.size != size)
    throw OutOfRange(
        env(), function_,
        std::string(name) + " must have " + std::to_string(size) + " bytes, not " + std::to_string(bytes.size));
  return bytes;
}

uint32_t Args::ToUint32(const Napi::Value& value, const char* name, uint32_t min, uint32_t max) const {
  if (!value.IsNumber()) throw WrongType(env(), function_, std::string(name) + " must be a number");
  double number = value.As<Napi::Number>().DoubleValue();
  // Written so that NaN fails too.
  if (!(number >= min && number <= max) || number != std::floor(number))
    throw OutOfRange(
        env(), function_,
        std::string(name) + " must be an integer from " + std::to_string(min) + " to " + std::to_string(max));
  return static_cast<uint32_t>(number);
}

uint32_t Args::GetUint32(size_t index, const char* name, uint32_t min, uint32_t max) const {
  return ToUint32(info_[index], name, min, max);
}

int Args::GetIfindex(size_t index) const { return static_cast<int>(ToUint32(info_[index], "ifindex", 1, INT_MAX)); }

std::string Args::ToText(const Napi::Value& value, const char* name) const {
  if (!value.IsString()) throw WrongType(env(), function_, std::string(name) + " must be a string");
  std::string text = value.As<Napi::String>().Utf8Value();
  if (text.empty() || text.find('\0') != std::string::npos)
    throw OutOfRange(env(), function_, std::string(name) + " must be neither empty nor contain a NUL");
  return text;
}

std::string Args::GetString(size_t index, const char* name) const { return ToText(info_[index], name); }

bool Args::GetBool(size_t index, const char* name) const {
  if (!info_[index].IsBoolean()) throw WrongType(env(), function_, std::string(name) + " must be a boolean");
  return info_[index].As<Napi::Boolean>().Value();
}

Napi::Function Args::GetFunction(size_t index, const char* name) const {
  if (!info_[index].IsFunction()) throw WrongType(env(), function_, std::string(name) + " must be a function");
  return info_[index].As<Napi::Function>();
}

Napi::Object Args::GetObject(size_t index, const char* name) const {
  if (!info_[index].IsObject()) throw WrongType(env(), function_, std::string(name) + " must be an object");
  return info_[index].As<Napi::Object>();
}

}  // namespace waggle
