internal import ControlProtocol
internal import Glibc

extension DaemonService {
  var daemonReport: DaemonReport { DaemonReport(pid: getpid(), version: Product.version) }

  /// All methods of the control socket.
  package var methods: MethodTable {
    var table = MethodTable()
    addAccountMethods(&table)
    addContainerMethods(&table)
    addItemMethods(&table)
    addClaimMethods(&table)
    addMemberMethods(&table)
    table.addLater(Methods.SubscribeEvents.self) {
      request, connection, reply throws(ControlError) in
      try self.subscribe(request, connection, reply)
    }
    addQueryMethods(&table)
    addStorageMethods(&table)
    addStoreMethods(&table)
    addSetAsideMethods(&table)
    return table
  }

  private func addClaimMethods(_ table: inout MethodTable) {
    table.addLater(Methods.Claim.self) { request, connection, reply throws(ControlError) in
      try self.claim(request, connection, reply)
    }
    table.add(Methods.AddPresenter.self) { request, connection throws(ControlError) in
      try self.present(request, connection)
    }
    table.add(Methods.RemovePresenter.self) { request, connection throws(ControlError) in
      try self.removePresenter(request, connection)
      return Nothing()
    }
    table.add(Methods.AnswerPresenter.self) { request, connection throws(ControlError) in
      try self.answer(request, connection)
      return Nothing()
    }
    table.add(Methods.CancelClaim.self) { request, connection throws(ControlError) in
      self.cancel(request, connection)
      return Nothing()
    }
    table.add(Methods.ReleaseClaim.self) { request, connection throws(ControlError) in
      try self.release(request, connection)
      return Nothing()
    }
  }

  private func addAccountMethods(_ table: inout MethodTable) {
    table.add(Methods.Hello.self) { greeting, _ throws(ControlError) in
      guard greeting.protocolVersion == Product.protocolVersion else {
        throw ControlError(
          .failed,
          "the daemon has version \(Product.version) and the command has another version; stop the "
            + "daemon (process \(getpid())) with SIGTERM and try again")
      }
      return Greeting(
        protocolVersion: Product.protocolVersion, version: Product.version, pid: getpid())
    }
    table.add(Methods.SignIn.self) { request, connection throws(ControlError) in
      try self.signIn(request, connection)
    }
    table.add(Methods.SignOut.self) { request, connection throws(ControlError) in
      try self.signOut(request, connection)
      return Nothing()
    }
    table.add(Methods.AccountStatus.self) { _, _ throws(ControlError) in
      self.accountReport()
    }
    table.add(Methods.AccountIdentity.self) { request, connection throws(ControlError) in
      self.identity(request, connection)
    }
    table.add(Methods.Devices.self) { _, connection throws(ControlError) in
      try self.devices(connection)
    }
    table.add(Methods.Secret.self) { _, _ throws(ControlError) in try self.secret() }
    table.add(Methods.SetOffline.self) { request, _ throws(ControlError) in
      try self.setOffline(request.offline)
      return Nothing()
    }
    table.add(Methods.SetLimits.self) { request, _ throws(ControlError) in
      try self.setLimits(request)
    }
    table.add(Methods.SetMetered.self) { request, _ throws(ControlError) in
      try self.setMetered(request)
    }
    table.add(Methods.Status.self) { _, connection throws(ControlError) in
      try self.status(connection)
    }
    table.add(Methods.Diagnose.self) { _, connection throws(ControlError) in
      self.diagnose(connection)
    }
    table.add(Methods.Check.self) { request, _ throws(ControlError) in try self.check(request) }
  }

  private func addContainerMethods(_ table: inout MethodTable) {
    table.add(Methods.CreateContainer.self) { request, connection throws(ControlError) in
      try self.createContainer(request, connection)
    }
    table.add(Methods.ListContainers.self) { _, connection throws(ControlError) in
      try self.listContainers(connection)
    }
    table.add(Methods.DeleteContainer.self) { request, connection throws(ControlError) in
      try self.deleteContainer(request, connection)
      return Nothing()
    }
    table.add(Methods.Mount.self) { request, connection throws(ControlError) in
      try self.mount(request, connection)
    }
    table.add(Methods.HoldMounts.self) { request, connection throws(ControlError) in
      try self.hold(request, connection)
      return Nothing()
    }
    table.add(Methods.Unmount.self) { request, _ throws(ControlError) in
      try self.unmount(request)
      return Nothing()
    }
    table.add(Methods.RecoverStore.self) { request, connection throws(ControlError) in
      try self.recover(request, connection)
    }
    table.add(Methods.Sync.self) { request, connection throws(ControlError) in
      try self.sync(request, connection)
      return Nothing()
    }
  }

  private func addItemMethods(_ table: inout MethodTable) {
    table.add(Methods.ItemStatus.self) { request, _ throws(ControlError) in
      try self.itemStatus(request)
    }
    table.add(Methods.Evict.self) { request, connection throws(ControlError) in
      try self.evict(request, connection)
      return Nothing()
    }
    table.add(Methods.Download.self) { request, connection throws(ControlError) in
      try self.download(request, connection)
      return Nothing()
    }
    table.add(Methods.Pin.self) { request, connection throws(ControlError) in
      try self.pin(request, connection)
      return Nothing()
    }
    table.add(Methods.RegisterRun.self) { request, connection throws(ControlError) in
      try self.registerRun(request, connection)
      return Nothing()
    }
    table.add(Methods.WriteDownloads.self) { _, _ throws(ControlError) in
      self.downloadLog.write()
      return Nothing()
    }
    table.add(Methods.Policy.self) { request, _ throws(ControlError) in try self.policy(request) }
    table.add(Methods.ListVersions.self) { request, connection throws(ControlError) in
      try self.versions(request, connection)
    }
    table.add(Methods.ReadVersion.self) { request, connection throws(ControlError) in
      try self.readVersion(request, connection)
      return Nothing()
    }
    table.add(Methods.ResolveVersions.self) { request, connection throws(ControlError) in
      try self.resolve(request, connection)
      return Nothing()
    }
    table.add(Methods.RemoveVersions.self) { request, connection throws(ControlError) in
      try self.removeVersions(request, connection)
      return Nothing()
    }
    table.add(Methods.MarkVersions.self) { request, connection throws(ControlError) in
      try self.markVersions(request, connection)
      return Nothing()
    }
    table.add(Methods.ListRemoved.self) { request, connection throws(ControlError) in
      try self.removed(request, connection)
    }
    table.add(Methods.RestoreRemoved.self) { request, connection throws(ControlError) in
      try self.restore(request, connection)
    }
    table.add(Methods.ForgetRemoved.self) { request, connection throws(ControlError) in
      try self.forgetRemoved(request, connection)
      return Nothing()
    }
  }
}
