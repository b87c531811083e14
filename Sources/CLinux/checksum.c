#include "checksum.h"

#include <pthread.h>

static uint32_t tables[8][256];
static pthread_once_t made = PTHREAD_ONCE_INIT;

static void make_tables(void) {
  for (uint32_t n = 0; n < 256; n++) {
    uint32_t value = n;
    for (int bit = 0; bit < 8; bit++) value = value & 1 ? value >> 1 ^ 0xEDB88320u : value >> 1;
    tables[0][n] = value;
  }
  for (int slice = 1; slice < 8; slice++) {
    for (int n = 0; n < 256; n++) {
      uint32_t value = tables[slice - 1][n];
      tables[slice][n] = value >> 8 ^ tables[0][value & 0xFF];
    }
  }
}

// Eight bytes at a time, each by a table of its own.
uint32_t ubiquity_crc32(uint32_t crc, const void *bytes, size_t count) {
  pthread_once(&made, make_tables);
  const uint8_t *next = bytes;
  crc = ~crc;
  for (; count >= 8; count -= 8, next += 8) {
    uint32_t low = crc ^ ((uint32_t)next[0] | (uint32_t)next[1] << 8 | (uint32_t)next[2] << 16 |
                          (uint32_t)next[3] << 24);
    crc = tables[7][low & 0xFF] ^ tables[6][low >> 8 & 0xFF] ^ tables[5][low >> 16 & 0xFF] ^
          tables[4][low >> 24] ^ tables[3][next[4]] ^ tables[2][next[5]] ^ tables[1][next[6]] ^
          tables[0][next[7]];
  }
  for (; count > 0; count--, next++) crc = crc >> 8 ^ tables[0][(crc ^ *next) & 0xFF];
  return ~crc;
}
