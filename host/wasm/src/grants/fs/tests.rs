#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "test")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use wasmtime::component::ResourceTable;
use wasmtime_wasi::filesystem::WasiFilesystemCtx;
use wasmtime_wasi::p2::StreamError;

use super::*;
use crate::grants::Denial;
use crate::limits::Limits;

type Fd = Resource<Descriptor>;

/// Longer than anything here takes; a blocked call fails instead of hanging the test.
const PATIENCE: Duration = Duration::from_secs(20);

struct Call {
    table: ResourceTable,
    ctx: WasiFilesystemCtx,
    fs: CallFs,
    denials: Denials,
}

fn limits(write_bytes: u64, entries: u32) -> Limits {
    Limits { disk_write_bytes: write_bytes, disk_entries: entries, ..Limits::default() }
}

impl Call {
    fn with(root: &Path, grants: &[(&str, FsMode)], limits: Limits, session: &Arc<SessionDisk>) -> Self {
        let workspace =
            Workspace::open(root, &[], &[root.join("hames.toml"), root.join("conf/policy.toml")]).unwrap();
        let denials = Denials::new("p".into());
        let preopens: Arc<[Preopen]> =
            grants.iter().map(|(path, mode)| Preopen { path: (*path).to_owned(), mode: *mode }).collect();
        let meter = DiskMeter::new(Arc::new(limits), session.clone(), denials.clone());
        let fs = CallFs::new(Some((preopens, Arc::new(workspace), meter)), denials.clone());
        Self { table: ResourceTable::new(), ctx: WasiFilesystemCtx::default(), fs, denials }
    }

    fn new(root: &Path, mode: FsMode) -> Self {
        Self::with(root, &[(".", mode)], Limits::default(), &Arc::default())
    }

    fn guard(&mut self) -> FsGuard<'_> {
        let view = WasiFilesystemCtxView { ctx: &mut self.ctx, table: &mut self.table };
        FsGuard { view, fs: &self.fs }
    }

    fn folders(&mut self) -> Vec<(Fd, String)> {
        preopens::Host::get_directories(&mut self.guard()).unwrap()
    }

    fn root(&mut self) -> Fd {
        self.folders().into_iter().next().unwrap().0
    }

    async fn open(
        &mut self,
        at: &Fd,
        path: &str,
        open: OpenFlags,
        flags: DescriptorFlags,
    ) -> Result<Fd, ErrorCode> {
        let mut guard = self.guard();
        let opening = guard.open_at(again(at), PathFlags::SYMLINK_FOLLOW, path.to_owned(), open, flags);
        code(tokio::time::timeout(PATIENCE, opening).await.expect("opening must not block"))
    }

    async fn read(&mut self, at: &Fd, path: &str) -> Result<Vec<u8>, ErrorCode> {
        let fd = self.open(at, path, OpenFlags::empty(), DescriptorFlags::READ).await?;
        code(self.guard().read(fd, 4096, 0).await).map(|(bytes, _)| bytes)
    }

    async fn write(&mut self, at: &Fd, path: &str, bytes: &[u8]) -> Result<u64, ErrorCode> {
        let fd = self.open(at, path, OpenFlags::CREATE | OpenFlags::TRUNCATE, DescriptorFlags::WRITE).await?;
        code(self.guard().write(fd, bytes.to_vec(), 0).await)
    }

    fn last_denial(&self) -> Denial {
        self.denials.all().pop().expect("a denial")
    }
}

fn again(fd: &Fd) -> Fd {
    Resource::new_borrow(fd.rep())
}

fn code<T>(result: FsResult<T>) -> Result<T, ErrorCode> {
    result.map_err(|error| error.downcast().expect("no trap"))
}

fn workspace() -> (tempfile::TempDir, std::path::PathBuf) {
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path().canonicalize().unwrap().join("ws");
    fs::create_dir_all(root.join("sub/deep")).unwrap();
    fs::write(root.join("file"), "content").unwrap();
    fs::write(temp.path().join("outside"), "secret").unwrap();
    (temp, root)
}

fn fifo(path: &Path) {
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0)
        .unwrap();
}

#[tokio::test]
async fn a_read_only_grant_reads_and_changes_nothing() {
    let (_temp, root) = workspace();
    fs::write(root.join("hames.toml"), "h").unwrap();
    let mut call = Call::new(&root, FsMode::ReadOnly);
    let at = call.root();
    assert_eq!(call.read(&at, "file").await.unwrap(), b"content");
    assert_eq!(call.read(&at, "hames.toml").await.unwrap(), b"h");
    let none = OpenFlags::empty();
    for (open, flags) in [
        (none, DescriptorFlags::WRITE),
        (OpenFlags::CREATE, DescriptorFlags::READ),
        (OpenFlags::TRUNCATE, DescriptorFlags::READ),
        (OpenFlags::CREATE | OpenFlags::EXCLUSIVE, DescriptorFlags::WRITE),
    ] {
        assert_eq!(call.open(&at, "file", open, flags).await.unwrap_err(), ErrorCode::ReadOnly);
    }
    let mut g = call.guard();
    let p = || "file".to_owned();
    let now = types::NewTimestamp::Now;
    assert_eq!(code(g.unlink_file_at(again(&at), p()).await), Err(ErrorCode::ReadOnly));
    assert_eq!(code(g.create_directory_at(again(&at), "new".into()).await), Err(ErrorCode::ReadOnly));
    assert_eq!(code(g.remove_directory_at(again(&at), "sub".into()).await), Err(ErrorCode::ReadOnly));
    assert_eq!(code(g.symlink_at(again(&at), p(), "new".into()).await), Err(ErrorCode::ReadOnly));
    assert_eq!(code(g.rename_at(again(&at), p(), again(&at), "new".into()).await), Err(ErrorCode::ReadOnly));
    assert_eq!(
        code(g.link_at(again(&at), PathFlags::empty(), p(), again(&at), "new".into()).await),
        Err(ErrorCode::ReadOnly)
    );
    assert_eq!(
        code(g.set_times_at(again(&at), PathFlags::empty(), p(), now, now).await),
        Err(ErrorCode::ReadOnly)
    );
    let fd = call.open(&at, "file", none, DescriptorFlags::READ).await.unwrap();
    let mut g = call.guard();
    assert_eq!(code(g.write(again(&fd), vec![1], 0).await), Err(ErrorCode::ReadOnly));
    assert_eq!(code(g.set_size(again(&fd), 0).await), Err(ErrorCode::ReadOnly));
    assert_eq!(code(g.set_times(again(&fd), now, now).await), Err(ErrorCode::ReadOnly));
    assert_eq!(code(g.write_via_stream(again(&fd), 0).map(|_| ())), Err(ErrorCode::ReadOnly));
    assert_eq!(code(g.append_via_stream(again(&fd)).map(|_| ())), Err(ErrorCode::ReadOnly));
    assert_eq!(fs::read(root.join("file")).unwrap(), b"content");
    let line = call.last_denial().line_that_would_allow.unwrap();
    assert_eq!(line, "[[plugins.p.grant.fs]]\npath = \".\"\nmode = \"rw\"");
}

#[tokio::test]
async fn a_read_write_grant_does_ordinary_work() {
    let (_temp, root) = workspace();
    let mut call = Call::with(&root, &[("sub", FsMode::ReadWrite)], Limits::default(), &Arc::default());
    let (at, name) = call.folders().into_iter().next().unwrap();
    assert_eq!(name, "sub");
    assert_eq!(call.write(&at, "new", b"hello").await.unwrap(), 5);
    assert_eq!(call.write(&at, "new", b"bye").await.unwrap(), 3);
    assert_eq!(fs::read(root.join("sub/new")).unwrap(), b"bye");
    let exclusive = OpenFlags::CREATE | OpenFlags::EXCLUSIVE;
    assert_eq!(call.open(&at, "new", exclusive, DescriptorFlags::WRITE).await.unwrap_err(), ErrorCode::Exist);
    assert_eq!(call.read(&at, "none").await.unwrap_err(), ErrorCode::NoEntry);
    assert_eq!(call.read(&at, "").await.unwrap_err(), ErrorCode::NoEntry);
    assert_eq!(
        call.open(&at, "new", OpenFlags::DIRECTORY, DescriptorFlags::READ).await.unwrap_err(),
        ErrorCode::NotDirectory
    );
    assert_eq!(
        call.open(&at, "new/", OpenFlags::empty(), DescriptorFlags::READ).await.unwrap_err(),
        ErrorCode::NotDirectory
    );
    assert_eq!(
        call.open(&at, "made/", OpenFlags::CREATE, DescriptorFlags::WRITE).await.unwrap_err(),
        ErrorCode::IsDirectory
    );
    let mut g = call.guard();
    let (empty, follow) = (PathFlags::empty(), PathFlags::SYMLINK_FOLLOW);
    code(g.create_directory_at(again(&at), "d/".into()).await).unwrap();
    code(g.rename_at(again(&at), "new".into(), again(&at), "d/moved".into()).await).unwrap();
    code(g.link_at(again(&at), empty, "d/moved".into(), again(&at), "hard".into()).await).unwrap();
    code(g.symlink_at(again(&at), "d/moved".into(), "soft".into()).await).unwrap();
    let now = types::NewTimestamp::Now;
    code(g.set_times_at(again(&at), follow, "soft".into(), now, now).await).unwrap();
    code(g.rename_at(again(&at), "soft".into(), again(&at), "soft2".into()).await).unwrap();
    code(g.sync(again(&at)).await).unwrap();
    let stream = code(g.read_directory(again(&at)).await).unwrap();
    let mut names = Vec::new();
    while let Some(entry) = code(
        types::HostDirectoryEntryStream::read_directory_entry(&mut g, Resource::new_borrow(stream.rep()))
            .await,
    )
    .unwrap()
    {
        names.push(entry.name);
    }
    names.sort();
    assert_eq!(names, ["d", "deep", "hard", "soft2"]);
    code(g.unlink_file_at(again(&at), "soft2".into()).await).unwrap();
    assert_eq!(code(g.unlink_file_at(again(&at), "hard/".into()).await), Err(ErrorCode::NotDirectory));
    assert_eq!(code(g.remove_directory_at(again(&at), "d".into()).await), Err(ErrorCode::NotEmpty));
    code(g.unlink_file_at(again(&at), "d/moved".into()).await).unwrap();
    code(g.remove_directory_at(again(&at), "d".into()).await).unwrap();
    assert_eq!(call.read(&at, "hard").await.unwrap(), b"bye");
    assert_eq!(call.denials.all(), []);
}

#[tokio::test]
async fn nothing_leads_out_of_the_grant() {
    let (temp, root) = workspace();
    symlink("../../outside", root.join("sub/up")).unwrap();
    symlink(temp.path().join("outside"), root.join("sub/absolute")).unwrap();
    symlink("../..", root.join("sub/folder")).unwrap();
    symlink("../../planted", root.join("sub/dangling")).unwrap();
    symlink("planted", root.join("sub/loose")).unwrap();
    let mut call = Call::with(&root, &[("sub", FsMode::ReadWrite)], Limits::default(), &Arc::default());
    let at = call.root();
    let outside = temp.path().join("outside").to_str().unwrap().to_owned();
    for path in [
        "../file",
        "..",
        "/etc/passwd",
        "up",
        "up/",
        "absolute",
        "folder/outside",
        "folder/",
        "deep/../../file",
        &outside,
    ] {
        assert!(call.read(&at, path).await.is_err(), "reading {path}");
        assert!(call.write(&at, path, b"x").await.is_err(), "writing {path}");
        let mut g = call.guard();
        assert!(g.create_directory_at(again(&at), path.to_owned()).await.is_err(), "{path}");
        // A symlink itself is inside and may be removed; what it points to is not touched.
        let is_link = ["up", "absolute"].contains(&path);
        assert!(is_link || g.unlink_file_at(again(&at), path.to_owned()).await.is_err(), "{path}");
    }
    assert!(call.write(&at, "dangling", b"x").await.is_err());
    assert_eq!(call.write(&at, "loose", b"x").await.unwrap_err(), ErrorCode::Loop);
    assert!(!temp.path().join("planted").exists() && !root.join("sub/planted").exists());
    assert_eq!(fs::read(temp.path().join("outside")).unwrap(), b"secret");
    assert_eq!(fs::read(root.join("file")).unwrap(), b"content");
}

#[tokio::test]
async fn fifos_and_sockets_are_refused_before_they_block() {
    let (_temp, root) = workspace();
    fifo(&root.join("fifo"));
    fifo(&root.join("sub/fifo"));
    symlink("fifo", root.join("link")).unwrap();
    symlink("sub", root.join("folder")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(root.join("socket")).unwrap();
    let mut call = Call::new(&root, FsMode::ReadWrite);
    let at = call.root();
    for path in ["fifo", "link", "sub/fifo", "folder/fifo", "socket"] {
        for flags in
            [DescriptorFlags::READ, DescriptorFlags::WRITE, DescriptorFlags::READ | DescriptorFlags::WRITE]
        {
            let refused = call.open(&at, path, OpenFlags::empty(), flags).await.unwrap_err();
            assert_eq!(refused, ErrorCode::NotPermitted, "{path} {flags:?}");
        }
        assert_eq!(call.write(&at, path, b"x").await.unwrap_err(), ErrorCode::NotPermitted);
    }
    assert_eq!(call.write(&at, "fifo/x", b"x").await.unwrap_err(), ErrorCode::NotDirectory);
    let mut g = call.guard();
    assert_eq!(code(g.create_directory_at(again(&at), "fifo/x".into()).await), Err(ErrorCode::NotDirectory));
    let renamed = g.rename_at(again(&at), "fifo".into(), again(&at), "file".into()).await;
    assert_eq!(code(renamed), Err(ErrorCode::NotPermitted));
    let linked = g.link_at(again(&at), PathFlags::empty(), "fifo".into(), again(&at), "f2".into()).await;
    assert_eq!(code(linked), Err(ErrorCode::NotPermitted));
    assert!(code(g.stat_at(again(&at), PathFlags::empty(), "fifo".into()).await).is_ok());
    assert_eq!(call.last_denial().line_that_would_allow, None);
}

#[tokio::test]
async fn bytes_are_bounded_however_they_are_written() {
    let (_temp, root) = workspace();
    let session = Arc::new(SessionDisk::default());
    let space = ErrorCode::InsufficientSpace;
    let call = || Call::with(&root, &[(".", FsMode::ReadWrite)], limits(100, 10), &session);
    // write, set-size and a hole.
    let mut first = call();
    let at = first.root();
    assert_eq!(first.write(&at, "a", &[0; 60]).await.unwrap(), 60);
    assert_eq!(first.write(&at, "a", &[0; 41]).await.unwrap_err(), space);
    let fd = first.open(&at, "a", OpenFlags::empty(), DescriptorFlags::WRITE).await.unwrap();
    let mut g = first.guard();
    assert_eq!(code(g.set_size(again(&fd), 1 << 40).await), Err(space));
    assert_eq!(code(g.write(again(&fd), vec![1], 1 << 40).await), Err(space));
    code(g.set_size(again(&fd), 0).await).unwrap();
    code(g.set_size(again(&fd), 40).await).unwrap();
    assert_eq!(code(g.write(again(&fd), vec![1], 0).await), Err(space));
    assert_eq!(first.last_denial().capability, "limits");
    assert!(first.last_denial().line_that_would_allow.unwrap().contains("disk_write_bytes"));
    // Streams.
    let mut second = call();
    let at = second.root();
    let fd = second.open(&at, "b", OpenFlags::CREATE, DescriptorFlags::WRITE).await.unwrap();
    let stream = code(second.guard().write_via_stream(again(&fd), 0)).unwrap();
    let append = code(second.guard().append_via_stream(again(&fd))).unwrap();
    let write = second.table.get_mut(&stream).unwrap();
    write.blocking_write_and_flush(Bytes::from_static(&[1; 50])).await.unwrap();
    let append = second.table.get_mut(&append).unwrap();
    append.blocking_write_and_flush(Bytes::from_static(&[2; 50])).await.unwrap();
    let Err(StreamError::LastOperationFailed(error)) =
        append.blocking_write_and_flush(Bytes::from_static(&[3])).await
    else {
        panic!("over the quota");
    };
    let error = second.table.push(error).unwrap();
    let told = types::Host::filesystem_error_code(&mut second.guard(), error).unwrap();
    assert_eq!(told, Some(space));
    assert_eq!(fs::metadata(root.join("b")).unwrap().len(), 100);
    assert_eq!(session.written_bytes(), 200);
}

#[tokio::test]
async fn the_session_and_the_number_of_entries_are_bounded_too() {
    let (_temp, root) = workspace();
    let session = Arc::new(SessionDisk::default());
    let limits = Limits { disk_session_bytes: 100, ..limits(80, 3) };
    let call = || Call::with(&root, &[(".", FsMode::ReadWrite)], limits.clone(), &session);
    let mut first = call();
    let at = first.root();
    first.write(&at, "a", &[0; 80]).await.unwrap();
    let mut second = call();
    let at = second.root();
    assert_eq!(second.write(&at, "a", &[0; 30]).await.unwrap_err(), ErrorCode::InsufficientSpace);
    assert!(second.last_denial().line_that_would_allow.unwrap().contains("disk_session_bytes"));
    second.write(&at, "a", &[0; 20]).await.unwrap();
    // What fails is not counted as made.
    assert_eq!(second.write(&at, "none/x", b"").await.unwrap_err(), ErrorCode::NoEntry);
    assert!(second.guard().create_directory_at(again(&at), "sub".into()).await.is_err());
    second.write(&at, "1", b"").await.unwrap();
    second.write(&at, "1", b"").await.unwrap();
    let mut g = second.guard();
    code(g.create_directory_at(again(&at), "2".into()).await).unwrap();
    code(g.symlink_at(again(&at), "1".into(), "3".into()).await).unwrap();
    let space = Err(ErrorCode::InsufficientSpace);
    assert_eq!(code(g.symlink_at(again(&at), "1".into(), "4".into()).await), space);
    assert_eq!(code(g.create_directory_at(again(&at), "4".into()).await), space);
    assert_eq!(
        code(g.link_at(again(&at), PathFlags::empty(), "1".into(), again(&at), "4".into()).await),
        space
    );
    assert_eq!(second.write(&at, "4", b"").await.unwrap_err(), ErrorCode::InsufficientSpace);
    assert!(second.last_denial().line_that_would_allow.unwrap().contains("disk_entries"));
}

#[tokio::test]
async fn files_that_steer_hames_stay_as_they_are() {
    let (_temp, root) = workspace();
    fs::create_dir(root.join("conf")).unwrap();
    fs::write(root.join("conf/policy.toml"), "deny").unwrap();
    symlink("conf/policy.toml", root.join("alias")).unwrap();
    symlink("conf", root.join("folder")).unwrap();
    fs::hard_link(root.join("conf/policy.toml"), root.join("hard")).unwrap();
    let mut call = Call::new(&root, FsMode::ReadWrite);
    let at = call.root();
    let no = ErrorCode::NotPermitted;
    for path in ["conf/policy.toml", "alias", "folder/policy.toml", "hard", "sub/../conf/policy.toml"] {
        assert_eq!(call.write(&at, path, b"allow").await.unwrap_err(), no, "{path}");
        assert_eq!(call.read(&at, path).await.unwrap(), b"deny", "{path}");
    }
    // hames.toml does not exist: nobody may make it, under any spelling.
    assert_eq!(call.write(&at, "hames.toml", b"x").await.unwrap_err(), no);
    assert_eq!(call.write(&at, "HAMES.toml", b"x").await.unwrap_err(), no);
    fs::write(root.join("mine"), "allow").unwrap();
    fs::create_dir(root.join("d")).unwrap();
    let mut g = call.guard();
    let empty = PathFlags::empty();
    for path in ["conf/policy.toml", "folder/policy.toml", "hard"] {
        assert_eq!(code(g.unlink_file_at(again(&at), path.into()).await), Err(no), "{path}");
        assert_eq!(
            code(g.rename_at(again(&at), path.into(), again(&at), "x".into()).await),
            Err(no),
            "{path}"
        );
        assert_eq!(
            code(g.rename_at(again(&at), "mine".into(), again(&at), path.into()).await),
            Err(no),
            "{path}"
        );
        assert_eq!(
            code(g.link_at(again(&at), empty, path.into(), again(&at), "x".into()).await),
            Err(no),
            "{path}"
        );
    }
    assert_eq!(code(g.rename_at(again(&at), "conf".into(), again(&at), "x".into()).await), Err(no));
    assert_eq!(code(g.remove_directory_at(again(&at), "conf".into()).await), Err(no));
    assert_eq!(code(g.rename_at(again(&at), "mine".into(), again(&at), "hames.toml".into()).await), Err(no));
    assert_eq!(
        code(g.link_at(again(&at), empty, "mine".into(), again(&at), "hames.toml".into()).await),
        Err(no)
    );
    assert_eq!(code(g.symlink_at(again(&at), "mine".into(), "hames.toml".into()).await), Err(no));
    assert_eq!(code(g.create_directory_at(again(&at), "hames.toml".into()).await), Err(no));
    let now = types::NewTimestamp::Now;
    for path in ["conf/policy.toml", "alias"] {
        let times = g.set_times_at(again(&at), PathFlags::SYMLINK_FOLLOW, path.into(), now, now).await;
        assert_eq!(code(times), Err(no), "{path}");
    }
    assert_eq!(code(g.create_directory_at(again(&at), "conf".into()).await), Err(ErrorCode::Exist));
    assert_eq!(code(g.create_directory_at(again(&at), "./".into()).await), Err(ErrorCode::Exist));
    // Symlinks to it are not it.
    code(g.unlink_file_at(again(&at), "alias".into()).await).unwrap();
    assert_eq!(fs::read(root.join("conf/policy.toml")).unwrap(), b"deny");
}

#[tokio::test]
async fn symlinks_that_point_outward_are_neither_made_nor_moved() {
    let (_temp, root) = workspace();
    symlink("../file", root.join("sub/up")).unwrap();
    symlink("/etc/passwd", root.join("sub/absolute")).unwrap();
    let mut call = Call::new(&root, FsMode::ReadWrite);
    let at = call.root();
    let no = Err(ErrorCode::NotPermitted);
    let mut g = call.guard();
    for target in ["/etc/passwd", "../x", "sub/../../x", ".."] {
        assert_eq!(code(g.symlink_at(again(&at), target.into(), "new".into()).await), no, "{target}");
    }
    for path in ["sub/up", "sub/absolute"] {
        assert_eq!(code(g.rename_at(again(&at), path.into(), again(&at), "new".into()).await), no, "{path}");
        let linked = g.link_at(again(&at), PathFlags::empty(), path.into(), again(&at), "new".into()).await;
        assert_eq!(code(linked), no, "{path}");
    }
    assert!(fs::symlink_metadata(root.join("new")).is_err());
}

#[tokio::test]
async fn a_link_between_grants_does_not_lift_read_only() {
    let (_temp, root) = workspace();
    let grants = [(".", FsMode::ReadOnly), ("sub", FsMode::ReadWrite)];
    let mut call = Call::with(&root, &grants, Limits::default(), &Arc::default());
    let folders = call.folders();
    let (ro, rw) = (&folders[0].0, &folders[1].0);
    let mut g = call.guard();
    let read_only = Err(ErrorCode::ReadOnly);
    assert_eq!(
        code(g.link_at(again(ro), PathFlags::empty(), "file".into(), again(rw), "x".into()).await),
        read_only
    );
    assert_eq!(code(g.rename_at(again(ro), "file".into(), again(rw), "x".into()).await), read_only);
    assert_eq!(code(g.rename_at(again(rw), "deep".into(), again(ro), "x".into()).await), read_only);
    // A folder opened through the read-only grant stays read-only, although another grant covers it.
    let sub = call.open(&folders[0].0, "sub", OpenFlags::DIRECTORY, DescriptorFlags::READ).await.unwrap();
    assert_eq!(call.write(&sub, "x", b"x").await.unwrap_err(), ErrorCode::ReadOnly);
    call.write(&folders[1].0, "x", b"x").await.unwrap();
}

#[tokio::test]
async fn what_is_not_granted_is_denied_not_missing() {
    let (_temp, root) = workspace();
    let denials = Denials::new("p".into());
    let none = Call {
        table: ResourceTable::new(),
        ctx: WasiFilesystemCtx::default(),
        fs: CallFs::new(None, denials.clone()),
        denials,
    };
    let some = Call::with(&root, &[("sub", FsMode::ReadWrite)], Limits::default(), &Arc::default());
    let no = ErrorCode::NotPermitted;
    for mut call in [none, some] {
        let folders = call.folders();
        let (at, name) = folders.last().unwrap();
        assert_eq!(name, ".");
        assert_eq!(call.denials.all(), [], "asking for the folders is no offence");
        assert_eq!(call.read(at, "file").await.unwrap_err(), no);
        let line = call.last_denial().line_that_would_allow.unwrap();
        assert_eq!(line, "[[plugins.p.grant.fs]]\npath = \".\"\nmode = \"ro\"");
        assert_eq!(call.write(at, "file", b"x").await.unwrap_err(), no);
        assert!(call.last_denial().line_that_would_allow.unwrap().ends_with("mode = \"rw\""));
        let mut g = call.guard();
        let f = || "file".to_owned();
        assert_eq!(code(g.stat_at(again(at), PathFlags::empty(), f()).await).unwrap_err(), no);
        assert_eq!(code(g.readlink_at(again(at), f()).await), Err(no));
        assert!(code(g.metadata_hash_at(again(at), PathFlags::empty(), f()).await).is_err());
        assert!(code(g.read_directory(again(at)).await).is_err());
        assert_eq!(code(g.create_directory_at(again(at), "new".into()).await), Err(no));
        assert_eq!(code(g.unlink_file_at(again(at), f()).await), Err(no));
        assert_eq!(code(g.read(again(at), 10, 0).await), Ok((Vec::new(), true)));
        assert_eq!(code(g.write(again(at), vec![1], 0).await), Err(ErrorCode::ReadOnly));
    }
    assert_eq!(fs::read(root.join("file")).unwrap(), b"content");
}
