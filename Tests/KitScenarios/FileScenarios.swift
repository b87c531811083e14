import Dispatch
import Foundation
import UbiquityKit

/// Files in containers, one call of the library each, so that a script can say when. What is
/// printed is `done` or the code of the error.
enum FileScenarios {
  static let scenarios: [String: ScenarioCommand.Scenario] = [
    "is-ubiquitous": { arguments in
      for path in arguments {
        print(FileManager.default.isUbiquitousItem(at: ScenarioCommand.url(path)))
      }
    },
    "move": { arguments in try await move(arguments) },
    "move-async": { arguments in
      let (from, to) = (ScenarioCommand.url(arguments[1]), ScenarioCommand.url(arguments[2]))
      await ScenarioCommand.printingCode {
        if arguments[0] == "in" {
          try await FileManager.default.moveItem(at: from, intoContainerAt: to)
        } else {
          try await FileManager.default.moveItem(at: from, outOfContainerTo: to)
        }
      }
    },
    "start-download": { arguments in
      await ScenarioCommand.printingCode {
        try FileManager.default.startDownloadingUbiquitousItem(
          at: ScenarioCommand.url(arguments[0]))
      }
    },
    "download": { arguments in
      await ScenarioCommand.printingCode {
        try await FileManager.default.downloadUbiquitousItem(at: ScenarioCommand.url(arguments[0]))
      }
    },
    "evict": { arguments in
      await ScenarioCommand.printingCode {
        try FileManager.default.evictUbiquitousItem(at: ScenarioCommand.url(arguments[0]))
      }
    },
    "values": { arguments in try values(ScenarioCommand.url(arguments[0])) },
    "state-of-a-file": { arguments in try state(of: ScenarioCommand.url(arguments[0])) },
    "exclude": { arguments in try await exclude(true, arguments[0]) },
    "include": { arguments in try await exclude(false, arguments[0]) },
    "container": { arguments in
      UbiquityEntitlements.ubiquityContainerIdentifiers = arguments
      print(FileManager.default.url(forUbiquityContainerIdentifier: nil)?.path ?? "none")
    },
    "costs": { arguments in costs(ScenarioCommand.url(arguments[0])) },
    "download-all": { arguments in try downloadAll(ScenarioCommand.url(arguments[0])) },
  ]

  /// `move in|out FROM TO`: the iOS 5 Tech Talk, "Moving a File into or out of the Ubiquity
  /// Container", which has it on another queue since it may take long.
  private static func move(_ arguments: [String]) async throws {
    let result: Result<Void, any Error> = await withCheckedContinuation { continuation in
      DispatchQueue.global().async {
        continuation.resume(
          returning: Result {
            try FileManager.default.setUbiquitous(
              arguments[0] == "in", itemAt: ScenarioCommand.url(arguments[1]),
              destinationURL: ScenarioCommand.url(arguments[2]))
          })
      }
    }
    await ScenarioCommand.printingCode { try result.get() }
  }

  private static let keys: Set<URLResourceKey> = [
    .isUbiquitousItemKey, .ubiquitousItemDownloadingStatusKey, .ubiquitousItemIsDownloadingKey,
    .ubiquitousItemDownloadRequestedKey, .ubiquitousItemDownloadingErrorKey,
    .ubiquitousItemIsUploadedKey, .ubiquitousItemIsUploadingKey, .ubiquitousItemUploadingErrorKey,
    .ubiquitousItemHasUnresolvedConflictsKey, .ubiquitousItemPercentDownloadedKey,
    .ubiquitousItemPercentUploadedKey, .ubiquitousItemContainerDisplayNameKey,
    .ubiquitousItemIsExcludedFromSyncKey, .ubiquitousItemIsDownloadedKey,
  ]

  /// Every value that there is, by its key without what all keys begin with.
  private static func values(_ url: URL) throws {
    let values = try url.ubiquitousResourceValues(forKeys: keys).allValues
    for (key, value) in values.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
      let name = key.rawValue.replacingOccurrences(of: "NSURLUbiquitousItem", with: "")
        .replacingOccurrences(of: "NSURL", with: "")
      let text =
        (value as? URLUbiquitousItemDownloadingStatus)?.rawValue
        ?? (value as? NSError).map { "\($0.domain) \($0.code)" } ?? "\(value)"
      print("\(name)=\(text)")
    }
  }

  /// The iOS 5 Tech Talk, "Telling the State of a File": the keys that it names.
  private static func state(of url: URL) throws {
    let values = try url.ubiquitousResourceValues(forKeys: [
      .isUbiquitousItemKey, .ubiquitousItemHasUnresolvedConflictsKey,
      .ubiquitousItemIsDownloadedKey, .ubiquitousItemIsDownloadingKey,
      .ubiquitousItemIsUploadedKey, .ubiquitousItemIsUploadingKey,
      .ubiquitousItemPercentDownloadedKey, .ubiquitousItemPercentUploadedKey,
    ])
    guard values.isUbiquitousItem == true else { return print("local") }
    try expect(values.ubiquitousItemContainerDisplayName == nil, "what was not asked for is there")
    print(
      values.ubiquitousItemHasUnresolvedConflicts == true ? "conflict" : "no conflict",
      values.ubiquitousItemIsDownloaded == true
        ? "here" : "\(Int(values.ubiquitousItemPercentDownloaded ?? 0)) % here",
      values.ubiquitousItemIsUploaded == true
        ? "sent" : "\(Int(values.ubiquitousItemPercentUploaded ?? 0)) % sent", separator: ", ")
  }

  private static func exclude(_ isExcluded: Bool, _ path: String) async throws {
    await ScenarioCommand.printingCode {
      print(
        try ScenarioCommand.url(path).setUbiquitousItemIsExcludedFromSync(isExcluded)
          .lastPathComponent)
    }
  }

  /// The iCloud Design Guide, "App Responsibilities for Using iCloud Documents": of the items that
  /// a program knows of, those that are not here are asked for.
  private static func downloadAll(_ directory: URL) throws {
    let items = try FileManager.default.contentsOfDirectory(
      at: directory, includingPropertiesForKeys: nil)
    for item in items.sorted(by: { $0.path < $1.path }) {
      let values = try item.ubiquitousResourceValues(forKeys: [.ubiquitousItemIsDownloadedKey])
      print(
        item.lastPathComponent, values.ubiquitousItemIsDownloaded == true ? "here" : "asked for")
      try FileManager.default.startDownloadingUbiquitousItem(at: item)
    }
  }

  /// Microseconds that a call takes of what asks no daemon, for who measures.
  private static func costs(_ url: URL) {
    func measure(_ name: String, _ call: () -> Void) {
      let count = 2000
      let time = ContinuousClock().measure { for _ in 0..<count { call() } }
      print(name, Int(time / .microseconds(1)) / count)
    }
    measure("ubiquityIdentityToken") { _ = FileManager.default.ubiquityIdentityToken }
    measure("isUbiquitousItem") { _ = FileManager.default.isUbiquitousItem(at: url) }
    measure("ubiquitousResourceValues") { _ = try? url.ubiquitousResourceValues(forKeys: keys) }
  }
}
