//! Scrubs paths, so that a line is the same wherever the project is.

/// Directories for temporary files. Names below them differ in each run.
const TEMPORARY: [&str; 8] = [
    "/tmp/",
    "/var/tmp/",
    "/private/tmp/",
    "/var/folders/",
    "/private/var/folders/",
    "/dev/shm/",
    "/run/user/",
    "/temp/",
];

/// Removes the project directory from a line.
pub(super) fn strip_directory(line: &str, directory: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find(directory) {
        let after = &rest[at + directory.len()..];
        out.push_str(&rest[..at]);
        rest = match after.strip_prefix('/') {
            Some(below) => below,
            None if after
                .starts_with(|next: char| next.is_alphanumeric() || "-_.".contains(next)) =>
            {
                // Another directory whose name only begins the same.
                out.push_str(directory);
                after
            }
            None => {
                out.push('.');
                after
            }
        };
    }
    out.push_str(rest);
    out
}

/// Writes the stable part of a path and returns true, if the word is a path.
pub(super) fn scrub_path(word: &str, out: &mut String) -> bool {
    if let Some((scheme, rest)) = word.split_once("://") {
        if scheme == "file" {
            return scrub_path(rest, out);
        }
        let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        out.push_str(scheme);
        out.push_str("://");
        out.push_str(strip_port(host).unwrap_or(host));
        out.push_str(path);
        return true;
    }
    if word.starts_with('/') && word.len() > 1 {
        scrub_absolute(strip_position(word), out);
        return true;
    }
    if word.contains('/') {
        let word = strip_position(word);
        out.push_str(strip_build_hash(word));
        return true;
    }
    let place = strip_position(word);
    if place.len() < word.len() && is_file(place) {
        out.push_str(place);
        return true;
    }
    if let Some(host) = strip_port(word) {
        out.push_str(host);
        out.push(super::GAP);
        return true;
    }
    false
}

fn scrub_absolute(path: &str, out: &mut String) {
    let temporary = TEMPORARY.iter().find_map(|root| path.strip_prefix(root));
    let mut names = path.rsplit('/').filter(|name| !name.is_empty());
    let (last, parent) = (names.next().unwrap_or_default(), names.next());
    match temporary {
        None => {
            if let Some(parent) = parent {
                out.push_str(parent);
                out.push('/');
            }
            out.push_str(strip_build_hash(last));
        }
        Some(below) => {
            if !is_file(last) || is_random(last) {
                out.push(super::GAP);
                return;
            }
            if let Some(parent) = parent.filter(|_| below.matches('/').count() > 1)
                && parent.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
                && !parent.starts_with("tmp")
            {
                out.push_str(parent);
                out.push('/');
            }
            out.push_str(last);
        }
    }
}

/// Returns whether a file name was generated for one run.
fn is_random(name: &str) -> bool {
    let digits = name.bytes().filter(u8::is_ascii_digit).count();
    name.starts_with("tmp") || name.starts_with(".tmp") || digits >= 4
}

/// Removes `:line` and `:line:column` from the end of a word.
pub(super) fn strip_position(word: &str) -> &str {
    let mut place = word;
    for _ in 0..2 {
        match place.rsplit_once(':') {
            Some((before, number)) if !before.is_empty() && super::is_number(number) => {
                place = before;
            }
            Some(_) | None => break,
        }
    }
    place
}

/// Removes the port after a host, if the word has one.
fn strip_port(word: &str) -> Option<&str> {
    let (host, port) = word.rsplit_once(':')?;
    let is_port = (4..=5).contains(&port.len()) && super::is_number(port);
    let is_host = host.is_empty() || host == "localhost" || host.contains(['.', ':']);
    (is_port && is_host).then_some(host)
}

/// Removes the hash that cargo appends to build artifacts.
fn strip_build_hash(path: &str) -> &str {
    match path.rsplit_once('-') {
        Some((name, hash)) if hash.len() == 16 && super::is_hex(hash) => name,
        Some(_) | None => path,
    }
}

/// Returns whether a word is a file name: with an extension that contains a letter.
pub(super) fn is_file(word: &str) -> bool {
    let name = word.rsplit(['/', '\\']).next().unwrap_or_default();
    name.rsplit_once('.').is_some_and(|(stem, extension)| {
        !stem.is_empty()
            && (1..=12).contains(&extension.len())
            && extension.bytes().all(|byte| byte.is_ascii_alphanumeric())
            && extension.bytes().any(|byte| byte.is_ascii_alphabetic())
    })
}
