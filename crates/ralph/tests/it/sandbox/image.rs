//! A container image of some programs of this machine, for tests with a real engine. Built only
//! from installed programs: no network. It is kept for the next time.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::OnceLock;

const RALPH: &str = env!("CARGO_BIN_EXE_ralph");

const PROGRAMS: [&str; 23] = [
    "sh", "cat", "touch", "ls", "id", "env", "true", "sleep", "mkdir", "rm", "mv", "cp", "ln",
    "grep", "wc", "head", "find", "setsid", "chmod", "git", "python3", "bwrap", "echo",
];

/// The name of the image.
const NAME: &str = "ralph-test:tools";

/// Returns the image, if an engine runs it here. As root in CI one must; otherwise prints why
/// there is no image.
#[expect(clippy::print_stderr, reason = "what is left out must be seen")]
pub(crate) fn image() -> Option<&'static str> {
    static MADE: OnceLock<Result<(), String>> = OnceLock::new();
    match MADE.get_or_init(make) {
        Ok(()) => Some(NAME),
        Err(why) => {
            let is_required =
                std::env::var_os("CI").is_some() && rustix::process::geteuid().is_root();
            assert!(!is_required, "no container is run: {why}");
            eprintln!("LEFT OUT: real containers: {why}");
            None
        }
    }
}

fn make() -> Result<(), String> {
    if !rustix::process::geteuid().is_root() {
        return Err("podman is tried as root only".to_owned());
    }
    let root = tempfile::tempdir().map_err(|error| error.to_string())?;
    for program in PROGRAMS {
        let found = ["/usr/bin", "/bin"].map(|it| Path::new(it).join(program));
        let file = found.iter().find(|it| it.exists());
        put(root.path(), file.ok_or_else(|| format!("there is no {program} here"))?);
    }
    libraries(root.path(), Path::new(RALPH));
    python(root.path());
    for (name, mode) in [("tmp", 0o1777), ("bin", 0o755), ("etc", 0o755)] {
        let directory = root.path().join(name);
        fs::create_dir_all(&directory).map_err(|error| error.to_string())?;
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        fs::set_permissions(&directory, mode).map_err(|error| error.to_string())?;
    }
    let _ = fs::copy("/bin/sh", root.path().join("bin/sh"));
    let archive = root.path().with_extension("tar");
    let packed = run_command(
        Command::new("tar").arg("-cf").arg(&archive).arg("-C").arg(root.path()).arg("."),
    );
    let imported = packed.and_then(|()| {
        let change = ["import", "--change", "ENV PATH=/usr/bin:/bin"];
        run_command(Command::new("podman").args(change).arg(&archive).arg(NAME))
    });
    let _ = fs::remove_file(&archive);
    imported?;
    // Only a trial shows whether engine, runtime and kernel support it.
    let limits = ["--ulimit", "nofile=4096:4096", "--ulimit", "nproc=4096:4096"];
    let flags = ["run", "--rm", "--network", "none", "--cap-drop", "ALL", "--read-only"];
    run_command(Command::new("podman").args(flags).args(limits).args([NAME, "true"]))
}

fn run_command(command: &mut Command) -> Result<(), String> {
    let Output { status, stderr, .. } = command.output().map_err(|error| error.to_string())?;
    let words = String::from_utf8_lossy(&stderr);
    let last = words.lines().last().unwrap_or_default();
    if status.success() { Ok(()) } else { Err(format!("{command:?}: {last}")) }
}

/// Copies a program with its libraries.
fn put(root: &Path, file: &Path) {
    let to = root.join(file.strip_prefix("/").expect("an absolute path"));
    fs::create_dir_all(to.parent().expect("a directory")).expect("made");
    fs::copy(file, to).expect("copied");
    libraries(root, file);
}

fn libraries(root: &Path, file: &Path) {
    let Ok(listed) = Command::new("ldd").arg(file).output() else { return };
    for word in String::from_utf8_lossy(&listed.stdout).split_whitespace() {
        let to = root.join(word.trim_start_matches('/'));
        if word.starts_with('/') && !to.exists() {
            fs::create_dir_all(to.parent().expect("a directory")).expect("made");
            fs::copy(word, to).expect("copied");
        }
    }
}

/// Copies the library of python, for the attempts to get out.
fn python(root: &Path) {
    let ask = "import sysconfig; print(sysconfig.get_path('stdlib'))";
    let Ok(reported) = Command::new("/usr/bin/python3").args(["-c", ask]).output() else { return };
    let library = String::from_utf8_lossy(&reported.stdout).trim().to_owned();
    let to = root.join(library.trim_start_matches('/'));
    fs::create_dir_all(&to).expect("made");
    let skipped = ["test", "dist-packages", "site-packages", "idlelib", "tkinter", "__pycache__"];
    for entry in fs::read_dir(&library).expect("readable").flatten() {
        let name = entry.file_name();
        if !skipped.iter().any(|it| name == *it) {
            let mut copy = Command::new("cp");
            let _ = copy.arg("-rL").arg(entry.path()).arg(to.join(&name)).status();
        }
    }
    for entry in
        fs::read_dir(Path::new(&library).join("lib-dynload")).into_iter().flatten().flatten()
    {
        libraries(root, &entry.path());
    }
}
