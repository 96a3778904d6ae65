//! The CLIs under test: how each is pointed at a scripted model with a dummy key, and what its
//! tools are called.
//!
//! Not here: what is tested, and anything of a user's: no CLI sees a home or a key but its own.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::time::Duration;

use ralph_testkit::models::{ModelDialect, ModelTurn};
use serde_json::{Map, Value, json};

/// What keeps a CLI from everything but loopback: a proxy that is not there.
const NO_NETWORK: [(&str, &str); 4] = [
    ("HTTP_PROXY", "http://127.0.0.1:9"),
    ("HTTPS_PROXY", "http://127.0.0.1:9"),
    ("NO_PROXY", "127.0.0.1,localhost"),
    // OpenCode brings npm with it, which tries again and again.
    ("npm_config_offline", "true"),
];

/// A CLI under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cli {
    Claude,
    Codex,
    Gemini,
    Qwen,
    Opencode,
    Cline,
    Copilot,
    Pi,
}

impl Cli {
    /// Returns the name of its program.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Qwen => "qwen",
            Self::Opencode => "opencode",
            Self::Cline => "cline",
            Self::Copilot => "copilot",
            Self::Pi => "pi",
        }
    }

    /// Returns what its model speaks.
    pub(crate) fn dialect(self) -> ModelDialect {
        match self {
            Self::Claude => ModelDialect::Anthropic,
            Self::Gemini => ModelDialect::Gemini,
            Self::Codex | Self::Qwen | Self::Opencode | Self::Cline | Self::Copilot | Self::Pi => {
                ModelDialect::OpenAi
            }
        }
    }

    /// Returns the setting `agent` that points it at a server, and writes its own configuration
    /// into its home.
    pub(crate) fn set_up(self, home: &Path, url: &str) -> Value {
        let versioned = format!("{url}/v1");
        let (flags, env): (&[&str], Value) = match self {
            Self::Claude => (
                &[],
                json!({
                    "ANTHROPIC_BASE_URL": url,
                    // A subscription, dummy as it is: only there limits have a reset.
                    "CLAUDE_CODE_OAUTH_TOKEN": "dummy",
                    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                    // By itself it repeats for three minutes.
                    "CLAUDE_CODE_MAX_RETRIES": "0",
                }),
            ),
            Self::Codex => {
                write(home, ".codex/config.toml", &codex_config(&versioned));
                (&[], json!({}))
            }
            Self::Gemini => {
                let settings = json!({
                    "security": { "auth": { "selectedType": "gemini-api-key" } },
                    "general": { "disableAutoUpdate": true },
                    "privacy": { "usageStatisticsEnabled": false },
                });
                write(home, ".gemini/settings.json", &settings.to_string());
                (
                    &["-m gemini-2.5-pro"],
                    json!({ "GEMINI_API_KEY": "dummy", "GOOGLE_GEMINI_BASE_URL": url }),
                )
            }
            Self::Qwen => {
                // Else it asks the model for notes to itself after each answer.
                let settings = json!({ "memory": { "enableManagedAutoMemory": false } });
                write(home, ".qwen/settings.json", &settings.to_string());
                (
                    &["--auth-type openai"],
                    json!({
                        "OPENAI_API_KEY": "dummy",
                        "OPENAI_BASE_URL": versioned,
                        "OPENAI_MODEL": "scripted",
                    }),
                )
            }
            Self::Opencode => {
                let config = opencode_config(&versioned).to_string();
                write(home, ".config/opencode/opencode.json", &config);
                (&[], json!({ "OPENCODE_DISABLE_MODELS_FETCH": "1" }))
            }
            Self::Cline => {
                let config = cline_config(&versioned).to_string();
                write(home, ".cline/data/settings/providers.json", &config);
                // The daemon that it leaves has a fixed port otherwise, one for all tests.
                let port = free_port().to_string();
                (
                    &["-P openai-compatible", "-m scripted"],
                    json!({ "CLINE_HUB_PORT": port, "CLINE_NO_AUTO_UPDATE": "1" }),
                )
            }
            Self::Copilot => (
                &[],
                json!({
                    "COPILOT_PROVIDER_BASE_URL": versioned,
                    "COPILOT_MODEL": "scripted",
                    "COPILOT_OFFLINE": "true",
                }),
            ),
            Self::Pi => {
                write(home, ".pi/agent/models.json", &pi_models(&versioned).to_string());
                (&["--provider scripted", "--model scripted"], json!({ "PI_OFFLINE": "1" }))
            }
        };
        let mut agent = json!({ "command": self.name(), "flags": flags, "env": NO_NETWORK
            .iter()
            .map(|&(name, value)| (name.to_owned(), json!(value)))
            .collect::<Map<_, _>>() });
        if let (Some(all), Some(own)) = (agent["env"].as_object_mut(), env.as_object()) {
            all.extend(own.clone());
        }
        agent
    }

    /// Returns a turn in which the model runs a command.
    pub(crate) fn runs(self, command: &str) -> ModelTurn {
        let described = || json!({ "command": command, "description": "Run it." });
        match self {
            Self::Claude => ModelTurn::from_tool_call("Bash", described()),
            Self::Codex => ModelTurn::from_tool_call("exec_command", json!({ "cmd": command })),
            Self::Gemini => {
                ModelTurn::from_tool_call("run_shell_command", json!({ "command": command }))
            }
            Self::Qwen => ModelTurn::from_tool_call(
                "run_shell_command",
                json!({ "command": command, "is_background": false }),
            ),
            Self::Opencode | Self::Copilot => ModelTurn::from_tool_call("bash", described()),
            Self::Cline => {
                ModelTurn::from_tool_call("run_commands", json!({ "commands": [command] }))
            }
            Self::Pi => ModelTurn::from_tool_call("bash", json!({ "command": command })),
        }
    }

    /// Returns the turn in which the model hands its work over: by the tool that Claude Code holds
    /// it to a schema with, as the whole answer of Codex, else as it is asked for in words.
    pub(crate) fn hands_over(self, handoff: &Value) -> ModelTurn {
        match self {
            Self::Claude => ModelTurn::from_tool_call("StructuredOutput", handoff.clone()),
            Self::Codex => ModelTurn::from_text(handoff.to_string()),
            Self::Qwen => ModelTurn::from_tool_call("structured_output", handoff.clone()),
            Self::Gemini | Self::Opencode | Self::Cline | Self::Copilot | Self::Pi => {
                ModelTurn::from_text(format!("It is done.\n```json\n{handoff:#}\n```"))
            }
        }
    }

    /// Returns a turn in which the model writes a file with the tool that is made for it.
    pub(crate) fn writes(self, place: &Path, text: &str) -> ModelTurn {
        let file = |key: &str, body: &str| {
            let mut input = Map::new();
            input.insert(key.to_owned(), json!(place));
            input.insert(body.to_owned(), json!(text));
            Value::Object(input)
        };
        match self {
            Self::Claude => ModelTurn::from_tool_call("Write", file("file_path", "content")),
            Self::Codex => {
                let file = place.display();
                let patch =
                    format!("*** Begin Patch\n*** Add File: {file}\n+{text}\n*** End Patch\n");
                ModelTurn::from_tool_call("apply_patch", json!(patch))
            }
            Self::Gemini | Self::Qwen => {
                ModelTurn::from_tool_call("write_file", file("file_path", "content"))
            }
            Self::Opencode => ModelTurn::from_tool_call("write", file("filePath", "content")),
            Self::Cline => ModelTurn::from_tool_call("editor", file("path", "new_text")),
            Self::Copilot => ModelTurn::from_tool_call("create", file("path", "file_text")),
            Self::Pi => ModelTurn::from_tool_call("write", file("path", "content")),
        }
    }

    /// Returns whether it repeats requests that failed by itself, and has no option against it.
    pub(crate) fn repeats_by_itself(self) -> bool {
        match self {
            Self::Claude | Self::Codex => false,
            Self::Gemini | Self::Qwen | Self::Opencode | Self::Cline | Self::Copilot | Self::Pi => {
                true
            }
        }
    }

    /// Returns whether it waits by itself for a limit that is over soon.
    pub(crate) fn waits_for_short_limits(self) -> bool {
        matches!(self, Self::Qwen | Self::Opencode | Self::Cline | Self::Copilot)
    }

    /// Returns whether it ends what its commands leave: Codex does in its own sandbox.
    pub(crate) fn ends_its_children(self) -> bool {
        match self {
            Self::Codex | Self::Qwen => true,
            Self::Claude
            | Self::Gemini
            | Self::Opencode
            | Self::Cline
            | Self::Copilot
            | Self::Pi => false,
        }
    }

    /// Returns every variant of a scene for the CLIs that most people use, and the first for the
    /// others: each costs some seconds.
    pub(crate) fn all_or_first<T>(self, variants: [T; 2]) -> impl Iterator<Item = T> {
        let count = if self.repeats_by_itself() { 1 } else { 2 };
        variants.into_iter().take(count)
    }

    /// Returns its words where the server says `This key opens nothing.` with a status of 401.
    pub(crate) fn words_for_a_refused_key(self) -> &'static str {
        match self {
            Self::Copilot => "Authentication failed with provider",
            Self::Claude
            | Self::Codex
            | Self::Gemini
            | Self::Qwen
            | Self::Opencode
            | Self::Cline
            | Self::Pi => "This key opens nothing.",
        }
    }

    /// Returns how long it usually needs at most from its start to its first request, on a slow machine.
    pub(crate) fn slowest_start(self) -> Duration {
        Duration::from_secs(match self {
            Self::Claude | Self::Codex => 10,
            Self::Copilot | Self::Pi => 15,
            Self::Gemini | Self::Qwen | Self::Cline => 20,
            Self::Opencode => 45,
        })
    }
}

fn write(home: &Path, name: &str, text: &str) {
    let path = home.join(name);
    fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
    fs::write(path, text).expect("a written file");
}

fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port on loopback");
    listener.local_addr().expect("a bound port").port()
}

/// A model that it knows, so that it offers its tools as functions; no repetitions of its own.
fn codex_config(url: &str) -> String {
    format!(
        "model = \"gpt-5.5\"\n\
         model_provider = \"scripted\"\n\
         check_for_update_on_startup = false\n\
         [model_providers.scripted]\n\
         name = \"scripted\"\n\
         base_url = \"{url}\"\n\
         wire_api = \"responses\"\n\
         request_max_retries = 0\n\
         stream_max_retries = 0\n"
    )
}

fn opencode_config(url: &str) -> Value {
    json!({
        "model": "scripted/scripted",
        "small_model": "scripted/scripted",
        "provider": { "scripted": {
            "npm": "@ai-sdk/openai-compatible",
            "options": { "baseURL": url, "apiKey": "dummy" },
            "models": { "scripted": {
                "tool_call": true,
                "limit": { "context": 200_000, "output": 8192 },
            } },
        } },
    })
}

fn cline_config(url: &str) -> Value {
    let settings = json!({
        "provider": "openai-compatible",
        "apiKey": "dummy",
        "model": "scripted",
        "baseUrl": url,
    });
    json!({
        "version": 1,
        "lastUsedProvider": "openai-compatible",
        "modes": {},
        "providers": { "openai-compatible": {
            "settings": settings,
            "updatedAt": "2026-01-01T00:00:00.000Z",
            "tokenSource": "manual",
        } },
    })
}

fn pi_models(url: &str) -> Value {
    json!({ "providers": { "scripted": {
        "baseUrl": url,
        "api": "openai-completions",
        "apiKey": "dummy",
        "models": [{
            "id": "scripted",
            "name": "scripted",
            "reasoning": false,
            "input": ["text"],
            "contextWindow": 200_000,
            "maxTokens": 8192,
            "cost": { "input": 1, "output": 1, "cacheRead": 0, "cacheWrite": 0 },
        }],
    } } })
}
