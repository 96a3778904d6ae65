//! The scripted agent as a peer of the Agent Client Protocol: the requests it gets, and the answers
//! it waits for.
//!
//! Not here: what it prints during its turn (`acp_writer`).

use std::io::{self, BufRead, Write};

use serde_json::{Value, json};

/// The client's answer to a request for permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Permission {
    Given,
    Refused,
}

/// Answers `initialize` and `session/new`, and returns the prompt.
pub(super) fn open_session(
    input: &mut dyn BufRead,
    out: &mut dyn Write,
    session: &str,
) -> io::Result<String> {
    loop {
        let Some(message) = read_message(input)? else {
            return Err(io::Error::other("the input ended before the prompt"));
        };
        let result = match message["method"].as_str() {
            Some("initialize") => json!({
                "protocolVersion": 1,
                "agentInfo": {"name": "sim", "version": env!("CARGO_PKG_VERSION")},
                "authMethods": [{"id": "sim", "name": "Log in to the simulation"}],
            }),
            Some("session/new") => {
                json!({"sessionId": session, "models": {"currentModelId": "sim"}})
            }
            Some("session/prompt") => {
                let text = message["params"]["prompt"][0]["text"].as_str();
                return Ok(text.unwrap_or_default().to_owned());
            }
            Some(_) | None => continue,
        };
        let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
        out.write_all(format!("{answer}\n").as_bytes())?;
        out.flush()?;
    }
}

/// Waits for the answer to a request for permission.
pub(super) fn wait_for_permission(input: &mut dyn BufRead, id: &str) -> io::Result<Permission> {
    while let Some(message) = read_message(input)? {
        if message["id"] == id {
            let is_given = message["result"]["outcome"]["optionId"] == "allow_once";
            return Ok(if is_given { Permission::Given } else { Permission::Refused });
        }
    }
    Ok(Permission::Refused)
}

/// Waits for the end of the input, as agents do.
pub(super) fn wait_for_end(input: &mut dyn BufRead) {
    while let Ok(Some(_)) = read_message(input) {}
}

fn read_message(input: &mut dyn BufRead) -> io::Result<Option<Value>> {
    let mut line = Vec::new();
    if input.read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    Ok(Some(serde_json::from_slice(&line)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_before_the_prompt_are_answered_and_permission_is_awaited() {
        let asked = concat!(
            r#"{"id":1,"method":"initialize"}"#,
            "\n",
            r#"{"method":"$/nothing"}"#,
            "\n",
            r#"{"id":2,"method":"session/new"}"#,
            "\n",
            r#"{"id":3,"method":"session/prompt","params":{"prompt":[{"text":"Do it."}]}}"#,
            "\n",
            r#"{"id":"a","result":{"outcome":{"outcome":"selected","optionId":"allow_once"}}}"#,
            "\n",
            r#"{"id":"b","result":{"outcome":{"outcome":"cancelled"}}}"#,
        );
        let mut input = asked.as_bytes();
        let mut out = Vec::new();
        assert_eq!(open_session(&mut input, &mut out, "s").expect("a prompt"), "Do it.");
        assert_eq!(String::from_utf8_lossy(&out).lines().count(), 2);
        assert_eq!(wait_for_permission(&mut input, "a").expect("an answer"), Permission::Given);
        assert_eq!(wait_for_permission(&mut input, "b").expect("an answer"), Permission::Refused);
        assert_eq!(wait_for_permission(&mut input, "c").expect("an end"), Permission::Refused);
        assert!(open_session(&mut input, &mut out, "s").is_err());
    }
}
