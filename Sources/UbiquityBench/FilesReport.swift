internal import Glibc

/// One thing done, on both sides, and what the daemon held after it.
struct FilesStep: Encodable {
  let name: String
  let operations: Int
  let native: Double
  let mount: Double
  let memory: Memory
}

/// Of the daemon, in KiB.
struct Memory: Encodable {
  let resident: Int
  let highest: Int
  let anonymous: Int

  init(process: pid_t) throws {
    let lines = String(decoding: try Bytes.read("/proc/\(process)/status"), as: UTF8.self)
      .split(separator: "\n")
    func value(_ key: String) -> Int {
      let line = lines.first { $0.hasPrefix(key + ":") } ?? ""
      return Int(line.filter(\.isNumber)) ?? 0
    }
    resident = value("VmRSS")
    highest = value("VmHWM")
    anonymous = value("RssAnon")
  }
}

extension FilesStep {
  /// Said while it runs.
  var line: String { cells.joined(separator: " | ") }

  fileprivate var cells: [String] {
    [
      name, native.text(2), mount.text(2), (mount / native).text(1),
      (Double(operations) / mount).text(0),
    ] + memory.cells
  }
}

extension Memory {
  fileprivate var cells: [String] {
    [resident, anonymous, highest].map { (Double($0) / 1024).text(1) }
  }
}

struct FilesReport: Encodable {
  let conditions: Conditions
  let limitMiB: Int
  let atStart: Memory
  let steps: [FilesStep]
  /// How many seconds nothing was asked of the daemon.
  let calm: Int
  let afterCalm: Memory

  /// Whether the daemon stayed below the limit after each walk, and is below it in the end.
  var isMet: Bool {
    let walks = steps.filter { $0.name.hasPrefix("find") }.map(\.memory) + [afterCalm]
    return walks.allSatisfy { $0.resident <= limitMiB << 10 }
  }

  var text: String {
    let none = ["", "", "", ""]
    let rows =
      [["at the start"] + none + atStart.cells] + steps.map(\.cells)
      + [["\(calm) s later"] + none + afterCalm.cells]
    return
      (["", conditions.text + ".", ""]
      + Markdown.table(
        [
          "step", "native s", "mount s", "ratio", "files/s", "resident MiB", "of it anonymous",
          "highest",
        ], rows)
      + ["", "At most \(limitMiB) MiB after each find and in the end: \(isMet ? "yes" : "no")."])
      .joined(separator: "\n")
  }
}
