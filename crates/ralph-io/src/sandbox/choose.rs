//! Chooses a backend: the one that the user wants, or the first enforced one that works.
//!
//! Decides from the results of detection. Not here: detection itself.

use ralph_core::sandbox::{Backend, Fallback, Policy, Wanted};

use super::Finding;

/// What enforces isolation in this run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Chosen<W> {
    /// The operating system, through this backend.
    Enforced(W),
    /// Only the command guard.
    Guard {
        /// Why no enforced backend is used, if one was wanted.
        instead_of: Vec<Failed>,
    },
    /// No sandbox and no guard.
    Nothing,
}

/// A backend that does not work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    pub backend: Backend,
    pub why: String,
    /// What the user can do to make it work.
    pub remedy: Option<String>,
}

/// No backend that enforces what the user wants works here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.message())]
pub struct Refusal {
    pub failed: Vec<Failed>,
}

impl Refusal {
    fn message(&self) -> String {
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
            "use --sandbox=guard to run with the command guard alone, --no-sandbox to run without"
                .to_owned(),
        );
        hints
    }
}

/// Chooses a backend; `detect` says whether one works.
pub fn choose<W>(
    policy: &Policy,
    mut detect: impl FnMut(Backend) -> Finding<W>,
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
        match detect(backend) {
            Finding::Works(config) => return Ok(Chosen::Enforced(config)),
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
    fn the_first_working_backend_is_chosen_and_never_a_weaker_one_by_default() {
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
        let detect = |working: &[Backend], backend| {
            if working.contains(&backend) {
                Finding::Works(backend)
            } else {
                Finding::Fails { why: "broken".into(), remedy: Some("fix it".into()) }
            }
        };
        for (name, policy, working, expect) in cases {
            let chosen = choose(&policy, |backend| detect(working, backend));
            assert_eq!(chosen.ok(), expect, "{name}");
        }
        let Ok(Chosen::Guard { instead_of }) = choose(&lenient, |backend| detect(&[], backend))
        else {
            panic!("the user has chosen the guard for good");
        };
        assert_eq!(instead_of.len(), 4);
    }

    #[test]
    fn an_error_names_the_causes_and_hints() {
        let auto = Policy { backend: Wanted::Auto, ..Policy::default() };
        let refusal = choose::<()>(&auto, |backend| Finding::Fails {
            why: format!("{backend} is broken"),
            remedy: Some("buy a new one".into()),
        })
        .expect_err("nothing works");
        expect_test::expect![[r"
            nothing that enforces isolation works here (sbx: sbx is broken; native: native is broken; bwrap: bwrap is broken; landlock: landlock is broken)
            buy a new one
            use --sandbox=guard to run with the command guard alone, --no-sandbox to run without"]]
        .assert_eq(&format!("{refusal}\n{}", refusal.hints().join("\n")));
    }
}
