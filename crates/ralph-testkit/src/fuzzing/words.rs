//! Small languages: shell commands as the guard reads them, globs, hosts, requests, keys, escapes,
//! secrets, and what git, test runners and the kernel print.

use std::net::IpAddr;
use std::path::PathBuf;

use ralph_core::checking::empty_test_run::TestCount;
use ralph_core::checking::secret::{MASK, is_secret_name, known_secrets, mask_command_line};
use ralph_core::checking::stuck::{ErrorHasher, FailingChecks};
use ralph_core::http_head::{HttpHead, find_head_end};
use ralph_core::plain::Plain;
use ralph_core::sandbox::addresses::{AddressRange, classify_address, resolve_embedded};
use ralph_core::sandbox::hosts::{Host, HostPattern, parse_authority};
use ralph_guard::{
    GuardContext, GuardedToolCall, ProtectedPlaces, decide_call, inspect_call, normalize_lexically,
};
use ralph_io::mask::Masker;
use ralph_model::glob::{Pattern, is_in_scope};
use ralph_model::guard_policy::GuardPolicy;
use ralph_model::task::ListOwner;
use ralph_model::text;
use ralph_model::version::Version;
use ralph_ui::sanitize;
use serde_json::json;

use super::pieces::{pieces, text_pieces};
use super::{FuzzForm, FuzzTarget};

/// The targets of this file.
pub(super) const TARGETS: &[FuzzTarget] = &[
    FuzzTarget {
        name: "guard",
        run: guard,
        form: FuzzForm::Bytes,
        seeds: &["crates/ralph-guard/tests/data"],
        words: &[
            "rm -rf ",
            "/",
            "~",
            "$HOME",
            "${",
            "}",
            "$(",
            ")",
            "((",
            "))",
            "`",
            "'",
            "\"",
            "\\",
            "|",
            "&&",
            "||",
            ";",
            "\n",
            "<<EOF\n",
            "EOF\n",
            "<<<",
            "> ",
            ">> ",
            "2>&1",
            "<(",
            "{a,b}",
            "{1..9}",
            "{1..999999999}",
            "if ",
            "; then ",
            "; fi",
            "while ",
            "; do ",
            "; done",
            "for x in ",
            "case ",
            " in ",
            ";; ",
            "esac",
            "function f() {",
            "[[ ",
            " ]]",
            "eval ",
            "bash -c ",
            "sudo ",
            "xargs ",
            "find . -exec ",
            "env -S ",
            "python3 -c ",
            "git push --force",
            "git -C ",
            "curl http://",
            "base64 -d",
            "${x:-",
            "${x//",
            "${x:0:3}",
            "${!x}",
            "$'\\x41'",
            "*",
            "?",
            "[a-z]",
            "x=1 ",
            "export ",
            "alias ",
            "trap ",
            "exec ",
            "source ",
            "tee ",
            "dd of=",
            "psql -c 'DROP",
            "kill -9 ",
            ":(){ :|:& };:",
            "coproc ",
            "select ",
            "$((1+",
            "!(",
        ],
    },
    FuzzTarget {
        name: "globs",
        run: globs,
        form: FuzzForm::Bytes,
        seeds: &[],
        words: &[
            "*", "**", "**/", "/**", "?", "[", "]", "[!a]", "[a-z]", "{", "}", ",", "\\", "\n",
            "/", "!",
        ],
    },
    FuzzTarget {
        name: "network",
        run: network,
        form: FuzzForm::Bytes,
        seeds: &[],
        words: &[
            "*.",
            ".",
            ":443",
            "[::1]",
            "::ffff:127.0.0.1",
            "127.0.0.1",
            "0x7f000001",
            "017700000001",
            "example.com",
            "localhost",
            "/8",
            "/128",
            "://",
            "xn--",
            "64:ff9b::",
            "2002:",
            "fe80::1%eth0",
        ],
    },
    FuzzTarget {
        name: "escapes",
        run: escapes,
        form: FuzzForm::Bytes,
        seeds: &["docs/demo.svg"],
        words: &[
            "\x1b[31m",
            "\x1b]0;",
            "\x07",
            "\x1b\\",
            "\x1b[2J",
            "\u{9b}",
            "\u{9d}",
            "\u{90}",
            "\u{202e}",
            "\u{200d}",
            "\u{feff}",
            "\u{2028}",
            "\r",
            "\r\n",
            "\t",
            "\x08",
            "\u{e0001}",
            "\x1bP",
            "\x1b(0",
        ],
    },
    FuzzTarget {
        name: "http",
        run: http,
        form: FuzzForm::Bytes,
        seeds: &[],
        words: &[
            "GET ",
            "POST ",
            "CONNECT ",
            "http://",
            "\r\n",
            "/",
            "?token=",
            " HTTP/1.1\r\n",
            "Host: 127.0.0.1:4711\r\n",
            "Origin: ",
            "Content-Length: ",
            "Content-Type: application/json",
            "X-Ralph-Token: ",
            "0123456789abcdef0123456789abcdef",
            "Cookie: ",
            "\r\n\r\n",
            "Transfer-Encoding: chunked",
            "/run/",
            "/events",
            "/request",
            "%2e%2e",
            "..",
        ],
    },
    FuzzTarget {
        name: "secrets",
        run: secrets,
        form: FuzzForm::Bytes,
        seeds: &[],
        words: &[
            "s3cret-value-1",
            "s3cret-",
            "value-1",
            "czNjcmV0LXZhbHVlLTE",
            "s3cret%2Dvalue%2D1",
            "7333637265742d76616c75652d31",
            "ghp_aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5",
            "sk-ant-",
            "AKIAIOSFODNN7EXAMPLE",
            "-----BEGIN PRIVATE KEY-----",
            "-----END PRIVATE KEY-----",
            "eyJ",
            "Bearer ",
            "https://user:",
            "@",
            "\\n",
            "\n",
            "xox",
            "\"s3cret\\u002dvalue-1\"",
            "=",
        ],
    },
    FuzzTarget {
        name: "checks-output",
        run: output,
        form: FuzzForm::Bytes,
        seeds: &["crates/ralph-core/tests/data/runners"],
        words: &[
            "test result: ok. 0 passed; 0 failed;",
            "running 0 tests",
            "FAIL ",
            "--- FAIL: ",
            "ok  \t",
            "collected 0 items",
            "Tests:",
            "not ok 1",
            "1..0",
            "# TODO",
            "0x7ffe",
            "at line 12:34",
            "2026-11-15T00:48:30Z",
            "/tmp/x123",
            "1.234s",
            "\u{1b}[31m",
            "\n",
            "thread 'main' panicked",
            "error[E0308]: ",
            " --> src/main.rs:1:1",
            "Ran 0 tests",
            "v1.2.3",
        ],
    },
];

fn around() -> GuardContext<'static> {
    let variables = [("USER", "dev"), ("TMPDIR", "/tmp"), ("CLAUDE_PROJECT_DIR", "/p")];
    GuardContext {
        protected: ProtectedPlaces {
            project: vec!["/p".into()],
            state: vec!["/state/p-1".into()],
            tasks_file: vec!["/p/ralph/tasks.json".into()],
            keeper: Some(ListOwner::Ralph),
            patterns: vec![Pattern::new("/ci/**").expect("a glob")],
        },
        home: Some("/home/dev".into()),
        cwd: "/p".into(),
        temporary: ["/tmp", "/var/tmp"].map(PathBuf::from).into(),
        variables: variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        resolve: &|path| normalize_lexically(path),
    }
}

/// What the guard says is bounded, whatever it is shown, and the same each time.
fn guard(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let around = around();
    for (tool, field) in [("Bash", "command"), ("Write", "file_path")] {
        let call = GuardedToolCall::new(tool, &json!({ field: text }));
        let findings = inspect_call(&call, &around);
        for refusal in &findings.refusals {
            assert!(refusal.reason().len() < 4_000, "a reason is short");
            assert!(!refusal.category.name().is_empty());
        }
        let _ = decide_call(&GuardPolicy::default(), &findings);
        if bytes.len() < 2_000 {
            assert_eq!(inspect_call(&call, &around), findings, "the same each time");
        }
    }
}

/// A pattern in the first line, a path in the second.
fn globs(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (glob, path) = text.split_once('\n').unwrap_or((&text, "src/main.rs"));
    if let Ok(pattern) = Pattern::new(glob) {
        assert_eq!(pattern.as_str(), glob);
        let matches = pattern.matches(path);
        let written = serde_json::to_string(&pattern).expect("patterns are JSON");
        let again: Pattern = serde_json::from_str(&written).expect("patterns read back");
        assert_eq!(again.matches(path), matches);
        let _ = is_in_scope(&[pattern], path);
    }
    if let Some(exact) = Pattern::for_path(path) {
        let plain: Vec<&str> = path.split('/').filter(|it| !matches!(*it, "" | ".")).collect();
        assert!(exact.matches(&plain.join("/")), "a path matches itself");
    }
}

fn network(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(pattern) = HostPattern::parse_pattern(&text) {
        let again = HostPattern::parse_pattern(&pattern.to_string());
        assert_eq!(again.as_ref(), Ok(&pattern), "a pattern is read as it is written");
    }
    if let Ok(host) = Host::parse_host(&text) {
        assert_eq!(Host::parse_host(&host.to_string()).as_ref(), Ok(&host));
        assert_eq!(parse_authority(&format!("{host}:443")), Some((host, 443)));
    }
    if let Ok(address) = text.trim().parse::<IpAddr>() {
        let _ = (classify_address(address), resolve_embedded(address));
    }
    if let Ok(range) = AddressRange::parse_range(&text)
        && let Some((address, _)) = text.split_once('/')
        && let Ok(address) = address.parse()
    {
        assert!(range.contains_address(address));
    }
}

/// Fuzzes the parser of request heads of the live page, the proxy and the fake models.
fn http(bytes: &[u8]) {
    let Ok(Some(end)) = find_head_end(bytes, bytes.len()) else { return };
    if let Ok(head) = HttpHead::parse(&bytes[..end]) {
        let mut written = format!("{} {} {}\r\n", head.method, head.target, head.version);
        for (name, value) in &head.headers {
            written.push_str(&format!("{name}: {value}\r\n"));
        }
        written.push_str("\r\n");
        let end = find_head_end(written.as_bytes(), written.len());
        assert_eq!(end, Ok(Some(written.len())), "one head: {written:?}");
        assert_eq!(HttpHead::parse(written.as_bytes()).as_ref(), Ok(&head), "{written:?}");
    }
}

fn is_control(character: char) -> bool {
    character.is_control() && !matches!(character, '\n' | '\t')
}

fn escapes(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let harmless = sanitize::sanitize_text(&text);
    assert!(!harmless.chars().any(is_control), "no control characters");
    assert_eq!(sanitize::sanitize_text(&harmless), harmless, "what is harmless stays as it is");
    let line = sanitize::sanitize_line(&text, 80, "\u{2026}");
    assert!(line.chars().count() <= 81 && !line.contains(['\n', '\u{1b}']), "one line: {line:?}");
    assert!(text.starts_with(sanitize::cut_chars(&text, 10)));
    // Plain text is the same however it is cut.
    let plain = |pieces: &[&[u8]]| {
        let (mut reader, mut plain) = (Plain::default(), String::new());
        for piece in pieces {
            reader.feed(piece, &mut plain);
        }
        reader.finish(&mut plain);
        plain
    };
    let whole = plain(&[bytes]);
    assert_eq!(whole, plain(&pieces(bytes)), "however it is cut");
    assert!(!whole.chars().any(is_control), "no control characters: {whole:?}");
    for limit in [0, 1, 80] {
        assert!(text::shorten_to_line(&text, limit).chars().count() <= limit + 1);
        assert!(text::join_to_line(&text, limit).chars().count() <= limit + 1);
    }
    let _ = text::excerpt_text(&text, 100);
    let excerpt = |pieces: &[&str]| {
        let mut excerpt = text::Excerpt::with_equal_ends(100);
        for piece in pieces {
            excerpt.feed_text(piece);
        }
        (excerpt.to_text(), excerpt.is_cut())
    };
    assert_eq!(excerpt(&[&text]), excerpt(&text_pieces(&text)), "however it is cut");
}

/// Masking a stream is masking the whole, and no secret is left.
fn secrets(bytes: &[u8]) {
    thread_local! {
        static MASKER: Masker = Masker::new(["s3cret-value-1", "pa\"ss\\word\n2"].map(str::to_owned));
    }
    let masker = MASKER.with(Clone::clone);
    let whole = masker.mask_bytes(bytes);
    let mut stream = masker.new_stream();
    let mut streamed: Vec<u8> = Vec::new();
    for piece in pieces(bytes) {
        streamed.extend_from_slice(&stream.mask_next(piece));
    }
    streamed.extend(stream.finish());
    // Two masks in a row are as good as one.
    let joined = |bytes: &[u8]| {
        let (mut text, twice) = (String::from_utf8_lossy(bytes).into_owned(), MASK.repeat(2));
        while text.contains(&twice) {
            text = text.replace(&twice, MASK);
        }
        text
    };
    assert_eq!(joined(&streamed), joined(&whole), "however it is cut");
    let is_in = |secret: &[u8]| whole.windows(secret.len()).any(|window| window == secret);
    assert!(!is_in(b"s3cret-value-1"), "the secret is gone");
    assert!(whole.len() <= bytes.len().max(1) * MASK.len(), "a mask is short");
    let text = String::from_utf8_lossy(bytes);
    let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
    assert_eq!(mask_command_line(&words).len(), words.len());
    is_secret_name(&text);
    known_secrets::is_worth_hiding(&text);
}

/// What checks print, however it is cut.
fn output(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let read = |pieces: &[&str]| {
        let mut hasher = ErrorHasher::for_directory("test", "/project");
        let (mut failing, mut count) = (FailingChecks::default(), TestCount::default());
        for piece in pieces {
            hasher.feed_text(piece);
            failing.feed_text(piece);
            count.feed_text(piece);
        }
        (hasher.finish_hash(), failing.names(), count.tests_seen())
    };
    let whole = read(&[&text]);
    assert_eq!(whole, read(&text_pieces(&text)), "however it is cut");
    assert!(whole.1.len() <= 100 && whole.1.iter().all(|name| name.chars().count() <= 201));
    if let Some(version) = Version::find_in(&text) {
        assert_eq!(Version::find_in(&version.to_string()), Some(version));
    }
}
