import Testing

/// The checks of the project itself catch what they are there for.
extension EndToEnd {
  @Suite struct ProjectChecks {
    @Test func anImportAgainstTheOrderIsCaught() async throws {
      try await withAccount { account in
        try await account.script(
          """
          mkdir copy
          cp -rL "$SOURCES/Package.swift" "$SOURCES/Sources" "$SOURCES/Tests" copy
          copy/Tests/check-imports copy
          plant() { # FILE IMPORT MESSAGE
            echo "$2" > "copy/Sources/$1/Planted.swift"
            refused "$3" copy/Tests/check-imports copy
            rm "copy/Sources/$1/Planted.swift"
          }
          plant Model 'internal import Glibc' 'Model must not know Glibc'
          plant FileSystem 'import SyncEngine' 'FileSystem must not know SyncEngine'
          plant SyncEngine '@preconcurrency package import FileSystem' 'SyncEngine must not know FileSystem'
          plant Catalog 'private import Logging' 'imports Logging'
          plant Backend 'package struct Backend {}' 'name of its module'
          copy/Tests/check-imports copy
          sed -i 's/name: "Platform", dependencies: \\[/&"Daemon", /' copy/Package.swift
          refused 'does not stand above' copy/Tests/check-imports copy
          """)
      }
    }
  }
}
