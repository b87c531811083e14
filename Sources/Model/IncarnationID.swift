package enum IncarnationKey {}

/// One life of a container: a container that is deleted and made again under the same name is
/// another one, and devices that still know the first must not write into the second.
package typealias IncarnationID = Identifier<IncarnationKey>
