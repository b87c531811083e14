/// What the devices of an account tell each other about themselves.
package struct DeviceRecord: Hashable, Sendable {
  package var id: DeviceID
  /// What a person calls the device; 1 to 255 bytes.
  package var name: String
  package var lastSeen: Timestamp
  /// What the containers that are open on it take; each container once.
  package var usage: [ContainerUsage]

  package init(
    id: DeviceID, name: String, lastSeen: Timestamp, usage: [ContainerUsage] = []
  ) {
    self.id = id
    self.name = name
    self.lastSeen = lastSeen
    self.usage = usage
  }
}
