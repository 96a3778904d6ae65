//! `ralph man`: generates manual pages from the command line definition.
//!
//! Not here: the texts.

use std::path::Path;
use std::{fs, io};

use clap::Command;
use clap_mangen::Man;
use ralph_model::outcome::ExitStatus;

use crate::cli::{self, CommonArgs, ManArgs};
use crate::cli_error::CliError;
use crate::screen;

/// Prints the page of `ralph`, or writes all pages.
pub(crate) fn main(common: &CommonArgs, args: &ManArgs) -> Result<ExitStatus, CliError> {
    let pages = render_pages()
        .map_err(|error| CliError::for_input(format!("cannot make the pages: {error}")))?;
    let Some(directory) = &args.out else {
        let first = pages.first().map(|page| page.text.as_str()).unwrap_or_default();
        screen::print_data(first);
        return Ok(ExitStatus::Complete);
    };
    let refused = |path: &Path, error: &io::Error| {
        CliError::for_input(format!("cannot write `{}`: {error}", path.display()))
    };
    fs::create_dir_all(directory).map_err(|error| refused(directory, &error))?;
    for page in &pages {
        let path = directory.join(&page.name);
        fs::write(&path, &page.text).map_err(|error| refused(&path, &error))?;
    }
    if !common.quiet {
        let (count, directory) = (pages.len(), directory.display());
        screen::print_data(&format!("{count} pages in {directory}; `man ralph-run` shows one\n"));
    }
    Ok(ExitStatus::Complete)
}

/// A manual page.
struct ManPage {
    name: String,
    text: String,
}

/// Returns the page of `ralph`, then those of all commands.
fn render_pages() -> io::Result<Vec<ManPage>> {
    let command = cli::build_complete_command();
    let mut pages = Vec::new();
    add_pages(&command, "ralph", &mut pages)?;
    Ok(pages)
}

fn add_pages(command: &Command, name: &str, pages: &mut Vec<ManPage>) -> io::Result<()> {
    let mut text = Vec::new();
    let named: &'static str = Box::leak(name.to_owned().into_boxed_str());
    let titled = command.clone().name(named).display_name(named);
    Man::new(titled).source("ralph").manual("ralph").render(&mut text)?;
    // Without a date, the next field would be taken for one.
    let text = String::from_utf8_lossy(&text).replacen(" 1  ", " 1 \"\" ", 1);
    pages.push(ManPage { name: format!("{name}.1"), text });
    for inner in command.get_subcommands().filter(|it| !it.is_hide_set()) {
        add_pages(inner, &format!("{name}-{}", inner.get_name()), pages)?;
    }
    Ok(())
}
