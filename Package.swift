// swift-tools-version: 6.1
import PackageDescription

// The way data goes is the order of the targets below: a target imports only what stands above it,
// and only what it lists. `Tests/check-imports` fails the build when a file imports anything else.

// Without `MemberImportVisibility`: a type of libc that two C modules have read the headers of,
// `stat` for one, belongs to whichever the compiler met first, so what a file would have to import
// changed with the state of the module cache.
let settings: [SwiftSetting] = [
  .enableUpcomingFeature("ExistentialAny"),
  .enableUpcomingFeature("InternalImportsByDefault"),
]

/// Chunking reads every byte of every file: unoptimised it is forty times slower than the disk, so
/// debug builds optimise these targets too.
let hotSettings: [SwiftSetting] =
  settings + [.unsafeFlags(["-O"], .when(configuration: .debug))]

/// Tests that wait or look, and compute little: optimising them takes longer than it saves.
let plainSettings: [SwiftSetting] =
  settings + [.unsafeFlags(["-Onone"], .when(configuration: .release))]

func dependency(_ name: String) -> Target.Dependency { .target(name: name) }

let system: Target.Dependency = .product(name: "SystemPackage", package: "swift-system")
let logging: Target.Dependency = .product(name: "Logging", package: "swift-log")
let crypto: Target.Dependency = .product(name: "Crypto", package: "swift-crypto")
let cryptoExtras: Target.Dependency = .product(name: "_CryptoExtras", package: "swift-crypto")
let protobuf: Target.Dependency = .product(name: "SwiftProtobuf", package: "swift-protobuf")
let grdb: Target.Dependency = .product(name: "GRDB", package: "GRDB.swift")
let sqlite: Target.Dependency = .product(name: "GRDBSQLite", package: "GRDB.swift")
let subprocess: Target.Dependency = .product(name: "Subprocess", package: "swift-subprocess")
let arguments: Target.Dependency = .product(
  name: "ArgumentParser", package: "swift-argument-parser")
let yams: Target.Dependency = .product(name: "Yams", package: "Yams")

let package = Package(
  name: "ubiquityfs",
  platforms: [.macOS(.v15)],
  products: [
    .executable(name: "ubiquityfs", targets: ["ubiquityfs"]),
    .library(name: "UbiquityKit", targets: ["UbiquityKit"]),
    .executable(name: "ubiquityfs-bench", targets: ["UbiquityBench"]),
  ],
  dependencies: [
    .package(url: "https://github.com/apple/swift-system", exact: "1.8.1"),
    .package(url: "https://github.com/apple/swift-log", exact: "1.16.2"),
    .package(url: "https://github.com/apple/swift-crypto", exact: "3.12.3"),
    .package(url: "https://github.com/apple/swift-protobuf", exact: "1.39.0"),
    .package(url: "https://github.com/groue/GRDB.swift", exact: "7.10.0"),
    .package(url: "https://github.com/apple/swift-argument-parser", exact: "1.8.2"),
    .package(url: "https://github.com/swiftlang/swift-subprocess", exact: "1.0.2"),
    .package(url: "https://github.com/jpsim/Yams", exact: "6.2.2"),
  ],
  targets: [
    .systemLibrary(
      name: "CFuse3", pkgConfig: "fuse3", providers: [.apt(["libfuse3-dev"])]),
    .systemLibrary(
      name: "CZstd", pkgConfig: "libzstd", providers: [.apt(["libzstd-dev"])]),

    .target(name: "CLinux"),
    .target(name: "CCurl"),

    .target(name: "Platform", dependencies: ["CLinux", system], swiftSettings: settings),
    .target(name: "Model", swiftSettings: settings),
    .target(
      name: "RecordFormat", dependencies: ["Model", protobuf], exclude: ["Schema"],
      swiftSettings: settings),

    .target(
      name: "FuseKernel", dependencies: ["CFuse3", "Platform", system], swiftSettings: settings),
    .target(
      name: "Catalog", dependencies: ["Model", "Platform", "RecordFormat", grdb, sqlite, system],
      swiftSettings: settings),
    .target(
      name: "ContentStore", dependencies: ["Model", "Platform", system], swiftSettings: settings),
    .target(
      name: "Coordination",
      dependencies: ["Model", "Platform", "Catalog", "ContentStore", system],
      swiftSettings: settings),
    .target(
      name: "FileSystem",
      dependencies: ["Model", "Platform", "Catalog", "ContentStore", "Coordination", system],
      swiftSettings: settings),
    .target(
      name: "MountDriver",
      dependencies: [
        "FuseKernel", "FileSystem", "Coordination", "Catalog", "Model", "Platform", system,
      ],
      swiftSettings: settings),

    .target(
      name: "Backend", dependencies: ["Model", "Platform", system], swiftSettings: settings),
    .target(
      name: "BackendDirectory", dependencies: ["Backend", "Platform", "CLinux", system],
      swiftSettings: settings),
    .target(
      name: "BackendSFTP", dependencies: ["Backend", "Model", "Platform", system],
      swiftSettings: settings),
    .target(name: "HTTPTransport", dependencies: ["CCurl", "Platform"], swiftSettings: settings),
    .target(
      name: "BackendS3",
      dependencies: ["Backend", "HTTPTransport", "Model", "Platform", crypto, system],
      swiftSettings: settings),
    .target(
      name: "RemoteStore",
      dependencies: [
        "Backend", "Model", "Platform", "RecordFormat", "CZstd", crypto, cryptoExtras, protobuf,
        system,
      ],
      swiftSettings: hotSettings),
    .target(
      name: "SyncEngine",
      dependencies: [
        "Model", "Platform", "Catalog", "ContentStore", "Coordination", "RecordFormat",
        "RemoteStore", "Backend", crypto, logging, system,
      ],
      swiftSettings: settings),

    .target(
      name: "ControlProtocol", dependencies: ["Model", "Platform"], swiftSettings: settings),
    .target(
      name: "MetadataQueries", dependencies: ["ControlProtocol", "Model"], swiftSettings: settings),
    .target(
      name: "DaemonClient", dependencies: ["ControlProtocol", "Platform", system],
      swiftSettings: settings),
    .target(
      name: "UbiquityKit",
      dependencies: [
        "ControlProtocol", "MetadataQueries", "DaemonClient", "Platform", "CLinux", system,
      ],
      exclude: ["UbiquityKit.docc"],
      swiftSettings: settings),
    .target(
      name: "Daemon",
      dependencies: [
        "Model", "Platform", "Catalog", "ContentStore", "Coordination", "FileSystem", "FuseKernel",
        "MountDriver", "Backend", "BackendDirectory", "BackendSFTP", "BackendS3", "RemoteStore",
        "SyncEngine",
        "ControlProtocol", "MetadataQueries", "CLinux", logging, system, yams,
      ],
      swiftSettings: settings),
    .executableTarget(
      name: "ubiquityfs",
      dependencies: [
        "Daemon", "DaemonClient", "ControlProtocol", "Coordination", "MetadataQueries", "Model",
        "Platform", arguments, system,
      ],
      swiftSettings: settings),
    .executableTarget(
      name: "UbiquityBench", dependencies: ["Platform", arguments], swiftSettings: settings),
    .target(name: "TestWaiting", path: "Tests/TestWaiting", swiftSettings: settings),
    .target(
      name: "OperationSequences", path: "Tests/OperationSequences", swiftSettings: hotSettings),
    .executableTarget(
      name: "OperationRunner", dependencies: ["OperationSequences", "CLinux"],
      path: "Tests/OperationRunner", swiftSettings: hotSettings),
    .executableTarget(
      name: "KitScenarios", dependencies: ["UbiquityKit", "TestWaiting"],
      path: "Tests/KitScenarios", swiftSettings: settings),
    .executableTarget(
      name: "notes-example", dependencies: ["UbiquityKit"], path: "Examples/Notes",
      swiftSettings: settings),
    .executableTarget(
      name: "watcher-example", dependencies: ["UbiquityKit"], path: "Examples/Watcher",
      swiftSettings: settings),
    .target(
      name: "Samples", dependencies: ["Model", "RecordFormat"], path: "Tests/Samples",
      swiftSettings: settings),
    .target(name: "CSimulation", path: "Tests/CSimulation"),
    .executableTarget(
      name: "EngineSimulation",
      dependencies: [
        "CSimulation", "SyncEngine", "FileSystem", "Catalog", "ContentStore", "Coordination",
        "Backend", "RemoteStore", "Model", "Platform", logging, system,
      ],
      path: "Tests/EngineSimulation", swiftSettings: hotSettings),
    .testTarget(
      name: "EndToEndTests", dependencies: [subprocess, system], swiftSettings: plainSettings),
    .testTarget(
      name: "CoordinationTests",
      dependencies: ["Coordination", "Catalog", "Model", "Platform", "TestWaiting", system],
      swiftSettings: plainSettings),
    .testTarget(
      name: "ContentStoreTests", dependencies: ["ContentStore", "Model", "Platform", system],
      swiftSettings: plainSettings),
    .testTarget(
      name: "CatalogTests",
      dependencies: [
        "Catalog", "Model", "Platform", "RecordFormat", "TestWaiting", grdb, system,
      ],
      swiftSettings: plainSettings),
    .testTarget(
      name: "RecordFormatTests", dependencies: ["RecordFormat", "Model", "Samples"],
      swiftSettings: plainSettings),
    .testTarget(
      name: "BackendTests",
      dependencies: [
        "Backend", "BackendDirectory", "BackendSFTP", "BackendS3", "HTTPTransport", "Platform",
        "TestWaiting", subprocess, system,
      ],
      swiftSettings: plainSettings),
    .testTarget(
      name: "RemoteStoreTests",
      dependencies: [
        "RemoteStore", "RecordFormat", "Backend", "BackendDirectory", "Model", "Platform",
        "TestWaiting", system,
      ],
      swiftSettings: plainSettings),
    .testTarget(
      name: "SyncEngineTests",
      dependencies: [
        "SyncEngine", "Catalog", "ContentStore", "Coordination", "Backend", "RecordFormat",
        "RemoteStore", "Model", "Platform", "TestWaiting", logging, system,
      ],
      swiftSettings: plainSettings),
    .testTarget(
      name: "FileSystemTests",
      dependencies: [
        "FileSystem", "Coordination", "Catalog", "ContentStore", "Model", "Platform",
        "OperationSequences", "TestWaiting", system,
      ],
      swiftSettings: plainSettings),
    .testTarget(
      name: "MountDriverTests",
      dependencies: [
        "MountDriver", "FuseKernel", "FileSystem", "Coordination", "Catalog", "ContentStore",
        "Model", "Platform", "TestWaiting",
        subprocess, system,
      ],
      swiftSettings: plainSettings),
    .testTarget(
      name: "ControlProtocolTests", dependencies: ["ControlProtocol", "Model"],
      swiftSettings: plainSettings),
    .testTarget(
      name: "MetadataQueriesTests", dependencies: ["MetadataQueries", "ControlProtocol"],
      swiftSettings: plainSettings),
    .testTarget(
      name: "DaemonTests",
      dependencies: [
        "Daemon", "Catalog", "ContentStore", "Coordination", "SyncEngine", "RemoteStore",
        "DaemonClient", "ControlProtocol", "Model", "Platform", "TestWaiting", logging,
        system,
      ],
      swiftSettings: plainSettings),
    .testTarget(
      name: "CommandTests", dependencies: ["ubiquityfs", "ControlProtocol", "Model", arguments],
      swiftSettings: plainSettings),
    .testTarget(
      name: "FuzzTests",
      dependencies: [
        "Backend", "BackendSFTP", "BackendS3", "Catalog", "ControlProtocol", "Daemon",
        "MetadataQueries", "Model",
        "MountDriver", "Platform", "RecordFormat", "RemoteStore", "Samples", "SyncEngine", "CZstd",
        "HTTPTransport", crypto, grdb, system,
      ],
      swiftSettings: settings),
  ]
)

// For `make fuzz`: the decoders' entry functions as a library, and libFuzzer's program around them.
// They reach into modules as tests do, so other builds have them in the tests alone.
if Context.environment["UBIQUITYFS_FUZZ"] != nil,
  let tests = package.targets.firstIndex(where: { $0.name == "FuzzTests" })
{
  let decoders = package.targets.remove(at: tests).dependencies
  package.targets += [
    .target(
      name: "FuzzTargets", dependencies: decoders, path: "Tests/FuzzTests/Entries",
      swiftSettings: settings),
    .executableTarget(
      name: "Fuzz", dependencies: ["FuzzTargets"], path: "Tests/Fuzz",
      exclude: ["corpus", "found", "run"]),
  ]
}
