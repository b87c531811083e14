import ControlProtocol
import Daemon
import Testing

@Suite struct BackendAddressTests {
  @Test func directoriesAreNamedByURLs() throws {
    #expect(try BackendAddress("file:///srv/cloud").description == "file:///srv/cloud")
    #expect(try BackendAddress("FILE:///srv/a/../b/").description == "file:///srv/b")
    #expect(
      try BackendAddress("file:///with%20space/%C3%A4").description == "file:///with space/ä")
    #expect(
      BackendAddress(besideState: "/home/me/state").description
        == "file:///home/me/ubiquityfs-cloud")
  }

  @Test("reading a complete URL again gives the same backend, also with a % in the path")
  func completeURLs() throws {
    for url in ["file:///a%2541/b", "sftp://me@host:2222/srv/x%20y", "s3://bucket?region=eu-1"] {
      let address = try BackendAddress(url)
      #expect(try BackendAddress(address.description).description == address.description)
    }
  }

  @Test("only the directory that is used where none is named has a secret beside it")
  func keyFiles() throws {
    #expect(
      BackendAddress(besideState: "/home/me/state").keyFile == "/home/me/ubiquityfs-cloud.key")
    #expect(try BackendAddress("file:///srv/cloud").keyFile == nil)
    #expect(try BackendAddress("file:///home/me/ubiquityfs-cloud").keyFile == nil)
  }

  @Test(arguments: [
    "", "srv", "/srv/cloud", "file:", "file://relative/x", "gopher://x", "file:///a%00b",
    "file:///a%zz", "file:///a%2", "://x",
  ])
  func whatIsNoBackendIsWrongUsage(_ url: String) {
    do throws(ControlError) {
      _ = try BackendAddress(url)
      Issue.record("“\(url)” was taken")
    } catch {
      #expect(error.status == .usage)
    }
  }

  @Test func bucketsAreNamedByURLs() throws {
    let url = "s3://bucket/a/b?endpoint=http://127.0.0.1:9000&region=eu-1"
    #expect(try BackendAddress(url).description == url)
    #expect(try BackendAddress(url).keyFile == nil)
  }
}
