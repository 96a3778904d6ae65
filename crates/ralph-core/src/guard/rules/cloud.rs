//! Rules on clouds, clusters and forges.

use super::{Rule, command};
use crate::guard::category::Category;

const PLAN: &str = "Show the plan in your answer, and let the user apply it.";

pub(super) const RULES: &[Rule] = &[
    command("cloud.destroy", Category::Cloud, "destroys infrastructure", PLAN, |it| {
        let verb = it.operand(0);
        match it.name() {
            "terraform" | "tofu" | "terragrunt" => {
                matches!(verb, "destroy" | "taint" | "force-unlock")
                    || verb == "state" && matches!(it.operand(1), "rm" | "push")
                    || verb == "workspace" && it.operand(1) == "delete"
                    || it.has(&["-destroy", "--destroy"]) && verb != "plan"
            }
            "pulumi" | "cdk" | "sst" | "serverless" | "sls" | "copilot" => {
                matches!(verb, "destroy" | "remove" | "delete")
                    || verb == "stack" && it.operand(1) == "rm"
            }
            "vagrant" | "multipass" => matches!(verb, "destroy" | "delete" | "purge"),
            "heroku" => verb.contains("destroy") || verb.contains("pg:reset"),
            "fly" | "flyctl" => it.has(&["destroy"]),
            "vercel" | "netlify" | "railway" | "wrangler" => {
                matches!(verb, "rm" | "remove" | "delete" | "down")
            }
            "doctl" | "linode-cli" | "hcloud" | "scw" | "eksctl" | "kops" => {
                it.has(&["delete", "destroy"])
            }
            _ => false,
        }
    }),
    command(
        "cloud.apply",
        Category::Cloud,
        "changes infrastructure without asking for confirmation",
        PLAN,
        |it| match it.name() {
            "terraform" | "tofu" | "terragrunt" => {
                it.operand(0) == "apply" && it.has(&["-auto-approve", "--auto-approve"])
            }
            "pulumi" => it.operand(0) == "up" && (it.short('y') || it.has(&["--yes"])),
            "cdk" => it.operand(0) == "deploy" && it.has(&["--require-approval"]),
            _ => false,
        },
    ),
    command(
        "cloud.provider",
        Category::Cloud,
        "deletes cloud resources, or grants rights",
        PLAN,
        |it| {
            let words = it.operands();
            let ends = |word: &&str| {
                ["delete", "terminate", "remove", "destroy", "purge", "deregister", "release"]
                    .iter()
                    .any(|verb| word.split('-').next() == Some(verb))
            };
            match it.name() {
                "aws" => match it.operand(0) {
                    "s3" => matches!(it.operand(1), "rm" | "rb") || it.has(&["--delete"]),
                    "iam" => {
                        let verb = it.operand(1);
                        ["create", "attach", "put", "add", "update", "delete", "detach"]
                            .iter()
                            .any(|it| verb.starts_with(it))
                    }
                    _ => words.get(1).is_some_and(ends) || it.operand(1) == "stop-instances",
                },
                "gcloud" | "az" | "ibmcloud" | "oci" => {
                    words.iter().any(ends) || it.has(&["add-iam-policy-binding"])
                }
                "gsutil" => matches!(it.operand(0), "rm" | "rb") || it.has(&["rm", "rb"]),
                "rclone" => matches!(it.operand(0), "delete" | "purge" | "deletefile"),
                "mc" | "s3cmd" | "b2" => {
                    matches!(it.operand(0), "rm" | "rb" | "del" | "delete-bucket")
                }
                _ => false,
            }
        },
    ),
    command("cloud.cluster", Category::Cloud, "deletes resources of a cluster", PLAN, |it| {
        let verb = it.operand(0);
        match it.name() {
            "kubectl" | "oc" | "k" | "k3s" => {
                if it.arguments().texts(&["--dry-run"]).iter().any(|it| it != "none") {
                    return false;
                }
                matches!(verb, "delete" | "drain" | "cordon" | "taint")
                    || verb == "replace" && it.has(&["--force"])
                    || verb == "scale"
                        && it.arguments().texts(&["--replicas"]).iter().any(|it| it == "0")
            }
            "helm" => matches!(verb, "uninstall" | "delete" | "del" | "un" | "rollback"),
            _ => false,
        }
    }),
    command(
        "cloud.forge",
        Category::Cloud,
        "deletes or publishes something on the forge",
        PLAN,
        |it| {
            let (first, second) = (it.operand(0), it.operand(1));
            match it.name() {
                "gh" => {
                    matches!(second, "delete")
                        && matches!(
                            first,
                            "repo"
                                | "release"
                                | "secret"
                                | "variable"
                                | "ssh-key"
                                | "gpg-key"
                                | "run"
                                | "cache"
                                | "issue"
                                | "label"
                        )
                        || first == "repo"
                            && (second == "archive"
                                || second == "edit" && it.has(&["--visibility"]))
                        || first == "api"
                            && it
                                .arguments()
                                .texts(&["-X", "--method"])
                                .iter()
                                .any(|it| it.eq_ignore_ascii_case("delete"))
                        || first == "secret" && second == "set"
                        || first == "pr" && second == "merge" && it.has(&["--admin"])
                }
                "glab" => second == "delete",
                _ => false,
            }
        },
    ),
];
