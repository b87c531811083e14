#ifndef UBIQUITYFS_CZSTD_SHIM_H
#define UBIQUITYFS_CZSTD_SHIM_H

#include <zstd.h>

#endif
