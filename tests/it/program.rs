//! How tests run the `hames` program: a home of its own, no environment but what is given, real plugins.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The key of every provider in these tests. Whatever the program prints or leaves behind is searched for it.
pub(crate) const KEY: &str = "sk-marker-7f3a91c05d";

/// The folder of the repository.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests folder has a parent")
}

/// `TARGET` of this build.
fn target() -> PathBuf {
    let this = std::env::current_exe().expect("the test binary has a path");
    this.ancestors().nth(3).expect("TARGET/PROFILE/deps/it").to_owned()
}

/// The program, built once per test run: cargo does not build another package's binaries for a test.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let status = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--package", "hames", "--bin", "hames"])
            .arg("--target-dir")
            .arg(target())
            .current_dir(root())
            .status()
            .expect("cargo runs");
        assert!(status.success(), "`cargo build --bin hames` failed");
        target().join("debug/hames")
    })
}

/// The first-party plugins.
pub(crate) fn plugins() -> PathBuf {
    let places = [target().join("plugins"), root().join("target/plugins")];
    let found = places.into_iter().find(|place| place.join("bundle.toml").is_file());
    found.expect("no plugins are built\nhint: run `cargo xtask guests`")
}

/// What a run of the program left.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    /// Everything in one text, for snapshots.
    pub(crate) fn text(&self) -> String {
        format!("status {}\n--- stdout\n{}--- stderr\n{}", self.status, self.stdout, self.stderr)
    }
}

/// A user with nothing: empty configuration, empty state, an empty workspace.
pub(crate) struct Home {
    dir: tempfile::TempDir,
}

impl Home {
    pub(crate) fn new() -> Self {
        let home = Self { dir: tempfile::tempdir().unwrap() };
        for folder in ["config", "work"] {
            std::fs::create_dir(home.path(folder)).unwrap();
        }
        home
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// The program, ready to be started in the workspace.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(program());
        command
            .args(arguments)
            .current_dir(self.path("work"))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.dir.path())
            .env("HAMES_CONFIG_DIR", self.path("config"))
            .env("HAMES_STATE_DIR", self.path("state"))
            // Shared by all tests: compiling a plugin takes seconds, and the cache is what a second start uses.
            .env("HAMES_CACHE_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).join("hames-cache"))
            .env("HAMES_PLUGIN_DIR", plugins())
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Ran {
        ran(&mut self.command(arguments))
    }

    /// Ids of the sessions on disk, oldest first.
    pub(crate) fn sessions(&self) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.path("state/sessions")) else { return Vec::new() };
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut ids: Vec<String> =
            names.filter_map(|name| Some(name.strip_suffix(".jsonl")?.to_owned())).collect();
        ids.sort();
        ids
    }

    /// The entries of a transcript.
    pub(crate) fn transcript(&self, id: &str) -> Vec<serde_json::Value> {
        let text = self.read(&format!("state/sessions/{id}.jsonl"));
        assert!(text.ends_with('\n'), "a transcript ends with a whole line");
        text.split_terminator('\n').map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Writes a recording and returns the flag for it.
    pub(crate) fn recording(&self, text: &str) -> String {
        self.write("recording.toml", text);
        format!("--provider=recorded:{}", self.path("recording.toml").display())
    }

    /// Snapshot settings that hide what differs from run to run.
    pub(crate) fn snapshots(&self) -> insta::Settings {
        let mut settings = insta::Settings::clone_current();
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        let home = self.dir.path().canonicalize().unwrap();
        for path in [home.as_path(), self.dir.path(), root()] {
            settings.add_filter(&regex_literal(&path.display().to_string()), "[dir]");
        }
        settings.add_filter(&regex_literal(&plugins().display().to_string()), "[plugins]");
        settings.add_filter(r"\d{8}-\d{6}-[a-z0-9]{8}", "[session]");
        settings.add_filter(r"\d{4}-\d\d-\d\d \d\d:\d\d", "[date]");
        settings.add_filter(r"(<1|\b\d+) ms", "[time]");
        settings.add_filter(r"blake3:[0-9a-f]{64}", "[digest]");
        settings
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // A test that fails has its own words.
        if !std::thread::panicking() {
            let found = files_with(self.dir.path(), KEY.as_bytes());
            assert!(found.is_empty(), "a key was left in {found:?}");
        }
    }
}

/// Files below a folder that hold these bytes.
fn files_with(folder: &Path, bytes: &[u8]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, kind) = (entry.path(), entry.file_type());
        if kind.as_ref().is_ok_and(std::fs::FileType::is_dir) {
            found.extend(files_with(&path, bytes));
        } else if kind.is_ok_and(|kind| kind.is_file()) {
            let text = std::fs::read(&path).unwrap_or_default();
            if text.windows(bytes.len()).any(|window| window == bytes) {
                found.push(path);
            }
        }
    }
    found
}

#[test]
fn a_key_that_is_left_behind_is_found() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("deep")).unwrap();
    std::fs::write(dir.path().join("deep/log"), format!("asked with {KEY}\n")).unwrap();
    std::fs::write(dir.path().join("other"), "nothing").unwrap();
    assert_eq!(files_with(dir.path(), KEY.as_bytes()), [dir.path().join("deep/log")]);
}

fn regex_literal(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_alphanumeric() || c == '/' { c.to_string() } else { format!("\\{c}") })
        .collect()
}

pub(crate) fn ran(command: &mut Command) -> Ran {
    let output = command.output().expect("the program starts");
    let ran = Ran {
        status: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).expect("standard output is UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("standard error is UTF-8"),
    };
    assert!(!ran.text().contains(KEY), "a key is shown: {}", ran.text());
    ran
}
