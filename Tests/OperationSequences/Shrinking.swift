/// Leaves out what a failing sequence does not need: halves first, then less and less, then single
/// steps. `fails` says whether a sequence fails; it is asked at most `limit` times.
package func shrink(_ steps: [Action], limit: Int = 600, fails: ([Action]) -> Bool) -> [Action] {
  var steps = steps
  var asked = 0
  var length = max(1, steps.count / 2)
  while true {
    var isShorter = false
    var start = 0
    while start < steps.count, asked < limit {
      var fewer = steps
      fewer.removeSubrange(start..<min(steps.count, start + length))
      asked += 1
      if fails(fewer) {
        steps = fewer
        isShorter = true
      } else {
        start += length
      }
    }
    if asked >= limit { return steps }
    if length > 1 {
      length /= 2
    } else if !isShorter {
      return steps
    }
  }
}
