//! Databases and clouds: what others keep there.

use super::{Act, Check, Rule};
use crate::guard::category::Category;

const fn rule(
    id: &'static str,
    category: Category,
    refused: &'static str,
    instead: &'static str,
    check: fn(&Act<'_>) -> bool,
) -> Rule {
    Rule { id, category, refused, instead, check: Check::Command(check) }
}

const TEST: &str = "Work on a database for tests, and call it one.";
const PLAN: &str = "Show the plan in your answer, and let the user apply it.";

pub(super) const RULES: &[Rule] = &[
    rule("db.drop", Category::Database, "drops or empties what a database keeps", TEST, |it| {
        is_client(it)
            && !is_for_tests(it)
            && statements(it).iter().any(|text| destroys(text, keeping(it)))
    }),
    rule("db.drop-database", Category::Database, "removes a whole database", TEST, |it| {
        let names = it.operands();
        let test = names.iter().any(|name| is_test_name(name));
        match it.name() {
            "dropdb" | "dropuser" => !names.is_empty() && !test,
            "mysqladmin" | "mariadb-admin" => names.contains(&"drop") && !test,
            "pg_dropcluster" => true,
            _ => false,
        }
    }),
    rule("db.flush", Category::Database, "empties a store", TEST, |it| {
        let has = |words: &[&str]| {
            let given = it.words().iter().map(|word| word.raw().to_ascii_uppercase());
            let input = it.command.stdin.iter().flat_map(|text| {
                text.raw().split_whitespace().map(str::to_ascii_uppercase).collect::<Vec<_>>()
            });
            given.chain(input).any(|word| words.contains(&word.as_str()))
        };
        match it.name() {
            "redis-cli" | "valkey-cli" | "keydb-cli" => has(&["FLUSHALL", "FLUSHDB", "SHUTDOWN"]),
            "mongo" | "mongosh" => {
                it.words().iter().any(|word| {
                    let text = word.raw();
                    ["dropDatabase", ".drop(", "deleteMany({})", "remove({})", "dropUser"]
                        .iter()
                        .any(|it| text.contains(it))
                }) && !is_for_tests(it)
            }
            "etcdctl" => has(&["DEL"]) && it.has(&["--prefix"]),
            "curl" => {
                it.arguments().texts(&["-X", "--request"]).iter().any(|it| it == "DELETE")
                    && it.operands().iter().any(|at| at.contains(":9200/"))
            }
            _ => false,
        }
    }),
    rule("cloud.destroy", Category::Cloud, "destroys infrastructure", PLAN, |it| {
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
    rule("cloud.apply", Category::Cloud, "changes infrastructure without a question", PLAN, |it| {
        match it.name() {
            "terraform" | "tofu" | "terragrunt" => {
                it.operand(0) == "apply" && it.has(&["-auto-approve", "--auto-approve"])
            }
            "pulumi" => it.operand(0) == "up" && (it.short('y') || it.has(&["--yes"])),
            "cdk" => it.operand(0) == "deploy" && it.has(&["--require-approval"]),
            _ => false,
        }
    }),
    rule(
        "cloud.provider",
        Category::Cloud,
        "deletes what a cloud keeps, or hands out rights",
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
    rule("cloud.cluster", Category::Cloud, "takes something away from a cluster", PLAN, |it| {
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
    rule("cloud.forge", Category::Cloud, "deletes or opens up what the forge keeps", PLAN, |it| {
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
                        && (second == "archive" || second == "edit" && it.has(&["--visibility"]))
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
    }),
];

fn is_client(act: &Act<'_>) -> bool {
    act.is(&[
        "psql",
        "mysql",
        "mariadb",
        "sqlite3",
        "sqlite",
        "sqlcmd",
        "cockroach",
        "clickhouse-client",
        "clickhouse",
        "bq",
        "snowsql",
        "duckdb",
        "pgcli",
        "mycli",
        "usql",
    ])
}

/// Returns whether the database that a client speaks to is called one for tests.
fn is_for_tests(act: &Act<'_>) -> bool {
    let flags = ["-d", "--dbname", "-D", "--database"];
    let mut names = act.arguments().texts(&flags);
    let values = [
        "-d",
        "--dbname",
        "-D",
        "--database",
        "-c",
        "--command",
        "-e",
        "--execute",
        "-h",
        "-U",
        "-p",
        "-f",
        "-u",
        "--eval",
    ];
    let operands = crate::guard::arguments::Arguments::new(act.words(), &values).operands();
    names.extend(operands.into_iter().take(1).map(|word| word.raw().to_owned()));
    names.iter().any(|name| is_test_name(name))
}

fn is_test_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let last = name.rsplit('/').next().unwrap_or_default().to_owned();
    ["test", "tmp", "temp", "scratch", "fixture", ":memory:"].iter().any(|word| last.contains(word))
        && !last.contains("prod")
}

/// Returns the statements that a client is given.
fn statements(act: &Act<'_>) -> Vec<String> {
    let mut texts: Vec<String> = act.words().iter().map(|word| word.raw().to_owned()).collect();
    texts.extend(act.command.stdin.iter().map(|text| text.raw().to_owned()));
    texts
        .iter()
        .flat_map(|text| text.split(';').map(str::to_ascii_lowercase).collect::<Vec<_>>())
        .collect()
}

/// Where a database is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keeping {
    /// In a file, mostly of one's own.
    File,
    /// By a server.
    Server,
}

fn keeping(act: &Act<'_>) -> Keeping {
    if act.is(&["sqlite3", "sqlite", "duckdb"]) { Keeping::File } else { Keeping::Server }
}

/// Returns whether a statement destroys. A file of one's own may lose single tables.
fn destroys(statement: &str, keeping: Keeping) -> bool {
    let is_file = keeping == Keeping::File;
    let words: Vec<&str> = statement
        .split(|it: char| !it.is_alphanumeric() && it != '_')
        .filter(|word| !word.is_empty())
        .collect();
    let at = |index: usize| words.get(index).copied().unwrap_or_default();
    // A statement may stand behind a long flag, as in `--execute=DROP ...`.
    let skipped = usize::from(matches!(at(0), "execute" | "command"));
    let (first, second) = (at(skipped), at(skipped + 1));
    match first {
        "drop" => match second {
            "database" | "schema" | "role" | "user" | "owned" => true,
            "table" | "view" | "tablespace" => !is_file,
            _ => false,
        },
        "truncate" => !is_file,
        "delete" | "update" => {
            (first == "update" && words.contains(&"set") || second == "from")
                && !words.contains(&"where")
                && !is_file
        }
        _ => false,
    }
}
