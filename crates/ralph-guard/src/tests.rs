//! Tests of the guard: tables of denied and allowed commands.

mod disguises;

use std::collections::BTreeSet;

use ralph_model::guard_policy::{GuardMode, GuardPolicy};

use super::*;
use crate::decide_call;

/// Returns the context for the tables: a project in a home directory, and an empty disk.
pub(super) fn guard_context(keeper: ListOwner, project: &str) -> GuardContext<'static> {
    let variables = [
        ("USER", "dev"),
        ("CLAUDE_PROJECT_DIR", project),
        ("RALPH_EXE", "ralph"),
        ("RALPH_ACTIVE", "/state/p-1/active.json"),
        ("TMPDIR", "/tmp"),
    ];
    GuardContext {
        protected: ProtectedPlaces {
            project: vec![project.into()],
            state: vec!["/state/p-1".into()],
            tasks_file: vec![Path::new(project).join("ralph/tasks.json")],
            keeper: Some(keeper),
            patterns: ["/ci/**", "/ralph/prd.md", "/ralph/prompt.md"]
                .map(|glob| Pattern::new(glob).expect("a glob"))
                .into(),
        },
        home: Some("/home/dev".into()),
        cwd: project.into(),
        temporary: ["/tmp", "/var/tmp", "/dev/shm"].map(PathBuf::from).into(),
        variables: variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        resolve: &|path| normalize_lexically(path),
    }
}

/// Returns the rule that denies a call, in a project at `/p`.
fn denied(tool: &str, text: &str, keeper: ListOwner) -> Option<&'static str> {
    let field = if tool == "Bash" { "command" } else { "file_path" };
    let call = GuardedToolCall::new(tool, &serde_json::json!({ field: text }));
    match decide_call(&GuardPolicy::default(), &inspect_call(&call, &guard_context(keeper, "/p"))) {
        GuardDecision::Pass => None,
        GuardDecision::Deny(refusal) => {
            assert!(refusal.reason().contains(refusal.rule));
            Some(refusal.rule)
        }
        GuardDecision::Warn(refusal) => panic!("unexpected warning: {refusal:?}"),
    }
}

#[track_caller]
fn check(tool: &str, text: &str, expect: Option<&str>) {
    assert_eq!(denied(tool, text, ListOwner::Ralph), expect, "{tool} {text}");
}

/// Returns the lines of a table: category and command.
pub(super) fn table(text: &str) -> Vec<(String, String)> {
    text.lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| {
            let (category, command) = line.split_once('\t').expect("a tab");
            (category.to_owned(), command.replace('\u{23CE}', "\n"))
        })
        .collect()
}

pub(super) const TABLES: [(&str, &str); 12] = [
    ("deny", include_str!("../tests/data/deny.txt")),
    ("allow", include_str!("../tests/data/allow.txt")),
    ("deny", include_str!("../tests/data/more-deny.txt")),
    ("allow", include_str!("../tests/data/more-allow.txt")),
    ("deny", include_str!("../tests/data/classes-deny.txt")),
    ("allow", include_str!("../tests/data/classes-allow.txt")),
    ("deny", include_str!("../tests/data/unseen-deny.txt")),
    ("allow", include_str!("../tests/data/unseen-allow.txt")),
    ("deny", include_str!("../tests/data/fresh-deny.txt")),
    ("allow", include_str!("../tests/data/fresh-allow.txt")),
    ("deny", include_str!("../tests/data/late-deny.txt")),
    ("allow", include_str!("../tests/data/late-allow.txt")),
];

#[test]
fn assignments_in_front_do_not_hide_a_program() {
    for text in ["env -S 'A=1 rm -rf /'", "env -S '-i A=1 rm -rf /'", "A=1 env B=2 rm -rf /"] {
        assert!(denied("Bash", text, ListOwner::Ralph).is_some(), "{text}");
    }
}

#[test]
fn many_words_in_front_do_not_hide_a_program() {
    let many = format!("{}rm -rf /", "env ".repeat(20));
    for text in [
        many.as_str(),
        "echo / | xargs env rm -rf",
        "echo / | xargs xargs rm -rf",
        "echo / | xargs -I{} nice rm -rf {}",
        "find . -exec rm -rf + / \\;",
        "find . -exec find . -exec rm -rf / \\;",
        &format!("echo {} / | xargs rm -rf", "x ".repeat(40)),
        &format!("printf '{}/' | xargs -I{{}} rm -rf {{}}", "x\\n".repeat(40)),
        &format!("parallel rm -rf ::: {} /", "x ".repeat(40)),
        &format!("python3 -c 'import os; {} os.system(\"rm -rf /\")'", "\"a\";".repeat(70)),
        "x=/; [ 1 ] || x=a; [ 1 ] || x=b; [ 1 ] || x=c; [ 1 ] || x=d; rm -rf $x",
    ] {
        assert!(denied("Bash", text, ListOwner::Ralph).is_some(), "{text}");
    }
}

#[test]
fn commands_are_judged_as_the_tables_expect() {
    let mut wrong = Vec::new();
    for (expect, text) in TABLES {
        for (category, command) in table(text) {
            let call = GuardedToolCall::Shell(command.clone());
            let findings = inspect_call(&call, &guard_context(ListOwner::Ralph, "/home/dev/proj"));
            let found = match decide_call(&GuardPolicy::default(), &findings) {
                GuardDecision::Pass => None,
                GuardDecision::Warn(refusal) | GuardDecision::Deny(refusal) => Some(refusal.rule),
            };
            if found.is_some() != (expect == "deny") {
                wrong.push(format!("{expect} {category}: {command:?} -> {found:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn the_directory_of_the_plan_may_be_made() {
    let plan = ".ralph/implementation_plan.md";
    for text in [
        "mkdir -p .ralph",
        "test -d .ralph || mkdir .ralph",
        &format!("mkdir -p .ralph; printf '- [ ] one\n' > {plan}"),
        &format!("mkdir -p /p/.ralph && cat > {plan} <<'EOF'\n- [ ] one\nEOF"),
    ] {
        check("Bash", text, None);
    }
    for text in [
        "mkdir -p .ralph/prompts",
        "mkdir -m 000 .ralph",
        "mkdir x > .ralph",
        "sudo mkdir .ralph",
        "touch .ralph",
        "mkdir -p .ralph; echo x > .ralph/prompts",
    ] {
        assert!(denied("Bash", text, ListOwner::Ralph).is_some(), "{text}");
    }
}

#[test]
fn files_of_ralphs_are_not_written_by_tools() {
    for (text, expect) in [
        ("/p/.ralph/settings.json", Some("loop.settings")),
        (".ralph/settings.local.json", Some("loop.settings")),
        ("src/../.ralph/settings.json", Some("loop.settings")),
        ("/p/.ralph/prompts/implement.md", Some("loop.own-files")),
        ("/p/.ralph/state.md", Some("loop.own-files")),
        ("/p/.ralph/implementation_plan.md", None),
        ("/state/p-1/active.json", Some("loop.state")),
        ("/state/p-10/active.json", Some("path.outside")),
        ("/p/ci/gate.sh", Some("loop.protected-path")),
        ("/p/src/ci/gate.sh", None),
        ("/p/ralph/tasks.json", Some("loop.task-file")),
        ("/p/ralph/prd.md", Some("loop.requirements")),
        ("/p/ralph/prompt.md", Some("loop.protected-path")),
        ("/p/ralph/progress.txt", None),
        ("/p/src/main.rs", None),
        ("/elsewhere/.ralph/settings.json", Some("path.outside")),
        ("/p/.ralphs", None),
        ("/p/.claude/settings.json", Some("loop.hook-settings")),
        ("/home/dev/.claude/settings.local.json", Some("loop.hook-settings")),
        ("/p/.claude/commands/x.md", None),
        ("/home/dev/.bashrc", Some("persist.startup-files")),
        ("/home/dev/.ssh/authorized_keys", Some("path.sensitive")),
        ("/etc/hosts", Some("sysconf.etc")),
        ("/tmp/notes.md", None),
        ("~/x", Some("path.outside")),
        ("../x", Some("path.outside")),
        ("/p/.git/hooks/pre-commit", Some("persist.git-hooks")),
        ("/p/.git/config", Some("git.repository-files")),
        ("/p/.github/workflows/ci.yml", None),
    ] {
        for tool in ["Write", "Edit", "MultiEdit", "mcp__files__write_file"] {
            check(tool, text, expect);
        }
        let reads_secret = text.contains(".ssh").then_some("cred.secret-files");
        check("Read", text, reads_secret);
        check("mcp__files__read_file", text, reads_secret);
    }
    assert_eq!(denied("Edit", "/p/ralph/tasks.json", ListOwner::Agent), None);
    assert_eq!(denied("Edit", "/p/ralph/prd.md", ListOwner::Agent), Some("loop.requirements"));
}

#[test]
fn commands_that_write_files_of_ralph_are_denied() {
    for text in [
        "echo '{}' > .ralph/settings.json",
        "echo x >>.ralph/settings.json",
        "echo x 2> .ralph/settings.json",
        "echo x &> .ralph/settings.json",
        "echo x >| \".ralph/settings.json\"",
        "cat <<EOF > .ralph/settings.json\n{}\nEOF",
        "tee .ralph/settings.json < x",
        "cat x | sudo tee -a .ralph/settings.json",
        "rm -f .ralph/settings.json",
        "cd src && rm ../.ralph/settings.json",
        "cd .ralph; rm settings.json",
        "mv .ralph/settings.json /tmp/x",
        "cp x .ralph/settings.json",
        "cp -t .ralph/settings.json x",
        "sed -i 's/a/b/' .ralph/settings.json",
        "sed -i.bak -e s/a/b/ ./.ralph/settings.json",
        "perl -pi -e 's/a/b/' .ralph/settings.json",
        "truncate -s 0 .ralph/settings.json",
        "chmod 777 /p/.ralph/settings.json",
        "git checkout HEAD~3 -- .ralph/settings.json",
        "git -C /p restore .ralph/settings.json",
        "dd if=/dev/zero of=.ralph/settings.json",
        "bash -c 'rm .ralph/settings.json'",
        "true && { FOO=1 env BAR=2 rm .ralph/settings.json; }",
        "if true; then rm .ralph/settings.json; fi",
        "echo $(rm .ralph/settings.json)",
        "ls # harmless\nrm .ralph/settings.json",
        "f=.ralph/settings.json; rm \"$f\"",
        "f() { rm \"$1\"; }; f .ralph/settings.json",
        "for f in a .ralph/settings.json; do rm $f; done",
        "python3 -c \"open('.ralph/settings.json','w').write('{}')\"",
        "ln -s .ralph r && rm r/settings.json",
    ] {
        check("Bash", text, Some("loop.settings"));
    }
    for (text, expect) in [
        ("rm -rf .ralph", "loop.own-files"),
        ("mv .ralph elsewhere", "loop.own-files"),
        ("mv -t /tmp .ralph", "loop.own-files"),
        ("mv drafts/prd.md ralph/", "loop.requirements"),
        ("cp -r elsewhere/.ralph .", "loop.own-files"),
        ("rm -rf .ralph/", "loop.own-files"),
        ("rm -rf /p", "fs.remove-project"),
        ("rm -rf .ralph/*", "loop.own-files"),
        ("rm -rf .ral*", "loop.own-files"),
        ("find .ralph -name x -delete", "loop.own-files"),
        ("rm \"$RALPH_ACTIVE\"", "loop.state"),
        ("rm -rf ralph", "loop.task-file"),
        ("echo x > ralph/prd.md", "loop.requirements"),
        ("echo x > ci/run", "loop.protected-path"),
    ] {
        check("Bash", text, Some(expect));
    }
}

#[test]
fn commands_that_only_mention_files_of_ralph_pass() {
    for text in [
        "cat .ralph/settings.json",
        "cp .ralph/settings.json /tmp/copy",
        "grep -r x .ralph > /tmp/found",
        "ls .ralph 2>&1 | tee out.txt",
        "sed -n 1,5p .ralph/settings.json",
        "cat > notes.md <<'EOF'\nrm -rf .ralph\nEOF\nls",
        "cat <<-END >notes.md\n\trm .ralph/settings.json\n\tEND\n",
        "echo 'rm .ralph/settings.json'",
        "echo \"> .ralph/settings.json\"",
        "git add -A && git commit -m 'rm .ralph/settings.json'",
        "mv build/out .",
        "cp build/out .",
        "mv -t . a b",
        "ln -s .ralph/skills skills",
        "grep x <<< 'rm .ralph/x'",
        "test 1 -gt 0 # > .ralph/settings.json",
        "rm -rf target && cargo build",
        "",
    ] {
        check("Bash", text, None);
    }
    for text in ["'", "<<", ">", "if", "echo $("] {
        check("Bash", text, Some("unresolvable.syntax"));
    }
}

#[test]
fn an_agent_cannot_interfere_with_its_run() {
    let refused = Some("loop.control");
    for (text, expect) in [
        ("ralph stop", refused),
        ("ralph tasks set-status US-1 done", refused),
        ("ralph tasks add x", refused),
        ("cd x && ralph run -p y", refused),
        ("\"$RALPH_EXE\" resume", refused),
        ("ralph hook stop", refused),
        ("ralph -C x stop", refused),
        ("ralph -C x status", None),
        ("ralph status --json", None),
        ("ralph tasks", None),
        ("ralph tasks validate", None),
        ("ralph run --help", None),
        ("ralph hook explain 'rm -rf /'", None),
        ("ralph --version", None),
        ("./target/debug/ralph run -p x", None),
        ("echo ralph stop", None),
    ] {
        check("Bash", text, expect);
    }
}

#[test]
fn settings_can_change_all_rules_but_loop_integrity() {
    let policy = |mode, allow: &[&str], deny: &[&str]| GuardPolicy {
        mode,
        allow: allow.iter().map(|it| (*it).to_owned()).collect(),
        deny: deny.iter().map(|it| (*it).to_owned()).collect(),
    };
    let verdict = |policy: &GuardPolicy, text: &str| {
        let call = GuardedToolCall::Shell(text.to_owned());
        match decide_call(policy, &inspect_call(&call, &guard_context(ListOwner::Ralph, "/p"))) {
            GuardDecision::Pass => "pass".to_owned(),
            GuardDecision::Warn(refusal) => format!("warn {}", refusal.rule),
            GuardDecision::Deny(refusal) => format!("deny {}", refusal.rule),
        }
    };
    let (deny, warn, off) = (GuardMode::Deny, GuardMode::Warn, GuardMode::Off);
    for (policy, text, expect) in [
        (policy(deny, &[], &[]), "git clean -fd", "deny git.clean"),
        (policy(deny, &["git.clean"], &[]), "git clean -fd", "pass"),
        (policy(deny, &["git clean"], &[]), "git clean -fd", "pass"),
        (policy(deny, &["git clean -n"], &[]), "git clean -fd", "deny git.clean"),
        (policy(deny, &["git.clean"], &[]), "git clean -fd; rm -rf /", "deny fs.remove-project"),
        (policy(warn, &[], &[]), "git clean -fd", "warn git.clean"),
        (policy(warn, &[], &["git.clean"]), "git clean -fd", "deny git.clean"),
        (policy(off, &[], &[]), "rm -rf /opt", "pass"),
        (policy(off, &[], &["npm install"]), "npm install x", "deny loop.denied"),
        (policy(off, &[], &["npm install"]), "sudo npm install x", "deny loop.denied"),
        (policy(deny, &[], &["npm install"]), "npm ci", "pass"),
        (policy(off, &[], &[]), "rm .ralph/settings.json", "deny loop.settings"),
        (
            policy(warn, &["loop.settings", "rm"], &[]),
            "rm .ralph/settings.json",
            "deny loop.settings",
        ),
    ] {
        assert_eq!(verdict(&policy, text), expect, "{policy:?} {text}");
    }
}

fn check_terminates(text: &str) {
    let _ = denied("Bash", text, ListOwner::Ralph);
}

proptest::proptest! {
    #[test]
    fn no_command_makes_the_guard_fail(text in "[-a-z0-9 .>|&;<'\"`$(){}\\\\\n#=/*?!:,@~%]{0,80}") {
        check_terminates(&text);
    }

    #[test]
    fn lines_of_the_tables_may_be_cut_and_joined(
        first in 0_usize..1000, second in 0_usize..1000, cut in 0_usize..200, more in 0_usize..200,
        odd in "[-a-z0-9 .>|&;<'\"`$(){}\\\\\n#=/]{0,6}",
    ) {
        let lines: Vec<String> =
            TABLES.iter().flat_map(|(_, text)| table(text)).map(|(_, line)| line).collect();
        let part = |at: usize, cut: usize| {
            lines[at % lines.len()].chars().take(cut).collect::<String>()
        };
        check_terminates(&format!("{}{odd}{}", part(first, cut), part(second, more)));
    }
}

#[test]
fn numbers_that_no_shell_takes_are_refused() {
    let huge = "88888888888888888888";
    for (text, expect) in [
        (format!("echo {huge} > x"), None),
        (format!("echo {huge}"), None),
        (format!("rm {huge}>x"), Some("unresolvable.syntax")),
        (format!("cat {huge}<<<x"), Some("unresolvable.syntax")),
        (format!("ls ~{huge}"), Some("unresolvable.syntax")),
        (format!("ls ~+{huge}/x"), Some("unresolvable.syntax")),
        (format!("ls x:~-{huge}"), Some("unresolvable.syntax")),
        (format!("x=~{huge}; ls $x"), Some("unresolvable.syntax")),
        (format!("echo {{1..{huge}}}"), None),
    ] {
        assert_eq!(denied("Bash", &text, ListOwner::Ralph), expect, "{text}");
    }
}

#[test]
fn huge_inputs_end() {
    let long = 1_000_000;
    for text in [
        "a ".repeat(long / 2),
        "(".repeat(long),
        "$(".repeat(long / 2),
        "`".repeat(long),
        "{a,".repeat(long / 3),
        "{a,b}".repeat(long / 5),
        "if ".repeat(long / 3),
        "if a; then ".repeat(20_000),
        "! ".repeat(long / 2),
        "<<a ".repeat(long / 4),
        "${a:-".repeat(long / 5),
        "\"".repeat(long),
        "a|".repeat(long / 2),
        "echo a; ".repeat(long / 8),
        format!("cat > x <<'E'\n{}\nE\n", "rm -rf / (\n".repeat(50_000)),
        format!("x=a; {}", "x=$x$x; ".repeat(60)),
        format!("f() {{ f; f; }}; {}", "f; ".repeat(1000)),
        "for i in {1..200}; do for j in {1..200}; do rm $i$j; done; done".to_owned(),
        "eval ".repeat(10_000),
        "[[ a && ".repeat(5000) + "b ]]",
    ] {
        check_terminates(&text);
    }
}

#[test]
fn every_rule_has_an_id_of_its_category_and_messages() {
    let mut seen = BTreeSet::new();
    for rule in list_rules() {
        let prefix = rule.id.split('.').next();
        assert_eq!(prefix, Some(rule.category.prefix()), "{}", rule.id);
        assert!(seen.insert(rule.id), "{} is there twice", rule.id);
        assert!(rule.instead.ends_with('.') && !rule.refused.ends_with('.'), "{}", rule.id);
    }
    for category in GuardCategory::ALL {
        let prefix = format!("{}.", category.prefix());
        assert!(seen.iter().any(|id| id.starts_with(&prefix)), "{prefix} has no rule");
    }
}
