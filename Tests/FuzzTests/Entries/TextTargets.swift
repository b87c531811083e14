import Model
import Platform

/// Names and lists that come from other users of the machine, other devices and the kernel.
extension FuzzTarget {
  static let textTargets: [FuzzTarget] = [
    FuzzTarget(
      "access-list", limit: 1024,
      seeds: {
        func entry(_ tag: UInt8, _ permissions: UInt8, _ id: UInt8 = 0xFF) -> [UInt8] {
          [tag, 0, permissions, 0, id, id, id, id]
        }
        let minimal = [2, 0, 0, 0] + entry(1, 7) + entry(4, 5) + entry(0x20, 0)
        let naming =
          [2, 0, 0, 0] + entry(1, 7) + entry(2, 6, 1) + entry(4, 5) + entry(8, 4, 2)
          + entry(0x10, 7) + entry(0x20, 0)
        return [minimal, naming, [2, 0, 0, 0]]
      },
      run: { bytes in
        guard var list = try? AccessControlList(decoding: bytes) else { return }
        try expect(list.encoded == bytes, "an access list has two encodings")
        let mode = list.mode(over: 0o644)
        try expect(mode <= 0o7777, "an access list makes a mode with other bits")
        let (inherited, itsMode) = list.inherited(mode: 0o750)
        try expect(
          inherited.mode(over: 0o750) == itsMode, "an inherited list and its mode differ")
        list.follow(mode: 0o7531)
        try expect(
          (try? AccessControlList(decoding: list.encoded)) == list,
          "an access list that follows a mode is none")
      }),
    FuzzTarget(
      "names", limit: 1024,
      seeds: {
        [
          "iCloud.com.example.notes", "Straße İ.TXT", "a\u{301}.nosync", "x.app", "..",
          "\u{202E}gpj.exe\u{7}", "00000000000000000000000000000001",
        ].map { [UInt8]($0) }
      },
      run: { bytes in
        let text = bytes.text
        if let id = try? ContainerID(text) {
          try expect((try? ContainerID(id.description)) == id, "a container's name is another one")
        }
        if let id = ItemID(hex: text) {
          try expect(ItemID(hex: id.description) == id, "an identity")
        }
        for (shown, allowed) in [(VisibleText.of(text), "\n\t"), (VisibleText.field(text), "")] {
          try expect(
            !shown.unicodeScalars.contains {
              ($0.value < 0x20 || 0x7F...0x9F ~= $0.value) && !allowed.unicodeScalars.contains($0)
            }, "a terminal is given a control character")
          try expect(VisibleText.of(shown) == shown, "the visible text of a visible text differs")
        }
        guard let name = try? ItemName(bytes) else { return }
        _ = PackageTypes.standard.contains(name)
        _ = FoldedName(name)
        for number in [2, 10_000] {
          let numbered = name.numbered(number)
          try expect(
            (try? ItemName(numbered.bytes)) == numbered, "a numbered name is not allowed")
        }
      }),
    FuzzTarget(
      "mount-table", limit: 4096,
      seeds: {
        [
          """
          36 35 98:0 /mnt1 /mnt2\\040x rw,noatime master:1 shared:2 - ext3 /dev/root rw
          40 36 0:9 / /mnt2\\134 rw - fuse.ubiquityfs iCloud.com.example.notes rw

          """
        ].map { [UInt8]($0) }
      },
      run: { bytes in
        let table = MountTable.parse(bytes)
        _ = MountTable.mount(of: [UInt8]("/mnt2 x/y"), in: table)
        for mount in table { _ = MountTable.mount(of: mount.mountpoint, in: table) }
      }),
  ]
}
