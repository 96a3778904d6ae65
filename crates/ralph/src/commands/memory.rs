//! `ralph memory`: shows the knowledge graph as a list, as JSON, as a page, or as a chart.
//!
//! Not here: rendering (`ralph_ui::graph`), and changing it, which agents do.

use ralph_core::memory::graph::{Graph, GraphSelection};
use ralph_io::store::graph::GraphFile;
use ralph_model::outcome::ExitStatus;
use ralph_ui::graph as view;

use super::{mcp, pages};
use crate::cli::CommonArgs;
use crate::cli::memory::{ExportArgs, MemoryArgs, MemoryCommand};
use crate::cli_error::CliError;
use crate::project::Project;
use crate::screen::{self, OutputStyle};
use crate::settings::types::sections::UiSettings;

/// Shows the graph of a project.
pub(crate) fn main(common: &CommonArgs, args: &MemoryArgs) -> Result<ExitStatus, CliError> {
    let project = Project::open_nearest(common)?;
    let path = mcp::find_graph_path(&project.directory, args.file.as_deref())
        .map_err(CliError::from_input_error)?;
    if args.file.is_some() && !path.exists() {
        return Err(CliError::for_input(format!("there is no file `{}`", path.display()))
            .with_hint("without --file, the memory of this project is shown"));
    }
    let mut file = GraphFile::new(&path);
    let read = file.read_graph().map(|it| it.entities.is_empty());
    let notices = file.take_notices();
    let is_empty = *read.as_ref().unwrap_or(&false);
    if is_empty && !notices.is_empty() {
        return Err(CliError::for_input(format!(
            "`{}` is not a knowledge graph: none of its lines can be read",
            path.display()
        ))
        .with_hint("each line of one is a JSON object of the type `entity` or `relation`"));
    }
    mcp::print_notices(notices);
    read.map_err(CliError::from_input_error)?;
    let graph = file.read_graph().map_err(CliError::from_input_error)?;
    let show = |selection: &GraphSelection<'_>, nothing: &str| {
        let style = OutputStyle::for_stdout(common, &UiSettings::default()).style;
        screen::print_data(&view::format_list(selection, nothing, &style));
    };
    match args.command.as_ref().unwrap_or(&MemoryCommand::Show) {
        MemoryCommand::Show => {
            show(&graph.select_all(), "Nothing is remembered yet in this project.");
        }
        MemoryCommand::Search { words } => {
            show(
                &graph.search_entities(words),
                "Nothing that is remembered has all of these words.",
            );
        }
        MemoryCommand::Export(export) => {
            return self::export_graph(common, &project, graph, export);
        }
    }
    Ok(ExitStatus::Complete)
}

fn export_graph(
    common: &CommonArgs,
    project: &Project,
    graph: &Graph,
    args: &ExportArgs,
) -> Result<ExitStatus, CliError> {
    if args.html.is_none() && args.mermaid.is_none() {
        screen::print_data(&format!("{:#}\n", serde_json::json!(graph)));
        return Ok(ExitStatus::Complete);
    }
    let chart = view::render_mermaid(graph);
    for (path, text) in
        [(&args.html, view::render_page(graph, &chart)), (&args.mermaid, chart.text.clone())]
    {
        let Some(path) = path else { continue };
        if pages::is_stdout(path) {
            screen::print_data(&text);
            continue;
        }
        let place = project.directory.join(path);
        pages::write_result(&place, &path.display().to_string(), &text)?;
        if !common.quiet {
            screen::print_line(&format!("{} is written: {}.", path.display(), chart.extent));
        }
    }
    Ok(ExitStatus::Complete)
}
