import CSimulation
import Glibc

/// Does runs in processes of their own, a few at a time. Each begins as a copy of this one, which has
/// done nothing yet that a run could see: so a run alone is the run that it was among thousands.
struct Crew {
  /// How many at a time.
  let size: Int
  /// How long one may take, in seconds of the real clock.
  static let limit: UInt32 = 300

  private struct Worker {
    let seed: UInt64
    let process: Int32
    let pipe: Int32
    var text: [UInt8] = []
  }

  /// `body` is called in the process of its seed, `done` here, as they come; false ends it early.
  func run(
    _ seeds: [UInt64], _ body: (UInt64) -> Outcome, done: (Outcome) -> Bool
  ) {
    var left = seeds[...]
    var workers: [Worker] = []
    var isWanted = true
    while !workers.isEmpty || (isWanted && !left.isEmpty) {
      while isWanted, workers.count < size, let seed = left.popFirst() {
        workers.append(begin(seed, body))
      }
      var polled = workers.map { pollfd(fd: $0.pipe, events: Int16(POLLIN), revents: 0) }
      guard poll(&polled, nfds_t(polled.count), -1) > 0 else { continue }
      for index in polled.indices.reversed() where polled[index].revents != 0 {
        var buffer = [UInt8](repeating: 0, count: 1 << 16)
        let count = read(workers[index].pipe, &buffer, buffer.count)
        if count > 0 {
          workers[index].text += buffer[..<count]
        } else {
          if !done(end(workers.remove(at: index))) { isWanted = false }
        }
      }
    }
  }

  private func begin(_ seed: UInt64, _ body: (UInt64) -> Outcome) -> Worker {
    var ends: [Int32] = [0, 0]
    precondition(pipe(&ends) == 0, "no pipe")
    fflush(nil)
    let process = simulation_fork()
    precondition(process >= 0, "no process")
    guard process == 0 else {
      close(ends[1])
      return Worker(seed: seed, process: process, pipe: ends[0])
    }
    close(ends[0])
    alarm(Self.limit)
    let text = Array(body(seed).text.utf8)
    fflush(nil)
    var sent = 0
    while sent < text.count {
      let count = text.withUnsafeBytes { write(ends[1], $0.baseAddress! + sent, text.count - sent) }
      if count <= 0 { break }
      sent += count
    }
    simulation_end(0)
  }

  private func end(_ worker: Worker) -> Outcome {
    close(worker.pipe)
    var status: Int32 = 0
    waitpid(worker.process, &status, 0)
    var outcome = Outcome(String(decoding: worker.text, as: UTF8.self))
    outcome.seed = worker.seed
    if !outcome.isWhole {
      let signal = status & 0x7F
      outcome.problems.append(
        signal == SIGALRM ? "it did not end in \(Self.limit) s" : "it ended with signal \(signal)")
    }
    return outcome
  }
}
