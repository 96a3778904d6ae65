//! Rules on the machine's power, other processes, and containers. Ending processes is in `kills`.

use std::path::Path;

use super::{CheckedCommand, GuardRule, new_command_rule};
use crate::category::GuardCategory;
use crate::lower::Word;

const OWN: &str = "End only processes that you started, by their id.";
const PLAIN: &str = "Run the container without it.";

/// The verbs of `systemctl` that end what runs on the machine.
#[rustfmt::skip]
pub(super) const POWER_VERBS: [&str; 9] = [
    "poweroff", "reboot", "halt", "suspend", "hibernate", "kexec", "rescue", "emergency", "isolate",
];

pub(super) const RULES: &[GuardRule] = &[
    new_command_rule(
        "proc.power",
        GuardCategory::Process,
        "turns the machine off",
        "Leave the machine running.",
        |it| match it.name() {
            "shutdown" | "reboot" | "halt" | "poweroff" | "telinit" => !it.is_help_request(),
            "init" => matches!(it.find_operand(0), "0" | "1" | "6"),
            "systemctl" | "loginctl" => POWER_VERBS.contains(&it.find_operand(0)),
            "pmset" => it.find_operand(0) == "sleepnow",
            "osascript" => it
                .words()
                .iter()
                .any(|word| word.raw().contains("shut down") || word.raw().contains("restart")),
            _ => false,
        },
    ),
    new_command_rule(
        "proc.debug",
        GuardCategory::Process,
        "reaches into another process",
        OWN,
        |it| {
            it.is_program(&["gdb", "strace", "ltrace", "reptyr", "gcore"])
                && it.arguments().has_short_flag('p')
                || it.is_program(&["gcore", "reptyr"]) && !it.list_operands().is_empty()
                || it.command.wrappers.iter().any(|wrapper| wrapper == "strace")
                    && it.is_program(&["-p"])
        },
    ),
    new_command_rule(
        "container.privileged",
        GuardCategory::Container,
        "gives a container access to the host",
        PLAIN,
        |it| {
            let runs = matches!(it.find_operand(0), "run" | "create" | "exec")
                || it.has_word(&["run", "create", "exec"]);
            if it.is_program(&["kubectl", "oc"]) {
                let powers =
                    ["--privileged", "hostPID", "hostNetwork", "hostPath", "\"privileged\""];
                let has_power = |word: &Word| powers.iter().any(|power| word.raw().contains(power));
                return runs && it.words().iter().any(has_power);
            }
            is_engine(it)
                && runs
                && (it.has_word(&["--privileged", "--device"]) || {
                    let value = |flags: &[&str]| it.arguments().find_flag_values(flags);
                    value(&["--pid", "--ipc", "--userns", "--uts", "--cgroupns"])
                        .iter()
                        .any(|it| it == "host")
                        || value(&["--security-opt"])
                            .iter()
                            .any(|it| it.contains("unconfined") || it.contains("disable"))
                        || value(&["--cap-add"]).iter().any(|it| {
                            let name = it.to_ascii_uppercase();
                            [
                                "ALL",
                                "SYS_ADMIN",
                                "SYS_PTRACE",
                                "SYS_MODULE",
                                "DAC_READ_SEARCH",
                                "NET_ADMIN",
                                "SYS_RAWIO",
                            ]
                            .iter()
                            .any(|power| name.trim_start_matches("CAP_") == *power)
                        })
                })
        },
    ),
    new_command_rule(
        "container.mount",
        GuardCategory::Container,
        "mounts the host into a container",
        "Mount only the project.",
        |it| is_engine(it) && find_mounts(it).iter().any(|source| is_host(it, source)),
    ),
    new_command_rule(
        "container.escape",
        GuardCategory::Container,
        "escapes its container",
        "Stay in the current environment.",
        |it| {
            let roots = ["/proc/1", "/host", "/mnt/host", "/rootfs"];
            let into = |path: &str| roots.iter().any(|root| path.starts_with(root));
            it.is_program(&["nsenter"]) && !it.is_help_request()
                || it.is_program(&["ctr", "runc", "crictl"])
                    && it.has_word(&["run", "exec", "--privileged"])
                || it.command.wrappers.iter().any(|it| it == "chroot" || it == "unshare")
                || it.is_program(&["chroot"])
                || it.is_program(&["docker"])
                    && it.arguments().find_flag_values(&["-H", "--host"]).iter().any(|it| into(it))
        },
    ),
    new_command_rule(
        "container.remove-files",
        GuardCategory::Container,
        "removes directories of the system or of data in a container",
        "Make a container of your own, and remove that.",
        removes_in_container,
    ),
    new_command_rule(
        "container.prune",
        GuardCategory::Container,
        "removes containers, images or volumes of others",
        "Remove only what you made, by name.",
        |it| {
            let (first, second) = (it.find_operand(0), it.find_operand(1));
            let all = it.words().iter().any(|word| !word.is_known());
            is_engine(it)
                && (second == "prune"
                    && !it.has_word(&["--help"])
                    && (matches!(first, "system" | "volume")
                        || it.has_short_flag('a')
                        || it.has_word(&["--all"]))
                    || first == "system" && second == "reset"
                    || matches!(first, "rm" | "rmi" | "kill" | "stop")
                        && all
                        && it.is_fed_by(&["docker", "podman"])
                    || first == "volume" && matches!(second, "rm" | "remove"))
        },
    ),
];

/// Returns whether a command in a container removes one of these directories recursively.
fn removes_in_container(checked: &CheckedCommand<'_>) -> bool {
    const ROOTS: [&str; 12] = [
        "/var", "/etc", "/usr", "/home", "/root", "/opt", "/srv", "/data", "/lib", "/boot", "/mnt",
        "/bin",
    ];
    let is_engine = is_engine(checked) || checked.is_program(&["kubectl", "oc"]);
    let words: Vec<&str> =
        checked.words().iter().flat_map(|word| word.raw().split_whitespace()).collect();
    let (Some(exec), Some(rm)) = (
        words.iter().position(|word| matches!(*word, "exec" | "run")),
        words.iter().position(|word| *word == "rm"),
    ) else {
        return false;
    };
    let is_recursive = |word: &&str| {
        *word == "--recursive"
            || word.starts_with('-') && !word.starts_with("--") && word.contains(['r', 'R'])
    };
    let is_root = |word: &&str| {
        matches!(*word, "/" | "/*") || ROOTS.iter().any(|root| Path::new(word).starts_with(root))
    };
    let after = &words[rm..];
    is_engine && exec < rm && after.iter().any(is_recursive) && after.iter().any(is_root)
}

fn is_engine(checked: &CheckedCommand<'_>) -> bool {
    checked.is_program(&["docker", "podman", "nerdctl", "docker-compose"])
}

/// Returns the sources that are mounted into a container.
fn find_mounts(checked: &CheckedCommand<'_>) -> Vec<String> {
    let volumes = checked.arguments().find_flag_values(&["-v", "--volume"]);
    let mut sources: Vec<String> = volumes
        .iter()
        .filter_map(|it| it.split_once(':'))
        .map(|(source, _)| source.to_owned())
        .collect();
    for mount in checked.arguments().find_flag_values(&["--mount"]) {
        let source = mount
            .split(',')
            .find_map(|part| part.strip_prefix("source=").or_else(|| part.strip_prefix("src=")));
        sources.extend(source.map(str::to_owned));
    }
    sources
}

/// Returns whether a path belongs to the host, or gives access to it.
fn is_host(checked: &CheckedCommand<'_>, source: &str) -> bool {
    const PARTS: [&str; 11] = [
        "/etc", "/root", "/proc", "/sys", "/dev", "/boot", "/var/run", "/run", "/usr", "/var/lib",
        "/bin",
    ];
    let path = std::path::Path::new(source);
    let home = checked.context.home.as_deref().map(std::path::Path::new);
    let is_home = home.is_some_and(|home| {
        home.starts_with(path) && path.is_absolute()
            || [".ssh", ".aws", ".kube", ".docker", ".gnupg", ".claude"]
                .iter()
                .any(|it| path.starts_with(home.join(it)))
    });
    source == "/" || is_home || PARTS.iter().any(|root| path.starts_with(root))
}
