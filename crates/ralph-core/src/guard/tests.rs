//! Tests of the guard: what is denied and what is not, as tables.

use super::*;

fn protected(keeper: Keeper) -> Protected {
    Protected {
        project: vec!["/p".into()],
        state: vec!["/state/p-1".into()],
        tasks_file: vec!["/p/ralph/tasks.json".into()],
        keeper: Some(keeper),
        patterns: ["/ci/**", "/ralph/prd.md", "/ralph/prompt.md"]
            .map(|glob| Pattern::new(glob).expect("a glob"))
            .into(),
    }
}

/// Returns the category that a call is denied for, with cwd `/p`.
fn denied(tool: &str, said: &str, keeper: Keeper) -> Option<Category> {
    let input = if tool == "Bash" {
        Input { path: None, command: Some(said) }
    } else {
        Input { path: Some(said), command: None }
    };
    let (targets, ralph) = looked_at(tool, &input);
    let placed = |target: Target| {
        let place = lexical(&Path::new("/p").join(&target.directory).join(&target.said));
        Placed { target, places: vec![place] }
    };
    let call = ToolCall { targets: targets.into_iter().map(placed).collect(), ralph };
    match decide(&call, &protected(keeper)) {
        Decision::Pass => None,
        Decision::Deny { category, reason } => {
            assert!(!reason.is_empty());
            Some(category)
        }
    }
}

#[track_caller]
fn check(tool: &str, said: &str, expect: Option<Category>) {
    assert_eq!(denied(tool, said, Keeper::Ralph), expect, "{tool} {said}");
}

#[test]
fn files_of_ralphs_are_not_written_by_tools() {
    for (said, expect) in [
        ("/p/.ralph/settings.json", Some(Category::Settings)),
        (".ralph/settings.local.json", Some(Category::Settings)),
        ("src/../.ralph/settings.json", Some(Category::Settings)),
        ("/p/.ralph/prompts/implement.md", Some(Category::OwnFiles)),
        ("/p/.ralph/state.md", Some(Category::OwnFiles)),
        ("/p/.ralph/implementation_plan.md", None),
        ("/state/p-1/active.json", Some(Category::State)),
        ("/state/p-10/active.json", None),
        ("/p/ci/gate.sh", Some(Category::ProtectedPath)),
        ("/p/src/ci/gate.sh", None),
        ("/p/ralph/tasks.json", Some(Category::TaskFile)),
        ("/p/ralph/prd.md", Some(Category::Requirements)),
        ("/p/ralph/prompt.md", Some(Category::ProtectedPath)),
        ("/p/ralph/progress.txt", None),
        ("/p/src/main.rs", None),
        ("/elsewhere/.ralph/settings.json", None),
        ("/p/.ralphs", None),
    ] {
        for tool in ["Write", "Edit", "MultiEdit", "NotebookEdit"] {
            check(tool, said, expect);
        }
        check("Read", said, None);
    }
    assert_eq!(denied("Edit", "/p/ralph/tasks.json", Keeper::Agent), None);
    assert_eq!(denied("Edit", "/p/ralph/prd.md", Keeper::Agent), Some(Category::Requirements));
}

#[test]
fn commands_that_write_them_by_name_are_denied() {
    for said in [
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
    ] {
        check("Bash", said, Some(Category::Settings));
    }
    for (said, expect) in [
        ("rm -rf .ralph", Category::OwnFiles),
        ("mv .ralph elsewhere", Category::OwnFiles),
        ("mv -t /tmp .ralph", Category::OwnFiles),
        ("mv drafts/prd.md ralph/", Category::Requirements),
        ("cp -r elsewhere/.ralph .", Category::OwnFiles),
        ("rm -rf .ralph/", Category::OwnFiles),
        ("rm -rf /p", Category::OwnFiles),
        ("rm -rf .ralph/*", Category::OwnFiles),
        ("find .ralph -name x -delete", Category::OwnFiles),
        ("rm \"$RALPH_ACTIVE\"", Category::State),
        ("rm -rf ralph", Category::TaskFile),
        ("echo x > ralph/prd.md", Category::Requirements),
        ("echo x > ci/run", Category::ProtectedPath),
    ] {
        check("Bash", said, Some(expect));
    }
}

#[test]
fn commands_that_only_mention_them_pass() {
    for said in [
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
        "git checkout .",
        "mv build/out .",
        "cp build/out .",
        "mv -t . a b",
        "ln -s .ralph/skills skills",
        "grep x <<< 'rm .ralph/x'",
        "test 1 -gt 0 # > .ralph/settings.json",
        "rm -rf target && cargo build",
        "",
        "'",
        "\\",
        "<<",
        ">",
    ] {
        check("Bash", said, None);
    }
}

#[test]
fn a_run_is_not_meddled_with_from_inside() {
    for (said, expect) in [
        ("ralph stop", Some(Category::Meddling)),
        ("ralph tasks set-status US-1 done", Some(Category::Meddling)),
        ("ralph tasks add x", Some(Category::Meddling)),
        ("cd x && ralph run -p y", Some(Category::Meddling)),
        ("\"$RALPH_EXE\" resume", Some(Category::Meddling)),
        ("ralph hook stop", Some(Category::Meddling)),
        ("ralph -C x stop", Some(Category::Meddling)),
        ("ralph -C x status", None),
        ("ralph status --json", None),
        ("ralph tasks", None),
        ("ralph tasks validate", None),
        ("ralph run --help", None),
        ("ralph --version", None),
        ("./target/debug/ralph run -p x", None),
        ("echo ralph stop", None),
    ] {
        check("Bash", said, expect);
    }
}

proptest::proptest! {
    #[test]
    fn no_command_is_too_odd(said in "[-a-z .>|&;<'\"`$(){}\\\\\n#=/]{0,80}") {
        let _ = denied("Bash", &said, Keeper::Ralph);
    }
}
