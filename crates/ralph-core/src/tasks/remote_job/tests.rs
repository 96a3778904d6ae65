//! What a job leaves to a machine, and what the start of a job means.

use ralph_model::budget::Budget;
use ralph_model::gate::{Gate, GateCheck, GateKind};
use ralph_model::ids::{RunId, TaskId, WorkerId};
use ralph_model::outcome::Outcome;
use ralph_model::recipe::{MessageAuthor, Recipe, Scm, ScmTask, TaskWork};
use ralph_model::sandbox::{Backend, RequestedBackend};
use ralph_model::worker::{JobAssignment, WorkerShare};

use super::*;

fn job(agent: AgentChoice) -> Job {
    let mut recipe = Recipe::new(Work::Tasks(TaskWork::new("tasks/plan.json")), agent);
    recipe.landing.commit = CommitPolicy::Ralph;
    let share = WorkerShare { budget: Budget::default(), iterations: 3 };
    Job {
        assignment: JobAssignment {
            worker: WorkerId("w".into()),
            task: TaskId("t".into()),
            round: 1,
            base: None,
            conflicts: Vec::new(),
            compacts: None,
            start_tree: None,
            share,
        },
        run: RunId("r".into()),
        project: "/home/ann/app/sub".into(),
        task_file: "/home/ann/app/sub/tasks/plan.json".into(),
        recipe: Box::new(recipe),
        keep: Vec::new(),
        clones: ClonePolicy { directory: Some("/fast".into()), ..ClonePolicy::default() },
        earlier: None,
        jobs: None,
    }
}

fn secret_agent(kind: AgentKind) -> AgentChoice {
    AgentChoice {
        flags: vec!["--api-key=hunter2".into()],
        model: Some("big".into()),
        env: [("KEY".to_owned(), "hunter2".to_owned())].into(),
        mcp_config: Some("/home/ann/mcp.json".into()),
        writable: vec!["/home/ann/app/.git".into()],
        ..AgentChoice::new(kind, "/home/ann/bin/agent")
    }
}

fn values(agents: &[AgentChoice]) -> MachineValues {
    let roles = [Role::Implement, Role::Review];
    MachineValues {
        sandbox: SandboxPolicy::default(),
        guard: GuardPolicy::default(),
        clones: ClonePolicy::default(),
        agents: roles.into_iter().zip(agents.iter().cloned()).collect(),
        others: Vec::new(),
        find_program: |kind| (kind == AgentKind::Codex).then_some("codex"),
    }
}

#[test]
fn a_stripped_job_has_no_path_and_no_secret_of_its_machine() {
    let mut job = job(secret_agent(AgentKind::Claude));
    let gate = Gate {
        check: GateCheck::Agent(Box::new(secret_agent(AgentKind::Codex))),
        ..Gate::for_command(GateKind::Quality, "look")
    };
    job.recipe.gates.push(gate);
    job.recipe.agents.insert(Role::Review, secret_agent(AgentKind::Gemini));
    job.recipe.sandbox.backend = RequestedBackend::This(Backend::None);
    strip_machine_values(&mut job, Path::new("/home/ann/app"));
    let text = serde_json::to_string(&job).expect("JSON");
    for word in ["ann", "hunter2", "/fast"] {
        assert!(!text.contains(word), "{word} in {text}");
    }
    assert_eq!(job.project, Path::new("sub"));
    assert_eq!(job.recipe.agent.model.as_deref(), Some("big"));
    assert_eq!(job.recipe.sandbox, SandboxPolicy::default());
}

#[test]
fn a_machine_uses_its_own_agents_and_refuses_those_it_has_not() {
    let own = |kind| AgentChoice { model: Some("own".into()), ..AgentChoice::new(kind, "mine") };
    let mut claude = job(secret_agent(AgentKind::Claude));
    claude.recipe.agents.insert(Role::Review, AgentChoice::new(AgentKind::Codex, "x"));
    strip_machine_values(&mut claude, Path::new("/"));
    let machine = values(&[own(AgentKind::Claude)]);
    assert_eq!(apply_machine_values(&mut claude, &machine), Ok(()));
    let agent = &claude.recipe.agent;
    assert_eq!((agent.command.as_str(), agent.model.as_deref()), ("mine", Some("big")));
    assert_eq!(claude.recipe.agents[&Role::Review].command, "codex");

    let mut other = job(secret_agent(AgentKind::Text));
    strip_machine_values(&mut other, Path::new("/"));
    let refused = apply_machine_values(&mut other, &machine).expect_err("it has no such agent");
    assert!(refused.contains("`text`"), "{refused}");
}

#[test]
fn what_a_hostile_job_names_is_not_used() {
    let machine = values(&[AgentChoice::new(AgentKind::Claude, "mine")]);
    // Not stripped: this is what came from the remote.
    let mut hostile = job(secret_agent(AgentKind::Claude));
    hostile.recipe.agents.insert(Role::Review, secret_agent(AgentKind::Claude));
    hostile.recipe.escalate = Some(secret_agent(AgentKind::Codex));
    assert_eq!(apply_machine_values(&mut hostile, &machine), Ok(()));
    let text = serde_json::to_string(&hostile.recipe).expect("JSON");
    for word in ["/home/ann", "hunter2"] {
        assert!(!text.contains(word), "{word} in {text}");
    }
    let tasks = vec![ScmTask::Run(vec!["-c".into(), "evil".into()])];
    let scm = Scm { command: "sh".into(), tasks, message: MessageAuthor::Ralph };
    let mut runs = job(AgentChoice::new(AgentKind::Claude, ""));
    runs.recipe.landing.commit = CommitPolicy::Scm(scm);
    assert!(apply_machine_values(&mut runs, &machine).is_err());
}

#[test]
fn a_job_is_begun_once_and_again_only_after_an_end_that_allows_it() {
    let job = job(AgentChoice::new(AgentKind::Sim, "x"));
    let end =
        |outcome| JobEnd::Ended(Box::new(JobResult::without_work(outcome, "s1", Path::new(""))));
    let (first, second) = (AttemptLabel::new_first(), AttemptLabel::new_first().next());
    let done = JobResult::without_work(Outcome::Complete, "s1", Path::new(""));
    let lost = JobEnd::Lost { reason: "gone".into() };
    let refused = JobEnd::Refused { reason: "old".into() };
    for (previous, expect) in [
        (None, StartDecision::Begin(first.clone())),
        (Some((&first, None)), StartDecision::Attach),
        (Some((&first, Some(&lost))), StartDecision::Begin(second.clone())),
        (Some((&first, Some(&refused))), StartDecision::Begin(second.clone())),
        (Some((&first, Some(&end(Outcome::Interrupted)))), StartDecision::Begin(second.clone())),
        (Some((&second, Some(&end(Outcome::Complete)))), StartDecision::Return(Box::new(done))),
    ] {
        assert_eq!(decide_start(previous, &job), expect, "{previous:?}");
    }
}
