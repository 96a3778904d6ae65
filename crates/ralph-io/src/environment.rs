//! The environment of children: what they inherit, what is added, what is taken away.
//!
//! Not here: which variables an agent needs. Its adapter says so.

use std::collections::BTreeMap;
use std::ffi::OsString;

use globset::{Glob, GlobSetBuilder};

/// Variables as the system has them: neither names nor values need to be text.
pub type Variables = Vec<(OsString, OsString)>;

/// Returns the variables without those that match a pattern, and with others added.
///
/// A pattern that is no glob matches nothing; the settings refuse those.
pub fn adjusted(
    base: &[(OsString, OsString)],
    deny: &[String],
    add: &BTreeMap<String, String>,
) -> Variables {
    let mut globs = GlobSetBuilder::new();
    for glob in deny.iter().filter_map(|pattern| Glob::new(pattern).ok()) {
        globs.add(glob);
    }
    let denied = globs.build().unwrap_or_default();
    let mut variables: BTreeMap<OsString, OsString> =
        base.iter().filter(|(name, _)| !denied.is_match(name)).cloned().collect();
    variables.extend(add.iter().map(|(name, value)| (name.into(), value.into())));
    variables.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn denied_variables_go_and_added_ones_win() {
        let base: Variables =
            [("A_API_KEY", "1"), ("PATH", "/bin"), ("CLAUDECODE", "1"), ("B", "old")]
                .map(|(name, value)| (name.into(), value.into()))
                .to_vec();
        let deny = ["*_API_KEY".to_owned(), "CLAUDE*".to_owned(), "[".to_owned()];
        let add = BTreeMap::from([("B".to_owned(), "new".to_owned())]);
        let expect: Variables = [("B", "new"), ("PATH", "/bin")]
            .map(|(name, value)| (name.into(), value.into()))
            .to_vec();
        assert_eq!(adjusted(&base, &deny, &add), expect);
    }
}
