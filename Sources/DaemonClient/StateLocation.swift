/// Which state directory a program's daemon has.
package enum StateLocation {
  /// `UBIQUITYFS_STATE`, else `ubiquityfs` in the user's data directory. Source:
  /// docs/man/ubiquityfs.1, ENVIRONMENT.
  package static func standard(environment: [String: String]) -> String {
    func value(_ name: String) -> String? { environment[name].flatMap { $0.isEmpty ? nil : $0 } }
    if let state = value("UBIQUITYFS_STATE") { return state }
    if let data = value("XDG_DATA_HOME") { return data + "/ubiquityfs" }
    return (value("HOME") ?? "") + "/.local/share/ubiquityfs"
  }
}
