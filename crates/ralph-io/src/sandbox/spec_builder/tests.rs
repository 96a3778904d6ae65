//! Specs for agents, gates and git.

use std::fs;

use ralph_model::sandbox::{Backend, RequestedBackend};

use super::*;

fn built_spec(
    policy: &SandboxPolicy,
    places: &SandboxPaths,
    process: SandboxedProcess,
) -> Result<SandboxSpec, SpecError> {
    let rest = BaseSpec::from_machine(policy, places, ProgramSource::Machine)?;
    build_spec(policy, &rest, process, None, &HandedFiles::default())
}

/// A project in a home, with a repository and a state.
struct Site {
    _directory: tempfile::TempDir,
    root: PathBuf,
    places: SandboxPaths,
}

fn site() -> Site {
    let directory = tempfile::tempdir().expect("a directory");
    let root = directory.path().canonicalize().expect("there");
    for path in [
        "home/.cargo/bin",
        "home/.ssh",
        "home/work/project/.git/hooks",
        "home/work/project/.git/objects/info",
        "home/work/project/.ralph/prompts",
        "home/work/project/.vscode",
        "home/.local/state/ralph/project/run/git",
        "home/.local/state/ralph/project/hooks",
        "home/.local/state/ralph/other",
        "agent",
    ] {
        fs::create_dir_all(root.join(path)).expect("a directory");
    }
    for path in [
        "home/.cargo/credentials.toml",
        "home/work/project/.git/config",
        "home/work/project/.ralph/settings.json",
        "home/work/project/.ralph/memory.jsonl",
        "home/.local/state/ralph/project/active.json",
        "home/.local/state/ralph/project/lock",
        "ralph",
    ] {
        fs::write(root.join(path), "x").expect("written");
    }
    let project = root.join("home/work/project");
    let state = root.join("home/.local/state/ralph/project");
    let places = SandboxPaths {
        work_tree: project.clone(),
        history: vec![project.join(".git")],
        borrowed: Vec::new(),
        run: state.join("run"),
        state,
        agent_state: vec![root.join("agent")],
        programs: Vec::new(),
        home: Some(root.join("home")),
        path: root.join("home/.cargo/bin").into(),
        variables: Vec::new(),
        outputs: Vec::new(),
        executable: root.join("ralph"),
        git_files: Vec::new(),
        opened: Vec::new(),
        project,
    };
    Site { _directory: directory, root, places }
}

fn policy() -> SandboxPolicy {
    let mut policy = SandboxPolicy {
        backend: RequestedBackend::This(Backend::Native),
        ..SandboxPolicy::default()
    };
    policy.network.mode = NetworkMode::None;
    policy.git = GitAccess::Ro;
    policy
}

/// Lists the mounts of a spec that are inside the site, one per line.
fn listed(site: &Site, policy: &SandboxPolicy, process: SandboxedProcess) -> String {
    let spec = built_spec(policy, &site.places, process).expect("a spec");
    let lines = spec.mounts.iter().filter_map(|mount| {
        let path = mount.path().strip_prefix(&site.root).ok()?.display();
        Some(match mount {
            Mount::Scratch { .. } => format!("scratch   {path}\n"),
            Mount::Hidden { .. } => format!("hidden    {path}\n"),
            Mount::Shown { .. } => format!("shown     {path}\n"),
            Mount::Writable { .. } => format!("writable  {path}\n"),
            Mount::Pinned { .. } => format!("pinned    {path}\n"),
            Mount::Protected { .. } => format!("protected {path}\n"),
            Mount::Cache { .. } => format!("cache     {path}\n"),
            Mount::ShownAs { .. } => format!("shown as  {path}\n"),
        })
    });
    let absent = spec.absent.iter().filter_map(|name| {
        Some(format!("absent    {}\n", name.path.strip_prefix(&site.root).ok()?.display()))
    });
    lines.chain(absent).collect()
}

#[test]
fn an_agent_writes_its_project_and_sees_little_else() {
    expect_test::expect![[r"
        scratch   home
        cache     home/.cache
        cache     home/.gradle
        cache     home/.julia
        cache     home/.npm
        shown     home/.cargo
        shown     ralph
        hidden    home/.cargo/credentials.toml
        shown     home/work/project
        writable  home/work/project
        protected home/work/project/.git
        protected home/work/project/.ralph
        protected home/work/project/.vscode
        shown     home/.local/state/ralph/project/active.json
        shown     home/.local/state/ralph/project/lock
        writable  agent
        writable  home/.local/state/ralph/project/hooks
        absent    home/work/project/.claude/settings.json
        absent    home/work/project/.claude/settings.local.json
        absent    home/work/project/.codex
        absent    home/work/project/.cursor
        absent    home/work/project/.devcontainer
        absent    home/work/project/.envrc
        absent    home/work/project/.gemini
        absent    home/work/project/.git/commondir
        absent    home/work/project/.git/config.worktree
        absent    home/work/project/.git/objects/info/alternates
        absent    home/work/project/.husky
        absent    home/work/project/.idea
        absent    home/work/project/.mcp.json
        absent    home/work/project/.opencode
        absent    home/work/project/.ralph/settings.local.json
        absent    home/work/project/.sbxenv.yaml
    "]]
    .assert_eq(&listed(&site(), &policy(), SandboxedProcess::Agent));
}

#[test]
fn an_agent_that_commits_cannot_write_git_execution_files() {
    let mut policy = policy();
    policy.git = GitAccess::Agent;
    let listed = listed(&site(), &policy, SandboxedProcess::Agent);
    let git: String = listed
        .lines()
        .filter(|it| it.contains("/.git"))
        .fold(String::new(), |text, line| text + line + "\n");
    expect_test::expect![[r"
        pinned    home/work/project/.git
        pinned    home/work/project/.git/objects
        pinned    home/work/project/.git/objects/info
        protected home/work/project/.git/config
        protected home/work/project/.git/hooks
        absent    home/work/project/.git/commondir
        absent    home/work/project/.git/config.worktree
        absent    home/work/project/.git/objects/info/alternates
    "]]
    .assert_eq(&git);
}

#[test]
fn agents_and_gates_have_caches_of_their_own_and_git_has_none() {
    let site = site();
    let sources = |process| -> Vec<PathBuf> {
        let spec = built_spec(&policy(), &site.places, process).expect("a spec");
        let caches = spec.mounts.into_iter().filter_map(|mount| match mount {
            Mount::Cache { source, .. } => Some(source),
            Mount::Scratch { .. }
            | Mount::Hidden { .. }
            | Mount::Shown { .. }
            | Mount::ShownAs { .. }
            | Mount::Writable { .. }
            | Mount::Pinned { .. }
            | Mount::Protected { .. } => None,
        });
        caches.collect()
    };
    let state = &site.places.state;
    assert_eq!(sources(SandboxedProcess::Agent)[0], state.join("cache/agent/.cache"));
    assert_eq!(sources(SandboxedProcess::Gate)[0], state.join("cache/gate/.cache"));
    assert!(sources(SandboxedProcess::Git).is_empty());
}

#[test]
fn packages_below_a_cache_are_shown_and_those_of_gradle_at_another_place() {
    let site = site();
    for path in ["home/.cache/pre-commit", "home/.gradle/caches/modules-2", "home/.m2/repository"] {
        fs::create_dir_all(site.root.join(path)).expect("a directory");
    }
    fs::write(site.root.join("home/.m2/settings.xml"), "<password>").expect("written");
    let listed = listed(&site, &policy(), SandboxedProcess::Gate);
    for line in [
        "shown     home/.cache/pre-commit\n",
        "shown     home/.m2/repository\n",
        "shown as  home/.cache/gradle-packages\n",
    ] {
        assert!(listed.contains(line), "no {line:?} in\n{listed}");
    }
    assert!(!listed.contains("settings.xml"), "{listed}");
}

#[test]
fn outputs_above_the_project_are_open_to_agents_and_gates_unless_they_became_links() {
    let mut site = site();
    let (output, link) = (site.root.join("home/work/target"), site.root.join("home/work/build"));
    fs::create_dir(&output).expect("a directory");
    std::os::unix::fs::symlink(site.root.join("home/.ssh"), &link).expect("a link");
    site.places.outputs = vec![output, link];
    for (process, is_open) in [
        (SandboxedProcess::Agent, true),
        (SandboxedProcess::Gate, true),
        (SandboxedProcess::Git, false),
    ] {
        let listed = listed(&site, &policy(), process);
        assert_eq!(listed.contains("writable  home/work/target\n"), is_open, "{listed}");
        assert!(!listed.contains("home/work/build") && !listed.contains(".ssh"), "{listed}");
    }
}

#[test]
fn a_gate_has_no_state_and_git_has_its_scratch_places() {
    let site = site();
    let gate = listed(&site, &policy(), SandboxedProcess::Gate);
    assert!(!gate.contains("state") && !gate.contains("agent"), "{gate}");
    let git = listed(&site, &policy(), SandboxedProcess::Git);
    assert!(git.contains("writable  home/.local/state/ralph/project/run/git\n"), "{git}");
    assert!(!git.contains("project/run\n"), "the journal is not among them: {git}");
    // Programs that git runs must not change what makes git run them.
    for lever in ["hooks", "config"] {
        assert!(git.contains(&format!("protected home/work/project/.git/{lever}\n")), "{git}");
    }
}

#[test]
fn a_file_that_agents_write_opens_its_directory_and_nothing_else_in_it() {
    let mut site = site();
    site.places.opened = vec![site.places.project.join(".ralph/memory.jsonl")];
    let listed = listed(&site, &policy(), SandboxedProcess::Agent);
    let own: Vec<&str> = listed.lines().filter(|it| it.contains(".ralph")).collect();
    assert_eq!(
        own,
        [
            "pinned    home/work/project/.ralph",
            "protected home/work/project/.ralph/prompts",
            "protected home/work/project/.ralph/settings.json",
            "absent    home/work/project/.ralph/settings.local.json",
        ]
    );
}

#[test]
fn what_the_settings_name_is_resolved_from_home_and_project() {
    let site = site();
    let mut policy = policy();
    policy.rw = vec!["~/.ssh".into(), "nowhere".into()];
    policy.ro = vec!["docs/rules".into()];
    policy.hide = vec![".vscode".into()];
    policy.home = vec!["work".into()];
    let listed = listed(&site, &policy, SandboxedProcess::Agent);
    for line in [
        "writable  home/.ssh\n",
        "absent    home/work/project/docs/rules\n",
        "hidden    home/work/project/.vscode\n",
        "shown     home/work\n",
    ] {
        assert!(listed.contains(line), "no {line:?} in\n{listed}");
    }
    assert!(!listed.contains("nowhere"));
}

#[test]
fn a_state_in_the_project_is_hidden() {
    let mut site = site();
    let state = site.places.project.join("state/project");
    fs::create_dir_all(state.join("run")).expect("a directory");
    (site.places.run, site.places.state) = (state.join("run"), state);
    let listed = listed(&site, &policy(), SandboxedProcess::Gate);
    assert!(listed.contains("hidden    home/work/project/state\n"), "{listed}");
}

#[test]
fn a_clone_in_the_state_is_open_and_the_rest_of_the_state_is_hidden() {
    let mut site = site();
    let clone = site.root.join("home/.local/state/ralph/clones/p/s1/project");
    fs::create_dir_all(clone.join(".git")).expect("a directory");
    fs::write(clone.join(".env"), "x").expect("written");
    site.places.history = vec![clone.join(".git")];
    (site.places.project, site.places.work_tree) = (clone.clone(), clone.clone());
    let mut policy = policy();
    (policy.rw, policy.hide) = (vec!["~/".into()], vec![".env".into()]);
    for process in [SandboxedProcess::Agent, SandboxedProcess::Gate, SandboxedProcess::Git] {
        let spec = built_spec(&policy, &site.places, process).expect("a spec");
        let is_visible = |path: &Path| find_visibility(&spec.mounts, path) == Some(true);
        assert!(is_visible(&clone) && is_visible(&site.root.join("home/.ssh")));
        let state = site.root.join("home/.local/state/ralph/other");
        assert!(!is_visible(&clone.join(".env")) && !is_visible(&state), "{process:?}");
    }
}

#[test]
fn a_link_that_cannot_be_protected_is_noted() {
    let site = site();
    let (project, elsewhere) = (&site.places.project, site.root.join("elsewhere"));
    fs::write(&elsewhere, "x").expect("written");
    std::os::unix::fs::symlink(&elsewhere, project.join(".envrc")).expect("a link");
    let spec = built_spec(&policy(), &site.places, SandboxedProcess::Agent);
    let notes = spec.expect("a spec").notes;
    assert!(notes.len() == 1 && notes[0].contains(".envrc` is a symbolic link"), "{notes:?}");
}

#[test]
fn a_proxy_network_without_a_proxy_is_an_error() {
    let mut policy = policy();
    policy.network.mode = NetworkMode::Proxy;
    let spec = |process| built_spec(&policy, &site().places, process);
    assert!(matches!(spec(SandboxedProcess::Agent), Err(SpecError::NoProxy)));
    assert!(spec(SandboxedProcess::Gate).is_ok_and(|spec| spec.network == SandboxNetwork::None));
}

#[test]
fn in_an_image_only_shown_paths_of_the_machine_are_visible() {
    let site = site();
    let mut policy = policy();
    policy.home = vec!["~/.cargo".into()];
    fs::write(site.root.join("home/.gitconfig"), "x").expect("written");
    fs::write(site.root.join("prompt.md"), "x").expect("written");
    let rest =
        BaseSpec::from_machine(&policy, &site.places, ProgramSource::Image).expect("looked at");
    let handed = HandedFiles { readable: vec![site.root.join("prompt.md")], writable: Vec::new() };
    let spec = build_spec(&policy, &rest, SandboxedProcess::Gate, None, &handed).expect("a spec");
    let listed = |mount: &Mount| {
        let path = mount.path().strip_prefix(&site.root).unwrap_or(mount.path()).to_owned();
        let word = match mount {
            Mount::Scratch { .. } => "scratch",
            Mount::Shown { .. } => "shown",
            Mount::Writable { .. } => "writable",
            Mount::Protected { .. } => "protected",
            Mount::Hidden { .. } => "hidden",
            Mount::Pinned { .. } => "pinned",
            Mount::Cache { .. } => "cache",
            Mount::ShownAs { .. } => "shown as",
        };
        format!("{word} {}\n", path.display())
    };
    expect_test::expect![[r"
        scratch /tmp
        scratch /var/tmp
        scratch /run
        scratch home
        cache home/.cache
        cache home/.gradle
        cache home/.julia
        cache home/.npm
        shown home/.cargo
        shown home/.gitconfig
        shown ralph
        shown home/work/project
        writable home/work/project
        protected home/work/project/.git
        protected home/work/project/.ralph
        protected home/work/project/.vscode
        shown prompt.md
    "]]
    .assert_eq(&spec.mounts.iter().map(listed).collect::<String>());
}

#[test]
fn paths_inside_writable_ones_are_not_shown_separately() {
    // Between two starts an agent may replace it with a link.
    let mut site = site();
    let tools = site.places.project.join("tools");
    fs::create_dir(&tools).expect("a directory");
    site.places.path = tools.clone().into();
    let rest =
        BaseSpec::from_machine(&policy(), &site.places, ProgramSource::Machine).expect("looked at");
    assert!(rest.mounts.iter().all(|mount| mount.path() != tools), "{:?}", rest.mounts);
}
