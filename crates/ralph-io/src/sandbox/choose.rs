//! Chooses a backend: the one that the user wants, or the first enforced one that works.
//!
//! Decides from the results of detection. Not here: detection itself.

use ralph_model::sandbox::{Backend, Fallback, RequestedBackend, SandboxPolicy};

use super::ProbeResult;

/// What enforces isolation in this run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChosenBackend<W> {
    /// The operating system, through this backend.
    Enforced(W),
    /// Only the command guard.
    Guard {
        /// Why no enforced backend is used, if one was wanted.
        instead_of: Vec<FailedBackend>,
    },
    /// No sandbox and no guard.
    Unsandboxed,
}

/// A backend that does not work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedBackend {
    pub backend: Backend,
    pub why: String,
    /// What the user can do to make it work.
    pub remedy: Option<String>,
}

/// No backend that enforces what the user wants works here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.message())]
pub struct NoBackendError {
    pub failed: Vec<FailedBackend>,
}

impl NoBackendError {
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

/// Chooses a backend like [`choose_backend`]. Also returns the ones that were tried before and do
/// not work, each with the reason.
pub fn choose_with_reasons<W>(
    policy: &SandboxPolicy,
    mut detect: impl FnMut(Backend) -> ProbeResult<W>,
) -> Result<(ChosenBackend<W>, Vec<String>), NoBackendError> {
    let mut rejected = Vec::new();
    let chosen = choose_backend(policy, |backend| {
        let found = detect(backend);
        if let ProbeResult::Fails { why, .. } = &found {
            rejected.push(format!("{backend}: {why}"));
        }
        found
    })?;
    Ok((chosen, rejected))
}

/// Chooses a backend; `detect` says whether one works.
pub fn choose_backend<W>(
    policy: &SandboxPolicy,
    mut detect: impl FnMut(Backend) -> ProbeResult<W>,
) -> Result<ChosenBackend<W>, NoBackendError> {
    let candidates: Vec<Backend> = match policy.backend {
        RequestedBackend::This(Backend::None) => return Ok(ChosenBackend::Unsandboxed),
        RequestedBackend::This(Backend::Guard) => {
            return Ok(ChosenBackend::Guard { instead_of: Vec::new() });
        }
        RequestedBackend::This(backend) => vec![backend],
        RequestedBackend::Auto => {
            let has_image = policy.image.is_some();
            let is_candidate =
                |it: &Backend| it.is_enforced() && (*it != Backend::Container || has_image);
            Backend::ALL.into_iter().filter(is_candidate).collect()
        }
    };
    let mut failed = Vec::new();
    for backend in candidates {
        match detect(backend) {
            ProbeResult::Works(config) => return Ok(ChosenBackend::Enforced(config)),
            ProbeResult::Fails { why, remedy } => {
                failed.push(FailedBackend { backend, why, remedy });
            }
        }
    }
    match (policy.backend, policy.fallback) {
        (RequestedBackend::Auto, Fallback::Guard) => {
            Ok(ChosenBackend::Guard { instead_of: failed })
        }
        (RequestedBackend::Auto, Fallback::Stop) | (RequestedBackend::This(_), _) => {
            Err(NoBackendError { failed })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Case = (&'static str, SandboxPolicy, &'static [Backend], Option<ChosenBackend<Backend>>);

    #[test]
    fn the_first_working_backend_is_chosen_and_never_a_weaker_one_by_default() {
        let auto = SandboxPolicy { backend: RequestedBackend::Auto, ..SandboxPolicy::default() };
        let lenient = SandboxPolicy { fallback: Fallback::Guard, ..auto.clone() };
        let with_image = SandboxPolicy { image: Some("x".into()), ..auto.clone() };
        let this = |backend| SandboxPolicy {
            backend: RequestedBackend::This(backend),
            ..SandboxPolicy::default()
        };
        let cases: [Case; 9] = [
            ("auto", auto.clone(), &Backend::ALL, Some(ChosenBackend::Enforced(Backend::Sbx))),
            (
                "no sbx",
                auto.clone(),
                &[Backend::Native, Backend::Bwrap],
                Some(ChosenBackend::Enforced(Backend::Native)),
            ),
            (
                "last",
                auto.clone(),
                &[Backend::Landlock],
                Some(ChosenBackend::Enforced(Backend::Landlock)),
            ),
            ("no image", auto.clone(), &[Backend::Container], None),
            (
                "image",
                with_image,
                &[Backend::Container],
                Some(ChosenBackend::Enforced(Backend::Container)),
            ),
            ("guard is never taken by auto", auto, &[Backend::Guard, Backend::None], None),
            ("this one only", this(Backend::Bwrap), &[Backend::Native], None),
            ("guard", this(Backend::Guard), &[], Some(ChosenBackend::Guard { instead_of: vec![] })),
            ("none", this(Backend::None), &[], Some(ChosenBackend::Unsandboxed)),
        ];
        let detect = |working: &[Backend], backend| {
            if working.contains(&backend) {
                ProbeResult::Works(backend)
            } else {
                ProbeResult::Fails { why: "broken".into(), remedy: Some("fix it".into()) }
            }
        };
        for (name, policy, working, expect) in cases {
            let chosen = choose_backend(&policy, |backend| detect(working, backend));
            assert_eq!(chosen.ok(), expect, "{name}");
        }
        let Ok(ChosenBackend::Guard { instead_of }) =
            choose_backend(&lenient, |backend| detect(&[], backend))
        else {
            panic!("the user has chosen the guard for good");
        };
        assert_eq!(instead_of.len(), 4);
    }

    #[test]
    fn an_error_names_the_causes_and_hints() {
        let auto = SandboxPolicy { backend: RequestedBackend::Auto, ..SandboxPolicy::default() };
        let refusal = choose_backend::<()>(&auto, |backend| ProbeResult::Fails {
            why: format!("{backend} is broken"),
            remedy: Some("buy a new one".into()),
        })
        .expect_err("nothing works");
        expect_test::expect![[r"
            nothing that enforces isolation works here (sbx: sbx is broken; native: native is broken; bwrap: bwrap is broken; landlock: landlock is broken)
            buy a new one
            use --sandbox=guard to run with the command guard alone, --no-sandbox to run without"]] .assert_eq(&format!("{refusal}\n{}", refusal.hints().join("\n")));
    }
}
