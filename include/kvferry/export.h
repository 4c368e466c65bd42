// KVFERRY_API marks what libkvferry.so exports; everything else is hidden.
#pragma once
#define KVFERRY_API __attribute__((visibility("default")))
