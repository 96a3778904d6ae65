//! Rules on clouds, clusters and forges.

use super::{GuardRule, new_command_rule};
use crate::category::GuardCategory;

const PLAN: &str = "Show the plan in your answer, and let the user apply it.";

pub(super) const RULES: &[GuardRule] = &[
    new_command_rule(
        "cloud.destroy",
        GuardCategory::Cloud,
        "destroys infrastructure",
        PLAN,
        |it| {
            let verb = it.find_operand(0);
            match it.name() {
                "terraform" | "tofu" | "terragrunt" => {
                    matches!(verb, "destroy" | "taint" | "force-unlock")
                        || verb == "state" && matches!(it.find_operand(1), "rm" | "push")
                        || verb == "workspace" && it.find_operand(1) == "delete"
                        || it.has_word(&["-destroy", "--destroy"]) && verb != "plan"
                }
                "pulumi" | "cdk" | "sst" | "serverless" | "sls" | "copilot" => {
                    matches!(verb, "destroy" | "remove" | "delete")
                        || verb == "stack" && it.find_operand(1) == "rm"
                }
                "vagrant" | "multipass" => matches!(verb, "destroy" | "delete" | "purge"),
                "heroku" => verb.contains("destroy") || verb.contains("pg:reset"),
                "fly" | "flyctl" => it.has_word(&["destroy"]),
                "vercel" | "netlify" | "railway" | "wrangler" => {
                    matches!(verb, "rm" | "remove" | "delete" | "down")
                }
                "doctl" | "linode-cli" | "hcloud" | "scw" | "eksctl" | "kops" => {
                    it.has_word(&["delete", "destroy"])
                }
                _ => false,
            }
        },
    ),
    new_command_rule(
        "cloud.apply",
        GuardCategory::Cloud,
        "changes infrastructure without asking for confirmation",
        PLAN,
        |it| match it.name() {
            "terraform" | "tofu" | "terragrunt" => {
                it.find_operand(0) == "apply" && it.has_word(&["-auto-approve", "--auto-approve"])
            }
            "pulumi" => {
                it.find_operand(0) == "up" && (it.has_short_flag('y') || it.has_word(&["--yes"]))
            }
            "cdk" => it.find_operand(0) == "deploy" && it.has_word(&["--require-approval"]),
            _ => false,
        },
    ),
    new_command_rule(
        "cloud.provider",
        GuardCategory::Cloud,
        "deletes cloud resources or backups, or grants rights",
        PLAN,
        |it| {
            let words = it.list_operands();
            let ends = |word: &&str| {
                ["delete", "terminate", "remove", "destroy", "purge", "deregister", "release"]
                    .iter()
                    .any(|verb| word.split('-').next() == Some(verb))
            };
            match it.name() {
                "aws" => match it.find_operand(0) {
                    "s3" => matches!(it.find_operand(1), "rm" | "rb") || it.has_word(&["--delete"]),
                    "iam" => {
                        let verb = it.find_operand(1);
                        ["create", "attach", "put", "add", "update", "delete", "detach"]
                            .iter()
                            .any(|it| verb.starts_with(it))
                    }
                    _ => words.get(1).is_some_and(ends) || it.find_operand(1) == "stop-instances",
                },
                "gcloud" | "az" | "ibmcloud" | "oci" => {
                    words.iter().any(ends) || it.has_word(&["add-iam-policy-binding"])
                }
                "gsutil" => matches!(it.find_operand(0), "rm" | "rb") || it.has_word(&["rm", "rb"]),
                // Backups that are forgotten are gone.
                "restic" | "borg" => {
                    matches!(it.find_operand(0), "forget" | "prune" | "delete")
                        && !it.has_word(&["--dry-run", "-n"])
                }
                "rclone" => matches!(it.find_operand(0), "delete" | "purge" | "deletefile"),
                "mc" | "s3cmd" | "b2" => {
                    matches!(it.find_operand(0), "rm" | "rb" | "del" | "delete-bucket")
                }
                _ => false,
            }
        },
    ),
    new_command_rule(
        "cloud.cluster",
        GuardCategory::Cloud,
        "deletes resources of a cluster",
        PLAN,
        |it| {
            let verb = it.find_operand(0);
            match it.name() {
                "kubectl" | "oc" | "k" | "k3s" => {
                    if it.arguments().find_flag_values(&["--dry-run"]).iter().any(|it| it != "none")
                    {
                        return false;
                    }
                    matches!(verb, "delete" | "drain" | "cordon" | "taint")
                        || verb == "replace" && it.has_word(&["--force"])
                        || verb == "scale"
                            && it
                                .arguments()
                                .find_flag_values(&["--replicas"])
                                .iter()
                                .any(|it| it == "0")
                }
                "helm" => matches!(verb, "uninstall" | "delete" | "del" | "un" | "rollback"),
                _ => false,
            }
        },
    ),
    new_command_rule(
        "cloud.forge",
        GuardCategory::Cloud,
        "deletes or publishes something on the forge",
        PLAN,
        |it| {
            let (first, second) = (it.find_operand(0), it.find_operand(1));
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
                                || second == "edit" && it.has_word(&["--visibility"])
                                || second == "create" && it.has_word(&["--push", "--public"]))
                        || first == "api"
                            && it
                                .arguments()
                                .find_flag_values(&["-X", "--method"])
                                .iter()
                                .any(|it| it.eq_ignore_ascii_case("delete"))
                        || first == "secret" && second == "set"
                        || first == "release" && matches!(second, "create" | "upload" | "edit")
                        || first == "pr" && second == "merge" && it.has_word(&["--admin"])
                }
                "glab" => second == "delete" || first == "release" && second == "create",
                _ => false,
            }
        },
    ),
];
