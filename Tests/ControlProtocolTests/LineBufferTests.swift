import ControlProtocol
import Testing

@Suite struct LineBufferTests {
  @Test func linesComeOutHoweverTheyComeIn() throws {
    let stream = Array("one\n\nthree and more\nlast".utf8)
    for size in 1...stream.count {
      var buffer = LineBuffer(limit: 14)
      var lines: [String] = []
      var rest = stream[...]
      while !rest.isEmpty {
        buffer.append(rest.prefix(size))
        rest = rest.dropFirst(size)
        while let line = try buffer.next() { lines.append(String(decoding: line, as: UTF8.self)) }
      }
      #expect(lines == ["one", "", "three and more"])
    }
  }

  @Test func aLineThatIsTooLongIsRefusedBeforeItEnds() throws {
    var buffer = LineBuffer(limit: 8)
    buffer.append(Array("12345678".utf8))
    #expect(try buffer.next() == nil)
    buffer.append([0x39])
    #expect(throws: LineBuffer.Overflow.lineTooLong) { try buffer.next() }

    var whole = LineBuffer(limit: 8)
    whole.append(Array("123456789\nnext\n".utf8))
    #expect(throws: LineBuffer.Overflow.lineTooLong) { try whole.next() }
  }

  @Test func theLimitItselfIsAllowed() throws {
    var buffer = LineBuffer(limit: 8)
    buffer.append(Array("12345678\n".utf8))
    #expect(try buffer.next()?.count == 8)
    #expect(try buffer.next() == nil)
  }
}
