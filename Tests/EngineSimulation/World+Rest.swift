import Model

/// What has to hold when faults are over.
extension World {
  /// Faults end, all devices run; then nothing may differ any more.
  func settle() throws {
    scheduler.note("faults end")
    // Who is being stopped is waited for.
    _ = scheduler.run(within: 600 * Self.second) {
      devices.allSatisfy { $0.life == nil || $0.isUp }
    }
    for device in devices {
      if device.life == nil { try device.start() }
      guard let life = device.life else { return report("\(device.name) does not stop") }
      life.store.weather = .fair
      scheduler.perform(life.owner) { life.offline.set(offline: false) }
    }
    guard scheduler.run(within: 1200 * Self.second, until: { devices.allSatisfy { !$0.isWorking } })
    else { return report("a user's work does not end") }
    var failures: [String] = []
    for _ in 0..<12 {
      failures = []
      for device in devices { if let failure = synchronize(device) { failures.append(failure) } }
      if failures.isEmpty, try isAtRest() { break }
      scheduler.run(for: 30 * Self.second)
    }
    for failure in failures { report(failure) }
    guard problems.isEmpty else { return }
    try check()
  }

  private func synchronize(_ device: SimulatedDevice) -> String? {
    guard let life = device.life else { return "\(device.name) is down" }
    nonisolated(unsafe) var result: Result<Void, any Error>?
    scheduler.perform(life.owner) {
      Task {
        do {
          try await life.sync.sync(timeout: .seconds(300))
          result = .success(())
        } catch {
          result = .failure(error)
        }
      }
    }
    guard scheduler.run(within: 900 * Self.second, until: { result != nil }) else {
      return "\(device.name) does not come to an end"
    }
    if case .failure(let error)? = result { return "\(device.name) cannot sync: \(error)" }
    return nil
  }

  private func isAtRest() throws -> Bool {
    let lives = devices.compactMap(\.life)
    let positions = Set(try lives.map { try $0.catalog.position() })
    return try positions.count == 1 && lives.allSatisfy { try $0.catalog.differing().isEmpty }
  }

  private func check() throws {
    for device in devices {
      guard let life = device.life else { continue }
      let left = try life.catalog.differing()
      if !left.isEmpty { report("\(device.name) at rest: \(left.count) items differ") }
    }
    let newcomer = try SimulatedDevice(index: devices.count, world: self)
    devices.append(newcomer)
    if let failure = synchronize(newcomer) { report("newcomer: \(failure)") }
    let first = try devices[0].listing()
    for device in devices.dropFirst() {
      let other = try device.listing()
      for line in Set(first).symmetricDifference(other).sorted().prefix(6) {
        report("only \(first.contains(line) ? "device 0" : device.name) has \(line)")
      }
    }
    guard problems.isEmpty else { return }
    for device in devices { readAll(device) }
    try checkContents()
    for device in devices {
      for problem in try device.life?.problems() ?? [] { report("\(device.name): \(problem)") }
    }
  }

  private func readAll(_ device: SimulatedDevice) {
    guard let life = device.life else { return }
    nonisolated(unsafe) var isDone = false
    scheduler.perform(life.owner) {
      Task {
        do {
          for item in try life.items() where item.inode.kind == .file {
            do { try await device.read(item.inode.number, life) } catch {
              self.report("\(device.name) cannot read \(item.path): \(error)")
            }
            guard device.index == 0 else { continue }
            for version in try life.sync.versions(of: item.inode.number) where version.isConflict {
              nonisolated(unsafe) var bytes: [UInt8] = []
              try await life.sync.read(version.id, of: item.inode.number) { bytes += $0 }
              if !bytes.isEmpty, self.ledger.contents[UInt64(bytes.count)] != bytes {
                self.report(
                  "a conflict version of \(item.path), \(bytes.count) bytes, is nobody's content")
              }
            }
          }
        } catch {
          self.report("\(device.name) cannot read everything: \(error)")
        }
        isDone = true
      }
    }
    if !scheduler.run(within: 900 * Self.second, until: { isDone }) {
      report("\(device.name) does not come to the end of reading")
    }
  }

  /// What was acknowledged and not done away with by who saw it is a file's content, or a conflict
  /// version.
  private func checkContents() throws {
    guard let life = devices[0].life else { return }
    var there: Set<UInt64> = []
    for item in try life.items() {
      if item.inode.kind == .file { there.insert(item.inode.size) }
      there.formUnion(life.conflicts(of: item.inode))
    }
    for (length, device) in ledger.acknowledged.sorted(by: { $0.key < $1.key })
    where !ledger.superseded.contains(length) && !there.contains(length) {
      report("lost: the content of \(length) bytes that \(device) wrote")
    }
  }
}

extension SimulatedDevice {
  /// Everything that has to be equal on all devices.
  func listing() throws -> [String] {
    guard let life else { return [] }
    return try life.items().map { item in
      let inode = item.inode
      let attributes = try life.catalog.attributeNames(of: inode.number).map {
        "\($0)=\(String(decoding: try life.catalog.attribute($0, of: inode.number), as: UTF8.self))"
      }
      let times = inode.kind == .directory ? "" : "\(inode.modified.nanoseconds)"
      return """
        \(item.path) \(inode.kind) \(inode.item) \(inode.size) \(String(inode.mode, radix: 8)) \
        \(times) \(inode.linkCount) \(String(decoding: inode.target, as: UTF8.self)) \
        \(attributes.joined(separator: ",")) \(life.conflicts(of: inode).sorted())
        """
    }
  }
}
