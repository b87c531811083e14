import CSimulation
import Glibc
import Platform

/// Does runs in processes of their own, a few at a time. Each begins as a copy of this one, which
/// has done nothing yet that a run could see: so a run alone is the run that it was among
/// thousands.
struct Crew {
  /// How many at a time.
  let size: Int
  /// How long one may take, in seconds of the processor: beside busy programs a run at idle
  /// priority gets almost none for minutes, which is no defect.
  static let limit: UInt = 300
  /// How many seconds of the real clock a run may sleep. It has one thread, which never has to.
  static let longestSleep = 120
  /// Seconds between two looks at whether the runs sleep.
  private static let interval = 10

  private struct Worker {
    let seed: UInt64
    let process: Int32
    let pipe: Int32
    var text: [UInt8] = []
    /// For how many seconds it has slept, and what it had of the processor when that began.
    var asleep = 0
    var used = 0
  }

  /// `body` is called in the process of its seed, `done` here, as they come; false ends it early.
  func run(
    _ seeds: [UInt64], _ body: (UInt64) -> Outcome, done: (Outcome) -> Bool
  ) {
    var left = seeds[...]
    var workers: [Worker] = []
    var isWanted = true
    var looked = monotonicNanoseconds()
    while !workers.isEmpty || (isWanted && !left.isEmpty) {
      while isWanted, workers.count < size, let seed = left.popFirst() {
        workers.append(begin(seed, body))
      }
      var polled = workers.map { pollfd(fd: $0.pipe, events: Int16(POLLIN), revents: 0) }
      let ready = poll(&polled, nfds_t(polled.count), Int32(Self.interval * 1000))
      if monotonicNanoseconds() - looked >= UInt64(Self.interval) * 1_000_000_000 {
        looked = monotonicNanoseconds()
        for index in workers.indices { look(at: &workers[index]) }
      }
      guard ready > 0 else { continue }
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
    var limit = rlimit(rlim_cur: Self.limit, rlim_max: Self.limit + 10)
    precondition(setrlimit(__rlimit_resource_t(RLIMIT_CPU.rawValue), &limit) == 0, "no limit")
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

  /// Ends a run that sleeps for too long.
  private func look(at worker: inout Worker) {
    // proc(5): the state is the first field after the name, and the times in user and kernel mode
    // are the 12th and 13th.
    guard let line = Files.smallText("/proc/\(worker.process)/stat", limit: 1024),
      let name = line.lastIndex(of: ")")
    else { return }
    let fields = line[line.index(after: name)...].split(separator: " ")
    guard fields.count > 12, let user = Int(fields[11]), let kernel = Int(fields[12])
    else { return }
    guard fields[0] == "S", user + kernel == worker.used else {
      worker.used = user + kernel
      worker.asleep = 0
      return
    }
    worker.asleep += Self.interval
    if worker.asleep >= Self.longestSleep { kill(worker.process, SIGALRM) }
  }

  private func end(_ worker: Worker) -> Outcome {
    close(worker.pipe)
    var status: Int32 = 0
    waitpid(worker.process, &status, 0)
    var outcome = Outcome(String(decoding: worker.text, as: UTF8.self))
    outcome.seed = worker.seed
    if !outcome.isWhole {
      let problem =
        switch status & 0x7F {
        case SIGXCPU: "it took more than \(Self.limit) s of the processor"
        case SIGALRM: "it slept for \(Self.longestSleep) s"
        case let signal: "it ended with signal \(signal)"
        }
      outcome.problems.append(problem)
    }
    return outcome
  }
}
