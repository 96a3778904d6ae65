//! The nine tools of the memory server: names, inputs and outputs.
//!
//! Names, schemas and answers are those of the npm package server-memory, which agents and prompts
//! already know. Not here: the protocol around a call.

use ralph_core::graph::{Edit, Edited, Graph, Selection};
use ralph_io::mask::Masker;
use ralph_io::store::graph::GraphFile;
use rmcp::model::{Tool, ToolAnnotations};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::schema::{self, Extent, about, list, object, text, whole};

/// A tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MemoryTool {
    CreateEntities,
    CreateRelations,
    AddObservations,
    DeleteEntities,
    DeleteObservations,
    DeleteRelations,
    ReadGraph,
    SearchNodes,
    OpenNodes,
}

/// How a tool affects the graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Nature {
    Adds,
    Deletes,
    Reads,
}

/// The answer of a tool.
#[derive(Debug, PartialEq)]
pub(super) struct Reply {
    /// For the model.
    pub(super) text: String,
    /// The same as data.
    pub(super) structured: Value,
    pub(super) nature: Nature,
}

/// Calls a tool by its name; the error is for the model.
///
/// Secrets in the arguments are masked: they are not written, and text that was masked before is
/// found under the same mask.
pub(super) fn call(
    file: &mut GraphFile,
    masker: &Masker,
    name: &str,
    mut arguments: Map<String, Value>,
) -> Result<Reply, String> {
    let tool = MemoryTool::ALL.into_iter().find(|tool| tool.name() == name);
    let tool = tool.ok_or_else(|| format!("MCP error -32602: Tool {name} not found"))?;
    let mistakes = schema::mistakes(&tool.input(), &arguments);
    if !mistakes.is_empty() {
        return Err(format!(
            "MCP error -32602: Input validation error: Invalid arguments for tool {name}: {mistakes}"
        ));
    }
    arguments.values_mut().for_each(|value| mask(masker, value));
    tool.call(file, arguments)
}

fn mask(masker: &Masker, value: &mut Value) {
    match value {
        Value::String(text) => *text = masker.text(text).into_owned(),
        Value::Array(values) => values.iter_mut().for_each(|value| mask(masker, value)),
        Value::Object(fields) => fields.values_mut().for_each(|value| mask(masker, value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

impl MemoryTool {
    /// All tools, in listing order.
    pub(super) const ALL: [Self; 9] = [
        Self::CreateEntities,
        Self::CreateRelations,
        Self::AddObservations,
        Self::DeleteEntities,
        Self::DeleteObservations,
        Self::DeleteRelations,
        Self::ReadGraph,
        Self::SearchNodes,
        Self::OpenNodes,
    ];

    /// Returns the definition for clients.
    pub(super) fn definition(self) -> Tool {
        let (title, description) = self.words();
        let nature = self.nature();
        let annotations = ToolAnnotations::new()
            .read_only(nature == Nature::Reads)
            .destructive(nature == Nature::Deletes)
            .idempotent(nature != Nature::Adds)
            .open_world(false);
        Tool::new(self.name(), description, self.input())
            .with_title(title)
            .with_raw_output_schema(self.output().into())
            .with_annotations(annotations)
    }

    fn nature(self) -> Nature {
        match self {
            Self::CreateEntities | Self::CreateRelations | Self::AddObservations => Nature::Adds,
            Self::DeleteEntities | Self::DeleteObservations | Self::DeleteRelations => {
                Nature::Deletes
            }
            Self::ReadGraph | Self::SearchNodes | Self::OpenNodes => Nature::Reads,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::CreateEntities => "create_entities",
            Self::CreateRelations => "create_relations",
            Self::AddObservations => "add_observations",
            Self::DeleteEntities => "delete_entities",
            Self::DeleteObservations => "delete_observations",
            Self::DeleteRelations => "delete_relations",
            Self::ReadGraph => "read_graph",
            Self::SearchNodes => "search_nodes",
            Self::OpenNodes => "open_nodes",
        }
    }

    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::CreateEntities => (
                "Create Entities",
                "Remember things: people, parts, decisions, constraints. A name that is known already is left as it is",
            ),
            Self::CreateRelations => (
                "Create Relations",
                "Remember how things relate, in the active voice: `parser` `reads` `header`",
            ),
            Self::AddObservations => (
                "Add Observations",
                "Remember more about things that are known. What is known of them already is not repeated",
            ),
            Self::DeleteEntities => (
                "Delete Entities",
                "Forget things, everything known of them and all their relations",
            ),
            Self::DeleteObservations => {
                ("Delete Observations", "Forget what is no longer true of a thing")
            }
            Self::DeleteRelations => {
                ("Delete Relations", "Forget how things related; the things themselves stay")
            }
            Self::ReadGraph => ("Read Graph", "Read everything that is remembered"),
            Self::SearchNodes => (
                "Search Nodes",
                "Find things by a part of their name, their type or what is known of them, with their relations",
            ),
            Self::OpenNodes => (
                "Open Nodes",
                "Read what is known of things by their exact names, with their relations",
            ),
        }
    }

    fn input(self) -> Map<String, Value> {
        let texts = |description| about(list(&text()), description);
        let observations = |field, description| {
            let name = about(text(), "The name of the thing that it is about");
            let fields = [("entityName", name), (field, about(list(&text()), description))];
            list(&object(Extent::Open, &fields))
        };
        let (field, schema) = match self {
            Self::CreateEntities => ("entities", list(&entity(Extent::Open))),
            Self::CreateRelations => ("relations", list(&relation(Extent::Open))),
            Self::AddObservations => {
                ("observations", observations("contents", "What to remember, a sentence each"))
            }
            Self::DeleteEntities => ("entityNames", texts("The names of the things")),
            Self::DeleteObservations => {
                ("deletions", observations("observations", "What to forget, word for word"))
            }
            Self::DeleteRelations => {
                ("relations", about(list(&relation(Extent::Open)), "The relations, word for word"))
            }
            Self::ReadGraph => return whole(Extent::Open, &[]),
            Self::SearchNodes => ("query", about(text(), "The text to find, in any case")),
            Self::OpenNodes => ("names", texts("The names of the things")),
        };
        whole(Extent::Open, &[(field, schema)])
    }

    fn output(self) -> Map<String, Value> {
        let closed = |fields: &[(&str, Value)]| whole(Extent::Closed, fields);
        match self {
            Self::CreateEntities => closed(&[("entities", list(&entity(Extent::Closed)))]),
            Self::CreateRelations => closed(&[("relations", list(&relation(Extent::Closed)))]),
            Self::AddObservations => {
                let fields = [("entityName", text()), ("addedObservations", list(&text()))];
                closed(&[("results", list(&object(Extent::Closed, &fields)))])
            }
            Self::DeleteEntities | Self::DeleteObservations | Self::DeleteRelations => {
                closed(&[("success", json!({ "type": "boolean" })), ("message", text())])
            }
            Self::ReadGraph | Self::SearchNodes | Self::OpenNodes => closed(&[
                ("entities", list(&entity(Extent::Closed))),
                ("relations", list(&relation(Extent::Closed))),
            ]),
        }
    }

    fn call(
        self,
        file: &mut GraphFile,
        mut arguments: Map<String, Value>,
    ) -> Result<Reply, String> {
        let arguments = &mut arguments;
        let edit = match self {
            Self::CreateEntities => Edit::CreateEntities(take(arguments, "entities")?),
            Self::CreateRelations => Edit::CreateRelations(take(arguments, "relations")?),
            Self::AddObservations => Edit::AddObservations(take(arguments, "observations")?),
            Self::DeleteEntities => Edit::DeleteEntities(take(arguments, "entityNames")?),
            Self::DeleteObservations => Edit::DeleteObservations(take(arguments, "deletions")?),
            Self::DeleteRelations => Edit::DeleteRelations(take(arguments, "relations")?),
            Self::ReadGraph => return Reply::selection(&graph(file)?.all()),
            Self::SearchNodes => {
                let query: String = take(arguments, "query")?;
                let found = file.search(&[query]).map_err(|error| error.to_string())?;
                return Reply::selection(&found);
            }
            Self::OpenNodes => {
                let names: Vec<String> = take(arguments, "names")?;
                return Reply::selection(&graph(file)?.open(&names));
            }
        };
        match file.apply(edit).map_err(|error| error.to_string())? {
            Edited::Entities(new) => Reply::list("entities", &new),
            Edited::Relations(new) => Reply::list("relations", &new),
            Edited::Observations(added) => Reply::list("results", &added),
            Edited::Deleted => {
                let what = match self {
                    Self::DeleteEntities => "Entities",
                    Self::DeleteObservations => "Observations",
                    Self::DeleteRelations => "Relations",
                    Self::CreateEntities
                    | Self::CreateRelations
                    | Self::AddObservations
                    | Self::ReadGraph
                    | Self::SearchNodes
                    | Self::OpenNodes => unreachable!("these delete nothing"),
                };
                let text = format!("{what} deleted successfully");
                let structured = json!({ "success": true, "message": text });
                Ok(Reply { text, structured, nature: Nature::Deletes })
            }
        }
    }
}

impl Reply {
    fn list(field: &str, items: &impl Serialize) -> Result<Self, String> {
        let items = serde_json::to_value(items).map_err(|error| error.to_string())?;
        let text = format!("{items:#}");
        let structured = Value::Object([(field.to_owned(), items)].into_iter().collect());
        Ok(Self { text, structured, nature: Nature::Adds })
    }

    /// Returns a part of the graph as an answer.
    pub(super) fn selection(selection: &Selection<'_>) -> Result<Self, String> {
        let text = serde_json::to_string_pretty(selection).map_err(|error| error.to_string())?;
        let structured = serde_json::to_value(selection).map_err(|error| error.to_string())?;
        Ok(Self { text, structured, nature: Nature::Reads })
    }
}

fn graph(file: &mut GraphFile) -> Result<&Graph, String> {
    file.graph().map_err(|error| error.to_string())
}

/// Takes an argument that has passed the schema check.
fn take<T: DeserializeOwned>(arguments: &mut Map<String, Value>, name: &str) -> Result<T, String> {
    let value = arguments.remove(name).unwrap_or_default();
    serde_json::from_value(value).map_err(|error| error.to_string())
}

fn entity(extent: Extent) -> Value {
    object(
        extent,
        &[
            ("name", about(text(), "What the thing is called")),
            ("entityType", about(text(), "What kind of thing it is")),
            ("observations", about(list(&text()), "What is known of it, a sentence each")),
        ],
    )
}

fn relation(extent: Extent) -> Value {
    object(
        extent,
        &[
            ("from", about(text(), "The name of the thing that the relation begins at")),
            ("to", about(text(), "The name of the thing that the relation ends at")),
            ("relationType", about(text(), "How the one relates to the other")),
        ],
    )
}
