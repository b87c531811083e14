import Foundation
import UbiquityKit

@main
enum WatcherExample {
  static func main() {}
}
