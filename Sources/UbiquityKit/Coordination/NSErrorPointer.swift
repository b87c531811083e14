public import Foundation

/// Where a method of Apple's closure forms puts its error. Foundation on Linux does not have it.
public typealias NSErrorPointer = UnsafeMutablePointer<NSError?>?
