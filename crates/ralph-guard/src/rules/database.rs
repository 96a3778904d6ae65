//! Rules on databases and other stores.
//!
//! A database whose name says that it is for tests may be dropped; in any other, only rows that a
//! condition selects may be deleted. Database files are treated like servers: they are rarely in
//! git. The rules do not see what runs inside a script or a migration.

use super::{CheckedCommand, GuardRule, new_command_rule};
use crate::arguments::Arguments;
use crate::category::GuardCategory;
use crate::lower::{STAR, ShellCommand, Word};

const TEST: &str = "Use a test database whose name says so, such as `app_test`.";

const fn new_rule(
    id: &'static str,
    refused: &'static str,
    check: fn(&CheckedCommand<'_>) -> bool,
) -> GuardRule {
    new_command_rule(id, GuardCategory::Database, refused, TEST, check)
}

pub(super) const RULES: &[GuardRule] = &[
    new_rule("db.drop", "drops or empties tables of a database", |it| {
        check_inner(it, |it| {
            is_client(it) && !is_for_tests(it) && {
                let statements = find_statements(it);
                statements.iter().any(|text| destroys_data(text, &statements, find_storage(it)))
            }
        })
    }),
    new_rule("db.drop-database", "removes a whole database", |it| {
        check_inner(it, |it| {
            let names = it.list_operands();
            let test = names.iter().any(|name| is_test_name(name));
            match it.name() {
                "dropdb" | "dropuser" => !names.is_empty() && !test,
                "mysqladmin" | "mariadb-admin" => names.contains(&"drop") && !test,
                "pg_dropcluster" => true,
                _ => false,
            }
        })
    }),
    new_rule("db.flush", "empties a store", |it| check_inner(it, flushes_store)),
    new_rule("db.reset", "empties a database through its framework", |it| {
        check_inner(it, resets_tables)
    }),
];

/// Checks a command, or the command that it runs in a container or through a package manager. Paths
/// inside a container differ from the host's, so only these rules look there.
fn check_inner(checked: &CheckedCommand<'_>, check: fn(&CheckedCommand<'_>) -> bool) -> bool {
    let words: Vec<&str> = checked.command.argv.iter().map(Word::raw).collect();
    let found = match checked.name() {
        "npx" | "bunx" | "pnpx" | "bundle" | "poetry" | "uv" | "pipenv" | "pdm" | "rye"
        | "pnpm" | "yarn" | "npm" | "docker" | "podman" | "docker-compose" | "kubectl" | "oc"
        | "php" | "python" | "python3" | "ruby" => {
            words.iter().skip(1).position(|word| is_tool(word)).map(|at| at + 1)
        }
        _ => None,
    };
    let Some(at) = found else { return check(checked) };
    let mut inner = checked.command.clone();
    inner.argv.drain(..at);
    check(&CheckedCommand { command: &inner, ..*checked })
}

/// Returns whether a word names a program that these rules know.
fn is_tool(word: &str) -> bool {
    let name = word.rsplit('/').next().unwrap_or_default();
    CLIENTS.contains(&name)
        || FRAMEWORKS.contains(&name)
        || matches!(name, "dropdb" | "mysqladmin" | "redis-cli" | "mongosh" | "mongo")
}

const CLIENTS: [&str; 15] = [
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
];

const FRAMEWORKS: [&str; 16] = [
    "prisma",
    "rails",
    "rake",
    "manage.py",
    "django-admin",
    "artisan",
    "sequelize",
    "sequelize-cli",
    "typeorm",
    "knex",
    "mix",
    "alembic",
    "flask",
    "supabase",
    "dotnet-ef",
    "dotnet",
];

fn is_client(checked: &CheckedCommand<'_>) -> bool {
    checked.is_program(&CLIENTS)
}

fn flushes_store(checked: &CheckedCommand<'_>) -> bool {
    let texts = || {
        let given = checked.words().iter().map(Word::raw);
        given.chain(checked.command.stdin.iter().map(Word::raw))
    };
    let has = |wanted: &[&str]| {
        texts().any(|text| {
            let letter = |it: char| !it.is_ascii_alphanumeric();
            text.to_ascii_uppercase().split(letter).any(|word| wanted.contains(&word))
        })
    };
    match checked.name() {
        "redis-cli" | "valkey-cli" | "keydb-cli" => {
            has(&["FLUSHALL", "FLUSHDB", "SHUTDOWN"])
                || has(&["DEL", "UNLINK"])
                    && checked.find_sources().iter().any(|source| lists_all_keys(source))
        }
        "mongo" | "mongosh" => {
            let empties = texts().any(|text| {
                let dense: String = text.chars().filter(|it| !it.is_whitespace()).collect();
                ["dropDatabase", ".drop(", "deleteMany({})", "remove({})", "dropUser"]
                    .iter()
                    .any(|call| dense.contains(call))
            });
            empties && !is_for_tests(checked)
        }
        "etcdctl" => has(&["DEL"]) && checked.has_word(&["--prefix"]),
        "curl" => {
            checked
                .arguments()
                .find_flag_values(&["-X", "--request"])
                .iter()
                .any(|it| it == "DELETE")
                && checked.list_operands().iter().any(|at| at.contains(":9200/"))
        }
        _ => false,
    }
}

/// Returns whether a command lists every key of a store.
fn lists_all_keys(source: &ShellCommand) -> bool {
    let arguments = Arguments::new(source.arguments(), &[]);
    let any = |pattern: &str| matches!(pattern, "*" | "") || pattern.starts_with(['*', STAR]);
    let keys =
        source.arguments().windows(2).find(|pair| pair[0].raw().eq_ignore_ascii_case("keys"));
    let scanned = arguments.find_flag_values(&["--pattern"]);
    matches!(source.name(), "redis-cli" | "valkey-cli" | "keydb-cli")
        && (keys.is_some_and(|pair| any(pair[1].raw()))
            || arguments.has_any(&["--scan"]) && scanned.iter().all(|pattern| any(pattern)))
}

/// Returns whether a framework's tool drops tables outside a test environment.
fn resets_tables(checked: &CheckedCommand<'_>) -> bool {
    const ENVIRONMENTS: [&str; 8] = [
        "RAILS_ENV",
        "RACK_ENV",
        "NODE_ENV",
        "APP_ENV",
        "MIX_ENV",
        "DATABASE_URL",
        "DJANGO_SETTINGS_MODULE",
        "FLASK_ENV",
    ];
    let in_tests =
        checked.find_assigned(&ENVIRONMENTS).iter().any(|value| is_test_name(value.raw()))
            || checked
                .arguments()
                .find_flag_values(&["--env", "-e", "--settings"])
                .iter()
                .any(|it| is_test_name(it));
    let operands = checked.list_operands();
    let verb = |words: &[&str]| operands.iter().any(|word| words.contains(word));
    let resets = match checked.name() {
        "prisma" => {
            verb(&["migrate"]) && verb(&["reset"])
                || verb(&["db"]) && checked.has_word(&["--force-reset"])
        }
        "rails" | "rake" => verb(&["db:drop", "db:reset", "db:drop:all", "db:truncate_all"]),
        "manage.py" | "django-admin" => verb(&["flush", "reset_db", "sqlflush"]),
        "artisan" => verb(&["migrate:fresh", "migrate:reset", "migrate:refresh", "db:wipe"]),
        "sequelize" | "sequelize-cli" => verb(&["db:drop", "db:migrate:undo:all"]),
        "typeorm" => verb(&["schema:drop"]),
        "knex" => verb(&["migrate:rollback"]) && checked.has_word(&["--all"]),
        "mix" => verb(&["ecto.drop", "ecto.reset"]),
        "alembic" | "flask" => verb(&["downgrade"]) && verb(&["base"]),
        "goose" => verb(&["reset"]),
        "migrate" => verb(&["drop"]),
        "diesel" | "sqlx" => verb(&["database"]) && verb(&["drop", "reset"]),
        "flyway" => verb(&["clean"]),
        "supabase" => verb(&["db"]) && verb(&["reset"]),
        "dotnet" | "dotnet-ef" => verb(&["database"]) && verb(&["drop"]),
        _ => false,
    };
    resets && !in_tests && !checked.is_help_request()
}

/// Returns whether the client's database is named as a test database, or is in a directory for
/// temporary files.
fn is_for_tests(checked: &CheckedCommand<'_>) -> bool {
    let mut names = checked.arguments().find_flag_values(&["-d", "--dbname", "-D", "--database"]);
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
        "--host",
        "-U",
        "-p",
        "-P",
        "-f",
        "-u",
        "-cmd",
        "--eval",
        "-separator",
    ];
    let operands = Arguments::new(checked.words(), &values).find_operands();
    names.extend(operands.into_iter().take(1).map(|word| word.raw().to_owned()));
    let set = checked.find_assigned(&["PGDATABASE", "DATABASE_URL"]);
    names.extend(set.into_iter().map(|word| word.raw().to_owned()));
    let is_temporary = |name: &String| {
        let at = std::path::Path::new(name);
        checked.context.temporary.iter().any(|directory| at.starts_with(directory))
    };
    names.iter().any(|name| is_test_name(name))
        || find_storage(checked) == DatabaseStorage::File && names.iter().any(is_temporary)
}

/// Returns whether a name contains a word such as `test`. For a URL, only the database name counts.
fn is_test_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let path = match name.split_once("://") {
        Some((_, address)) => address.rsplit('/').next().unwrap_or_default(),
        None => name.as_str(),
    };
    let path = path.split('?').next().unwrap_or_default();
    let words = || path.split(|it: char| !it.is_ascii_alphanumeric());
    words().any(|word| {
        let begins = ["test", "tmp", "temp", "scratch", "fixture", "memory", "sample", "demo"];
        begins.iter().any(|begin| word.starts_with(begin))
            || word.ends_with("test") && !matches!(word, "latest" | "contest" | "attest")
            || word.ends_with("tests")
            || matches!(word, "e2e" | "ci" | "sandbox")
    }) && !words().any(|word| word.starts_with("prod"))
}

/// Returns the statements that are passed to a client.
fn find_statements(checked: &CheckedCommand<'_>) -> Vec<String> {
    let mut texts: Vec<String> = checked.words().iter().map(|word| word.raw().to_owned()).collect();
    texts.extend(checked.command.stdin.iter().map(|text| text.raw().to_owned()));
    texts
        .iter()
        .flat_map(|text| text.split(';').map(str::to_ascii_lowercase).collect::<Vec<_>>())
        .collect()
}

/// How a database is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DatabaseStorage {
    /// In a file, usually a local one.
    File,
    /// On a server.
    Server,
}

fn find_storage(checked: &CheckedCommand<'_>) -> DatabaseStorage {
    if checked.is_program(&["sqlite3", "sqlite", "duckdb"]) {
        DatabaseStorage::File
    } else {
        DatabaseStorage::Server
    }
}

/// Returns whether a statement, one of `all`, destroys data.
fn destroys_data(statement: &str, all: &[String], keeping: DatabaseStorage) -> bool {
    let words = split_words(statement);
    let at = |index: usize| words.get(index).copied().unwrap_or_default();
    // A statement may follow a long flag, as in `--execute=DROP ...`.
    let skipped = usize::from(matches!(at(0), "execute" | "command"));
    let (first, second) = (at(skipped), at(skipped + 1));
    let is_server = keeping == DatabaseStorage::Server;
    match first {
        "drop" => match second {
            "database" | "schema" | "role" | "user" | "owned" => true,
            "table" => {
                let named =
                    words[skipped + 2..].iter().filter(|it| !matches!(**it, "if" | "exists"));
                !named.clone().next().is_some_and(|name| is_rebuilt(name, all))
            }
            "view" | "tablespace" => is_server,
            _ => false,
        },
        "truncate" => true,
        "delete" => second == "from" && affects_all_rows(&words),
        // Migrations of a file database often fill a new column this way.
        "update" => is_server && words.contains(&"set") && affects_all_rows(&words),
        _ => false,
    }
}

fn split_words(statement: &str) -> Vec<&str> {
    statement
        .split(|it: char| !it.is_alphanumeric() && it != '_')
        .filter(|word| !word.is_empty())
        .collect()
}

/// Returns whether a statement has no condition, or one that is true for every row.
fn affects_all_rows(words: &[&str]) -> bool {
    let condition = words.iter().position(|word| *word == "where");
    condition.is_none_or(|at| matches!(words[at + 1..], ["true" | "1"] | ["1", "1"]))
}

/// Returns whether a table is temporary, or another table is renamed to it afterwards.
fn is_rebuilt(table: &str, all: &[String]) -> bool {
    is_test_name(table)
        || all.iter().any(|statement| {
            let words = split_words(statement);
            words.first() == Some(&"create") && words.contains(&"table") && words.contains(&table)
                || words.windows(3).any(|it| it == ["rename", "to", table])
        })
}
