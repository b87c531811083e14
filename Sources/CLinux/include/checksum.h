#ifndef UBIQUITYFS_CLINUX_CHECKSUM_H
#define UBIQUITYFS_CLINUX_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

/// The CRC-32 of ZIP archives, of what `crc` is of and of these bytes after it. It begins with 0.
/// In C, since it goes over every byte. Source: ISO 3309.
uint32_t ubiquity_crc32(uint32_t crc, const void *bytes, size_t count);

#endif
