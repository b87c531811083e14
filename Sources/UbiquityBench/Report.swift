internal import Glibc
internal import Platform

/// What a workload took, and cost.
struct WorkloadResult: Encodable {
  let name: String
  let title: String
  let native: Times
  let mount: Times
  let ratio: Double
  /// Of each round's mount to its native.
  let ratios: [Double]
  let target: Double?
  let isMet: Bool?
  let operations: Int
  let operation: String
  /// In the whole of one run.
  let counts: Counts?

  init(_ workload: Workload, native: Times, mount: Times, counts: Counts?) {
    name = workload.name
    title = workload.title
    self.native = native
    self.mount = mount
    ratio = mount.median / native.median
    ratios = zip(mount.all, native.all).map { $0 / $1 }
    target = workload.target
    isMet = workload.target.map { [ratio] in ratio <= $0 }
    operations = workload.operations
    operation = workload.operation
    self.counts = counts
  }

  /// Said while it runs.
  var line: String {
    "\(title): native \((native.median * 1000).text(1)) ms, mount \((mount.median * 1000).text(1)) ms, "
      + "ratio \(ratio.text(2))" + (target.map { " (target \($0.text(1)))" } ?? "")
  }

  fileprivate var cells: [String] {
    func times(_ times: Times) -> String {
      "\((times.median * 1000).text(1)) (\((times.fastest * 1000).text(1))-\((times.slowest * 1000).text(1)))"
    }
    return [
      title, times(native), times(mount), ratio.text(2),
      "\((ratios.min() ?? .nan).text(2))-\((ratios.max() ?? .nan).text(2))",
      target.map { "<= \($0.text(1))" } ?? "", isMet.map { $0 ? "yes" : "no" } ?? "",
    ]
  }

  fileprivate var countCells: [String]? {
    guard let counts else { return nil }
    func each(_ count: Int) -> String { (Double(count) / Double(operations)).text(2) }
    func most(_ counts: [String: Int]) -> String {
      counts.sorted { ($1.value, $0.key) < ($0.value, $1.key) }
        .filter { Double($0.value) / Double(operations) >= 0.005 }
        .prefix(7).map { "\($0.key) \(each($0.value))" }.joined(separator: ", ")
    }
    return [
      title, operation, each(counts.allRequests), most(counts.requests), each(counts.allCalls),
      most(counts.calls),
    ]
  }
}

/// Under what it was measured.
struct Conditions: Encodable {
  let version: String
  let processor: String
  let processors: Int
  let memoryMiB: Int
  let kernel: String
  let fileSystem: String
  let passthrough: Bool
  let passthroughReason: String?
  let isOnline: Bool

  var text: String {
    "ubiquityfs \(version), Linux \(kernel), \(processors) processors (\(processor)), \(memoryMiB) MiB "
      + "of memory, disk \(fileSystem); passthrough "
      + (passthrough ? "in use" : "not in use (\(passthroughReason ?? "no reason given"))")
      + "; account \(isOnline ? "online" : "offline")"
  }
}

extension Stage {
  func conditions() throws -> Conditions {
    let status = try status()
    func line(_ path: String, _ key: String) throws -> String {
      let text = String(decoding: try Bytes.read(path), as: UTF8.self)
      let line = text.split(separator: "\n").first { $0.hasPrefix(key) } ?? ""
      let value = line.split(separator: ":", maxSplits: 1).last ?? ""
      return String(value.drop { $0 == " " || $0 == "\t" })
    }
    let kilobytes = try line("/proc/meminfo", "MemTotal").prefix { $0.isNumber }
    let kernel = try Bytes.read("/proc/sys/kernel/osrelease").dropLast()
    let disk = MountTable.mount(of: Array(root.utf8), in: try MountTable.read())
    return Conditions(
      version: status.daemon.version, processor: try line("/proc/cpuinfo", "model name"),
      processors: sysconf(Int32(_SC_NPROCESSORS_ONLN)), memoryMiB: (Int(kilobytes) ?? 0) / 1024,
      kernel: String(decoding: kernel, as: UTF8.self),
      fileSystem: disk?.type ?? "unknown",
      passthrough: status.mounts.first?.passthrough ?? false,
      passthroughReason: status.mounts.first?.passthroughReason, isOnline: isOnline)
  }
}

struct Report: Encodable {
  let conditions: Conditions
  let rounds: Int
  let scale: Double
  let countsUnavailable: String?
  let results: [WorkloadResult]

  var text: String {
    let met = results.filter { $0.isMet == true }.count
    let aimed = results.filter { $0.isMet != nil }.count
    var lines = [
      "", conditions.text + ".",
      "Rounds: \(rounds), native and mount by turns"
        + (scale == 1 ? "." : "; amounts scaled by \(scale).")
        + " Targets met: \(met) of \(aimed).",
      "Times in ms: median (fastest-slowest). Ratio: of the medians; its range: of the rounds.", "",
    ]
    lines += Markdown.table(
      ["workload", "native", "mount", "ratio", "range", "target", "met"], results.map(\.cells))
    let counted = results.compactMap(\.countCells)
    if !counted.isEmpty {
      lines += ["", "FUSE requests, and system calls of the daemon, for each operation:", ""]
      lines += Markdown.table(
        ["workload", "operation", "requests", "which", "system calls", "which"], counted)
    } else if let countsUnavailable {
      lines += ["", "No counts: \(countsUnavailable)."]
    }
    return lines.joined(separator: "\n")
  }
}

enum Markdown {
  /// Lines of a table whose columns stand below each other.
  static func table(_ head: [String], _ rows: [[String]]) -> [String] {
    let widths = head.indices.map { column in
      ([head] + rows).map { $0[column].count }.max() ?? 0
    }
    func line(_ cells: [String]) -> String {
      "| "
        + zip(cells, widths).map { $0 + String(repeating: " ", count: $1 - $0.count) }
        .joined(separator: " | ") + " |"
    }
    let rule =
      "|" + widths.map { String(repeating: "-", count: $0 + 2) }.joined(separator: "|") + "|"
    return [line(head), rule] + rows.map(line)
  }
}
