// All of the module. Without this header the compiler takes the directory for it, and does not
// notice a new header in a module that it has built before.
#pragma once

#include "checksum.h"
#include "connections.h"
#include "record.h"
#include "shim.h"
