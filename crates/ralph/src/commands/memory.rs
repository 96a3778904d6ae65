//! `ralph memory`: shows the knowledge graph as a list, as JSON, or as a picture.
//!
//! Not here: rendering (`ralph_ui::graph`), and changing it, which agents do.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use ralph_core::graph::{Graph, Index, Selection};
use ralph_core::outcome::ExitStatus;
use ralph_io::store::atomic;
use ralph_io::store::graph::GraphFile;
use ralph_ui::graph as view;

use super::mcp;
use crate::cli::CommonArgs;
use crate::cli::memory::{ExportArgs, MemoryArgs, MemoryCommand};
use crate::complaint::Complaint;
use crate::project::Project;
use crate::screen::{self, Screen};
use crate::settings::types::sections::Ui;

/// Shows the graph of a project.
pub(crate) fn main(common: &CommonArgs, args: &MemoryArgs) -> Result<ExitStatus, Complaint> {
    let project = Project::open(common)?;
    let path = mcp::place(&project.directory, args.file.as_deref())
        .map_err(|error| Complaint::of(ExitStatus::BadInput, &error))?;
    let mut file = GraphFile::new(&path);
    let read = file.graph().map(|_| ());
    mcp::say(file.take_notices());
    read.map_err(|error| Complaint::of(ExitStatus::BadInput, &error))?;
    let graph = file.graph().map_err(|error| Complaint::of(ExitStatus::BadInput, &error))?;
    let show = |selection: &Selection<'_>, nothing: &str| {
        let style = Screen::for_stdout(common, &Ui::default()).style;
        screen::print_data(&view::list(selection, nothing, &style));
    };
    match args.command.as_ref().unwrap_or(&MemoryCommand::Show) {
        MemoryCommand::Show => show(&graph.all(), "Nothing is remembered yet in this project."),
        MemoryCommand::Search { words } => {
            show(
                &Index::of(graph).search(graph, words),
                "Nothing that is remembered has all of these words.",
            );
        }
        MemoryCommand::Export(export) => return self::export(common, &project, graph, export),
    }
    Ok(ExitStatus::Complete)
}

fn export(
    common: &CommonArgs,
    project: &Project,
    graph: &Graph,
    args: &ExportArgs,
) -> Result<ExitStatus, Complaint> {
    if args.html.is_none() && args.svg.is_none() {
        screen::print_data(&format!("{:#}\n", serde_json::json!(graph)));
        return Ok(ExitStatus::Complete);
    }
    let drawn = view::draw(graph);
    for (path, text) in [(&args.html, view::page(graph, &drawn)), (&args.svg, drawn.svg.clone())] {
        let Some(path) = path else { continue };
        let place = project.directory.join(path);
        write(&place, &text).map_err(|error| {
            Complaint::input(format!("cannot write `{}`: {error}", path.display()))
        })?;
        if !common.quiet {
            screen::say(&format!("{} is written: {}.", path.display(), drawn.extent));
        }
    }
    Ok(ExitStatus::Complete)
}

/// Writes a picture that everyone with access to the project may read.
fn write(path: &Path, text: &str) -> std::io::Result<()> {
    atomic::replace_with(path, text.as_bytes(), Permissions::from_mode(0o644))
}
