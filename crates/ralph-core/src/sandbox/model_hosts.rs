//! The hosts of model providers. Not here: the hosts of a single agent, which its adapter lists.

/// Returns whether a host belongs to a model provider that agents are used with.
pub fn is_model_host(host: &str) -> bool {
    /// The providers whose API keys agents look for in their environment.
    const PROVIDERS: [&str; 12] = [
        "api.anthropic.com",
        "api.openai.com",
        "generativelanguage.googleapis.com",
        "openrouter.ai",
        "api.groq.com",
        "api.x.ai",
        "api.mistral.ai",
        "api.deepseek.com",
        "api.cerebras.ai",
        "ai-gateway.vercel.sh",
        "api.z.ai",
        "opencode.ai",
    ];
    PROVIDERS.contains(&host) || host.ends_with(".openai.azure.com")
}

/// Returns whether agents only report their use and errors there. They work without it.
pub fn is_telemetry_host(host: &str) -> bool {
    const TELEMETRY: [&str; 5] = [
        "ab.chatgpt.com",
        "otel.cline.bot",
        "play.googleapis.com",
        "http-intake.logs.us5.datadoghq.com",
        "statsig.anthropic.com",
    ];
    TELEMETRY.contains(&host) || host.ends_with(".sentry.io")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_of_a_model_is_known() {
        for (host, expect) in [
            ("api.openai.com", true),
            ("api.mistral.ai", true),
            ("generativelanguage.googleapis.com", true),
            ("mine.openai.azure.com", true),
            ("api.github.com", false),
            ("registry.npmjs.org", false),
            ("", false),
        ] {
            assert_eq!(is_model_host(host), expect, "{host}");
            assert!(!is_telemetry_host(host), "{host}");
        }
    }
}
