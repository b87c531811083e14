import Testing

@testable import ubiquityfs

struct QRCodeTests {
  @Test("a QR code has its patterns, and words that a reader decodes to the text")
  func decodes() throws {
    let text = "0123-4567-89AB-CDEF-G"
    let code = try #require(QRCode(text))
    #expect(try decode(code.modules) == text)
    #expect(QRCode("lower case") == nil)
    #expect(QRCode(String(repeating: "A", count: 39)) == nil)
  }

  /// Reads the words back: the mask from the format, then the modules in their order.
  private func decode(_ modules: [[Bool]]) throws -> String {
    let size = modules.count
    var format = 0
    for place in (9..<15).reversed() { format = format << 1 | (modules[8][14 - place] ? 1 : 0) }
    let mask = (format ^ 0x5412 >> 9) >> 1 & 7
    var bits: [Bool] = []
    var isUp = true
    var right = size - 1
    while right >= 1 {
      if right == 6 { right = 5 }
      for step in 0..<size {
        let row = isUp ? size - 1 - step : step
        for column in [right, right - 1] where !isPattern(row, column, size) {
          bits.append(modules[row][column] != isMasked(mask, row, column))
        }
      }
      isUp.toggle()
      right -= 2
    }
    func number(_ start: Int, _ count: Int) -> Int {
      bits[start..<start + count].reduce(0) { $0 << 1 | ($1 ? 1 : 0) }
    }
    #expect(number(0, 4) == 2)
    let count = number(4, 9)
    let alphabet = Array("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ $%*+-./:")
    var result: [Character] = []
    var start = 13
    while result.count + 1 < count {
      let pair = number(start, 11)
      result += [alphabet[pair / 45], alphabet[pair % 45]]
      start += 11
    }
    if result.count < count { result.append(alphabet[number(start, 6)]) }
    return String(result)
  }

  private func isPattern(_ row: Int, _ column: Int, _ size: Int) -> Bool {
    let isFinder =
      row < 9 && column < 9 || row < 9 && column >= size - 8 || row >= size - 8 && column < 9
    return isFinder || row == 6 || column == 6
      || (16...20).contains(row) && (16...20).contains(column)
  }

  private func isMasked(_ mask: Int, _ row: Int, _ column: Int) -> Bool {
    switch mask {
    case 0: (row + column) % 2 == 0
    case 1: row % 2 == 0
    case 2: column % 3 == 0
    case 3: (row + column) % 3 == 0
    case 4: (row / 2 + column / 3) % 2 == 0
    case 5: row * column % 2 + row * column % 3 == 0
    case 6: (row * column % 2 + row * column % 3) % 2 == 0
    default: ((row + column) % 2 + row * column % 3) % 2 == 0
    }
  }
}
