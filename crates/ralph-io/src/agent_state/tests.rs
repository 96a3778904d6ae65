//! Logins that are copied, refreshed, and tampered with.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use tempfile::TempDir;

use super::*;

/// The agents that have a directory, with the files of their logins and where the copies are.
const AGENTS: [(AgentKind, &str, &str, &str); 11] = [
    (AgentKind::Claude, "CLAUDE_CONFIG_DIR", ".claude/.credentials.json", ".credentials.json"),
    (AgentKind::Codex, "CODEX_HOME", ".codex/auth.json", "auth.json"),
    (AgentKind::Gemini, "GEMINI_CLI_HOME", ".gemini/oauth_creds.json", ".gemini/oauth_creds.json"),
    (
        AgentKind::Gemini,
        "GEMINI_CLI_HOME",
        ".gemini/google_accounts.json",
        ".gemini/google_accounts.json",
    ),
    (AgentKind::Qwen, "QWEN_HOME", ".qwen/oauth_creds.json", "oauth_creds.json"),
    (AgentKind::Opencode, "XDG_DATA_HOME", ".local/share/opencode/auth.json", "opencode/auth.json"),
    (AgentKind::Copilot, "COPILOT_HOME", ".copilot/config.json", "config.json"),
    (AgentKind::Pi, "PI_CODING_AGENT_DIR", ".pi/agent/auth.json", "auth.json"),
    (AgentKind::Cline, "CLINE_DIR", ".cline/data/secrets.json", "data/secrets.json"),
    (
        AgentKind::Cline,
        "CLINE_DIR",
        ".cline/data/settings/providers.json",
        "data/settings/providers.json",
    ),
    (AgentKind::Amp, "HOME", ".local/share/amp/secrets.json", "home/.local/share/amp/secrets.json"),
];

const OLD: &str = r#"{"token": "old", "kind": "oauth", "expires": 1}"#;
const NEW: &str = r#"{"token": "new", "kind": "oauth", "expires": 4102444800}"#;

struct Machine {
    root: TempDir,
}

impl Machine {
    fn new() -> Self {
        let root = tempfile::tempdir().expect("a directory");
        fs::create_dir(root.path().join("home")).expect("a directory");
        Self { root }
    }

    /// A machine with a login of Claude Code, ready for a call.
    fn prepared() -> (Self, PreparedAgentState) {
        let machine = Self::new();
        write(&machine.home(".claude/.credentials.json"), OLD);
        let prepared = machine.prepare(AgentKind::Claude);
        (machine, prepared)
    }

    fn home(&self, name: &str) -> PathBuf {
        self.root.path().join("home").join(name)
    }

    fn state(&self) -> PathBuf {
        self.root.path().join("state")
    }

    fn copy(&self) -> PathBuf {
        self.state().join("agent/claude/.credentials.json")
    }

    fn prepare(&self, kind: AgentKind) -> PreparedAgentState {
        let env = [("HOME".into(), self.root.path().join("home").into())];
        prepare_agent_state(kind, &env, &self.state()).expect("prepared")
    }

    #[track_caller]
    fn check_original(&self, expect: &str) {
        let original = self.home(".claude/.credentials.json");
        assert_eq!(fs::read_to_string(original).expect("there"), expect);
    }
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
    fs::write(path, text).expect("written");
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).expect("there")
}

#[test]
fn every_agent_gets_its_login_and_no_state() {
    for (kind, variable, original, copy) in AGENTS {
        let machine = Machine::new();
        write(&machine.home(original), OLD);
        for other in ["hooks.json", "history.jsonl", "state.json"] {
            write(&machine.home(original).with_file_name(other), "{}");
        }
        let prepared = machine.prepare(kind);
        let directory = machine.state().join("agent").join(kind.name());
        assert_eq!(prepared.directory, directory);
        let mut files = Vec::new();
        let mut rest = vec![directory.clone()];
        while let Some(place) = rest.pop() {
            for entry in fs::read_dir(place).expect("readable").flatten() {
                let is_directory = entry.file_type().expect("a type").is_dir();
                if is_directory { &mut rest } else { &mut files }.push(entry.path());
            }
        }
        assert_eq!(files, [directory.join(copy)], "{kind:?}");
        assert_eq!(read(&directory.join(copy)), OLD);
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!((mode(&directory), mode(&directory.join(copy))), (0o700, 0o600));
        let moved = prepared.variables.iter().find(|(name, _)| name == variable);
        let place = if kind == AgentKind::Amp { directory.join("home") } else { directory };
        assert_eq!(moved, Some(&(variable.to_owned(), place.into())), "{kind:?}");
    }
}

#[test]
fn tokens_come_back_and_settings_do_not() {
    for (kind, _, original, copy) in AGENTS {
        let machine = Machine::new();
        let original = machine.home(original);
        write(&original, OLD);
        let prepared = machine.prepare(kind);
        assert_eq!(prepared.return_credentials(), [], "{kind:?}: nothing has changed");
        fs::write(prepared.directory.join(copy), NEW).expect("written");
        let notices = prepared.return_credentials();
        let is_settings = original.ends_with("config.json")
            || original.ends_with("google_accounts.json")
            || kind == AgentKind::Cline;
        let file = original.canonicalize().expect("there");
        if is_settings {
            assert_eq!((notices, read(&original).as_str()), (vec![], OLD), "{kind:?}");
        } else {
            let [LoginNotice::Returned { file: returned, kept }] = notices.as_slice() else {
                panic!("{kind:?}: {notices:?}")
            };
            assert_eq!((returned, read(&original).as_str()), (&file, NEW), "{kind:?}");
            assert_eq!(read(kept), OLD, "the old one is kept");
            assert!(!kept.starts_with(&prepared.directory), "where no agent sees it");
            let mode = fs::metadata(&original).expect("there").permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }
}

#[test]
fn the_last_ten_replaced_logins_are_kept() {
    let (machine, prepared) = Machine::prepared();
    let seeded = prepared.seeded.first().expect("a login");
    let older = |number: u32| prepared.replaced.join(format!("{number}-login"));
    (100..112).for_each(|number| write(&older(number), "old"));
    let kept = prepared.keep_replaced(seeded).expect("kept");
    assert!(kept.is_file() && older(103).is_file() && !older(102).exists());
    assert_eq!(fs::read_dir(&prepared.replaced).expect("there").count(), 10);
    machine.check_original(OLD);
}

#[test]
fn agents_without_known_files_get_an_empty_directory() {
    for kind in [AgentKind::Acp, AgentKind::Text, AgentKind::Custom, AgentKind::Sim] {
        let machine = Machine::new();
        let prepared = machine.prepare(kind);
        assert_eq!(prepared.variables, []);
        assert_eq!(fs::read_dir(&prepared.directory).expect("there").count(), 0);
        assert_eq!(prepared.return_credentials(), []);
    }
}

#[test]
fn the_users_own_variables_and_links_are_followed() {
    let machine = Machine::new();
    let elsewhere = machine.root.path().join("elsewhere");
    write(&elsewhere.join("real.json"), OLD);
    symlink(elsewhere.join("real.json"), elsewhere.join("auth.json")).expect("a link");
    let link = machine.root.path().join("link");
    symlink(&elsewhere, &link).expect("a link");
    let env = [("CODEX_HOME".into(), link.into())];
    let prepared = prepare_agent_state(AgentKind::Codex, &env, &machine.state()).expect("prepared");
    assert_eq!(read(&prepared.directory.join("auth.json")), OLD);
    fs::write(prepared.directory.join("auth.json"), NEW).expect("written");
    prepared.return_credentials();
    assert_eq!(read(&elsewhere.join("real.json")), NEW);
    assert!(elsewhere.join("auth.json").is_symlink(), "the link is still one");
}

#[test]
fn a_missing_or_unusable_login_is_removed_for_the_agent() {
    let (machine, prepared) = Machine::prepared();
    let original = machine.home(".claude/.credentials.json");
    assert!(machine.copy().exists());
    fs::remove_file(&original).expect("removed");
    let again = machine.prepare(AgentKind::Claude);
    assert!(!machine.copy().exists());
    // Files that the agent creates itself stay.
    fs::write(machine.copy(), NEW).expect("written");
    assert_eq!(again.return_credentials(), []);
    let [LoginNotice::NotReturned { why: NotReturnedReason::OriginalChanged, .. }] =
        &prepared.return_credentials()[..]
    else {
        panic!("the user has logged out");
    };
    assert!(!original.exists());
    fs::write(&original, vec![b' '; MAX_LOGIN_BYTES + 1]).expect("written");
    machine.prepare(AgentKind::Claude);
    assert!(!machine.copy().exists(), "no login is that large");
    // Without a home there is no login either.
    let homeless = prepare_agent_state(AgentKind::Claude, &[], &machine.state()).expect("prepared");
    assert_eq!(homeless.variables.len(), 1);
}

#[test]
fn replaced_login_files_are_refused_and_links_not_followed() {
    #[track_caller]
    fn check(tamper: impl Fn(&Machine, &Path), expect: &str) {
        let (machine, prepared) = Machine::prepared();
        let secret = machine.home(".ssh/id");
        write(&secret, NEW);
        fs::remove_file(machine.copy()).expect("removed");
        tamper(&machine, &machine.copy());
        let notices = prepared.return_credentials();
        let [notice @ LoginNotice::NotReturned { .. }] = notices.as_slice() else {
            panic!("{expect}: {notices:?}")
        };
        assert!(notice.to_string().ends_with(expect), "{notice}");
        machine.check_original(OLD);
        // The next call starts from the user's login again, whatever has its name now.
        machine.prepare(AgentKind::Claude);
        let kind = fs::symlink_metadata(machine.copy()).expect("there").file_type();
        assert!(kind.is_file());
        assert_eq!(read(&machine.copy()), OLD);
        assert_eq!(read(&secret), NEW, "nothing was written through a link");
    }
    let to_secret = |machine: &Machine, copy: &Path| {
        symlink(machine.home(".ssh/id"), copy).expect("a link");
    };
    check(to_secret, "the new file cannot be read: it is a symbolic link");
    check(
        |_, copy| {
            rustix::fs::mkfifoat(rustix::fs::CWD, copy, rustix::fs::Mode::RWXU).expect("a pipe");
        },
        "cannot be read: it is not a regular file",
    );
    check(
        |_, copy| {
            fs::create_dir(copy).expect("a directory");
            fs::write(copy.join("inside"), "x").expect("written");
        },
        "cannot be read: it is not a regular file",
    );
    check(
        |_, copy| {
            drop(std::os::unix::net::UnixListener::bind(copy).expect("a socket"));
        },
        "cannot be read: it is not a regular file",
    );
    let large = " ".repeat(MAX_LOGIN_BYTES + 1);
    for (text, expect) in [
        ("", "the new file is not JSON"),
        ("[1]", "the new file is not JSON"),
        (r#"{"token": "new"}"#, "the new file has other keys"),
        (large.as_str(), "the new file is larger than any login"),
        (
            r#"{"token": "https://evil.example", "kind": "oauth", "expires": 4102444800}"#,
            "the new file has another value in `token`",
        ),
    ] {
        check(|_, copy| write(copy, text), expect);
    }
}

#[test]
fn replaced_parent_directories_are_not_followed() {
    let machine = Machine::new();
    let original = machine.home(".local/share/opencode/auth.json");
    write(&original, OLD);
    let prepared = machine.prepare(AgentKind::Opencode);
    let way = prepared.directory.join("opencode");
    fs::remove_dir_all(&way).expect("removed");
    let trap = machine.root.path().join("trap");
    write(&trap.join("auth.json"), NEW);
    symlink(&trap, &way).expect("a link");
    let notices = prepared.return_credentials();
    assert!(
        matches!(
            notices[..],
            [LoginNotice::NotReturned { why: NotReturnedReason::Unreadable(_), .. }]
        ),
        "{notices:?}"
    );
    assert_eq!(read(&original), OLD);
    machine.prepare(AgentKind::Opencode);
    assert!(!way.is_symlink());
    assert_eq!(read(&way.join("auth.json")), OLD);
    assert_eq!(read(&trap.join("auth.json")), NEW, "the trap is untouched");
    // A link in the path and nothing to copy: nothing happens and nothing fails.
    fs::remove_file(&original).expect("removed");
    fs::remove_dir_all(&way).expect("removed");
    machine.prepare(AgentKind::Opencode);
    assert!(!way.exists());
    symlink(&trap, &way).expect("a link");
    machine.prepare(AgentKind::Opencode);
    assert_eq!(read(&trap.join("auth.json")), NEW, "the trap is untouched");
}

#[test]
fn a_login_that_the_user_changed_is_not_overwritten() {
    let (machine, prepared) = Machine::prepared();
    fs::write(machine.copy(), NEW).expect("written");
    let third = r#"{"token": "third", "kind": "oauth", "expires": 4102444800}"#;
    fs::write(machine.home(".claude/.credentials.json"), third).expect("written");
    let notices = prepared.return_credentials();
    let why = "your file has changed as well";
    assert!(notices[0].to_string().ends_with(why), "{notices:?}");
    machine.check_original(third);
}

#[test]
fn a_google_login_is_selected_without_a_key() {
    let machine = Machine::new();
    let choice = ("GOOGLE_GENAI_USE_GCA".to_owned(), OsString::from("true"));
    assert!(!machine.prepare(AgentKind::Gemini).variables.contains(&choice), "no login");
    write(&machine.home(".gemini/oauth_creds.json"), OLD);
    assert!(machine.prepare(AgentKind::Gemini).variables.contains(&choice));
    let env = [
        ("HOME".into(), machine.root.path().join("home").into()),
        ("GEMINI_API_KEY".into(), "key".into()),
    ];
    let prepared =
        prepare_agent_state(AgentKind::Gemini, &env, &machine.state()).expect("prepared");
    assert!(!prepared.variables.contains(&choice), "the key is the user's choice");
}

#[test]
fn another_home_does_not_hide_the_toolchains() {
    let machine = Machine::new();
    fs::create_dir(machine.home(".cargo")).expect("a directory");
    let variables = machine.prepare(AgentKind::Amp).variables;
    let cargo = ("CARGO_HOME".to_owned(), machine.home(".cargo").into());
    assert!(variables.contains(&cargo), "{variables:?}");
    assert!(variables.iter().all(|(name, _)| name != "RUSTUP_HOME"), "{variables:?}");
}

#[test]
fn the_users_configuration_is_copied_before_each_call() {
    let machine = Machine::new();
    let original = machine.home(".codex/config.toml");
    write(&original, "model = \"m\"\n[mcp_servers.a]\ncommand = \"x\"\n");
    write(&machine.home(".codex/fast.config.toml"), "model = \"small\"\n");
    write(&machine.home(".codex/AGENTS.md"), "Be brief.");
    let directory = machine.prepare(AgentKind::Codex).directory;
    assert_eq!(read(&directory.join("config.toml")), "model = \"m\"\n");
    assert_eq!(read(&directory.join("fast.config.toml")), "model = \"small\"\n");
    assert_eq!(read(&directory.join("AGENTS.md")), "Be brief.");
    let env = [("HOME".into(), machine.root.path().join("home").into())];
    let notices = configuration::list_notices(AgentKind::Codex, &env);
    let expect = "in the sandbox codex uses `~/.codex/config.toml` without `mcp_servers`; \
                  `mcp.coding` gives it servers";
    assert_eq!(notices, [expect]);
    // The agent's changes are discarded, and the user's file stays.
    fs::write(directory.join("config.toml"), "notify = [\"evil\"]\n").expect("written");
    machine.prepare(AgentKind::Codex);
    assert_eq!(read(&directory.join("config.toml")), "model = \"m\"\n");
    fs::remove_file(&original).expect("removed");
    machine.prepare(AgentKind::Codex);
    assert!(!directory.join("config.toml").exists());
}

#[test]
fn opencode_gets_variables_for_its_configuration_and_programs() {
    let machine = Machine::new();
    write(&machine.home(".config/opencode/opencode.json"), "{\"model\": \"m\"}");
    write(&machine.home(".cache/opencode/bin/rg"), "");
    let prepared = machine.prepare(AgentKind::Opencode);
    let copy = prepared.directory.join("config/opencode.json");
    assert!(read(&copy).contains("\"m\""));
    assert!(prepared.variables.contains(&("OPENCODE_CONFIG".to_owned(), copy.into())));
    let programs = machine.home(".cache/opencode/bin").canonicalize().expect("there");
    assert_eq!(prepared.readable, [programs]);
    // Repeatedly, and whatever the agent writes there.
    let link = prepared.directory.join("cache/opencode/bin");
    assert!(machine.prepare(AgentKind::Opencode).directory.join("cache/opencode/bin/rg").exists());
    fs::remove_file(&link).expect("removed");
    write(&link.join("own"), "");
    machine.prepare(AgentKind::Opencode);
    assert!(link.join("own").exists());
}

#[test]
fn copilot_shares_the_versions_that_the_user_has_and_can_add_others() {
    let machine = Machine::new();
    for (version, file) in [("1.0.1", "app.js"), (".extracting-1.0.2-7", "half.js")] {
        write(&machine.home(&format!(".cache/copilot/pkg/linux-x64/{version}/{file}")), "");
    }
    for _ in 0..2 {
        let prepared = machine.prepare(AgentKind::Copilot);
        let versions = prepared.directory.join("cache/pkg/linux-x64");
        assert_eq!(prepared.readable.len(), 1, "{:?}", prepared.readable);
        assert!(versions.join("1.0.1").is_symlink() && versions.join("1.0.1/app.js").exists());
        assert!(!versions.join(".extracting-1.0.2-7").exists());
        write(&versions.join("1.0.3/app.js"), "");
        assert!(!machine.home(".cache/copilot/pkg/linux-x64/1.0.3").exists());
    }
}

#[test]
fn keys_and_addresses_of_the_configuration_are_found() {
    let machine = Machine::new();
    write(
        &machine.home(".codex/config.toml"),
        "[model_providers.a]\nbase_url = \"https://gw.example/v1\"\nenv_key = \"CORP_KEY\"\n",
    );
    write(
        &machine.home(".cline/data/settings/providers.json"),
        "{\"providers\": {\"a\": {\"baseUrl\": \"http://10.0.0.1:8080\"}}}",
    );
    let env = [("HOME".into(), machine.root.path().join("home").into())];
    assert_eq!(configuration::find_addresses(AgentKind::Codex, &env), ["https://gw.example/v1"]);
    assert_eq!(configuration::find_key_variables(AgentKind::Codex, &env), ["CORP_KEY"]);
    assert_eq!(configuration::find_addresses(AgentKind::Cline, &env), ["http://10.0.0.1:8080"]);
}

#[test]
fn a_login_of_another_account_is_refused() {
    let machine = Machine::new();
    let login = |token: &str| {
        format!(r#"{{"claudeAiOauth": {{"accessToken": "{token}", "expiresAt": 4102444800000}}}}"#)
    };
    let original = machine.home(".claude/.credentials.json");
    write(&original, &login("mine"));
    let prepared = machine.prepare(AgentKind::Claude);
    fs::write(machine.copy(), login("evil")).expect("written");
    let notices = prepared.return_credentials();
    let [notice] = notices.as_slice() else { panic!("{notices:?}") };
    assert!(
        notice.to_string().ends_with("`claudeAiOauth` in your login has not expired"),
        "{notice}"
    );
    assert_eq!(read(&original), login("mine"));
}
