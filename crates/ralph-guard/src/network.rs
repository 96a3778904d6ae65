//! Finds the addresses that a command connects to, and the files it sends there.

use super::arguments::Arguments;
use super::word::{GLOBS, UNKNOWN, Word};

/// Flags of `curl` that send data; the value may name a file with `@`.
const DATA: [&str; 9] = [
    "-d",
    "--data",
    "--data-binary",
    "--data-ascii",
    "--data-urlencode",
    "--data-raw",
    "-F",
    "--form",
    "--json",
];

/// Returns the files that `curl` sends, and whether `-` is among them.
pub(super) fn find_sent_files(words: &[Word]) -> Vec<(String, SentFrom)> {
    let words = split_clusters(words);
    let arguments = Arguments::new(&words, &[]);
    let mut files = Vec::new();
    let mut add = |path: &str| {
        let from =
            if matches!(path, "-" | "/dev/stdin" | ".") { SentFrom::Input } else { SentFrom::File };
        files.push((path.to_owned(), from));
    };
    for value in arguments.find_flag_values(&DATA) {
        let file = value.strip_prefix('@').or_else(|| {
            let (_, file) = value.split_once("=@").or_else(|| value.split_once("=<"))?;
            file.split(';').next()
        });
        if let Some(file) = file {
            add(file);
        }
    }
    for file in arguments.find_flag_values(&["-T", "--upload-file"]) {
        add(&file);
    }
    files
}

/// Returns the data that `curl` sends from the command line itself.
pub(super) fn find_sent_literals(words: &[Word]) -> Vec<String> {
    Arguments::new(&split_clusters(words), &[]).find_flag_values(&DATA)
}

/// Returns the words, with clusters of short flags such as `-sF` reduced to the last one, which takes
/// the next word.
fn split_clusters(words: &[Word]) -> Vec<Word> {
    const WITHOUT_VALUE: &str = "fgijklnpqsvIJLNORSZ#0123";
    let reduce = |word: &Word| {
        let flags = word.raw().strip_prefix('-')?;
        let (front, last) = flags.split_at_checked(flags.len().checked_sub(1)?)?;
        let is_cluster = front.chars().all(|it| WITHOUT_VALUE.contains(it));
        (is_cluster && ["d", "F", "T"].contains(&last)).then(|| Word::from_raw(&format!("-{last}")))
    };
    words.iter().map(|word| reduce(word).unwrap_or_else(|| word.clone())).collect()
}

/// The origin of sent data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SentFrom {
    File,
    /// Standard input.
    Input,
}

/// Returns the addresses in the arguments of a download program.
pub(super) fn find_addresses<'a>(name: &str, words: &'a [Word]) -> Vec<&'a str> {
    const VALUES: [&str; 38] = [
        "-d",
        "--data",
        "--data-binary",
        "--data-ascii",
        "--data-urlencode",
        "--data-raw",
        "-F",
        "--form",
        "--json",
        "-H",
        "--header",
        "-X",
        "--request",
        "-o",
        "--output",
        "-u",
        "--user",
        "-A",
        "--user-agent",
        "-T",
        "--upload-file",
        "-b",
        "-c",
        "-e",
        "-m",
        "--max-time",
        "-w",
        "--retry",
        "--connect-timeout",
        "-x",
        "-D",
        "-K",
        "-r",
        "-E",
        "--cacert",
        "--resolve",
        "-Y",
        "-y",
    ];
    const WGET: [&str; 8] = ["-O", "-P", "-o", "-t", "-T", "-U", "-a", "-i"];
    let values: &[&str] = if name == "wget" { &WGET } else { &VALUES };
    let operands = Arguments::new(words, values).find_operands();
    let mut found: Vec<&str> = operands.into_iter().map(Word::raw).collect();
    let urls = words.iter().enumerate().filter(|(_, word)| word.raw() == "--url");
    found.extend(urls.filter_map(|(at, _)| words.get(at + 1).map(Word::raw)));
    found
}

/// Returns the host that an address names.
pub(super) fn parse_host(address: &str) -> &str {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    let rest = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let rest = rest.rsplit('@').next().unwrap_or_default();
    // An unquoted bracket may begin a glob.
    match rest.strip_prefix(|it| it == '[' || GLOBS.contains(&it)) {
        Some(inner) => inner.split(']').next().unwrap_or_default(),
        // An address of IPv6 without brackets has several colons.
        None if rest.matches(':').count() > 1 => rest,
        None => rest.split(':').next().unwrap_or_default(),
    }
}

/// Returns whether a host is this machine.
pub(super) fn is_local(host: &str) -> bool {
    is_loopback(host)
        || matches!(host, "host.docker.internal" | "")
        || host.rsplit_once('.').is_some_and(|(_, last)| last == "local")
}

/// Returns whether a host is this machine itself, and no container's or neighbor's name for it.
pub(super) fn is_loopback(host: &str) -> bool {
    matches!(host, "localhost" | "0.0.0.0" | "::1" | "0:0:0:0:0:0:0:1")
        || matches!(host, "ip6-localhost" | "localhost.localdomain")
        || host.starts_with("127.") && is_numeric_host(host)
        || host.ends_with(".localhost")
}

/// Returns whether an address is known to be on another machine.
pub(super) fn is_remote_address(address: &str) -> bool {
    let host = parse_host(address);
    !host.contains(UNKNOWN) && !is_local(host)
}

/// Returns whether a host consists of digits and dots only.
pub(super) fn is_numeric_host(host: &str) -> bool {
    !host.is_empty() && host.chars().all(|it| it.is_ascii_digit() || it == '.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_found_in_addresses() {
        for (address, expect) in [
            ("https://user:pw@x.example.net:8080/a?b#c", "x.example.net"),
            ("http://[::1]:80/", "::1"),
            ("localhost:3000", "localhost"),
            ("203.0.113.9", "203.0.113.9"),
        ] {
            assert_eq!(parse_host(address), expect);
        }
        assert!(!is_local("127.0.0.1.example.net") && is_local(parse_host("::1")));
        assert!(is_local("127.0.0.1") && is_local("localhost") && !is_local("x.example.net"));
        assert!(is_numeric_host("203.0.113.9") && !is_numeric_host("a.b"));
    }
}
