//! Finds out whether Docker Sandboxes is there and answers.
//!
//! Not here: signing in, and the policy of the machine; both are the user's to decide.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::super::ask::{Answer, PROBE, ask, talker};
use crate::process::{Watch, find_program};

/// The program, and which of the two it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tool {
    /// Its file.
    pub program: PathBuf,
    /// Which it is.
    pub form: Form,
}

/// How its commands are spelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// `sbx ...`.
    Sbx,
    /// `docker sandbox ...`, which is deprecated.
    DockerSandbox,
}

/// Why it cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Unavailable {
    /// What is wrong.
    pub why: String,
    /// What to do about it.
    pub remedy: Option<String>,
}

impl Tool {
    /// Looks for `sbx`, and for `docker sandbox` where there is none; neither question takes
    /// longer than 3 s.
    pub fn find(env: &[(OsString, OsString)], watch: &Watch) -> Result<Self, Unavailable> {
        let mut env = env.to_vec();
        env.push(("SBX_NO_TELEMETRY".into(), "1".into()));
        let question = |program: &str, args: &[&str]| {
            let spawn = talker(Path::new(program), args, &env, PROBE);
            (find_program(&spawn).ok(), ask(&spawn, watch))
        };
        let unavailable =
            |why: String, remedy: &str| Err(Unavailable { why, remedy: Some(remedy.to_owned()) });
        match question("sbx", &["version"]) {
            (Some(program), Answer::Said(_)) => {
                let remedy =
                    "start it and sign in with `sbx login`; `sbx ls` shows whether it works";
                match question("sbx", &["ls", "--json"]).1 {
                    // Without its daemon it prints words in place of the list.
                    Answer::Said(list) if is_json(&list) => {
                        return Ok(Self { program, form: Form::Sbx });
                    }
                    Answer::Said(_) | Answer::Absent => {
                        return unavailable("the daemon of sbx does not answer".to_owned(), remedy);
                    }
                    Answer::Failed(words) => {
                        return unavailable(format!("sbx does not work: {words}"), remedy);
                    }
                }
            }
            (_, Answer::Failed(words)) => {
                let why = format!("sbx does not work: {words}");
                return unavailable(why, "`sbx version` shows whether it works");
            }
            (_, Answer::Said(_) | Answer::Absent) => {}
        }
        let absent = "sbx is not installed".to_owned();
        let remedy = "install Docker Sandboxes (`sbx`) and sign in";
        match question("docker", &["sandbox", "version"]) {
            (Some(program), Answer::Said(_)) => match question("docker", &["sandbox", "ls"]).1 {
                Answer::Said(_) => Ok(Self { program, form: Form::DockerSandbox }),
                Answer::Failed(words) => {
                    unavailable(format!("docker sandbox does not work: {words}"), remedy)
                }
                Answer::Absent => unavailable(absent, remedy),
            },
            (_, Answer::Said(_) | Answer::Failed(_) | Answer::Absent) => {
                unavailable(absent, remedy)
            }
        }
    }
}

/// No list at all is what some versions print when there is nothing to list.
fn is_json(text: &str) -> bool {
    matches!(
        serde_json::from_str(text),
        Ok(serde_json::Value::Array(_) | serde_json::Value::Object(_) | serde_json::Value::Null)
    )
}
