//! The commands that `make`, `just` and package managers run for a target or script of the project.
//!
//! A simple reading: rules with their prerequisites and plain variables of a Makefile, and the
//! scripts of `package.json`. Conditions and functions are not evaluated. Not here: what the commands
//! run in turn.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use ralph_guard::StartedProgram;
use ralph_io::bounded_read;

/// Larger files are written by programs.
const MOST_BYTES: u64 = 256 * 1024;

/// Most targets of one Makefile that are followed.
const MOST_TARGETS: usize = 64;

/// Most Makefiles that include each other.
const MOST_INCLUDES: usize = 16;

/// The names of Makefiles, in the order in which `make` looks for them.
const MAKEFILES: [&str; 3] = ["GNUmakefile", "makefile", "Makefile"];

/// The names of recipes of `just`.
const JUSTFILES: [&str; 3] = ["justfile", ".justfile", "Justfile"];

/// The commands behind a target or a script.
pub(crate) struct NamedCommands {
    /// The files that define them.
    pub(crate) files: Vec<PathBuf>,
    /// The directory that they run in.
    pub(crate) directory: PathBuf,
    pub(crate) text: String,
}

/// Returns the commands that a program runs because a file of the project names them.
pub(crate) fn find_named_commands(
    program: &StartedProgram,
    directory: &Path,
) -> Option<NamedCommands> {
    match program.name.as_str() {
        "just" => find_just_commands(&program.arguments, directory),
        "make" | "gmake" => find_make_commands(&program.arguments, directory),
        "npm" | "pnpm" | "yarn" | "bun" => find_package_script(program, directory),
        _ => None,
    }
}

/// Returns the value of an option, which is in the same word or in the next one.
fn read_option<'a>(
    names: &[&str],
    word: &'a str,
    rest: &mut impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    names.iter().find_map(|name| match word.strip_prefix(name)? {
        "" => rest.next(),
        value if name.starts_with("--") => value.strip_prefix('='),
        value => Some(value),
    })
}

/// Returns whether a word of `make` or `just` is a target, and no option, assignment or number of jobs.
fn is_target(word: &str) -> bool {
    !word.starts_with('-') && !word.contains('=') && !word.chars().all(|it| it.is_ascii_digit())
}

fn find_make_commands(arguments: &[String], directory: &Path) -> Option<NamedCommands> {
    let (mut directory, mut file, mut targets) = (directory.to_owned(), None, Vec::new());
    let mut words = arguments.iter().map(String::as_str);
    while let Some(word) = words.next() {
        if let Some(place) = read_option(&["-C", "--directory"], word, &mut words) {
            directory.push(place);
        } else if let Some(name) = read_option(&["-f", "--file", "--makefile"], word, &mut words) {
            file = Some(name);
        } else if read_option(&["-I", "-o", "-W"], word, &mut words).is_none() && is_target(word) {
            targets.push(word.to_owned());
        }
    }
    let file = match file {
        Some(file) => directory.join(file),
        None => MAKEFILES.iter().map(|name| directory.join(name)).find(|file| file.is_file())?,
    };
    let mut rules = MakeRules { directory: directory.clone(), ..MakeRules::default() };
    rules.read_file(&file);
    Some(NamedCommands { text: rules.list_commands(targets), files: rules.files, directory })
}

fn find_just_commands(arguments: &[String], directory: &Path) -> Option<NamedCommands> {
    let (mut directory, mut file, mut targets) = (directory.to_owned(), None, Vec::new());
    let mut words = arguments.iter().map(String::as_str);
    while let Some(word) = words.next() {
        if let Some(place) = read_option(&["-d", "--working-directory"], word, &mut words) {
            directory.push(place);
        } else if let Some(name) = read_option(&["-f", "--justfile"], word, &mut words) {
            file = Some(name);
        } else if is_target(word) {
            targets.push(word.to_owned());
        }
    }
    let file = match file {
        Some(file) => directory.join(file),
        None => JUSTFILES.iter().map(|name| directory.join(name)).find(|file| file.is_file())?,
    };
    let mut rules = MakeRules::default();
    let text = String::from_utf8(bounded_read::read_file(&file, MOST_BYTES).ok()?).ok()?;
    // Recipes look like rules, but for their indentation and a mark for quiet ones.
    let lines = text.lines().map(|line| match line.strip_prefix([' ', '\t']) {
        Some(command) => format!("\t{}", command.trim_start()),
        None => line.trim_start_matches('@').to_owned(),
    });
    rules.read_text(&lines.collect::<Vec<_>>().join("\n"));
    Some(NamedCommands { text: rules.list_commands(targets), files: vec![file], directory })
}

/// The rules of a Makefile and those that it includes.
#[derive(Default)]
struct MakeRules {
    /// Where `make` runs: the names of included files are relative to it.
    directory: PathBuf,
    files: Vec<PathBuf>,
    variables: BTreeMap<String, String>,
    /// The prerequisites and commands of each target.
    targets: BTreeMap<String, (Vec<String>, Vec<String>)>,
    /// The target that is made if none is named.
    first: Option<String>,
}

impl MakeRules {
    fn read_file(&mut self, file: &Path) {
        let Ok(bytes) = bounded_read::read_file(file, MOST_BYTES) else { return };
        if self.files.len() >= MOST_INCLUDES || self.files.iter().any(|known| known == file) {
            return;
        }
        self.files.push(file.to_owned());
        self.read_text(&String::from_utf8_lossy(&bytes));
    }

    fn read_text(&mut self, text: &str) {
        let text = text.replace("\\\n", " ");
        let mut current: Vec<String> = Vec::new();
        for line in text.lines() {
            if let Some(command) = line.strip_prefix('\t') {
                self.add_command(&current, command);
                continue;
            }
            let line = line.split(" #").next().unwrap_or_default().trim();
            let included = line.trim_start_matches('-').trim_start_matches('s');
            if let Some(names) = included.strip_prefix("include ") {
                for name in self.expand(names).split_whitespace() {
                    self.read_file(&self.directory.join(name));
                }
            } else if let Some((name, value)) = parse_assignment(line) {
                self.variables.insert(name.to_owned(), value.to_owned());
            } else if let Some((targets, rest)) = line.split_once(':') {
                current = self.add_rule(targets, rest.trim_start_matches(':'));
            }
        }
    }

    fn add_rule(&mut self, targets: &str, rest: &str) -> Vec<String> {
        let targets: Vec<String> =
            self.expand(targets).split_whitespace().map(str::to_owned).collect();
        let (needed, command) = rest.split_once(';').unwrap_or((rest, ""));
        let needed = self.expand(needed);
        for target in &targets {
            if self.first.is_none() && !target.starts_with('.') {
                self.first = Some(target.clone());
            }
            let rule = self.targets.entry(target.clone()).or_default();
            rule.0.extend(needed.split_whitespace().map(str::to_owned));
        }
        if !command.is_empty() {
            self.add_command(&targets, command);
        }
        targets
    }

    fn add_command(&mut self, targets: &[String], command: &str) {
        let command = command.trim_start_matches(['@', '-', '+', ' ', '\t']).to_owned();
        for target in targets {
            self.targets.entry(target.clone()).or_default().1.push(command.clone());
        }
    }

    /// Returns the commands of targets and of what they need, one on each line.
    fn list_commands(&self, targets: Vec<String>) -> String {
        let mut open =
            if targets.is_empty() { self.first.iter().cloned().collect() } else { targets };
        let (mut seen, mut text) = (BTreeSet::new(), String::new());
        while let Some(target) = open.pop() {
            if seen.len() >= MOST_TARGETS || !seen.insert(target.clone()) {
                continue;
            }
            let Some((needed, commands)) = self.targets.get(&target) else { continue };
            open.extend(needed.iter().cloned());
            for command in commands {
                text.push_str(&self.expand(command));
                text.push('\n');
            }
        }
        text
    }

    /// Replaces variables whose values are plain.
    fn expand(&self, text: &str) -> String {
        let mut text = text.replace("$(MAKE)", "make").replace("${MAKE}", "make");
        for (name, value) in &self.variables {
            let just = [format!("{{{{{name}}}}}"), format!("{{{{ {name} }}}}")];
            for form in [format!("$({name})"), format!("${{{name}}}")].into_iter().chain(just) {
                if text.contains(&form) {
                    text = text.replace(&form, value.trim_matches(['"', '\'']));
                }
            }
        }
        text.replace("$$", "$")
    }
}

/// Returns the name and the value of an assignment in a Makefile.
fn parse_assignment(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once('=')?;
    let name = name.trim_end_matches([':', '?', '+', ' ']).trim_start_matches("export ").trim();
    let is_name =
        !name.is_empty() && name.chars().all(|it| it.is_ascii_alphanumeric() || it == '_');
    is_name.then_some((name, value.trim()))
}

fn find_package_script(program: &StartedProgram, directory: &Path) -> Option<NamedCommands> {
    let (mut directory, mut names) = (directory.to_owned(), Vec::new());
    let mut words = program.arguments.iter().map(String::as_str);
    // With pnpm it is an option without a value.
    let workspace: &[&str] = if program.name == "pnpm" { &[] } else { &["-w", "--workspace"] };
    let common: &[&str] = &["-C", "--prefix", "--cwd", "--dir", "-F", "--filter"];
    let places = [common, workspace].concat();
    while let Some(word) = words.next() {
        match read_option(&places, word, &mut words) {
            Some(place) => directory.push(place),
            None if word == "workspace" => directory.push(words.next()?),
            None if word.starts_with('-') => {}
            None => names.push(word),
        }
    }
    let mut names = names.into_iter();
    let name = match names.next()? {
        "run" | "run-script" => names.next()?,
        "t" => "test",
        name => name,
    };
    let file = directory.ancestors().map(|it| it.join("package.json")).find(|it| it.is_file())?;
    let manifest = bounded_read::read_file(&file, MOST_BYTES).ok()?;
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).ok()?;
    let names = [format!("pre{name}"), name.to_owned(), format!("post{name}")];
    let scripts = names.iter().filter_map(|name| manifest["scripts"][name].as_str());
    let text = scripts.collect::<Vec<_>>().join("\n");
    let directory = file.parent()?.to_owned();
    (!text.is_empty()).then_some(NamedCommands { files: vec![file], directory, text })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn targets_and_scripts_lead_to_their_commands() {
        let directory = tempfile::tempdir().expect("a directory");
        let project = directory.path();
        let makefile = "SH = sh ci/unit.sh\n.PHONY: all\nall: build\n\t@echo all\n\
            test: unit \\\n  style\nunit:\n\t@$(SH) --fast\nstyle: ; ./ci/style.sh\nbuild:\n\tcc x.c\ninclude more.mk\n";
        fs::write(project.join("Makefile"), makefile).expect("written");
        fs::write(project.join("more.mk"), "deploy:\n\t./deploy.sh $$HOME\n").expect("written");
        let manifest = r#"{"scripts":{"pretest":"sh pre.sh","test":"jest","lint":"eslint ."}}"#;
        fs::write(project.join("package.json"), manifest).expect("written");
        fs::create_dir(project.join("sub")).expect("a directory");
        // Included names are relative to where `make` runs.
        fs::write(project.join("sub/Makefile"), "include mk/all.mk\n").expect("written");
        fs::create_dir(project.join("sub/mk")).expect("a directory");
        fs::write(project.join("sub/mk/all.mk"), "include mk/two.mk\n").expect("written");
        fs::write(project.join("sub/mk/two.mk"), "all:\n\tsh sub.sh\n").expect("written");
        let manifest = r#"{"scripts":{"test":"jest --sub"}}"#;
        fs::write(project.join("sub/package.json"), manifest).expect("written");
        for (command, expect) in [
            ("make test", "./ci/style.sh\nsh ci/unit.sh --fast\n"),
            ("make -j 4 X=1", "echo all\ncc x.c\n"),
            ("make deploy", "./deploy.sh $HOME\n"),
            ("make -Csub -f../more.mk deploy", "./deploy.sh $HOME\n"),
            ("make -I inc --directory=sub all", "sh sub.sh\n"),
            ("make missing", ""),
            ("npm test", "sh pre.sh\njest"),
            ("yarn lint", "eslint ."),
            ("pnpm run --silent lint", "eslint ."),
            ("npm --prefix sub test", "jest --sub"),
            ("npm test --workspace=sub", "jest --sub"),
            ("yarn workspace sub test", "jest --sub"),
            ("pnpm -w --dir sub run test", "jest --sub"),
        ] {
            let mut words = command.split(' ').map(str::to_owned);
            let name = words.next().expect("a program");
            let program = StartedProgram {
                name,
                arguments: words.collect(),
                directory: None,
                variables: Vec::new(),
            };
            let found = find_named_commands(&program, project).map(|it| it.text);
            assert_eq!(found.as_deref(), Some(expect), "{command}");
        }
        let program = StartedProgram {
            name: "npm".to_owned(),
            arguments: vec!["ci".to_owned()],
            directory: None,
            variables: Vec::new(),
        };
        assert!(find_named_commands(&program, project).is_none());
    }
}
