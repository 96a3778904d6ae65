//! What belongs to Amp on a user's machine.
//!
//! No variable moves its directory, so home itself is another one for it.

use crate::belongings::{Belongings, Credential, Place};

/// What belongs to Amp.
pub(crate) const BELONGINGS: Belongings = Belongings {
    login: &["AMP_API_KEY"],
    variables: &["AMP_URL"],
    place: Place { variable: "HOME", default: "", inside: ".local/share/amp" },
    credentials: &[Credential::tokens("secrets.json")],
    apart: &[],
    chosen_by: None,
    // Without a key it asks on its terminal, which nobody sees, and waits.
    needed: Some("set AMP_API_KEY, or run `amp login`"),
};
