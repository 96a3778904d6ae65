//! Chooses a backend: the one that the user wants, or the first enforced one that works.
//!
//! Decides by what a look at each says. Not here: looking.

use ralph_core::sandbox::{Backend, Fallback, Policy, Wanted};

use super::Finding;

/// What enforces isolation from now on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Chosen<W> {
    /// The system, by this.
    Enforced(W),
    /// Nothing but the command guard; each look that failed, in words.
    Guard {
        /// Why nothing better, if something better was wanted.
        instead_of: Vec<Failed>,
    },
    /// Nothing.
    Nothing,
}

/// A backend that does not work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// Which.
    pub backend: Backend,
    /// Why not.
    pub why: String,
    /// What would make it work.
    pub remedy: Option<String>,
}

/// Nothing that enforces what the user wants works here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.words())]
pub struct Refusal {
    /// What was looked at.
    pub failed: Vec<Failed>,
}

impl Refusal {
    fn words(&self) -> String {
        match self.failed.as_slice() {
            [one] => {
                format!("the sandbox backend `{}` does not work here: {}", one.backend, one.why)
            }
            failed => {
                let each: Vec<String> = failed
                    .iter()
                    .map(|failed| format!("{}: {}", failed.backend, failed.why))
                    .collect();
                format!("nothing that enforces isolation works here ({})", each.join("; "))
            }
        }
    }

    /// Returns what to do next, most useful first.
    pub fn hints(&self) -> Vec<String> {
        let remedies = self.failed.iter().filter_map(|failed| failed.remedy.clone());
        let mut hints: Vec<String> = Vec::new();
        for remedy in remedies {
            if !hints.contains(&remedy) {
                hints.push(remedy);
            }
        }
        hints.push(
            "--sandbox=guard goes on with the command guard alone, --no-sandbox with nothing"
                .to_owned(),
        );
        hints
    }
}

/// Chooses a backend; `look` says of one whether it works.
pub fn choose<W>(
    policy: &Policy,
    mut look: impl FnMut(Backend) -> Finding<W>,
) -> Result<Chosen<W>, Refusal> {
    let candidates: Vec<Backend> = match policy.backend {
        Wanted::This(Backend::None) => return Ok(Chosen::Nothing),
        Wanted::This(Backend::Guard) => return Ok(Chosen::Guard { instead_of: Vec::new() }),
        Wanted::This(backend) => vec![backend],
        Wanted::Auto => {
            let has_image = policy.image.is_some();
            let is_candidate =
                |it: &Backend| it.is_enforced() && (*it != Backend::Container || has_image);
            Backend::ALL.into_iter().filter(is_candidate).collect()
        }
    };
    let mut failed = Vec::new();
    for backend in candidates {
        match look(backend) {
            Finding::Works(wall) => return Ok(Chosen::Enforced(wall)),
            Finding::Fails { why, remedy } => failed.push(Failed { backend, why, remedy }),
        }
    }
    match (policy.backend, policy.fallback) {
        (Wanted::Auto, Fallback::Guard) => Ok(Chosen::Guard { instead_of: failed }),
        (Wanted::Auto, Fallback::Stop) | (Wanted::This(_), _) => Err(Refusal { failed }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Case = (&'static str, Policy, &'static [Backend], Option<Chosen<Backend>>);

    #[test]
    fn the_first_that_works_is_taken_and_nothing_weaker_by_itself() {
        let auto = Policy { backend: Wanted::Auto, ..Policy::default() };
        let lenient = Policy { fallback: Fallback::Guard, ..auto.clone() };
        let with_image = Policy { image: Some("x".into()), ..auto.clone() };
        let this = |backend| Policy { backend: Wanted::This(backend), ..Policy::default() };
        let cases: [Case; 9] = [
            ("auto", auto.clone(), &Backend::ALL, Some(Chosen::Enforced(Backend::Sbx))),
            (
                "no sbx",
                auto.clone(),
                &[Backend::Native, Backend::Bwrap],
                Some(Chosen::Enforced(Backend::Native)),
            ),
            ("last", auto.clone(), &[Backend::Landlock], Some(Chosen::Enforced(Backend::Landlock))),
            ("no image", auto.clone(), &[Backend::Container], None),
            (
                "image",
                with_image,
                &[Backend::Container],
                Some(Chosen::Enforced(Backend::Container)),
            ),
            ("guard is never taken by auto", auto, &[Backend::Guard, Backend::None], None),
            ("this one only", this(Backend::Bwrap), &[Backend::Native], None),
            ("guard", this(Backend::Guard), &[], Some(Chosen::Guard { instead_of: vec![] })),
            ("none", this(Backend::None), &[], Some(Chosen::Nothing)),
        ];
        let look = |working: &[Backend], backend| {
            if working.contains(&backend) {
                Finding::Works(backend)
            } else {
                Finding::Fails { why: "broken".into(), remedy: Some("mend it".into()) }
            }
        };
        for (name, policy, working, expect) in cases {
            let chosen = choose(&policy, |backend| look(working, backend));
            assert_eq!(chosen.ok(), expect, "{name}");
        }
        let Ok(Chosen::Guard { instead_of }) = choose(&lenient, |backend| look(&[], backend))
        else {
            panic!("the user has chosen the guard for good");
        };
        assert_eq!(instead_of.len(), 4);
    }

    #[test]
    fn a_refusal_says_why_and_what_to_do() {
        let auto = Policy { backend: Wanted::Auto, ..Policy::default() };
        let refusal = choose::<()>(&auto, |backend| Finding::Fails {
            why: format!("{backend} is broken"),
            remedy: Some("buy a new one".into()),
        })
        .expect_err("nothing works");
        expect_test::expect![[r"
            nothing that enforces isolation works here (sbx: sbx is broken; native: native is broken; bwrap: bwrap is broken; landlock: landlock is broken)
            buy a new one
            --sandbox=guard goes on with the command guard alone, --no-sandbox with nothing"]]
        .assert_eq(&format!("{refusal}\n{}", refusal.hints().join("\n")));
    }
}
