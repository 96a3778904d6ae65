//! What belongs to Qwen Code on a user's machine.
//!
//! Not here: its settings; the kind of a login is a flag.

use crate::belongings::{Belongings, Credential, Place};

/// What belongs to Qwen Code.
pub(crate) const BELONGINGS: Belongings = Belongings {
    login: &["OPENAI_API_KEY", "DASHSCOPE_API_KEY"],
    variables: &["OPENAI_BASE_URL", "OPENAI_MODEL", "QWEN_MODEL"],
    place: Place { variable: "QWEN_HOME", default: ".qwen", inside: "" },
    credentials: &[Credential::tokens("oauth_creds.json")],
    apart: &[],
    chosen_by: None,
    needed: None,
};
