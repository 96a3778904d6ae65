//! The paths that agents may not change because they decide what gates and agents do.
//!
//! Only the settings can lift this protection. Not here: which files gates run (`gate_scripts`).

use std::collections::BTreeSet;

use ralph_core::asking::prompt::role::{PROJECT_PROMPT, RolePrompt};
use ralph_guard::normalize_lexically;
use ralph_io::process::Watch;
use ralph_model::gate::GateCheck;
use ralph_model::glob::Pattern;
use ralph_model::recipe::{Recipe, RunPrompt};
use ralph_model::task::REQUIREMENTS_FILE;

use super::gate_definition;
use crate::project::Project;
use crate::settings::LoadedSettings;

impl Project {
    /// Protects the settings themselves, the scripts that gates run, names that would change what the
    /// programs of gates do, and the files with the agents' instructions; only the settings can lift this. An agent that could change those could make
    /// every gate pass.
    pub(crate) fn add_locked_paths(&self, recipe: &mut Recipe, loaded: &LoadedSettings) {
        let settings = [".ralph/settings.json", ".ralph/settings.local.json"].map(str::to_owned);
        let named = loaded.files.iter().filter_map(|file| {
            Some(file.strip_prefix(&self.directory).ok()?.to_string_lossy().into_owned())
        });
        let commands = recipe.gates.iter().filter_map(|gate| match &gate.check {
            GateCheck::Command(command) => Some(command.as_str()),
            GateCheck::Agent(_) => None,
        });
        let commands: Vec<&str> = commands.collect();
        let defined = gate_definition::read_gate_definition(self, &commands);
        let is_lifted = |path: &String| recipe.unprotected.iter().any(|it| it.matches(path));
        let (lifted, scripts): (Vec<String>, Vec<String>) =
            defined.scripts.into_iter().partition(is_lifted);
        let (free, shadows): (Vec<String>, Vec<String>) =
            defined.shadows.into_iter().partition(is_lifted);
        recipe.gate_files = defined.files.into_iter().chain(lifted).chain(free).collect();
        recipe.gate_programs = defined.programs.into_iter().collect();
        let orders = self.find_instruction_files(recipe, loaded);
        let started = self.find_settings_programs(loaded);
        let all = settings.into_iter().chain(named).chain(scripts.iter().cloned()).chain(orders);
        let all = all.chain(shadows.iter().cloned());
        let all = all.chain(started).chain(self.find_configured_files());
        let paths: BTreeSet<String> = all.collect();
        recipe.locked = paths.iter().filter_map(|path| Pattern::for_path(path)).collect();
        recipe.protect.extend(recipe.locked.iter().cloned());
        (recipe.gate_scripts, recipe.gate_shadows) = (scripts, shadows);
    }

    /// Protects the same for `ralph run`, if there are gates that the agent could make pass that way;
    /// otherwise only what git runs.
    pub(crate) fn add_locked_paths_for_prompt(&self, recipe: &mut Recipe, loaded: &LoadedSettings) {
        if recipe.gates.is_empty() {
            let files = self.find_configured_files();
            recipe.locked = files.iter().filter_map(|path| Pattern::for_path(path)).collect();
            recipe.protect.extend(recipe.locked.iter().cloned());
        } else {
            self.add_locked_paths(recipe, loaded);
        }
    }

    /// Returns the files of the project that git's configuration includes or starts, such as filters:
    /// ralph runs git outside of the sandbox too.
    fn find_configured_files(&self) -> Vec<String> {
        let repository = self.find_repository(&Watch::new_detached()).ok().flatten();
        let files = repository.map(|it| it.list_configured_files()).unwrap_or_default();
        let files = files.iter().map(|file| normalize_lexically(file));
        let inside = files.filter_map(|file| {
            Some(file.strip_prefix(&self.directory).ok()?.to_string_lossy().into_owned())
        });
        inside.filter(|file| !file.starts_with(".git/")).collect()
    }

    /// Returns the files of the project that the settings start or pass to agents: the programs of
    /// `scm` and of agents, and the lists of MCP servers.
    fn find_settings_programs(&self, loaded: &LoadedSettings) -> Vec<String> {
        let settings = &loaded.settings;
        let sections = settings.agents.sections();
        let commands = sections.iter().map(|(_, section)| &section.command);
        let commands = commands.chain([&settings.agent.command, &settings.scm.command]).flatten();
        // A plain name is looked up on the `PATH`.
        let programs = commands.filter(|command| command.contains('/'));
        let files =
            programs.chain([&settings.mcp.coding, &settings.mcp.memory].into_iter().flatten());
        files
            .map(|file| normalize_lexically(&self.directory.join(file)))
            .filter(|file| file.is_file())
            .filter_map(|file| {
                Some(file.strip_prefix(&self.directory).ok()?.to_string_lossy().into_owned())
            })
            .collect()
    }

    /// Returns the files with the agents' instructions, existing or not: no agent may instruct the next.
    fn find_instruction_files(&self, recipe: &Recipe, loaded: &LoadedSettings) -> Vec<String> {
        let prompts = self.directory.join(&loaded.settings.prompts_dir);
        let names = RolePrompt::ALL.map(RolePrompt::name).into_iter();
        let names = names.chain(RunPrompt::ALL.map(RunPrompt::name));
        let templates = names.map(|name| prompts.join(format!("{name}.md")));
        let companions = recipe.task_work().map(|work| {
            let list = self.directory.join(&work.file);
            [PROJECT_PROMPT, REQUIREMENTS_FILE].map(|name| list.with_file_name(name))
        });
        let files = templates.chain(companions.into_iter().flatten());
        files
            .filter_map(|file| {
                Some(file.strip_prefix(&self.directory).ok()?.to_string_lossy().into_owned())
            })
            .collect()
    }
}
