//! The memory server for the protocol's SDK: tools, and the whole graph as a resource.
//!
//! Calls are answered one after the other, in order: the runtime has one thread, and no call yields
//! before it is done. Not here: what the tools do.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use ralph_io::mask::Masker;
use ralph_io::store::graph::GraphFile;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData,
    Implementation, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, Resource,
    ResourceContents, ResourceUpdatedNotificationParam, ServerCapabilities, ServerConfig,
    SubscribeRequestParams, UnsubscribeRequestParams,
};
use rmcp::service::{RequestContext, RoleServer};

use super::tools::{self, MemoryTool, ToolEffect, ToolReply};

/// The resource that holds everything.
const GRAPH_URI: &str = "memory://knowledge-graph";

const JSON: &str = "application/json";

/// The server of one file.
#[derive(Debug)]
pub(super) struct MemoryServer {
    file: Mutex<GraphFile>,
    /// Built on first use: a client that only lists the tools does not wait for it.
    masker: LazyLock<Masker>,
    /// Whether the client subscribed to changes.
    is_subscribed: AtomicBool,
}

impl MemoryServer {
    pub(super) fn new(file: GraphFile, masker: fn() -> Masker) -> Self {
        let masker = LazyLock::new(masker);
        Self { file: Mutex::new(file), masker, is_subscribed: AtomicBool::new(false) }
    }

    fn lock_file(&self) -> MutexGuard<'_, GraphFile> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls a tool, and prints warnings about the file.
    fn call_tool_by_name(&self, request: CallToolRequestParams) -> (CallToolResult, ToolEffect) {
        let mut file = self.lock_file();
        let arguments = request.arguments.unwrap_or_default();
        let answer = tools::call_tool(&mut file, &self.masker, &request.name, arguments);
        super::print_notices(file.take_notices());
        match answer {
            Ok(ToolReply { text, structured, effect: nature }) => {
                let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
                result.structured_content = Some(structured);
                // Absent means no error.
                result.is_error = None;
                (result, nature)
            }
            Err(text) => (CallToolResult::error(vec![ContentBlock::text(text)]), ToolEffect::Reads),
        }
    }
}

impl ServerHandler for MemoryServer {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .enable_resources_subscribe();
        let mut info = ServerConfig::new(capabilities.build());
        info.server_info = Implementation::new("ralph-memory", env!("CARGO_PKG_VERSION"));
        info
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = MemoryTool::ALL.into_iter().map(MemoryTool::definition).collect();
        Ok(ListToolsResult::with_all_items(tools))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let (result, nature) = self.call_tool_by_name(request);
        if nature != ToolEffect::Reads && self.is_subscribed.load(Ordering::Relaxed) {
            let updated = ResourceUpdatedNotificationParam::new(GRAPH_URI);
            // A disconnected client is noticed elsewhere.
            let _ = context.peer.notify_resource_updated(updated).await;
        }
        Ok(result.into())
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let whole = Resource::new(GRAPH_URI, "knowledge-graph")
            .with_title("Knowledge Graph")
            .with_description("Everything that is remembered: things and their relations")
            .with_mime_type(JSON);
        Ok(ListResourcesResult::with_all_items(vec![whole]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        if request.uri != GRAPH_URI {
            let message = format!("MCP error -32602: Resource {} not found", request.uri);
            return Err(ErrorData::invalid_params(message, None));
        }
        let mut file = self.lock_file();
        let reply = file
            .read_graph()
            .map_err(|error| error.to_string())
            .and_then(|graph| ToolReply::from_selection(&graph.select_all()));
        super::print_notices(file.take_notices());
        let text = reply.map_err(|error| ErrorData::internal_error(error, None))?.text;
        let contents = ResourceContents::text(text, GRAPH_URI).with_mime_type(JSON);
        Ok(ReadResourceResult::new(vec![contents]).into())
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if request.uri == GRAPH_URI {
            self.is_subscribed.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if request.uri == GRAPH_URI {
            self.is_subscribed.store(false, Ordering::Relaxed);
        }
        Ok(())
    }
}
