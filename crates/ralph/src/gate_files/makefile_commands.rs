//! The commands that `make` and `just` run for a target.
//!
//! A simple reading: rules with their prerequisites, and plain variables. Conditions and functions are
//! not evaluated. Not here: what the commands run in turn.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use ralph_guard::StartedProgram;
use ralph_io::bounded_read;

use super::named_commands::{MOST_BYTES, NamedCommands, read_option};

/// Most targets of one Makefile that are followed.
const MOST_TARGETS: usize = 64;

/// Most Makefiles that include each other.
const MOST_INCLUDES: usize = 16;

/// The names of Makefiles, in the order in which `make` looks for them.
const MAKEFILES: [&str; 3] = ["GNUmakefile", "makefile", "Makefile"];

/// The names of recipes of `just`.
const JUSTFILES: [&str; 3] = ["justfile", ".justfile", "Justfile"];

/// Returns the commands behind the targets that `make` or `just` makes.
pub(crate) fn find_target_commands(
    program: &StartedProgram,
    directory: &Path,
) -> Option<NamedCommands> {
    match program.name.as_str() {
        "just" => find_just_commands(&program.arguments, directory),
        "make" | "gmake" => find_make_commands(&program.arguments, directory),
        _ => None,
    }
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
    Some(NamedCommands { texts: rules.list_commands(targets), files: rules.files, directory })
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
    let mut files = vec![file];
    let mut at = 0;
    while let Some(file) = files.get(at).cloned() {
        at += 1;
        let text = bounded_read::read_file(&file, MOST_BYTES).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let beside = file.parent().unwrap_or(&directory).to_owned();
        let included = text.lines().flat_map(list_included).map(|name| beside.join(name));
        let included = included.filter(|it| it.is_file() && !files.contains(it));
        let room = MOST_INCLUDES.saturating_sub(files.len());
        let included: Vec<PathBuf> = included.take(room).collect();
        files.extend(included);
        // Recipes look like rules, but for their indentation and a mark for quiet ones.
        let lines = text.lines().map(|line| match line.strip_prefix([' ', '\t']) {
            Some(command) => format!("\t{}", command.trim_start()),
            None => line.trim_start_matches('@').to_owned(),
        });
        rules.read_text(&lines.collect::<Vec<_>>().join("\n"));
    }
    let targets = targets.iter().filter_map(|it| it.rsplit("::").next()).map(str::to_owned);
    Some(NamedCommands { texts: rules.list_commands(targets.collect()), files, directory })
}

/// Returns the files that a line of a justfile may include.
fn list_included(line: &str) -> Vec<String> {
    let (word, rest) = line.split_once(' ').unwrap_or_default();
    let name = rest.rsplit(' ').next().unwrap_or_default().trim_matches(['"', '\'']);
    match word {
        "import" | "import?" => vec![name.to_owned()],
        "mod" | "mod?" => {
            vec![name.to_owned(), format!("{name}.just"), format!("{name}/mod.just")]
        }
        _ => Vec::new(),
    }
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

    /// Returns the commands of targets and of what they need. A recipe that names its interpreter is one
    /// script, each line of another one is run by a shell of its own.
    fn list_commands(&self, targets: Vec<String>) -> Vec<String> {
        let mut open =
            if targets.is_empty() { self.first.iter().cloned().collect() } else { targets };
        let (mut seen, mut texts) = (BTreeSet::new(), Vec::new());
        while let Some(target) = open.pop() {
            if seen.len() >= MOST_TARGETS || !seen.insert(target.clone()) {
                continue;
            }
            let Some((needed, commands)) = self.targets.get(&target) else { continue };
            open.extend(needed.iter().cloned());
            if commands.first().is_some_and(|it| it.starts_with("#!")) {
                texts.push(self.expand(&commands.join("\n")));
            } else {
                texts.extend(commands.iter().map(|command| self.expand(command)));
            }
        }
        texts
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::gate_files::named_commands::parse_program;

    #[test]
    fn targets_lead_to_their_commands() {
        let directory = tempfile::tempdir().expect("a directory");
        let project = directory.path();
        let makefile = "SH = sh ci/unit.sh\n.PHONY: all\nall: build\n\t@echo all\n\
            test: unit \\\n  style\nunit:\n\t@$(SH) --fast\nstyle: ; ./ci/style.sh\nbuild:\n\tcc x.c\ninclude more.mk\n";
        fs::write(project.join("Makefile"), makefile).expect("written");
        fs::write(project.join("more.mk"), "deploy:\n\t./deploy.sh $$HOME\n").expect("written");
        fs::create_dir(project.join("sub")).expect("a directory");
        // Included names are relative to where `make` runs.
        fs::write(project.join("sub/Makefile"), "include mk/all.mk\n").expect("written");
        fs::create_dir(project.join("sub/mk")).expect("a directory");
        fs::write(project.join("sub/mk/all.mk"), "include mk/two.mk\n").expect("written");
        fs::write(project.join("sub/mk/two.mk"), "all:\n\tsh sub.sh\n").expect("written");
        let justfile =
            "import 'more.just'\nmod ci\n\n@test: style\n    cd web && npm test\n    sh x.sh\n";
        fs::write(project.join("justfile"), justfile).expect("written");
        let more = "style:\n  #!/bin/sh\n  cd web\n  ./style.sh\n";
        fs::write(project.join("more.just"), more).expect("written");
        fs::write(project.join("ci.just"), "all:\n  sh ci/all.sh\n").expect("written");
        for (command, expect) in [
            ("make test", &["./ci/style.sh", "sh ci/unit.sh --fast"] as &[&str]),
            ("make -j 4 X=1", &["echo all", "cc x.c"]),
            ("make deploy", &["./deploy.sh $HOME"]),
            ("make -Csub -f../more.mk deploy", &["./deploy.sh $HOME"]),
            ("make -I inc --directory=sub all", &["sh sub.sh"]),
            ("make missing", &[]),
            ("just test", &["cd web && npm test", "sh x.sh", "#!/bin/sh\ncd web\n./style.sh"]),
            ("just ci::all", &["sh ci/all.sh"]),
        ] {
            let program = parse_program(command);
            let found = find_target_commands(&program, project).expect("a file").texts;
            assert_eq!(found, expect, "{command}");
        }
    }
}
