//! Rules on the machine's power, other processes, and containers. Ending processes is in `kills`.

use super::{Act, Rule, command};
use crate::guard::category::Category;

const OWN: &str = "End only processes that you started, by their id.";
const PLAIN: &str = "Run the container without it.";

pub(super) const RULES: &[Rule] = &[
    command(
        "proc.power",
        Category::Process,
        "turns the machine off",
        "Leave the machine running.",
        |it| {
            let ends = [
                "poweroff",
                "reboot",
                "halt",
                "suspend",
                "hibernate",
                "kexec",
                "rescue",
                "emergency",
                "isolate",
            ];
            match it.name() {
                "shutdown" | "reboot" | "halt" | "poweroff" | "telinit" => !it.only_asks(),
                "init" => matches!(it.operand(0), "0" | "1" | "6"),
                "systemctl" | "loginctl" => ends.contains(&it.operand(0)),
                "pmset" => it.operand(0) == "sleepnow",
                "osascript" => it
                    .words()
                    .iter()
                    .any(|word| word.raw().contains("shut down") || word.raw().contains("restart")),
                _ => false,
            }
        },
    ),
    command("proc.debug", Category::Process, "reaches into another process", OWN, |it| {
        it.is(&["gdb", "strace", "ltrace", "reptyr", "gcore"]) && it.arguments().short('p')
            || it.command.wrappers.iter().any(|wrapper| wrapper == "strace") && it.is(&["-p"])
    }),
    command(
        "container.privileged",
        Category::Container,
        "gives a container access to the host",
        PLAIN,
        |it| {
            let runs = matches!(it.operand(0), "run" | "create" | "exec")
                || it.has(&["run", "create", "exec"]);
            is_engine(it)
                && runs
                && (it.has(&["--privileged", "--device"]) || {
                    let value = |flags: &[&str]| it.arguments().texts(flags);
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
    command(
        "container.mount",
        Category::Container,
        "mounts the host into a container",
        "Mount only the project.",
        |it| is_engine(it) && mounts(it).iter().any(|source| is_host(it, source)),
    ),
    command(
        "container.escape",
        Category::Container,
        "escapes its container",
        "Stay in the current environment.",
        |it| {
            let roots = ["/proc/1", "/host", "/mnt/host", "/rootfs"];
            let into = |path: &str| roots.iter().any(|root| path.starts_with(root));
            it.is(&["nsenter"]) && !it.only_asks()
                || it.is(&["ctr", "runc", "crictl"]) && it.has(&["run", "exec", "--privileged"])
                || it.command.wrappers.iter().any(|it| it == "chroot" || it == "unshare")
                || it.is(&["chroot"])
                || it.is(&["docker"])
                    && it.arguments().texts(&["-H", "--host"]).iter().any(|it| into(it))
        },
    ),
    command(
        "container.prune",
        Category::Container,
        "removes containers, images or volumes of others",
        "Remove only what you made, by name.",
        |it| {
            let (first, second) = (it.operand(0), it.operand(1));
            let all = it.words().iter().any(|word| !word.is_known());
            is_engine(it)
                && (second == "prune"
                    && !it.has(&["--help"])
                    && (matches!(first, "system" | "volume")
                        || it.short('a')
                        || it.has(&["--all"]))
                    || matches!(first, "rm" | "rmi" | "kill" | "stop")
                        && all
                        && it.is_fed_by(&["docker", "podman"])
                    || first == "volume" && matches!(second, "rm" | "remove"))
        },
    ),
];

fn is_engine(checked: &Act<'_>) -> bool {
    checked.is(&["docker", "podman", "nerdctl", "docker-compose"])
}

/// Returns the sources that are mounted into a container.
fn mounts(checked: &Act<'_>) -> Vec<String> {
    let volumes = checked.arguments().texts(&["-v", "--volume"]);
    let mut sources: Vec<String> = volumes
        .iter()
        .filter_map(|it| it.split_once(':'))
        .map(|(source, _)| source.to_owned())
        .collect();
    for mount in checked.arguments().texts(&["--mount"]) {
        let source = mount
            .split(',')
            .find_map(|part| part.strip_prefix("source=").or_else(|| part.strip_prefix("src=")));
        sources.extend(source.map(str::to_owned));
    }
    sources
}

/// Returns whether a path belongs to the host, or gives access to it.
fn is_host(checked: &Act<'_>, source: &str) -> bool {
    const PARTS: [&str; 11] = [
        "/etc", "/root", "/proc", "/sys", "/dev", "/boot", "/var/run", "/run", "/usr", "/var/lib",
        "/bin",
    ];
    let path = std::path::Path::new(source);
    let home = checked.around.home.as_deref().map(std::path::Path::new);
    let is_home = home.is_some_and(|home| {
        home.starts_with(path) && path.is_absolute()
            || [".ssh", ".aws", ".kube", ".docker", ".gnupg", ".claude"]
                .iter()
                .any(|it| path.starts_with(home.join(it)))
    });
    source == "/" || is_home || PARTS.iter().any(|root| path.starts_with(root))
}
