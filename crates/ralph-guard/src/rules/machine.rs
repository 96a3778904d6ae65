//! Rules on the machine: disks, resources, rights, configuration, scheduled commands.

use super::process::POWER_VERBS;
use super::{GuardRule, new_command_rule};
use crate::category::GuardCategory;
use crate::interpreter::{self, CodeAction};
use crate::lower::{Copies, ShellCommand, Word};

const RIGHTS: &str = "Do the work with the rights you have; say in your answer what needs more.";
const MACHINE: &str = "Leave the machine as it is; say in your answer what it needs.";

/// The most that may be written at once: 10 GiB.
const LARGEST: u64 = 10 << 30;

pub(super) const RULES: &[GuardRule] = &[
    new_command_rule(
        "disk.format",
        GuardCategory::Disk,
        "formats or repartitions a disk",
        "Work on files.",
        |it| {
            const TOOLS: [&str; 24] = [
                "fdisk",
                "sfdisk",
                "cfdisk",
                "gdisk",
                "sgdisk",
                "parted",
                "wipefs",
                "blkdiscard",
                "mkswap",
                "swapoff",
                "swapon",
                "cryptsetup",
                "lvremove",
                "vgremove",
                "pvremove",
                "mdadm",
                "hdparm",
                "grub-install",
                "tune2fs",
                "e2fsck",
                "fsck",
                "xfs_repair",
                "zpool",
                "zfs",
            ];
            let formats =
                it.name().starts_with("mkfs") || it.name() == "mke2fs" || it.name() == "newfs";
            let lists = it.has_word(&["-l", "--list", "print", "list", "status", "get"])
                || it.is_help_request();
            // An image of a disk is a file.
            let is_file = |word: &Word| word.is_known() && !word.raw().starts_with("/dev/");
            let is_image = formats && it.arguments().find_operands().into_iter().all(is_file);
            (formats && !is_image || TOOLS.contains(&it.name())) && !lists
                || it.is_program(&["diskutil"])
                    && (it.find_operand(0).starts_with("erase")
                        || it.find_operand(0).starts_with("partition"))
                || it.is_program(&["efibootmgr", "bootctl", "update-grub"])
                    && !it.words().is_empty()
        },
    ),
    new_command_rule("disk.mount", GuardCategory::Disk, "changes what is mounted", MACHINE, |it| {
        it.is_program(&["mount", "umount", "losetup", "pivot_root"])
            && !it.list_operands().is_empty()
            && !it.is_help_request()
    }),
    new_command_rule(
        "dos.fork-bomb",
        GuardCategory::Exhaustion,
        "starts processes without end",
        "Start a fixed number of processes.",
        |it| {
            let setting = it.command.execution;
            let is_piped = it.command.feeds.is_some() || !it.command.fed_by.is_empty();
            setting.recursive && (setting.background || is_piped)
                || setting.copies == Copies::Endless
                    && setting.background
                    && !it.is_program(&["wait", "true", ":"])
                || setting.copies == Copies::AsInput && is_fed_without_end(&it.find_sources())
                || interpreter::find_inline_code(it.name(), it.command)
                    .is_some_and(|code| interpreter::does_action(&code, CodeAction::ForksEndlessly))
        },
    ),
    new_command_rule(
        "dos.flood",
        GuardCategory::Exhaustion,
        "writes without end",
        "Bound it, for example with `head`.",
        |it| {
            let endless =
                |word: &&Word| matches!(word.raw(), "/dev/zero" | "/dev/urandom" | "/dev/random");
            let reads_endless = it.words().iter().any(|word| endless(&word));
            let from_redirect = it.command.redirects.iter().any(|it| endless(&&it.path));
            let goes_to_file = it.command.redirects.iter().any(|it| {
                it.mode == crate::lower::RedirectMode::Write && it.path.raw() != "/dev/null"
            });
            match it.name() {
                "yes" => it.command.feeds.is_none() && !it.is_help_request(),
                "seq" => it.find_operand(0) == "inf" && goes_to_file,
                "base64" | "xxd" | "od" | "tr" | "hexdump" => {
                    let is_bounded = ['n', 'N', 'l'].iter().any(|flag| it.has_short_flag(*flag));
                    (reads_endless || from_redirect) && goes_to_file && !is_bounded
                }
                "gzip" | "xz" | "zstd" | "tee" | "sort" if it.is_fed_by(&["cat", "yes"]) => {
                    let sources = it.find_sources();
                    let is_endless = |command: &&ShellCommand| {
                        command.name() == "yes" || command.arguments().iter().any(|it| endless(&it))
                    };
                    sources.iter().any(is_endless)
                        && sources.iter().all(|command| command.name() != "head")
                }
                "cat" | "tee" | "cp" => {
                    (reads_endless || from_redirect)
                        && (goes_to_file || !it.is_program(&["cat"]))
                        && it.command.feeds.is_none()
                }
                "dd" => {
                    let value = |name: &str| {
                        it.words().iter().find_map(|word| word.raw().strip_prefix(name))
                    };
                    let input = value("if=").unwrap_or_default();
                    let endless = matches!(input, "/dev/zero" | "/dev/urandom" | "/dev/random")
                        || from_redirect;
                    endless
                        && value("count=").is_none()
                        && value("of=") != Some("/dev/null")
                        && it.command.feeds.is_none()
                }
                _ => false,
            }
        },
    ),
    new_command_rule(
        "dos.large-file",
        GuardCategory::Exhaustion,
        "makes a file of more than 10 GiB",
        "Make a smaller one.",
        |it| {
            let sizes = match it.name() {
                "fallocate" => it.arguments().find_flag_values(&["-l", "--length"]),
                "truncate" => it.arguments().find_flag_values(&["-s", "--size"]),
                "head" => it.arguments().find_flag_values(&["-c", "--bytes"]),
                "mkfile" => {
                    it.list_operands().first().map(|it| (*it).to_owned()).into_iter().collect()
                }
                "dd" => {
                    let value = |name: &str| {
                        it.words()
                            .iter()
                            .find_map(|word| parse_size(word.raw().strip_prefix(name)?))
                    };
                    let total =
                        value("bs=").unwrap_or(512).saturating_mul(value("count=").unwrap_or(0));
                    return total > LARGEST;
                }
                _ => return false,
            };
            sizes
                .iter()
                .filter_map(|it| parse_size(it.trim_start_matches('+')))
                .any(|size| size > LARGEST)
        },
    ),
    new_command_rule(
        "dos.stress",
        GuardCategory::Exhaustion,
        "exhausts the machine's resources on purpose",
        "Test with less.",
        |it| {
            it.is_program(&[
                "stress",
                "stress-ng",
                "hping3",
                "slowloris",
                "ab-flood",
                "siege",
                "memtester",
            ]) && !it.is_help_request()
                || it.is_program(&["ping"]) && it.has_short_flag('f')
        },
    ),
    new_command_rule(
        "priv.become-root",
        GuardCategory::Privilege,
        "runs a command with the rights of another user",
        RIGHTS,
        |it| {
            let wraps = it
                .command
                .wrappers
                .iter()
                .any(|it| it == "sudo" || it == "doas" || it == "setpriv");
            let itself = it.is_program(&[
                "sudo",
                "doas",
                "su",
                "pkexec",
                "runuser",
                "sudoedit",
                "gosu",
                "su-exec",
                "machinectl",
            ]) && !it.is_help_request()
                && !it.has_word(&["-V", "-h"]);
            wraps || itself
        },
    ),
    new_command_rule(
        "priv.set-id",
        GuardCategory::Privilege,
        "makes a program run with the rights of its owner",
        RIGHTS,
        |it| {
            let mode = it.find_operand(0);
            let symbolic = mode.contains('s') && mode.contains('+')
                || mode.contains('=') && mode.contains('s');
            let digits = mode.len() >= 4
                && mode.chars().all(|it| it.is_digit(8))
                && mode.trim_start_matches('0').len() == 4
                && !mode.trim_start_matches('0').starts_with('1');
            it.is_program(&["chmod"]) && (symbolic || digits)
                || it.is_program(&["setcap", "capsh"])
                    && !it.words().is_empty()
                    && !it.has_word(&["-v", "--print"])
                || it.is_program(&["install"])
                    && it.arguments().find_flag_values(&["-m", "--mode"]).iter().any(|mode| {
                        mode.len() == 4 && mode.starts_with(['2', '4', '6']) || mode.contains("+s")
                    })
        },
    ),
    new_command_rule(
        "priv.ownership",
        GuardCategory::Privilege,
        "gives files to root",
        RIGHTS,
        |it| {
            it.is_program(&["chown"])
                && matches!(it.find_operand(0).split(':').next(), Some("root" | "0"))
        },
    ),
    new_command_rule(
        "priv.accounts",
        GuardCategory::Privilege,
        "changes users and groups",
        MACHINE,
        |it| {
            it.is_program(&[
                "useradd", "usermod", "userdel", "groupadd", "groupmod", "groupdel", "passwd",
                "chpasswd", "adduser", "addgroup", "deluser", "gpasswd", "visudo", "chsh",
                "newusers", "vipw", "vigr", "dscl",
            ]) && !it.is_help_request()
        },
    ),
    new_command_rule(
        "sysconf.services",
        GuardCategory::SystemConfiguration,
        "changes the services of the machine",
        MACHINE,
        |it| {
            let shows = [
                "status",
                "list-units",
                "list-unit-files",
                "list-timers",
                "show",
                "is-active",
                "is-enabled",
                "is-failed",
                "cat",
                "list-sockets",
                "list-dependencies",
                "get-default",
                "help",
                "list-jobs",
                "",
            ];
            let keeps = ["enable", "reenable", "link", "edit", "preset"];
            match it.name() {
                "systemctl" => {
                    let verb = it.find_operand(0);
                    !shows.contains(&verb)
                        && !POWER_VERBS.contains(&verb)
                        && !keeps.contains(&verb)
                        && !it.is_help_request()
                }
                "service" => matches!(
                    it.find_operand(1),
                    "start" | "stop" | "restart" | "reload" | "force-reload"
                ),
                "rc-service" | "sv" => it.list_operands().len() > 1,
                "launchctl" => {
                    matches!(
                        it.find_operand(0),
                        "unload" | "bootout" | "disable" | "remove" | "stop" | "kill"
                    )
                }
                _ => false,
            }
        },
    ),
    new_command_rule(
        "sysconf.firewall",
        GuardCategory::SystemConfiguration,
        "changes the firewall",
        MACHINE,
        |it| {
            let shows = it.has_word(&[
                "-L",
                "-S",
                "--list",
                "--version",
                "-V",
                "--help",
                "--list-rules",
                "--list-all",
                "--state",
                "-nL",
                "-vL",
                "-nvL",
                "-Ln",
            ]);
            match it.name() {
                "iptables" | "ip6tables" | "firewall-cmd" | "ebtables" | "arptables" => {
                    !shows && !it.words().is_empty()
                }
                "iptables-restore" | "ip6tables-restore" => true,
                "nft" => !matches!(it.find_operand(0), "list" | "" | "monitor"),
                "ufw" => !matches!(it.find_operand(0), "status" | "show" | "version" | ""),
                "pfctl" => {
                    it.has_short_flag('d') || it.has_short_flag('F') || it.has_short_flag('f')
                }
                _ => false,
            }
        },
    ),
    new_command_rule(
        "sysconf.kernel",
        GuardCategory::SystemConfiguration,
        "changes the kernel, the clock or the network",
        MACHINE,
        |it| {
            let (first, second) = (it.find_operand(0), it.find_operand(1));
            match it.name() {
                "sysctl" => {
                    it.has_short_flag('w')
                        || it.has_short_flag('p')
                        || it.list_operands().iter().any(|word| word.contains('='))
                }
                "modprobe" | "insmod" | "rmmod" | "kexec" | "depmod" => {
                    !it.words().is_empty() && !it.is_help_request()
                }
                "setenforce" | "auditctl" | "apparmor_parser" | "aa-disable" | "aa-complain" => {
                    !it.words().is_empty()
                }
                "hostnamectl" | "timedatectl" | "localectl" | "hostname-set" => {
                    first.starts_with("set-")
                }
                "date" => it.has_word(&["-s", "--set"]),
                "ip" => matches!(
                    second,
                    "add" | "del" | "delete" | "set" | "flush" | "replace" | "change"
                ),
                "route" => matches!(first, "add" | "del" | "delete" | "flush"),
                "ifconfig" => it.has_word(&["up", "down"]),
                "resolvectl" => matches!(first, "dns" | "domain" | "revert"),
                "networksetup" | "scutil" => {
                    it.words().iter().any(|it| it.raw().starts_with("-set") || it.raw() == "--set")
                }
                "csrutil" | "spctl" => {
                    it.has_word(&["disable", "--master-disable", "--global-disable"])
                }
                "update-alternatives" => it.has_word(&["--set", "--install", "--remove"]),
                "chkconfig" | "update-rc.d" => !it.words().is_empty(),
                _ => false,
            }
        },
    ),
    new_command_rule(
        "sysconf.packages",
        GuardCategory::SystemConfiguration,
        "removes packages of the system",
        MACHINE,
        |it| {
            let verb = it.find_operand(0);
            match it.name() {
                "apt" | "apt-get" | "aptitude" => matches!(
                    verb,
                    "remove" | "purge" | "autoremove" | "dist-upgrade" | "full-upgrade"
                ),
                "dnf" | "yum" | "zypper" => matches!(verb, "remove" | "erase" | "autoremove"),
                "dpkg" => {
                    it.has_short_flag('r')
                        || it.has_short_flag('P')
                        || it.has_word(&["--remove", "--purge"])
                }
                "rpm" => it.has_short_flag('e') || it.has_word(&["--erase"]),
                "pacman" => it.words().first().is_some_and(|word| word.raw().starts_with("-R")),
                "apk" => verb == "del",
                "brew" | "port" | "snap" | "flatpak" => {
                    matches!(verb, "uninstall" | "remove" | "rm" | "autoremove")
                }
                "apt-key" => verb == "add",
                "add-apt-repository" => true,
                _ => false,
            }
        },
    ),
    new_command_rule(
        "sysconf.crontab",
        GuardCategory::SystemConfiguration,
        "removes or edits scheduled jobs",
        MACHINE,
        |it| {
            it.is_program(&["crontab"])
                && (it.has_short_flag('r') || it.has_short_flag('e') || it.has_short_flag('i'))
        },
    ),
    new_command_rule(
        "persist.schedule",
        GuardCategory::Persistence,
        "schedules a command to run later, unattended",
        "Run it now, or say in your answer what should be scheduled.",
        |it| match it.name() {
            "crontab" => {
                !it.has_short_flag('l') && !it.has_short_flag('r') && !it.is_help_request()
            }
            "at" | "batch" => {
                !it.has_short_flag('l') && !it.is_help_request() && !it.has_short_flag('V')
            }
            "systemctl" => {
                matches!(it.find_operand(0), "enable" | "reenable" | "link" | "edit" | "preset")
            }
            "systemd-run" => true,
            "launchctl" => {
                matches!(
                    it.find_operand(0),
                    "load" | "bootstrap" | "enable" | "submit" | "kickstart"
                )
            }
            "loginctl" => it.find_operand(0) == "enable-linger",
            "schtasks" => it.has_word(&["/create"]),
            _ => it.command.wrappers.iter().any(|it| it == "systemd-run"),
        },
    ),
];

/// Returns whether one of the commands prints endlessly and none of them stops it.
fn is_fed_without_end(sources: &[&ShellCommand]) -> bool {
    let endless = |it: &&ShellCommand| {
        let device = |path: &str| path.starts_with("/dev/") && path != "/dev/null";
        it.name() == "yes"
            || it.execution.copies == Copies::Endless
            || it.name() == "seq" && it.arguments().iter().any(|word| word.raw() == "inf")
            || it.arguments().iter().any(|word| device(word.raw()))
    };
    let ends =
        |it: &&ShellCommand| it.name() == "head" || it.wrappers.iter().any(|it| it == "timeout");
    sources.iter().any(endless) && !sources.iter().any(ends)
}

/// Parses a size such as `500G`.
fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim_end_matches("iB").trim_end_matches('B');
    let digits = text.trim_end_matches(|it: char| it.is_ascii_alphabetic());
    let unit = match text.get(digits.len()..)? {
        "" | "c" => 1,
        "k" | "K" => 1 << 10,
        "m" | "M" => 1 << 20,
        "g" | "G" => 1 << 30,
        "t" | "T" => 1 << 40,
        "p" | "P" => 1 << 50,
        _ => return None,
    };
    digits.parse::<u64>().ok().map(|number| number.saturating_mul(unit))
}
