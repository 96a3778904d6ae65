//! The nine tools of the memory server: names, inputs and outputs.
//!
//! Names, schemas and answers are those of the npm package server-memory, which agents and prompts
//! already know. Not here: the protocol around a call.

use ralph_core::memory::graph::{Graph, GraphEdit, GraphEditResult, GraphSelection};
use ralph_io::mask::Masker;
use ralph_io::store::graph::GraphFile;
use rmcp::model::{Tool, ToolAnnotations};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::schema::{
    self, ExtraFields, add_description, build_list_schema, build_object_schema, build_root_schema,
    build_text_schema,
};

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
pub(super) enum ToolEffect {
    Adds,
    Deletes,
    Reads,
}

/// The answer of a tool.
#[derive(Debug, PartialEq)]
pub(super) struct ToolReply {
    /// For the model.
    pub(super) text: String,
    /// The same as data.
    pub(super) structured: Value,
    pub(super) effect: ToolEffect,
}

/// Calls a tool by its name; the error is for the model.
///
/// Secrets in the arguments are masked: they are not written, and text that was masked before is
/// found under the same mask.
pub(super) fn call_tool(
    file: &mut GraphFile,
    masker: &Masker,
    name: &str,
    mut arguments: Map<String, Value>,
) -> Result<ToolReply, String> {
    let tool = MemoryTool::ALL.into_iter().find(|tool| tool.name() == name);
    let tool = tool.ok_or_else(|| format!("MCP error -32602: Tool {name} not found"))?;
    let mistakes = schema::find_mistakes(&tool.input_schema(), &arguments);
    if !mistakes.is_empty() {
        return Err(format!(
            "MCP error -32602: Input validation error: Invalid arguments for tool {name}: {mistakes}"
        ));
    }
    arguments.values_mut().for_each(|value| mask_value(masker, value));
    tool.run(file, arguments)
}

fn mask_value(masker: &Masker, value: &mut Value) {
    match value {
        Value::String(text) => *text = masker.mask_text(text).into_owned(),
        Value::Array(values) => values.iter_mut().for_each(|value| mask_value(masker, value)),
        Value::Object(fields) => fields.values_mut().for_each(|value| mask_value(masker, value)),
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
        let (title, description) = self.title_and_description();
        let nature = self.effect();
        let annotations = ToolAnnotations::new()
            .read_only(nature == ToolEffect::Reads)
            .destructive(nature == ToolEffect::Deletes)
            .idempotent(nature != ToolEffect::Adds)
            .open_world(false);
        Tool::new(self.name(), description, self.input_schema())
            .with_title(title)
            .with_raw_output_schema(self.output_schema().into())
            .with_annotations(annotations)
    }

    fn effect(self) -> ToolEffect {
        match self {
            Self::CreateEntities | Self::CreateRelations | Self::AddObservations => {
                ToolEffect::Adds
            }
            Self::DeleteEntities | Self::DeleteObservations | Self::DeleteRelations => {
                ToolEffect::Deletes
            }
            Self::ReadGraph | Self::SearchNodes | Self::OpenNodes => ToolEffect::Reads,
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

    fn title_and_description(self) -> (&'static str, &'static str) {
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

    fn input_schema(self) -> Map<String, Value> {
        let observations = |field, description| {
            let fields = [
                ("entityName", describe_text("The name of the thing that it is about")),
                (field, describe_texts(description)),
            ];
            build_list_schema(&build_object_schema(ExtraFields::Open, &fields))
        };
        let (field, schema) = match self {
            Self::CreateEntities => {
                ("entities", build_list_schema(&build_entity_schema(ExtraFields::Open)))
            }
            Self::CreateRelations => {
                ("relations", build_list_schema(&build_relation_schema(ExtraFields::Open)))
            }
            Self::AddObservations => {
                ("observations", observations("contents", "What to remember, a sentence each"))
            }
            Self::DeleteEntities => ("entityNames", describe_texts("The names of the things")),
            Self::DeleteObservations => {
                ("deletions", observations("observations", "What to forget, word for word"))
            }
            Self::DeleteRelations => (
                "relations",
                add_description(
                    build_list_schema(&build_relation_schema(ExtraFields::Open)),
                    "The relations, word for word",
                ),
            ),
            Self::ReadGraph => return build_root_schema(ExtraFields::Open, &[]),
            Self::SearchNodes => ("query", describe_text("The text to find, in any case")),
            Self::OpenNodes => ("names", describe_texts("The names of the things")),
        };
        build_root_schema(ExtraFields::Open, &[(field, schema)])
    }

    fn output_schema(self) -> Map<String, Value> {
        let closed = |fields: &[(&str, Value)]| build_root_schema(ExtraFields::Closed, fields);
        match self {
            Self::CreateEntities => closed(&[(
                "entities",
                build_list_schema(&build_entity_schema(ExtraFields::Closed)),
            )]),
            Self::CreateRelations => closed(&[(
                "relations",
                build_list_schema(&build_relation_schema(ExtraFields::Closed)),
            )]),
            Self::AddObservations => {
                let fields = [
                    ("entityName", build_text_schema()),
                    ("addedObservations", build_list_schema(&build_text_schema())),
                ];
                closed(&[(
                    "results",
                    build_list_schema(&build_object_schema(ExtraFields::Closed, &fields)),
                )])
            }
            Self::DeleteEntities | Self::DeleteObservations | Self::DeleteRelations => closed(&[
                ("success", json!({ "type": "boolean" })),
                ("message", build_text_schema()),
            ]),
            Self::ReadGraph | Self::SearchNodes | Self::OpenNodes => closed(&[
                ("entities", build_list_schema(&build_entity_schema(ExtraFields::Closed))),
                ("relations", build_list_schema(&build_relation_schema(ExtraFields::Closed))),
            ]),
        }
    }

    fn run(
        self,
        file: &mut GraphFile,
        mut arguments: Map<String, Value>,
    ) -> Result<ToolReply, String> {
        let arguments = &mut arguments;
        let edit = match self {
            Self::CreateEntities => GraphEdit::CreateEntities(take(arguments, "entities")?),
            Self::CreateRelations => GraphEdit::CreateRelations(take(arguments, "relations")?),
            Self::AddObservations => GraphEdit::AddObservations(take(arguments, "observations")?),
            Self::DeleteEntities => GraphEdit::DeleteEntities(take(arguments, "entityNames")?),
            Self::DeleteObservations => {
                GraphEdit::DeleteObservations(take(arguments, "deletions")?)
            }
            Self::DeleteRelations => GraphEdit::DeleteRelations(take(arguments, "relations")?),
            Self::ReadGraph => return ToolReply::from_selection(&read_graph(file)?.select_all()),
            Self::SearchNodes => {
                let query: String = take(arguments, "query")?;
                return ToolReply::from_selection(&read_graph(file)?.search_entities(&[query]));
            }
            Self::OpenNodes => {
                let names: Vec<String> = take(arguments, "names")?;
                return ToolReply::from_selection(&read_graph(file)?.select_by_names(&names));
            }
        };
        match file.apply_edit(edit).map_err(|error| error.to_string())? {
            GraphEditResult::Entities(new) => ToolReply::from_list("entities", &new),
            GraphEditResult::Relations(new) => ToolReply::from_list("relations", &new),
            GraphEditResult::Observations(added) => ToolReply::from_list("results", &added),
            GraphEditResult::Deleted => {
                let what = self.title_and_description().0.trim_start_matches("Delete ");
                let text = format!("{what} deleted successfully");
                let structured = json!({ "success": true, "message": text });
                Ok(ToolReply { text, structured, effect: ToolEffect::Deletes })
            }
        }
    }
}

impl ToolReply {
    fn from_list(field: &str, items: &impl Serialize) -> Result<Self, String> {
        let items = serde_json::to_value(items).map_err(|error| error.to_string())?;
        let text = format!("{items:#}");
        let structured = Value::Object([(field.to_owned(), items)].into_iter().collect());
        Ok(Self { text, structured, effect: ToolEffect::Adds })
    }

    /// Returns a part of the graph as an answer.
    pub(super) fn from_selection(selection: &GraphSelection<'_>) -> Result<Self, String> {
        let text = serde_json::to_string_pretty(selection).map_err(|error| error.to_string())?;
        let structured = serde_json::to_value(selection).map_err(|error| error.to_string())?;
        Ok(Self { text, structured, effect: ToolEffect::Reads })
    }
}

fn read_graph(file: &mut GraphFile) -> Result<&Graph, String> {
    file.read_graph().map_err(|error| error.to_string())
}

/// Takes an argument that has passed the schema check.
fn take<T: DeserializeOwned>(arguments: &mut Map<String, Value>, name: &str) -> Result<T, String> {
    let value = arguments.remove(name).unwrap_or_default();
    serde_json::from_value(value).map_err(|error| error.to_string())
}

fn build_entity_schema(extent: ExtraFields) -> Value {
    let fields = [
        ("name", describe_text("What the thing is called")),
        ("entityType", describe_text("What kind of thing it is")),
        ("observations", describe_texts("What is known of it, a sentence each")),
    ];
    build_object_schema(extent, &fields)
}

fn build_relation_schema(extent: ExtraFields) -> Value {
    let fields = [
        ("from", describe_text("The name of the thing that the relation begins at")),
        ("to", describe_text("The name of the thing that the relation ends at")),
        ("relationType", describe_text("How the one relates to the other")),
    ];
    build_object_schema(extent, &fields)
}

fn describe_text(description: &str) -> Value {
    add_description(build_text_schema(), description)
}

fn describe_texts(description: &str) -> Value {
    add_description(build_list_schema(&build_text_schema()), description)
}
