//! The methods of `wasi:filesystem/types.descriptor`: which are passed on as they are, and which are guarded.

use super::*;

impl HostDescriptor for FsGuard<'_> {
    async fn open_at(
        &mut self,
        fd: Resource<Descriptor>,
        path_flags: PathFlags,
        path: String,
        open_flags: OpenFlags,
        flags: DescriptorFlags,
    ) -> FsResult<Resource<Descriptor>> {
        self.open(&fd, path, how(path_flags, open_flags, flags)?).await
    }

    async fn write(
        &mut self,
        fd: Resource<Descriptor>,
        buffer: Vec<u8>,
        offset: Filesize,
    ) -> FsResult<Filesize> {
        let hole = hole_bytes(&*self.writable_file(&fd)?, offset)?;
        self.charge(hole.saturating_add(u64::try_from(buffer.len()).unwrap_or(u64::MAX)))?;
        self.view.write(fd, buffer, offset).await
    }

    fn write_via_stream(
        &mut self,
        fd: Resource<Descriptor>,
        offset: Filesize,
    ) -> FsResult<Resource<DynOutputStream>> {
        let hole = hole_bytes(&*self.writable_file(&fd)?, offset)?;
        self.charge(hole)?;
        let stream = self.view.write_via_stream(fd, offset)?;
        self.metered(stream)
    }

    fn append_via_stream(&mut self, fd: Resource<Descriptor>) -> FsResult<Resource<DynOutputStream>> {
        self.writable_file(&fd)?;
        let stream = self.view.append_via_stream(fd)?;
        self.metered(stream)
    }

    async fn set_size(&mut self, fd: Resource<Descriptor>, size: Filesize) -> FsResult<()> {
        let file = self.writable_file(&fd)?;
        self.charge(hole_bytes(&file, size)?)?;
        Ok(spawn_blocking(move || file.set_len(size)).await?)
    }

    async fn set_times(
        &mut self,
        fd: Resource<Descriptor>,
        accessed: types::NewTimestamp,
        modified: types::NewTimestamp,
    ) -> FsResult<()> {
        let (perms, file) = match self.view.table.get(&fd)? {
            Descriptor::File(file) => (file.perms, file.file.clone()),
            Descriptor::Dir(dir) => (dir.perms, dir.dir.clone()),
        };
        self.may_write(perms, "the times of an open file")?;
        // A protected file with a forged time could pass for unchanged.
        let meta = file.metadata()?;
        if self.rules()?.workspace.protects((meta.dev(), meta.ino())) {
            return Err(self.refused("the times of an open file", Refusal::Protected));
        }
        self.view.set_times(fd, accessed, modified).await
    }

    async fn set_times_at(
        &mut self,
        fd: Resource<Descriptor>,
        path_flags: PathFlags,
        path: String,
        accessed: types::NewTimestamp,
        modified: types::NewTimestamp,
    ) -> FsResult<()> {
        self.writable_folder(&fd, &path)?;
        // Through a descriptor, so that what is judged is what is changed. The times of a symlink itself stay.
        let follow = path_flags.contains(PathFlags::SYMLINK_FOLLOW);
        let opened = self.open(&fd, path, How { follow, read: true, ..How::default() }).await?;
        let done = self.set_times(Resource::new_borrow(opened.rep()), accessed, modified).await;
        self.forget(opened)?;
        done
    }

    async fn create_directory_at(&mut self, fd: Resource<Descriptor>, path: String) -> FsResult<()> {
        let at = self.writable_folder(&fd, &path)?;
        let name = path.clone();
        self.change(&path, move |rules| rules.make_folder(&at, &name)).await
    }

    async fn remove_directory_at(&mut self, fd: Resource<Descriptor>, path: String) -> FsResult<()> {
        let at = self.writable_folder(&fd, &path)?;
        let name = path.clone();
        self.change(&path, move |rules| rules.remove_folder(&at, &name)).await
    }

    async fn unlink_file_at(&mut self, fd: Resource<Descriptor>, path: String) -> FsResult<()> {
        let at = self.writable_folder(&fd, &path)?;
        let name = path.clone();
        self.change(&path, move |rules| rules.remove_file(&at, &name)).await
    }

    async fn symlink_at(&mut self, fd: Resource<Descriptor>, target: String, path: String) -> FsResult<()> {
        let at = self.writable_folder(&fd, &path)?;
        let name = path.clone();
        self.change(&path, move |rules| rules.make_symlink(&at, &target, &name)).await
    }

    async fn link_at(
        &mut self,
        fd: Resource<Descriptor>,
        old_path_flags: PathFlags,
        old_path: String,
        new_descriptor: Resource<Descriptor>,
        new_path: String,
    ) -> FsResult<()> {
        // A link from a read-only grant would make its file writable.
        let old = self.writable_folder(&fd, &old_path)?;
        let new = self.writable_folder(&new_descriptor, &new_path)?;
        if old_path_flags.contains(PathFlags::SYMLINK_FOLLOW) {
            return Err(ErrorCode::Invalid.into());
        }
        let shown = old_path.clone();
        self.change(&shown, move |rules| rules.make_hard_link((&old, &old_path), (&new, &new_path))).await
    }

    async fn rename_at(
        &mut self,
        fd: Resource<Descriptor>,
        old_path: String,
        new_descriptor: Resource<Descriptor>,
        new_path: String,
    ) -> FsResult<()> {
        let old = self.writable_folder(&fd, &old_path)?;
        let new = self.writable_folder(&new_descriptor, &new_path)?;
        let shown = old_path.clone();
        self.change(&shown, move |rules| rules.rename((&old, &old_path), (&new, &new_path))).await
    }

    // Slow even on a local disk, so never on the thread that asks.

    async fn sync(&mut self, fd: Resource<Descriptor>) -> FsResult<()> {
        let patient = self.patient(&fd)?;
        let done = self.view.sync(Resource::new_borrow(patient.rep())).await;
        self.forget(patient)?;
        done
    }

    async fn sync_data(&mut self, fd: Resource<Descriptor>) -> FsResult<()> {
        let patient = self.patient(&fd)?;
        let done = self.view.sync_data(Resource::new_borrow(patient.rep())).await;
        self.forget(patient)?;
        done
    }

    async fn read_directory(
        &mut self,
        fd: Resource<Descriptor>,
    ) -> FsResult<Resource<types::DirectoryEntryStream>> {
        self.folder(&fd, ".", FsMode::ReadOnly)?;
        let patient = self.patient(&fd)?;
        let entries = self.view.read_directory(Resource::new_borrow(patient.rep())).await;
        self.forget(patient)?;
        entries
    }

    // Reading and asking: wasmtime-wasi's own.

    async fn advise(
        &mut self,
        fd: Resource<Descriptor>,
        offset: Filesize,
        length: Filesize,
        advice: types::Advice,
    ) -> FsResult<()> {
        self.view.advise(fd, offset, length, advice).await
    }

    async fn get_flags(&mut self, fd: Resource<Descriptor>) -> FsResult<DescriptorFlags> {
        self.view.get_flags(fd).await
    }

    async fn get_type(&mut self, fd: Resource<Descriptor>) -> FsResult<types::DescriptorType> {
        self.view.get_type(fd).await
    }

    async fn read(
        &mut self,
        fd: Resource<Descriptor>,
        length: Filesize,
        offset: Filesize,
    ) -> FsResult<(Vec<u8>, bool)> {
        self.view.read(fd, length, offset).await
    }

    fn read_via_stream(
        &mut self,
        fd: Resource<Descriptor>,
        offset: Filesize,
    ) -> FsResult<Resource<DynInputStream>> {
        self.view.read_via_stream(fd, offset)
    }

    async fn stat(&mut self, fd: Resource<Descriptor>) -> FsResult<types::DescriptorStat> {
        self.view.stat(fd).await
    }

    async fn stat_at(
        &mut self,
        fd: Resource<Descriptor>,
        path_flags: PathFlags,
        path: String,
    ) -> FsResult<types::DescriptorStat> {
        self.folder(&fd, &path, FsMode::ReadOnly)?;
        self.view.stat_at(fd, path_flags, path).await
    }

    async fn readlink_at(&mut self, fd: Resource<Descriptor>, path: String) -> FsResult<String> {
        self.folder(&fd, &path, FsMode::ReadOnly)?;
        self.view.readlink_at(fd, path).await
    }

    async fn is_same_object(
        &mut self,
        a: Resource<Descriptor>,
        b: Resource<Descriptor>,
    ) -> wasmtime::Result<bool> {
        self.view.is_same_object(a, b).await
    }

    async fn metadata_hash(&mut self, fd: Resource<Descriptor>) -> FsResult<types::MetadataHashValue> {
        self.view.metadata_hash(fd).await
    }

    async fn metadata_hash_at(
        &mut self,
        fd: Resource<Descriptor>,
        path_flags: PathFlags,
        path: String,
    ) -> FsResult<types::MetadataHashValue> {
        self.folder(&fd, &path, FsMode::ReadOnly)?;
        self.view.metadata_hash_at(fd, path_flags, path).await
    }

    fn drop(&mut self, fd: Resource<Descriptor>) -> wasmtime::Result<()> {
        HostDescriptor::drop(&mut self.view, fd)
    }
}
