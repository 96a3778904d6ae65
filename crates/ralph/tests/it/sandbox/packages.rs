//! `sandbox.network.packages`: agents and gates fetch packages from where the user's tools do.

use std::fs;
use std::net::TcpListener;

use ralph_testkit::sealed::{Finished, Running, Sealed};
use serde_json::json;

use super::backends;

fn ralph(sealed: &Sealed, backend: &str, words: &[&str]) -> Finished {
    let mut command = sealed.build_command(env!("CARGO_BIN_EXE_ralph"));
    command.args(words).env("RALPH_SANDBOX_BACKEND", backend);
    Running::start_command(command).wait_for_end()
}

/// A project whose agent and gate connect to a server on this machine.
fn project_with_server(manifest: &str, server: &TcpListener) -> Sealed {
    let sealed = Sealed::with_repository(env!("CARGO_BIN_EXE_ralph"));
    let port = server.local_addr().expect("an address").port();
    let connect = format!("bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port}'");
    sealed.write_file(manifest, "{}");
    sealed.write_script(
        &json!([{ "do": [
            { "run": { "command": format!("{connect} && touch fetched; true") } },
            { "text": "<response>DONE</response>" },
        ] }]),
        &json!({ "guardrails": [{ "command": connect }] }),
    );
    sealed
}

fn write_own_settings(sealed: &Sealed, packages: bool) {
    let own = sealed.root().join("home/.config/ralph");
    fs::create_dir_all(&own).expect("a directory");
    let settings = json!({ "sandbox": { "network": { "packages": packages } } });
    fs::write(own.join("settings.json"), settings.to_string()).expect("written");
}

#[test]
fn servers_of_package_managers_are_reached_by_agents_and_gates() {
    for backend in backends() {
        let server = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let port = server.local_addr().expect("an address").port();
        let url = format!("http://127.0.0.1:{port}/");
        for is_asked in [false, true] {
            let sealed = project_with_server("package.json", &server);
            if is_asked {
                let answer =
                    format!("#!/bin/sh\n[ \"$*\" = 'config get registry' ] && echo {url}\n");
                sealed.write_program("npm", &answer);
            } else {
                fs::write(sealed.root().join("home/.npmrc"), format!("registry={url}\n"))
                    .expect("written");
            }
            write_own_settings(&sealed, true);
            let words = ["sandbox", "exec", "--", "sh", "-c", "cat ~/.npmrc || true"];
            let end = ralph(&sealed, backend, &words);
            assert_eq!(end.stdout.contains(&url), !is_asked, "{backend}: {}", end.stderr);
            let end = ralph(&sealed, backend, &["run", "-p", "Work.", "-m", "1"]);
            assert_eq!(end.code, Some(0), "{backend}: {}{}", end.stdout, end.stderr);
            assert!(sealed.project_dir().join("fetched").exists(), "{backend}: {}", end.stderr);
            write_own_settings(&sealed, false);
            let end = ralph(&sealed, backend, &["run", "-p", "Work.", "-m", "1"]);
            assert_eq!(end.code, Some(1), "{backend}: {}{}", end.stdout, end.stderr);
        }
    }
}

#[test]
fn servers_that_only_the_project_names_need_trust() {
    let backend = backends()[0];
    let server = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let port = server.local_addr().expect("an address").port();
    let sealed = project_with_server("package.json", &server);
    sealed.write_file(".npmrc", &format!("registry=http://127.0.0.1:{port}/\n"));
    write_own_settings(&sealed, true);
    let words = ["run", "-p", "Work.", "-m", "1"];
    let end = ralph(&sealed, backend, &words);
    assert_eq!(end.code, Some(2), "{}{}", end.stdout, end.stderr);
    let names = format!("names 127.0.0.1:{port}: agents and gates would fetch packages from there");
    assert!(end.stderr.contains(&names), "{}", end.stderr);
    sealed.trust_project(&[]);
    let end = ralph(&sealed, backend, &words);
    assert_eq!(end.code, Some(0), "{}{}", end.stdout, end.stderr);
    sealed.write_file(".npmrc", "registry=https://npm.example.com/\n");
    let end = ralph(&sealed, backend, &words);
    assert_eq!(end.code, Some(2), "another server needs trust again: {}", end.stderr);
}

#[test]
fn a_tool_without_a_known_server_is_warned_about() {
    let backend = backends()[0];
    let server = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let sealed = project_with_server("Cargo.toml", &server);
    write_own_settings(&sealed, true);
    let end = ralph(&sealed, backend, &["run", "-p", "Work.", "-m", "1"]);
    let output = end.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(output.contains("it is not known from where cargo fetches packages"), "{output}");
}
