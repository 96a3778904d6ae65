//! The guides in `docs`: every marked command line is run, all others are parsed, and every page
//! is listed and has valid links. A fenced block that begins with `sh run` is run, line by line,
//! in a project named in the comment above it: `<!-- project: tasks -->`, or with a command that is
//! run first and that readers do not see: `<!-- project: tasks; first: ralph build -->`. Files that
//! a block leaves are there for the next one of the same page.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use ralph_model::outcome::ExitStatus;
use ralph_testkit::sealed::{Running, Sealed};
use serde_json::{Value, json};

use crate::{repository, sealed};

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// Returns every page with its text.
fn pages() -> Vec<(String, String)> {
    let read = |directory: &Path, prefix: &str| -> Vec<(String, String)> {
        let entries = fs::read_dir(directory).expect("pages").flatten();
        let pages = entries.filter(|it| it.path().extension().is_some_and(|it| it == "md"));
        pages
            .map(|it| {
                let name = it.file_name().into_string().expect("text");
                (format!("{prefix}{name}"), fs::read_to_string(it.path()).expect("a page"))
            })
            .collect()
    };
    let mut pages = [read(&docs(), ""), read(&docs().join("help"), "help/")].concat();
    let readme = fs::read_to_string(docs().join("../README.md")).expect("a page");
    pages.push(("../README.md".to_owned(), readme));
    pages.sort();
    pages
}

/// A fenced block.
struct Block<'a> {
    info: &'a str,
    text: String,
    /// The content of the comment above it.
    project: Option<&'a str>,
}

fn blocks(page: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut open: Option<Block<'_>> = None;
    let mut project = None;
    for line in page.lines() {
        let named = line.strip_prefix("<!-- project: ").and_then(|it| it.strip_suffix(" -->"));
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(info)) => open = Some(Block { info, text: String::new(), project }),
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(block), None) => block.text.push_str(&format!("{line}\n")),
            (None, None) => project = named.or(project),
        }
    }
    blocks
}

/// Returns the project that a block is run in.
fn project(name: &str) -> Sealed {
    let sealed = match name {
        "empty" => sealed(),
        "repository" | "rust" | "tasks" | "stories" | "fix-plan" | "loop" => repository(),
        other => panic!("no project is called {other}"),
    };
    symlink(env!("CARGO_BIN_EXE_ralph"), sealed.bin_dir().join("ralph")).expect("a link");
    sealed.write_program("claude", "#!/bin/sh\necho '2.1.139 (Claude Code)'\n");
    let story = |id: &str| {
        json!({ "id": id, "title": "Read dates", "description": "As a reader I find dates.",
                "acceptanceCriteria": ["A year finds its notes"], "priority": 1, "passes": false })
    };
    let list = json!({ "project": "Notes", "branchName": "ralph/notes", "verifyCommands": ["make test"],
                       "userStories": [story("US-001"), story("US-002")] });
    sealed.write_file("Makefile", "test:\n\t@true\n");
    match name {
        "tasks" => sealed.write_file("ralph/tasks.json", &format!("{list:#}\n")),
        "stories" => {
            sealed.write_file("scripts/ralph/prd.json", &format!("{list:#}\n"));
            sealed.write_file("scripts/ralph/progress.txt", "# Log\n");
        }
        "fix-plan" => sealed.write_file("@fix_plan.md", "- [ ] Read dates\n- [x] Set up\n"),
        "loop" => {
            sealed.write_file(
                "loop.sh",
                "while :; do cat PROMPT.md | claude -p --model opus; done\n",
            );
            sealed.write_file("PROMPT.md", "Do the next thing.\n");
        }
        _ => {}
    }
    // The scripted agent replaces a real one, as long as it is called.
    let done = json!({ "task_completed": { "summary": "Did it.", "fully_complete": true } });
    let write = json!({ "append": { "path": "done.txt", "text": "one more\n" } });
    let calls = json!({ "calls": [
        { "when": { "role": "prompt" }, "do": [write, { "text": "<response>DONE</response>" }] },
        { "when": { "role": "review" }, "do": [{ "verdict": { "verdict": "approved", "feedback": "" } }] },
        { "do": [write, { "handoff": done }] }
    ] });
    let scenario = sealed.root().join("scenario.json");
    fs::write(&scenario, calls.to_string()).expect("written");
    let settings = json!({ "agent": { "command": "sim", "flags": [scenario] }, "memory": { "enabled": false },
                           "review": { "enabled": false }, "preventSleep": false });
    sealed.write_file(".ralph/settings.local.json", &settings.to_string());
    if name != "empty" {
        sealed.write_file(".ralph/.gitignore", "*\n!settings.json\n!schema.json\n");
        sealed.commit_all("Files");
    }
    sealed
}

#[test]
fn marked_commands_of_the_guides_work() {
    let mut count = 0;
    for (name, page) in pages() {
        let mut current: Option<(&str, Sealed)> = None;
        for block in blocks(&page).into_iter().filter(|it| it.info == "sh run") {
            let wanted = block.project.unwrap_or("repository");
            let mut first = "";
            if current.as_ref().is_none_or(|(known, _)| *known != wanted) {
                let (kind, setup) = wanted.split_once("; first: ").unwrap_or((wanted, ""));
                (current, first) = (Some((wanted, project(kind))), setup);
            }
            let Some((_, sealed)) = &current else { continue };
            let mut command = sealed.build_command("sh");
            command.args(["-e", "-c", &format!("{first}\n{}", block.text)]);
            let end = Running::start_command(command).wait_for_end();
            let reported = format!("{name}:\n{}\n{}\n{}", block.text, end.stdout, end.stderr);
            assert_eq!(end.code, Some(0), "{reported}");
            count += 1;
        }
    }
    assert!(count >= 8, "only {count} blocks are marked");
}

#[test]
fn every_command_line_in_the_docs_is_valid() {
    let sealed = sealed();
    let mut lines: Vec<(String, String)> = Vec::new();
    for (name, page) in pages() {
        let shell = ["sh", "sh run", "console", ""];
        for block in blocks(&page).into_iter().filter(|it| shell.contains(&it.info)) {
            let text = block.text.replace("\\\n", " ");
            let commands = text.lines().map(|line| line.trim_start_matches("$ ").to_owned());
            let commands = commands.filter(|line| line.starts_with("ralph "));
            lines.extend(commands.map(|line| (name.clone(), line)));
        }
    }
    assert!(lines.len() > 40, "{}", lines.len());
    // With `--help` after the command, only its name and subcommand are checked.
    for (name, line) in lines {
        let line = line.split(['#', '|', '>', ';', '&', '"']).next().unwrap_or_default();
        let words: Vec<&str> = line.split_whitespace().skip(1).collect();
        let is_option = |word: &&&str| word.starts_with('-');
        let flags: Vec<&str> = words.iter().filter(is_option).copied().collect();
        let Some(command) = words.iter().find(|word| !word.starts_with('-')) else { continue };
        if *command == "help" {
            continue;
        }
        let within = ["tasks", "plugin", "sandbox", "memory", "mcp"].contains(command);
        let inner = words.iter().skip_while(|it| it != &command).nth(1).filter(|_| within);
        let inner = inner.filter(|it| !it.starts_with('-'));
        let mut asked = vec![*command];
        asked.extend(inner);
        asked.push("--help");
        let help = sealed.run_ralph(&asked).expect_code(0).stdout;
        for flag in flags.iter().take_while(|flag| **flag != "--") {
            let flag = flag.split('=').next().unwrap_or(flag);
            let is_known = help.contains(&format!(" {flag}")) || flag == "--help";
            assert!(is_known, "{name}: `{line}`: {flag} is not an option of {command}");
        }
    }
}

#[test]
fn pages_are_listed() {
    let index = fs::read_to_string(docs().join("README.md")).expect("an index");
    for (name, _) in pages() {
        let is_listed = name.contains("README") || index.contains(&format!("]({name})"));
        assert!(is_listed, "{name} is not in docs/README.md");
    }
}

/// Returns all texts of the repository that contain links.
fn texts() -> BTreeMap<PathBuf, String> {
    let root = docs().parent().expect("a repository").canonicalize().expect("there");
    let mut found = BTreeMap::new();
    let mut directories = vec![root];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).expect("readable").flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            let name = name.to_string_lossy();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if !name.starts_with('.') && name != "target" && name != "node_modules" {
                    directories.push(path);
                }
            } else if name.ends_with(".md") {
                let text = fs::read_to_string(&path).expect("text");
                found.insert(path, prose(&text));
            }
        }
    }
    found
}

/// Returns a text without its blocks of code.
fn prose(text: &str) -> String {
    let mut is_code = false;
    let lines = text.lines().filter(|line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the link anchors that GitHub makes of the headings of a text.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for line in text.lines() {
        let heading = line.trim_start_matches('#');
        let depth = line.len() - heading.len();
        let Some(words) = heading.strip_prefix(' ').filter(|_| (1..=6).contains(&depth)) else {
            continue;
        };
        let kept = words.trim().chars().filter(|it| it.is_alphanumeric() || " -_".contains(*it));
        let name: String = kept.collect::<String>().to_lowercase().replace(' ', "-");
        let again = (1..).map(|number| format!("{name}-{number}"));
        let free = std::iter::once(name.clone()).chain(again).find(|it| !found.contains(it));
        found.extend(free);
    }
    found
}

/// Returns the link targets of a text. Links in code are ignored.
fn links(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for paragraph in text.split("\n\n") {
        for plain in paragraph.split('`').step_by(2) {
            let targets = plain.split("](").skip(1).filter_map(|rest| rest.split(')').next());
            found.extend(targets.filter(|target| !target.contains([' ', '\n'])));
        }
    }
    found
}

#[test]
fn every_link_in_every_text_leads_to_a_place() {
    let texts = texts();
    let anchors: BTreeMap<&Path, BTreeSet<String>> =
        texts.iter().map(|(path, text)| (path.as_path(), anchors(text))).collect();
    let mut checked = 0;
    for (path, text) in &texts {
        for link in links(text).into_iter().filter(|link| !link.contains(':')) {
            let (target, anchor) = link.split_once('#').unwrap_or((link, ""));
            let place = match target {
                "" => path.clone(),
                target => path.parent().expect("a directory").join(target),
            };
            let shown = path.display();
            let place = place.canonicalize();
            let place = place.unwrap_or_else(|_| panic!("{shown}: {link} leads nowhere"));
            let is_there = anchor.is_empty()
                || anchors.get(place.as_path()).is_some_and(|known| known.contains(anchor));
            assert!(is_there, "{shown}: {link}: there is no such heading");
            checked += 1;
        }
    }
    assert!(checked > 150, "only {checked} links were found");
}

#[test]
fn links_and_headings_are_read_as_github_reads_them() {
    let text = "# One, two!\n\n## `ralph run`\n## One two\n#no\n\nSee [a](b.md#c) and `[x](y)`,\n\
                [`d`](e.md), ![f](g.svg).\n";
    let known = anchors(text).into_iter().collect::<Vec<_>>();
    assert_eq!(known, ["one-two", "one-two-1", "ralph-run"]);
    assert_eq!(links(text), ["b.md#c", "e.md", "g.svg"]);
    assert_eq!(prose("a\n```\n[x](y)\n```\nb"), "a\nb");
}

#[test]
fn settings_that_pages_name_are_settings() {
    let schema = sealed().run_ralph(&["init", "--print-schema"]).expect_code(0).stdout;
    let schema: Value = serde_json::from_str(&schema).expect("JSON");
    let top: BTreeSet<&str> = names(&schema["properties"]).collect();
    let mut all = BTreeSet::new();
    collect(&schema, &mut all);
    for (name, page) in pages() {
        for key in page.split('`').skip(1).step_by(2) {
            let mut steps = key.split('.').map(|step| step.trim_end_matches("[]"));
            let is_path = key.contains('.')
                && key.chars().all(|it| it.is_ascii_alphanumeric() || ".[]".contains(it));
            let is_file = [".json", ".md", ".txt", ".sh", ".yml", ".lock"]
                .iter()
                .any(|end| key.ends_with(end));
            let is_setting = steps.next().is_some_and(|first| top.contains(first));
            if is_path && is_setting && !is_file {
                assert!(
                    steps.all(|step| all.contains(step)),
                    "{name}: there is no setting `{key}`"
                );
            }
        }
    }
}

fn names(properties: &Value) -> impl Iterator<Item = &str> {
    properties.as_object().into_iter().flat_map(|it| it.keys().map(String::as_str))
}

/// Collects the names of all properties of a schema.
fn collect<'a>(schema: &'a Value, found: &mut BTreeSet<&'a str>) {
    match schema {
        Value::Object(entries) => {
            for (key, value) in entries {
                if key == "properties" {
                    found.extend(names(value));
                }
                collect(value, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn every_exit_code_is_explained() {
    let page = sealed().run_ralph(&["help", "exit-codes"]).expect_code(0).stdout;
    for status in [
        ExitStatus::Complete,
        ExitStatus::Incomplete,
        ExitStatus::BadInput,
        ExitStatus::Busy,
        ExitStatus::AgentFailed,
        ExitStatus::GitFailed,
        ExitStatus::Interrupted,
    ] {
        assert!(page.contains(&format!("- `{}`: ", status.code())), "{status:?}");
    }
}

#[test]
fn documented_exit_codes_and_messages_match_the_program() {
    let no_run = "No run is active in this directory.\nhint: ";
    let (scm, git) = (r#"{ "scm": { "command": "git", "tasks": ["commit"] } }"#, "git init");
    let agent = r#"{ "agent": { "command": "cat" } }"#;
    let unsaid = [("PROMPT.md", "Do it.\n"), (".ralph/settings.json", agent)];
    let no_plan = "Implementation plan not found. Run 'ralph plan' first.";
    for (page, promise, files, words, code, message) in [
        ("control.md", "the exit code is 1, with a hint", &[][..], "pause", 1, no_run),
        ("control.md", "the exit code is 1, with a hint", &[], "go", 1, no_run),
        ("control.md", "the exit code is 1, with a hint", &[], "stop", 1, no_run),
        ("control.md", "the exit code is 1, with a hint", &[], "skip T1", 1, no_run),
        ("control.md", "the exit code is 1, with a hint", &[], "note careful", 1, no_run),
        ("specs.md", no_plan, &[], "build", 2, no_plan),
        ("specs.md", "exits with 1 before anything is started", &unsaid, "prompt PROMPT.md", 1, ""),
        ("specs.md", "missing or empty specs directory with exit 2", &[], "plan", 2, "specs/"),
        (
            "tasks.md",
            "exit code 2 if there is one",
            &[("plan.json", "{}")],
            "tasks validate",
            2,
            "",
        ),
        (
            "plan.md",
            "if there is nothing to archive, with 2",
            &[],
            "archive",
            2,
            "nothing to archive",
        ),
        ("help/exit-codes.md", "no terminal for the questions", &[], "init", 2, "no terminal"),
        (
            "help/exit-codes.md",
            "not installed",
            &[],
            "run -p x --agent not-installed",
            4,
            "not found",
        ),
        (
            "help/exit-codes.md",
            "there is no repository to commit to",
            &[(".ralph/settings.json", scm)],
            "run -p x --agent cat",
            5,
            git,
        ),
    ] {
        let text = fs::read_to_string(docs().join(page)).expect("a page");
        assert!(text.contains(promise), "{page} does not say {promise:?} any more");
        let sealed = sealed();
        for (path, content) in files {
            sealed.write_file(path, content);
        }
        let words: Vec<&str> = words.split(' ').collect();
        let end = sealed.run_ralph(&words).expect_code(code);
        assert!(end.stderr.contains(message), "{words:?}: {}", end.stderr);
    }
}
