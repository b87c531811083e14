/// A QR code of version 2 with error correction M: 25 by 25 modules, up to 38 digits, capital
/// letters and dashes. Source: ISO/IEC 18004. Enough for a pairing code.
struct QRCode {
  static let size = 25
  private static let dataWords = 28
  private static let correctionWords = 16
  private static let alphabet = Array("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ $%*+-./:")

  /// Row by row; true is dark.
  private(set) var modules: [[Bool]]
  /// The modules of the finder, timing, alignment and format patterns, which hold no data.
  private var isFixed: [[Bool]]

  /// Nil if the text is too long or has other characters.
  init?(_ text: String) {
    guard let data = Self.data(text) else { return nil }
    let words = data + Self.correction(of: data)
    let empty = [[Bool]](
      repeating: [Bool](repeating: false, count: Self.size), count: Self.size)
    (modules, isFixed) = (empty, empty)
    drawPatterns()
    draw(words)
    let plain = modules
    var best = (penalty: Int.max, modules: plain)
    for mask in 0..<8 {
      modules = plain
      apply(mask)
      drawFormat(mask)
      let penalty = penalty
      if penalty < best.penalty { best = (penalty, modules) }
    }
    modules = best.modules
  }

  // MARK: Words

  private static func data(_ text: String) -> [UInt8]? {
    var values: [Int] = []
    for character in text {
      guard let value = alphabet.firstIndex(of: character) else { return nil }
      values.append(value)
    }
    var bits: [Bool] = []
    func append(_ value: Int, _ count: Int) {
      for place in (0..<count).reversed() { bits.append(value >> place & 1 == 1) }
    }
    append(0b0010, 4)
    append(values.count, 9)
    for start in stride(from: 0, to: values.count - 1, by: 2) {
      append(values[start] * 45 + values[start + 1], 11)
    }
    if values.count % 2 == 1, let last = values.last { append(last, 6) }
    let capacity = dataWords * 8
    guard bits.count <= capacity else { return nil }
    bits += [Bool](repeating: false, count: min(4, capacity - bits.count))
    while bits.count % 8 != 0 { bits.append(false) }
    var words = stride(from: 0, to: bits.count, by: 8).map { start in
      bits[start..<start + 8].reduce(UInt8(0)) { $0 << 1 | ($1 ? 1 : 0) }
    }
    var isFirst = true
    while words.count < dataWords {
      words.append(isFirst ? 0xEC : 0x11)
      isFirst.toggle()
    }
    return words
  }

  /// Multiplies in the field of 256 elements, modulo x^8 + x^4 + x^3 + x^2 + 1.
  private static func product(_ left: UInt8, _ right: UInt8) -> UInt8 {
    var (left, right, result) = (left, right, UInt8(0))
    while right != 0 {
      if right & 1 == 1 { result ^= left }
      left = left & 0x80 == 0 ? left << 1 : left << 1 ^ 0x1D
      right >>= 1
    }
    return result
  }

  /// The remainder of the words divided by the product of all x - 2^i.
  private static func correction(of data: [UInt8]) -> [UInt8] {
    var divisor = [UInt8](repeating: 0, count: correctionWords - 1) + [1]
    var root: UInt8 = 1
    for _ in 0..<correctionWords {
      for index in divisor.indices {
        divisor[index] = product(divisor[index], root)
        if index + 1 < divisor.count { divisor[index] ^= divisor[index + 1] }
      }
      root = product(root, 2)
    }
    var rest = [UInt8](repeating: 0, count: correctionWords)
    for word in data {
      let factor = word ^ rest.removeFirst()
      rest.append(0)
      for index in rest.indices { rest[index] ^= product(divisor[index], factor) }
    }
    return rest
  }

  // MARK: Modules

  private mutating func set(_ row: Int, _ column: Int, _ isDark: Bool) {
    guard (0..<Self.size).contains(row), (0..<Self.size).contains(column) else { return }
    modules[row][column] = isDark
    isFixed[row][column] = true
  }

  private mutating func drawPatterns() {
    for place in 0..<Self.size {
      set(6, place, place % 2 == 0)
      set(place, 6, place % 2 == 0)
    }
    for (row, column) in [(3, 3), (3, Self.size - 4), (Self.size - 4, 3)] {
      for down in -4...4 {
        for right in -4...4 {
          let distance = max(abs(down), abs(right))
          set(row + down, column + right, distance != 2 && distance != 4)
        }
      }
    }
    for down in -2...2 {
      for right in -2...2 {
        set(18 + down, 18 + right, max(abs(down), abs(right)) != 1)
      }
    }
    drawFormat(0)
  }

  private mutating func drawFormat(_ mask: Int) {
    // Correction M is 0.
    var rest = mask
    for _ in 0..<10 { rest = rest << 1 ^ (rest >> 9) * 0x537 }
    let bits = (mask << 10 | rest) ^ 0x5412
    func bit(_ place: Int) -> Bool { bits >> place & 1 == 1 }
    for place in 0...5 { set(place, 8, bit(place)) }
    set(7, 8, bit(6))
    set(8, 8, bit(7))
    set(8, 7, bit(8))
    for place in 9..<15 { set(8, 14 - place, bit(place)) }
    for place in 0..<8 { set(8, Self.size - 1 - place, bit(place)) }
    for place in 8..<15 { set(Self.size - 15 + place, 8, bit(place)) }
    set(Self.size - 8, 8, true)
  }

  private mutating func draw(_ words: [UInt8]) {
    var bits: ArraySlice<Bool> = []
    for word in words { for place in (0..<8).reversed() { bits.append(word >> place & 1 == 1) } }
    var isUp = true
    var right = Self.size - 1
    while right >= 1 {
      if right == 6 { right = 5 }
      for step in 0..<Self.size {
        let row = isUp ? Self.size - 1 - step : step
        for column in [right, right - 1] where !isFixed[row][column] {
          modules[row][column] = bits.popFirst() ?? false
        }
      }
      isUp.toggle()
      right -= 2
    }
  }

  private mutating func apply(_ mask: Int) {
    for row in 0..<Self.size {
      for column in 0..<Self.size where !isFixed[row][column] {
        let isInverted =
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
        if isInverted { modules[row][column].toggle() }
      }
    }
  }

  /// How hard the code is to read: runs, blocks, patterns like a finder, and too much of one
  /// colour.
  private var penalty: Int {
    let columns = (0..<Self.size).map { column in modules.map { $0[column] } }
    var result = 0
    let finder = [true, false, true, true, true, false, true]
    let light = [false, false, false, false]
    for line in modules + columns {
      var start = 0
      for place in 1...line.count where place == line.count || line[place] != line[start] {
        if place - start >= 5 { result += place - start - 2 }
        start = place
      }
      for start in 0...line.count - 11 {
        let part = Array(line[start..<start + 11])
        if part == finder + light || part == light + finder { result += 40 }
      }
    }
    for row in 1..<Self.size {
      for column in 1..<Self.size {
        let one = modules[row][column]
        if modules[row - 1][column] == one, modules[row][column - 1] == one,
          modules[row - 1][column - 1] == one
        {
          result += 3
        }
      }
    }
    let dark = modules.joined().count { $0 }
    return result + abs(dark * 20 - Self.size * Self.size * 10) / (Self.size * Self.size) * 10
  }

  // MARK: The terminal

  /// The code for a terminal: two rows of modules per line, dark on light, with the margin that
  /// readers need.
  var lines: [String] {
    func isDark(_ row: Int, _ column: Int) -> Bool {
      (0..<Self.size).contains(row) && (0..<Self.size).contains(column) && modules[row][column]
    }
    let margin = 2
    return stride(from: -margin, to: Self.size + margin, by: 2).map { row in
      // Draws the light modules, because most terminals are dark.
      String(
        (-margin..<Self.size + margin).map { column -> Character in
          switch (isDark(row, column), isDark(row + 1, column)) {
          case (false, false): "█"
          case (false, true): "▀"
          case (true, false): "▄"
          case (true, true): " "
          }
        })
    }
  }
}
