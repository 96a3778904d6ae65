//! The commands behind the names that `composer`, `deno`, `pdm`, `poe`, `hatch`, `mise` and similar
//! runners look up in a table of a file of the project.
//!
//! A simple reading: every text in the value of a name counts as a command. Not here: scripts of
//! `package.json` (`package_scripts`), and what the commands run in turn.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use ralph_guard::StartedProgram;
use ralph_io::bounded_read;

use super::named_commands::{MOST_BYTES, NamedCommands};

/// A table of commands by their names.
struct ScriptTable {
    programs: &'static [&'static str],
    file: &'static str,
    /// The table in the file; `*` stands for one name.
    section: &'static str,
}

#[rustfmt::skip]
const TABLES: &[ScriptTable] = &[
    ScriptTable { programs: &["composer"], file: "composer.json", section: "scripts" },
    ScriptTable { programs: &["deno"], file: "deno.json", section: "tasks" },
    ScriptTable { programs: &["deno"], file: "deno.jsonc", section: "tasks" },
    ScriptTable { programs: &["pdm"], file: "pyproject.toml", section: "tool.pdm.scripts" },
    ScriptTable { programs: &["poe", "poetry", "uv"], file: "pyproject.toml", section: "tool.poe.tasks" },
    ScriptTable { programs: &["poe", "poetry", "uv"], file: "poe_tasks.toml", section: "tool.poe.tasks" },
    ScriptTable { programs: &["task", "poetry", "uv"], file: "pyproject.toml", section: "tool.taskipy.tasks" },
    ScriptTable { programs: &["rye"], file: "pyproject.toml", section: "tool.rye.scripts" },
    ScriptTable { programs: &["hatch"], file: "pyproject.toml", section: "tool.hatch.envs.*.scripts" },
    ScriptTable { programs: &["hatch"], file: "hatch.toml", section: "envs.*.scripts" },
    ScriptTable { programs: &["pixi"], file: "pyproject.toml", section: "tool.pixi.tasks" },
    ScriptTable { programs: &["pixi"], file: "pixi.toml", section: "tasks" },
    ScriptTable { programs: &["pixi"], file: "pixi.toml", section: "feature.*.tasks" },
    ScriptTable { programs: &["pipenv"], file: "Pipfile", section: "scripts" },
    ScriptTable { programs: &["mise"], file: "mise.toml", section: "tasks" },
    ScriptTable { programs: &["mise"], file: ".mise.toml", section: "tasks" },
    ScriptTable { programs: &["cargo"], file: "Makefile.toml", section: "tasks" },
];

/// The texts in the values of the names of a table.
type NamedTexts = BTreeMap<String, Vec<String>>;

/// Returns the commands behind the names among the arguments of a runner.
pub(crate) fn find_table_commands(
    program: &StartedProgram,
    directory: &Path,
) -> Vec<NamedCommands> {
    let tables = TABLES.iter().filter(|table| table.programs.contains(&program.name.as_str()));
    let find_commands = |table: &ScriptTable| {
        let file = directory.join(table.file);
        let text = bounded_read::read_file(&file, MOST_BYTES).ok()?;
        let text = String::from_utf8_lossy(&text);
        let is_toml = !table.file.contains(".json");
        let texts = if is_toml {
            read_toml_table(&text, table.section)
        } else {
            read_json_table(&text, table.section)
        };
        let texts = list_commands(&texts, &program.arguments);
        let directory = directory.to_owned();
        (!texts.is_empty()).then_some(NamedCommands { files: vec![file], directory, texts })
    };
    tables.filter_map(find_commands).collect()
}

/// Returns the commands of the names among some words, and of the names that these refer to.
fn list_commands(table: &NamedTexts, words: &[String]) -> Vec<String> {
    let find_name = |word: &str| {
        // `lint:style` is a name, or one of an environment.
        let last = word.rsplit(':').next().unwrap_or_default();
        [word, last].into_iter().find(|name| table.contains_key(*name)).map(str::to_owned)
    };
    let mut open: Vec<String> = words.iter().filter_map(|word| find_name(word)).collect();
    let (mut seen, mut texts) = (BTreeSet::new(), Vec::new());
    while let Some(name) = open.pop() {
        if !seen.insert(name.clone()) {
            continue;
        }
        for text in table.get(&name).into_iter().flatten() {
            // `@lint` of composer, and steps of others.
            let text = text.trim_start_matches('@');
            let first = text.split(' ').next().unwrap_or_default();
            open.extend(find_name(first).filter(|it| !seen.contains(it)));
            texts.push(text.to_owned());
        }
    }
    texts
}

fn read_json_table(text: &str, section: &str) -> NamedTexts {
    // Comments on their own lines, as in `deno.jsonc`.
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let text = lines.collect::<Vec<_>>().join("\n");
    let value: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    let table = value[section].as_object().into_iter().flatten();
    table.map(|(name, value)| (name.clone(), list_texts(value))).collect()
}

fn list_texts(value: &serde_json::Value) -> Vec<String> {
    match value {
        serde_json::Value::String(text) => vec![text.clone()],
        serde_json::Value::Array(values) => values.iter().flat_map(list_texts).collect(),
        serde_json::Value::Object(values) => values.values().flat_map(list_texts).collect(),
        serde_json::Value::Null | serde_json::Value::Bool(_) | serde_json::Value::Number(_) => {
            Vec::new()
        }
    }
}

/// Reads the texts of a table, and of the tables below it, line by line.
fn read_toml_table(text: &str, section: &str) -> NamedTexts {
    let section: Vec<&str> = section.split('.').collect();
    let mut table = NamedTexts::new();
    // The name that the header of the current part has within the section, or an empty one.
    let mut inside: Option<String> = None;
    let mut name = None;
    let mut rest = text;
    while !rest.is_empty() {
        let (line, after) = rest.split_once('\n').unwrap_or((rest, ""));
        let is_header = line.starts_with('[') && line.trim_end().ends_with(']');
        if is_header {
            inside = find_place(line, &section);
            (name, rest) = (None, after);
            continue;
        }
        let Some(header) = &inside else {
            rest = after;
            continue;
        };
        if let Some((key, _)) = line.split_once('=').filter(|(key, _)| is_key(key)) {
            // `test.cmd` is a part of `test`.
            let key = key.trim().split('.').next().unwrap_or_default();
            let key = if header.is_empty() { key } else { header };
            name = Some(key.trim_matches(['"', '\'']).to_owned());
        }
        let (texts, end) = read_quoted(rest);
        if let Some(name) = &name {
            table.entry(name.clone()).or_default().extend(texts);
        }
        rest = end;
    }
    table
}

/// Returns the name that the header of a table has below a section, or an empty one; `None` if it is
/// another section.
fn find_place(header: &str, section: &[&str]) -> Option<String> {
    let header = header.trim().trim_matches(['[', ']', ' ']);
    let parts: Vec<&str> =
        header.split('.').map(|it| it.trim().trim_matches(['"', '\''])).collect();
    let is_same = |(want, part): (&&str, &&str)| *want == "*" || want == part;
    let is_below = parts.len() >= section.len() && section.iter().zip(&parts).all(is_same);
    is_below.then(|| parts.get(section.len()).copied().unwrap_or_default().to_owned())
}

/// Returns whether a text is a key, and no part of a command with a `=`.
fn is_key(text: &str) -> bool {
    let text = text.trim();
    let quoted = text.strip_prefix('"').map(|it| it.strip_suffix('"').unwrap_or_default());
    let key = quoted.unwrap_or(text);
    let is_plain = |it: char| it.is_alphanumeric() || "_-:.".contains(it);
    !key.is_empty() && key.chars().all(is_plain)
}

/// Returns the quoted texts that begin on the first line, and what follows this line or the last of
/// them.
fn read_quoted(text: &str) -> (Vec<String>, &str) {
    let (mut texts, mut rest) = (Vec::new(), text);
    loop {
        let Some(at) = rest.find(['"', '\'', '#', '\n']) else { return (texts, "") };
        let found = &rest[at..];
        let mark = ["\"\"\"", "'''", "\"", "'"].into_iter().find(|it| found.starts_with(it));
        let Some(mark) = mark else {
            return (texts, found.split_once('\n').map_or("", |it| it.1));
        };
        let inner = &found[mark.len()..];
        let Some(end) = find_end(inner, mark) else { return (texts, "") };
        texts.push(inner[..end].replace("\\\"", "\"").trim().to_owned());
        rest = &inner[end + mark.len()..];
    }
}

/// Returns where a quoted text ends.
fn find_end(text: &str, mark: &str) -> Option<usize> {
    let mut from = 0;
    loop {
        let end = from + text.get(from..)?.find(mark)?;
        let slashes = text[..end].bytes().rev().take_while(|it| *it == b'\\').count();
        if mark.starts_with('\'') || slashes % 2 == 0 {
            return Some(end);
        }
        from = end + 1;
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::gate_files::named_commands::parse_program;

    #[test]
    fn names_lead_to_their_commands() {
        let directory = tempfile::tempdir().expect("a directory");
        let project = directory.path();
        let write = |name: &str, text: &str| fs::write(project.join(name), text).expect("written");
        write(
            "composer.json",
            r#"{"scripts":{"test":["@lint","phpunit"],"lint":"sh ci/lint.sh"}}"#,
        );
        write("deno.json", r#"{"tasks":{"check":{"command":"sh ci/d.sh"}}}"#);
        write("Pipfile", "[packages]\nx = \"*\"\n[scripts]\ntest = \"sh ci/p.sh\"\n");
        write("mise.toml", "[tasks.ci]\nrun = [\n  'sh ci/m.sh', # x\n]\n[tools]\nci = '1'\n");
        write(
            "pyproject.toml",
            r#"
[project]
test = "not this"
[tool.pdm.scripts]
test = {cmd = "pytest -k \"a b\""}
all = {composite = ["test", "sh ci/pdm.sh"]}
[tool.poe.tasks]
test.cmd = "pytest"
lint = "sh ci/poe.sh"
[tool.poe.tasks.shell]
shell = """
cd web
X=1 ./x.sh
"""
[tool.hatch.envs.default.scripts]
cov = "sh ci/hatch.sh"
"#,
        );
        for (command, expect) in [
            ("composer run-script test", &["lint", "phpunit", "sh ci/lint.sh"] as &[&str]),
            ("deno task check", &["sh ci/d.sh"]),
            ("pipenv run test", &["sh ci/p.sh"]),
            ("mise run ci", &["sh ci/m.sh"]),
            ("pdm run all", &["test", "sh ci/pdm.sh", "pytest -k \"a b\""]),
            ("poe lint", &["sh ci/poe.sh"]),
            ("poe shell", &["cd web\nX=1 ./x.sh"]),
            ("hatch run default:cov", &["sh ci/hatch.sh"]),
            ("uv run poe other", &[]),
            ("pytest test", &[]),
        ] {
            let program = parse_program(command);
            let found = find_table_commands(&program, project);
            let texts: Vec<&String> = found.iter().flat_map(|it| &it.texts).collect();
            assert_eq!(texts, expect, "{command}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_file_is_read(text in "[\\[\\]a.=\"'#\\\\\n ]{0,60}") {
            read_toml_table(&text, "a.*.a");
        }
    }
}
